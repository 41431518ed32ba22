//! The pool in forked children.
//!
//! This program has a C `main`, as the extension module has none of Rust's own: Rust's `main`
//! installs a handler of stack overflows, whose lock every starting thread takes. A child that is
//! forked meanwhile finds it locked and cannot start threads.
#![no_main]
#![allow(clippy::unwrap_used, clippy::panic)]

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{mpsc, Barrier};
use std::time::Duration;

use tessarr_engine::error::Kind;
use tessarr_engine::pool::{parallel_for, set_threads, spawn};

#[no_mangle]
extern "C" fn main(_: libc::c_int, _: *const *const libc::c_char) -> libc::c_int {
    let tests: [(&str, fn()); 2] = [
        ("forked child has its own pool", forked_child_has_its_own_pool),
        ("fork inside task is an error in the child", fork_inside_task_is_an_error_in_the_child),
    ];
    let failed = tests.iter().filter(|(name, test)| {
        let failed = catch_unwind(test).is_err();
        println!("{name}: {}", if failed { "FAILED" } else { "ok" });
        failed
    });
    i32::from(failed.count() > 0)
}

fn count_runs(tasks: usize, max_threads: usize) {
    let runs: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
    parallel_for(tasks, max_threads, None, &|index| {
        runs[index].fetch_add(1, Ordering::Relaxed);
        Ok(())
    })
    .unwrap();
    assert!(runs.iter().all(|count| count.load(Ordering::Relaxed) == 1));
}

/// Run `test` in a forked child; its panic or hang fails the test.
fn in_child(test: impl FnOnce()) {
    // SAFETY: the child runs only the test and leaves by `_exit`; glibc's allocator works after
    // fork.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        // SAFETY: plain system calls.
        unsafe { libc::alarm(20) };
        let code = i32::from(catch_unwind(AssertUnwindSafe(test)).is_err());
        // SAFETY: ends the child without running the parent's handlers.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: the child of this process, and a local variable.
    let waited = unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!((waited, status), (child, 0));
}

/// Sets its flag when it is dropped, by a panic too.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A child that is forked while the parent's workers are busy (and lock locks) has a working pool.
fn forked_child_has_its_own_pool() {
    set_threads(4);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    parallel_for(16, 4, None, &|_| Ok(())).unwrap();
                }
            });
        }
        let _stop = SetOnDrop(&stop);
        for _ in 0..30 {
            in_child(|| {
                count_runs(200, 4);
                let (sender, receiver) = mpsc::channel();
                spawn(0, move |_| sender.send(5).unwrap());
                assert_eq!(receiver.recv().unwrap(), 5);
                // The same for a grandchild.
                in_child(|| count_runs(50, 4));
            });
        }
    });
    count_runs(200, 4);
}

/// A task that forks: the child's job ends with an error instead of blocking forever.
fn fork_inside_task_is_an_error_in_the_child() {
    set_threads(2);
    let (caller, barrier) = (std::thread::current().id(), Barrier::new(2));
    let forked = AtomicU64::new(u64::MAX);
    let outcome = parallel_for(2, 2, None, &|_| {
        barrier.wait();
        if std::thread::current().id() == caller {
            // SAFETY: the child only returns from the job and leaves by `_exit`.
            forked.store(unsafe { libc::fork() } as u64, Ordering::SeqCst);
        } else {
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    });
    let child = forked.into_inner();
    if child == 0 {
        let is_reported = outcome.is_err_and(|error| error.kind == Kind::Internal);
        // SAFETY: ends the child.
        unsafe { libc::_exit(i32::from(!is_reported)) };
    }
    outcome.unwrap();
    let mut status = 0;
    // SAFETY: the child of this process, and a local variable.
    unsafe { libc::waitpid(child as libc::pid_t, &mut status, 0) };
    assert_eq!(status, 0);
}
