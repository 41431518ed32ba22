//! Tests of the pool with errors, panics, nesting, interrupts and load; `tests/fork.rs` has those with
//! forks.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::HashSet;
use std::sync::atomic::AtomicU64;
use std::sync::{mpsc, Barrier};
use std::time::Instant;

use super::*;

/// Locked by tests that need a certain limit; the other tests accept any limit.
static LIMIT_LOCK: Mutex<()> = Mutex::new(());

fn with_limit<T>(limit: usize, test: impl FnOnce() -> T) -> T {
    let _guard = LIMIT_LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    set_threads(limit);
    let result = test();
    set_threads(0);
    result
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

/// Every task runs exactly once, for any number of tasks and threads.
#[test]
fn every_task_runs_once() {
    with_limit(4, || {
        for tasks in [0, 1, 2, 3, 7, 100, 5000] {
            for max_threads in [0, 1, 2, 3, 64, usize::MAX] {
                count_runs(tasks, max_threads);
            }
        }
    });
}

/// Without helpers the tasks run on the calling thread, in order.
#[test]
fn single_thread_runs_tasks_in_order() {
    let caller = std::thread::current().id();
    let seen = Mutex::new(Vec::new());
    let task = |index| {
        assert_eq!(std::thread::current().id(), caller);
        seen.lock().unwrap().push(index);
        Ok(())
    };
    parallel_for(5, 1, None, &task).unwrap();
    parallel_for(1, 8, None, &task).unwrap();
    with_limit(1, || parallel_for(3, 8, None, &task)).unwrap();
    assert_eq!(*seen.lock().unwrap(), [0, 1, 2, 3, 4, 0, 0, 1, 2]);
}

/// As many threads as the limit allows work on one job; workers have their own names.
#[test]
fn workers_join_up_to_the_limit() {
    with_limit(4, || {
        let (barrier, threads) = (Barrier::new(4), Mutex::new(HashSet::new()));
        parallel_for(4, 9, None, &|_| {
            threads.lock().unwrap().insert(std::thread::current().name().map(str::to_owned));
            barrier.wait();
            Ok(())
        })
        .unwrap();
        let threads = threads.into_inner().unwrap();
        assert_eq!(threads.len(), 4);
        let named = |name: &Option<String>| name.as_ref().is_some_and(|name| name.starts_with("tessarr-"));
        assert_eq!(threads.iter().filter(|name| named(name)).count(), 3);
    });
}

/// The limit of a job applies although more workers are free.
#[test]
fn job_respects_its_thread_limit() {
    with_limit(4, || {
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        parallel_for(200, 2, None, &|_| {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_micros(50));
            now.fetch_sub(1, Ordering::SeqCst);
            Ok(())
        })
        .unwrap();
        assert!(most.into_inner() <= 2);
    });
}

/// After an error no more tasks start, and `parallel_for` returns the error.
#[test]
fn first_error_stops_the_job() {
    with_limit(4, || {
        let runs = AtomicUsize::new(0);
        let error = parallel_for(1_000_000, 4, None, &|index| {
            runs.fetch_add(1, Ordering::Relaxed);
            if index == 10 {
                return Err(Error::data("ten"));
            }
            std::thread::sleep(Duration::from_micros(20));
            Ok(())
        })
        .unwrap_err();
        assert_eq!((error.kind, error.message.as_str()), (Kind::Data, "ten"));
        assert!(runs.into_inner() < 100_000);
    });
}

/// `parallel_for` returns the error of the lowest task.
#[test]
fn error_of_lowest_task_is_returned() {
    with_limit(4, || {
        let barrier = Barrier::new(4);
        let error = parallel_for(4, 4, None, &|index| {
            barrier.wait();
            Err(Error::data(format!("task {index}")))
        })
        .unwrap_err();
        assert_eq!(error.message, "task 0");
    });
}

/// While all workers are busy, the waiting thread runs the operation itself, once.
#[test]
fn waiting_thread_runs_its_operation() {
    with_limit(2, || {
        let busy = Arc::new(Mutex::new(()));
        let held = busy.lock().unwrap();
        for _ in 0..2 {
            let busy = busy.clone();
            spawn(0, move |_| drop(busy.lock().unwrap()));
        }
        let (sender, receiver) = mpsc::channel();
        let again = sender.clone();
        let queued = spawn(0, move |runner| sender.send((runner, std::thread::current().id())).unwrap());
        queued.help();
        queued.help();
        let here = std::thread::current().id();
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [(Runner::Caller, here)]);
        drop(held);
        spawn(0, move |runner| again.send((runner, std::thread::current().id())).unwrap());
        let others: Vec<_> = receiver.iter().collect();
        assert!(matches!(others[..], [(Runner::Worker, thread)] if thread != here));
    });
}

/// Running tasks end before `parallel_for` returns an error.
#[test]
fn error_is_returned_after_running_tasks() {
    with_limit(2, || {
        let (barrier, ended) = (Barrier::new(2), AtomicBool::new(false));
        let outcome = parallel_for(2, 2, None, &|index| {
            barrier.wait();
            if index == 0 {
                return Err(Error::data("first"));
            }
            std::thread::sleep(Duration::from_millis(30));
            ended.store(true, Ordering::SeqCst);
            Ok(())
        });
        assert!(outcome.is_err() && ended.load(Ordering::SeqCst));
    });
}

/// A panic becomes an internal error with its message, on any thread, and the pool goes on.
#[test]
fn panic_is_internal_error() {
    for max_threads in [1, 4] {
        let error = parallel_for(8, max_threads, None, &|index| {
            assert!(index != 3, "task {index} is bad");
            Ok(())
        })
        .unwrap_err();
        assert_eq!(error.kind, Kind::Internal);
        assert!(error.message.contains("task 3 is bad"), "{error}");
    }
    count_runs(100, 4);
}

/// Jobs inside jobs inside jobs end, for any limit.
#[test]
fn nested_jobs_end() {
    for limit in [1, 2, 4] {
        with_limit(limit, || {
            let runs = AtomicUsize::new(0);
            parallel_for(8, 8, None, &|_| {
                parallel_for(8, 8, None, &|_| {
                    parallel_for(8, 8, None, &|_| {
                        runs.fetch_add(1, Ordering::Relaxed);
                        Ok(())
                    })
                })
            })
            .unwrap();
            assert_eq!(runs.into_inner(), 512);
        });
    }
}

/// Ctrl-C between the caller's tasks stops the job, also on one thread.
#[test]
fn interrupt_between_tasks_stops_the_job() {
    for max_threads in [1, 4] {
        let runs = AtomicUsize::new(0);
        let error = parallel_for(usize::MAX / 2, max_threads, Some(&|| true), &|_| {
            runs.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(1));
            Ok(())
        })
        .unwrap_err();
        assert_eq!(error.kind, Kind::Interrupted);
        assert!(runs.into_inner() < 10_000);
    }
}

/// While the caller waits for a helper it checks for interrupts, more than once.
#[test]
fn waiting_caller_checks_for_interrupts() {
    with_limit(2, || {
        let (caller, barrier) = (std::thread::current().id(), Barrier::new(2));
        let (checks, released) = (AtomicUsize::new(0), AtomicBool::new(false));
        let interrupt = || {
            released.store(checks.fetch_add(1, Ordering::SeqCst) == 2, Ordering::SeqCst);
            released.load(Ordering::SeqCst)
        };
        let error = parallel_for(2, 2, Some(&interrupt), &|_| {
            barrier.wait();
            while std::thread::current().id() != caller && !released.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(())
        })
        .unwrap_err();
        assert_eq!(error.kind, Kind::Interrupted);
        assert_eq!(checks.into_inner(), 3);
    });
}

/// A quick job never checks for interrupts.
#[test]
fn quick_job_does_not_check_for_interrupts() {
    parallel_for(2, 1, Some(&|| panic!("the interrupt check was called")), &|_| Ok(())).unwrap();
}

/// All spawned operations run, in order with one worker, and survive a panic.
#[test]
fn spawned_operations_run() {
    for limit in [1, 3] {
        with_limit(limit, || {
            let (sender, receiver) = mpsc::channel();
            for index in 0..500 {
                let sender = sender.clone();
                spawn(0, move |_| {
                    assert!(index != 7, "operation 7 is bad");
                    sender.send(index).unwrap();
                });
            }
            drop(sender);
            let mut seen: Vec<i32> = receiver.iter().collect();
            if limit > 1 {
                seen.sort_unstable();
            }
            assert_eq!(seen, (0..500).filter(|&index| index != 7).collect::<Vec<_>>());
        });
    }
}

/// Operations that run jobs which run jobs end, with more operations than workers.
#[test]
fn spawned_operations_run_jobs() {
    with_limit(2, || {
        let (sender, receiver) = mpsc::channel();
        for _ in 0..20 {
            let sender = sender.clone();
            spawn(0, move |_| {
                count_runs(50, 4);
                sender.send(()).unwrap();
            });
        }
        drop(sender);
        assert_eq!(receiver.iter().count(), 20);
    });
}

/// The numbers of this process's threads that have a worker's name.
#[cfg(target_os = "linux")]
fn workers() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.starts_with("tessarr-")).count()
}

/// A lower limit ends idle workers; a higher limit creates new ones.
#[test]
#[cfg(target_os = "linux")]
fn limit_changes_number_of_workers() {
    let gather = |count| {
        let barrier = Barrier::new(count);
        parallel_for(count, count, None, &|_| {
            barrier.wait();
            Ok(())
        })
        .unwrap();
    };
    with_limit(6, || {
        gather(6);
        assert!(workers() >= 5);
        set_threads(2);
        let since = Instant::now();
        while workers() > 2 {
            assert!(since.elapsed() < Duration::from_secs(20), "{} workers stay", workers());
            std::thread::sleep(Duration::from_millis(1));
        }
        set_threads(5);
        gather(5);
    });
}

/// Many callers with many tiny jobs and operations lose and repeat nothing.
#[test]
fn stress() {
    with_limit(4, || {
        let (jobs, operations) = (AtomicU64::new(0), std::sync::Arc::new(AtomicU64::new(0)));
        std::thread::scope(|scope| {
            for seed in 0..4usize {
                let (jobs, operations) = (&jobs, &operations);
                scope.spawn(move || {
                    for round in 0..2000usize {
                        let tasks = (seed * 7 + round) % 9;
                        parallel_for(tasks, 1 + round % 5, Some(&|| false), &|_| {
                            jobs.fetch_add(1, Ordering::Relaxed);
                            Ok(())
                        })
                        .unwrap();
                        jobs.fetch_sub(tasks as u64, Ordering::Relaxed);
                        if round % 10 == 0 {
                            let operations = operations.clone();
                            spawn(0, move |_| {
                                operations.fetch_add(1, Ordering::SeqCst);
                            });
                            set_threads(1 + round / 10 % 4);
                        }
                    }
                });
            }
        });
        assert_eq!(jobs.into_inner(), 0);
        let since = Instant::now();
        while operations.load(Ordering::SeqCst) < 800 {
            assert!(since.elapsed() < Duration::from_secs(20));
            std::thread::yield_now();
        }
    });
}

/// Waiting tasks run concurrently on more threads than the limit, each once.
#[test]
fn waiting_tasks_have_separate_threads() {
    let runs: Vec<AtomicUsize> = (0..100).map(|_| AtomicUsize::new(0)).collect();
    let together = Barrier::new(10);
    with_limit(1, || {
        wait_for(100, 10, None, &|index| {
            together.wait();
            runs[index].fetch_add(1, Ordering::Relaxed);
            Ok(())
        })
        .unwrap();
    });
    assert!(runs.iter().all(|count| count.load(Ordering::Relaxed) == 1));
}

/// The first error ends waiting tasks, and so does an interrupt.
#[test]
fn waiting_tasks_end_with_an_error_or_an_interrupt() {
    let failed = wait_for(1000, 4, None, &|index| match index {
        7 => Err(Error::internal("seven")),
        _ => Ok(()),
    });
    assert_eq!(failed.unwrap_err().message, "seven");
    let ran = AtomicUsize::new(0);
    let interrupted = wait_for(100_000, 2, Some(&|| true), &|_| {
        ran.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(10));
        Ok(())
    });
    assert_eq!(interrupted.unwrap_err().kind, Kind::Interrupted);
    assert!(ran.load(Ordering::Relaxed) < 1000);
    let panicked = wait_for(10, 4, None, &|_| panic!("now"));
    assert_eq!(panicked.unwrap_err().kind, Kind::Internal);
}

/// Waiting operations run concurrently on more threads than the limit; the threads end when no
/// operations are left.
#[test]
#[cfg(target_os = "linux")]
fn waiting_operations_have_separate_threads() {
    let waiting_threads = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
        names.filter(|name| name.starts_with("tessarr-io")).count()
    };
    with_limit(1, || {
        let together = std::sync::Arc::new(Barrier::new(10));
        let (sender, receiver) = mpsc::channel();
        for index in 0..100 {
            let (sender, together) = (sender.clone(), together.clone());
            spawn(10, move |_| {
                together.wait();
                sender.send(index).unwrap();
            });
        }
        drop(sender);
        let mut seen: Vec<i32> = receiver.iter().collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..100).collect::<Vec<_>>());
        assert!(waiting_threads() <= 10);
        let since = Instant::now();
        while waiting_threads() > 0 {
            assert!(since.elapsed() < Duration::from_secs(20), "{} threads stay", waiting_threads());
            std::thread::sleep(Duration::from_millis(10));
        }
    });
}

/// The number of workers never exceeds the number of seats, however workers wake each other.
#[test]
#[cfg(target_os = "linux")]
fn workers_do_not_exceed_seats() {
    let pool: &'static Pool = Box::leak(Box::new(Pool {
        state: Mutex::default(),
        work: Condvar::new(),
        generation: GENERATION.load(Ordering::Relaxed),
        kind: PoolKind::Help,
        max_waiting: 1.into(),
    }));
    for tasks in [2, 10, 40] {
        let together = Barrier::new(tasks);
        let meet = |_| {
            together.wait();
            Ok(())
        };
        let job = Job::new(tasks, &meet);
        pool.help(&job, tasks - 1, &mut { InterruptCheck::DISABLED }).unwrap();
        assert!(pool.lock().alive.len() < tasks);
    }
}

/// The number of waiting threads is limited, for any number of jobs and tasks.
#[test]
fn waiting_threads_are_limited() {
    let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                wait_for(400, 200, None, &|_| {
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    std::thread::sleep(Duration::from_millis(5));
                    now.fetch_sub(1, Ordering::SeqCst);
                    Ok(())
                })
                .unwrap();
            });
        }
    });
    // Tasks of other tests may wait at the same time.
    assert!((4..=MAX_HELPERS + 4).contains(&most.into_inner()));
}

/// Withdrawn operations do not run and leave the queue; the others stay in order.
#[test]
fn withdrawn_operations_leave_the_queue() {
    clear_pools_in_children();
    let generation = GENERATION.load(Ordering::Relaxed);
    let pool: &'static Pool = Box::leak(Box::new(Pool {
        state: Mutex::default(),
        work: Condvar::new(),
        generation,
        kind: PoolKind::Work,
        max_waiting: 1.into(),
    }));
    let (sender, receiver) = mpsc::channel();
    let queue = |number: usize| {
        let sender = sender.clone();
        let queued = QueuedOperation {
            pool: Some(pool),
            ..QueuedOperation::new(move |_| sender.send(number).unwrap())
        };
        pool.lock().operations.push_back(queued.clone());
        queued
    };
    let remaining = queue(0);
    for number in 1..1000 {
        queue(number).withdraw();
        assert!(pool.lock().operations.len() <= 3);
    }
    queue(1000);
    let long: Vec<QueuedOperation> = (1001..2000).map(queue).collect();
    long.iter().for_each(QueuedOperation::withdraw);
    long.iter().for_each(QueuedOperation::withdraw);
    assert!(pool.lock().operations.len() <= 6);
    remaining.help();
    remaining.withdraw();
    let left = std::mem::take(&mut pool.lock().operations);
    left.iter().for_each(|queued| queued.run(Runner::Worker));
    assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [0, 1000]);
}
