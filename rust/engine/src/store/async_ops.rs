//! Non-blocking get and put, with completion and cancellation.

use std::sync::Arc;
use std::thread::Builder;

use super::{run_blocking, ReadHint, Store, ValueReader, Version};
use crate::error::{Error, Result};
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

    /// Return a completion that passes its result through `map` to this one.
    pub(super) fn map(self, map: impl FnOnce(Result<T>) -> Result<T> + Send + 'static) -> Completion<T> {
        self.chain(move |completion, result| completion.complete(map(result)))
    }
}

/// A request of one key that starts without a thread that waits for it.
pub enum AsyncRequest {
    /// Open the value, as [`super::Store::open`] does.
    Open {
        /// The key.
        key: String,
        /// The bytes that the caller is going to read.
        hint: ReadHint,
        /// Receives the open value.
        completion: Completion,
    },
    /// Replace the value unconditionally. A write that has started finishes even if it is
    /// cancelled.
    Put {
        /// The key.
        key: String,
        /// The new value.
        value: Arc<Vec<u8>>,
        /// Receives the version of the new value, if known.
        completion: Completion<Option<Version>>,
    },
}

/// Starts asynchronous requests of a store. A completion may run before this returns, or inside the
/// completion of another request.
pub type StartRequest = Arc<dyn Fn(AsyncRequest) + Send + Sync>;

impl AsyncRequest {
    /// Return the key.
    pub fn key(&self) -> &str {
        let (AsyncRequest::Open { key, .. } | AsyncRequest::Put { key, .. }) = self;
        key
    }

    /// Return the same request of another key.
    pub(super) fn with_key(mut self, new_key: String) -> Self {
        let (AsyncRequest::Open { key, .. } | AsyncRequest::Put { key, .. }) = &mut self;
        *key = new_key;
        self
    }

    /// Return whether the result is still needed.
    pub(super) fn is_active(&self) -> bool {
        match self {
            AsyncRequest::Open { completion, .. } => completion.is_active(),
            AsyncRequest::Put { completion, .. } => completion.is_active(),
        }
    }

    /// Complete with an error.
    pub(super) fn fail(self, error: Error) {
        match self {
            AsyncRequest::Open { completion, .. } => completion.complete(Err(error)),
            AsyncRequest::Put { completion, .. } => completion.complete(Err(error)),
        }
    }

    /// Return the same request whose errors name the key.
    pub(super) fn with_key_in_errors(self) -> Self {
        let name = self.key().to_owned();
        match self {
            AsyncRequest::Open { key, hint, completion } => {
                let completion = completion.map(move |opened| opened.map_err(|error| error.at_key(&name)));
                AsyncRequest::Open { key, hint, completion }
            }
            AsyncRequest::Put { key, value, completion } => {
                let completion = completion.map(move |result| result.map_err(|error| error.at_key(&name)));
                AsyncRequest::Put { key, value, completion }
            }
        }
    }

    /// Run the request in a thread that blocks on `store`.
    pub(super) fn run_on_thread(self, store: Arc<dyn Store>) {
        match self {
            AsyncRequest::Open { key, hint, completion } => {
                complete_on_thread(completion, move || store.open(&key, hint));
            }
            AsyncRequest::Put { key, value, completion } => {
                complete_on_thread(completion, move || store.put_shared(&key, &value));
            }
        }
    }
}

/// Run a blocking store operation in a thread, if it is still needed, and complete with its result.
fn complete_on_thread<T: 'static>(
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
