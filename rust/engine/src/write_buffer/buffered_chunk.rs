//! The state of a chunk in a write buffer: buffered, being stored, or stored.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{current, ThreadId};

use super::lock;
use super::memory::{BufferMemory, Charge};
use super::node::Node;
use crate::array::Level;
use crate::error::{Error, Result};
use crate::store::{fork, Wait};

/// The buffered elements of one chunk.
#[derive(Default)]
pub(super) struct BufferedChunk {
    state: Mutex<State>,
    /// The number of the last write, in the order of [`BufferMemory::next_write`].
    last_write: AtomicU64,
    /// The last attempt to store it has failed.
    has_failed: AtomicBool,
}

#[derive(Default)]
pub(super) enum State {
    /// No elements.
    #[default]
    Empty,
    Some(ChargedNode),
    /// This thread stores it, in the process with this fork generation.
    Storing(u64, ThreadId),
    /// It is stored, or it had no elements. It leaves the buffer and takes no more elements.
    Stored,
}

/// A node and its memory.
pub(super) struct ChargedNode {
    pub(super) node: Node,
    pub(super) charge: Charge,
}

impl ChargedNode {
    pub(super) fn new(level: &Level, memory: &Arc<BufferMemory>) -> Self {
        ChargedNode { node: Node::of(level), charge: Charge::new(memory) }
    }
}

impl State {
    pub(super) fn node(&self) -> Option<&Node> {
        match self {
            State::Some(charged) => Some(&charged.node),
            State::Empty | State::Storing(..) | State::Stored => None,
        }
    }

    /// Take the node to store it; None: the state has none.
    pub(super) fn start_storing(&mut self) -> Option<ChargedNode> {
        match std::mem::replace(self, State::Storing(fork::generation(), current().id())) {
            State::Some(node) => Some(node),
            // A thread that is about to put elements here starts again.
            State::Empty => {
                *self = State::Stored;
                None
            }
            other => {
                *self = other;
                None
            }
        }
    }
}

impl BufferedChunk {
    /// Run `work` with the state at once: `work` does not block, and no fork intervenes.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        let _gate = fork::gate();
        let mut state = lock(&self.state);
        work(&mut state)
    }

    /// Run `work` with the state once no thread stores the chunk.
    pub(super) fn when_not_storing<T>(&self, mut work: impl FnMut(&mut State) -> Result<T>) -> Result<T> {
        let mut wait = Wait::unlimited();
        loop {
            let result = self.with(|state| match *state {
                State::Storing(generation, thread) => Err((generation, thread)),
                _ => Ok(work(state)),
            });
            match result {
                Ok(result) => return result,
                Err((generation, thread)) if generation == fork::generation() => {
                    if thread == current().id() {
                        return Err(Error::argument(STORED_BY_THIS_THREAD));
                    }
                    wait.step()?;
                }
                Err(_) => return Err(Error::argument(FORKED_WHILE_STORING)),
            }
        }
    }

    /// Return the number of the last write.
    pub(super) fn last_write(&self) -> u64 {
        self.last_write.load(Ordering::Relaxed)
    }

    pub(super) fn set_last_write(&self, number: u64) {
        self.last_write.store(number, Ordering::Relaxed);
    }

    /// Return whether the last attempt to store it has failed.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    pub(super) fn set_failed(&self, failed: bool) {
        self.has_failed.store(failed, Ordering::Relaxed);
    }
}

/// Waiting would never end.
const STORED_BY_THIS_THREAD: &str =
    "the store or a codec used the chunk that it was storing: it cannot use its own array";

/// The outcome is unknown in this process.
const FORKED_WHILE_STORING: &str = "another thread was storing it when this process was forked";
