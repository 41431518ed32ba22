//! What is kept of a chunk, or subchunk, of elements.

use std::mem::MaybeUninit;
use std::sync::Arc;

use super::chunk_memory::{
    initialised, initialised_all, initialised_mut, uninitialised, uninitialised_all, uninitialised_mut, Room,
};
use super::mask::Written;
use crate::array::{Array, Body, Level};
use crate::copy;
use crate::error::{Error, Result};
use crate::pipeline::operation::{Address, Portion};
use crate::read::offsets;
use crate::scratch::{blank, Scratch};
use crate::selection::Direction;
use crate::vlen::{self, Arena};
use crate::write;

/// A chunk or subchunk of elements, and which of them were written.
#[derive(Default)]
pub(super) struct Leaf {
    /// As they are stored without codecs; none before the first. Memory is not cleared in order
    /// to be written: what was not is not initialised. But handles and booleans, which are looked
    /// at where they are, are zeros.
    values: Room,
    written: Written,
    /// What items point to that are handles.
    elements: Vec<Vec<u8>>,
}

/// Where a read puts what it finds.
pub(super) struct Target<'a> {
    pub(super) out: Address,
    pub(super) arena: &'a Arena,
}

impl Leaf {
    /// Nothing yet, and where it is to be.
    pub(super) fn at(values: Room) -> Leaf {
        Leaf { values, ..Leaf::default() }
    }

    /// Have the elements elsewhere; what they are is up to whoever moves them.
    pub(super) fn move_to(&mut self, values: Room) {
        self.values = values;
    }

    /// How many bytes of elements there are.
    pub(super) fn bytes(&self) -> usize {
        self.values.len() + self.elements.iter().map(Vec::len).sum::<usize>()
    }

    /// All that is selected by `portion` was written.
    pub(super) fn covers(&self, portion: &Portion<'_, '_>) -> bool {
        self.written.covers(portion)
    }

    /// Every element was written, also outside of the array.
    pub(super) fn is_full(&self, level: &Level) -> bool {
        self.written.is_all(level)
    }

    /// Keep the elements of `portion`.
    ///
    /// # Safety
    /// As for [`write::write`], for what is selected by the portion.
    pub(super) unsafe fn put(
        &mut self,
        portion: &Portion<'_, '_>,
        value: Address,
        array: &Array,
    ) -> Result<()> {
        let has_handles = matches!(portion.level.body, Body::Vlen(_));
        if self.written.is_nothing() {
            if self.values.is_empty() {
                self.values = Room::Own(blank(portion.level.decoded_bytes)?);
            }
            if (has_handles || array.is_bool) && !portion.is_everything() {
                self.values.fill(MaybeUninit::new(0));
            }
        }
        // SAFETY: the caller's promise; there are the bytes of a chunk.
        unsafe { write::put(portion, value, self.values.as_mut_ptr().cast()) };
        if array.is_bool {
            let (low, high) = portion.span();
            // SAFETY: of booleans all bytes are initialised.
            copy::canonical_bools(unsafe { initialised_mut(&mut self.values[low..high]) });
        }
        if has_handles {
            // SAFETY: of handles, too; the caller keeps what those point to that were copied just now.
            let own = unsafe { gathered(portion, initialised_mut(&mut self.values)) };
            self.elements.push(own?);
        }
        self.written.add(portion)
    }

    /// Put what was written of `portion` into the caller's buffer.
    ///
    /// # Safety
    /// As for [`crate::read::read`], for what is selected by the portion.
    pub(super) unsafe fn read(
        &mut self,
        portion: &Portion<'_, '_>,
        target: &Target<'_>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        if !self.written.covers(portion) {
            self.written.become_mask(portion.level)?;
        }
        if let Body::Vlen(_) = portion.level.body {
            let mut handles = scratch.take();
            handles.clear();
            // SAFETY: of handles all bytes are initialised.
            handles.extend_from_slice(unsafe { initialised(&self.values) });
            // SAFETY: `elements` has what the handles point to; those never written are empty.
            let own = unsafe { gathered(portion, &mut handles) };
            let done = own.map(|own| {
                target.arena.keep(own);
                // SAFETY: the caller's promise.
                unsafe { self.written.deliver(portion, uninitialised(&handles), target.out) }
            });
            scratch.give(handles);
            return done;
        }
        // SAFETY: the caller's promise.
        unsafe { self.written.deliver(portion, &self.values, target.out) };
        Ok(())
    }

    /// All elements, also those outside of the array, if all were written.
    pub(super) fn whole(&self, level: &Level) -> Option<&[u8]> {
        // SAFETY: all of them are initialised then.
        self.written.is_all(level).then(|| unsafe { initialised(&self.values) })
    }

    /// Copies what was written to `chunk`, which is decoded.
    pub(super) fn merge(&self, level: &Level, chunk: &mut [u8]) {
        // SAFETY: only elements that were written, and so are initialised, are copied to it.
        self.written.merge(level, &self.values, unsafe { uninitialised_mut(chunk) });
    }

    /// The elements of a chunk that no codec changes; which of them were written is still told.
    pub(super) fn take_raw(&mut self, level: &Level, array: &Array) -> Option<Raw> {
        let begun = match &mut self.values {
            Room::Own(values) if level.is_raw() && !values.is_empty() => std::mem::take(values),
            _ => return None,
        };
        Some(Raw { begun, whole: None, is_bool: array.is_bool })
    }

    /// Have the elements of such a chunk again, as they are not stored.
    pub(super) fn give_raw(&mut self, mut raw: Raw) {
        raw.begin();
        self.values = Room::Own(raw.begun);
    }

    /// All elements of such a chunk: those that were not written from `rest`, which is only needed
    /// where there are any. Whoever asks again with another rest is given that.
    pub(super) fn completed(
        &self,
        raw: &mut Raw,
        level: &Level,
        rest: Option<&[u8]>,
    ) -> Result<Arc<Vec<u8>>> {
        raw.begin();
        match rest {
            Some(rest) => self.written.complete(level, &mut raw.begun, uninitialised(rest)),
            None if self.written.is_all(level) => {}
            None => return Err(Error::internal("elements of a chunk that are nowhere")),
        }
        if raw.is_bool {
            // SAFETY: by now all elements are initialised.
            copy::canonical_bools(unsafe { initialised_mut(&mut raw.begun) });
        }
        // SAFETY: as above.
        let values = unsafe { initialised_all(std::mem::take(&mut raw.begun)) };
        Ok(raw.whole.insert(Arc::new(values)).clone())
    }
}

/// The elements of a chunk that no codec changes.
pub(super) struct Raw {
    /// Those that were written.
    begun: Vec<MaybeUninit<u8>>,
    /// All, once they were asked for.
    whole: Option<Arc<Vec<u8>>>,
    is_bool: bool,
}

impl Raw {
    /// Have all of them as those that were written, and may be changed.
    fn begin(&mut self) {
        if let Some(whole) = self.whole.take() {
            self.begun = uninitialised_all(Arc::unwrap_or_clone(whole));
        }
    }
}

/// Copies the elements of `portion` out of where the handles in `values` point to, and makes
/// these point there.
///
/// # Safety
/// The bytes behind the handles are there.
unsafe fn gathered(portion: &Portion<'_, '_>, values: &mut [u8]) -> Result<Vec<u8>> {
    let own = portion.of_copy(Direction::FromCell, |copy| {
        let places = || offsets(copy.axes).map(|offset| (copy.cell + offset) as usize);
        // SAFETY: the caller's promise; the portion lies inside the chunk.
        Some(unsafe { vlen::gather(values, places) })
    });
    own.ok_or_else(|| Error::internal("fields of elements of any length"))?
}
