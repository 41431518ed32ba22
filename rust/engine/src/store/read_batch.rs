//! Batches of concurrent reads of small values and of listings.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::Arc;

use super::async_ops::spawn_or_run;
use super::{recv_interruptible, Listing, LoadedValue, ReadHint, Store};
use crate::error::{Error, Result};

/// A read of a batch.
#[derive(Clone, Debug)]
pub enum BatchRead {
    /// The value of a key with at most this many bytes.
    Value(String, Option<u64>),
    /// The size of the value of a key.
    Size(String),
    /// The keys under a prefix.
    Keys(String),
    /// The keys and prefixes one level below a prefix.
    Level(String),
}

/// The response to a [`BatchRead`].
pub enum BatchResponse {
    /// The value; None: the key is absent.
    Value(Option<LoadedValue>),
    /// The size of the value; None: the key is absent.
    Size(Option<u64>),
    /// Every key, sorted.
    Keys(Vec<String>),
    /// The keys and prefixes.
    Level(Listing),
}

impl BatchRead {
    /// Perform the read.
    fn run(&self, store: &dyn Store) -> Result<BatchResponse> {
        match self {
            BatchRead::Value(key, limit) => {
                store.load(key, *limit).map(BatchResponse::Value).map_err(|error| error.at_key(key))
            }
            BatchRead::Size(key) => {
                let opened = store.open(key, ReadHint::UnknownRanges)?;
                Ok(BatchResponse::Size(opened.map(|object| object.size())))
            }
            BatchRead::Keys(prefix) => store.list(prefix).map(BatchResponse::Keys),
            BatchRead::Level(prefix) => store.list_dir(prefix).map(BatchResponse::Level),
        }
    }
}

/// Perform reads in `concurrency` threads, and return the responses in order.
///
/// After an interrupt, the threads end with their current reads, and nothing waits for them.
///
/// # Errors
/// The error of an interrupt, or of a thread that must not wait for other threads.
pub fn read_batch(
    store: &Arc<dyn Store>,
    reads: Vec<BatchRead>,
    concurrency: usize,
) -> Result<Vec<Result<BatchResponse>>> {
    store.check_may_block()?;
    let lost = || Err(Error::internal("a read of a batch has no response"));
    let mut responses: Vec<_> = reads.iter().map(|_| lost()).collect();
    let (sender, receiver) = channel();
    let (reads, next) = (Arc::new(reads), Arc::new(AtomicUsize::new(0)));
    for _ in 0..concurrency.min(responses.len()) {
        let (store, reads, next, sender) = (store.clone(), reads.clone(), next.clone(), sender.clone());
        spawn_or_run(move || loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(read) = reads.get(number) else { break };
            if sender.send((number, read.run(&*store))).is_err() {
                break; // interrupted
            }
        });
    }
    drop(sender);
    while let Some((number, response)) = recv_interruptible(&receiver)? {
        responses[number] = response;
    }
    Ok(responses)
}
