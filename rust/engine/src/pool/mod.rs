//! The worker threads of the engine.
//!
//! A process has up to three pools, created on first use. One runs computations, with as many
//! threads as cores. The other two run work that mostly waits for remote stores, one for each form
//! of work:
//!
//! * [`parallel_for`]: numbered tasks, which the calling thread and idle workers run. The job lives
//!   on the caller's stack, and an atomic counter hands out the tasks. The caller works until none
//!   are left, then waits only for running tasks. Hence nested calls cannot deadlock: every wait is
//!   for a task deeper than the waiting one, and the deepest tasks run.
//! * [`spawn`]: one operation that its caller does not wait for. The operation queues until a
//!   thread is free, or until a thread that waits for the result runs it: waking a thread takes
//!   longer than a small operation.
//!
//! Workers sleep on one condition variable. A caller with new work wakes one worker, and each
//! worker that finds more work than it takes wakes two others: the caller pays for one wake-up
//! however many workers join. When no worker is idle, threads are created in the same way.
//!
//! After `fork` the child has none of the threads, and a lock may be locked forever. The child
//! therefore leaks the pools, untouched, and creates new ones when it needs them.

mod job;
mod mailbox;

use std::collections::VecDeque;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::{Error, Kind, Result};
use crate::scratch::Scratch;

pub use job::guarded;
use job::{InterruptCheck, Job};
pub use mailbox::Mailbox;

/// Checks of a job's helpers before the caller sleeps until they finish; about 3 µs.
const SPIN_COUNT: usize = 64;

/// The process-wide limit of threads; 0 until the first use.
static LIMIT: AtomicUsize = AtomicUsize::new(0);

/// A waiting thread ends after this time without work.
const IDLE_TIMEOUT: Duration = Duration::from_secs(1);

/// The memory that must be free before a thread starts, in bytes: its stack, and as much again.
const MEMORY_OF_THREAD: usize = 4 << 20;

/// The maximum number of threads that run waiting operations.
const MAX_WAITERS: usize = 256;

/// The maximum number of threads that run waiting tasks, for all jobs.
const MAX_HELPERS: usize = 256;

/// The pool of each [`PoolKind`]; null before first use and in a forked child.
static POOLS: [AtomicPtr<Pool>; 3] = [const { AtomicPtr::new(std::ptr::null_mut()) }; 3];

/// The number of forks between the first process and this one.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Return the maximum number of threads that work for one operation, including the calling thread.
#[must_use]
pub fn threads() -> usize {
    match LIMIT.load(Ordering::Relaxed) {
        0 => {
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            // A concurrent `set_threads` wins.
            match LIMIT.compare_exchange(0, cores, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => cores,
                Err(limit) => limit,
            }
        }
        limit => limit,
    }
}

/// Set the process-wide limit of threads; 0 is the number of available cores. Surplus workers end
/// as soon as they are idle.
pub fn set_threads(limit: usize) {
    LIMIT.store(limit, Ordering::Relaxed);
    // SAFETY: a pool is never freed.
    if let Some(pool) = unsafe { PoolKind::Work.pool().load(Ordering::Acquire).as_ref() } {
        let _state = pool.lock();
        pool.work.notify_all();
    }
}

/// Run `task(0)` to `task(tasks - 1)` on at most `max_threads` threads.
///
/// The calling thread takes part and returns when no task runs any more. With one task or one
/// thread the calling thread runs everything, in order and without locks. The first error stops the
/// job and is returned (of several concurrent errors, that of the lowest task). A panic is a
/// `Kind::Internal` error.
///
/// About every 50 ms the calling thread calls `interrupt`, between its tasks and while it waits. If
/// it returns true, the job stops and the result is `Kind::Interrupted`.
pub fn parallel_for(
    tasks: usize,
    max_threads: usize,
    interrupt: Option<&dyn Fn() -> bool>,
    task: &(dyn Fn(usize) -> Result<()> + Sync),
) -> Result<()> {
    let interrupt = if tasks > 1 { interrupt } else { None };
    run(PoolKind::Work, tasks, max_threads.min(threads()), interrupt, task)
}

/// Like [`parallel_for`], for tasks that wait for a remote store: they run on up to `threads`
/// threads of another pool, so waiting does not block the computing workers.
pub fn wait_for(
    tasks: usize,
    threads: usize,
    interrupt: Option<&dyn Fn() -> bool>,
    task: &(dyn Fn(usize) -> Result<()> + Sync),
) -> Result<()> {
    run(PoolKind::Help, tasks, threads, interrupt, task)
}

/// Run tasks on at most `threads` threads, including the calling thread.
fn run(
    kind: PoolKind,
    tasks: usize,
    threads: usize,
    interrupt: Option<&dyn Fn() -> bool>,
    task: &(dyn Fn(usize) -> Result<()> + Sync),
) -> Result<()> {
    let job = Job::new(tasks, task);
    let mut check = InterruptCheck::new(interrupt);
    match tasks.min(threads).saturating_sub(1) {
        0 => job.work(&mut check),
        helpers => Pool::get(kind).help(&job, helpers, &mut check)?,
    }
    if check.interrupted {
        return Err(Error::new(Kind::Interrupted, "interrupted"));
    }
    job.outcome()
}

/// Queue `operation`. A free thread runs it, in the order of the calls, or a thread that waits for
/// its result. The operation receives which of the two runs it.
///
/// A `concurrency` above the number of workers marks an operation that mostly waits for a remote
/// store: up to `concurrency` such operations run at the same time.
///
/// The operation reports its own outcome; a panic ends only this operation. A forked child does not
/// run the queue of its parent.
pub fn spawn(concurrency: usize, operation: impl FnOnce(Runner) + Send + 'static) -> QueuedOperation {
    let pool = Pool::get(if concurrency > threads() { PoolKind::Wait } else { PoolKind::Work });
    pool.max_waiting.fetch_max(concurrency.min(MAX_WAITERS), Ordering::Relaxed);
    let queued = QueuedOperation { pool: Some(pool), ..QueuedOperation::new(operation) };
    let mut state = pool.lock();
    state.operations.push_back(queued.clone());
    pool.wake_workers(state, 1);
    queued
}

/// The thread that runs an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runner {
    /// A thread of a pool.
    Worker,
    /// A thread that waits for the operation and may be interrupted.
    Caller,
}

/// An operation in the queue of a pool.
#[derive(Clone)]
pub struct QueuedOperation {
    operation: Arc<Mutex<Option<Operation>>>,
    generation: u32,
    /// The pool in whose queue the operation is.
    pool: Option<&'static Pool>,
}

impl QueuedOperation {
    /// Return an operation that no pool runs, only a thread that waits for it.
    pub fn new(operation: impl FnOnce(Runner) + Send + 'static) -> QueuedOperation {
        clear_pools_in_children();
        let generation = GENERATION.load(Ordering::Relaxed);
        QueuedOperation { operation: Arc::new(Mutex::new(Some(Box::new(operation)))), generation, pool: None }
    }

    /// Run the operation in this thread, unless it has started.
    pub fn help(&self) {
        if self.is_of_this_process() {
            self.run(Runner::Caller);
        }
    }

    /// Remove the operation from the queue, unless it has started.
    pub fn withdraw(&self) {
        if !self.is_of_this_process() || self.take().is_none() {
            return;
        }
        if let Some(pool) = self.pool {
            pool.count_withdrawal();
        }
    }

    /// Return whether this process queued the operation, not a parent of it.
    #[must_use]
    pub fn is_of_this_process(&self) -> bool {
        self.generation == GENERATION.load(Ordering::Relaxed)
    }

    fn take(&self) -> Option<Operation> {
        // The thread with the lock takes the operation; in a forked child the lock may stay locked.
        self.operation.try_lock().ok().and_then(|mut operation| operation.take())
    }

    fn is_empty(&self) -> bool {
        self.operation.try_lock().is_ok_and(|operation| operation.is_none())
    }

    fn run(&self, runner: Runner) {
        let Some(operation) = self.take() else { return };
        // The panic hook has printed the panic; the owner of the operation reports it to the user.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| operation(runner))) {
            std::mem::forget(panic);
        }
    }
}

/// A job that workers may join. The pointer is valid while the entry is queued or the worker counts
/// as active: `Pool::help` ensures that neither is true when it returns.
struct Entry {
    job: *const Job<'static>,
    /// The number of workers that may still join.
    seats: usize,
}

// SAFETY: threads share a `Job` by design (its parts are `Sync`); the type's comment explains the
// pointer's validity.
unsafe impl Send for Entry {}

type Operation = Box<dyn FnOnce(Runner) + Send>;

/// The state that the pool's lock guards.
#[derive(Default)]
struct State {
    jobs: VecDeque<Entry>,
    operations: VecDeque<QueuedOperation>,
    /// The number of operations withdrawn since empty entries last left the queue.
    withdrawn: usize,
    /// Which of the workers "tessarr-0", "tessarr-1", … exist.
    alive: Vec<bool>,
    /// The number of sleeping workers, including those that were just woken.
    idle: usize,
    /// The number of wake-ups that no worker has answered yet.
    waking: usize,
    /// The number of new workers that have not looked for work yet.
    starting: usize,
}

impl State {
    /// Remove jobs without tasks. Return whether a worker would find work.
    fn has_work(&mut self) -> bool {
        // SAFETY: the caller of a queued job has not returned.
        while self.jobs.front().is_some_and(|entry| unsafe { &*entry.job }.is_exhausted()) {
            self.jobs.pop_front();
        }
        !self.jobs.is_empty() || !self.operations.is_empty()
    }

    /// Return the number of workers that would find work, beyond those that are about to look.
    fn missing_workers(&self) -> usize {
        // SAFETY: the caller of a queued job has not returned.
        let open = self.jobs.iter().filter(|entry| !unsafe { &*entry.job }.is_exhausted());
        let queued_work = open.map(|entry| entry.seats).sum::<usize>() + self.operations.len();
        queued_work.saturating_sub(self.waking + self.starting)
    }

    /// Take a seat at the oldest job.
    fn take_seat(&mut self) -> Option<*const Job<'static>> {
        let entry = self.jobs.front_mut()?;
        let job = entry.job;
        entry.seats -= 1;
        if entry.seats == 0 {
            self.jobs.pop_front();
        }
        Some(job)
    }

    /// Reserve the number of a new worker, unless `limit` workers exist.
    fn reserve_number(&mut self, limit: usize) -> Option<usize> {
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

/// The work that the threads of a pool run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PoolKind {
    /// Computations.
    Work,
    /// Operations that wait.
    Wait,
    /// Waiting tasks. The thread that waits for them may run such an operation.
    Help,
}

impl PoolKind {
    /// Return the pool of this process; null before first use and in a forked child.
    fn pool(self) -> &'static AtomicPtr<Pool> {
        &POOLS[self as usize]
    }
}

struct Pool {
    state: Mutex<State>,
    /// Signals work to sleeping workers.
    work: Condvar,
    generation: u32,
    kind: PoolKind,
    /// The maximum number of threads for waiting operations; [`threads`] limits computations.
    max_waiting: AtomicUsize,
}

impl Pool {
    /// Return the pool of this process for `kind`.
    fn get(kind: PoolKind) -> &'static Pool {
        // SAFETY: a pool is never freed, and it is published when complete.
        match unsafe { kind.pool().load(Ordering::Acquire).as_ref() } {
            Some(pool) => pool,
            None => Self::create(kind),
        }
    }

    #[cold]
    fn create(kind: PoolKind) -> &'static Pool {
        clear_pools_in_children();
        let generation = GENERATION.load(Ordering::Relaxed);
        let pool =
            Pool { state: Mutex::default(), work: Condvar::new(), generation, kind, max_waiting: 1.into() };
        let created = Box::into_raw(Box::new(pool));
        let empty = std::ptr::null_mut();
        match kind.pool().compare_exchange(empty, created, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: this thread has just created it, and nothing ever frees it.
            Ok(_) => unsafe { &*created },
            Err(theirs) => {
                // SAFETY: ours was not published; theirs is never freed.
                unsafe {
                    drop(Box::from_raw(created));
                    &*theirs
                }
            }
        }
    }

    /// Return the maximum number of threads.
    fn limit(&self) -> usize {
        match self.kind {
            PoolKind::Work => threads().max(1),
            PoolKind::Wait => self.max_waiting.load(Ordering::Relaxed),
            PoolKind::Help => MAX_HELPERS,
        }
    }

    /// Sleep until work may be available; false: a waiting thread found no work and ends.
    fn sleep<'s>(&'s self, mut state: MutexGuard<'s, State>) -> (MutexGuard<'s, State>, bool) {
        state.idle += 1;
        let mut stays = true;
        if self.kind == PoolKind::Work {
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        } else {
            let result = self.work.wait_timeout(state, IDLE_TIMEOUT).unwrap_or_else(PoisonError::into_inner);
            stays = !result.1.timed_out();
            state = result.0;
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

    /// Count a withdrawn operation. Empty entries leave the queue when they may be half of it, so a
    /// withdrawal costs the same however long the queue is.
    fn count_withdrawal(&self) {
        let mut state = self.lock();
        state.withdrawn += 1;
        if 2 * state.withdrawn > state.operations.len() {
            state.withdrawn = 0;
            state.operations.retain(|queued| !queued.is_empty());
        }
    }

    /// Work on `job` with at most `helpers` workers until no task runs.
    fn help(&'static self, job: &Job<'_>, helpers: usize, check: &mut InterruptCheck<'_>) -> Result<()> {
        let shared = std::ptr::from_ref(job).cast::<Job<'static>>();
        let mut state = self.lock();
        state.jobs.push_back(Entry { job: shared, seats: helpers });
        self.wake_workers(state, 1);
        job.work(check);
        // From here on no worker can join, and nothing above unwinds.
        if self.generation != GENERATION.load(Ordering::Relaxed) {
            // The helpers stayed in the parent, perhaps with the lock.
            return Err(Error::internal("a parallel task forked the process"));
        }
        let mut state = self.lock();
        state.jobs.retain(|entry| !std::ptr::eq(entry.job, shared));
        if job.active.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        drop(state);
        for _ in 0..SPIN_COUNT {
            if job.active.load(Ordering::Relaxed) == 0 {
                break;
            }
            std::hint::spin_loop();
        }
        // Under the lock, so that the last helper no longer uses the job.
        let mut state = self.lock();
        while job.active.load(Ordering::Relaxed) != 0 {
            state = match check.time_to_check() {
                None => job.done.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => {
                    drop(state);
                    check.check();
                    self.lock()
                }
                Some(left) => job.done.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
        Ok(())
    }

    /// Wake or create up to `wanted` workers for the queued work, and release the lock.
    fn wake_workers(&'static self, mut state: MutexGuard<'_, State>, wanted: usize) {
        let mut wake = 0;
        let mut create = [None; 2];
        for slot in create.iter_mut().take(wanted.min(state.missing_workers())) {
            if state.idle > state.waking {
                state.waking += 1;
                wake += 1;
            } else {
                *slot = state.reserve_number(self.limit());
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

    /// Start the worker with the reserved `number`.
    fn start(&'static self, number: usize) {
        let name = match self.kind {
            PoolKind::Work => "tessarr",
            PoolKind::Wait => "tessarr-io",
            PoolKind::Help => "tessarr-wait",
        };
        let builder = std::thread::Builder::new().name(format!("{name}-{number}"));
        let (sender, started) = std::sync::mpsc::channel::<()>();
        let serve = move || {
            Scratch::with(|_| {}); // what the thread keeps is there before work fills the memory
            drop(sender);
            self.serve(number);
        };
        if has_memory_for_thread() && builder.spawn(serve).is_ok() {
            _ = started.recv(); // until then this thread takes no memory
            return;
        }
        // The system has no more threads: callers run their jobs alone, and this thread runs the
        // operations that no worker would run.
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

    /// The main loop of a worker.
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
                None => self.run_operation(state),
            };
        }
        state.alive[number] = false;
        if state.has_work() {
            // A wake-up may have been meant for this worker.
            self.wake_workers(state, 1);
        }
    }

    /// Work on a job after taking a seat.
    fn join<'s>(
        &'static self,
        job: *const Job<'static>,
        state: MutexGuard<'s, State>,
    ) -> MutexGuard<'s, State>
    where
        Self: 's,
    {
        // SAFETY: the entry was queued until the lock was taken, so the job's caller has not
        // returned; from here on it waits for `active`.
        let job = unsafe { &*job };
        job.active.fetch_add(1, Ordering::Relaxed);
        self.wake_others(state);
        job.work(&mut { InterruptCheck::DISABLED });
        let state = self.lock();
        if job.active.fetch_sub(1, Ordering::Relaxed) == 1 {
            // Under the lock: the caller cannot return before this call.
            job.done.notify_one();
        }
        state
    }

    /// Run the oldest operation.
    fn run_operation<'s>(&'static self, mut state: MutexGuard<'s, State>) -> MutexGuard<'s, State>
    where
        Self: 's,
    {
        let operation = state.operations.pop_front();
        self.wake_others(state);
        operation.into_iter().for_each(|operation| operation.run(Runner::Worker));
        self.lock()
    }

    /// Wake other workers if more work is queued, and release the lock.
    fn wake_others(&'static self, mut state: MutexGuard<'_, State>) {
        if state.has_work() {
            self.wake_workers(state, 2);
        }
    }
}

/// Return whether there is memory for another thread: the system ends the process if a thread that
/// has started finds none for its own data.
fn has_memory_for_thread() -> bool {
    // SAFETY: the memory is not used. The C library allocates the data of threads, and the
    // compiler must not leave out an allocation that only shows whether it is possible.
    unsafe {
        let memory = std::hint::black_box(libc::malloc(MEMORY_OF_THREAD));
        libc::free(memory);
        !memory.is_null()
    }
}

/// Register once the handler that clears the pools in forked children.
fn clear_pools_in_children() {
    static REGISTERED: AtomicBool = AtomicBool::new(false);

    extern "C" fn clear_pools() {
        GENERATION.fetch_add(1, Ordering::Relaxed);
        for pool in &POOLS {
            pool.store(std::ptr::null_mut(), Ordering::Relaxed);
        }
    }

    if !REGISTERED.load(Ordering::Acquire) {
        // Two threads may both come here; clearing twice does no harm, while a lock could be locked
        // across a fork. SAFETY: the handler only stores to atomics.
        unsafe { libc::pthread_atfork(None, None, Some(clear_pools)) };
        REGISTERED.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests;
