//! Tests with damaged and hostile stored bytes.
//!
//! Reads return an error of the right class, do not panic, and allocate no more memory than the
//! metadata allows.
#![allow(clippy::unwrap_used, clippy::panic, clippy::undocumented_unsafe_blocks)]

mod damaged;
mod limits;
mod shards;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use proptest::prelude::*;
use tessarr_engine::array::{Array, ArrayBytes, Cast, Chain, Grid, KeyEncoding, Missing, Plan};
use tessarr_engine::codec::chain::BytesCodecs;
use tessarr_engine::codec::Config;
use tessarr_engine::pipeline::operation::Operation;
use tessarr_engine::selection::{Request, Selection};
use tessarr_engine::store::{
    Change, Depth, Listing, LocalStore, MemoryStore, PrefixChange, ReadFlags, ReadHint, Settings, Store,
    UpdateOptions, UpdateOutcome, Updater, ValuePart, ValueReader,
};
use tessarr_engine::vlen::{self, Handle, HANDLE_BYTES};
use tessarr_engine::{read, write, Error, Kind};

/// The system's allocator, with a count of the bytes that each thread has in use. Measured code
/// runs on the thread of its test, while other tests run.
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
    // A thread that ends frees memory after its counters are dropped.
    let _ = IN_USE.try_with(|in_use| {
        in_use.set(in_use.get() + bytes);
        PEAK.with(|peak| peak.set(peak.get().max(in_use.get())));
    });
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The result of `work`, and the maximum number of bytes that it had in use.
fn measured<R>(work: impl FnOnce() -> R) -> (R, usize) {
    let before = IN_USE.get();
    PEAK.set(before);
    let result = work();
    (result, (PEAK.get() - before) as usize)
}

const SIZE: u64 = 32;
const ITEMS: usize = (SIZE * SIZE) as usize;
const KEY: &str = "a/c/0/0";

/// The contexts of codecs, created once per thread and reused; and per level of sharding an index
/// and twice a chunk and 64 KiB, which other writers may need.
const MAX_BYTES: usize = 1 << 20;

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

fn bytes_codecs(codec: u8) -> BytesCodecs {
    BytesCodecs::new(specs(codec).into_iter().map(|spec| spec.compile().unwrap()).collect())
}

/// Elements under `bytes_codecs`.
fn leaf(bytes_codecs: BytesCodecs) -> Chain {
    Chain { order: None, array_bytes: ArrayBytes::Bytes { swap: 0 }, bytes_codecs }
}

/// Text under `bytes_codecs`.
fn text(bytes_codecs: BytesCodecs) -> Chain {
    let array_bytes = ArrayBytes::Vlen(vlen::Kind { is_text: true, unit_bytes: 1 });
    Chain { order: None, array_bytes, bytes_codecs }
}

/// A chain of `levels` of sharding, each by halves, above elements under `codec`.
fn chain(levels: &[Level], codec: u8, shape: &[u64], leaf_of: fn(BytesCodecs) -> Chain) -> Chain {
    let Some((level, inner)) = levels.split_first() else { return leaf_of(bytes_codecs(codec)) };
    let checked = || BytesCodecs::new(vec![Config::new("crc32c").with("at_start", false).compile().unwrap()]);
    let index = if level.checked { checked() } else { BytesCodecs::default() };
    let subchunk_shape: Vec<u64> = shape.iter().map(|size| size / 2).collect();
    Chain {
        order: None,
        array_bytes: ArrayBytes::Sharding {
            chain: Box::new(chain(inner, codec, &subchunk_shape, leaf_of)),
            subchunk_shape,
            index_chain: Box::new(leaf(index)),
            index_at_start: level.at_start,
        },
        bytes_codecs: bytes_codecs(level.codec),
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
        cast: None,
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
        cast: None,
    })
    .unwrap()
}

fn raw() -> Chain {
    leaf(BytesCodecs::default())
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
        bytes_codecs: BytesCodecs::default(),
    }
}

fn range(start: i64, step: i64, count: usize, stride: isize) -> Request<'static> {
    Request::Range { start, step, count, stride }
}

/// All elements, the first item of each axis, and a part by steps.
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

/// Read and write all selections of text elements.
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

/// A folder for one test, removed at its end.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        Folder(std::env::temp_dir().join(format!("tessarr-hostile-{name}-{}", std::process::id())))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // The folder may not exist.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
