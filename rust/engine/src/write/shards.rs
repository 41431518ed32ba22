//! Writes of shards: new subchunks are encoded, untouched ones keep their bytes, and the index
//! follows.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::{recycle, Current, NewElements, NewSubchunks, TouchedSubchunk, Writer};
use crate::array::Shard;
use crate::error::{Error, Result};
use crate::pipeline::operation::Executor;
use crate::pipeline::source::Source;
use crate::scratch::{repeated, Scratch};
use crate::shard_index::{self, ABSENT};
use crate::store::{Change, ValuePart};

/// Consecutive subchunks share a buffer up to this many decoded bytes: few enough buffers, and
/// tasks for every worker.
const GROUP_BYTES: usize = 256 << 10;

impl<'a> Writer<'a> {
    /// Return the change of a shard; a shard without any subchunk is deleted.
    pub(super) fn shard(
        &self,
        shard: &Shard,
        new_elements: &dyn NewElements<'a>,
        current: Current<'_>,
        scratch: &mut Scratch,
    ) -> Result<Change<'a>> {
        let stored_shard = match current {
            Some(source) => Some(StoredShard { source, index: shard_index::index(shard, source, scratch)? }),
            None => None,
        };
        let subchunks = new_elements.subchunks(shard)?;
        let mut touched = subchunks.touched()?;
        touched.sort_unstable_by_key(|touched| touched.number);
        let groups = group(&touched, stored_shard.as_ref(), shard.level.decoded_bytes);
        // All buffers come from this scratch and return to it for the next shard: buffers of other
        // workers would be allocated again for every shard.
        let results: Vec<Mutex<EncodedSubchunks<'a>>> =
            groups.iter().map(|_| Mutex::new(EncodedSubchunks::with_buffer(scratch.take()))).collect();
        let bytes = shard.level.decoded_bytes * (touched.len() / groups.len().max(1));
        let run = Executor::choose_if(self.spread, groups.len(), bytes, 0);
        run.each(groups.len(), self.operation.interrupt, &|number, scratch| {
            let mut encoded = results[number].lock().unwrap_or_else(PoisonError::into_inner);
            let touched = &touched[groups[number].clone()];
            self.group(shard, stored_shard.as_ref(), touched, &*subchunks, &mut encoded, scratch)
        })?;
        let encoded =
            results.into_iter().map(|result| result.into_inner().unwrap_or_else(PoisonError::into_inner));
        let encoded: Vec<EncodedSubchunks<'a>> = encoded.collect();
        if stored_shard.as_ref().is_some_and(|stored_shard| stored_shard.stores_none_of(&touched))
            && encoded.iter().all(EncodedSubchunks::is_fill)
        {
            encoded.into_iter().for_each(|encoded| scratch.put_back(encoded.bytes));
            return Ok(Change::Keep);
        }
        let parts = assemble(shard, stored_shard.as_ref(), &touched, &groups, encoded, scratch)?;
        Ok(parts.map_or(Change::Delete, Change::Write))
    }

    /// Encode consecutive subchunks.
    #[allow(clippy::too_many_arguments)]
    fn group(
        &self,
        shard: &Shard,
        stored_shard: Option<&StoredShard<'_>>,
        touched: &[TouchedSubchunk],
        subchunks: &dyn NewSubchunks<'a>,
        encoded: &mut EncodedSubchunks<'a>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        for touched in touched {
            subchunks.with(touched.task, &mut |cell, new_elements| {
                let result = self.subchunk(shard, stored_shard, cell, new_elements, encoded, scratch);
                result.map_err(|error| error.in_subchunk(cell))
            })?;
        }
        Ok(())
    }

    fn subchunk(
        &self,
        shard: &Shard,
        stored_shard: Option<&StoredShard<'_>>,
        cell: &[u64],
        new_elements: &dyn NewElements<'a>,
        encoded: &mut EncodedSubchunks<'a>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let is_full = new_elements.is_full(self.operation.bounds());
        if let (true, true, Some(bytes)) = (is_full, shard.level.is_raw(), new_elements.run()) {
            let stored = !self.is_fill(&shard.level, bytes);
            encoded.borrow(stored.then_some(bytes));
            return Ok(());
        }
        let current = match stored_shard {
            Some(stored_shard) if !is_full => stored_shard.subchunk(shard, cell)?,
            _ => None,
        };
        let start = encoded.bytes.len();
        let stored = self.level(new_elements, current, is_full, &mut encoded.bytes, scratch)?;
        encoded.sizes.push(stored.then(|| (encoded.bytes.len() - start) as u64));
        Ok(())
    }
}

/// The stored shard.
struct StoredShard<'c> {
    source: Source<'c>,
    index: crate::shard_index::cache::Index,
}

impl<'c> StoredShard<'c> {
    /// Return whether none of these subchunks is stored.
    fn stores_none_of(&self, touched: &[TouchedSubchunk]) -> bool {
        touched.iter().all(|touched| self.index[touched.number] == [ABSENT, ABSENT])
    }

    fn subchunk(&self, shard: &Shard, cell: &[u64]) -> Result<Current<'c>> {
        let Some((offset, size)) = shard_index::entry(shard, &self.index, cell)? else {
            return Ok(None);
        };
        Ok(Some(self.source.part(offset, size)?))
    }
}

/// Encoded subchunks, one after another; the size is None if a subchunk is all fill.
struct EncodedSubchunks<'a> {
    parts: Vec<ValuePart<'a>>,
    /// The bytes after the parts.
    bytes: Vec<u8>,
    sizes: Vec<Option<u64>>,
}

impl<'a> EncodedSubchunks<'a> {
    /// Return an empty list; `buffer` receives the bytes.
    fn with_buffer(mut buffer: Vec<u8>) -> EncodedSubchunks<'a> {
        buffer.clear();
        EncodedSubchunks { parts: Vec::new(), bytes: buffer, sizes: Vec::new() }
    }

    /// Return whether no subchunk is stored.
    fn is_fill(&self) -> bool {
        self.sizes.iter().all(Option::is_none)
    }

    /// Append a subchunk that is its own encoding.
    fn borrow(&mut self, subchunk: Option<&'a [u8]>) {
        self.sizes.push(subchunk.map(|bytes| bytes.len() as u64));
        if !self.bytes.is_empty() {
            self.parts.push(ValuePart::Owned(std::mem::take(&mut self.bytes)));
        }
        self.parts.extend(subchunk.map(ValuePart::Borrowed));
    }
}

/// Divide `touched` into groups: at stored untouched subchunks, and at the maximum size.
fn group(
    touched: &[TouchedSubchunk],
    stored_shard: Option<&StoredShard<'_>>,
    subchunk_bytes: usize,
) -> Vec<Range<usize>> {
    let max_len = (GROUP_BYTES / subchunk_bytes).max(1);
    let has_stored_between = |from: usize, to: usize| {
        stored_shard.is_some_and(|stored_shard| {
            stored_shard.index[from + 1..to].iter().any(|&entry| entry != [ABSENT, ABSENT])
        })
    };
    let mut groups: Vec<Range<usize>> = Vec::new();
    for (position, this) in touched.iter().enumerate() {
        match groups.last_mut() {
            Some(group)
                if group.len() < max_len
                    && !has_stored_between(touched[position - 1].number, this.number) =>
            {
                group.end = position + 1
            }
            _ => groups.push(position..position + 1),
        }
    }
    groups
}

/// Put new and old subchunks in the order of the index, and add the index.
fn assemble<'a>(
    shard: &Shard,
    stored_shard: Option<&StoredShard<'_>>,
    touched: &[TouchedSubchunk],
    groups: &[Range<usize>],
    encoded: Vec<EncodedSubchunks<'a>>,
    scratch: &mut Scratch,
) -> Result<Option<Vec<ValuePart<'a>>>> {
    let mut index = repeated([ABSENT, ABSENT], shard.entries)?;
    let mut parts: Vec<ValuePart<'a>> = Vec::new();
    let mut end = shard.first_byte() as u64;
    let mut next = 0;
    for (range, encoded) in groups.iter().zip(encoded) {
        let first = touched[range.start].number;
        keep_untouched(shard, stored_shard, next..first, &mut index, &mut end, &mut parts)?;
        for (touched, size) in touched[range.clone()].iter().zip(&encoded.sizes) {
            if let Some(size) = *size {
                index[touched.number] = [end, size];
                end += size;
            }
        }
        next = touched[range.end - 1].number + 1;
        parts.extend(encoded.parts);
        if encoded.bytes.is_empty() {
            scratch.put_back(encoded.bytes);
        } else {
            parts.push(ValuePart::Owned(encoded.bytes));
        }
    }
    keep_untouched(shard, stored_shard, next..shard.entries, &mut index, &mut end, &mut parts)?;
    if index.iter().all(|&entry| entry == [ABSENT, ABSENT]) {
        recycle(parts, scratch);
        return Ok(None);
    }
    let mut bytes = scratch.take();
    bytes.clear();
    shard_index::encode_index(shard, &index, &mut bytes, scratch)?;
    let position = if shard.index_at_start { 0 } else { parts.len() };
    parts.insert(position, ValuePart::Owned(bytes));
    Ok(Some(parts))
}

/// Copy the encoded bytes of the untouched subchunks `numbers`.
fn keep_untouched(
    shard: &Shard,
    stored_shard: Option<&StoredShard<'_>>,
    numbers: Range<usize>,
    index: &mut [[u64; 2]],
    end: &mut u64,
    parts: &mut Vec<ValuePart<'_>>,
) -> Result<()> {
    let Some(stored_shard) = stored_shard else { return Ok(()) };
    for number in numbers {
        let [offset, size] = stored_shard.index[number];
        if [offset, size] == [ABSENT, ABSENT] {
            continue;
        }
        let in_entry = |error: Error| Error {
            message: format!("shard index entry {number}: {}", error.message),
            ..error
        };
        // An entry past the end would lose data now or fail later: report it now.
        stored_shard.source.part(offset, size).map_err(in_entry)?;
        index[number] = [*end, size];
        // Entries may overlap; copied one by one, a small value could fill a disk.
        let max_len = stored_shard.source.size().saturating_add(shard.max_bytes() as u64);
        *end = end.checked_add(size).filter(|&end| end <= max_len).ok_or_else(|| {
            in_entry(Error::size("the entries up to this one cover more bytes than a shard can have"))
        })?;
        match parts.last_mut() {
            Some(ValuePart::Current { offset: from, size: bytes }) if *from + *bytes == offset => {
                *bytes += size
            }
            _ => parts.push(ValuePart::Current { offset, size }),
        }
    }
    Ok(())
}
