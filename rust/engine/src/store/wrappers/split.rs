//! Two stores as one: metadata documents in one, chunks in the other.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use crate::error::Result;
use crate::store::async_ops::complete_on_thread;
use crate::store::{
    with_coalescing, AsyncGet, AsyncPut, CoalescingStore, Completion, Listing, PathKind, Permit, ReadHint,
    Store, UpdateOptions, UpdateOutcome, Updater, ValueReader, Version,
};

/// A store that keeps metadata documents in one store, and all other values, the chunks, in
/// another.
///
/// Names identify documents: "zarr.json", and names that begin with "." (".zarray", ".zmetadata";
/// also ".shape", which is only locked). Chunks in the store of documents are invisible, and vice
/// versa.
#[derive(Debug)]
pub struct SplitStore {
    metadata: Arc<dyn Store>,
    chunks: Arc<dyn Store>,
    same_store: bool,
}

/// Return whether `key` names a metadata document.
pub(in crate::store) fn is_document(key: &str) -> bool {
    let name = key.rsplit_once('/').map_or(key, |(_, name)| name);
    name.starts_with('.') || name == "zarr.json"
}

impl SplitStore {
    /// Send documents to `metadata` and all other keys to `chunks`. `same_store`: both are views of
    /// one store with the same keys.
    pub fn new(metadata: Arc<dyn Store>, chunks: Arc<dyn Store>, same_store: bool) -> Self {
        SplitStore { metadata, chunks, same_store }
    }

    fn store_of(&self, key: &str) -> &dyn Store {
        if is_document(key) {
            &*self.metadata
        } else {
            &*self.chunks
        }
    }
}

/// Starts reads of chunks; a thread waits for documents.
struct SplitGet {
    metadata: Arc<dyn Store>,
    chunks: Arc<dyn AsyncGet>,
}

impl AsyncGet for SplitGet {
    fn get(&self, key: &str, hint: ReadHint, completion: Completion) {
        if !is_document(key) {
            return self.chunks.get(key, hint, completion);
        }
        let (metadata, key) = (self.metadata.clone(), key.to_owned());
        complete_on_thread(completion, move || metadata.open(&key, hint));
    }
}

/// Starts writes of chunks; a thread waits for documents.
struct SplitPut {
    metadata: Arc<dyn Store>,
    chunks: Arc<dyn AsyncPut>,
}

impl AsyncPut for SplitPut {
    fn put(&self, key: &str, value: &Arc<Vec<u8>>, completion: Completion<Option<Version>>) {
        if !is_document(key) {
            return self.chunks.put(key, value, completion);
        }
        let (metadata, key, value) = (self.metadata.clone(), key.to_owned(), value.clone());
        complete_on_thread(completion, move || metadata.put_shared(&key, &value));
    }
}

impl Store for SplitStore {
    fn is_local(&self) -> bool {
        self.metadata.is_local() && self.chunks.is_local()
    }

    fn open(&self, key: &str, hint: ReadHint) -> Result<Option<Box<dyn ValueReader>>> {
        self.store_of(key).open(key, hint)
    }

    fn async_get(&self) -> Option<Arc<dyn AsyncGet>> {
        Some(Arc::new(SplitGet { metadata: self.metadata.clone(), chunks: self.chunks.async_get()? }))
    }

    fn async_put(&self) -> Option<Arc<dyn AsyncPut>> {
        Some(Arc::new(SplitPut { metadata: self.metadata.clone(), chunks: self.chunks.async_put()? }))
    }

    fn with_coalescing(
        &self,
        below: &Arc<dyn Store>,
        shared: &Arc<CoalescingStore>,
    ) -> Option<Arc<dyn Store>> {
        let (metadata, chunks) =
            (with_coalescing(&self.metadata, below, shared), with_coalescing(&self.chunks, below, shared));
        (metadata.is_some() || chunks.is_some()).then(|| {
            let metadata = metadata.unwrap_or_else(|| self.metadata.clone());
            let chunks = chunks.unwrap_or_else(|| self.chunks.clone());
            Arc::new(SplitStore { metadata, chunks, same_store: self.same_store }) as _
        })
    }

    fn check_may_block(&self) -> Result<()> {
        self.metadata.check_may_block().and_then(|()| self.chunks.check_may_block())
    }

    fn update<'a>(
        &self,
        key: &str,
        options: UpdateOptions,
        updater: &mut Updater<'_, 'a>,
    ) -> Result<UpdateOutcome<'a>> {
        self.store_of(key).update(key, options, updater)
    }

    fn path_kind(&self, key: &str) -> Result<Option<PathKind>> {
        self.store_of(key).path_kind(key)
    }

    fn first_entries(&self, prefix: &str, limit: usize) -> Result<Option<Listing>> {
        self.chunks.first_entries(prefix, limit)
    }

    fn hold(&self, key: &str, work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        self.keys().check(key)?;
        self.store_of(key).hold(key, work)
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        let mut keys = self.metadata.list(prefix)?;
        keys.retain(|key| is_document(key));
        let chunks = self.chunks.list(prefix)?;
        keys.extend(chunks.into_iter().filter(|key| !is_document(key)));
        keys.sort_unstable();
        Ok(keys)
    }

    fn list_dir(&self, prefix: &str) -> Result<Listing> {
        let mut listing = self.metadata.list_dir(prefix)?;
        listing.keys.retain(|key| is_document(key));
        let chunks = self.chunks.list_dir(prefix)?;
        listing.keys.extend(chunks.keys.into_iter().filter(|key| !is_document(key)));
        listing.keys.sort_unstable();
        listing.prefixes.extend(chunks.prefixes);
        listing.prefixes.sort_unstable();
        listing.prefixes.dedup();
        Ok(listing)
    }

    fn delete_prefix(&self, prefix: &str) -> Result<()> {
        // Documents first: half a deletion then leaves chunks without an array, not the reverse.
        self.metadata.delete_prefix(prefix)?;
        self.chunks.delete_prefix(prefix)
    }

    fn clear_prefix(&self, prefix: &str) -> Result<()> {
        self.metadata.clear_prefix(prefix)?;
        if self.same_store {
            return self.chunks.clear_prefix(prefix);
        }
        // The next value may be a document in another folder, which does not make this folder
        // durable.
        self.chunks.delete_prefix(prefix)
    }

    fn remove_link(&self, prefix: &str) -> Result<bool> {
        let removed = self.metadata.remove_link(prefix)?;
        Ok(self.chunks.remove_link(prefix)? || removed)
    }

    fn read_only(&self) -> bool {
        self.metadata.read_only() || self.chunks.read_only()
    }

    fn is_exclusive(&self) -> bool {
        self.metadata.is_exclusive() && self.chunks.is_exclusive()
    }

    fn concurrency(&self) -> usize {
        self.metadata.concurrency().max(self.chunks.concurrency())
    }

    fn coding_permit(&self) -> Result<Option<Permit<'_>>> {
        self.chunks.coding_permit()
    }

    fn can_cache(&self, bytes: usize) -> bool {
        self.chunks.can_cache(bytes)
    }

    fn is_cached(&self, key: &str) -> bool {
        self.store_of(key).is_cached(key)
    }

    fn cached_since(&self, key: &str) -> Option<Instant> {
        self.store_of(key).cached_since(key)
    }

    fn coalesced_since(&self, key: &str) -> Option<SystemTime> {
        self.store_of(key).coalesced_since(key)
    }

    fn write_concurrency(&self) -> usize {
        self.metadata.write_concurrency().max(self.chunks.write_concurrency())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::MemoryStore;

    #[test]
    fn split_store_routes_keys_and_merges_listings() -> Result<()> {
        let (metadata, chunks) = (Arc::new(MemoryStore::new()), Arc::new(MemoryStore::new()));
        let split: &dyn Store = &SplitStore::new(metadata.clone(), chunks.clone(), false);
        let keys = [".zgroup", "a/.zarray", "a/0.0", "a/c/0", "b/zarr.json", "zarr.jsonx"];
        for key in keys {
            split.put(key, key.as_bytes())?;
            assert_eq!(split.get(key)?.as_deref(), Some(key.as_bytes()));
        }
        assert_eq!((&*metadata as &dyn Store).list("")?, [".zgroup", "a/.zarray", "b/zarr.json"]);
        assert_eq!((&*chunks as &dyn Store).list("")?, ["a/0.0", "a/c/0", "zarr.jsonx"]);
        assert_eq!(split.list("")?, keys);
        let top = split.list_dir("")?;
        assert_eq!(
            (top.keys, top.prefixes),
            (vec![".zgroup".into(), "zarr.jsonx".into()], vec!["a/".into(), "b/".into()])
        );
        split.delete_prefix("a/")?;
        assert_eq!(split.list("")?, [".zgroup", "b/zarr.json", "zarr.jsonx"]);
        Ok(())
    }
}
