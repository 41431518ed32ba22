//! Tests with shard indexes that contain impossible entries.

use super::*;

/// Stores `index` and `body` as one shard, the index last.
fn put_shard(store: &dyn Store, index: &[[u64; 2]], body: &[u8]) {
    let mut bytes = body.to_vec();
    bytes.extend(index.iter().flatten().flat_map(|number| number.to_le_bytes()));
    store.put(KEY, &bytes).unwrap();
}

#[test]
fn inner_shard_equal_to_outer_shard_does_not_panic() {
    // Two subchunks, themselves shards of 32, that cover the whole object: the same bytes have
    // another index at each level, also in the cache.
    let inner = sharded(&[4, 4], raw(), false);
    let array = compile(&[SIZE, SIZE], &[SIZE, SIZE], sharded(&[16, 32], inner, false)).unwrap();
    let store = MemoryStore::new();
    let operation = Operation::new(&array, &store, "a/");
    put_shard(&store, &[[0, 1024], [0, 1024]], &[0; 992]);
    let error = read_all(operation).unwrap_err();
    assert_eq!(error.kind, Kind::Data, "{error:?}");
    assert!(write_all(operation, 1).is_err());
}

#[test]
fn invalid_index_entries_are_rejected_by_readers_and_writers() {
    let array = compile(&[SIZE, SIZE], &[SIZE, SIZE], sharded(&[16, 32], raw(), false)).unwrap();
    let store = MemoryStore::new();
    let operation = Operation::new(&array, &store, "a/");
    let good = [0, 1024];
    for bad in
        [[u64::MAX - 1, 1024], [1, 1 << 40], [u64::MAX, 1024], [0, u64::MAX], [1 << 63, 1 << 63], [0, 1000]]
    {
        put_shard(&store, &[good, bad], &[7; 1024]);
        let error = read_all(operation).unwrap_err();
        assert_eq!(error.kind, Kind::Data, "{bad:?}: {error:?}");
        put_shard(&store, &[good, bad], &[7; 1024]);
        if bad != [0, 1000] {
            let error = write_all(operation, 1).unwrap_err();
            assert_eq!(error.kind, Kind::Data, "{bad:?}: {error:?}");
        }
    }
}

#[test]
fn overlapping_subchunks_are_read_and_not_duplicated_on_write() {
    let array = compile(&[SIZE, SIZE], &[SIZE, SIZE], sharded(&[2, 2], raw(), false)).unwrap();
    let store = MemoryStore::new();
    let operation = Operation::new(&array, &store, "a/");
    let mut index = vec![[8, 8]; 256];
    put_shard(&store, &index, &[7; 32]);
    assert!(read_all(operation).unwrap().iter().all(|&item| item == 0x0707));
    write_all(operation, 1).unwrap();
    assert_eq!((&store as &dyn Store).get(KEY).unwrap().unwrap().len(), 256 * 24);
    // Larger than any encoded subchunk: 256 copies would each have the size of the object.
    index[1..].fill([0, 1 << 20]);
    put_shard(&store, &index, &vec![7; 1 << 20]);
    let error = write_all(operation, 1).unwrap_err();
    assert_eq!((error.kind, error.code), (Kind::Data, Some("wrong_size")), "{error:?}");
}

#[test]
fn large_shard_index_is_not_allocated_for_small_object() {
    let chunk = [1 << 15, 1 << 15];
    let array = compile(&[SIZE, SIZE], &chunk, sharded(&[1, 1], raw(), true)).unwrap();
    let store = MemoryStore::new();
    let operation = Operation::new(&array, &store, "a/");
    (&store as &dyn Store).put(KEY, &[0; 64]).unwrap();
    let (done, peak) = measured(|| read_all(operation));
    assert_eq!(done.unwrap_err().code, Some("wrong_size"));
    assert!(peak < 1 << 20, "{peak}");
    let more = compile(&[SIZE, SIZE], &[1 << 16, 1 << 15], sharded(&[1, 1], raw(), true));
    assert_eq!(more.map(drop).unwrap_err().kind, Kind::Argument);
}
