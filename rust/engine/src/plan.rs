//! What several reads are going to want of the same chunks, so that they ask for it together.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use crate::array::{Body, PerAxis};
use crate::error::Result;
use crate::operation::{Chunk, Operation};
use crate::selection::Selection;
use crate::store::fork;

/// A read that touches more subchunks of a shard asks for many of them at a time by itself.
const MANY: usize = 1024;

/// What reads that begin later are going to want, by key.
#[derive(Default)]
pub struct Plan(Mutex<HashMap<String, Arc<Wanted>>>);

/// What is wanted of one chunk or shard.
#[derive(Clone, Default)]
pub struct Wanted {
    reads: usize,
    /// Numbers in the index of the shard.
    pub subchunks: BTreeSet<usize>,
}

impl Plan {
    /// Notes what a read of `selection` touches.
    pub fn add(&self, operation: Operation<'_>, selection: &Selection) -> Result<()> {
        fork::register();
        operation.each_chunk(selection, 0, &|chunk, _| match touched(chunk)? {
            None => Ok(()),
            Some(numbers) => {
                let _gate = fork::gate();
                let mut keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                let wanted = Arc::make_mut(keys.entry(chunk.key.to_owned()).or_default());
                wanted.reads += 1;
                wanted.subchunks.extend(numbers);
                Ok(())
            }
        })
    }

    /// What is wanted of the chunk at `key`, if several reads want something of it.
    pub fn of(&self, key: &str) -> Option<Arc<Wanted>> {
        let _gate = fork::gate();
        let keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        keys.get(key).filter(|wanted| wanted.reads > 1).cloned()
    }
}

/// The subchunks of a shard that are touched, by their numbers; None: too many.
fn touched(chunk: &Chunk<'_, '_>) -> Result<Option<Vec<usize>>> {
    let Body::Shard(shard) = &chunk.portion.level.body else { return Ok(Some(Vec::new())) };
    let division = chunk.portion.divide(&shard.cuts)?;
    let mut cell = PerAxis::new();
    let mut number = |task| {
        division.task(task, &mut cell);
        shard.number(&cell)
    };
    Ok((division.tasks() <= MANY).then(|| (0..division.tasks()).map(&mut number).collect()))
}
