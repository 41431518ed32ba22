//! The fetch queue: stores deliver values without a thread for each, and workers process them in
//! the order of their arrival.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::{Error, Kind, Result};
use crate::pipeline::operation::Interrupt;
use crate::pool;
use crate::scratch::Scratch;
use crate::store::{fork, AsyncRequest, CancelToken, Completion, OpenResult, ReadHint, StartRequest};

/// The key of a value, and the hint with which to open it.
pub(crate) type Request = (String, ReadHint);

/// The request of a task, if it needs one.
pub(crate) type MakeRequest<'p> = &'p (dyn Fn(usize, &mut Scratch) -> Result<Option<Request>> + Sync);

/// Processes a task with the value of its request, if it had one.
pub(crate) type Process<'w> = &'w (dyn Fn(usize, Option<OpenResult>, &mut Scratch) -> Result<()> + Sync);

/// The interval between checks for an interrupt.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// The maximum number of requests that are prepared ahead.
const MAX_PREPARED: usize = 64;

/// The maximum number of values per worker that wait for processing while requests continue.
const MAX_ARRIVED_PER_WORKER: usize = 4;

/// A queue of requests and their responses.
struct FetchQueue {
    start: StartRequest,
    /// The maximum number of concurrent requests.
    max_in_flight: usize,
    /// The maximum number of values that wait for processing.
    max_arrived: usize,
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Default)]
struct State {
    prepared: VecDeque<(usize, Request)>,
    in_flight: usize,
    arrived: VecDeque<(usize, Option<OpenResult>)>,
    /// A thread is sending requests.
    is_sending: bool,
    /// Tasks read more of their values, and block on that.
    reads_more: bool,
    /// The error that ended the queue.
    error: Option<Error>,
}

/// Run `work` for the tasks 0..`tasks`, in the order in which the values that they `request`
/// arrive; tasks without a request run at once. At most `max_in_flight` requests are in flight. The
/// first error ends the queue.
///
/// `threads` threads process the values, or `max_in_flight` if they block on further reads.
pub(crate) fn run(
    start: StartRequest,
    tasks: usize,
    max_in_flight: usize,
    threads: usize,
    interrupt: Option<Interrupt<'_>>,
    request: MakeRequest<'_>,
    work: Process<'_>,
) -> Result<()> {
    fork::register();
    let max_arrived = MAX_ARRIVED_PER_WORKER * pool::threads();
    let queue =
        FetchQueue { start, max_in_flight, max_arrived, state: Mutex::default(), arrived: Condvar::new() };
    let queue = &Arc::new(queue);
    let next = AtomicUsize::new(0);
    let prepare = |scratch: &mut Scratch| {
        while queue.can_prepare() {
            let task = next.fetch_add(1, Ordering::Relaxed);
            if task >= tasks {
                break;
            }
            // `work` repeats the request, and reports its error.
            queue.prepare(task, request(task, scratch).unwrap_or_default());
            queue.send_requests(); // at once: no later response may trigger it
        }
    };
    let run_task = |_| {
        let task = |scratch: &mut Scratch| {
            prepare(scratch);
            queue.send_requests();
            let (task, opened) = queue.next(interrupt)?;
            work(task, opened, scratch)
        };
        // Other threads wait for the requests of this one, also if it panics.
        pool::guarded(|| Scratch::with(task)).inspect_err(|error| queue.stop(error.clone()))
    };
    Scratch::with(prepare);
    let blocks = queue.lock().reads_more;
    let threads = if blocks { max_in_flight.max(threads) } else { threads };
    let in_flight = interrupt.map(|interrupt| interrupt as &dyn Fn() -> bool);
    let result = pool::wait_for(tasks, threads, in_flight, &run_task);
    queue.stop(Error::internal("an operation has ended"));
    result
}

impl FetchQueue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn can_prepare(&self) -> bool {
        let state = self.lock();
        state.error.is_none() && state.prepared.len() < self.max_in_flight.min(MAX_PREPARED)
    }

    fn prepare(&self, task: usize, request: Option<Request>) {
        match request {
            Some(request) => {
                let mut state = self.lock();
                state.reads_more |= !matches!(request.1, ReadHint::Whole | ReadHint::Range { .. });
                state.prepared.push_back((task, request));
            }
            None => self.push_arrived(task, None),
        }
    }

    /// Send the requests that may start. A response during this call does not recurse into this
    /// function.
    fn send_requests(self: &Arc<Self>) {
        let mut state = self.lock();
        if state.is_sending {
            return; // that thread checks the queue again
        }
        state.is_sending = true;
        while self.has_room(&state) {
            let Some((task, (key, hint))) = state.prepared.pop_front() else { break };
            state.in_flight += 1;
            drop(state);
            let generation = fork::generation();
            let mut pending = PendingFetch { queue: self.clone(), task, is_complete: false, generation };
            let completion = Completion::new(self.clone(), move |opened| pending.finish(opened));
            let in_flight = pool::guarded(|| {
                (self.start)(AsyncRequest::Open { key, hint, completion });
                Ok(())
            });
            in_flight.unwrap_or_else(|error| self.stop(error));
            state = self.lock();
        }
        state.is_sending = false;
    }

    /// Return whether another request may be sent.
    fn has_room(&self, state: &State) -> bool {
        let in_flight = state.in_flight;
        state.error.is_none()
            && in_flight < self.max_in_flight
            && in_flight + state.arrived.len() < self.max_in_flight + self.max_arrived
    }

    fn push_arrived(&self, task: usize, opened: Option<OpenResult>) {
        let mut state = self.lock();
        if state.error.is_some() {
            drop(state); // before the late value is dropped, which may need a lock of its sender
            return;
        }
        state.arrived.push_back((task, opened));
        drop(state);
        self.arrived.notify_one();
    }

    /// Wait for the next value.
    fn next(&self, interrupt: Option<Interrupt<'_>>) -> Result<(usize, Option<OpenResult>)> {
        let mut state = self.lock();
        loop {
            if let Some(error) = &state.error {
                return Err(error.clone());
            }
            if let Some(value) = state.arrived.pop_front() {
                return Ok(value);
            }
            let result =
                self.arrived.wait_timeout(state, CHECK_INTERVAL).unwrap_or_else(PoisonError::into_inner);
            state = result.0;
            if result.1.timed_out() {
                drop(state);
                if interrupt.is_some_and(|interrupt| interrupt()) {
                    return Err(Error::new(Kind::Interrupted, "interrupted"));
                }
                state = self.lock();
            }
        }
    }

    /// End the queue.
    fn stop(&self, error: Error) {
        let mut state = self.lock();
        let first_error = state.error.take();
        let (first_error, later_error) =
            if first_error.is_some() { (first_error, Some(error)) } else { (Some(error), None) };
        state.error = first_error;
        let discarded = (std::mem::take(&mut state.prepared), std::mem::take(&mut state.arrived));
        drop(state);
        self.arrived.notify_all();
        drop((later_error, discarded)); // outside the lock, as above
    }
}

impl CancelToken for FetchQueue {
    fn is_active(&self) -> bool {
        self.lock().error.is_none()
    }
}

/// A request in flight.
struct PendingFetch {
    queue: Arc<FetchQueue>,
    task: usize,
    is_complete: bool,
    generation: u64,
}

impl PendingFetch {
    fn finish(&mut self, opened: OpenResult) {
        self.is_complete = true;
        self.queue.lock().in_flight -= 1;
        self.queue.push_arrived(self.task, Some(opened));
        self.queue.send_requests();
    }
}

impl Drop for PendingFetch {
    fn drop(&mut self) {
        // A forked child has no waiting threads, and its inherited locks stay locked.
        if !self.is_complete && self.generation == fork::generation() {
            self.finish(Err(Error::internal("a store did not call the completion of a request")));
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::mpsc::{channel, Sender};
    use std::thread::spawn;

    use super::*;

    /// Return a function that passes requests to a channel.
    fn channel_store(sender: Sender<(String, Completion)>) -> StartRequest {
        let sender = Mutex::new(sender);
        Arc::new(move |request| {
            let AsyncRequest::Open { key, completion, .. } = request else { return };
            // Without a receiver the completion is dropped.
            let _ = sender.lock().unwrap().send((key, completion));
        })
    }

    /// Run `work` for tasks whose requests `respond` answers, with two requests in flight.
    fn run(
        tasks: usize,
        respond: impl FnMut(Vec<(String, Completion)>) + Send + 'static,
        work: Process<'_>,
    ) -> Result<()> {
        let (in_flight, receiver) = channel();
        let mut respond = respond;
        spawn(move || loop {
            let Ok(first_error) = receiver.recv() else { break };
            std::thread::sleep(Duration::from_millis(1));
            respond(std::iter::once(first_error).chain(receiver.try_iter()).collect());
        });
        let request =
            |task: usize, _: &mut Scratch| Ok((task != 3).then(|| (task.to_string(), ReadHint::Whole)));
        super::run(channel_store(in_flight), tasks, 2, pool::threads(), None, &request, work)
    }

    #[test]
    fn each_task_gets_the_value_of_its_request() {
        let finished = Mutex::new(Vec::new());
        let (sender, max_in_flight) = channel();
        let respond = move |in_flight: Vec<(String, Completion)>| {
            sender.send(in_flight.len()).unwrap();
            in_flight
                .into_iter()
                .rev()
                .for_each(|(key, completion)| completion.complete(Err(Error::internal(key))));
        };
        let work = |task, opened: Option<OpenResult>, _: &mut Scratch| {
            let key = opened.map(|opened| opened.err().unwrap().message);
            finished.lock().unwrap().push((task, key));
            Ok(())
        };
        run(20, respond, &work).unwrap();
        let mut finished = finished.into_inner().unwrap();
        finished.sort_unstable();
        let expected: Vec<_> = (0..20).map(|task| (task, (task != 3).then(|| task.to_string()))).collect();
        assert_eq!(finished, expected);
        assert_eq!(max_in_flight.iter().max(), Some(2));
    }

    #[test]
    fn first_error_ends_the_queue() {
        let work = |task, _, _: &mut Scratch| match task {
            5 => Err(Error::internal("five")),
            _ => Ok(()),
        };
        let respond = |in_flight: Vec<(String, Completion)>| {
            in_flight.into_iter().for_each(|(_, completion)| completion.complete(Ok(None)))
        };
        assert_eq!(run(1000, respond, &work).unwrap_err().message, "five");
    }

    #[test]
    fn dropped_completion_is_an_error() {
        let work =
            |_, opened: Option<OpenResult>, _: &mut Scratch| opened.map_or(Ok(()), |opened| opened.map(drop));
        assert!(run(4, drop, &work).unwrap_err().message.contains("did not call the completion"));
    }

    /// Run `work`, with a time limit.
    fn with_time_limit<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> R {
        let (sender, receiver) = channel();
        spawn(move || sender.send(work()));
        receiver.recv_timeout(Duration::from_secs(20)).unwrap()
    }

    #[test]
    #[allow(clippy::panic)]
    fn panicking_store_ends_the_queue() {
        let (sender, receiver) = channel::<(String, Completion)>();
        let answers = move || receiver.iter().for_each(|(_, completion)| completion.complete(Ok(None)));
        std::thread::Builder::new().name("answers".to_owned()).spawn(answers).unwrap();
        let channel = channel_store(sender);
        // Panics in the thread that answers.
        let store: StartRequest = Arc::new(move |request| {
            if std::thread::current().name() == Some("answers") {
                panic!("a store");
            }
            channel(request);
        });
        let request = |_: usize, _: &mut Scratch| Ok(Some((String::new(), ReadHint::Whole)));
        let work = |_: usize, _: Option<OpenResult>, _: &mut Scratch| Ok(());
        let finished = with_time_limit(move || super::run(store, 1000, 2, 2, None, &request, &work));
        assert!(finished.unwrap_err().message.contains("a store"));
    }

    #[test]
    fn ended_queue_sends_no_requests() {
        let (in_flight, receiver) = channel();
        let queue = FetchQueue {
            start: channel_store(in_flight),
            max_in_flight: 2,
            max_arrived: 8,
            state: Mutex::default(),
            arrived: Condvar::new(),
        };
        let queue = Arc::new(queue);
        let prepare = |task: usize| {
            queue.prepare(task, Some((task.to_string(), ReadHint::Whole)));
            queue.send_requests();
        };
        (0..3).for_each(prepare);
        let completions: Vec<(String, Completion)> = receiver.try_iter().collect();
        assert_eq!(completions.len(), 2);
        assert!(completions.iter().all(|(_, completion)| completion.is_active()));
        queue.stop(Error::internal("enough"));
        assert!(!completions.iter().any(|(_, completion)| completion.is_active()));
        assert!(!queue.can_prepare());
        prepare(3);
        drop(completions);
        assert_eq!(receiver.try_iter().count(), 0);
    }

    /// Return a function that completes requests before it returns.
    fn immediate_store() -> StartRequest {
        Arc::new(|request| {
            if let AsyncRequest::Open { completion, .. } = request {
                completion.complete(Ok(None));
            }
        })
    }

    #[test]
    fn request_prepared_after_all_responses_is_sent() {
        const TASKS: usize = 20;
        let finished = with_time_limit(|| {
            let request = |task: usize, _: &mut Scratch| {
                if task == TASKS - 1 {
                    std::thread::sleep(Duration::from_millis(300));
                }
                Ok(Some((task.to_string(), ReadHint::Whole)))
            };
            let work = |_: usize, _: Option<OpenResult>, _: &mut Scratch| Ok(());
            super::run(immediate_store(), TASKS, 3, 2, None, &request, &work)
        });
        finished.unwrap();
    }

    #[test]
    fn blocking_tasks_are_limited_by_requests_in_flight() {
        let max_in_flight = pool::threads() + 3;
        let (within, changed) = (Mutex::new(0), Condvar::new());
        let work = |_: usize, _: Option<OpenResult>, _: &mut Scratch| {
            let mut number = within.lock().unwrap();
            *number += 1;
            changed.notify_all();
            let limit = Duration::from_secs(20);
            let all = changed.wait_timeout_while(number, limit, |number| *number < max_in_flight).unwrap();
            match *all.0 < max_in_flight {
                true => Err(Error::internal("they wait one after another")),
                false => Ok(()),
            }
        };
        let request = |task: usize, _: &mut Scratch| Ok(Some((task.to_string(), ReadHint::Suffix(4))));
        super::run(immediate_store(), max_in_flight, max_in_flight, 1, None, &request, &work).unwrap();
    }
}
