//! Eviction: stores chunks when the memory of a block of buffered writes is full.

use std::sync::Arc;

use super::buffered_array::BufferedArray;
use super::buffered_chunk::{BufferedChunk, State};
use super::failures::Failures;
use super::memory::BufferMemory;
use crate::array::PerAxis;
use crate::error::Result;
use crate::grid;
use crate::pipeline::operation::Interrupt;

/// A chunk that may be stored to free memory.
struct Candidate {
    /// The number of its array.
    array: usize,
    cell: PerAxis<u64>,
    chunk: Arc<BufferedChunk>,
    is_full: bool,
    last_write: u64,
    bytes: usize,
}

/// Store chunks of `arrays` until `bytes` more bytes and a reserve have room in the memory, or no
/// chunk is left. Chunks with missing elements are stored only if `may_store_parts`.
///
/// A chunk that cannot be stored stays in memory, and others are stored instead. It is not tried
/// again here: the end of the block reports the error.
pub(super) fn make_room(
    memory: &BufferMemory,
    arrays: &[Arc<BufferedArray>],
    bytes: usize,
    may_store_parts: bool,
    interrupt: Option<Interrupt<'_>>,
) -> Result<()> {
    // Small steps would store few chunks at a time, and compare all of them each time.
    let reserve = memory.limit() / 8;
    let goal = memory.limit().saturating_sub(bytes).saturating_sub(reserve);
    let mut candidates = Vec::new();
    for (number, buffered) in arrays.iter().enumerate() {
        add_candidates(number, buffered, &mut candidates)?;
    }
    candidates.retain(|candidate| candidate.is_full || may_store_parts);
    candidates.sort_unstable_by_key(|candidate| (!candidate.is_full, candidate.last_write));
    let mut candidates = candidates.into_iter().peekable();
    while memory.used() > goal && candidates.peek().is_some() {
        let mut used = memory.used();
        let mut chosen: Vec<Vec<(PerAxis<u64>, Arc<BufferedChunk>)>> = vec![Vec::new(); arrays.len()];
        while let Some(candidate) = candidates.next_if(|_| used > goal) {
            used = used.saturating_sub(candidate.bytes);
            chosen[candidate.array].push((candidate.cell, candidate.chunk));
        }
        for (buffered, chunks) in arrays.iter().zip(&chosen) {
            buffered.store_chunks(chunks, interrupt, &Failures::default())?;
        }
    }
    Ok(())
}

fn add_candidates(number: usize, buffered: &BufferedArray, candidates: &mut Vec<Candidate>) -> Result<()> {
    let array = &buffered.access.array;
    for (cell, chunk) in buffered.buffer.matching(|_| true) {
        if chunk.has_failed() {
            continue;
        }
        let level = array.level(&grid::bounds(&array.dim_grids, &cell).1)?;
        let measure = |state: &mut State| match state {
            State::Some(charged) => Some((charged.node.is_full(&level), charged.charge.bytes())),
            State::Empty | State::Storing(..) | State::Stored => None,
        };
        if let Some((is_full, bytes)) = chunk.with(measure) {
            let last_write = chunk.last_write();
            candidates.push(Candidate { array: number, cell, chunk, is_full, last_write, bytes });
        }
    }
    Ok(())
}
