//! Damaged and hostile stored bytes: reads give the right class of error, do
//! not panic, and take no more memory than the metadata announces.
#![allow(clippy::unwrap_used, clippy::panic, clippy::undocumented_unsafe_blocks)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use proptest::prelude::*;
use tessarr_engine::array::{Array, ArrayBytes, Chain, Grid, KeyEncoding, Missing, Plan};
use tessarr_engine::codec::Config;
use tessarr_engine::operation::Operation;
use tessarr_engine::pipeline::Pipeline;
use tessarr_engine::selection::{Request, Selection};
use tessarr_engine::store::{
    Change, Listing, LocalStore, Made, MemoryStore, Need, Object, Part, Settings, Store, Updater, Version,
    Want,
};
use tessarr_engine::vlen::{self, Handle, HANDLE_BYTES};
use tessarr_engine::{read, write, Error, Kind};

/// The system's allocator, with a count of the bytes that each thread has in use:
/// what is measured runs on the thread of its test, beside other tests.
struct Counting;

thread_local! {
    static IN_USE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grown(layout.size(), unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        grown(layout.size(), unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        unsafe { System.dealloc(memory, layout) }
    }
}

fn grown(bytes: usize, memory: *mut u8) -> *mut u8 {
    if !memory.is_null() {
        count(bytes as isize);
    }
    memory
}

fn count(bytes: isize) {
    // A thread that ends frees memory after its counters are gone.
    let _ = IN_USE.try_with(|in_use| {
        in_use.set(in_use.get() + bytes);
        PEAK.with(|peak| peak.set(peak.get().max(in_use.get())));
    });
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What `work` gives, and the most bytes that were in use at once beyond those before.
fn measured<R>(work: impl FnOnce() -> R) -> (R, usize) {
    let before = IN_USE.get();
    PEAK.set(before);
    let result = work();
    (result, (PEAK.get() - before) as usize)
}

const SIZE: u64 = 32;
const ITEMS: usize = (SIZE * SIZE) as usize;
const KEY: &str = "a/c/0/0";

/// Codecs' contexts, which are made once per thread and kept; and per level of
/// sharding an index and twice a chunk and 64 KiB, which other writers may need.
const MOST: usize = 1 << 20;

fn specs(codec: u8) -> Vec<Config> {
    let blosc = |cname: &str, shuffle| {
        Config::new("blosc")
            .with("cname", cname)
            .with("clevel", 5)
            .with("shuffle", shuffle)
            .with("typesize", 2)
            .with("blocksize", 256)
    };
    match codec {
        0 => vec![],
        1 => vec![Config::new("zstd").with("level", 1).with("checksum", true)],
        2 => vec![Config::new("zstd").with("level", 1).with("checksum", false)],
        3 => vec![Config::new("gzip").with("level", 1), Config::new("crc32c").with("at_start", false)],
        4 => vec![Config::new("zlib").with("level", 1)],
        5 => vec![Config::new("crc32c").with("at_start", false), Config::new("lz4").with("acceleration", 1)],
        6 => vec![blosc("lz4", 1)],
        7 => vec![blosc("zstd", 2), Config::new("gzip").with("level", 1)],
        8 => vec![blosc("blosclz", 0)],
        9 => vec![blosc("snappy", 1)],
        _ => vec![blosc("zlib", 1)],
    }
}
const CODECS: u8 = 11;

fn pipeline(codec: u8) -> Pipeline {
    Pipeline::new(specs(codec).into_iter().map(|spec| spec.compile().unwrap()).collect())
}

/// Elements under `pipeline`.
fn leaf(pipeline: Pipeline) -> Chain {
    Chain { order: None, array_bytes: ArrayBytes::Bytes { swap: 0 }, pipeline }
}

/// Text under `pipeline`.
fn text(pipeline: Pipeline) -> Chain {
    let array_bytes = ArrayBytes::Vlen(vlen::Kind { is_text: true, unit_bytes: 1 });
    Chain { order: None, array_bytes, pipeline }
}

/// A chain of `levels` of sharding, each by halves, above elements under `codec`.
fn chain(levels: &[Level], codec: u8, shape: &[u64], leaf_of: fn(Pipeline) -> Chain) -> Chain {
    let Some((level, inner)) = levels.split_first() else { return leaf_of(pipeline(codec)) };
    let checked = || Pipeline::new(vec![Config::new("crc32c").with("at_start", false).compile().unwrap()]);
    let index = if level.checked { checked() } else { Pipeline::default() };
    let subchunk_shape: Vec<u64> = shape.iter().map(|size| size / 2).collect();
    Chain {
        order: None,
        array_bytes: ArrayBytes::Sharding {
            chain: Box::new(chain(inner, codec, &subchunk_shape, leaf_of)),
            subchunk_shape,
            index_chain: Box::new(leaf(index)),
            index_at_start: level.at_start,
        },
        pipeline: pipeline(level.codec),
    }
}

#[derive(Clone, Debug)]
struct Level {
    codec: u8,
    checked: bool,
    at_start: bool,
}

fn compile(shape: &[u64], chunk_shape: &[u64], chain: Chain) -> Result<Array, Error> {
    Array::compile(Plan {
        shape: shape.to_vec(),
        grid: Grid::Regular { chunk_shape: chunk_shape.to_vec(), chain },
        item_bytes: 2,
        is_bool: false,
        is_vlen: false,
        fill: vec![0, 0],
        keys: KeyEncoding::Numbers { with_c: true, separator: '/' },
        store_fill: true,
        missing: Missing::Fill,
    })
}

fn compile_text(levels: &[Level], codec: u8) -> Array {
    let chunk_shape = vec![SIZE, SIZE];
    let chain = chain(levels, codec, &chunk_shape, text);
    Array::compile(Plan {
        shape: chunk_shape.clone(),
        grid: Grid::Regular { chunk_shape, chain },
        item_bytes: HANDLE_BYTES,
        is_bool: false,
        is_vlen: true,
        fill: b"fill".to_vec(),
        keys: KeyEncoding::Numbers { with_c: true, separator: '/' },
        store_fill: true,
        missing: Missing::Fill,
    })
    .unwrap()
}

fn raw() -> Chain {
    leaf(Pipeline::default())
}

fn sharded(subchunk_shape: &[u64], inner: Chain, at_start: bool) -> Chain {
    Chain {
        order: None,
        array_bytes: ArrayBytes::Sharding {
            subchunk_shape: subchunk_shape.to_vec(),
            chain: Box::new(inner),
            index_chain: Box::new(raw()),
            index_at_start: at_start,
        },
        pipeline: Pipeline::default(),
    }
}

fn range(start: i64, step: i64, count: usize, stride: isize) -> Request<'static> {
    Request::Range { start, step, count, stride }
}

/// Everything, the first item of each axis, and a part by steps.
fn selections(item: isize) -> [(Vec<Request<'static>>, usize); 3] {
    let row = item * SIZE as isize;
    [
        (vec![range(0, 1, SIZE as usize, row), range(0, 1, SIZE as usize, item)], ITEMS),
        (vec![range(0, 1, 1, item), range(0, 1, 1, item)], 1),
        (vec![range(30, -7, 5, 7 * item), range(1, 5, 7, item)], 35),
    ]
}

fn read_all(operation: Operation<'_>) -> Result<Vec<u16>, Error> {
    let mut whole = Vec::new();
    for (requests, items) in selections(2) {
        let mut out = vec![0u16; items];
        let selection = Selection::new(&requests, &operation.array.shape)?;
        unsafe { read::read(operation, &selection, out.as_mut_ptr().cast()) }?;
        whole.extend(out);
    }
    Ok(whole)
}

fn write_all(operation: Operation<'_>, which: usize) -> Result<(), Error> {
    let (requests, items) = &selections(2)[which];
    let values: Vec<u16> = (0..*items as u16).map(|value| value / 3).collect();
    let selection = Selection::new(requests, &operation.array.shape)?;
    unsafe { write::write(operation, &selection, values.as_ptr().cast()) }
}

/// One change of stored bytes.
#[derive(Clone, Debug)]
enum Damage {
    Set(prop::sample::Index, u8),
    /// Numbers that indexes and headers may hold.
    Number(prop::sample::Index, u64, u8),
    Cut(prop::sample::Index),
    Append(Vec<u8>),
    Swap(prop::sample::Index, prop::sample::Index),
}

/// Every element a text: read and write all selections.
fn read_text(operation: Operation<'_>) -> Result<Vec<Vec<u8>>, Error> {
    let mut whole = Vec::new();
    for (requests, items) in selections(HANDLE_BYTES as isize) {
        let mut out = vec![0u8; items * HANDLE_BYTES];
        let selection = Selection::new(&requests, &operation.array.shape)?;
        let arena = unsafe { read::read(operation, &selection, out.as_mut_ptr()) }?;
        whole.extend(vlen::handles(&out).map(|handle| unsafe { handle.bytes() }.to_vec()));
        drop(arena);
    }
    Ok(whole)
}

fn write_text(operation: Operation<'_>, which: usize) -> Result<(), Error> {
    let (requests, items) = &selections(HANDLE_BYTES as isize)[which];
    let texts: Vec<String> = (0..*items).map(|value| "é".repeat(value % 5) + &value.to_string()).collect();
    let handles: Vec<u8> = texts.iter().flat_map(|text| Handle::of(text.as_bytes()).to_item()).collect();
    let selection = Selection::new(requests, &operation.array.shape)?;
    unsafe { write::write(operation, &selection, handles.as_ptr()) }
}

fn damage() -> impl Strategy<Value = Damage> {
    let at = any::<prop::sample::Index>;
    let number = prop_oneof![
        Just(0),
        Just(1),
        Just(u64::MAX),
        Just(u64::MAX - 1),
        Just(1 << 63),
        Just(1 << 32),
        Just((1 << 31) - 1),
        0..4096u64,
        any::<u64>()
    ];
    prop_oneof![
        4 => (at(), any::<u8>()).prop_map(|(at, byte)| Damage::Set(at, byte)),
        4 => (at(), number, 2..4u8).prop_map(|(at, number, power)| Damage::Number(at, number, 1 << power)),
        1 => at().prop_map(Damage::Cut),
        1 => prop::collection::vec(any::<u8>(), 1..40).prop_map(Damage::Append),
        2 => (at(), at()).prop_map(|(from, to)| Damage::Swap(from, to)),
    ]
}

fn apply(damage: &Damage, bytes: &mut Vec<u8>) {
    if bytes.is_empty() {
        return;
    }
    match damage {
        Damage::Set(at, byte) => *at.get_mut(bytes) = *byte,
        Damage::Number(at, number, size) => {
            // Aligned from the end, as an index that comes last is.
            let at = bytes.len() - 1 - at.index(bytes.len()) / 8 * 8;
            let number = number.to_le_bytes();
            bytes[at..].iter_mut().zip(&number[..*size as usize]).for_each(|(byte, new)| *byte = *new);
        }
        Damage::Cut(at) => bytes.truncate(at.index(bytes.len())),
        Damage::Append(tail) => bytes.extend(tail),
        Damage::Swap(from, to) => {
            let (from, to) = (from.index(bytes.len()), to.index(bytes.len()));
            bytes.swap(from, to);
        }
    }
}

fn levels() -> impl Strategy<Value = Vec<Level>> {
    let codec = prop_oneof![2 => Just(0), 1 => 0..CODECS];
    let level = (codec, any::<bool>(), any::<bool>()).prop_map(|(codec, checked, at_start)| Level {
        codec,
        checked,
        at_start,
    });
    prop::collection::vec(level, 0..3)
}

/// Repair the checksum at the end, so that what it protects is read.
fn resealed(bytes: &mut [u8]) {
    if let Some((body, seal)) = bytes.split_last_chunk_mut::<4>() {
        let mut sealed = Vec::new();
        let crc = Config::new("crc32c").with("at_start", false).compile().unwrap();
        crc.encode(body, &mut sealed, &mut tessarr_engine::codec::Context::default()).unwrap();
        seal.copy_from_slice(&sealed[body.len()..]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_bytes_are_data_errors(
        levels in levels(),
        codec in 0..CODECS,
        damages in prop::collection::vec(damage(), 1..5),
        reseal in any::<bool>(),
        next in 0..3usize,
        local in prop::bool::weighted(0.2),
    ) {
        let chain = chain(&levels, codec, &[SIZE, SIZE], leaf);
        let array = compile(&[SIZE, SIZE], &[SIZE, SIZE], chain).unwrap();
        let folder = Folder::new(if local { "damaged" } else { "unused" });
        let (memory, files) = (MemoryStore::new(), LocalStore::new(&folder.0, Settings::default()).unwrap());
        let store: &dyn Store = if local { &files } else { &memory };
        let operation = Operation { array: &array, store, prefix: "a/", interrupt: None, plan: None };
        write_all(operation, 0).unwrap();
        let mut bytes = store.get(KEY).unwrap().unwrap();
        damages.iter().for_each(|damage| apply(damage, &mut bytes));
        if reseal {
            resealed(&mut bytes);
        }
        store.put(KEY, &bytes).unwrap();
        let (done, peak) = measured(|| read_all(operation));
        if let Err(error) = &done {
            prop_assert_eq!(error.kind, Kind::Data, "{:?}", error);
            prop_assert_eq!(error.key.as_deref(), Some(KEY));
            prop_assert_eq!(error.chunk.as_deref(), Some(&[0u64, 0][..]));
        }
        prop_assert!(peak <= MOST, "{peak} bytes for {} stored", bytes.len());
        // A write on top of it merges, replaces or refuses.
        if let Err(error) = write_all(operation, next) {
            prop_assert_eq!(error.kind, Kind::Data, "{:?}", error);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_text_is_a_data_error(
        levels in levels(),
        codec in 0..CODECS,
        damages in prop::collection::vec(damage(), 1..5),
        reseal in any::<bool>(),
        next in 0..3usize,
    ) {
        let array = compile_text(&levels, codec);
        let store: &dyn Store = &MemoryStore::new();
        let operation = Operation { array: &array, store, prefix: "a/", interrupt: None, plan: None };
        write_text(operation, 0).unwrap();
        let mut bytes = store.get(KEY).unwrap().unwrap();
        damages.iter().for_each(|damage| apply(damage, &mut bytes));
        if reseal {
            resealed(&mut bytes);
        }
        store.put(KEY, &bytes).unwrap();
        let done = read_text(operation);
        if let Err(error) = &done {
            prop_assert_eq!(error.kind, Kind::Data, "{:?}", error);
            prop_assert_eq!(error.key.as_deref(), Some(KEY));
            prop_assert_eq!(error.chunk.as_deref(), Some(&[0u64, 0][..]));
        }
        prop_assert!(done.is_err() || done.unwrap().iter().all(|text| std::str::from_utf8(text).is_ok()));
        // A write on top of it merges, replaces or refuses.
        if let Err(error) = write_text(operation, next) {
            prop_assert_eq!(error.kind, Kind::Data, "{:?}", error);
        }
    }
}

#[test]
fn a_few_bytes_do_not_take_the_memory_that_they_announce() {
    for codec in [5u8, 6, 1] {
        let array = compile_text(&[], codec);
        let store: &dyn Store = &MemoryStore::new();
        let operation = Operation { array: &array, store, prefix: "a/", interrupt: None, plan: None };
        write_text(operation, 0).unwrap();
        let whole = store.get(KEY).unwrap().unwrap();
        // The first bytes of LZ4's framing, or of Blosc's and Zstandard's header, hold the size.
        for at in 0..16 {
            let mut bytes = whole[..64].to_vec();
            bytes[at..at + 4].copy_from_slice(&0x3fff_ffffu32.to_le_bytes());
            if codec == 6 {
                bytes[12..16].copy_from_slice(&64u32.to_le_bytes());
            }
            store.put(KEY, &bytes).unwrap();
            let (done, peak) = measured(|| read_text(operation));
            assert_eq!(done.unwrap_err().kind, Kind::Data);
            assert!(peak < 8 << 20, "{peak} bytes in codec {codec} at {at}");
        }
    }
}

#[test]
fn handles_and_items_are_not_taken_for_one_another() {
    for (is_vlen, leaf) in [(true, leaf as fn(Pipeline) -> Chain), (false, text)] {
        let chain = chain(&[], 0, &[SIZE, SIZE], leaf);
        let plan = Plan {
            shape: vec![SIZE, SIZE],
            grid: Grid::Regular { chunk_shape: vec![SIZE, SIZE], chain },
            item_bytes: HANDLE_BYTES,
            is_bool: false,
            is_vlen,
            fill: vec![0; HANDLE_BYTES],
            keys: KeyEncoding::Numbers { with_c: true, separator: '/' },
            store_fill: true,
            missing: Missing::Fill,
        };
        let error = Array::compile(plan).err().unwrap();
        assert!(error.message.contains("does not fit the elements"), "{error:?}");
    }
}

/// A folder for one test, removed at its end.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        Folder(std::env::temp_dir().join(format!("tessarr-hostile-{name}-{}", std::process::id())))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // It may never have been made.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Stores `index` and `body` as one shard, the index last.
fn put_shard(store: &dyn Store, index: &[[u64; 2]], body: &[u8]) {
    let mut bytes = body.to_vec();
    bytes.extend(index.iter().flatten().flat_map(|number| number.to_le_bytes()));
    store.put(KEY, &bytes).unwrap();
}

#[test]
fn an_inner_shard_that_is_the_outer_one_is_no_panic() {
    // Two subchunks, themselves shards of 32, that claim the whole object: the
    // same bytes have another index at each level, also where it is kept.
    let inner = sharded(&[4, 4], raw(), false);
    let array = compile(&[SIZE, SIZE], &[SIZE, SIZE], sharded(&[16, 32], inner, false)).unwrap();
    let store = MemoryStore::new();
    let operation = Operation { array: &array, store: &store, prefix: "a/", interrupt: None, plan: None };
    put_shard(&store, &[[0, 1024], [0, 1024]], &[0; 992]);
    let error = read_all(operation).unwrap_err();
    assert_eq!(error.kind, Kind::Data, "{error:?}");
    assert!(write_all(operation, 1).is_err());
}

#[test]
fn entries_past_the_end_or_half_absent_are_refused_by_readers_and_writers() {
    let array = compile(&[SIZE, SIZE], &[SIZE, SIZE], sharded(&[16, 32], raw(), false)).unwrap();
    let store = MemoryStore::new();
    let operation = Operation { array: &array, store: &store, prefix: "a/", interrupt: None, plan: None };
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
fn overlaps_are_read_but_not_multiplied_on_write() {
    let array = compile(&[SIZE, SIZE], &[SIZE, SIZE], sharded(&[2, 2], raw(), false)).unwrap();
    let store = MemoryStore::new();
    let operation = Operation { array: &array, store: &store, prefix: "a/", interrupt: None, plan: None };
    let mut index = vec![[8, 8]; 256];
    put_shard(&store, &index, &[7; 32]);
    assert!(read_all(operation).unwrap().iter().all(|&item| item == 0x0707));
    write_all(operation, 1).unwrap();
    assert_eq!((&store as &dyn Store).get(KEY).unwrap().unwrap().len(), 256 * 24);
    // Larger than any encoded subchunk: 256 copies would be of the whole object.
    index[1..].fill([0, 1 << 20]);
    put_shard(&store, &index, &vec![7; 1 << 20]);
    let error = write_all(operation, 1).unwrap_err();
    assert_eq!((error.kind, error.code), (Kind::Data, Some("wrong_size")), "{error:?}");
}

#[test]
fn the_index_of_a_giant_shard_is_not_allocated_for_a_small_object() {
    let chunk = [1 << 13, 1 << 13];
    let array = compile(&[SIZE, SIZE], &chunk, sharded(&[1, 1], raw(), true)).unwrap();
    let store = MemoryStore::new();
    let operation = Operation { array: &array, store: &store, prefix: "a/", interrupt: None, plan: None };
    (&store as &dyn Store).put(KEY, &[0; 64]).unwrap();
    let (done, peak) = measured(|| read_all(operation));
    assert_eq!(done.unwrap_err().code, Some("wrong_size"));
    assert!(peak < 1 << 20, "{peak}");
    let more = compile(&[SIZE, SIZE], &[1 << 14, 1 << 13], sharded(&[1, 1], raw(), true));
    assert_eq!(more.map(drop).unwrap_err().kind, Kind::Argument);
}

#[test]
fn a_chunk_larger_than_memory_is_an_error() {
    for codec in 1..CODECS {
        let array = compile(&[SIZE, SIZE], &[1 << 30, 1 << 30], leaf(pipeline(codec))).unwrap();
        let store = MemoryStore::new();
        let operation = Operation { array: &array, store: &store, prefix: "a/", interrupt: None, plan: None };
        // A Zstandard frame that says to hold 2^60 bytes.
        let frame = [0x28, 0xb5, 0x2f, 0xfd, 0xc0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 1, 0, 0];
        (&store as &dyn Store).put(KEY, &frame).unwrap();
        let error = read_all(operation).unwrap_err();
        assert!(matches!(error.kind, Kind::Memory | Kind::Data), "{error:?}");
        let error = write_all(operation, 1).unwrap_err();
        assert!(matches!(error.kind, Kind::Memory | Kind::Data), "{error:?}");
        (&store as &dyn Store).delete(KEY).unwrap();
        assert_eq!(write_all(operation, 1).unwrap_err().kind, Kind::Memory);
    }
}

#[test]
fn shapes_near_the_limit_of_64_bits_are_indexed() {
    let most = i64::MAX as u64;
    for chunk in [1, 3, 1 << 20] {
        let array = compile(&[most], &[chunk], raw()).unwrap();
        let store = MemoryStore::new();
        let operation = Operation { array: &array, store: &store, prefix: "a/", interrupt: None, plan: None };
        let last = i64::MAX - 1;
        let cases = [
            (range(last, -1, 4, 2), 4),
            (range(last - 3, 1, 4, 2), 4),
            (range(last, i64::MIN, 1, 2), 1),
            (range(0, i64::MAX, 1, 2), 1),
            (range(0, last, 2, 2), 2),
            (range(last, -last, 2, 2), 2),
            (range(5, i64::MAX / 4, 3, 2), 3),
        ];
        for (request, items) in cases {
            let values: Vec<u16> = (1..=items).collect();
            let selection = Selection::new(&[request], &[most]).unwrap();
            unsafe { write::write(operation, &selection, values.as_ptr().cast()) }.unwrap();
            let mut out = vec![0u16; values.len()];
            unsafe { read::read(operation, &selection, out.as_mut_ptr().cast()) }.unwrap();
            assert_eq!(out, values);
        }
        let indices = [last, 0, last - 1, last];
        let joint = [Request::Joint { indices: &indices, stride: 2 }];
        let list = [Request::List { indices: &indices, stride: 2 }];
        for request in [joint, list] {
            let selection = Selection::new(&request, &[most]).unwrap();
            unsafe { write::write(operation, &selection, [1u16, 2, 3, 4].as_ptr().cast()) }.unwrap();
            let mut out = [0u16; 4];
            unsafe { read::read(operation, &selection, out.as_mut_ptr().cast()) }.unwrap();
            assert_eq!(out, [4, 2, 3, 4], "the last of repeated indices wins");
        }
    }
}

#[test]
fn more_chunks_than_can_be_counted_are_refused_without_memory() {
    let shape = [1 << 40, 1 << 40];
    let array = compile(&shape, &[1, 1], raw()).unwrap();
    let store = MemoryStore::new();
    let operation = Operation { array: &array, store: &store, prefix: "a/", interrupt: None, plan: None };
    let all = [range(0, 1, 1 << 40, 0), range(0, 1, 1 << 40, 0)];
    let selection = Selection::new(&all, &shape).unwrap();
    let value = [1u16];
    let (done, peak) = measured(|| unsafe { write::write(operation, &selection, value.as_ptr().cast()) });
    assert_eq!(done.unwrap_err().kind, Kind::Selection);
    assert!(peak < 1 << 16, "{peak}");
}

#[test]
fn malformed_requests_and_descriptions_are_refused() {
    let shape = [4u64, 4];
    let joint = |stride| Request::Joint { indices: &[0, 1], stride };
    for requests in [
        vec![range(0, 1, 4, 2)],
        vec![range(0, 1, 5, 2), range(0, 1, 1, 2)],
        vec![range(-1, 1, 2, 2), range(0, 1, 1, 2)],
        vec![range(0, 0, 2, 2), range(0, 1, 1, 2)],
        vec![range(3, i64::MAX, 2, 2), range(0, 1, 1, 2)],
        vec![range(0, 1, usize::MAX, 2), range(0, 1, 1, 2)],
        vec![joint(2), joint(4)],
        vec![Request::List { indices: &[4], stride: 2 }, range(0, 1, 1, 2)],
        vec![Request::Joint { indices: &[0, -1], stride: 2 }, joint(2)],
    ] {
        let error = Selection::new(&requests, &shape).map(drop).map_err(|error| error.kind);
        assert_eq!(error, Err(Kind::Selection));
    }
    let descriptions = [
        (vec![4, 4], sharded(&[4], raw(), false)),
        (vec![4, 4], sharded(&[4, 4, 4], raw(), false)),
        (vec![4, 4], sharded(&[3, 4], raw(), false)),
        (vec![4, 4], sharded(&[0, 4], raw(), false)),
        (vec![4], raw()),
        (vec![0, 4], raw()),
        (vec![1 << 62, 4], raw()),
        (vec![u64::MAX, 1], raw()),
        (vec![4, 4], Chain { order: Some(vec![0, 0]), ..raw() }),
        (vec![4, 4], Chain { order: Some(vec![1, 2]), ..raw() }),
        (vec![4, 4], Chain { order: Some(vec![0]), ..raw() }),
    ];
    for (chunk, chain) in descriptions {
        let error = compile(&shape, &chunk, chain).map(drop).unwrap_err();
        assert_eq!(error.kind, Kind::Argument, "{chunk:?}: {error:?}");
    }
}

/// A store whose objects say that they have every byte there is.
#[derive(Debug)]
struct Endless;

struct Everything;

impl Object for Everything {
    fn size(&self) -> u64 {
        u64::MAX
    }

    fn version(&self) -> Option<Version> {
        None
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), Error> {
        // An index that points close to the end of it.
        let numbers = [u64::MAX - 2048, 1024].map(u64::to_le_bytes).concat();
        let from = offset.wrapping_sub(u64::MAX - 32) as usize % 16;
        out.iter_mut().zip(numbers.iter().cycle().skip(from)).for_each(|(byte, new)| *byte = *new);
        Ok(())
    }
}

impl Store for Endless {
    fn open(&self, _key: &str, _want: Want) -> Result<Option<Box<dyn Object>>, Error> {
        Ok(Some(Box::new(Everything)))
    }

    fn update<'a>(&self, _key: &str, _need: Need, updater: &mut Updater<'_, 'a>) -> Result<Made<'a>, Error> {
        updater(Some(&Everything)).map(Made::from)
    }

    fn list(&self, _prefix: &str) -> Result<Vec<String>, Error> {
        Ok(Vec::new())
    }

    fn list_dir(&self, _prefix: &str) -> Result<Listing, Error> {
        Ok(Default::default())
    }

    fn delete_prefix(&self, _prefix: &str) -> Result<(), Error> {
        Ok(())
    }
}

#[test]
fn objects_of_any_size_are_read_within_bounds() {
    let array = compile(&[SIZE, SIZE], &[SIZE, SIZE], sharded(&[16, 32], raw(), false)).unwrap();
    let operation = Operation { array: &array, store: &Endless, prefix: "a/", interrupt: None, plan: None };
    let (done, peak) = measured(|| read_all(operation));
    assert_eq!(done.unwrap().len(), ITEMS + 36);
    assert!(peak < 1 << 20, "{peak}");
    write_all(operation, 1).unwrap();
    for codec in 0..CODECS {
        let array = compile(&[SIZE, SIZE], &[SIZE, SIZE], leaf(pipeline(codec))).unwrap();
        let (done, peak) = measured(|| read_all(Operation { array: &array, ..operation }));
        assert_eq!(done.unwrap_err().code, Some("wrong_size"));
        assert!(peak < 1 << 20, "{peak}");
    }
}

#[test]
fn a_sparse_file_as_a_shard_is_refused_before_its_bytes_are_read() {
    let folder = Folder::new("sparse");
    std::fs::create_dir_all(folder.0.join("a/c/0")).unwrap();
    let file = std::fs::File::create(folder.0.join(KEY)).unwrap();
    file.set_len(1 << 40).unwrap();
    let store = LocalStore::new(&folder.0, Settings::default()).unwrap();
    let shard = Level { codec: 3, checked: true, at_start: true };
    for levels in [&[][..], &[shard]] {
        let chain = chain(levels, 1, &[SIZE, SIZE], leaf);
        let array = compile(&[SIZE, SIZE], &[SIZE, SIZE], chain).unwrap();
        let operation = Operation { array: &array, store: &store, prefix: "a/", interrupt: None, plan: None };
        let (done, peak) = measured(|| read_all(operation));
        assert_eq!(done.unwrap_err().code, Some("wrong_size"));
        assert!(peak < 1 << 20, "{peak}");
    }
}

#[test]
fn kinds_of_damage_have_codes() {
    let store = MemoryStore::new();
    let stored: &dyn Store = &store;
    for codec in [1, 3, 4, 5] {
        let array = compile(&[SIZE, SIZE], &[SIZE, SIZE], leaf(pipeline(codec))).unwrap();
        let operation = Operation { array: &array, store: &store, prefix: "a/", interrupt: None, plan: None };
        write_all(operation, 0).unwrap();
        let mut bytes = stored.get(KEY).unwrap().unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        stored.put(KEY, &bytes).unwrap();
        let error = read_all(operation).unwrap_err();
        assert_eq!(error.code, Some("checksum_mismatch"), "{error:?}");
    }
    let array = compile(&[SIZE, SIZE], &[SIZE, SIZE], raw()).unwrap();
    let operation = Operation { array: &array, store: &store, prefix: "a/", interrupt: None, plan: None };
    stored.update(KEY, Need::NOTHING, &mut |_| Ok(Change::Write(vec![Part::Owned(vec![0; 5])]))).unwrap();
    assert_eq!(read_all(operation).unwrap_err().code, Some("wrong_size"));
}
