//! Shards: their subchunks, with neighbours in one request.

use std::sync::Arc;

use super::async_parts::Far;
use super::parts::{Parts, Subchunks};
use super::{kept, missing, Reader, Worth};
use crate::array::{Body, Missing, Shard};
use crate::error::Result;
use crate::pipeline::operation::Run;
use crate::pipeline::source::Source;
use crate::scratch::{reserve, Scratch};
use crate::shard_index::{self, Entry};

/// Subchunks of a shard that are fetched together.
struct Group {
    entries: std::ops::Range<usize>,
    /// The bytes that hold them; None: each is fetched by itself.
    span: Option<(u64, u64)>,
    /// They are asked for with those of the group before.
    more: bool,
}

impl Group {
    /// Where the bytes begin, and how many they are.
    fn bytes(&self, entries: &[Entry]) -> (u64, u64) {
        let first = &entries[self.entries.start];
        let (begin, end) = self.span.unwrap_or((first.offset, first.offset + first.size));
        (begin, end - begin)
    }
}

impl Reader<'_> {
    pub(super) fn shard(
        &self,
        shard: &Shard,
        parts: &Parts<'_, '_>,
        source: Source<'_>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let inside = parts.inside(shard)?;
        let is_all = source.in_memory().is_none() && inside.subchunks() == self.subchunks_of(shard, parts);
        // All of a shard, its index included, is one request.
        let is_new = is_all && !shard_index::is_known(shard, source);
        let stays = kept(&shard.level, source).is_some(); // some of it may be there
        let at_once = is_new || is_all && parts.wanted.len() > 1 && !stays;
        if at_once && source.size() <= self.worth(source).group {
            let source = if stays { source.once() } else { source };
            return self
                .fetched(source, scratch, |source, scratch| self.shard(shard, parts, source, scratch));
        }
        let index = shard_index::index(shard, source, scratch)?;
        let source = if is_new { self.more(source) } else { source };
        let touches = &inside.touches;
        let of = Subchunks { parts, level: &shard.level, inside, is_all };
        let mut found: Vec<Entry> = Vec::new();
        reserve(&mut found, touches.len())?;
        for (first, touch) in touches.iter().enumerate() {
            let is_again = first > 0 && touches[first - 1].number == touch.number;
            if is_again || self.has(shard, touch.number) {
                continue;
            }
            match shard_index::placed(&index, touch.number, source.size()) {
                Ok(Some((offset, size))) => found.push(Entry { offset, size, task: first }),
                told => of.with(first, |parts| {
                    let refuse = self.array.missing == Missing::Refuse;
                    told.and_then(|_| if refuse { Err(missing()) } else { self.fill(parts) })
                })?,
            }
        }
        found.sort_unstable_by_key(|entry| entry.offset);
        let source = if stays {
            let mut here = Vec::new();
            found.retain(|entry| {
                let part = source.part(entry.offset, entry.size).ok();
                let chunk = part.and_then(|part| kept(&shard.level, part)?.find());
                here.extend(chunk.iter().map(|chunk| (entry.task, chunk.clone())));
                chunk.is_none()
            });
            self.remembered(&of, &here)?;
            source.all_new()
        } else {
            source
        };
        self.subchunks(&of, source, 0, &found)
    }

    /// Subchunks that are remembered, for which nothing is asked.
    fn remembered(&self, of: &Subchunks<'_, '_>, chunks: &[(usize, Arc<Vec<u8>>)]) -> Result<()> {
        let run = match self.spread {
            true => Run::decide(chunks.len(), of.level.decoded_bytes, 0),
            false => Run::Here,
        };
        run.each(chunks.len(), self.operation.interrupt, &|number, _| {
            let (task, chunk) = &chunks[number];
            of.with(*task, |parts| self.deliver_kept(parts, chunk))
        })
    }

    /// Something is wanted of every subchunk of the shard that `parts` are of.
    pub(super) fn wants_all(&self, shard: &Shard, parts: &Parts<'_, '_>) -> bool {
        parts.inside(shard).is_ok_and(|inside| inside.subchunks() == self.subchunks_of(shard, parts))
    }

    /// How many subchunks of the shard that `parts` are of are not all past the array's edge.
    fn subchunks_of(&self, shard: &Shard, parts: &Parts<'_, '_>) -> u64 {
        let ends = self.array.shape.iter().zip(parts.origin).map(|(end, origin)| end - origin);
        let lengths = ends.zip(&parts.level.shape).map(|(end, &length)| end.min(length));
        lengths.zip(&shard.level.shape).map(|(length, size)| length.div_ceil(*size)).product()
    }

    /// Subchunks that `entries` tell in their order, where `source` begins at `start` of the shard.
    fn subchunks(
        &self,
        of: &Subchunks<'_, '_>,
        source: Source<'_>,
        start: u64,
        entries: &[Entry],
    ) -> Result<()> {
        let concurrency = if source.in_memory().is_none() { self.operation.store.concurrency() } else { 0 };
        let groups = group(entries, self.worth(source), of.is_all);
        let run = if self.spread || concurrency > 0 {
            let bytes = of.level.decoded_bytes * (entries.len() / groups.len().max(1));
            Run::decide(groups.len(), bytes, concurrency)
        } else {
            Run::Here
        };
        let work = |number: usize, source: Source<'_>, scratch: &mut Scratch| {
            self.group(of, source, start, entries, &groups[number], scratch)
        };
        let is_whole = !of.level.is_raw() && !matches!(of.level.body, Body::Shard(_));
        let far = Far::of(self.operation, source, run, self.spread).filter(|_| is_whole);
        let requests = far.iter().flat_map(|far| {
            let bytes = groups.iter().map(|group| group.bytes(entries));
            bytes.map(|(first, count)| far.request(first - start, count))
        });
        let requests: Vec<_> = requests.collect();
        match far {
            Some(far) if requests.iter().any(Option::is_some) => far.each(&requests, &work),
            _ => self.operation.each(run, groups.len(), &|number, scratch| work(number, source, scratch)),
        }
    }

    /// Subchunks whose bytes are close together: one request, then each by itself.
    fn group(
        &self,
        of: &Subchunks<'_, '_>,
        source: Source<'_>,
        start: u64,
        entries: &[Entry],
        group: &Group,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let entries = &entries[group.entries.clone()];
        let source = if group.more { self.more(source) } else { source };
        if let (None, Some((first, end))) = (source.in_memory(), group.span) {
            let part = source.part(first - start, end - first)?;
            let part = if kept(of.level, part).is_some() { part.once() } else { part };
            return self.fetched(part, scratch, |source, _| self.subchunks(of, source, first, entries));
        }
        for entry in entries {
            let part = source.part(entry.offset - start, entry.size)?;
            of.with(entry.task, |parts| self.level(parts, part, scratch))?;
        }
        Ok(())
    }
}

/// Cut `entries`, which are in their order, into groups to fetch together. `is_all`: others would be asked for what is
/// between them, too.
fn group(entries: &[Entry], worth: Worth, is_all: bool) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let (mut start, mut end) = (0u64, 0u64);
    for (number, entry) in entries.iter().enumerate() {
        let after = entry.offset + entry.size;
        let is_near = entry.offset <= end.saturating_add(worth.gap);
        let joins = is_near && after.max(end) - start <= worth.group;
        match groups.last_mut() {
            Some(group) if joins => {
                end = end.max(after);
                group.entries.end = number + 1;
                group.span = Some((start, end));
            }
            last => {
                let more = last.is_some() && (is_near || is_all);
                groups.push(Group { entries: number..number + 1, span: None, more });
                (start, end) = (entry.offset, after);
            }
        }
    }
    groups
}
