//! Buffered chunks that a commit of staged changes replaces or deletes.

use super::scope::{arrays_where, discard_below, store_all};
use crate::error::Result;
use crate::pipeline::operation::Interrupt;
use crate::store::{StagedRegions, Store};

/// The locations of the changes of a commit.
///
/// A commit follows all earlier writes, also those in blocks of buffered writes: these are stored
/// before it, or they are discarded with a deleted array.
pub struct CommitLocations<'s> {
    /// The store that the commit changes.
    store: &'s dyn Store,
    folders: Vec<String>,
    ranges: Vec<String>,
    /// Deleted prefixes, and their locations before the commit.
    deleted: Vec<(String, String)>,
}

impl<'s> CommitLocations<'s> {
    /// Return the locations of the changes of `store`.
    pub fn new(store: &'s dyn Store, regions: StagedRegions) -> Self {
        let StagedRegions { folders, ranges, deleted } = regions;
        let locate = |key: &String| store.location(key);
        CommitLocations {
            store,
            folders: folders.iter().map(locate).collect(),
            ranges: ranges.iter().map(locate).collect(),
            deleted: deleted.into_iter().map(|prefix| (prefix.clone(), store.location(&prefix))).collect(),
        }
    }

    /// Before the commit, store the buffered chunks of all arrays that it changes and does not
    /// delete.
    ///
    /// # Errors
    /// As for [`super::scope::store_below`].
    pub fn store_buffered(&self, interrupt: Option<Interrupt<'_>>) -> Result<()> {
        store_all(&arrays_where(|array| self.changes(array) && !self.deletes(array)), interrupt)
    }

    /// After the commit, discard the buffered chunks of all arrays under the prefixes that it has
    /// deleted, according to `is_deleted`.
    ///
    /// # Errors
    /// As for [`discard_below`].
    pub fn discard_deleted(&self, is_deleted: &(dyn Fn(&str) -> bool + Sync)) -> Result<()> {
        for (prefix, location) in self.deleted.iter().filter(|(prefix, _)| is_deleted(prefix)) {
            // The deletion of a symbolic link leaves the array at its target.
            if self.store.location(prefix) == *location {
                discard_below(location)?;
            }
        }
        Ok(())
    }

    fn changes(&self, array: &str) -> bool {
        let is_inside = |location: &String| location.starts_with(array);
        self.folders.iter().any(is_inside)
            || self.deleted.iter().any(|(_, location)| is_inside(location))
            || self.ranges.iter().any(|start| is_inside(start) || array.starts_with(start))
    }

    fn deletes(&self, array: &str) -> bool {
        self.deleted.iter().any(|(_, location)| array.starts_with(location))
    }
}
