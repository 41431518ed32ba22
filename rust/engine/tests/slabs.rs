//! Reads of large uncompressed chunks in files: slabs and single elements.
#![allow(clippy::unwrap_used, clippy::panic, clippy::undocumented_unsafe_blocks)]

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use tessarr_engine::array::{Array, ArrayBytes, Chain, Grid, KeyEncoding, Missing, Plan};
use tessarr_engine::codec::chain::BytesCodecs;
use tessarr_engine::pipeline::operation::Operation;
use tessarr_engine::read;
use tessarr_engine::selection::{Request, Selection};
use tessarr_engine::store::{
    Depth, Listing, LocalStore, PrefixChange, ReadFlags, ReadHint, Settings, Store, StoreInfo, UpdateOptions,
    UpdateOutcome, Updater, ValueReader, Version,
};
use tessarr_engine::{Kind, Result};

const SIDE: usize = 1000;

/// Indices along one axis: even steps, or a few dense and a few scattered ones.
fn indices() -> impl Strategy<Value = Vec<i64>> {
    let side = SIDE as i64;
    let steps = (0..side, prop_oneof![1..40i64, -40..0i64], 1..SIDE).prop_map(move |(start, step, most)| {
        let steps = (0..most as i64).map(|number| start + number * step);
        steps.take_while(|index| (0..side).contains(index)).collect()
    });
    let dense = (0..side - 40, prop::collection::vec(0..40i64, 1..60))
        .prop_map(|(start, dense)| dense.into_iter().map(|index| start + index).collect::<Vec<_>>());
    let scattered = prop::collection::vec(0..side, 1..40);
    let mixed = (dense, scattered).prop_map(|(dense, scattered)| [dense, scattered].concat());
    prop_oneof![steps, mixed]
}

fn model() -> Vec<u32> {
    (0..(SIDE * SIDE) as u32).map(|item| item.wrapping_mul(2_654_435_761)).collect()
}

/// A file in a new folder with one chunk, in another axis and byte order, and its array.
fn stored(name: &str) -> (PathBuf, LocalStore, Array) {
    let folder = std::env::temp_dir().join(format!("tessarr-{name}-{}", std::process::id()));
    let store = LocalStore::new(&folder, Settings::default()).unwrap();
    let bytes: Vec<u8> = model().iter().flat_map(|item| item.to_be_bytes()).collect();
    (&store as &dyn Store).put("c/0/0", &bytes).unwrap();
    let chain = Chain {
        order: Some(vec![1, 0]),
        array_bytes: ArrayBytes::Bytes { swap: if cfg!(target_endian = "little") { 4 } else { 0 } },
        bytes_codecs: BytesCodecs::default(),
    };
    let array = Array::compile(Plan {
        shape: vec![SIDE as u64; 2],
        grid: Grid::Regular { chunk_shape: vec![SIDE as u64; 2], chain },
        item_bytes: 4,
        is_bool: false,
        is_vlen: false,
        fill: vec![0; 4],
        keys: KeyEncoding::Numbers { with_c: true, separator: '/' },
        store_fill: false,
        missing: Missing::Fill,
        cast: None,
    });
    (folder, store, array.unwrap())
}

/// A file whose reads each take some time.
struct Slow {
    file: Box<dyn ValueReader>,
    reads: Arc<AtomicUsize>,
}

impl ValueReader for Slow {
    fn size(&self) -> u64 {
        self.file.size()
    }

    fn version(&self) -> Option<Version> {
        self.file.version()
    }

    fn read_with(&self, offset: u64, out: &mut [u8], _: ReadFlags) -> Result<()> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(20));
        self.file.read_at(offset, out)
    }
}

/// A store of slow files.
#[derive(Debug)]
struct SlowStore {
    files: LocalStore,
    reads: Arc<AtomicUsize>,
}

impl Store for SlowStore {
    fn open(&self, key: &str, want: ReadHint) -> Result<Option<Box<dyn ValueReader>>> {
        let slow = |file| Box::new(Slow { file, reads: self.reads.clone() }) as Box<dyn ValueReader>;
        Ok(self.files.open(key, want)?.map(slow))
    }

    fn update<'a>(
        &self,
        key: &str,
        need: UpdateOptions,
        updater: &mut Updater<'_, 'a>,
    ) -> Result<UpdateOutcome<'a>> {
        self.files.update(key, need, updater)
    }

    fn info(&self) -> StoreInfo {
        StoreInfo { is_local: true, ..StoreInfo::default() }
    }

    fn list_keys(&self, prefix: &str, depth: Depth) -> Result<Listing> {
        self.files.list_keys(prefix, depth)
    }

    fn change_prefix(&self, prefix: &str, change: PrefixChange<'_>) -> Result<bool> {
        self.files.change_prefix(prefix, change)
    }
}

#[test]
fn interrupt_is_checked_between_slabs() {
    let (folder, files, array) = stored("interrupted");
    let reads = Arc::new(AtomicUsize::new(0));
    let store = SlowStore { files, reads: reads.clone() };
    let operation = Operation { interrupt: Some(&|| true), ..Operation::new(&array, &store, "") };
    let mut out = vec![0u32; SIDE * SIDE];
    // The columns are consecutive in the file; without their ends they are no single run.
    let range = |count, stride| Request::Range { start: 0, step: 1, count, stride };
    let requests = [range(SIDE - 1, 4), range(SIDE, 4 * SIDE as isize)];
    let selection = Selection::new(&requests, &array.shape).unwrap();
    let done = unsafe { read::read(operation, &selection, out.as_mut_ptr().cast()) };
    assert!(done.is_err_and(|error| error.kind == Kind::Interrupted));
    assert!((1..16).contains(&reads.load(Ordering::Relaxed)), "{reads:?}");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn slabs_contain_the_selected_elements() {
    let (folder, store, array) = stored("slabs");
    let model = model();
    let operation = Operation::new(&array, &store, "");
    let read = |requests: &[Request<'_>], items: usize| {
        let mut out = vec![0u32; items];
        let selection = Selection::new(requests, &array.shape).unwrap();
        unsafe { read::read(operation, &selection, out.as_mut_ptr().cast()) }.unwrap();
        out
    };
    let item = |row: i64, column: i64| model[column as usize * SIDE + row as usize];
    let config = ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(rows in indices(), columns in indices())| {
        let width = 4 * columns.len() as isize;
        let outer = [
            Request::List { indices: &rows, stride: width },
            Request::List { indices: &columns, stride: 4 },
        ];
        let expected: Vec<u32> =
            rows.iter().flat_map(|&row| columns.iter().map(move |&column| item(row, column))).collect();
        prop_assert!(read(&outer, expected.len()) == expected, "lists");
        // The same selection as ranges, where possible.
        let step = |list: &[i64]| if list.len() > 1 { list[1] - list[0] } else { 1 };
        let even = |list: &[i64]| step(list) != 0 && list.windows(2).all(|pair| pair[1] - pair[0] == step(list));
        if even(&rows) && even(&columns) {
            let range = |list: &[i64], stride| Request::Range {
                start: list[0],
                step: step(list),
                count: list.len(),
                stride,
            };
            let ranges = [range(&rows, width), range(&columns, 4)];
            prop_assert!(read(&ranges, expected.len()) == expected, "ranges");
        }
        let points = rows.len().min(columns.len());
        let joint = [&rows, &columns].map(|list| Request::Joint { indices: &list[..points], stride: 4 });
        let expected: Vec<u32> = rows.iter().zip(&columns).map(|(&row, &column)| item(row, column)).collect();
        prop_assert!(read(&joint, points) == expected, "points");
    });
    std::fs::remove_dir_all(folder).unwrap();
}
