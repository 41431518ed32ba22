//! Tasks whose values a store is asked for together: each is done when its value has arrived, by whichever
//! thread is free, so that no thread waits for one of them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::{Error, Kind, Result};
use crate::operation::Interrupt;
use crate::pool;
use crate::scratch::Scratch;
use crate::store::{Ask, Opened, Want};

/// The key of a value, and how it is opened.
pub(crate) type Request = (String, Want);

/// How often who waits asks whether it was interrupted.
const ASK_EVERY: Duration = Duration::from_millis(50);

/// So many requests are prepared before their time has come.
const PREPARED: usize = 64;

/// So many values may have arrived, of each that is asked for at a time, until nothing more is asked for.
const ARRIVED: usize = 1;

/// What is asked for, and what has arrived.
struct Arrivals {
    ask: Arc<dyn Ask>,
    /// How many are asked for at a time.
    most: usize,
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Default)]
struct State {
    prepared: VecDeque<(usize, Request)>,
    asked: usize,
    arrived: VecDeque<(usize, Option<Opened>)>,
    /// Somebody asks.
    asking: bool,
    /// Nothing more is wanted: why.
    ended: Option<Error>,
}

/// Do `work` for 0..tasks, in the order in which the values arrive that they `request` of a store: where there is
/// none, at once. At most `most` are asked for at a time. The first error ends it.
pub(crate) fn each(
    ask: Arc<dyn Ask>,
    tasks: usize,
    most: usize,
    interrupt: Option<Interrupt<'_>>,
    request: &(dyn Fn(usize, &mut Scratch) -> Result<Option<Request>> + Sync),
    work: &(dyn Fn(usize, Option<Opened>, &mut Scratch) -> Result<()> + Sync),
) -> Result<()> {
    let arrivals = &Arc::new(Arrivals { ask, most, state: Mutex::default(), arrived: Condvar::new() });
    let next = AtomicUsize::new(0);
    let prepare = |scratch: &mut Scratch| {
        while arrivals.lock().prepared.len() < most.min(PREPARED) {
            let task = next.fetch_add(1, Ordering::Relaxed);
            if task >= tasks {
                break;
            }
            // What is wrong with it, `work` finds, too.
            arrivals.prepare(task, request(task, scratch).unwrap_or_default());
        }
    };
    let one = |_| {
        let done = Scratch::with(|scratch| {
            prepare(scratch);
            arrivals.go();
            let (task, opened) = arrivals.next(interrupt)?;
            prepare(scratch);
            arrivals.go();
            work(task, opened, scratch)
        });
        done.inspect_err(|error| arrivals.end(error.clone()))
    };
    let asked = interrupt.map(|interrupt| interrupt as &dyn Fn() -> bool);
    let done = pool::wait_for(tasks, pool::threads(), asked, &one);
    arrivals.end(Error::internal("an operation has ended"));
    done
}

impl Arrivals {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn prepare(&self, task: usize, request: Option<Request>) {
        match request {
            Some(request) => self.lock().prepared.push_back((task, request)),
            None => self.arrive(task, None),
        }
    }

    /// Ask for what may be asked for now. Answers that come meanwhile are no calls inside of this one.
    fn go(self: &Arc<Self>) {
        let mut state = self.lock();
        if state.asking {
            return; // who does looks again
        }
        state.asking = true;
        while state.asked < self.most && state.asked + state.arrived.len() < self.most * (1 + ARRIVED) {
            let Some((task, (key, want))) = state.prepared.pop_front() else { break };
            state.asked += 1;
            drop(state);
            let mut awaited = Awaited { arrivals: self.clone(), task, is_there: false };
            self.ask.ask(&key, want, Box::new(move |opened| awaited.is_told(opened)));
            state = self.lock();
        }
        state.asking = false;
    }

    fn arrive(&self, task: usize, opened: Option<Opened>) {
        let mut state = self.lock();
        if state.ended.is_none() {
            state.arrived.push_back((task, opened));
            drop(state);
            self.arrived.notify_one();
        }
    }

    /// Wait for the next value.
    fn next(&self, interrupt: Option<Interrupt<'_>>) -> Result<(usize, Option<Opened>)> {
        let mut state = self.lock();
        loop {
            if let Some(error) = &state.ended {
                return Err(error.clone());
            }
            if let Some(found) = state.arrived.pop_front() {
                return Ok(found);
            }
            let waited = self.arrived.wait_timeout(state, ASK_EVERY).unwrap_or_else(PoisonError::into_inner);
            state = waited.0;
            if waited.1.timed_out() {
                drop(state);
                if interrupt.is_some_and(|interrupt| interrupt()) {
                    return Err(Error::new(Kind::Interrupted, "interrupted"));
                }
                state = self.lock();
            }
        }
    }

    /// Nothing more is wanted.
    fn end(&self, error: Error) {
        let mut state = self.lock();
        state.ended.get_or_insert(error);
        let left = (std::mem::take(&mut state.prepared), std::mem::take(&mut state.arrived));
        drop(state);
        self.arrived.notify_all();
        drop(left); // which may need a lock of whoever tells
    }
}

/// A value that was asked for.
struct Awaited {
    arrivals: Arc<Arrivals>,
    task: usize,
    is_there: bool,
}

impl Awaited {
    fn is_told(&mut self, opened: Opened) {
        self.is_there = true;
        self.arrivals.lock().asked -= 1;
        self.arrivals.arrive(self.task, Some(opened));
        self.arrivals.go();
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        if !self.is_there {
            self.is_told(Err(Error::internal("a store has not answered")));
        }
    }
}
