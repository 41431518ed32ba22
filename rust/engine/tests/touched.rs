//! Storage statistics of selections, and read groups that share shards.
#![allow(clippy::unwrap_used, clippy::undocumented_unsafe_blocks)]

use std::sync::{Arc, Mutex};

use tessarr_engine::array::{self, Array, ArrayBytes, Chain, Grid, KeyEncoding, Missing};
use tessarr_engine::codec::chain::BytesCodecs;
use tessarr_engine::codec::Config;
use tessarr_engine::pipeline::operation::Operation;
use tessarr_engine::selection::{Request, Selection};
use tessarr_engine::statistics::{storage_statistics, Statistics};
use tessarr_engine::store::{CountingStore, MemoryStore, Store};
use tessarr_engine::{read, write};

const SIZE: u64 = 64;

fn leaf(codecs: Vec<&str>) -> Chain {
    let compiled =
        codecs.into_iter().map(|name| Config::new(name).with("at_start", false).compile().unwrap()).collect();
    Chain {
        order: None,
        array_bytes: ArrayBytes::Bytes { swap: 0 },
        bytes_codecs: BytesCodecs::new(compiled),
    }
}

fn shards_of(subchunk: u64, inner: Chain, codecs: Vec<&str>) -> Chain {
    Chain {
        array_bytes: ArrayBytes::Sharding {
            subchunk_shape: vec![subchunk; 2],
            chain: Box::new(inner),
            index_chain: Box::new(leaf(vec![])),
            index_at_start: false,
        },
        ..leaf(codecs)
    }
}

/// Bytes, 64 by 64, in chunks or shards; chunks of zeros are not stored.
fn compile(chunk: u64, chain: Chain) -> Array {
    Array::compile(array::Plan {
        shape: vec![SIZE; 2],
        grid: Grid::Regular { chunk_shape: vec![chunk; 2], chain },
        item_bytes: 1,
        is_bool: false,
        is_vlen: false,
        fill: vec![0],
        keys: KeyEncoding::Numbers { with_c: true, separator: '/' },
        store_fill: false,
        missing: Missing::Fill,
        cast: None,
    })
    .unwrap()
}

fn operation<'a>(array: &'a Array, store: &'a dyn Store) -> Operation<'a> {
    Operation::new(array, store, "a/")
}

/// The box between two corners, the second exclusive.
fn box_selection(low: [i64; 2], high: [i64; 2]) -> Selection {
    let side = |axis: usize, stride| {
        let count = (high[axis] - low[axis]) as usize;
        Request::Range { start: low[axis], step: 1, count, stride }
    };
    Selection::new(&[side(0, SIZE as isize), side(1, 1)], &[2 * SIZE; 2]).unwrap()
}

fn put(array: &Array, store: &dyn Store, low: [i64; 2], high: [i64; 2]) {
    let ones = vec![1u8; (SIZE * SIZE) as usize];
    unsafe { write::write(operation(array, store), &box_selection(low, high), ones.as_ptr()) }.unwrap();
}

const ALL: Statistics = Statistics { not_stored: true, fully_stored: true };

fn statistics_of(array: &Array, store: &dyn Store, low: [i64; 2], high: [i64; 2]) -> (bool, bool) {
    let found = storage_statistics(operation(array, store), &box_selection(low, high), ALL).unwrap();
    (found.not_stored, found.fully_stored)
}

#[test]
fn statistics_use_the_smallest_chunks() {
    let nested = || shards_of(4, shards_of(2, leaf(vec![]), vec![]), vec![]);
    let cases = [
        (leaf(vec![]), 8),
        (leaf(vec!["crc32c"]), 8),
        (shards_of(4, leaf(vec![]), vec![]), 4),
        (shards_of(4, leaf(vec![]), vec!["crc32c"]), 4),
        (shards_of(2, leaf(vec!["crc32c"]), vec![]), 2),
        (nested(), 2),
    ];
    for (chain, chunk) in cases {
        let (array, store) = (compile(8, chain), MemoryStore::new());
        put(&array, &store, [8, 8], [9, 9]);
        assert_eq!(statistics_of(&array, &store, [8, 8], [8 + chunk, 8 + chunk]), (false, true));
        assert_eq!(statistics_of(&array, &store, [8, 8], [9 + chunk, 9]), (false, false));
        assert_eq!(statistics_of(&array, &store, [8 + chunk, 8], [9 + chunk, 9]), (true, false));
        assert_eq!(statistics_of(&array, &store, [0, 0], [8, 64]), (true, false));
        assert_eq!(statistics_of(&array, &store, [0, 0], [64, 64]), (false, false));
        assert_eq!(statistics_of(&array, &store, [64, 64], [72, 72]), (true, false));
        assert_eq!(statistics_of(&array, &store, [0, 0], [0, 64]), (true, true));
        put(&array, &store, [0, 0], [64, 64]);
        assert_eq!(statistics_of(&array, &store, [0, 0], [64, 64]), (false, true));
        assert_eq!(statistics_of(&array, &store, [0, 0], [64, 65]), (false, false));
    }
}

#[test]
fn statistics_list_many_chunks_and_open_few() {
    let (array, inner) = (compile(8, leaf(vec![])), Arc::new(MemoryStore::new()));
    put(&array, &*inner, [0, 0], [64, 64]);
    for (high, opens, lists) in [([8, 8], 1, 0), ([8, 16], 0, 1), ([16, 64], 0, 1), ([64, 1], 8, 0)] {
        let counted = CountingStore::new(inner.clone());
        assert_eq!(statistics_of(&array, &counted, [0, 0], high), (false, true));
        let counts = counted.counts();
        assert_eq!((counts.opens + counts.looks, counts.lists), (opens, lists), "{high:?}");
    }
}

#[test]
fn known_statistics_need_no_request() {
    let (array, inner) = (compile(8, leaf(vec![])), Arc::new(MemoryStore::new()));
    put(&array, &*inner, [0, 0], [8, 8]);
    let counted = CountingStore::new(inner);
    let requested = Statistics { not_stored: true, fully_stored: false };
    let statistics =
        storage_statistics(operation(&array, &counted), &box_selection([0, 0], [64, 1]), requested).unwrap();
    assert!(!statistics.not_stored);
    assert_eq!(counted.counts().opens, 1);
}

#[test]
fn read_group_opens_shared_shards_once() {
    let raw = || leaf(vec![]);
    let nested = shards_of(4, shards_of(2, raw(), vec![]), vec!["crc32c"]);
    let values: Vec<u8> = (0..SIZE * SIZE).map(|number| (number % 251) as u8).collect();
    let boxes = [([0, 0], [3, 3]), ([2, 1], [4, 2]), ([1, 8], [7, 16]), ([0, 9], [8, 12]), ([3, 3], [3, 9])];
    for chain in [raw(), leaf(vec!["crc32c"]), shards_of(4, raw(), vec![]), nested] {
        let (array, inner) = (compile(8, chain), Arc::new(MemoryStore::new()));
        let all = box_selection([0, 0], [64, 64]);
        unsafe { write::write(operation(&array, &*inner), &all, values.as_ptr()) }.unwrap();
        let counted = CountingStore::new(inner);
        let reads: Vec<Selection> = boxes.iter().map(|&(low, high)| box_selection(low, high)).collect();
        let mut out = vec![vec![0u8; (SIZE * SIZE) as usize]; boxes.len()];
        let wanted: Vec<_> = reads.iter().zip(&mut out).map(|(one, out)| (one, out.as_mut_ptr())).collect();
        let done = Mutex::new(Vec::new());
        unsafe {
            read::read_group(operation(&array, &counted), &wanted, &|number, arena| {
                arena.unwrap();
                done.lock().unwrap().push(number);
            });
        }
        let mut done = done.into_inner().unwrap();
        done.sort_unstable();
        assert!(done.into_iter().eq(0..boxes.len()));
        for ((low, high), out) in boxes.iter().zip(&out) {
            for (row, column) in (low[0]..high[0]).flat_map(|row| (low[1]..high[1]).map(move |c| (row, c))) {
                let at = ((row - low[0]) * SIZE as i64 + column - low[1]) as usize;
                assert_eq!(out[at], values[(row * SIZE as i64 + column) as usize]);
            }
        }
        assert_eq!(counted.counts().opens, 2);
    }
}

#[test]
fn many_reads_end_once_in_several_groups() {
    const COUNT: usize = 20_000;
    let (array, inner) = (compile(8, leaf(vec![])), Arc::new(MemoryStore::new()));
    let values: Vec<u8> = (0..SIZE * SIZE).map(|number| (number % 251) as u8).collect();
    let all = box_selection([0, 0], [64, 64]);
    unsafe { write::write(operation(&array, &*inner), &all, values.as_ptr()) }.unwrap();
    let element = |number: usize| box_selection([0, number as i64 % 64], [1, number as i64 % 64 + 1]);
    let reads: Vec<Selection> = (0..COUNT).map(element).collect();
    let mut out = vec![0u8; COUNT];
    let wanted: Vec<_> =
        reads.iter().zip(&mut out).map(|(one, out)| (one, std::ptr::from_mut(out))).collect();
    let counted = CountingStore::new(inner);
    let ended = Mutex::new(vec![0; COUNT]);
    unsafe {
        read::read_group(operation(&array, &counted), &wanted, &|number, arena| {
            arena.unwrap();
            ended.lock().unwrap()[number] += 1;
        });
    }
    assert!(ended.into_inner().unwrap().iter().all(|&count| count == 1));
    assert!(out.iter().enumerate().all(|(number, &value)| value == values[number % 64]));
    // Each group opens each chunk once.
    assert_eq!(counted.counts().opens, 8 * 3);
}

#[test]
fn small_selections_touch_few_cells() {
    let within = |low, high, limit| box_selection(low, high).touches_at_most(&[8, 8], limit);
    assert!(within([0, 0], [8, 8], 1));
    assert!(within([7, 7], [9, 9], 4));
    assert!(!within([7, 7], [9, 9], 3));
    assert!(!within([0, 0], [8, 64], 7));
    assert!(within([5, 5], [5, 9], 2));
    let backwards = |step| Request::Range { start: 63, step, count: 2, stride: 1 };
    let of = |request| Selection::new(&[request], &[64]).unwrap();
    assert!(of(backwards(-1)).touches_at_most(&[8], 1));
    assert!(!of(backwards(-8)).touches_at_most(&[8], 1));
    assert!(!of(Request::List { indices: &[1], stride: 1 }).touches_at_most(&[8], 9));
    assert!(!of(backwards(-1)).touches_at_most(&[8, 8], 9), "another rank");
}
