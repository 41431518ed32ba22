//! Two stores as one: metadata documents in one, chunks in the other.

use std::sync::Arc;

use crate::error::Result;
use crate::store::{
    AsyncRequest, CacheState, Call, Depth, KeySyntax, Listing, LocalStore, Permit, PrefixChange, ReadHint,
    ReplaceStore, StartRequest, Store, StoreInfo, UpdateOptions, UpdateOutcome, Updater, ValueReader,
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

impl Store for SplitStore {
    fn info(&self) -> StoreInfo {
        let (metadata, chunks) = (self.metadata.info(), self.chunks.info());
        StoreInfo {
            keys: KeySyntax::Paths,
            read_only: metadata.read_only || chunks.read_only,
            is_exclusive: metadata.is_exclusive && chunks.is_exclusive,
            has_conditional_deletes: metadata.has_conditional_deletes && chunks.has_conditional_deletes,
            is_local: metadata.is_local && chunks.is_local,
            concurrency: metadata.concurrency.max(chunks.concurrency),
            write_concurrency: metadata.write_concurrency.max(chunks.write_concurrency),
            cache_limit: chunks.cache_limit,
        }
    }

    fn open(&self, key: &str, hint: ReadHint) -> Result<Option<Box<dyn ValueReader>>> {
        self.store_of(key).open(key, hint)
    }

    fn update<'a>(
        &self,
        key: &str,
        options: UpdateOptions,
        updater: &mut Updater<'_, 'a>,
    ) -> Result<UpdateOutcome<'a>> {
        self.store_of(key).update(key, options, updater)
    }

    fn hold(&self, key: &str, work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        self.keys().check(key)?;
        self.store_of(key).hold(key, work)
    }

    fn list_keys(&self, prefix: &str, depth: Depth) -> Result<Listing> {
        let mut listing = self.metadata.list_keys(prefix, depth)?;
        listing.keys.retain(|key| is_document(key));
        let chunks = self.chunks.list_keys(prefix, depth)?;
        listing.keys.extend(chunks.keys.into_iter().filter(|key| !is_document(key)));
        listing.keys.sort_unstable();
        listing.prefixes.extend(chunks.prefixes);
        listing.prefixes.sort_unstable();
        listing.prefixes.dedup();
        Ok(listing)
    }

    fn change_prefix(&self, prefix: &str, change: PrefixChange<'_>) -> Result<bool> {
        let chunk_change = match change {
            // The staged keys would lie in both stores.
            PrefixChange::ReplaceBy(_) => return Ok(false),
            // The next value may be a document in another folder, which does not make this folder
            // durable.
            PrefixChange::Clear if !self.same_store => PrefixChange::Delete,
            _ => change,
        };
        // Documents first: half a deletion then leaves chunks without an array, not the reverse.
        let is_changed = self.metadata.change_prefix(prefix, change)?;
        Ok(self.chunks.change_prefix(prefix, chunk_change)? || is_changed)
    }

    fn cache_state(&self, key: &str) -> CacheState {
        self.store_of(key).cache_state(key)
    }

    fn local(&self, key: &str) -> Option<(&LocalStore, String)> {
        self.store_of(key).local(key)
    }

    fn location(&self, key: &str) -> String {
        self.store_of(key).location(key)
    }

    fn stored_location(&self, key: &str) -> String {
        self.store_of(key).stored_location(key)
    }

    fn check_may_block(&self) -> Result<()> {
        self.metadata.check_may_block().and_then(|()| self.chunks.check_may_block())
    }

    fn coding_permit(&self) -> Result<Option<Permit>> {
        self.chunks.coding_permit()
    }

    fn with_inner(&self, replace: ReplaceStore<'_>) -> Option<Arc<dyn Store>> {
        let (metadata, chunks) = (replace(&self.metadata), replace(&self.chunks));
        (metadata.is_some() || chunks.is_some()).then(|| {
            let metadata = metadata.unwrap_or_else(|| self.metadata.clone());
            let chunks = chunks.unwrap_or_else(|| self.chunks.clone());
            Arc::new(SplitStore { metadata, chunks, same_store: self.same_store }) as _
        })
    }

    /// Requests of chunks are asynchronous; a thread waits for documents.
    fn async_requests(&self, call: Call) -> Option<StartRequest> {
        let (metadata, start) = (self.metadata.clone(), self.chunks.async_requests(call)?);
        Some(Arc::new(move |request: AsyncRequest| match is_document(request.key()) {
            true => request.run_on_thread(metadata.clone()),
            false => start(request),
        }))
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
