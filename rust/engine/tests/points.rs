//! Reads and writes of points and masks, compared with a map from indices to values.
#![allow(clippy::unwrap_used, clippy::undocumented_unsafe_blocks)]

use std::collections::HashMap;
use std::sync::Arc;

use tessarr_engine::array::{self, Array, ArrayBytes, Chain, ChainProvider, Grid, KeyEncoding, Missing};
use tessarr_engine::codec::chain::BytesCodecs;
use tessarr_engine::grid::DimGrid;
use tessarr_engine::pipeline::operation::Operation;
use tessarr_engine::selection::{Request, Selection};
use tessarr_engine::store::{CountingStore, MemoryStore, Store};
use tessarr_engine::{read, write, Kind, Result};

const FILL: u32 = 7;

type Point = [i64; 2];

fn leaf() -> Chain {
    Chain {
        order: None,
        array_bytes: ArrayBytes::Bytes { swap: 0 },
        bytes_codecs: BytesCodecs::new(Vec::new()),
    }
}

fn shards_of(subchunk_shape: Point, inner: Chain) -> Chain {
    Chain {
        array_bytes: ArrayBytes::Sharding {
            subchunk_shape: subchunk_shape.map(|size| size as u64).to_vec(),
            chain: Box::new(inner),
            index_chain: Box::new(leaf()),
            index_at_start: false,
        },
        ..leaf()
    }
}

fn compile(shape: Point, grid: Grid) -> Array {
    Array::compile(array::Plan {
        shape: shape.map(|size| size as u64).to_vec(),
        grid,
        item_bytes: 4,
        is_bool: false,
        is_vlen: false,
        fill: FILL.to_ne_bytes().to_vec(),
        keys: KeyEncoding::Numbers { with_c: true, separator: '/' },
        store_fill: false,
        missing: Missing::Fill,
        cast: None,
    })
    .unwrap()
}

fn regular(chunk_shape: Point, chain: Chain) -> Grid {
    Grid::Regular { chunk_shape: chunk_shape.map(|size| size as u64).to_vec(), chain }
}

/// Codecs of chunks of any shape.
struct Leaves;

impl ChainProvider for Leaves {
    fn chain(&self, _: &[u64]) -> Result<Chain> {
        Ok(leaf())
    }
}

/// Pseudo-random numbers, the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: i64) -> i64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(self.0) * limit as u128) >> 64) as i64
    }

    fn points(&mut self, count: usize, shape: Point) -> Vec<Point> {
        (0..count).map(|_| shape.map(|size| self.below(size))).collect()
    }
}

fn points_selection(array: &Array, points: &[Point]) -> Selection {
    let columns = [0, 1].map(|axis| points.iter().map(|point| point[axis]).collect::<Vec<i64>>());
    let requests = [0, 1].map(|axis| Request::Joint { indices: &columns[axis], stride: 4 });
    Selection::new(&requests, &array.shape).unwrap()
}

fn write_values(operation: Operation<'_>, selection: &Selection, values: &[u32]) {
    unsafe { write::write(operation, selection, values.as_ptr().cast()) }.unwrap();
}

fn read_values(operation: Operation<'_>, selection: &Selection, count: usize) -> Vec<u32> {
    let mut values = vec![0u32; count];
    unsafe { read::read(operation, selection, values.as_mut_ptr().cast()) }.unwrap();
    values
}

/// Write two lists of points, and read both.
fn check_points(array: &Array, written: &[Point], other: &[Point]) {
    let store = MemoryStore::new();
    let operation = Operation::new(array, &store as &dyn Store, "");
    let mut model: HashMap<Point, u32> = HashMap::new();
    for (points, first) in [(written, 100), (other, 5_000_000)] {
        let values: Vec<u32> = (first..).take(points.len()).collect();
        write_values(operation, &points_selection(array, points), &values);
        model.extend(points.iter().copied().zip(values));
    }
    for points in [other, written] {
        let values = read_values(operation, &points_selection(array, points), points.len());
        let expected: Vec<u32> = points.iter().map(|point| model[point]).collect();
        assert_eq!(values, expected);
    }
}

#[test]
fn points_of_every_order_match_a_map() {
    let shape = [60, 70];
    let nested = || shards_of([5, 5], leaf());
    let grids = [
        regular([60, 70], leaf()),
        regular([7, 9], leaf()),
        regular([8, 16], leaf()),
        regular([1, 1], leaf()),
        regular([20, 35], nested()),
        regular([40, 20], shards_of([20, 10], nested())),
    ];
    for grid in grids {
        let array = compile(shape, grid);
        let mut random = Random(1);
        for count in [0, 1, 2, 50, 3000] {
            let points = random.points(count, shape);
            let other = random.points(count / 2, shape);
            check_points(&array, &points, &other);
            let (mut sorted, mut by_chunk) = (points.clone(), points.clone());
            sorted.sort_unstable();
            by_chunk.sort_by_key(|point| (point[1] / 9, -(point[0] / 7)));
            let one_chunk: Vec<Point> = points.iter().map(|point| [point[0] % 7, point[1] % 9]).collect();
            let repeated: Vec<Point> = points.iter().map(|point| [point[0] % 3, 0]).collect();
            for points in [sorted, by_chunk, one_chunk, repeated] {
                check_points(&array, &points, &other);
            }
        }
    }
}

#[test]
fn points_in_arrays_of_many_chunks_match_a_map() {
    // The numbers of the chunks and the points take 20, 50 or over 64 bits.
    for shape in [[1 << 5, 1 << 5], [1 << 20, 1 << 19], [1 << 40, 1 << 40]] {
        let array = compile(shape, regular([1, 1], leaf()));
        let mut random = Random(2);
        let points = random.points(2500, shape);
        let other: Vec<Point> =
            points.iter().rev().step_by(3).copied().chain(random.points(20, shape)).collect();
        check_points(&array, &points, &other);
    }
}

#[test]
fn dense_points_open_every_chunk_once() {
    let array = compile([60, 70], regular([20, 35], leaf()));
    let counted = CountingStore::new(Arc::new(MemoryStore::new()));
    let operation = Operation::new(&array, &counted, "");
    let points = Random(3).points(5000, [60, 70]);
    write_values(operation, &points_selection(&array, &points), &vec![1; points.len()]);
    let before = counted.counts().opens;
    read_values(operation, &points_selection(&array, &points), points.len());
    assert_eq!(counted.counts().opens - before, 6);
}

#[test]
fn lists_of_every_order_match_a_map() {
    let array = compile([5000, 4], regular([300, 3], leaf()));
    let mut random = Random(4);
    for count in [0, 1, 10, 2047, 2048, 9000] {
        let store = MemoryStore::new();
        let operation = Operation::new(&array, &store as &dyn Store, "");
        let indices: Vec<i64> = (0..count).map(|_| random.below(5000)).collect();
        let columns = Request::Range { start: 0, step: 1, count: 4, stride: 4 };
        let rows = Request::List { indices: &indices, stride: 16 };
        let selection = Selection::new(&[rows, columns], &array.shape).unwrap();
        let values: Vec<u32> = (100..100 + 4 * count).collect();
        write_values(operation, &selection, &values);
        let last: HashMap<i64, u32> = indices.iter().copied().zip(0..).collect();
        let expected: Vec<u32> =
            indices.iter().flat_map(|index| (0..4).map(|column| 100 + 4 * last[index] + column)).collect();
        assert_eq!(read_values(operation, &selection, values.len()), expected);
    }
}

/// The points of a mask.
fn true_points(mask: &[u8], width: i64) -> Vec<Point> {
    let numbers = (0..).zip(mask).filter(|(_, &value)| value != 0);
    numbers.map(|(number, _): (i64, _)| [number / width, number % width]).collect()
}

fn mask_selection(array: &Array, mask: &[u8]) -> Selection {
    let count = mask.iter().filter(|&&value| value != 0).count();
    let requests = [Request::Mask { values: mask, count, stride: 4 }, Request::Masked];
    Selection::new(&requests, &array.shape).unwrap()
}

#[test]
fn masks_equal_the_points_of_their_true_elements() {
    let dim_grids = [vec![(13, 2), (34, 1)], vec![(1, 3), (67, 1)]];
    let dim_grids = dim_grids.map(|lengths| DimGrid::new(&lengths).unwrap()).to_vec();
    let grids = [
        regular([60, 70], leaf()),
        regular([7, 9], leaf()),
        regular([8, 16], leaf()),
        regular([1, 2], leaf()),
        regular([20, 35], shards_of([5, 5], leaf())),
        Grid::Rectilinear { dim_grids, chains: Arc::new(Leaves) },
    ];
    let shape = [60, 70];
    for grid in grids {
        let array = compile(shape, grid);
        let mut random = Random(5);
        for one_in in [1, 2, 9, 400, i64::MAX] {
            // Any byte that is not zero is true.
            let mask: Vec<u8> = (0..60 * 70).map(|_| 2 * u8::from(random.below(one_in) == 0)).collect();
            let points = true_points(&mask, 70);
            let stores = [MemoryStore::new(), MemoryStore::new()];
            let [by_mask, by_points] = stores.each_ref().map(|store| Operation::new(&array, store, ""));
            let (masked, listed) = (mask_selection(&array, &mask), points_selection(&array, &points));
            let values: Vec<u32> = (100..).take(points.len()).collect();
            write_values(by_mask, &masked, &values);
            write_values(by_points, &listed, &values);
            assert_eq!(read_values(by_points, &masked, values.len()), values);
            assert_eq!(read_values(by_mask, &listed, values.len()), values);
            let [keys, other] = stores.map(|store| store.list("").unwrap());
            assert_eq!(keys, other);
        }
    }
}

#[test]
fn mask_of_the_last_axes_combines_with_a_range() {
    let array = Array::compile(array::Plan {
        shape: vec![6, 30, 40],
        grid: Grid::Regular { chunk_shape: vec![4, 7, 11], chain: leaf() },
        item_bytes: 4,
        is_bool: false,
        is_vlen: false,
        fill: FILL.to_ne_bytes().to_vec(),
        keys: KeyEncoding::Numbers { with_c: true, separator: '/' },
        store_fill: false,
        missing: Missing::Fill,
        cast: None,
    })
    .unwrap();
    let store = MemoryStore::new();
    let operation = Operation::new(&array, &store as &dyn Store, "");
    let all = |count, stride| Request::Range { start: 0, step: 1, count, stride };
    let whole = Selection::new(&[all(6, 4800), all(30, 160), all(40, 4)], &array.shape).unwrap();
    write_values(operation, &whole, &(0..7200).collect::<Vec<u32>>());
    let mut random = Random(6);
    let mask: Vec<u8> = (0..1200).map(|_| u8::from(random.below(3) == 0)).collect();
    let points = true_points(&mask, 40);
    let range = Request::Range { start: 5, step: -2, count: 3, stride: 4 * points.len() as isize };
    let masked = [range, Request::Mask { values: &mask, count: points.len(), stride: 4 }, Request::Masked];
    let selection = Selection::new(&masked, &array.shape).unwrap();
    let expected: Vec<u32> = [5, 3, 1]
        .iter()
        .flat_map(|i| points.iter().map(move |[j, k]| (i * 1200 + j * 40 + k) as u32))
        .collect();
    assert_eq!(read_values(operation, &selection, 3 * points.len()), expected);
}

#[test]
fn mask_that_does_not_fit_is_an_error() {
    let array = compile([2, 3], regular([2, 3], leaf()));
    let mask = |values, count| Request::Mask { values, count, stride: 4 };
    let cases = [
        [mask(&[1, 0, 1, 0, 0, 0], 3), Request::Masked],
        [mask(&[1, 0, 1, 0, 0], 2), Request::Masked],
        [mask(&[1, 0], 1), mask(&[1, 0, 0], 1)],
        [mask(&[1, 0], 1), Request::Joint { indices: &[0], stride: 4 }],
        [Request::Range { start: 0, step: 1, count: 1, stride: 0 }, Request::Masked],
    ];
    for requests in cases {
        let error = Selection::new(&requests, &array.shape).map(drop).unwrap_err();
        assert_eq!(error.kind, Kind::Selection);
    }
}
