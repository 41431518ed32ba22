//! Non-blocking get and put, with completion and cancellation.

use std::sync::Arc;
use std::thread::Builder;

use super::{aside, Object, Version, Want};
use crate::error::Result;
use crate::pool::Queued;

/// The result of [`super::Store::open`].
pub type Opened = Result<Option<Box<dyn Object>>>;

/// Tells whether the caller of an asynchronous operation still needs the result.
pub trait Asker: Send + Sync {
    /// Whether the result is needed; otherwise the operation need not start, or be retried.
    fn wants(&self) -> bool;
}

/// The completion callback of an asynchronous operation. It runs once, in any thread, including one
/// that serves all other responses.
pub struct Told<T = Option<Box<dyn Object>>> {
    asker: Arc<dyn Asker>,
    tell: Box<dyn FnOnce(Result<T>) + Send>,
}

impl<T: 'static> Told<T> {
    /// `complete` neither blocks nor runs for long.
    pub fn new(asker: Arc<dyn Asker>, tell: impl FnOnce(Result<T>) + Send + 'static) -> Self {
        Told { asker, tell: Box::new(tell) }
    }

    /// Whether the result is still needed.
    pub fn is_wanted(&self) -> bool {
        self.asker.wants()
    }

    /// A check whether the result is needed, which outlives the completion.
    pub fn wanted(&self) -> impl Fn() -> bool + Send + 'static {
        let asker = self.asker.clone();
        move || asker.wants()
    }

    /// Run the callback with the result.
    pub fn tell(self, done: Result<T>) {
        (self.tell)(done);
    }

    /// A completion that passes its result through `then`, which completes this one.
    pub fn then(self, then: impl FnOnce(Told<T>, Result<T>) + Send + 'static) -> Told<T> {
        Told::new(self.asker.clone(), move |done| then(self, done))
    }
}

/// Reads of a store that one thread starts without waiting for each.
pub trait Ask: Send + Sync {
    /// Start [`super::Store::open`]. `completion` may run before this returns, or inside the
    /// completion of another read.
    fn ask(&self, key: &str, want: Want, told: Told);
}

/// Writes of a store that one thread starts without waiting for each.
pub trait Put: Send + Sync {
    /// Replace the value of a key unconditionally, and complete with its version, if known.
    /// `completion` runs as in [`AsyncGet::get`]. A write that has started finishes even if it is
    /// cancelled.
    fn put(&self, key: &str, value: &Arc<Vec<u8>>, told: Told<Option<Version>>);
}

/// Run a blocking store operation in a thread, if it is still needed, and complete with its result.
pub fn by_thread<T: 'static>(told: Told<T>, work: impl FnOnce() -> Result<T> + Send + 'static) {
    on_thread(move || {
        if told.is_wanted() {
            told.tell(work());
        }
    });
}

/// Run `work` in a new thread, or in this one if no thread can be created.
pub(super) fn on_thread(work: impl FnOnce() + Send + 'static) {
    let queued = Queued::new(move |_| work());
    let here = queued.clone();
    let thread = Builder::new().name("tessarr-value".to_owned());
    if thread.spawn(move || queued.help()).is_err() {
        aside(|| here.help());
    }
}
