//! Writing shards: new subchunks are encoded, those that stay keep their bytes, and both are put in
//! the order of the index.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::{recycle, Current, New, Parts, Touched, Writer};
use crate::array::Shard;
use crate::error::{Error, Result};
use crate::pipeline::operation::Run;
use crate::pipeline::source::Source;
use crate::scratch::{repeated, Scratch};
use crate::shard_index::{self, ABSENT};
use crate::store::{Change, ValuePart};

/// Consecutive subchunks are encoded into one buffer until it stands for this
/// many decoded bytes: few enough buffers, and tasks for every worker.
const GROUP_BYTES: usize = 256 << 10;

impl<'a> Writer<'a> {
    /// What becomes of a shard; it is deleted if it holds nothing but fill.
    pub(super) fn shard(
        &self,
        shard: &Shard,
        new: &dyn New<'a>,
        current: Current<'_>,
        scratch: &mut Scratch,
    ) -> Result<Change<'a>> {
        let old = match current {
            Some(source) => Some(Old { source, index: shard_index::index(shard, source, scratch)? }),
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
        let full = new.is_full(self.operation.bounds());
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
    index: crate::shard_index::cache::Index,
}

impl<'c> Old<'c> {
    /// None of these subchunks is stored.
    fn lacks(&self, touched: &[Touched]) -> bool {
        touched.iter().all(|touched| self.index[touched.number] == [ABSENT, ABSENT])
    }

    fn subchunk(&self, shard: &Shard, cell: &[u64]) -> Result<Current<'c>> {
        let Some((offset, size)) = shard_index::entry(shard, &self.index, cell)? else {
            return Ok(None);
        };
        Ok(Some(self.source.part(offset, size)?))
    }
}

/// New encodings, one after another; None where a subchunk is all fill.
struct Encoded<'a> {
    parts: Vec<ValuePart<'a>>,
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
            self.parts.push(ValuePart::Owned(std::mem::take(&mut self.bytes)));
        }
        self.parts.extend(subchunk.map(ValuePart::Borrowed));
    }
}

/// Cut `touched` where an untouched stored subchunk stands between, or where enough is together.
fn group(touched: &[Touched], old: Option<&Old<'_>>, subchunk_bytes: usize) -> Vec<Range<usize>> {
    let most = (GROUP_BYTES / subchunk_bytes).max(1);
    let kept = |from: usize, to: usize| {
        old.is_some_and(|old| old.index[from + 1..to].iter().any(|&entry| entry != [ABSENT, ABSENT]))
    };
    let mut groups: Vec<Range<usize>> = Vec::new();
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
    groups: &[Range<usize>],
    encoded: Vec<Encoded<'a>>,
    scratch: &mut Scratch,
) -> Result<Option<Vec<ValuePart<'a>>>> {
    let mut index = repeated([ABSENT, ABSENT], shard.entries)?;
    let mut parts: Vec<ValuePart<'a>> = Vec::new();
    let mut end = shard.first_byte() as u64;
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
            parts.push(ValuePart::Owned(encoded.bytes));
        }
    }
    keep(shard, old, next..shard.entries, &mut index, &mut end, &mut parts)?;
    if index.iter().all(|&entry| entry == [ABSENT, ABSENT]) {
        recycle(parts, scratch);
        return Ok(None);
    }
    let mut bytes = scratch.take();
    bytes.clear();
    shard_index::encode_index(shard, &index, &mut bytes, scratch)?;
    let place = if shard.index_at_start { 0 } else { parts.len() };
    parts.insert(place, ValuePart::Owned(bytes));
    Ok(Some(parts))
}

/// Take over the untouched subchunks `numbers` as they are.
fn keep(
    shard: &Shard,
    old: Option<&Old<'_>>,
    numbers: Range<usize>,
    index: &mut [[u64; 2]],
    end: &mut u64,
    parts: &mut Vec<ValuePart<'_>>,
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
            Some(ValuePart::Current { offset: from, size: have }) if *from + *have == offset => *have += size,
            _ => parts.push(ValuePart::Current { offset, size }),
        }
    }
    Ok(())
}
