//! Non-blocking get and put, with completion and cancellation.

use std::sync::Arc;
use std::thread::Builder;

use super::{run_blocking, ReadHint, ValueReader, Version};
use crate::error::Result;
use crate::pool::QueuedOperation;

/// The result of [`super::Store::open`].
pub type OpenResult = Result<Option<Box<dyn ValueReader>>>;

/// Whether the caller of an asynchronous operation still needs the result.
pub trait CancelToken: Send + Sync {
    /// Return whether the result is needed; otherwise the operation need not start, or be retried.
    fn is_active(&self) -> bool;
}

/// The completion callback of an asynchronous operation. It runs once, in any thread, including one
/// that serves all other responses.
pub struct Completion<T = Option<Box<dyn ValueReader>>> {
    token: Arc<dyn CancelToken>,
    complete: Box<dyn FnOnce(Result<T>) + Send>,
}

impl<T: 'static> Completion<T> {
    /// `complete` neither blocks nor runs for long.
    pub fn new(token: Arc<dyn CancelToken>, complete: impl FnOnce(Result<T>) + Send + 'static) -> Self {
        Completion { token, complete: Box::new(complete) }
    }

    /// Return whether the result is still needed.
    pub fn is_active(&self) -> bool {
        self.token.is_active()
    }

    /// Return a check whether the result is needed, which outlives the completion.
    pub fn active_check(&self) -> impl Fn() -> bool + Send + 'static {
        let token = self.token.clone();
        move || token.is_active()
    }

    /// Run the callback with the result.
    pub fn complete(self, result: Result<T>) {
        (self.complete)(result);
    }

    /// Return a completion that passes its result through `chain`, which completes this one.
    pub fn chain(self, chain: impl FnOnce(Completion<T>, Result<T>) + Send + 'static) -> Completion<T> {
        Completion::new(self.token.clone(), move |result| chain(self, result))
    }
}

/// Reads of a store that one thread starts without waiting for each.
pub trait AsyncGet: Send + Sync {
    /// Start [`super::Store::open`]. `completion` may run before this returns, or inside the
    /// completion of another read.
    fn get(&self, key: &str, hint: ReadHint, completion: Completion);
}

/// Writes of a store that one thread starts without waiting for each.
pub trait AsyncPut: Send + Sync {
    /// Replace the value of a key unconditionally, and complete with its version, if known.
    /// `completion` runs as in [`AsyncGet::get`]. A write that has started finishes even if it is
    /// cancelled.
    fn put(&self, key: &str, value: &Arc<Vec<u8>>, completion: Completion<Option<Version>>);
}

/// Run a blocking store operation in a thread, if it is still needed, and complete with its result.
pub fn complete_on_thread<T: 'static>(
    completion: Completion<T>,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) {
    spawn_or_run(move || {
        if completion.is_active() {
            completion.complete(work());
        }
    });
}

/// Run `work` in a new thread, or in this one if no thread can be created.
pub(super) fn spawn_or_run(work: impl FnOnce() + Send + 'static) {
    let queued = QueuedOperation::new(move |_| work());
    let blocking = queued.clone();
    let thread = Builder::new().name("tessarr-value".to_owned());
    if thread.spawn(move || queued.help()).is_err() {
        run_blocking(|| blocking.help());
    }
}
