//! Updates through a cache.

use std::sync::Arc;
use std::time::Instant;

use super::cache_pool::RequestTime;
use super::entry::{CacheEntry, EntryKind, ValueId, WholeValue};
use super::CachedStore;
use crate::error::Result;
use crate::store::{joined, AsyncRequest, Change, ValuePart, ValueReader, Version};

/// Return an asynchronous write whose value is cached when it completes.
pub(super) fn cached_put(store: &CachedStore, request: AsyncRequest) -> AsyncRequest {
    let AsyncRequest::Put { key, value, completion } = request else { return request };
    let (_, update) = UpdateInProgress::start(store, store.name(&key));
    let (new, limit) = (value.clone(), store.memory.limit());
    let completion = completion.map(move |result| {
        let size = new.len() as u64;
        let new_value = result.as_ref().ok().filter(|_| size <= limit);
        update.end(
            new_value
                .map(|version| (WrittenValue::Ranges { size, ranges: vec![(0, new.to_vec())] }, *version)),
        );
        result
    });
    AsyncRequest::Put { key, value, completion }
}

/// An update in progress.
///
/// It invalidates the key before, so that a reader of the old value never mixes it with the new
/// one; and after, even if nothing changed: the caller may have relied on an outdated entry.
pub(super) struct UpdateInProgress {
    store: CachedStore,
    name: String,
    request_time: RequestTime,
    new_value: Option<(WrittenValue, Option<Version>)>,
}

impl UpdateInProgress {
    /// Return the cached entry, and invalidate it.
    pub(super) fn start(store: &CachedStore, name: String) -> (Option<CacheEntry>, Self) {
        let requested_at = Instant::now();
        let (cached, epoch) = store.memory.with(|lru| {
            let cached = lru.value(&name).cloned();
            lru.invalidate(&store.namespace, &name);
            (cached, lru.epoch(&name))
        });
        let request_time = RequestTime { epoch, requested_at };
        (cached, UpdateInProgress { store: store.clone(), name, request_time, new_value: None })
    }

    /// Cache the new value; None: it is unknown.
    pub(super) fn end(mut self, new_value: Option<(WrittenValue, Option<Version>)>) {
        self.new_value = new_value;
    }
}

impl Drop for UpdateInProgress {
    fn drop(&mut self) {
        let (is_only_update, epoch) = self.store.memory.with(|lru| {
            let is_only_update = lru.epoch(&self.name) == self.request_time.epoch;
            lru.invalidate(&self.store.namespace, &self.name);
            (is_only_update, lru.epoch(&self.name))
        });
        // The order of concurrent updates is unknown.
        if let (true, Some((of_written, version))) = (is_only_update, self.new_value.take()) {
            let request_time = RequestTime { epoch, ..self.request_time };
            of_written
                .each(version, |kind, entry| self.store.memory.insert(&self.name, kind, entry, request_time));
        }
    }
}

/// The known part of a written value.
pub(super) enum WrittenValue {
    Unknown,
    Absent,
    /// The value is unchanged.
    Unchanged(Arc<WholeValue>),
    /// The size, and the ranges whose bytes are known.
    Ranges {
        size: u64,
        ranges: Vec<(u64, Vec<u8>)>,
    },
}

impl WrittenValue {
    /// Return the cacheable part of a change; `whole` is the current value, if it is cached.
    pub(super) fn of(
        change: &Change<'_>,
        whole: Option<&dyn ValueReader>,
        limit: u64,
    ) -> Result<WrittenValue> {
        let parts = match change {
            Change::Delete => return Ok(WrittenValue::Absent),
            Change::Keep => return Ok(WrittenValue::Unknown),
            Change::Write(parts) => parts,
        };
        let new_value = |kind: &ValuePart<'_>| whole.is_some() || !matches!(kind, ValuePart::Current { .. });
        let total = |parts: &[ValuePart<'_>]| parts.iter().map(ValuePart::size).sum::<u64>();
        let mut ranges = Vec::new();
        let mut size = 0;
        for run in parts.chunk_by(|part, next| new_value(part) == new_value(next)) {
            let bytes = total(run);
            if run.iter().all(new_value) && bytes <= limit {
                ranges.push((size, joined(run, whole)?));
            }
            size += bytes;
        }
        Ok(WrittenValue::Ranges { size, ranges })
    }

    /// Pass each entry of the new value to `insert`.
    fn each(self, version: Option<Version>, insert: impl Fn(EntryKind, CacheEntry)) {
        match self {
            WrittenValue::Unknown => {}
            WrittenValue::Absent => insert(EntryKind::Value, CacheEntry::Absent),
            WrittenValue::Unchanged(whole) => insert(EntryKind::Value, CacheEntry::Whole(whole)),
            WrittenValue::Ranges { size, mut ranges } => match &mut ranges[..] {
                [(0, bytes)] if bytes.len() as u64 == size => {
                    let (bytes, value_id) = (std::mem::take(bytes), ValueId::of_written(version));
                    let whole = WholeValue { bytes, value_id };
                    insert(EntryKind::Value, CacheEntry::Whole(Arc::new(whole)));
                }
                // Without a version, the other ranges may belong to another value.
                _ if version.is_some() => {
                    insert(
                        EntryKind::Value,
                        CacheEntry::Exists { size, value_id: Box::new(ValueId::of_written(version)) },
                    );
                    for (offset, bytes) in ranges {
                        let kind = EntryKind::Range { offset, count: bytes.len() as u64 };
                        insert(kind, CacheEntry::Range(Arc::new(bytes)));
                    }
                }
                _ => {}
            },
        }
    }
}
