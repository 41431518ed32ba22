//! Reads of shards: subchunks, with neighbours in one request.

use std::sync::Arc;

use super::async_parts::AsyncParts;
use super::chunk_reads::{ChunkReads, Subchunks};
use super::{decoded_slot, missing_chunk, CoalescingPolicy, Reader, REMOTE};
use crate::array::{Body, Missing, Shard};
use crate::error::Result;
use crate::pipeline::operation::Executor;
use crate::pipeline::source::Source;
use crate::scratch::{reserve, Scratch};
use crate::shard_index::cache::{Index, IndexKey};
use crate::shard_index::{self, Entry};
use crate::store::ReadHint;

/// Subchunks that are fetched together.
struct Group {
    entries: std::ops::Range<usize>,
    /// The bytes that contain them; None: each is fetched alone.
    span: Option<(u64, u64)>,
    /// The request continues that of the previous group.
    continues: bool,
}

impl Group {
    /// Return the offset and number of bytes.
    fn bytes(&self, entries: &[Entry]) -> (u64, u64) {
        let first = &entries[self.entries.start];
        let (begin, end) = self.span.unwrap_or((first.offset, first.offset + first.size));
        (begin, end - begin)
    }
}

impl Reader<'_> {
    pub(super) fn read_shard(
        &self,
        shard: &Shard,
        reads: &ChunkReads<'_, '_>,
        source: Source<'_>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let touched_subchunks = reads.touched_subchunks(shard)?;
        let count = touched_subchunks.subchunks();
        let is_all = source.in_memory().is_none() && count == self.count_subchunks(shard, reads);
        // Reading a whole shard, with its index, is one request.
        let is_unread = is_all && !shard_index::is_in_cache(shard, source);
        let bytes = shard.level.decoded_bytes;
        let has_room = self.chunk_cache.is_none_or(|share| share.has_room(count as usize, bytes));
        let source = if has_room { source } else { source.without_cache_for_parts() };
        // Some subchunks may be cached.
        let is_cacheable = decoded_slot(&shard.level, source).is_some();
        let is_one_request = is_unread || is_all && reads.items.len() > 1 && !is_cacheable;
        if is_one_request && source.size() <= self.policy(source).group {
            let source = if is_cacheable { source.caching_decoded_only() } else { source };
            return self.with_fetched(source, scratch, |source, scratch| {
                self.read_shard(shard, reads, source, scratch)
            });
        }
        let index = shard_index::index(shard, source, scratch)?;
        let source = if is_unread { self.continued(source) } else { source };
        let touches = &touched_subchunks.touches;
        let subchunks = Subchunks { reads, level: &shard.level, touched_subchunks, is_all };
        let mut entries: Vec<Entry> = Vec::new();
        reserve(&mut entries, touches.len())?;
        for (first, touch) in touches.iter().enumerate() {
            let is_repeated = first > 0 && touches[first - 1].number == touch.number;
            if is_repeated || self.is_skipped(shard, touch.number) {
                continue;
            }
            match shard_index::checked_entry(&index, touch.number, source.size()) {
                Ok(Some((offset, size))) => entries.push(Entry { offset, size, task: first }),
                entry => subchunks.with(first, |reads| {
                    let refuses_missing = self.array.missing == Missing::Refuse;
                    entry.and_then(|_| {
                        if refuses_missing {
                            Err(missing_chunk())
                        } else {
                            self.deliver_fill(reads)
                        }
                    })
                })?,
            }
        }
        entries.sort_unstable_by_key(|entry| entry.offset);
        if is_cacheable && source.may_have_cached_chunks() {
            let mut cached = Vec::new();
            entries.retain(|entry| {
                let part = source.part(entry.offset, entry.size).ok();
                let chunk = part.and_then(|part| decoded_slot(&shard.level, part)?.get());
                cached.extend(chunk.iter().map(|chunk| (entry.task, chunk.clone())));
                chunk.is_none()
            });
            self.deliver_cached_subchunks(&subchunks, &cached)?;
        }
        let source = if is_cacheable { source.without_cached_chunks() } else { source };
        self.read_subchunks(&subchunks, source, 0, &entries)
    }

    /// Return the range of the touched subchunks by the last known index of the shard at `key`, if one
    /// request reads them all. The version of the response tells whether the index is still valid.
    pub(super) fn expected_range(
        &self,
        shard: &Shard,
        key: &str,
        reads: &ChunkReads<'_, '_>,
    ) -> Option<ReadHint> {
        let (index, size) = shard_index::cache::last(shard.id, key)?;
        let mut entries = touched_entries(shard, &index, size, reads)?;
        entries.sort_unstable_by_key(|entry| entry.offset);
        match &group(&entries, REMOTE, false)[..] {
            [only] => {
                let (offset, count) = only.bytes(&entries);
                let is_whole = !shard.level.is_raw() && !matches!(shard.level.body, Body::Shard(_));
                (is_whole || count <= REMOTE.gap).then_some(ReadHint::Range { offset, count })
            }
            _ => None,
        }
    }

    /// Return the touched subchunks that a shard stores, by an index in the cache.
    pub(super) fn known_entries(
        &self,
        shard: &Shard,
        index_key: &IndexKey,
        reads: &ChunkReads<'_, '_>,
    ) -> Option<Vec<Entry>> {
        touched_entries(shard, &shard_index::cache::get(index_key)?, index_key.size, reads)
    }

    /// Deliver cached subchunks, which need no request.
    fn deliver_cached_subchunks(
        &self,
        subchunks: &Subchunks<'_, '_>,
        chunks: &[(usize, Arc<Vec<u8>>)],
    ) -> Result<()> {
        let run = Executor::choose_if(self.spread, chunks.len(), subchunks.level.decoded_bytes, 0);
        run.each(chunks.len(), self.operation.interrupt, &|number, _| {
            let (task, chunk) = &chunks[number];
            subchunks.with(*task, |reads| self.deliver_cached(reads, chunk))
        })
    }

    /// Return whether the reads touch every subchunk of the shard.
    pub(super) fn touches_all(&self, shard: &Shard, reads: &ChunkReads<'_, '_>) -> bool {
        reads.touched_subchunks(shard).is_ok_and(|touched_subchunks| {
            touched_subchunks.subchunks() == self.count_subchunks(shard, reads)
        })
    }

    /// Return the number of subchunks of the shard that are not completely past the edge of the
    /// array.
    fn count_subchunks(&self, shard: &Shard, reads: &ChunkReads<'_, '_>) -> u64 {
        let ends = self.array.shape.iter().zip(reads.origin).map(|(end, origin)| end - origin);
        let lengths = ends.zip(&reads.level.shape).map(|(end, &length)| end.min(length));
        lengths.zip(&shard.level.shape).map(|(length, size)| length.div_ceil(*size)).product()
    }

    /// Read the subchunks in `entries`, sorted by offset; `source` begins at `start` of the shard.
    fn read_subchunks(
        &self,
        subchunks: &Subchunks<'_, '_>,
        source: Source<'_>,
        start: u64,
        entries: &[Entry],
    ) -> Result<()> {
        let concurrency = if source.in_memory().is_none() { self.operation.store.concurrency() } else { 0 };
        let groups = group(entries, self.policy(source), subchunks.is_all);
        let bytes = subchunks.level.decoded_bytes * (entries.len() / groups.len().max(1));
        let run = Executor::choose_if(self.spread || concurrency > 0, groups.len(), bytes, concurrency);
        let work = |number: usize, source: Source<'_>, scratch: &mut Scratch| {
            self.read_entries(subchunks, source, start, entries, &groups[number], scratch)
        };
        let is_whole = !subchunks.level.is_raw() && !matches!(subchunks.level.body, Body::Shard(_));
        let async_parts = AsyncParts::new(self.operation, source, run, self.spread).filter(|_| is_whole);
        let requests = async_parts.iter().flat_map(|async_parts| {
            let bytes = groups.iter().map(|group| group.bytes(entries));
            bytes.map(|(first, count)| async_parts.request(first - start, count))
        });
        let requests: Vec<_> = requests.collect();
        match async_parts {
            Some(async_parts) if requests.iter().any(Option::is_some) => async_parts.each(&requests, &work),
            _ => self.operation.each(run, groups.len(), &|number, scratch| work(number, source, scratch)),
        }
    }

    /// Read subchunks whose bytes are close together: one request, then each alone.
    fn read_entries(
        &self,
        subchunks: &Subchunks<'_, '_>,
        source: Source<'_>,
        start: u64,
        entries: &[Entry],
        group: &Group,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let entries = &entries[group.entries.clone()];
        let source = if group.continues { self.continued(source) } else { source };
        if let (None, Some((first, end))) = (source.in_memory(), group.span) {
            let part = source.part(first - start, end - first)?;
            let part = if decoded_slot(subchunks.level, part).is_some() {
                part.caching_decoded_only()
            } else {
                part
            };
            return self.with_fetched(part, scratch, |source, _| {
                self.read_subchunks(subchunks, source, first, entries)
            });
        }
        for entry in entries {
            let part = source.part(entry.offset - start, entry.size)?;
            subchunks.with(entry.task, |reads| self.read_level(reads, part, scratch))?;
        }
        Ok(())
    }
}

/// Return the touched subchunks that a shard of `size` bytes stores.
fn touched_entries(
    shard: &Shard,
    index: &Index,
    size: u64,
    reads: &ChunkReads<'_, '_>,
) -> Option<Vec<Entry>> {
    let touches = &reads.touched_subchunks(shard).ok()?.touches;
    let entries = touches.iter().enumerate().map(|(task, touch)| {
        let entry = shard_index::checked_entry(index, touch.number, size).ok()?;
        Some(entry.map(|(offset, size)| Entry { offset, size, task }))
    });
    Some(entries.collect::<Option<Vec<_>>>()?.into_iter().flatten().collect())
}

/// Divide `entries`, sorted by offset, into groups to fetch together. `is_all`: the gaps are read,
/// too.
fn group(entries: &[Entry], policy: CoalescingPolicy, is_all: bool) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let (mut start, mut end) = (0u64, 0u64);
    for (number, entry) in entries.iter().enumerate() {
        let after = entry.offset + entry.size;
        let is_close = entry.offset <= end.saturating_add(policy.gap);
        let joins = is_close && after.max(end) - start <= policy.group;
        match groups.last_mut() {
            Some(group) if joins => {
                end = end.max(after);
                group.entries.end = number + 1;
                group.span = Some((start, end));
            }
            last => {
                let continues = last.is_some() && (is_close || is_all);
                groups.push(Group { entries: number..number + 1, span: None, continues });
                (start, end) = (entry.offset, after);
            }
        }
    }
    groups
}
