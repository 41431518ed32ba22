//! Random arrays and selections, written and read, compared with a plain buffer.
#![allow(clippy::unwrap_used, clippy::panic, clippy::undocumented_unsafe_blocks)]

use std::sync::Arc;

use proptest::prelude::*;
use tessarr_engine::array::{Array, ArrayBytes, Chain, ChainProvider, Grid, KeyEncoding, Missing, Plan};
use tessarr_engine::codec::chain::BytesCodecs;
use tessarr_engine::codec::{Config, Foreign, ForeignCodec, Sink};
use tessarr_engine::grid::DimGrid;
use tessarr_engine::pipeline::operation::Operation;
use tessarr_engine::selection::{Request, Selection};
use tessarr_engine::store::{MemoryStore, Store};
use tessarr_engine::vlen::{self, Handle, HANDLE_BYTES};
use tessarr_engine::{read, write, Result};

/// One axis of a random selection.
#[derive(Clone, Debug)]
enum Along {
    Range(i64, i64, usize),
    List(Vec<i64>),
}

impl Along {
    fn indices(&self) -> Vec<i64> {
        match self {
            Along::Range(start, step, count) => (0..*count as i64).map(|n| start + step * n).collect(),
            Along::List(indices) => indices.clone(),
        }
    }
}

/// A codec that stores the bytes of a chunk in reverse order, and one more.
struct Reverse;

impl ForeignCodec for Reverse {
    fn name(&self) -> &str {
        "backwards"
    }

    fn encode(&self, input: &[u8], take: Sink<'_>) -> Result<()> {
        take(&input.iter().rev().chain([&0xee]).copied().collect::<Vec<_>>())
    }

    fn decode(&self, input: &[u8], most: usize, take: Sink<'_>) -> Result<()> {
        assert_eq!(most, input.len() - 1);
        take(&input.iter().rev().skip(1).copied().collect::<Vec<_>>())
    }
}

#[derive(Clone, Debug)]
struct Case {
    shape: Vec<u64>,
    chunk: Vec<u64>,
    /// Runs of chunk lengths per axis; None for one chunk shape.
    runs: Option<Vec<Vec<(u64, u64)>>>,
    /// The subchunk counts per axis of each level of sharding.
    shards: Vec<Vec<u64>>,
    orders: Vec<Option<Vec<usize>>>,
    swap: bool,
    codec: u8,
    outer_codec: bool,
    at_start: bool,
    store_fill: bool,
    /// Elements have variable length.
    vlen: bool,
    /// The array-to-bytes codec is a foreign one.
    foreign: bool,
    selections: Vec<Vec<Along>>,
    points: Vec<Vec<u64>>,
}

fn along(size: u64) -> impl Strategy<Value = Along> {
    let size = size as i64;
    let range = (0..size, prop_oneof![1..4i64, -3..0i64], 0..6usize).prop_map(move |(start, step, count)| {
        let room = if step > 0 { (size - 1 - start) / step } else { start / -step };
        Along::Range(start, step, count.min(room as usize + 1))
    });
    let whole = Just(Along::Range(0, 1, size as usize));
    prop_oneof![2 => range, 2 => whole, 1 => prop::collection::vec(0..size, 0..6).prop_map(Along::List)]
}

fn permutation(rank: usize) -> impl Strategy<Value = Option<Vec<usize>>> {
    prop::option::of(Just((0..rank).collect::<Vec<_>>()).prop_shuffle())
}

fn case() -> impl Strategy<Value = Case> {
    (0..4usize).prop_flat_map(|rank| {
        let dims = prop::collection::vec(1..9u64, rank);
        let leaf = prop::collection::vec(1..4u64, rank);
        let shards = prop::collection::vec(prop::collection::vec(1..3u64, rank), 0..3);
        (dims, leaf, shards).prop_flat_map(move |(shape, leaf, shards)| {
            let chunk: Vec<u64> = (0..rank)
                .map(|axis| shards.iter().fold(leaf[axis], |size, counts| size * counts[axis]))
                .collect();
            let selection = shape.iter().map(|&size| along(size)).collect::<Vec<_>>();
            let points = shape.iter().map(|&size| 0..size).collect::<Vec<_>>();
            let runs = prop::collection::vec(prop::collection::vec((1..5u64, 1..3u64), 1..4), rank);
            (
                prop::collection::vec(permutation(rank), shards.len() + 1),
                any::<bool>(),
                0..6u8,
                any::<bool>(),
                any::<bool>(),
                (any::<bool>(), 0..10u8, prop::option::weighted(0.4, runs)),
                prop::collection::vec(selection, 1..5),
                prop::collection::vec(points, 0..12),
            )
                .prop_map(
                    move |(
                        orders,
                        swap,
                        codec,
                        outer_codec,
                        at_start,
                        (store_fill, elements, runs),
                        selections,
                        points,
                    )| Case {
                        shape: shape.clone(),
                        chunk: chunk.clone(),
                        runs,
                        shards: shards.clone(),
                        orders,
                        swap,
                        codec,
                        outer_codec,
                        at_start,
                        store_fill,
                        vlen: elements < 3,
                        foreign: elements > 7,
                        selections,
                        points,
                    },
                )
        })
    })
}

fn bytes_codecs(codec: u8) -> BytesCodecs {
    let specs = match codec {
        0 => vec![],
        1 => vec![Config::new("zstd").with("level", 1).with("checksum", true)],
        2 => vec![Config::new("crc32c").with("at_start", false)],
        3 => vec![Config::new("gzip").with("level", 1), Config::new("crc32c").with("at_start", false)],
        4 => vec![Config::new("crc32c").with("at_start", false), Config::new("lz4").with("acceleration", 1)],
        _ => vec![Config::new("blosc")
            .with("cname", "lz4")
            .with("clevel", 5)
            .with("shuffle", 1)
            .with("typesize", 2)
            .with("blocksize", 0)],
    };
    BytesCodecs::new(specs.into_iter().map(|spec| spec.compile().unwrap()).collect())
}

/// The codec chain of a case: `size` is the shape of its chunk in its own axis order.
fn chain(case: &Case, depth: usize, size: &[u64]) -> Chain {
    let order = case.orders[depth].clone();
    let encoded: Vec<u64> = match &order {
        None => size.to_vec(),
        Some(order) => order.iter().map(|&axis| size[axis]).collect(),
    };
    let bytes = |codec| Chain {
        order: None,
        array_bytes: ArrayBytes::Bytes { swap: if case.swap { 8 } else { 0 } },
        bytes_codecs: bytes_codecs(codec),
    };
    if depth == case.shards.len() {
        let array_bytes = match case.foreign {
            _ if case.vlen => ArrayBytes::Vlen(vlen::Kind { is_text: true, unit_bytes: 1 }),
            true => ArrayBytes::Foreign(Foreign::new(Arc::new(Reverse))),
            false => ArrayBytes::Bytes { swap: if case.swap { 2 } else { 0 } },
        };
        return Chain { order, array_bytes, bytes_codecs: bytes_codecs(case.codec) };
    }
    // Any divisor of the encoded size is valid.
    let inner: Vec<u64> = encoded.iter().map(|&size| if size % 2 == 0 { size / 2 } else { size }).collect();
    Chain {
        order,
        array_bytes: ArrayBytes::Sharding {
            chain: Box::new(chain(case, depth + 1, &inner)),
            subchunk_shape: inner,
            index_chain: Box::new(bytes(2)),
            index_at_start: case.at_start,
        },
        bytes_codecs: bytes_codecs(if case.outer_codec { 3 } else { 0 }),
    }
}

/// Codecs that depend on the shape of the chunk.
struct ByShape(Case);

impl ChainProvider for ByShape {
    fn chain(&self, shape: &[u64]) -> Result<Chain> {
        Ok(chain(&self.0, 0, shape))
    }
}

/// The grid of a case, and its number of chunks.
fn grid(case: &Case) -> (Grid, u64) {
    let Some(runs) = &case.runs else {
        let counts = case.shape.iter().zip(&case.chunk).map(|(size, chunk)| size.div_ceil(*chunk));
        let chain = chain(case, 0, &case.chunk);
        return (Grid::Regular { chunk_shape: case.chunk.clone(), chain }, counts.product());
    };
    let dim_grids: Vec<DimGrid> = runs.iter().map(|lengths| DimGrid::new(lengths).unwrap()).collect();
    let counts = case.shape.iter().zip(&dim_grids).map(|(size, dim_grids)| dim_grids.cell_of(size - 1) + 1);
    let chunks = counts.product();
    (Grid::Rectilinear { dim_grids, chains: Arc::new(ByShape(case.clone())) }, chunks)
}

/// The content of an item: a number, or a text.
#[derive(Clone, Copy)]
struct Items {
    vlen: bool,
}

impl Items {
    fn bytes(self) -> isize {
        if self.vlen {
            HANDLE_BYTES as isize
        } else {
            2
        }
    }

    fn element(self, value: u16) -> Vec<u8> {
        if !self.vlen {
            return value.to_ne_bytes().to_vec();
        }
        let mut text = value.to_string().into_bytes();
        text.resize(text.len() + usize::from(value % 7), b'.');
        text
    }

    fn write(self, operation: Operation<'_>, selection: &Selection, values: &[u16]) {
        let elements: Vec<Vec<u8>> = values.iter().map(|&value| self.element(value)).collect();
        let items: Vec<u8> = match self.vlen {
            true => elements.iter().flat_map(|element| Handle::of(element).to_item()).collect(),
            false => elements.concat(),
        };
        unsafe { write::write(operation, selection, items.as_ptr()) }.unwrap();
    }

    fn read(self, operation: Operation<'_>, selection: &Selection, count: usize) -> Vec<u16> {
        let mut items = vec![0u8; count * self.bytes() as usize];
        let arena = unsafe { read::read(operation, selection, items.as_mut_ptr()) }.unwrap();
        if !self.vlen {
            return items.chunks(2).map(|item| u16::from_ne_bytes(item.try_into().unwrap())).collect();
        }
        let value = |handle: Handle| {
            let text = std::str::from_utf8(unsafe { handle.bytes() }).unwrap();
            let value = text.trim_end_matches('.').parse().unwrap();
            assert_eq!(text.as_bytes(), self.element(value));
            value
        };
        let values = vlen::handles(&items).map(value).collect();
        drop(arena);
        values
    }
}

fn strides(shape: &[usize], items: Items) -> Vec<isize> {
    let mut strides = vec![items.bytes(); shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis] as isize;
    }
    strides
}

fn requests<'a>(along: &'a [Along], strides: &[isize]) -> Vec<Request<'a>> {
    let each = along.iter().zip(strides).map(|(along, &stride)| match along {
        Along::Range(start, step, count) => {
            Request::Range { start: *start, step: *step, count: *count, stride }
        }
        Along::List(indices) => Request::List { indices, stride },
    });
    each.collect()
}

/// The C-order positions in the model of every selected element, in C order of the selection.
fn positions(shape: &[u64], along: &[Vec<i64>]) -> Vec<usize> {
    along.iter().zip(shape).fold(vec![0], |outer, (indices, &size)| {
        outer
            .iter()
            .flat_map(|base| indices.iter().map(move |index| base * size as usize + *index as usize))
            .collect()
    })
}

fn run(case: &Case) {
    let (grid, chunks) = grid(case);
    let items = Items { vlen: case.vlen };
    let array = Array::compile(Plan {
        shape: case.shape.clone(),
        grid,
        item_bytes: items.bytes() as usize,
        is_bool: false,
        is_vlen: case.vlen,
        fill: items.element(7),
        keys: KeyEncoding::Numbers { with_c: case.at_start, separator: '/' },
        store_fill: case.store_fill,
        missing: Missing::Fill,
        cast: None,
    })
    .unwrap();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let operation = Operation::new(&array, &*store, "a/");
    let total: usize = case.shape.iter().product::<u64>() as usize;
    let mut model = vec![7u16; total];
    let mut next = 100u16;
    for along in &case.selections {
        let indices: Vec<Vec<i64>> = along.iter().map(Along::indices).collect();
        let shape: Vec<usize> = indices.iter().map(Vec::len).collect();
        let count: usize = shape.iter().product();
        let values: Vec<u16> = (0..count).map(|_| if next % 5 == 0 { 7 } else { next } + { next += 1; 0 }).collect();
        let selection = Selection::new(&requests(along, &strides(&shape, items)), &case.shape).unwrap();
        items.write(operation, &selection, &values);
        for (&position, &value) in positions(&case.shape, &indices).iter().zip(&values) {
            model[position] = value;
        }
    }
    for along in &case.selections {
        let indices: Vec<Vec<i64>> = along.iter().map(Along::indices).collect();
        let shape: Vec<usize> = indices.iter().map(Vec::len).collect();
        let selection = Selection::new(&requests(along, &strides(&shape, items)), &case.shape).unwrap();
        let out = items.read(operation, &selection, shape.iter().product());
        let expected: Vec<u16> = positions(&case.shape, &indices).iter().map(|&at| model[at]).collect();
        assert_eq!(out, expected, "{along:?}");
    }
    if !case.shape.is_empty() {
        let columns: Vec<Vec<i64>> = (0..case.shape.len())
            .map(|axis| case.points.iter().map(|point| point[axis] as i64).collect())
            .collect();
        let joint: Vec<Request<'_>> =
            columns.iter().map(|indices| Request::Joint { indices, stride: items.bytes() }).collect();
        let selection = Selection::new(&joint, &case.shape).unwrap();
        let out = items.read(operation, &selection, case.points.len());
        let at = |point: &Vec<u64>| {
            point.iter().zip(&case.shape).fold(0, |at, (index, size)| at * size + index) as usize
        };
        let expected: Vec<u16> = case.points.iter().map(|point| model[at(point)]).collect();
        assert_eq!(out, expected);
        let values: Vec<u16> = (0..case.points.len() as u16).map(|value| value + 3000).collect();
        items.write(operation, &selection, &values);
        for (point, &value) in case.points.iter().zip(&values) {
            model[at(point)] = value;
        }
    }
    let all: Vec<Along> = case.shape.iter().map(|&size| Along::Range(0, 1, size as usize)).collect();
    let shape: Vec<usize> = case.shape.iter().map(|&size| size as usize).collect();
    let selection = Selection::new(&requests(&all, &strides(&shape, items)), &case.shape).unwrap();
    assert_eq!(items.read(operation, &selection, total), model);
    let stored = store.list("a/").unwrap();
    let fill = vec![7u16; total];
    items.write(operation, &selection, &fill);
    assert_eq!(items.read(operation, &selection, total), fill);
    let left = store.list("a/").unwrap().len() as u64;
    assert_eq!(left, if case.store_fill { chunks } else { 0 }, "before: {stored:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn written_elements_are_read_back(case in case()) {
        run(&case);
    }
}

#[test]
fn resized_array_preserves_fill_elements() {
    let chain = Chain {
        order: None,
        array_bytes: ArrayBytes::Vlen(vlen::Kind { is_text: true, unit_bytes: 1 }),
        bytes_codecs: BytesCodecs::default(),
    };
    let array = Array::compile(Plan {
        shape: vec![8],
        grid: Grid::Regular { chunk_shape: vec![4], chain },
        item_bytes: HANDLE_BYTES,
        is_bool: false,
        is_vlen: true,
        fill: b"fill".to_vec(),
        keys: KeyEncoding::Numbers { with_c: true, separator: '/' },
        store_fill: false,
        missing: Missing::Fill,
        cast: None,
    })
    .unwrap();
    let resized = array.with_shape(&[12]).unwrap();
    drop(array);
    let element = resized.fill_element.as_deref().unwrap();
    assert_eq!(resized.fill, Handle::of(element).to_item());
    assert_eq!(resized.level(&[4]).unwrap().stored_fill, resized.fill);
}
