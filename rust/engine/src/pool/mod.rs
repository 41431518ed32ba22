//! The engine's worker threads.
//!
//! Three pools per process, made on first use: of threads that work, as many as there are cores; and
//! of threads that wait for something far away most of the time, one for each form of work, which
//! comes in two:
//!
//! * [`parallel_for`]: numbered tasks, run by the calling thread and whoever is
//!   idle. The job lives on the caller's stack; tasks are handed out by an atomic
//!   counter. The caller works until none are left, then waits only for tasks that
//!   are running elsewhere. Hence nested calls cannot deadlock: every wait is for a
//!   task deeper than the waiting one, and the deepest ones run.
//! * [`spawn`]: one operation that its caller does not wait for. It queues until a thread is
//!   free, or until somebody who waits for it does it himself: to wake a thread, and to be
//!   woken by it, takes longer than small ones do.
//!
//! Workers sleep on one condition variable. Who brings work wakes one of them, and
//! each that finds more to do than it takes wakes two others: the caller pays for one
//! wake-up however many join. Threads are created in the same way, when nobody is idle.
//!
//! After `fork` the child has none of the threads, and a lock may be held by one of
//! them for ever. So the child forgets the pools (they stay allocated, untouched) and
//! makes others when it needs them.

mod job;
mod mailbox;

use std::collections::VecDeque;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::{Error, Kind, Result};

pub use job::guarded;
use job::{Job, Watch};
pub use mailbox::Pile;

/// Looks at a job's helpers before the caller sleeps until they are done; about 3 µs.
const SPINS: usize = 64;

/// The process-wide limit; 0 until first asked for.
static LIMIT: AtomicUsize = AtomicUsize::new(0);

/// How long a thread that waits stays without work.
const IDLE: Duration = Duration::from_secs(1);

/// The most threads that run operations which wait.
const MOST_WAITERS: usize = 256;

/// The most threads that run tasks which wait, for all jobs.
const MOST_HELPERS: usize = 256;

/// The threads of this process that work; null before first use and in a forked child.
static WORKERS: AtomicPtr<Pool> = AtomicPtr::new(std::ptr::null_mut());

/// Those that run operations which wait.
static WAITERS: AtomicPtr<Pool> = AtomicPtr::new(std::ptr::null_mut());

/// Those that run tasks which wait.
static HELPERS: AtomicPtr<Pool> = AtomicPtr::new(std::ptr::null_mut());

/// How many forks lie between the first process and this one.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// The most threads that work for one operation, its calling thread included.
#[must_use]
pub fn threads() -> usize {
    match LIMIT.load(Ordering::Relaxed) {
        0 => {
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            // Another thread's `set_threads` in between counts.
            match LIMIT.compare_exchange(0, cores, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => cores,
                Err(limit) => limit,
            }
        }
        limit => limit,
    }
}

/// Set the process-wide limit of threads; 0 is the number of available cores.
/// Workers in excess end as soon as they are idle.
pub fn set_threads(limit: usize) {
    LIMIT.store(limit, Ordering::Relaxed);
    // SAFETY: a pool is never freed.
    if let Some(pool) = unsafe { WORKERS.load(Ordering::Acquire).as_ref() } {
        let _state = pool.lock();
        pool.work.notify_all();
    }
}

/// Run `task(0)` to `task(tasks - 1)`, on at most `max_threads` threads.
///
/// The calling thread takes part and returns when no task runs any more. With one
/// task or one thread everything runs on it, in order, without locks. The first
/// error ends the handing out of tasks and is returned (of several that run at the
/// same time, the one of the lowest task). A panic is a `Kind::Internal` error.
///
/// About every 50 ms the calling thread asks `interrupt`, between its tasks and
/// while it waits; true ends the handing out and the result is `Kind::Interrupted`.
pub fn parallel_for(
    tasks: usize,
    max_threads: usize,
    interrupt: Option<&dyn Fn() -> bool>,
    task: &(dyn Fn(usize) -> Result<()> + Sync),
) -> Result<()> {
    let interrupt = if tasks > 1 { interrupt } else { None };
    run(Duty::Work, tasks, max_threads.min(threads()), interrupt, task)
}

/// As [`parallel_for`], for tasks that wait for something far away: on up to `threads` threads for that, so
/// that waiting keeps no worker from its work.
pub fn wait_for(
    tasks: usize,
    threads: usize,
    interrupt: Option<&dyn Fn() -> bool>,
    task: &(dyn Fn(usize) -> Result<()> + Sync),
) -> Result<()> {
    run(Duty::Help, tasks, threads, interrupt, task)
}

/// Run tasks on at most so many threads, of which one is the caller's.
fn run(
    duty: Duty,
    tasks: usize,
    threads: usize,
    interrupt: Option<&dyn Fn() -> bool>,
    task: &(dyn Fn(usize) -> Result<()> + Sync),
) -> Result<()> {
    let job = Job::new(tasks, task);
    let mut watch = Watch::new(interrupt);
    match tasks.min(threads).saturating_sub(1) {
        0 => job.work(&mut watch),
        helpers => Pool::get(duty).help(&job, helpers, &mut watch)?,
    }
    if watch.interrupted {
        return Err(Error::new(Kind::Interrupted, "interrupted"));
    }
    job.outcome()
}

/// Run `operation` on a thread, as soon as one is free, in the order of the calls; or in the
/// thread of who waits for it, of which it is told.
///
/// Where `together` is more than there are workers, the operation is one that waits for something
/// far away most of the time, and so many of its kind may do so together.
///
/// The operation reports its own outcome; a panic in it ends it and nothing else.
/// A child made by `fork` does not run what its parent had queued.
pub fn spawn(together: usize, operation: impl FnOnce(Runner) + Send + 'static) -> Queued {
    let pool = Pool::get(if together > threads() { Duty::Wait } else { Duty::Work });
    pool.most.fetch_max(together.min(MOST_WAITERS), Ordering::Relaxed);
    let queued = Queued { pool: Some(pool), ..Queued::new(operation) };
    let mut state = pool.lock();
    state.operations.push_back(queued.clone());
    pool.recruit(state, 1);
    queued
}

/// Whose thread runs an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runner {
    /// A thread of a pool.
    Worker,
    /// Who waits for the operation, and may be interrupted.
    Caller,
}

/// An operation that a thread of a pool is to run.
#[derive(Clone)]
pub struct Queued {
    operation: Arc<Mutex<Option<Operation>>>,
    generation: u32,
    /// The pool in whose queue the operation is.
    pool: Option<&'static Pool>,
}

impl Queued {
    /// One that no thread runs, but who waits for it.
    pub fn new(operation: impl FnOnce(Runner) + Send + 'static) -> Queued {
        forget_pools_in_children();
        let generation = GENERATION.load(Ordering::Relaxed);
        Queued { operation: Arc::new(Mutex::new(Some(Box::new(operation)))), generation, pool: None }
    }

    /// Run it here, if nobody has begun it.
    pub fn help(&self) {
        if self.is_of_this_process() {
            self.run(Runner::Caller);
        }
    }

    /// Take the operation out of the queue, if no thread has begun it.
    pub fn withdraw(&self) {
        if !self.is_of_this_process() || self.take().is_none() {
            return;
        }
        if let Some(pool) = self.pool {
            pool.count_withdrawal();
        }
    }

    /// Whether this process has queued it, not one from which it was forked.
    #[must_use]
    pub fn is_of_this_process(&self) -> bool {
        self.generation == GENERATION.load(Ordering::Relaxed)
    }

    fn take(&self) -> Option<Operation> {
        // Whoever has the lock takes the operation; in a forked child it may be held for ever.
        self.operation.try_lock().ok().and_then(|mut operation| operation.take())
    }

    fn is_empty(&self) -> bool {
        self.operation.try_lock().is_ok_and(|operation| operation.is_none())
    }

    fn run(&self, runner: Runner) {
        let Some(operation) = self.take() else { return };
        // The panic hook has printed it; the operation's owner reports to its user.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| operation(runner))) {
            std::mem::forget(panic);
        }
    }
}

/// A job that workers may join. The pointer is good while the entry is queued or
/// the worker counts as active: `Pool::help` sees to both before it returns.
struct Entry {
    job: *const Job<'static>,
    /// How many more may join.
    seats: usize,
}

// SAFETY: a `Job` is shared between threads by design (its parts are `Sync`); the
// pointer's validity is argued above.
unsafe impl Send for Entry {}

type Operation = Box<dyn FnOnce(Runner) + Send>;

/// What the pool's lock guards.
#[derive(Default)]
struct State {
    jobs: VecDeque<Entry>,
    operations: VecDeque<Queued>,
    /// How many operations were withdrawn since empty entries last left the queue.
    withdrawn: usize,
    /// Which of the workers "tessarr-0", "tessarr-1", … exist.
    alive: Vec<bool>,
    /// Sleeping workers, those that were just woken included.
    idle: usize,
    /// Wake-ups that no worker has answered yet.
    waking: usize,
    /// Workers that were created and have not looked for work yet.
    starting: usize,
}

impl State {
    /// Whether a worker would find anything; forgets jobs whose tasks are handed out.
    fn has_work(&mut self) -> bool {
        // SAFETY: a queued job's caller has not returned.
        while self.jobs.front().is_some_and(|entry| unsafe { &*entry.job }.is_handed_out()) {
            self.jobs.pop_front();
        }
        !self.jobs.is_empty() || !self.operations.is_empty()
    }

    /// How many workers would find something, beside those that are about to look.
    fn lacks(&self) -> usize {
        // SAFETY: a queued job's caller has not returned.
        let open = self.jobs.iter().filter(|entry| !unsafe { &*entry.job }.is_handed_out());
        let found = open.map(|entry| entry.seats).sum::<usize>() + self.operations.len();
        found.saturating_sub(self.waking + self.starting)
    }

    /// Take a seat at the oldest job with one free.
    fn take_seat(&mut self) -> Option<*const Job<'static>> {
        let entry = self.jobs.front_mut()?;
        let job = entry.job;
        entry.seats -= 1;
        if entry.seats == 0 {
            self.jobs.pop_front();
        }
        Some(job)
    }

    /// Give a number to a new worker, if there may be one more than `limit` allows.
    fn enlist(&mut self, limit: usize) -> Option<usize> {
        let number = self.alive.iter().position(|alive| !alive).unwrap_or(self.alive.len());
        if number >= limit {
            return None;
        }
        if number == self.alive.len() {
            self.alive.push(true);
        } else {
            self.alive[number] = true;
        }
        Some(number)
    }
}

/// What the threads of a pool do most of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Duty {
    Work,
    /// Run operations which wait.
    Wait,
    /// Run tasks which wait: who waits for them may be an operation.
    Help,
}

impl Duty {
    /// The pool of this process; null before first use and in a forked child.
    fn pool(self) -> &'static AtomicPtr<Pool> {
        match self {
            Duty::Work => &WORKERS,
            Duty::Wait => &WAITERS,
            Duty::Help => &HELPERS,
        }
    }
}

struct Pool {
    state: Mutex<State>,
    /// Signals work to sleeping workers.
    work: Condvar,
    generation: u32,
    duty: Duty,
    /// How many threads there may be that wait; as many may work as [`threads`] says.
    most: AtomicUsize,
}

impl Pool {
    /// The pool of this process with a duty.
    fn get(duty: Duty) -> &'static Pool {
        // SAFETY: a pool is never freed, and published whole.
        match unsafe { duty.pool().load(Ordering::Acquire).as_ref() } {
            Some(pool) => pool,
            None => Self::create(duty),
        }
    }

    #[cold]
    fn create(duty: Duty) -> &'static Pool {
        forget_pools_in_children();
        let generation = GENERATION.load(Ordering::Relaxed);
        let pool = Pool { state: Mutex::default(), work: Condvar::new(), generation, duty, most: 1.into() };
        let fresh = Box::into_raw(Box::new(pool));
        let empty = std::ptr::null_mut();
        match duty.pool().compare_exchange(empty, fresh, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: just made, and never freed from now on.
            Ok(_) => unsafe { &*fresh },
            Err(theirs) => {
                // SAFETY: ours was not published; theirs is never freed.
                unsafe {
                    drop(Box::from_raw(fresh));
                    &*theirs
                }
            }
        }
    }

    /// How many threads there may be.
    fn limit(&self) -> usize {
        match self.duty {
            Duty::Work => threads().max(1),
            Duty::Wait => self.most.load(Ordering::Relaxed),
            Duty::Help => MOST_HELPERS,
        }
    }

    /// Sleep until there may be work; false: nobody brought any for long, and it is no worker's.
    fn sleep<'s>(&'s self, mut state: MutexGuard<'s, State>) -> (MutexGuard<'s, State>, bool) {
        state.idle += 1;
        let mut stays = true;
        if self.duty == Duty::Work {
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        } else {
            let slept = self.work.wait_timeout(state, IDLE).unwrap_or_else(PoisonError::into_inner);
            stays = !slept.1.timed_out();
            state = slept.0;
        }
        state.idle -= 1;
        state.waking = state.waking.saturating_sub(1);
        let stays = stays || state.has_work();
        (state, stays)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that runs under the lock panics.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Count an operation that was withdrawn. Empty entries leave the queue when they may be half of it, so a
    /// withdrawal costs the same however long the queue is.
    fn count_withdrawal(&self) {
        let mut state = self.lock();
        state.withdrawn += 1;
        if 2 * state.withdrawn > state.operations.len() {
            state.withdrawn = 0;
            state.operations.retain(|queued| !queued.is_empty());
        }
    }

    /// Work on `job` with at most `helpers` workers, until no task runs.
    fn help(&'static self, job: &Job<'_>, helpers: usize, watch: &mut Watch<'_>) -> Result<()> {
        let shared = std::ptr::from_ref(job).cast::<Job<'static>>();
        let mut state = self.lock();
        state.jobs.push_back(Entry { job: shared, seats: helpers });
        self.recruit(state, 1);
        job.work(watch);
        // From here on nobody new can join, and nothing above unwinds.
        if self.generation != GENERATION.load(Ordering::Relaxed) {
            // The helpers stayed in the parent, perhaps with the lock.
            return Err(Error::internal("a task of a parallel operation forked the process"));
        }
        let mut state = self.lock();
        state.jobs.retain(|entry| !std::ptr::eq(entry.job, shared));
        if job.active.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        drop(state);
        for _ in 0..SPINS {
            if job.active.load(Ordering::Relaxed) == 0 {
                break;
            }
            std::hint::spin_loop();
        }
        // Under the lock, so that the last helper has let go of the job.
        let mut state = self.lock();
        while job.active.load(Ordering::Relaxed) != 0 {
            state = match watch.due_in() {
                None => job.done.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => {
                    drop(state);
                    watch.is_up();
                    self.lock()
                }
                Some(left) => job.done.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
        Ok(())
    }

    /// Wake or create up to `wanted` workers for what is queued, and release the lock.
    fn recruit(&'static self, mut state: MutexGuard<'_, State>, wanted: usize) {
        let mut wake = 0;
        let mut create = [None; 2];
        for slot in create.iter_mut().take(wanted.min(state.lacks())) {
            if state.idle > state.waking {
                state.waking += 1;
                wake += 1;
            } else {
                *slot = state.enlist(self.limit());
                state.starting += usize::from(slot.is_some());
            }
        }
        drop(state);
        for _ in 0..wake {
            self.work.notify_one();
        }
        for number in create.into_iter().flatten() {
            self.start(number);
        }
    }

    /// Start the worker that was enlisted with `number`.
    fn start(&'static self, number: usize) {
        let name = match self.duty {
            Duty::Work => "tessarr",
            Duty::Wait => "tessarr-far",
            Duty::Help => "tessarr-wait",
        };
        let named = std::thread::Builder::new().name(format!("{name}-{number}"));
        if named.spawn(move || self.serve(number)).is_ok() {
            return;
        }
        // No more threads: callers do their jobs alone, but operations need somebody.
        let mut state = self.lock();
        state.starting -= 1;
        state.alive[number] = false;
        while !state.alive.contains(&true) {
            let Some(operation) = state.operations.pop_front() else { break };
            drop(state);
            operation.run(Runner::Worker);
            state = self.lock();
        }
    }

    /// A worker's life.
    fn serve(&'static self, number: usize) {
        let mut state = self.lock();
        state.starting -= 1;
        loop {
            if number >= self.limit() {
                break;
            }
            if !state.has_work() {
                let stays;
                (state, stays) = self.sleep(state);
                if !stays {
                    break;
                }
                continue;
            }
            state = match state.take_seat() {
                Some(job) => self.join(job, state),
                None => self.operate(state),
            };
        }
        state.alive[number] = false;
        if state.has_work() {
            // A wake-up may have been meant for this worker.
            self.recruit(state, 1);
        }
    }

    /// Work on a job where a seat was taken.
    fn join<'s>(
        &'static self,
        job: *const Job<'static>,
        state: MutexGuard<'s, State>,
    ) -> MutexGuard<'s, State>
    where
        Self: 's,
    {
        // SAFETY: the entry was queued until the lock was taken, so the job's
        // caller has not returned; from here on it waits for `active`.
        let job = unsafe { &*job };
        job.active.fetch_add(1, Ordering::Relaxed);
        self.pass_on(state);
        job.work(&mut { Watch::BLIND });
        let state = self.lock();
        if job.active.fetch_sub(1, Ordering::Relaxed) == 1 {
            // Under the lock: the caller cannot leave before this is done.
            job.done.notify_one();
        }
        state
    }

    /// Run the oldest operation.
    fn operate<'s>(&'static self, mut state: MutexGuard<'s, State>) -> MutexGuard<'s, State>
    where
        Self: 's,
    {
        let operation = state.operations.pop_front();
        self.pass_on(state);
        operation.into_iter().for_each(|operation| operation.run(Runner::Worker));
        self.lock()
    }

    /// Call others if there is more to do, and release the lock.
    fn pass_on(&'static self, mut state: MutexGuard<'_, State>) {
        if state.has_work() {
            self.recruit(state, 2);
        }
    }
}

/// Register the forgetting of the pools in forked children, once.
fn forget_pools_in_children() {
    static REGISTERED: AtomicBool = AtomicBool::new(false);

    extern "C" fn forget() {
        GENERATION.fetch_add(1, Ordering::Relaxed);
        for pool in [&WORKERS, &WAITERS, &HELPERS] {
            pool.store(std::ptr::null_mut(), Ordering::Relaxed);
        }
    }

    if !REGISTERED.load(Ordering::Acquire) {
        // Two threads may both come here; forgetting twice does no harm, while a
        // lock could be held across a fork.
        // SAFETY: the handler only stores to atomics.
        unsafe { libc::pthread_atfork(None, None, Some(forget)) };
        REGISTERED.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests;
