//! Updates through a cache.

use std::sync::Arc;
use std::time::Instant;

use super::cache_pool::{CacheMemory, RequestTime};
use super::entry::{CacheEntry, EntryKind, ValueId, WholeValue};
use super::lru::Lru;
use super::name;
use crate::error::Result;
use crate::store::{self, joined, AsyncPut, Change, Completion, ValueReader, Version};

/// Starts writes of the inner store, and caches the values.
pub(super) struct CachedPut {
    inner: Arc<dyn AsyncPut>,
    memory: Arc<CacheMemory>,
    namespace: Arc<str>,
}

impl CachedPut {
    pub(super) fn new(inner: Arc<dyn AsyncPut>, memory: Arc<CacheMemory>, namespace: Arc<str>) -> Self {
        CachedPut { inner, memory, namespace }
    }
}

impl AsyncPut for CachedPut {
    fn put(&self, key: &str, value: &Arc<Vec<u8>>, completion: Completion<Option<Version>>) {
        let name = name(&self.namespace, key);
        let ((), changing) = UpdateInProgress::start(&self.memory, &self.namespace, name, |_| ());
        let (new, limit) = (value.clone(), self.memory.limit);
        let completion = completion.chain(move |completion, result| {
            let size = new.len() as u64;
            let of_written = || WrittenValue::Ranges { size, ranges: vec![(0, new.to_vec())] };
            let new_value = result.as_ref().ok().filter(|_| size <= limit);
            changing.end(new_value.map(|version| (of_written(), *version)));
            completion.complete(result);
        });
        self.inner.put(key, value, completion);
    }
}

/// An update in progress.
///
/// It invalidates the key before, so that a reader of the old value never mixes it with the new
/// one; and after, even if nothing changed: the caller may have relied on an outdated entry.
pub(super) struct UpdateInProgress {
    memory: Arc<CacheMemory>,
    namespace: Arc<str>,
    name: String,
    request_time: RequestTime,
    new_value: Option<(WrittenValue, Option<Version>)>,
}

impl UpdateInProgress {
    /// Look at the cached entry, and invalidate it.
    pub(super) fn start<T>(
        memory: &Arc<CacheMemory>,
        namespace: &Arc<str>,
        name: String,
        inspect: impl FnOnce(&Lru) -> T,
    ) -> (T, Self) {
        let requested_at = Instant::now();
        let (cached, epoch) = memory.with(|lru| {
            let cached = inspect(lru);
            lru.invalidate(namespace, &name);
            (cached, lru.epoch(&name))
        });
        let (memory, namespace) = (memory.clone(), namespace.clone());
        (
            cached,
            UpdateInProgress {
                memory,
                namespace,
                name,
                request_time: RequestTime { epoch, requested_at },
                new_value: None,
            },
        )
    }

    /// Cache the new value; None: it is unknown.
    pub(super) fn end(mut self, new_value: Option<(WrittenValue, Option<Version>)>) {
        self.new_value = new_value;
    }
}

impl Drop for UpdateInProgress {
    fn drop(&mut self) {
        let (is_only_update, epoch) = self.memory.with(|lru| {
            let is_only_update = lru.epoch(&self.name) == self.request_time.epoch;
            lru.invalidate(&self.namespace, &self.name);
            (is_only_update, lru.epoch(&self.name))
        });
        // The order of concurrent updates is unknown.
        if let (true, Some((of_written, version))) = (is_only_update, self.new_value.take()) {
            let request_time = RequestTime { epoch, ..self.request_time };
            of_written.each(version, |kind, entry| self.memory.insert(&self.name, kind, entry, request_time));
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
        let new_value = |kind: &store::ValuePart<'_>| {
            whole.is_some() || !matches!(kind, store::ValuePart::Current { .. })
        };
        let total = |parts: &[store::ValuePart<'_>]| parts.iter().map(store::ValuePart::size).sum::<u64>();
        let mut ranges = Vec::new();
        let mut size = 0;
        for run in parts.chunk_by(|one, next| new_value(one) == new_value(next)) {
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
