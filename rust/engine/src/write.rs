//! Writing: from the caller's buffer to keys.
//!
//! A chunk is *full* when every element inside the array is written: then
//! nothing is read. Else its current value is decoded, merged and encoded
//! under the key's lock, so that no other writer's part is lost. In a shard
//! the untouched subchunks keep their encoded bytes; nobody decodes them.

use std::marker::PhantomData;
use std::sync::{Mutex, PoisonError};

use crate::array::{Array, Body, Level, PerAxis, Shard};
use crate::codec::BytesCodec;
use crate::copy::{self, Item};
use crate::error::{Error, Kind, Result};
use crate::operation::{origin_of, Address, Operation, Portion, Run};
use crate::scratch::{repeated, reserve, sized, Scratch};
use crate::selection::{Direction, Division, Selection};
use crate::shard::{self, ABSENT};
use crate::source::Source;
use crate::store::{Change, Need, Part};
use crate::vlen;

/// Consecutive subchunks are encoded into one buffer until it stands for this
/// many decoded bytes: few enough buffers, and tasks for every worker.
const GROUP_BYTES: usize = 256 << 10;

/// One write in progress.
pub(crate) struct Writer<'a> {
    operation: Operation<'a>,
    array: &'a Array,
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

    /// Every element inside `array` is new.
    fn is_full(&self, array: &Array) -> bool;

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

/// A subchunk to write: its number in the index, and in its [`Parts`].
pub(crate) struct Touched {
    pub(crate) number: usize,
    pub(crate) task: usize,
}

/// Elements from the caller's buffer.
struct Given<'a, 'p, 's> {
    portion: Portion<'p, 's>,
    value: Address,
    is_bool: bool,
    buffer: PhantomData<&'a [u8]>,
}

impl<'a> New<'a> for Given<'a, '_, '_> {
    fn level(&self) -> &Level {
        self.portion.level
    }

    fn origin(&self) -> &[u64] {
        self.portion.origin
    }

    fn is_full(&self, array: &Array) -> bool {
        self.portion.is_full(array)
    }

    fn run(&self) -> Option<&'a [u8]> {
        let level = self.portion.level;
        if level.swap() > 1 {
            return None;
        }
        self.portion.of_copy(Direction::ToCell, |copy| {
            let item = Item { bytes: copy.field.bytes, swap: 0 };
            let bytes = copy::Plan::new(copy.axes, item).contiguous_bytes()?;
            if copy.cell != 0 || bytes != level.decoded_bytes {
                return None;
            }
            // SAFETY: the caller of `write` vouches for every offset of the
            // selection and changes nothing until the write has ended.
            let bytes = unsafe { std::slice::from_raw_parts(self.value.0.offset(copy.caller), bytes) };
            (!self.is_bool || copy::bool_ok(bytes)).then_some(bytes)
        })
    }

    fn put(&self, chunk: &mut [u8]) {
        // SAFETY: the caller of `write` vouches for its side.
        unsafe { put(&self.portion, self.value, chunk.as_mut_ptr()) }
    }

    fn parts<'n>(&'n self, shard: &'n Shard) -> Result<Box<dyn Parts<'a> + 'n>> {
        Ok(Box::new(GivenParts { given: self, shard, division: self.portion.divide(&shard.cuts)? }))
    }
}

/// The subchunks that a selection touches.
struct GivenParts<'n, 'a, 'p, 's> {
    given: &'n Given<'a, 'p, 's>,
    shard: &'n Shard,
    division: Division<'s>,
}

impl<'a> Parts<'a> for GivenParts<'_, 'a, '_, '_> {
    fn touched(&self) -> Result<Vec<Touched>> {
        let mut touched = Vec::new();
        reserve(&mut touched, self.division.tasks())?;
        let mut cell = PerAxis::new();
        for task in 0..self.division.tasks() {
            self.division.task(task, &mut cell);
            touched.push(Touched { number: self.shard.number(&cell), task });
        }
        Ok(touched)
    }

    fn with(&self, task: usize, work: &mut Work<'_, 'a>) -> Result<()> {
        let mut cell = PerAxis::new();
        let piece = &self.division.task(task, &mut cell);
        let level = &self.shard.level;
        let origin = &origin_of(self.given.portion.origin, &cell, &level.shape);
        work(&cell, &Given { portion: Portion { level, piece, origin }, ..*self.given })
    }
}

/// Copies the elements of `portion` from the caller's buffer to their places in `chunk`, which is decoded.
///
/// # Safety
/// As for [`write`], for what is selected by the portion; and all of a decoded chunk can be written.
pub(crate) unsafe fn put(portion: &Portion<'_, '_>, value: Address, chunk: *mut u8) {
    let swap = portion.level.swap();
    portion.each_copy(Direction::ToCell, |copy| {
        let item = Item { bytes: copy.field.bytes, swap };
        // SAFETY: the caller's promise; the portion lies inside the cell, whose
        // bytes `chunk` has.
        unsafe {
            let from = value.0.offset(copy.caller);
            copy::copy(from, chunk.offset(copy.cell), copy.axes, item);
        }
    });
}

/// Write `selection` from the buffer at `value`.
///
/// # Safety
/// Every byte offset that the selection names lies inside the buffer at
/// `value`, which nobody changes until this returns. Where items are handles,
/// neither do their elements change.
///
/// # Errors
/// The first that any chunk met; other chunks may be written already, each of
/// them whole.
pub unsafe fn write(operation: Operation<'_>, selection: &Selection, value: *const u8) -> Result<()> {
    check_writable(operation)?;
    let value = Address(value.cast_mut());
    operation.each_chunk(selection, operation.store.write_concurrency(), &|chunk, scratch| {
        let is_bool = operation.array.is_bool;
        let address = value;
        let given = Given { portion: chunk.portion, value: address, is_bool, buffer: PhantomData };
        Writer::new(operation, chunk.spread).chunk(chunk.key, &given, scratch)
    })
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
        let full = new.is_full(self.array);
        let need = Need::of_current(!full);
        let made = self.operation.store.update(key, need, &mut |object| {
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

    /// Gives the chunk at `key` these bytes, which are all of it as it is stored without codecs.
    pub(crate) fn whole(
        &self,
        key: &str,
        level: &Level,
        mut bytes: Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let fill = self.is_fill(level, &bytes);
        let made = self.operation.store.update(key, Need::NOTHING, &mut |_| match fill {
            true => Ok(Change::Delete),
            // Nothing is read: it is decided once.
            false if bytes.is_empty() => Err(Error::internal("a blind change was decided on twice")),
            false => Ok(Change::Write(vec![Part::Owned(std::mem::take(&mut bytes))])),
        })?;
        if let Change::Write(parts) = made.change {
            recycle(parts, scratch);
        }
        Ok(())
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
                Change::Write(vec![Part::Borrowed(bytes)])
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
            Ok(true) => Ok(Change::Write(vec![Part::Owned(out)])),
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
                Change::Keep => current.map_or(Ok(()), |source| append(source, &mut whole))?,
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
        let _turn = self.operation.store.decoding()?;
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
        let _turn = self.operation.store.decoding()?;
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
            Some(source) if !full => level.load(source, chunk, elements, scratch)?,
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

    fn is_fill(&self, level: &Level, chunk: &[u8]) -> bool {
        if self.array.store_fill {
            return false;
        }
        match &self.array.fill_element {
            // SAFETY: as for encoding.
            Some(element) => unsafe { vlen::is_filled(chunk, element) },
            None => copy::is_filled(chunk, &level.stored_fill),
        }
    }

    /// What becomes of a shard; it is deleted if it holds nothing but fill.
    fn shard(
        &self,
        shard: &Shard,
        new: &dyn New<'a>,
        current: Current<'_>,
        scratch: &mut Scratch,
    ) -> Result<Change<'a>> {
        let old = match current {
            Some(source) => Some(Old { source, index: shard::index(shard, source, scratch)? }),
            None => None,
        };
        let subchunks = new.parts(shard)?;
        let mut touched = subchunks.touched()?;
        touched.sort_unstable_by_key(|touched| touched.number);
        let groups = group(&touched, old.as_ref(), shard.level.decoded_bytes);
        // All buffers come from here, and return here, for the next shard: a worker
        // that took its own would allocate them anew for every shard.
        let results: Vec<Mutex<Encoded<'a>>> =
            groups.iter().map(|_| Mutex::new(Encoded::over(scratch.take()))).collect();
        let run = if self.spread {
            let bytes = shard.level.decoded_bytes * (touched.len() / groups.len().max(1));
            Run::decide(groups.len(), bytes, 0)
        } else {
            Run::Here
        };
        run.each(groups.len(), self.operation.interrupt, &|number, scratch| {
            let mut encoded = results[number].lock().unwrap_or_else(PoisonError::into_inner);
            let touched = &touched[groups[number].clone()];
            self.group(shard, old.as_ref(), touched, &*subchunks, &mut encoded, scratch)
        })?;
        let encoded =
            results.into_iter().map(|result| result.into_inner().unwrap_or_else(PoisonError::into_inner));
        let encoded: Vec<Encoded<'a>> = encoded.collect();
        if old.as_ref().is_some_and(|old| old.lacks(&touched)) && encoded.iter().all(Encoded::is_fill) {
            encoded.into_iter().for_each(|encoded| scratch.give(encoded.bytes));
            return Ok(Change::Keep);
        }
        let parts = assemble(shard, old.as_ref(), &touched, &groups, encoded, scratch)?;
        Ok(parts.map_or(Change::Delete, Change::Write))
    }

    /// Encode subchunks that will stand one after another.
    #[allow(clippy::too_many_arguments)]
    fn group(
        &self,
        shard: &Shard,
        old: Option<&Old<'_>>,
        touched: &[Touched],
        subchunks: &dyn Parts<'a>,
        encoded: &mut Encoded<'a>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        for touched in touched {
            subchunks.with(touched.task, &mut |cell, new| {
                let done = self.subchunk(shard, old, cell, new, encoded, scratch);
                done.map_err(|error| error.in_subchunk(cell))
            })?;
        }
        Ok(())
    }

    fn subchunk(
        &self,
        shard: &Shard,
        old: Option<&Old<'_>>,
        cell: &[u64],
        new: &dyn New<'a>,
        encoded: &mut Encoded<'a>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let full = new.is_full(self.array);
        if let (true, true, Some(bytes)) = (full, shard.level.is_raw(), new.run()) {
            let stored = !self.is_fill(&shard.level, bytes);
            encoded.borrow(stored.then_some(bytes));
            return Ok(());
        }
        let current = match old {
            Some(old) if !full => old.subchunk(shard, cell)?,
            _ => None,
        };
        let before = encoded.bytes.len();
        let stored = self.level(new, current, full, &mut encoded.bytes, scratch)?;
        encoded.sizes.push(stored.then(|| (encoded.bytes.len() - before) as u64));
        Ok(())
    }
}

/// The shard as it is.
struct Old<'c> {
    source: Source<'c>,
    index: crate::cache::Index,
}

impl<'c> Old<'c> {
    /// None of these subchunks is stored.
    fn lacks(&self, touched: &[Touched]) -> bool {
        touched.iter().all(|touched| self.index[touched.number] == [ABSENT, ABSENT])
    }

    fn subchunk(&self, shard: &Shard, cell: &[u64]) -> Result<Current<'c>> {
        let Some((offset, size)) = shard::entry(shard, &self.index, cell)? else {
            return Ok(None);
        };
        Ok(Some(self.source.part(offset, size)?))
    }
}

/// New encodings, one after another; None where a subchunk is all fill.
struct Encoded<'a> {
    parts: Vec<Part<'a>>,
    /// What comes after the parts.
    bytes: Vec<u8>,
    sizes: Vec<Option<u64>>,
}

impl<'a> Encoded<'a> {
    /// Nothing yet; `buffer` is for the bytes.
    fn over(mut buffer: Vec<u8>) -> Encoded<'a> {
        buffer.clear();
        Encoded { parts: Vec::new(), bytes: buffer, sizes: Vec::new() }
    }

    /// Nothing is to be stored.
    fn is_fill(&self) -> bool {
        self.sizes.iter().all(Option::is_none)
    }

    /// A subchunk that is its own encoding.
    fn borrow(&mut self, subchunk: Option<&'a [u8]>) {
        self.sizes.push(subchunk.map(|bytes| bytes.len() as u64));
        if !self.bytes.is_empty() {
            self.parts.push(Part::Owned(std::mem::take(&mut self.bytes)));
        }
        self.parts.extend(subchunk.map(Part::Borrowed));
    }
}

/// Cut `touched` where an untouched stored subchunk stands between, or where enough is together.
fn group(touched: &[Touched], old: Option<&Old<'_>>, subchunk_bytes: usize) -> Vec<std::ops::Range<usize>> {
    let most = (GROUP_BYTES / subchunk_bytes).max(1);
    let kept = |from: usize, to: usize| {
        old.is_some_and(|old| old.index[from + 1..to].iter().any(|&entry| entry != [ABSENT, ABSENT]))
    };
    let mut groups: Vec<std::ops::Range<usize>> = Vec::new();
    for (place, here) in touched.iter().enumerate() {
        match groups.last_mut() {
            Some(group) if group.len() < most && !kept(touched[place - 1].number, here.number) => {
                group.end = place + 1
            }
            _ => groups.push(place..place + 1),
        }
    }
    groups
}

/// Put new and old subchunks in the order of the index, and the index to them.
fn assemble<'a>(
    shard: &Shard,
    old: Option<&Old<'_>>,
    touched: &[Touched],
    groups: &[std::ops::Range<usize>],
    encoded: Vec<Encoded<'a>>,
    scratch: &mut Scratch,
) -> Result<Option<Vec<Part<'a>>>> {
    let mut index = repeated([ABSENT, ABSENT], shard.entries)?;
    let mut parts: Vec<Part<'a>> = Vec::new();
    let start = if shard.index_at_start { shard.index_bytes as u64 } else { 0 };
    let mut end = start;
    let mut next = 0;
    for (range, encoded) in groups.iter().zip(encoded) {
        let first = touched[range.start].number;
        keep(shard, old, next..first, &mut index, &mut end, &mut parts)?;
        for (touched, size) in touched[range.clone()].iter().zip(&encoded.sizes) {
            if let Some(size) = *size {
                index[touched.number] = [end, size];
                end += size;
            }
        }
        next = touched[range.end - 1].number + 1;
        parts.extend(encoded.parts);
        if encoded.bytes.is_empty() {
            scratch.give(encoded.bytes);
        } else {
            parts.push(Part::Owned(encoded.bytes));
        }
    }
    keep(shard, old, next..shard.entries, &mut index, &mut end, &mut parts)?;
    if index.iter().all(|&entry| entry == [ABSENT, ABSENT]) {
        recycle(parts, scratch);
        return Ok(None);
    }
    let mut bytes = scratch.take();
    bytes.clear();
    shard::encode_index(shard, &index, &mut bytes, scratch)?;
    if bytes.len() != shard.index_bytes {
        return Err(Error::internal(format!(
            "a shard index took {} bytes, not {}",
            bytes.len(),
            shard.index_bytes
        )));
    }
    let place = if shard.index_at_start { 0 } else { parts.len() };
    parts.insert(place, Part::Owned(bytes));
    Ok(Some(parts))
}

/// Take over the untouched subchunks `numbers` as they are.
fn keep(
    shard: &Shard,
    old: Option<&Old<'_>>,
    numbers: std::ops::Range<usize>,
    index: &mut [[u64; 2]],
    end: &mut u64,
    parts: &mut Vec<Part<'_>>,
) -> Result<()> {
    let Some(old) = old else { return Ok(()) };
    for number in numbers {
        let [offset, size] = old.index[number];
        if [offset, size] == [ABSENT, ABSENT] {
            continue;
        }
        let wrong = |error: Error| Error {
            message: format!("shard index entry {number}: {}", error.message),
            ..error
        };
        // An entry past the end would lose data now or fail later: say so now.
        old.source.part(offset, size).map_err(wrong)?;
        index[number] = [*end, size];
        // Entries may overlap; copied one by one, a small object could fill a disk.
        let most = old.source.size().saturating_add(shard.most_bytes() as u64);
        *end = end.checked_add(size).filter(|&end| end <= most).ok_or_else(|| {
            wrong(Error::size("with those before it, it claims more bytes than a shard here can have"))
        })?;
        match parts.last_mut() {
            Some(Part::Current { offset: from, size: have }) if *from + *have == offset => *have += size,
            _ => parts.push(Part::Current { offset, size }),
        }
    }
    Ok(())
}

/// All parts in one buffer; `current` is what `Part::Current` refers to.
fn join(parts: &[Part<'_>], current: Option<Source<'_>>, out: &mut Vec<u8>) -> Result<()> {
    for part in parts {
        match part {
            Part::Owned(bytes) => out.extend_from_slice(bytes),
            Part::Borrowed(bytes) => out.extend_from_slice(bytes),
            Part::Current { offset, size } => {
                let source = current.ok_or_else(|| Error::internal("a kept part without a current value"))?;
                append(source.part(*offset, *size)?, out)?;
            }
        }
    }
    Ok(())
}

/// Appends all bytes of `source`.
fn append(source: Source<'_>, out: &mut Vec<u8>) -> Result<()> {
    let (before, size) = (out.len(), source.size() as usize);
    reserve(out, size)?;
    out.resize(before + size, 0);
    source.read_at(0, &mut out[before..])
}

fn recycle(parts: Vec<Part<'_>>, scratch: &mut Scratch) {
    for part in parts {
        if let Part::Owned(bytes) = part {
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
