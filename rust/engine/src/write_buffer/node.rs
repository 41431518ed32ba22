//! Nodes of the write buffer: chunks, shards and their subchunks.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::chunk::{ElementChunk, Target};
use super::lock;
use super::memory::Charge;
use crate::array::{Array, Body, Level, PerAxis, Shard};
use crate::error::{Error, Result};
use crate::pipeline::operation::{origin_of, BufferPtr, Executor, Portion};
use crate::scratch::Scratch;
use crate::write::{NewElements, NewSubchunks, SubchunkWork, TouchedSubchunk, Writer};

/// The buffered elements of a chunk, shard or subchunk.
pub(super) enum Node {
    ElementChunk(ElementChunk),
    Shard(Subchunks),
}

/// How much of a portion is buffered.
pub(super) enum Coverage {
    /// Everything.
    All,
    /// For a shard: at least the subchunks with these sorted numbers, completely.
    Some(Vec<usize>),
}

/// The buffered subchunks of a shard.
#[derive(Default)]
pub(super) struct Subchunks {
    /// Nodes by their numbers in the index, with their cells.
    nodes: BTreeMap<usize, (PerAxis<u64>, Node)>,
}

impl Node {
    pub(super) fn of(level: &Level) -> Node {
        if let Body::Shard(_) = level.body {
            return Node::Shard(Subchunks::default());
        }
        Node::ElementChunk(ElementChunk::default())
    }

    /// Return the number of bytes of elements.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Node::ElementChunk(element_chunk) => element_chunk.bytes(),
            Node::Shard(shard) => shard.nodes.values().map(|(_, node)| node.bytes()).sum(),
        }
    }

    /// Return the number of bytes of elements that `portion` touches and `node` lacks.
    pub(super) fn missing_bytes(node: Option<&Node>, portion: &Portion<'_, '_>) -> Result<usize> {
        let Body::Shard(shard) = &portion.level.body else {
            let is_allocated = matches!(node, Some(Node::ElementChunk(chunk)) if chunk.is_allocated());
            return Ok(if is_allocated { 0 } else { portion.level.decoded_bytes });
        };
        let division = portion.divide(&shard.dim_grids)?;
        let (mut cell, mut bytes) = (PerAxis::new(), 0);
        for task in 0..division.tasks() {
            let piece = &division.task(task, &mut cell);
            let subchunk = match node {
                Some(Node::Shard(subchunks)) => subchunks.nodes.get(&shard.entry_number(&cell)),
                _ => None,
            };
            let origin = &origin_of(portion.origin, &cell, &shard.level.shape);
            let portion = Portion { level: &shard.level, piece, origin };
            bytes += Node::missing_bytes(subchunk.map(|(_, node)| node), &portion)?;
        }
        Ok(bytes)
    }

    /// Buffer the elements of `portion`, and add the new memory to `charge`.
    ///
    /// # Safety
    /// As for [`write::write`], for the elements of the portion.
    pub(super) unsafe fn put(
        &mut self,
        portion: &Portion<'_, '_>,
        value: BufferPtr,
        array: &Array,
        spread: bool,
        charge: &Charge,
    ) -> Result<()> {
        let (nodes, shard) = match (self, &portion.level.body) {
            (Node::ElementChunk(chunk), _) => {
                // SAFETY: guaranteed by the caller.
                return unsafe { chunk.put(portion, value, array, charge) };
            }
            (Node::Shard(nodes), Body::Shard(shard)) => (nodes, shard),
            (Node::Shard(_), _) => return Err(mismatch()),
        };
        nodes.each(portion, shard, true, spread, &|portion, node, _| {
            // SAFETY: guaranteed by the caller.
            unsafe { node.put(portion, value, array, false, charge) }
        })
    }

    /// Store the buffered elements of the chunk at `key`. They remain in the node.
    pub(super) fn store(
        &self,
        key: &str,
        level: &Level,
        origin: &[u64],
        writer: &Writer<'_>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        writer.chunk(key, &BufferedElements { node: self, level, origin }, scratch)
    }

    /// Return how much of `portion` is buffered.
    pub(super) fn covers(&self, portion: &Portion<'_, '_>) -> Result<Coverage> {
        let (nodes, shard) = match (self, &portion.level.body) {
            (Node::ElementChunk(element_chunk), _) if element_chunk.covers(portion) => {
                return Ok(Coverage::All)
            }
            (Node::ElementChunk(_), _) => return Ok(Coverage::Some(Vec::new())),
            (Node::Shard(nodes), Body::Shard(shard)) => (nodes, shard),
            (Node::Shard(_), _) => return Err(mismatch()),
        };
        let division = portion.divide(&shard.dim_grids)?;
        let (mut cell, mut coverage) = (PerAxis::new(), Vec::new());
        for task in 0..division.tasks() {
            let piece = &division.task(task, &mut cell);
            let number = shard.entry_number(&cell);
            let Some((_, node)) = nodes.nodes.get(&number) else { continue };
            let origin = &origin_of(portion.origin, &cell, &shard.level.shape);
            if let Coverage::All = node.covers(&Portion { level: &shard.level, piece, origin })? {
                coverage.push(number);
            }
        }
        if coverage.len() == division.tasks() {
            return Ok(Coverage::All);
        }
        coverage.sort_unstable();
        Ok(Coverage::Some(coverage))
    }

    /// Return whether every element is buffered, including those outside the array.
    pub(super) fn is_full(&self, level: &Level) -> bool {
        match (self, &level.body) {
            (Node::ElementChunk(element_chunk), _) => element_chunk.is_full(level),
            (Node::Shard(nodes), Body::Shard(shard)) => nodes.is_full(shard),
            (Node::Shard(_), _) => false,
        }
    }

    /// Copy the buffered elements of `portion` into the caller's buffer, and add new memory to
    /// `charge`.
    ///
    /// # Safety
    /// As for [`crate::read::read`], for the elements of the portion.
    pub(super) unsafe fn read(
        &mut self,
        portion: &Portion<'_, '_>,
        target: &Target<'_>,
        charge: &Charge,
        spread: bool,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let (nodes, shard) = match (self, &portion.level.body) {
            (Node::ElementChunk(chunk), _) => {
                // SAFETY: guaranteed by the caller.
                return unsafe { chunk.read(portion, target, charge, scratch) };
            }
            (Node::Shard(nodes), Body::Shard(shard)) => (nodes, shard),
            (Node::Shard(_), _) => return Err(mismatch()),
        };
        nodes.each(portion, shard, false, spread, &|portion, node, scratch| {
            // SAFETY: guaranteed by the caller.
            unsafe { node.read(portion, target, charge, false, scratch) }
        })
    }
}

fn mismatch() -> Error {
    Error::internal("a shard buffer exists for a chunk that is not a shard")
}

impl Subchunks {
    /// Return whether every element of every subchunk is buffered.
    fn is_full(&self, shard: &Shard) -> bool {
        self.nodes.len() == shard.entries && self.nodes.values().all(|(_, node)| node.is_full(&shard.level))
    }

    /// Run `work` with each subchunk that `portion` touches, and its node; `create` missing nodes,
    /// or skip these subchunks.
    fn each(
        &mut self,
        portion: &Portion<'_, '_>,
        shard: &Shard,
        create: bool,
        spread: bool,
        work: &(dyn Fn(&Portion<'_, '_>, &mut Node, &mut Scratch) -> Result<()> + Sync),
    ) -> Result<()> {
        let level = &shard.level;
        let division = portion.divide(&shard.dim_grids)?;
        let mut tasks: Vec<(usize, usize)> = Vec::new();
        let mut cell = PerAxis::new();
        for task in 0..division.tasks() {
            division.find_cell(task, &mut cell);
            let number = shard.entry_number(&cell);
            if create && !self.nodes.contains_key(&number) {
                self.nodes.insert(number, (cell.clone(), Node::of(level)));
            }
            tasks.push((number, task));
        }
        tasks.sort_unstable();
        let (Some(&(first, _)), Some(&(last, _))) = (tasks.first(), tasks.last()) else { return Ok(()) };
        let mut remaining = tasks.iter().peekable();
        let mut entries: Vec<(usize, Mutex<&mut Node>)> = Vec::new();
        for (number, (_, node)) in self.nodes.range_mut(first..=last) {
            while remaining.next_if(|(next, _)| next < number).is_some() {}
            if let Some((_, task)) = remaining.next_if(|(next, _)| next == number) {
                entries.push((*task, Mutex::new(node)));
            }
        }
        let run = Executor::choose_if(spread, entries.len(), level.decoded_bytes, 0);
        // Without interrupts: the chunk is locked, and the check may need it.
        run.each(entries.len(), None, &|index, scratch| {
            let (task, node) = &entries[index];
            let mut cell = PerAxis::new();
            let piece = &division.task(*task, &mut cell);
            let origin = &origin_of(portion.origin, &cell, &level.shape);
            work(&Portion { level, piece, origin }, &mut lock(node), scratch)
        })
    }
}

/// The buffered elements of a chunk as input of a write.
struct BufferedElements<'a, 'p> {
    node: &'a Node,
    level: &'p Level,
    origin: &'p [u64],
}

impl<'a> NewElements<'a> for BufferedElements<'a, '_> {
    fn level(&self) -> &Level {
        self.level
    }

    fn origin(&self) -> &[u64] {
        self.origin
    }

    /// Including elements outside the array: it may be larger now than at the time of the write.
    fn is_full(&self, _bounds: Option<&[u64]>) -> bool {
        self.node.is_full(self.level)
    }

    fn run(&self) -> Option<&'a [u8]> {
        match self.node {
            Node::ElementChunk(element_chunk) => element_chunk.all(self.level),
            Node::Shard(_) => None,
        }
    }

    fn put(&self, chunk: &mut [u8]) {
        if let Node::ElementChunk(element_chunk) = self.node {
            element_chunk.merge(self.level, chunk);
        }
    }

    fn subchunks<'n>(&'n self, shard: &'n Shard) -> Result<Box<dyn NewSubchunks<'a> + 'n>> {
        let Node::Shard(nodes) = self.node else { return Err(mismatch()) };
        Ok(Box::new(BufferedSubchunks { nodes: nodes.nodes.iter().collect(), shard, origin: self.origin }))
    }
}

/// The buffered subchunks of a shard.
struct BufferedSubchunks<'a, 'n> {
    nodes: Vec<(&'a usize, &'a (PerAxis<u64>, Node))>,
    shard: &'n Shard,
    origin: &'n [u64],
}

impl<'a> NewSubchunks<'a> for BufferedSubchunks<'a, '_> {
    fn touched(&self) -> Result<Vec<TouchedSubchunk>> {
        Ok(self
            .nodes
            .iter()
            .enumerate()
            .map(|(task, (&number, _))| TouchedSubchunk { number, task })
            .collect())
    }

    fn with(&self, task: usize, work: &mut SubchunkWork<'_, 'a>) -> Result<()> {
        let (_, (cell, node)) = self.nodes[task];
        let level = &self.shard.level;
        let origin = &origin_of(self.origin, cell, &level.shape);
        work(cell, &BufferedElements { node, level, origin })
    }
}
