//! The upload queue: workers encode chunks, and a store receives them without a thread for each.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::array::PerAxis;
use crate::error::{Error, Kind, Result};
use crate::pipeline::operation::{Executor, Interrupt};
use crate::pool;
use crate::scratch::Scratch;
use crate::store::{fork, AsyncRequest, CancelToken, Completion, StartRequest};

/// The maximum size of encoded chunks that wait for upload.
const MAX_READY_BYTES: usize = 64 << 20;

/// The interval between checks for an interrupt.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// An encoded chunk.
pub(crate) struct EncodedChunk {
    pub(crate) key: String,
    pub(crate) cell: PerAxis<u64>,
    pub(crate) value: Arc<Vec<u8>>,
}

/// Encodes the chunk of a task; None: it has no value, or needs the stored one.
pub(crate) type EncodeTask<'m> = &'m (dyn Fn(usize, &mut Scratch) -> Result<Option<EncodedChunk>> + Sync);

/// Runs a task to its end, blocking on the store.
pub(crate) type Wait<'w> = &'w (dyn Fn(usize, &mut Scratch) -> Result<()> + Sync);

/// A queue of encoded chunks and uploads in flight.
struct UploadQueue {
    start: StartRequest,
    /// The maximum number of uploads in flight, and of chunks that wait.
    max_in_flight: usize,
    /// The fork generation of the process.
    generation: u64,
    state: Mutex<State>,
    /// Signals room for another chunk, or the end of uploads.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    ready: VecDeque<EncodedChunk>,
    bytes: usize,
    in_flight: usize,
    /// A thread is starting uploads.
    is_uploading: bool,
    /// Waiting threads: for at most this many uploads in flight, or for room.
    waiting: usize,
    awaited_in_flight: Option<usize>,
    /// The error that ended the queue.
    error: Option<Error>,
}

impl State {
    fn has_room(&self, max_in_flight: usize) -> bool {
        self.ready.len() < max_in_flight && self.bytes < MAX_READY_BYTES
    }

    /// Return whether to wake waiting threads. Waking them at every change would cost most of the
    /// time.
    fn must_wake(&self, max_in_flight: usize) -> bool {
        let is_reached = match self.awaited_in_flight {
            Some(limit) => self.is_drained(limit),
            None => self.ready.len() * 2 <= max_in_flight && self.bytes * 2 <= MAX_READY_BYTES,
        };
        self.waiting > 0 && is_reached
    }

    fn is_drained(&self, limit: usize) -> bool {
        self.ready.is_empty() && self.in_flight <= limit
    }
}

/// Encode the chunks of the tasks 0..`tasks` and upload them, at most `max_in_flight` at a time.
/// Tasks without an encoded chunk run `wait`. The first error ends the queue, after the uploads in
/// flight.
pub(crate) fn run(
    start: StartRequest,
    tasks: usize,
    max_in_flight: usize,
    interrupt: Option<Interrupt<'_>>,
    encode: EncodeTask<'_>,
    wait: Wait<'_>,
) -> Result<()> {
    fork::register();
    let queue = &UploadQueue::new(start, max_in_flight);
    let check = || {
        let is_interrupted = interrupt.is_some_and(|interrupt| interrupt());
        if is_interrupted {
            queue.stop(interrupted()); // at once: other threads may wait for room
        }
        is_interrupted
    };
    let interrupt = interrupt.map(|_| &check as Interrupt<'_>);
    let caller = std::thread::current().id();
    // Only the calling thread checks for interrupts.
    let caller_interrupt = || interrupt.filter(|_| std::thread::current().id() == caller);
    let blocking_tasks = Mutex::new(Vec::new());
    let run_task = |task, scratch: &mut Scratch| {
        queue.wait_for_room(caller_interrupt())?;
        match encode(task, scratch)? {
            Some(value) => queue.push(value),
            None => blocking_tasks.lock().unwrap_or_else(PoisonError::into_inner).push(task),
        }
        Ok(())
    };
    let encoded = Executor::Blocking(pool::threads()).each(tasks, interrupt, &|task, scratch| {
        pool::guarded(|| run_task(task, scratch)).inspect_err(|error| queue.stop(error.clone()))
    });
    let blocking_tasks = blocking_tasks.into_inner().unwrap_or_else(PoisonError::into_inner);
    let result = encoded.and_then(|()| {
        let threads = blocking_tasks.len().min(max_in_flight);
        queue.drain(max_in_flight - threads, interrupt)?;
        Executor::Blocking(threads)
            .each(blocking_tasks.len(), interrupt, &|task, scratch| wait(blocking_tasks[task], scratch))
    });
    if let Err(error) = result {
        queue.stop(error);
    }
    queue.drain(0, interrupt)
}

fn interrupted() -> Error {
    Error::new(Kind::Interrupted, "interrupted")
}

impl UploadQueue {
    fn new(start: StartRequest, max_in_flight: usize) -> Arc<Self> {
        let generation = fork::generation();
        Arc::new(UploadQueue {
            start,
            max_in_flight,
            generation,
            state: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    /// Return an error in a child that a task has forked: the uploads belong to the parent, and the
    /// lock may be locked forever.
    fn check_process(&self) -> Result<()> {
        match self.generation == fork::generation() {
            true => Ok(()),
            false => Err(Error::internal("a parallel task forked the process")),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wait until another chunk may be encoded.
    fn wait_for_room(&self, interrupt: Option<Interrupt<'_>>) -> Result<()> {
        self.wait(interrupt, |state| state.error.is_some() || state.has_room(self.max_in_flight))?;
        self.lock().error.clone().map_or(Ok(()), Err)
    }

    /// Wait until at most `limit` uploads are in flight and no chunk waits, or the queue has ended.
    fn drain(&self, limit: usize, interrupt: Option<Interrupt<'_>>) -> Result<()> {
        self.check_process()?;
        self.lock().awaited_in_flight = Some(limit);
        let is_drained = |state: &State| state.is_drained(limit);
        if let Err(error) = self.wait(interrupt, is_drained) {
            self.stop(error);
            self.check_process()?;
            self.wait(None, is_drained)?; // finish the uploads in flight
        }
        let mut state = self.lock();
        state.awaited_in_flight = None;
        state.error.clone().map_or(Ok(()), Err)
    }

    fn wait(&self, interrupt: Option<Interrupt<'_>>, is_reached: impl Fn(&State) -> bool) -> Result<()> {
        self.check_process()?;
        let mut state = self.lock();
        while !is_reached(&state) {
            state.waiting += 1;
            let result =
                self.changed.wait_timeout(state, CHECK_INTERVAL).unwrap_or_else(PoisonError::into_inner);
            state = result.0;
            state.waiting -= 1;
            if result.1.timed_out() {
                drop(state); // the interrupt check may run any code
                if interrupt.is_some_and(|interrupt| interrupt()) {
                    return Err(interrupted());
                }
                self.check_process()?;
                state = self.lock();
            }
        }
        Ok(())
    }

    fn push(self: &Arc<Self>, value: EncodedChunk) {
        if self.check_process().is_err() {
            return; // the waiting thread reports it
        }
        let mut state = self.lock();
        if state.error.is_none() {
            state.bytes += value.value.len();
            state.ready.push_back(value);
        }
        drop(state);
        self.start_uploads();
    }

    /// Start the uploads that may start. A completion during this call does not recurse into this
    /// function.
    fn start_uploads(self: &Arc<Self>) {
        let mut state = self.lock();
        if state.is_uploading {
            return; // that thread checks the queue again
        }
        state.is_uploading = true;
        while state.in_flight < self.max_in_flight {
            let Some(EncodedChunk { key, cell, value }) = state.ready.pop_front() else { break };
            state.bytes -= value.len();
            state.in_flight += 1;
            drop(state);
            let mut pending = PendingUpload { queue: Some(self.clone()), key: key.clone(), cell };
            let completion = Completion::new(self.clone(), move |result| pending.finish(result.map(drop)));
            // The panic hook reports a panic. Dropping the completion ends the queue with an error.
            let _ = pool::guarded(|| {
                (self.start)(AsyncRequest::Put { key, value, completion });
                Ok(())
            });
            state = self.lock();
        }
        state.is_uploading = false;
        let must_wake = state.must_wake(self.max_in_flight);
        drop(state);
        if must_wake {
            self.changed.notify_all();
        }
    }

    /// End the queue.
    fn stop(&self, error: Error) {
        if self.check_process().is_err() {
            return;
        }
        let mut state = self.lock();
        let mut error = Some(error);
        if state.error.is_none() {
            state.error = error.take();
        }
        state.bytes = 0;
        let blocking_tasks = std::mem::take(&mut state.ready);
        drop(state);
        self.changed.notify_all();
        // Outside the lock: dropping a Python exception takes the GIL.
        drop((error, blocking_tasks));
    }
}

impl CancelToken for UploadQueue {
    fn is_active(&self) -> bool {
        self.lock().error.is_none()
    }
}

/// An upload in flight.
struct PendingUpload {
    /// None: it has completed.
    queue: Option<Arc<UploadQueue>>,
    key: String,
    cell: PerAxis<u64>,
}

impl PendingUpload {
    fn finish(&mut self, result: Result<()>) {
        let Some(queue) = self.queue.take() else { return };
        if let Err(error) = result {
            queue.stop(error.at_key(&self.key).at_chunk(&self.cell));
        }
        queue.lock().in_flight -= 1;
        queue.start_uploads();
    }
}

impl Drop for PendingUpload {
    fn drop(&mut self) {
        // A forked child has no waiting threads, and its inherited locks stay locked.
        if self.queue.as_ref().is_some_and(|queue| queue.check_process().is_ok()) {
            self.finish(Err(Error::internal("a store did not call the completion of a request")));
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::sync::mpsc::{channel, Sender};
    use std::thread::spawn;

    use super::*;
    use crate::store::Version;

    const TASKS: usize = 200;
    const LIMIT: usize = 5;

    type Upload = (String, usize, Completion<Option<Version>>);

    /// Return a function that passes uploads to a channel.
    fn channel_store(sender: Sender<Upload>) -> StartRequest {
        let sender = Mutex::new(sender);
        Arc::new(move |request| {
            let AsyncRequest::Put { key, value, completion } = request else { return };
            // Without a receiver the completion is dropped.
            let _ = sender.lock().unwrap().send((key, value.len(), completion));
        })
    }

    fn encoded(task: usize, bytes: usize) -> EncodedChunk {
        EncodedChunk {
            key: task.to_string(),
            cell: vec![task as u64].into(),
            value: Arc::new(vec![0; bytes]),
        }
    }

    /// Upload TASKS chunks to a store that passes all pending uploads to `respond`.
    fn run_with_store(
        interrupt: Option<Interrupt<'_>>,
        respond: impl FnMut(Vec<Upload>) + Send + 'static,
        encode: EncodeTask<'_>,
        wait: Wait<'_>,
    ) -> Result<()> {
        let (sender, uploads) = channel();
        let mut respond = respond;
        spawn(move || {
            while let Ok(first) = uploads.recv() {
                std::thread::sleep(Duration::from_micros(200));
                respond(std::iter::once(first).chain(uploads.try_iter()).collect());
            }
        });
        run(channel_store(sender), TASKS, LIMIT, interrupt, encode, wait)
    }

    fn complete_all(uploads: Vec<Upload>) {
        uploads.into_iter().rev().for_each(|(.., completion)| completion.complete(Ok(None)));
    }

    const NO_WAIT: Wait<'static> = &|_, _| Ok(());

    #[test]
    fn every_task_runs_once_and_few_at_a_time() {
        let (result, waiting) = (Arc::new(Mutex::new(Vec::new())), AtomicUsize::new(0));
        let completion = result.clone();
        let respond = move |uploads: Vec<Upload>| {
            assert!(uploads.len() <= LIMIT);
            completion
                .lock()
                .unwrap()
                .extend(uploads.iter().map(|(key, bytes, _)| (key.parse().unwrap(), *bytes)));
            complete_all(uploads);
        };
        let encode = |task: usize, _: &mut Scratch| Ok((task % 3 != 0).then(|| encoded(task, task)));
        let wait = |task: usize, _: &mut Scratch| {
            assert!(waiting.fetch_add(1, Ordering::SeqCst) < LIMIT);
            std::thread::sleep(Duration::from_micros(200));
            result.lock().unwrap().push((task, 0));
            waiting.fetch_sub(1, Ordering::SeqCst);
            Ok(())
        };
        run_with_store(None, respond, &encode, &wait).unwrap();
        let mut result = std::mem::take(&mut *result.lock().unwrap());
        result.sort_unstable();
        let expected = (0..TASKS).map(|task| (task, if task % 3 == 0 { 0 } else { task }));
        assert_eq!(result, expected.collect::<Vec<_>>());
    }

    #[test]
    fn first_error_ends_the_queue_after_uploads_in_flight() {
        for of in ["make", "wait", "store"] {
            let in_flight = Arc::new(AtomicUsize::new(0));
            let (given_now, count) = (in_flight.clone(), Arc::new(AtomicUsize::new(0)));
            let counted = count.clone();
            let respond = move |uploads: Vec<Upload>| {
                given_now.fetch_add(uploads.len(), Ordering::SeqCst);
                counted.fetch_add(uploads.len(), Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(1));
                given_now.fetch_sub(uploads.len(), Ordering::SeqCst);
                for (key, _, completion) in uploads {
                    completion.complete(if of == "store" && key == "20" {
                        Err(Error::internal("twenty"))
                    } else {
                        Ok(None)
                    });
                }
            };
            let fail = |task: usize, step| match task == 20 && of == step {
                true => Err(Error::internal("twenty")),
                false => Ok(()),
            };
            let encode = |task: usize, _: &mut Scratch| {
                fail(task, "make").map(|()| (of != "wait" || task > 20).then(|| encoded(task, 1)))
            };
            let error = run_with_store(None, respond, &encode, &|task, _| fail(task, "wait")).unwrap_err();
            assert_eq!(error.message, "twenty");
            assert_eq!(in_flight.load(Ordering::SeqCst), 0);
            assert!(count.load(Ordering::SeqCst) < TASKS);
            if of == "store" {
                assert_eq!((error.key.as_deref(), error.chunk.as_deref()), (Some("20"), Some(&[20][..])));
            }
        }
    }

    #[test]
    fn dropped_completion_is_an_error() {
        let encode = |task: usize, _: &mut Scratch| Ok(Some(encoded(task, 1)));
        let result = run_with_store(None, drop, &encode, NO_WAIT);
        assert!(result.unwrap_err().message.contains("did not call the completion"));
    }

    #[test]
    fn interrupt_ends_waits_after_uploads_in_flight() {
        for slow_task in [0, TASKS - 1] {
            let (caller_interrupt, result) =
                (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
            let (was_asked, completion) = (caller_interrupt.clone(), result.clone());
            let respond = move |uploads: Vec<Upload>| {
                let is_slow = uploads.iter().any(|(key, ..)| *key == slow_task.to_string());
                while is_slow && !was_asked.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                completion.fetch_add(uploads.len(), Ordering::SeqCst);
                complete_all(uploads);
            };
            let caller = std::thread::current().id();
            let encoded_count = AtomicUsize::new(0);
            let interrupt = || {
                let is_caller =
                    std::thread::current().id() == caller && encoded_count.load(Ordering::SeqCst) > slow_task;
                caller_interrupt.fetch_or(is_caller, Ordering::SeqCst);
                is_caller
            };
            let encode = |task: usize, _: &mut Scratch| {
                encoded_count.fetch_add(1, Ordering::SeqCst);
                Ok(Some(encoded(task, 1)))
            };
            let error = run_with_store(Some(&interrupt), respond, &encode, NO_WAIT).unwrap_err();
            assert_eq!(error.kind, Kind::Interrupted);
            assert!(result.load(Ordering::SeqCst) > 0);
        }
    }

    #[test]
    fn few_bytes_wait_for_upload() {
        let size = MAX_READY_BYTES / 4;
        let (bytes, max_in_flight) = (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0));
        let completion = bytes.clone();
        let respond = move |uploads: Vec<Upload>| {
            completion.fetch_sub(size * uploads.len(), Ordering::SeqCst);
            complete_all(uploads);
        };
        let encode = |task: usize, _: &mut Scratch| {
            max_in_flight.fetch_max(bytes.fetch_add(size, Ordering::SeqCst) + size, Ordering::SeqCst);
            Ok(Some(encoded(task, size)))
        };
        run_with_store(None, respond, &encode, NO_WAIT).unwrap();
        assert!(max_in_flight.into_inner() <= size * (4 + LIMIT + 2 * pool::threads()));
    }

    #[test]
    fn store_may_complete_at_once() {
        let encode = |task: usize, _: &mut Scratch| Ok(Some(encoded(task, 1)));
        let complete: StartRequest = Arc::new(|request| {
            if let AsyncRequest::Put { completion, .. } = request {
                completion.complete(Ok(None));
            }
        });
        run(complete, 100_000, LIMIT, None, &encode, NO_WAIT).unwrap();
    }

    /// A store whose uploads the test completes.
    fn slow_task() -> (StartRequest, std::sync::mpsc::Receiver<Upload>) {
        let (sender, uploads) = channel();
        (channel_store(sender), uploads)
    }

    #[test]
    fn error_wakes_threads_that_wait_for_room() {
        let (store, uploads) = slow_task();
        let encode = |task: usize, _: &mut Scratch| match task == 2 * LIMIT - 1 {
            true => Err(Error::internal("no more")),
            false => Ok(Some(encoded(task, 1))),
        };
        let result = spawn(move || run(store, TASKS, LIMIT, None, &encode, NO_WAIT));
        let in_flight: Vec<Upload> = uploads.iter().take(LIMIT).collect();
        while in_flight[0].2.is_active() {
            // The error is visible although no upload has completed.
            std::thread::sleep(Duration::from_millis(1));
        }
        in_flight.into_iter().for_each(|(.., completion)| completion.complete(Ok(None)));
        assert_eq!(result.join().unwrap().unwrap_err().message, "no more");
        assert_eq!(uploads.iter().count(), 0); // no further upload started
    }
}
