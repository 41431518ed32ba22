//! The compiled array description: everything about an array that its chunks
//! do not say, checked once, so that the work on a chunk only looks things up.
//!
//! All shapes and strides are in the order of the array's axes, at every level
//! of sharding. Transposition is therefore no step of its own: it is a choice
//! of strides ([`Level::strides`]), and the one strided copy does the rest.

mod level;
mod plan;

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, RwLock};

use smallvec::SmallVec;

use crate::error::{Error, Kind, Result};
use crate::grid::DimGrid;
use crate::vlen::Handle;
use level::bind_chunk;

pub use level::{Body, Level, Shard};
pub use plan::{ArrayBytes, Chain, Chains, ForeignKeys, Grid, KeyEncoding, Missing, Plan};

/// One value per axis; on the stack for every rank that people use.
pub type PerAxis<T> = SmallVec<[T; 6]>;

/// A compiled array.
pub struct Array {
    /// The array's shape.
    pub shape: PerAxis<u64>,
    /// How each axis is cut into chunks.
    pub dim_grids: PerAxis<DimGrid>,
    /// Bytes of one item.
    pub item_bytes: usize,
    /// Bytes other than 0 and 1 are refused.
    pub is_bool: bool,
    /// One item, in the byte order of the caller's buffers.
    pub fill: Vec<u8>,
    /// Where items are handles, the element that `fill` points to.
    pub fill_element: Option<Arc<[u8]>>,
    /// Chunk keys.
    pub keys: KeyEncoding,
    /// Store chunks that are all fill.
    pub store_fill: bool,
    /// What is read where nothing is stored.
    pub missing: Missing,
    levels: Levels,
}

/// The outermost levels: one per shape of a chunk.
#[derive(Clone)]
enum Levels {
    One(Arc<Level>),
    Many(Arc<Varying>),
}

impl Levels {
    /// The same for another fill value.
    fn refilled(&self, fill: &[u8]) -> Levels {
        match self {
            Levels::One(level) => {
                let mut level = Level::clone(level);
                level.refill(fill);
                Levels::One(Arc::new(level))
            }
            Levels::Many(varying) => {
                Levels::Many(Arc::new(Varying { chains: varying.chains.clone(), bound: RwLock::default() }))
            }
        }
    }
}

struct Varying {
    chains: Arc<dyn Chains>,
    /// Bound when a chunk of the shape is first met.
    bound: RwLock<HashMap<PerAxis<u64>, Arc<Level>>>,
}

/// Levels of so many shapes are kept; a grid may have any number of them.
const KEPT_LEVELS: usize = 1024;

/// The level of a chunk.
pub enum LevelRef<'a> {
    /// Of all chunks.
    One(&'a Level),
    /// Of chunks of this shape.
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

fn bad(message: impl Into<String>) -> Error {
    Error::new(Kind::Argument, message)
}

/// One item of the fill value, and where items are handles the element that it points to.
type Fill = (Vec<u8>, Option<Arc<[u8]>>);

fn fill_of(fill: Vec<u8>, is_vlen: bool, item_bytes: usize) -> Result<Fill> {
    let (fill, element) = if is_vlen {
        let element: Arc<[u8]> = fill.into();
        (Handle::of(&element).to_item().to_vec(), Some(element))
    } else {
        (fill, None)
    };
    if item_bytes == 0 || fill.len() != item_bytes {
        return Err(bad(format!("the fill value has {} bytes, an item {item_bytes}", fill.len())));
    }
    Ok((fill, element))
}

fn check_shape(shape: &[u64]) -> Result<()> {
    match shape.iter().any(|&size| size > i64::MAX as u64) {
        true => Err(bad("the array's shape exceeds 2^63 - 1")),
        false => Ok(()),
    }
}

impl Array {
    /// Whether chunks are shards, which hold smaller ones.
    pub fn is_sharded(&self) -> bool {
        matches!(&self.levels, Levels::One(level) if matches!(level.body, Body::Shard(_)))
    }

    /// Whether chunks are encoded, decoded and named without asking anybody.
    pub fn is_native(&self) -> bool {
        self.has_numbered_keys() && matches!(&self.levels, Levels::One(level) if level.is_native())
    }

    /// Check `plan` and bind its codecs to shapes.
    pub fn compile(plan: Plan) -> Result<Array> {
        let rank = plan.shape.len();
        let (fill, fill_element) = fill_of(plan.fill, plan.is_vlen, plan.item_bytes)?;
        if plan.is_bool && plan.item_bytes != 1 {
            return Err(bad(format!("booleans of {} bytes", plan.item_bytes)));
        }
        check_shape(&plan.shape)?;
        let (dim_grids, levels): (PerAxis<DimGrid>, Levels) = match plan.grid {
            Grid::Regular { chunk_shape, chain } => {
                let level = bind_chunk(chain, &chunk_shape, plan.item_bytes, &fill, plan.is_vlen)?;
                (chunk_shape.into_iter().map(DimGrid::Regular).collect(), Levels::One(Arc::new(level)))
            }
            Grid::Varying { dim_grids, chains } => {
                (dim_grids.into(), Levels::Many(Arc::new(Varying { chains, bound: RwLock::default() })))
            }
        };
        if dim_grids.len() != rank {
            return Err(bad(format!("the grid has {} axes, the array has {rank}", dim_grids.len())));
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
            levels,
        })
    }

    /// The same array with another shape, as many axes, and another fill value, as [`Plan`] has it, if
    /// one is given; the grid and the codecs are the same.
    pub fn alike(&self, shape: &[u64], fill: Option<&[u8]>) -> Result<Array> {
        check_shape(shape)?;
        if shape.len() != self.dim_grids.len() {
            return Err(bad(format!(
                "the grid has {} axes, the array has {}",
                self.dim_grids.len(),
                shape.len()
            )));
        }
        let (fill, fill_element, levels) = match fill {
            // The very same: levels point to it, too.
            None => (self.fill.clone(), self.fill_element.clone(), self.levels.clone()),
            Some(fill) => {
                let (fill, element) = fill_of(fill.to_vec(), self.fill_element.is_some(), self.item_bytes)?;
                let levels = self.levels.refilled(&fill);
                (fill, element, levels)
            }
        };
        Ok(Array {
            shape: shape.into(),
            dim_grids: self.dim_grids.clone(),
            fill,
            fill_element,
            keys: self.keys.clone(),
            levels,
            ..*self
        })
    }

    /// The level of a chunk of `shape`, which is one of the grid's.
    pub fn level(&self, shape: &[u64]) -> Result<LevelRef<'_>> {
        let Varying { chains, bound } = match &self.levels {
            Levels::One(level) => return Ok(LevelRef::One(level)),
            Levels::Many(varying) => &**varying,
        };
        // Nobody waits for the map: in a forked child its lock may be held for ever.
        if let Some(level) = bound.try_read().ok().and_then(|bound| bound.get(shape).cloned()) {
            return Ok(LevelRef::Shared(level));
        }
        // No lock is held meanwhile: the chain may come from Python, which others may hold.
        let level = Arc::new(bind_chunk(
            chains.chain(shape)?,
            shape,
            self.item_bytes,
            &self.fill,
            self.fill_element.is_some(),
        )?);
        let Ok(mut bound) = bound.try_write() else { return Ok(LevelRef::Shared(level)) };
        if bound.len() >= KEPT_LEVELS {
            bound.clear();
        }
        // Who came first is kept: a level is known by its identity.
        Ok(LevelRef::Shared(bound.entry(shape.into()).or_insert(level).clone()))
    }

    /// Write the key of chunk `cell` below `prefix` to `key`.
    pub fn format_key(&self, prefix: &str, cell: &[u64], key: &mut String) -> Result<()> {
        key.clear();
        key.push_str(prefix);
        self.keys.push_key(cell, key)
    }

    /// Whether keys are made of the numbers of chunks.
    pub fn has_numbered_keys(&self) -> bool {
        matches!(self.keys, KeyEncoding::Numbers { .. })
    }

    /// The chunk that has `key`; None if none has, or keys are not made of numbers.
    pub fn cell_of_key(&self, prefix: &str, key: &str) -> Option<PerAxis<u64>> {
        self.keys.cell_of_key(key.strip_prefix(prefix)?, self.dim_grids.len())
    }
}
