//! What a worker thread keeps between chunks, so that a chunk allocates nothing.

use std::cell::RefCell;

use crate::codec::Context;

/// Buffers above this many bytes in sum are given back after an operation.
const KEPT_BYTES: usize = 48 << 20;

/// Codec contexts and reusable buffers of one thread.
#[derive(Default)]
pub struct Scratch {
    /// Codec contexts and tables.
    pub context: Context,
    /// Text of the key in work.
    pub key: String,
    spare: Vec<Vec<u8>>,
}

type Spare = Vec<Box<Scratch>>;

thread_local! {
    static SPARE: RefCell<Spare> = const { RefCell::new(Vec::new()) };
}

impl Scratch {
    /// Run `work` with a scratch of this thread. Calls nest (work inside a
    /// shard, a codec written in Python that reads another array): each depth
    /// has a scratch of its own.
    pub fn with<R>(work: impl FnOnce(&mut Scratch) -> R) -> R {
        let mut scratch = SPARE.with_borrow_mut(Vec::pop).unwrap_or_default();
        let result = work(&mut scratch);
        scratch.trim();
        SPARE.with_borrow_mut(|spare| spare.push(scratch));
        result
    }

    /// A buffer of any length and content; hand it back with [`Scratch::give`].
    pub fn take(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Keep `buffer` for the next [`Scratch::take`].
    pub fn give(&mut self, buffer: Vec<u8>) {
        if buffer.capacity() > 0 {
            self.spare.push(buffer);
        }
    }

    fn trim(&mut self) {
        let mut kept = 0;
        self.spare.retain(|buffer| {
            kept += buffer.capacity();
            kept <= KEPT_BYTES
        });
    }
}

/// The first `size` bytes of `buffer`, grown where needed. Old content stays:
/// memory is cleared only when it is new, and then by the system.
pub fn sized(buffer: &mut Vec<u8>, size: usize) -> &mut [u8] {
    if buffer.len() < size {
        if buffer.capacity() < size {
            *buffer = vec![0; size];
        } else {
            buffer.resize(size, 0);
        }
    }
    &mut buffer[..size]
}
