//! Two stores as one: metadata documents in one, chunks in the other.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use crate::error::Result;
use crate::store::async_ops::by_thread;
use crate::store::{
    through, Ask, AtPath, Listing, Made, Need, Object, Put, SharedStore, Store, Told, Turn, Updater, Version,
    Want,
};

/// Keeps metadata documents in one store and all other values, the chunks, in another.
///
/// Documents are recognised by name: "zarr.json", and names that begin with "." (".zarray",
/// ".zmetadata"; also ".shape", which is only locked). Chunks in the store of documents are
/// invisible, and vice versa.
#[derive(Debug)]
pub struct SplitStore {
    metadata: Arc<dyn Store>,
    chunks: Arc<dyn Store>,
    of_one: bool,
}

/// Whether `key` names a metadata document.
pub(in crate::store) fn is_document(key: &str) -> bool {
    let name = key.rsplit_once('/').map_or(key, |(_, name)| name);
    name.starts_with('.') || name == "zarr.json"
}

impl SplitStore {
    /// Send documents to `metadata` and all other keys to `chunks`. `same_store`: both are views of
    /// one store with the same keys.
    pub fn new(metadata: Arc<dyn Store>, chunks: Arc<dyn Store>, of_one: bool) -> Self {
        SplitStore { metadata, chunks, of_one }
    }

    fn side(&self, key: &str) -> &dyn Store {
        if is_document(key) {
            &*self.metadata
        } else {
            &*self.chunks
        }
    }
}

/// Starts reads of chunks; a thread waits for documents.
struct SplitAsk {
    metadata: Arc<dyn Store>,
    chunks: Arc<dyn Ask>,
}

impl Ask for SplitAsk {
    fn ask(&self, key: &str, want: Want, told: Told) {
        if !is_document(key) {
            return self.chunks.ask(key, want, told);
        }
        let (metadata, key) = (self.metadata.clone(), key.to_owned());
        by_thread(told, move || metadata.open(&key, want));
    }
}

/// Starts writes of chunks; a thread waits for documents.
struct SplitPut {
    metadata: Arc<dyn Store>,
    chunks: Arc<dyn Put>,
}

impl Put for SplitPut {
    fn put(&self, key: &str, value: &Arc<Vec<u8>>, told: Told<Option<Version>>) {
        if !is_document(key) {
            return self.chunks.put(key, value, told);
        }
        let (metadata, key, value) = (self.metadata.clone(), key.to_owned(), value.clone());
        by_thread(told, move || metadata.put_shared(&key, &value));
    }
}

impl Store for SplitStore {
    fn at_hand(&self) -> bool {
        self.metadata.at_hand() && self.chunks.at_hand()
    }

    fn open(&self, key: &str, want: Want) -> Result<Option<Box<dyn Object>>> {
        self.side(key).open(key, want)
    }

    fn asking(&self) -> Option<Arc<dyn Ask>> {
        Some(Arc::new(SplitAsk { metadata: self.metadata.clone(), chunks: self.chunks.asking()? }))
    }

    fn putting(&self) -> Option<Arc<dyn Put>> {
        Some(Arc::new(SplitPut { metadata: self.metadata.clone(), chunks: self.chunks.putting()? }))
    }

    fn through(&self, below: &Arc<dyn Store>, shared: &Arc<SharedStore>) -> Option<Arc<dyn Store>> {
        let (metadata, chunks) =
            (through(&self.metadata, below, shared), through(&self.chunks, below, shared));
        (metadata.is_some() || chunks.is_some()).then(|| {
            let metadata = metadata.unwrap_or_else(|| self.metadata.clone());
            let chunks = chunks.unwrap_or_else(|| self.chunks.clone());
            Arc::new(SplitStore { metadata, chunks, of_one: self.of_one }) as _
        })
    }

    fn may_wait(&self) -> Result<()> {
        self.metadata.may_wait().and_then(|()| self.chunks.may_wait())
    }

    fn update<'a>(&self, key: &str, need: Need, updater: &mut Updater<'_, 'a>) -> Result<Made<'a>> {
        self.side(key).update(key, need, updater)
    }

    fn at_path(&self, key: &str) -> Result<Option<AtPath>> {
        self.side(key).at_path(key)
    }

    fn first_entries(&self, prefix: &str, limit: usize) -> Result<Option<Listing>> {
        self.chunks.first_entries(prefix, limit)
    }

    fn hold(&self, key: &str, work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        self.keys().check(key)?;
        self.side(key).hold(key, work)
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
        let mut found = self.metadata.list_dir(prefix)?;
        found.keys.retain(|key| is_document(key));
        let chunks = self.chunks.list_dir(prefix)?;
        found.keys.extend(chunks.keys.into_iter().filter(|key| !is_document(key)));
        found.keys.sort_unstable();
        found.prefixes.extend(chunks.prefixes);
        found.prefixes.sort_unstable();
        found.prefixes.dedup();
        Ok(found)
    }

    fn delete_prefix(&self, prefix: &str) -> Result<()> {
        // Documents first: half a deletion then leaves chunks without an array, not the reverse.
        self.metadata.delete_prefix(prefix)?;
        self.chunks.delete_prefix(prefix)
    }

    fn clear_prefix(&self, prefix: &str) -> Result<()> {
        self.metadata.clear_prefix(prefix)?;
        if self.of_one {
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

    fn decoding(&self) -> Result<Option<Turn<'_>>> {
        self.chunks.decoding()
    }

    fn keeps(&self, bytes: usize) -> bool {
        self.chunks.keeps(bytes)
    }

    fn remembers(&self, key: &str) -> bool {
        self.side(key).remembers(key)
    }

    fn asked_since(&self, key: &str) -> Option<Instant> {
        self.side(key).asked_since(key)
    }

    fn shared_since(&self, key: &str) -> Option<SystemTime> {
        self.side(key).shared_since(key)
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
    fn each_key_goes_to_its_side_and_listings_show_both() -> Result<()> {
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
