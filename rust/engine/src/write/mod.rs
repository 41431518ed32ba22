//! Writes: from the caller's buffer to keys.
//!
//! A write is *full* in a chunk if it covers every element inside the array (or every element, if
//! those past the edge must stay): it reads nothing. Otherwise the current value is decoded, merged
//! and encoded under the lock of the key, so that no other write is lost. Untouched subchunks of a
//! shard keep their encoded bytes without being decoded.

mod elements;
mod shards;

use std::sync::Arc;

use crate::array::{Array, Body, Level, Shard};
use crate::codec::BytesCodec;
use crate::copy;
use crate::error::{Error, Kind, Result};
use crate::pipeline::operation::Operation;
use crate::pipeline::source::Source;
use crate::scratch::{reserve, sized, Scratch};
use crate::shard_index;
use crate::store::{join, Change, UpdateOptions, ValuePart};
use crate::vlen;

pub use self::elements::write;
pub(crate) use self::elements::{encode_chunk, put, write_chunk};

/// One write in progress.
pub(crate) struct Writer<'a> {
    operation: Operation<'a>,
    pub(crate) array: &'a Array,
    /// Workers share the subchunks of a shard.
    spread: bool,
    /// Whether chunks that are all fill are stored.
    store_fill: bool,
}

/// The current encoding of a chunk, shard or subchunk.
type Current<'c> = Option<Source<'c>>;

/// The new elements of a chunk, shard or subchunk.
pub(crate) trait NewElements<'a>: Sync {
    /// Return the level that encodes it.
    fn level(&self) -> &Level;

    /// Return the array index of its first element.
    fn origin(&self) -> &[u64];

    /// Return whether every element inside `bounds` is new. Without bounds every element must be
    /// new.
    fn is_full(&self, bounds: Option<&[u64]>) -> bool;

    /// Return the decoded bytes, if they are contiguous in the form without codecs.
    fn run(&self) -> Option<&'a [u8]>;

    /// Copy the new elements into the decoded chunk.
    fn put(&self, chunk: &mut [u8]);

    /// Return the new elements of the subchunks of `shard`.
    fn subchunks<'n>(&'n self, shard: &'n Shard) -> Result<Box<dyn NewSubchunks<'a> + 'n>>;
}

/// The new elements of the subchunks of a shard.
pub(crate) trait NewSubchunks<'a>: Sync {
    /// Return the touched subchunks, in any order.
    fn touched(&self) -> Result<Vec<TouchedSubchunk>>;

    /// Run `work` with one of them.
    fn with(&self, task: usize, work: &mut SubchunkWork<'_, 'a>) -> Result<()>;
}

/// Processes the cell of a subchunk and its new elements.
pub(crate) type SubchunkWork<'w, 'a> = dyn FnMut(&[u64], &dyn NewElements<'a>) -> Result<()> + 'w;

/// A subchunk to write: its number in the index, and in [`NewSubchunks`].
pub(crate) struct TouchedSubchunk {
    pub(crate) number: usize,
    pub(crate) task: usize,
}

pub(crate) fn check_writable(operation: Operation<'_>) -> Result<()> {
    match operation.store.read_only() {
        true => Err(Error::new(Kind::ReadOnly, "the store is open for reading only")),
        false => Ok(()),
    }
}

impl<'a> Writer<'a> {
    pub(crate) fn new(operation: Operation<'a>, spread: bool) -> Self {
        Writer { operation, array: operation.array, spread, store_fill: operation.array.store_fill }
    }

    /// Update the chunk or shard at `key`.
    pub(crate) fn chunk(
        &self,
        key: &str,
        new_elements: &dyn NewElements<'a>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        self.forget(key, new_elements.level());
        let is_full = new_elements.is_full(self.operation.bounds());
        let options = UpdateOptions::reading_current(!is_full);
        let has_conditional_deletes = self.operation.store.info().has_conditional_deletes;
        let outcome = self.operation.store.update(key, options, &mut |object| {
            if options.current && object.is_none() {
                self.operation.check_missing(key)?;
            }
            let change = self.change(new_elements, object.map(Source::of), is_full, scratch)?;
            Ok(match change {
                Change::Delete if options.current && object.is_none() => Change::Keep,
                // A deletion could not see that another writer has changed the chunk meanwhile.
                Change::Delete if options.current && !has_conditional_deletes => {
                    let writer = Writer { store_fill: true, ..*self };
                    writer.change(new_elements, object.map(Source::of), is_full, scratch)?
                }
                change => change,
            })
        })?;
        if let Change::Write(parts) = outcome.change {
            recycle(parts, scratch);
        }
        Ok(())
    }

    /// Forget the cached chunks, and the last known index of a remote shard, of a value that is about
    /// to change.
    fn forget(&self, key: &str, level: &Level) {
        if let Some(cache) = self.operation.chunk_cache {
            cache.forget(key);
        }
        if let (Body::Shard(shard), true) = (&level.body, self.operation.store.concurrency() > 0) {
            shard_index::cache::set_last(shard.id, key, None);
        }
    }

    /// Encode a chunk or shard without its stored value. None: it has no value, or needs the stored
    /// one.
    fn encode_value(
        &self,
        key: &str,
        new_elements: &dyn NewElements<'a>,
        scratch: &mut Scratch,
    ) -> Result<Option<Arc<Vec<u8>>>> {
        if !new_elements.is_full(self.operation.bounds()) {
            return Ok(None);
        }
        self.forget(key, new_elements.level());
        let Change::Write(parts) = self.change(new_elements, None, true, scratch)? else { return Ok(None) };
        match <[ValuePart<'_>; 1]>::try_from(parts) {
            // A reused buffer may be much larger than its content.
            Ok([ValuePart::Owned(bytes)]) if bytes.capacity() / 2 <= bytes.len() => Ok(Some(Arc::new(bytes))),
            Ok(parts) => concatenate(parts.into(), scratch).map(Some),
            Err(parts) => concatenate(parts, scratch).map(Some),
        }
    }

    fn change(
        &self,
        new_elements: &dyn NewElements<'a>,
        current: Current<'_>,
        is_full: bool,
        scratch: &mut Scratch,
    ) -> Result<Change<'a>> {
        let level = new_elements.level();
        if let (Body::Shard(shard), true) = (&level.body, level.bytes_codecs.is_empty()) {
            return self.shard(shard, new_elements, current, scratch);
        }
        if let (true, true, Some(bytes)) = (is_full, level.is_raw(), new_elements.run()) {
            return Ok(if self.is_fill(level, bytes) {
                Change::Delete
            } else {
                Change::Write(vec![ValuePart::Borrowed(bytes)])
            });
        }
        let mut out = scratch.take();
        let stored = if level.is_raw() {
            let chunk = sized(&mut out, level.decoded_bytes);
            let stored =
                chunk.and_then(|chunk| self.gather_raw(new_elements, current, is_full, chunk, scratch));
            out.truncate(level.decoded_bytes);
            stored
        } else {
            out.clear();
            self.level(new_elements, current, is_full, &mut out, scratch)
        };
        match stored {
            Ok(true) => Ok(Change::Write(vec![ValuePart::Owned(out)])),
            other => {
                scratch.put_back(out);
                other.map(|_| Change::Delete)
            }
        }
    }

    /// Append the new encoding to `out`; false if the chunk is all fill, and not stored.
    fn level(
        &self,
        new_elements: &dyn NewElements<'a>,
        current: Current<'_>,
        is_full: bool,
        out: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<bool> {
        let level = new_elements.level();
        let Body::Shard(shard) = &level.body else {
            return self.encode_elements(new_elements, current, is_full, out, scratch);
        };
        match current {
            None => self.encode_shard(shard, new_elements, None, out, scratch),
            Some(source) => level.with_shard(shard, source, scratch, |source, scratch| {
                self.encode_shard(shard, new_elements, Some(source), out, scratch)
            }),
        }
    }

    /// Encode a shard inside a shard, or one with codecs; `current` is without these.
    fn encode_shard(
        &self,
        shard: &Shard,
        new_elements: &dyn NewElements<'a>,
        current: Current<'_>,
        out: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<bool> {
        scratch.with_buffer(|whole, scratch| {
            whole.clear();
            match self.shard(shard, new_elements, current, scratch)? {
                Change::Delete => return Ok(false),
                Change::Keep => current.map_or(Ok(()), |source| source.append_to(whole))?,
                Change::Write(parts) => {
                    join(&parts, current, whole)?;
                    recycle(parts, scratch);
                }
            }
            new_elements.level().bytes_codecs.encode(whole, out, scratch).map(|()| true)
        })
    }

    /// Encode a chunk or subchunk of elements.
    fn encode_elements(
        &self,
        new_elements: &dyn NewElements<'a>,
        current: Current<'_>,
        is_full: bool,
        out: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<bool> {
        let level = new_elements.level();
        if level.is_raw() {
            let before = out.len();
            reserve(out, level.decoded_bytes)?;
            out.resize(before + level.decoded_bytes, 0);
            let stored = self.gather_raw(new_elements, current, is_full, &mut out[before..], scratch)?;
            if !stored {
                out.truncate(before);
            }
            return Ok(stored);
        }
        let _permit = self.operation.store.coding_permit()?;
        if let (true, Some(bytes)) = (is_full, new_elements.run()) {
            return self.encode(level, bytes, out, scratch);
        }
        let (mut buffer, mut elements) = (scratch.take(), scratch.take());
        let stored = sized(&mut buffer, level.decoded_bytes).and_then(|chunk| {
            self.gather(new_elements, current, is_full, chunk, &mut elements, scratch)?;
            self.encode(level, chunk, out, scratch)
        });
        scratch.put_back(buffer);
        scratch.put_back(elements);
        stored
    }

    /// Gather a chunk without codecs, which is its own encoding. False if it is all fill.
    fn gather_raw(
        &self,
        new_elements: &dyn NewElements<'a>,
        current: Current<'_>,
        is_full: bool,
        chunk: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<bool> {
        let _permit = self.operation.store.coding_permit()?;
        self.gather(new_elements, current, is_full, chunk, &mut Vec::new(), scratch)?;
        Ok(!self.is_fill(new_elements.level(), chunk))
    }

    /// Compute the new decoded chunk: the current elements or fill, and the caller's elements. If
    /// items are handles, those of the current chunk point into `elements`.
    #[allow(clippy::too_many_arguments)]
    fn gather(
        &self,
        new_elements: &dyn NewElements<'a>,
        current: Option<Source<'_>>,
        is_full: bool,
        chunk: &mut [u8],
        elements: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let level = new_elements.level();
        match current {
            Some(source) if !is_full => level.load(source, chunk, elements, scratch, || Ok(()))?,
            _ if is_full && self.is_inside_array(new_elements) => {}
            _ => fill_all(chunk, &level.stored_fill),
        }
        new_elements.put(chunk);
        if self.array.is_bool {
            copy::normalize_bools(chunk);
        }
        Ok(())
    }

    /// Return whether no element of the chunk lies past the edge of the array.
    fn is_inside_array(&self, new_elements: &dyn NewElements<'a>) -> bool {
        let ends =
            new_elements.origin().iter().zip(&new_elements.level().shape).map(|(origin, size)| origin + size);
        ends.zip(&self.array.shape).all(|(end, &bound)| end <= bound)
    }

    fn encode(&self, level: &Level, chunk: &[u8], out: &mut Vec<u8>, scratch: &mut Scratch) -> Result<bool> {
        if self.is_fill(level, chunk) {
            return Ok(false);
        }
        let encoded = scratch.with_buffer(|inner, scratch| {
            inner.clear();
            match &level.body {
                Body::Foreign(codec) => codec
                    .encode(chunk, inner, &mut scratch.context)
                    .map_err(|error| error.in_codec(codec.name()))?,
                // SAFETY: the caller of `write` keeps the targets of its handles alive. Those of the
                // current chunk point into memory that `encode_elements` owns until this returns.
                Body::Vlen(_) => unsafe { vlen::encode(chunk, inner) }?,
                _ => return level.bytes_codecs.encode(chunk, out, scratch),
            }
            level.bytes_codecs.encode(inner, out, scratch)
        });
        encoded.map(|()| true)
    }

    /// Return whether the chunk is all fill, so that it is not stored.
    fn is_fill(&self, level: &Level, chunk: &[u8]) -> bool {
        if self.store_fill {
            return false;
        }
        match &self.array.fill_element {
            // SAFETY: as for encoding.
            Some(element) => unsafe { vlen::is_filled(chunk, element) },
            None => copy::is_filled(chunk, &level.stored_fill),
        }
    }
}

/// Concatenate the parts of a value.
fn concatenate(parts: Vec<ValuePart<'_>>, scratch: &mut Scratch) -> Result<Arc<Vec<u8>>> {
    let mut value = Vec::new();
    join(&parts, None, &mut value)?;
    recycle(parts, scratch);
    Ok(Arc::new(value))
}

fn recycle(parts: Vec<ValuePart<'_>>, scratch: &mut Scratch) {
    for part in parts {
        if let ValuePart::Owned(bytes) = part {
            scratch.put_back(bytes);
        }
    }
}

fn fill_all(chunk: &mut [u8], item: &[u8]) {
    if item.iter().all(|&byte| byte == item[0]) {
        chunk.fill(item[0]);
    } else {
        chunk.chunks_exact_mut(item.len()).for_each(|item_bytes| item_bytes.copy_from_slice(item));
    }
}
