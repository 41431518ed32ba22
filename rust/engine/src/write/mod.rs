//! Writing: from the caller's buffer to keys.
//!
//! A chunk is *full* when every element inside the array is written, or, where what stands past its
//! edge is to stay, every element: then nothing is read. Else its current value is decoded, merged and encoded
//! under the key's lock, so that no other writer's part is lost. In a shard
//! the untouched subchunks keep their encoded bytes; nobody decodes them.

mod elements;
mod shards;

use std::sync::Arc;

use crate::array::{Array, Body, Level, Shard};
use crate::codec::chain::expect_size;
use crate::codec::BytesCodec;
use crate::copy;
use crate::error::{Error, Kind, Result};
use crate::pipeline::operation::Operation;
use crate::pipeline::source::Source;
use crate::scratch::{reserve, sized, Scratch};
use crate::store::{join, Change, UpdateOptions, ValuePart, ValueReader};
use crate::vlen;

pub(crate) use self::elements::put;
pub use self::elements::write;

/// One write in progress.
pub(crate) struct Writer<'a> {
    operation: Operation<'a>,
    pub(crate) array: &'a Array,
    /// Shards spread their subchunks over the pool.
    spread: bool,
}

/// The current encoding of a chunk, shard or subchunk.
type Current<'c> = Option<Source<'c>>;

/// What a write makes of a chunk, shard or subchunk.
pub(crate) trait New<'a>: Sync {
    /// How it is encoded.
    fn level(&self) -> &Level;

    /// The array index at which it begins.
    fn origin(&self) -> &[u64];

    /// Every element is new that lies inside `bounds`, if there are any.
    fn is_full(&self, bounds: Option<&[u64]>) -> bool;

    /// The bytes of all of it, where they lie as they are stored without codecs.
    fn run(&self) -> Option<&'a [u8]>;

    /// Puts the new elements where they stand in the decoded chunk.
    fn put(&self, chunk: &mut [u8]);

    /// What it makes of the subchunks of `shard`, which it is.
    fn parts<'n>(&'n self, shard: &'n Shard) -> Result<Box<dyn Parts<'a> + 'n>>;
}

/// What a write makes of the subchunks of a shard.
pub(crate) trait Parts<'a>: Sync {
    /// Those that it touches, in any order.
    fn touched(&self) -> Result<Vec<Touched>>;

    /// Does `work` with one of them.
    fn with(&self, task: usize, work: &mut Work<'_, 'a>) -> Result<()>;
}

/// What is done with the place of a subchunk, and with what becomes of it.
pub(crate) type Work<'w, 'a> = dyn FnMut(&[u64], &dyn New<'a>) -> Result<()> + 'w;

/// Makes all elements of a chunk of those that are not new, if there are any.
pub(crate) type Completed<'w> = dyn FnMut(Option<&[u8]>) -> Result<Arc<Vec<u8>>> + 'w;

/// A subchunk to write: its number in the index, and in its [`Parts`].
pub(crate) struct Touched {
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
        Writer { operation, array: operation.array, spread }
    }

    /// Changes the chunk or shard at `key`.
    pub(crate) fn chunk(&self, key: &str, new: &dyn New<'a>, scratch: &mut Scratch) -> Result<()> {
        let full = new.is_full(self.operation.bounds());
        let need = UpdateOptions::reading_current(!full);
        let made = self.operation.store.update(key, need, &mut |object| {
            if need.current && object.is_none() {
                self.operation.check_missing(key)?;
            }
            let change = self.change(new, object.map(Source::of), full, scratch)?;
            Ok(match change {
                Change::Delete if need.current && object.is_none() => Change::Keep,
                change => change,
            })
        })?;
        if let Change::Write(parts) = made.change {
            recycle(parts, scratch);
        }
        Ok(())
    }

    /// Makes the value of a chunk or shard, which is not stored; None: it is to have none, or its current one is
    /// needed.
    fn value(&self, new: &dyn New<'a>, scratch: &mut Scratch) -> Result<Option<Arc<Vec<u8>>>> {
        if !new.is_full(self.operation.bounds()) {
            return Ok(None);
        }
        let Change::Write(parts) = self.change(new, None, true, scratch)? else { return Ok(None) };
        match <[ValuePart<'_>; 1]>::try_from(parts) {
            // A buffer from before may be much larger than what is in it.
            Ok([ValuePart::Owned(bytes)]) if bytes.capacity() / 2 <= bytes.len() => Ok(Some(Arc::new(bytes))),
            Ok(parts) => whole(parts.into(), scratch).map(Some),
            Err(parts) => whole(parts, scratch).map(Some),
        }
    }

    /// Gives the chunk at `key`, which no codec changes, the elements that are `completed` by those
    /// of the current chunk, or fill.
    pub(crate) fn raw_chunk(
        &self,
        key: &str,
        new: &dyn New<'a>,
        completed: &mut Completed<'_>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let level = new.level();
        let full = new.is_full(self.operation.bounds());
        self.operation.store.update(key, UpdateOptions::reading_current(!full), &mut |object| {
            let _turn = self.operation.store.coding_permit()?;
            let values = match full {
                true => completed(None)?,
                false => self.with_rest(level, object, completed, scratch)?,
            };
            Ok(match self.is_fill(level, &values) {
                true if !full && object.is_none() => Change::Keep,
                true => Change::Delete,
                false => Change::Write(vec![ValuePart::Shared(values)]),
            })
        })?;
        Ok(())
    }

    /// Gives the key of a chunk a value that was made of all of it.
    pub(crate) fn made(&self, key: &str, value: &Arc<Vec<u8>>) -> Result<()> {
        let write = || Change::Write(vec![ValuePart::Shared(value.clone())]);
        self.operation.store.update(key, UpdateOptions::UNCONDITIONAL, &mut |_| Ok(write())).map(drop)
    }

    /// What is made of the elements that a chunk has that no codec changes, or of fill.
    fn with_rest(
        &self,
        level: &Level,
        object: Option<&dyn ValueReader>,
        completed: &mut Completed<'_>,
        scratch: &mut Scratch,
    ) -> Result<Arc<Vec<u8>>> {
        let source = object.map(Source::of);
        if let Some(bytes) = source.and_then(|source| source.in_memory()) {
            expect_size(bytes.len(), level.decoded_bytes)?;
            return completed(Some(bytes));
        }
        let mut buffer = scratch.take();
        let done = sized(&mut buffer, level.decoded_bytes).and_then(|rest| {
            match source {
                Some(source) => level.load(source, rest, &mut Vec::new(), scratch, || Ok(()))?,
                None => fill_all(rest, &level.stored_fill),
            }
            completed(Some(rest))
        });
        scratch.give(buffer);
        done
    }

    fn change(
        &self,
        new: &dyn New<'a>,
        current: Current<'_>,
        full: bool,
        scratch: &mut Scratch,
    ) -> Result<Change<'a>> {
        let level = new.level();
        if let (Body::Shard(shard), true) = (&level.body, level.pipeline.is_empty()) {
            return self.shard(shard, new, current, scratch);
        }
        if let (true, true, Some(bytes)) = (full, level.is_raw(), new.run()) {
            return Ok(if self.is_fill(level, bytes) {
                Change::Delete
            } else {
                Change::Write(vec![ValuePart::Borrowed(bytes)])
            });
        }
        let mut out = scratch.take();
        let stored = if level.is_raw() {
            let chunk = sized(&mut out, level.decoded_bytes);
            let stored = chunk.and_then(|chunk| self.raw(new, current, full, chunk, scratch));
            out.truncate(level.decoded_bytes);
            stored
        } else {
            out.clear();
            self.level(new, current, full, &mut out, scratch)
        };
        match stored {
            Ok(true) => Ok(Change::Write(vec![ValuePart::Owned(out)])),
            other => {
                scratch.give(out);
                other.map(|_| Change::Delete)
            }
        }
    }

    /// Append the new encoding to `out`; false if it is all fill, and not stored.
    fn level(
        &self,
        new: &dyn New<'a>,
        current: Current<'_>,
        full: bool,
        out: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<bool> {
        let level = new.level();
        let Body::Shard(shard) = &level.body else {
            return self.leaf(new, current, full, out, scratch);
        };
        let (mut encoded, mut plain, mut whole) = (scratch.take(), scratch.take(), scratch.take());
        let done = (|| {
            let current = match current {
                Some(source) if !level.pipeline.is_empty() => {
                    let bytes = source.load(&level.encoded_bytes, &mut encoded)?;
                    level.pipeline.decode(bytes, &mut plain, shard.most_bytes(), scratch)?;
                    Some(Source::made(&plain))
                }
                other => other,
            };
            whole.clear();
            match self.shard(shard, new, current, scratch)? {
                Change::Delete => return Ok(false),
                Change::Keep => current.map_or(Ok(()), |source| source.append_to(&mut whole))?,
                Change::Write(parts) => {
                    join(&parts, current, &mut whole)?;
                    recycle(parts, scratch);
                }
            }
            level.pipeline.encode(&whole, out, scratch)?;
            Ok(true)
        })();
        for buffer in [encoded, plain, whole] {
            scratch.give(buffer);
        }
        done
    }

    /// A chunk or subchunk of elements.
    fn leaf(
        &self,
        new: &dyn New<'a>,
        current: Current<'_>,
        full: bool,
        out: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<bool> {
        let level = new.level();
        if level.is_raw() {
            let before = out.len();
            reserve(out, level.decoded_bytes)?;
            out.resize(before + level.decoded_bytes, 0);
            let stored = self.raw(new, current, full, &mut out[before..], scratch)?;
            if !stored {
                out.truncate(before);
            }
            return Ok(stored);
        }
        let _turn = self.operation.store.coding_permit()?;
        if let (true, Some(bytes)) = (full, new.run()) {
            return self.encode(level, bytes, out, scratch);
        }
        let (mut buffer, mut elements) = (scratch.take(), scratch.take());
        let stored = sized(&mut buffer, level.decoded_bytes).and_then(|chunk| {
            self.gather(new, current, full, chunk, &mut elements, scratch)?;
            self.encode(level, chunk, out, scratch)
        });
        scratch.give(buffer);
        scratch.give(elements);
        stored
    }

    /// A chunk without codecs, which is its own encoding: it is gathered where it is to stand. False
    /// if it is all fill.
    fn raw(
        &self,
        new: &dyn New<'a>,
        current: Current<'_>,
        full: bool,
        chunk: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<bool> {
        let _turn = self.operation.store.coding_permit()?;
        self.gather(new, current, full, chunk, &mut Vec::new(), scratch)?;
        Ok(!self.is_fill(new.level(), chunk))
    }

    /// Make `chunk` what the decoded chunk is to be: as it was, or fill, and the caller's elements.
    /// Where items are handles, those of the current chunk point into `elements`.
    #[allow(clippy::too_many_arguments)]
    fn gather(
        &self,
        new: &dyn New<'a>,
        current: Option<Source<'_>>,
        full: bool,
        chunk: &mut [u8],
        elements: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let level = new.level();
        match current {
            Some(source) if !full => level.load(source, chunk, elements, scratch, || Ok(()))?,
            _ if full && self.inside(new) => {}
            _ => fill_all(chunk, &level.stored_fill),
        }
        new.put(chunk);
        if self.array.is_bool {
            copy::canonical_bools(chunk);
        }
        Ok(())
    }

    /// No element of the chunk lies past the edge of the array.
    fn inside(&self, new: &dyn New<'a>) -> bool {
        let ends = new.origin().iter().zip(&new.level().shape).map(|(origin, size)| origin + size);
        ends.zip(&self.array.shape).all(|(end, &bound)| end <= bound)
    }

    fn encode(&self, level: &Level, chunk: &[u8], out: &mut Vec<u8>, scratch: &mut Scratch) -> Result<bool> {
        if self.is_fill(level, chunk) {
            return Ok(false);
        }
        let mut inner = scratch.take();
        inner.clear();
        let done = match &level.body {
            Body::Foreign(codec) => codec
                .encode(chunk, &mut inner, &mut scratch.context)
                .map_err(|error| error.in_codec(codec.name())),
            // SAFETY: the caller of `write` keeps what its handles point to; those of
            // the current chunk point to what `leaf` holds until it has called this.
            Body::Vlen(_) => unsafe { vlen::encode(chunk, &mut inner) },
            _ => return level.pipeline.encode(chunk, out, scratch).map(|()| true),
        };
        let done = done.and_then(|()| level.pipeline.encode(&inner, out, scratch));
        scratch.give(inner);
        done.map(|()| true)
    }

    /// All of it is fill, and so it is not stored.
    pub(crate) fn is_fill(&self, level: &Level, chunk: &[u8]) -> bool {
        if self.array.store_fill {
            return false;
        }
        match &self.array.fill_element {
            // SAFETY: as for encoding.
            Some(element) => unsafe { vlen::is_filled(chunk, element) },
            None => copy::is_filled(chunk, &level.stored_fill),
        }
    }
}

/// The value that parts make.
fn whole(parts: Vec<ValuePart<'_>>, scratch: &mut Scratch) -> Result<Arc<Vec<u8>>> {
    let mut value = Vec::new();
    join(&parts, None, &mut value)?;
    recycle(parts, scratch);
    Ok(Arc::new(value))
}

fn recycle(parts: Vec<ValuePart<'_>>, scratch: &mut Scratch) {
    for part in parts {
        if let ValuePart::Owned(bytes) = part {
            scratch.give(bytes);
        }
    }
}

fn fill_all(chunk: &mut [u8], item: &[u8]) {
    if item.iter().all(|&byte| byte == item[0]) {
        chunk.fill(item[0]);
    } else {
        chunk.chunks_exact_mut(item.len()).for_each(|place| place.copy_from_slice(item));
    }
}
