//! What selections touch: noted for reads that share their requests, and looked up in the store.
#![allow(clippy::unwrap_used, clippy::undocumented_unsafe_blocks)]

use std::sync::Arc;

use tessarr_engine::array::{self, Array, ArrayBytes, Chain, Grid, KeyEncoding, Missing};
use tessarr_engine::codec::Config;
use tessarr_engine::operation::Operation;
use tessarr_engine::pipeline::Pipeline;
use tessarr_engine::plan::Plan;
use tessarr_engine::selection::{Request, Selection};
use tessarr_engine::store::{CountingStore, MemoryStore, Store};
use tessarr_engine::stored::{stored, Statistics};
use tessarr_engine::write;

const SIZE: u64 = 64;

fn leaf(codecs: Vec<&str>) -> Chain {
    let compiled =
        codecs.into_iter().map(|name| Config::new(name).with("at_start", false).compile().unwrap()).collect();
    Chain { order: None, array_bytes: ArrayBytes::Bytes { swap: 0 }, pipeline: Pipeline::new(compiled) }
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

/// Bytes, 64 by 64, in chunks or shards; those that are zero are not stored.
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
    })
    .unwrap()
}

fn operation<'a>(array: &'a Array, store: &'a dyn Store) -> Operation<'a> {
    Operation { array, store, prefix: "a/", interrupt: None, plan: None }
}

/// The box from one corner to before another.
fn chosen(low: [i64; 2], high: [i64; 2]) -> Selection {
    let side = |axis: usize, stride| {
        let count = (high[axis] - low[axis]) as usize;
        Request::Range { start: low[axis], step: 1, count, stride }
    };
    Selection::new(&[side(0, SIZE as isize), side(1, 1)], &[2 * SIZE; 2]).unwrap()
}

fn put(array: &Array, store: &dyn Store, low: [i64; 2], high: [i64; 2]) {
    let ones = vec![1u8; (SIZE * SIZE) as usize];
    unsafe { write::write(operation(array, store), &chosen(low, high), ones.as_ptr()) }.unwrap();
}

const ALL: Statistics = Statistics { not_stored: true, fully_stored: true };

fn found(array: &Array, store: &dyn Store, low: [i64; 2], high: [i64; 2]) -> (bool, bool) {
    let found = stored(operation(array, store), &chosen(low, high), ALL).unwrap();
    (found.not_stored, found.fully_stored)
}

#[test]
fn the_smallest_chunks_tell_what_is_stored() {
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
        assert_eq!(found(&array, &store, [8, 8], [8 + chunk, 8 + chunk]), (false, true));
        assert_eq!(found(&array, &store, [8, 8], [9 + chunk, 9]), (false, false));
        assert_eq!(found(&array, &store, [8 + chunk, 8], [9 + chunk, 9]), (true, false));
        assert_eq!(found(&array, &store, [0, 0], [8, 64]), (true, false));
        assert_eq!(found(&array, &store, [0, 0], [64, 64]), (false, false));
        assert_eq!(found(&array, &store, [64, 64], [72, 72]), (true, false));
        assert_eq!(found(&array, &store, [0, 0], [0, 64]), (true, true));
        put(&array, &store, [0, 0], [64, 64]);
        assert_eq!(found(&array, &store, [0, 0], [64, 64]), (false, true));
        assert_eq!(found(&array, &store, [0, 0], [64, 65]), (false, false));
    }
}

#[test]
fn many_chunks_are_listed_and_few_are_looked_up() {
    let (array, inner) = (compile(8, leaf(vec![])), Arc::new(MemoryStore::new()));
    put(&array, &*inner, [0, 0], [64, 64]);
    for (high, opens, lists) in [([8, 8], 1, 0), ([8, 16], 0, 1), ([16, 64], 0, 1), ([64, 1], 8, 0)] {
        let counted = CountingStore::new(inner.clone());
        assert_eq!(found(&array, &counted, [0, 0], high), (false, true));
        let counts = counted.counts();
        assert_eq!((counts.opens + counts.looks, counts.lists), (opens, lists), "{high:?}");
    }
}

#[test]
fn what_is_known_is_not_looked_up() {
    let (array, inner) = (compile(8, leaf(vec![])), Arc::new(MemoryStore::new()));
    put(&array, &*inner, [0, 0], [8, 8]);
    let counted = CountingStore::new(inner);
    let asked = Statistics { not_stored: true, fully_stored: false };
    let told = stored(operation(&array, &counted), &chosen([0, 0], [64, 1]), asked).unwrap();
    assert!(!told.not_stored);
    assert_eq!(counted.counts().opens, 1);
}

#[test]
fn a_plan_tells_of_what_several_reads_want() {
    let (array, store) = (compile(8, shards_of(4, leaf(vec![]), vec![])), MemoryStore::new());
    let plan = Plan::default();
    plan.add(operation(&array, &store), &chosen([0, 0], [1, 1])).unwrap();
    assert!(plan.of("a/c/0/0").is_none());
    plan.add(operation(&array, &store), &chosen([4, 5], [9, 6])).unwrap();
    let wanted = plan.of("a/c/0/0").unwrap();
    assert_eq!(wanted.subchunks.iter().copied().collect::<Vec<_>>(), [0, 3]);
    assert!(plan.of("a/c/1/0").is_none());
    plan.add(operation(&array, &store), &chosen([8, 0], [10, 1])).unwrap();
    assert_eq!(plan.of("a/c/1/0").unwrap().subchunks.iter().copied().collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn a_plan_of_plain_chunks_has_no_subchunks() {
    let (array, store) = (compile(8, leaf(vec![])), MemoryStore::new());
    let plan = Plan::default();
    for _ in 0..2 {
        plan.add(operation(&array, &store), &chosen([0, 0], [1, 1])).unwrap();
    }
    assert!(plan.of("a/c/0/0").unwrap().subchunks.is_empty());
}

#[test]
fn a_read_of_very_many_subchunks_is_in_no_plan() {
    let array = compile(SIZE, shards_of(1, leaf(vec![]), vec![]));
    let (store, plan) = (MemoryStore::new(), Plan::default());
    for _ in 0..2 {
        plan.add(operation(&array, &store), &chosen([0, 0], [33, 32])).unwrap();
    }
    assert!(plan.of("a/c/0/0").is_none());
}
