//! The compiled array description: everything about an array except its chunks, checked once.
//!
//! All shapes and strides are in the order of the array's axes, at every level of sharding. A
//! transposition is therefore a choice of strides ([`Level::strides`]), and the one strided copy
//! applies it.

mod level;
mod plan;

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, RwLock};

use smallvec::SmallVec;

use crate::error::{Error, Result};
use crate::grid::DimGrid;
use crate::vlen::Handle;
use level::bind_chunk;

pub use level::{Body, Level, Shard};
pub use plan::{ArrayBytes, Cast, Chain, ChainProvider, ForeignKeys, Grid, KeyEncoding, Missing, Plan};

/// One value per axis; on the stack up to six axes.
pub type PerAxis<T> = SmallVec<[T; 6]>;

/// A compiled array.
pub struct Array {
    /// The shape of the array.
    pub shape: PerAxis<u64>,
    /// The division of each axis into chunks.
    pub dim_grids: PerAxis<DimGrid>,
    /// The size of one item in bytes.
    pub item_bytes: usize,
    /// The engine rejects bytes other than 0 and 1.
    pub is_bool: bool,
    /// One item, in the byte order of the caller's buffers.
    pub fill: Vec<u8>,
    /// The element that `fill` points to, if items are handles.
    pub fill_element: Option<Arc<[u8]>>,
    /// The chunk key encoding.
    pub keys: KeyEncoding,
    /// Chunks that equal the fill value are stored.
    pub store_fill: bool,
    /// The result of reading a missing chunk.
    pub missing: Missing,
    /// The conversion that reads perform; None: they deliver stored elements.
    pub cast: Option<Cast>,
    levels: Levels,
}

/// The outermost levels: one per chunk shape.
#[derive(Clone)]
enum Levels {
    One(Arc<Level>),
    Many(Arc<Rectilinear>),
}

struct Rectilinear {
    chains: Arc<dyn ChainProvider>,
    /// The level of each chunk shape, bound on first use.
    levels: RwLock<HashMap<PerAxis<u64>, Arc<Level>>>,
}

/// The maximum number of bound levels; a grid may have any number of chunk shapes.
const MAX_LEVELS: usize = 1024;

/// The level of a chunk.
pub enum LevelRef<'a> {
    /// The level of all chunks.
    One(&'a Level),
    /// The level of chunks of this shape.
    Shared(Arc<Level>),
}

impl Deref for LevelRef<'_> {
    type Target = Level;

    fn deref(&self) -> &Level {
        match self {
            LevelRef::One(level) => level,
            LevelRef::Shared(level) => level,
        }
    }
}

/// One item of the fill value, and the element that it points to if items are handles.
type Fill = (Vec<u8>, Option<Arc<[u8]>>);

fn fill_item(fill: Vec<u8>, is_vlen: bool, item_bytes: usize) -> Result<Fill> {
    let (fill, element) = if is_vlen {
        let element: Arc<[u8]> = fill.into();
        (Handle::of(&element).to_item().to_vec(), Some(element))
    } else {
        (fill, None)
    };
    if item_bytes == 0 || fill.len() != item_bytes {
        return Err(Error::argument(format!(
            "the fill value has {} bytes, an item {item_bytes}",
            fill.len()
        )));
    }
    Ok((fill, element))
}

fn check_shape(shape: &[u64]) -> Result<()> {
    match shape.iter().any(|&size| size > i64::MAX as u64) {
        true => Err(Error::argument("the array's shape exceeds 2^63 - 1")),
        false => Ok(()),
    }
}

impl Array {
    /// Return whether chunks are shards.
    pub fn is_sharded(&self) -> bool {
        matches!(&self.levels, Levels::One(level) if matches!(level.body, Body::Shard(_)))
    }

    /// Return whether the engine encodes, decodes and names chunks without calling Python.
    pub fn is_native(&self) -> bool {
        self.has_numbered_keys() && matches!(&self.levels, Levels::One(level) if level.is_native())
    }

    /// Check `plan` and bind its codecs to shapes.
    pub fn compile(plan: Plan) -> Result<Array> {
        let rank = plan.shape.len();
        let (fill, fill_element) = fill_item(plan.fill, plan.is_vlen, plan.item_bytes)?;
        if plan.is_bool && plan.item_bytes != 1 {
            return Err(Error::argument(format!("booleans must have 1 byte, not {}", plan.item_bytes)));
        }
        plan.cast.iter().try_for_each(|cast| cast.check(plan.item_bytes))?;
        check_shape(&plan.shape)?;
        let (dim_grids, levels): (PerAxis<DimGrid>, Levels) = match plan.grid {
            Grid::Regular { chunk_shape, chain } => {
                let level = bind_chunk(chain, &chunk_shape, plan.item_bytes, &fill, plan.is_vlen)?;
                (chunk_shape.into_iter().map(DimGrid::Regular).collect(), Levels::One(Arc::new(level)))
            }
            Grid::Rectilinear { dim_grids, chains } => {
                (dim_grids.into(), Levels::Many(Arc::new(Rectilinear { chains, levels: RwLock::default() })))
            }
        };
        if dim_grids.len() != rank {
            return Err(Error::argument(format!(
                "the grid has {} axes, the array has {rank}",
                dim_grids.len()
            )));
        }
        Ok(Array {
            shape: plan.shape.into(),
            dim_grids,
            item_bytes: plan.item_bytes,
            is_bool: plan.is_bool,
            fill,
            fill_element,
            keys: plan.keys,
            store_fill: plan.store_fill,
            missing: plan.missing,
            cast: plan.cast,
            levels,
        })
    }

    /// Return a copy of the array with another shape of the same rank, the same grid and the same
    /// codecs.
    pub fn with_shape(&self, shape: &[u64]) -> Result<Array> {
        check_shape(shape)?;
        if shape.len() != self.dim_grids.len() {
            return Err(Error::argument(format!(
                "the grid has {} axes, the array has {}",
                self.dim_grids.len(),
                shape.len()
            )));
        }
        Ok(Array {
            shape: shape.into(),
            dim_grids: self.dim_grids.clone(),
            fill: self.fill.clone(),
            // The same element: the levels point to it, too.
            fill_element: self.fill_element.clone(),
            keys: self.keys.clone(),
            cast: self.cast.clone(),
            levels: self.levels.clone(),
            ..*self
        })
    }

    /// Return whether both descriptions differ at most in the shape: one comes from the other by
    /// [`Array::with_shape`].
    pub fn has_same_chunks(&self, other: &Array) -> bool {
        match (&self.levels, &other.levels) {
            (Levels::One(level), Levels::One(other)) => Arc::ptr_eq(level, other),
            (Levels::Many(levels), Levels::Many(others)) => Arc::ptr_eq(levels, others),
            _ => false,
        }
    }

    /// Return the fill value as an item of the caller's buffers.
    pub fn delivered_fill(&self) -> &[u8] {
        self.cast.as_ref().map_or(&self.fill, |cast| &cast.fill)
    }

    /// Return the level of a chunk of `shape`, a chunk shape of the grid.
    pub fn level(&self, shape: &[u64]) -> Result<LevelRef<'_>> {
        let Rectilinear { chains, levels: bound } = match &self.levels {
            Levels::One(level) => return Ok(LevelRef::One(level)),
            Levels::Many(varying) => &**varying,
        };
        // Do not wait for the lock: in a forked child it may stay locked.
        if let Some(level) = bound.try_read().ok().and_then(|bound| bound.get(shape).cloned()) {
            return Ok(LevelRef::Shared(level));
        }
        // No lock is locked here: the chain may come from Python, whose lock another thread may
        // wait for.
        let level = Arc::new(bind_chunk(
            chains.chain(shape)?,
            shape,
            self.item_bytes,
            &self.fill,
            self.fill_element.is_some(),
        )?);
        let Ok(mut bound) = bound.try_write() else { return Ok(LevelRef::Shared(level)) };
        if bound.len() >= MAX_LEVELS {
            bound.clear();
        }
        // The first level stays: a level has an identity.
        Ok(LevelRef::Shared(bound.entry(shape.into()).or_insert(level).clone()))
    }

    /// Write the key of chunk `cell` below `prefix` to `key`.
    pub fn format_key(&self, prefix: &str, cell: &[u64], key: &mut String) -> Result<()> {
        key.clear();
        key.push_str(prefix);
        self.keys.push_key(cell, key)
    }

    /// Return whether keys consist of chunk numbers.
    pub fn has_numbered_keys(&self) -> bool {
        matches!(self.keys, KeyEncoding::Numbers { .. })
    }

    /// Return the chunk with `key`; None if no chunk has it, or keys do not consist of numbers.
    pub fn cell_of_key(&self, prefix: &str, key: &str) -> Option<PerAxis<u64>> {
        self.keys.cell_of_key(key.strip_prefix(prefix)?, self.dim_grids.len())
    }
}
