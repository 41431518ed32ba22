//! Promises of every store, and of some.
#![allow(clippy::unwrap_used, clippy::panic)]

mod cache;
mod staged;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::*;
use crate::error::{Error, Kind};

/// A new folder, removed at the end of the test.
pub(super) struct Folder(pub(super) std::path::PathBuf);

impl Folder {
    pub(super) fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("tessarr-test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A foreign store over a map; `others` counts down changes by another process just before ours.
#[derive(Debug, Default)]
struct Map {
    items: Mutex<BTreeMap<String, Vec<u8>>>,
    has_replace: bool,
    others: AtomicU64,
}

impl Foreign for Map {
    fn get(self: &Arc<Self>, key: &str, _want: ReadHint) -> Result<Option<Box<dyn ValueReader>>> {
        let stored = self.items.lock().unwrap().get(key).cloned();
        Ok(stored.map(|bytes| Box::new(Unversioned(Arc::new(bytes))) as Box<dyn ValueReader>))
    }
    fn put(self: &Arc<Self>, key: &str, data: &[u8]) -> Result<Option<Version>> {
        self.items.lock().unwrap().insert(key.to_owned(), data.to_owned());
        Ok(None)
    }
    fn delete(self: &Arc<Self>, key: &str) -> Result<()> {
        self.items.lock().unwrap().remove(key);
        Ok(())
    }
    fn replace(
        self: &Arc<Self>,
        key: &str,
        data: Option<&[u8]>,
        expected: Option<&dyn ValueReader>,
    ) -> Result<ReplaceOutcome> {
        if !self.has_replace {
            return Ok(ReplaceOutcome::Unsupported);
        }
        let expected = expected.and_then(ValueReader::bytes);
        let mut items = self.items.lock().unwrap();
        if self.others.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok() {
            items.entry(key.to_owned()).or_default().push(b'!');
        }
        if items.get(key).map(Vec::as_slice) != expected {
            return Ok(ReplaceOutcome::Conflict);
        }
        match data {
            Some(data) => items.insert(key.to_owned(), data.to_owned()),
            None => items.remove(key),
        };
        Ok(ReplaceOutcome::Done(None))
    }
    fn list(self: &Arc<Self>, prefix: &str) -> Result<Vec<String>> {
        Ok(self.items.lock().unwrap().keys().filter(|key| key.starts_with(prefix)).rev().cloned().collect())
    }
    fn list_dir(self: &Arc<Self>, _prefix: &str) -> Result<Option<Listing>> {
        Ok(None)
    }
    fn change_prefix(self: &Arc<Self>, _prefix: &str, _change: PrefixChange<'_>) -> Result<bool> {
        Ok(false)
    }
}

/// Run `test` with each kind of store.
fn each(test: impl Fn(&dyn Store)) {
    let folder = Folder::new();
    let local: Arc<dyn Store> =
        Arc::new(LocalStore::new(&folder.0.join("root"), Settings::default()).unwrap());
    test(&*local);
    let durable =
        LocalStore::new(&folder.0.join("durable"), Settings { durable: true, ..Settings::default() })
            .unwrap();
    test(&durable);
    test(&MemoryStore::new());
    test(&ForeignStore::new(Map::default(), false, 1));
    test(&ForeignStore::new(Map { has_replace: true, ..Map::default() }, false, 2));
    let counted: Arc<dyn Store> = Arc::new(MemoryStore::new());
    test(&CountingStore::new(counted));
    let memory: Arc<dyn Store> = Arc::new(MemoryStore::new());
    test(&PrefixStore::new(memory.clone(), "a/b/").unwrap());
    test(&CachedStore::new(Arc::new(MemoryStore::new()), u64::MAX, None));
    test(&CachedStore::new(local_in(&folder, "cached"), 400, None));
    test(&CachePool::new(u64::MAX).store(local_in(&folder, "checked"), 7, Freshness::Now));
    test(&StagedStore::new(Arc::new(MemoryStore::new()), false));
    test(&StagedStore::new(local_in(&folder, "staged"), true));
    test(&CoalescingStore::new(local_in(&folder, "shared")));
    let latency = Latency { concurrency: 4, bytes_per_second: Some(1e12), ..Latency::default() };
    test(&InstrumentedStore::observed_by(Arc::new(MemoryStore::new()), latency));
}

fn local_in(folder: &Folder, name: &str) -> Arc<dyn Store> {
    Arc::new(LocalStore::new(&folder.0.join(name), Settings::default()).unwrap())
}

fn append<'a>(store: &dyn Store, key: &str, tail: &'a [u8]) -> Result<UpdateOutcome<'a>> {
    store.update(key, UpdateOptions::READ_CURRENT, &mut |current| {
        let mut parts = Vec::new();
        if let Some(current) = current {
            parts.push(ValuePart::Current { offset: 0, size: current.size() });
        }
        parts.push(ValuePart::Borrowed(tail));
        Ok(Change::Write(parts))
    })
}

#[test]
fn value_is_stored_replaced_and_removed() {
    each(|store| {
        assert_eq!(store.get("a/b").unwrap(), None);
        store.put("a/b", b"old and long").unwrap();
        store.put("a/b", b"new").unwrap();
        assert_eq!(store.get("a/b").unwrap().as_deref(), Some(&b"new"[..]));
        store.put("empty", b"").unwrap();
        assert_eq!(store.get("empty").unwrap().as_deref(), Some(&b""[..]));
        store.delete("a/b").unwrap();
        store.delete("a/b").unwrap();
        store.delete("never/was").unwrap();
        assert_eq!(store.get("a/b").unwrap(), None);
        assert_eq!(store.list("").unwrap(), ["empty"]);
    });
}

#[test]
fn opened_value_is_immutable() {
    each(|store| {
        store.put("k", b"first").unwrap();
        let object = store.open("k", ReadHint::Whole).unwrap().unwrap();
        store.put("k", b"second").unwrap();
        assert_eq!(read_all(&*object).unwrap(), b"first");
        let again = store.open("k", ReadHint::Whole).unwrap().unwrap();
        store.delete("k").unwrap();
        assert_eq!(read_all(&*again).unwrap(), b"second");
        assert!(object.version().is_none() || object.version() != again.version());
    });
}

#[test]
fn ranges_past_the_end_are_rejected() {
    each(|store| {
        store.put("k", b"0123456789").unwrap();
        let object = store.open("k", ReadHint::UnknownRanges).unwrap().unwrap();
        let mut out = [0; 3];
        object.read_at(7, &mut out).unwrap();
        assert_eq!(&out, b"789");
        object.read_at(10, &mut []).unwrap();
        for offset in [8, 10, 11, u64::MAX - 1, u64::MAX] {
            assert_eq!(object.read_at(offset, &mut out).unwrap_err().kind, Kind::Data, "{offset}");
        }
    });
}

#[test]
fn parts_are_concatenated_in_order() {
    each(|store| {
        store.put("k", b"0123456789").unwrap();
        let written = store
            .update("k", UpdateOptions::READ_CURRENT, &mut |_| {
                Ok(Change::Write(vec![
                    ValuePart::Owned(b"<".to_vec()),
                    ValuePart::Current { offset: 8, size: 2 },
                    ValuePart::Borrowed(b"|"),
                    ValuePart::Borrowed(b""),
                    ValuePart::Owned(b"|".to_vec()),
                    ValuePart::Current { offset: 0, size: 3 },
                    ValuePart::Current { offset: 10, size: 0 },
                ]))
            })
            .unwrap();
        assert!(matches!(written.change, Change::Write(parts) if parts.len() == 7));
        assert_eq!(store.get("k").unwrap().as_deref(), Some(&b"<89||012"[..]));
    });
}

#[test]
fn failed_change_preserves_old_value() {
    each(|store| {
        store.put("k", b"old").unwrap();
        let failure =
            store.update("k", UpdateOptions::READ_CURRENT, &mut |_| Err(Error::data("no"))).unwrap_err();
        assert_eq!(failure.kind, Kind::Data);
        let beyond = ValuePart::Current { offset: 2, size: 2 };
        let mut beyond = Some(Change::Write(vec![ValuePart::Borrowed(b"new"), beyond]));
        assert!(store.update("k", UpdateOptions::READ_CURRENT, &mut |_| Ok(beyond.take().unwrap())).is_err());
        assert!(matches!(
            store.update("k", UpdateOptions::READ_CURRENT, &mut |_| Ok(Change::Keep)).unwrap().change,
            Change::Keep
        ));
        assert_eq!(store.get("k").unwrap().as_deref(), Some(&b"old"[..]));
        assert_eq!(store.list("").unwrap(), ["k"]);
        let mut nothing = Some(Change::Write(vec![ValuePart::Current { offset: 0, size: 1 }]));
        assert!(store
            .update("absent", UpdateOptions::READ_CURRENT, &mut |_| Ok(nothing.take().unwrap()))
            .is_err());
        assert_eq!(store.get("absent").unwrap(), None);
    });
}

#[test]
fn replace_compares_and_sets() {
    each(|store| {
        assert!(!store.replace("k", Some(b"1"), Some(b"0")).unwrap());
        assert!(store.replace("k", Some(b"1"), None).unwrap());
        assert!(!store.replace("k", Some(b"2"), None).unwrap());
        assert!(!store.replace("k", Some(b"2"), Some(b"0")).unwrap());
        assert!(store.replace("k", Some(b"2"), Some(b"1")).unwrap());
        assert!(store.replace("k", None, Some(b"2")).unwrap());
        assert!(store.replace("k", None, None).unwrap());
        assert_eq!(store.get("k").unwrap(), None);
    });
}

#[test]
fn listings_are_sorted_and_complete_below_the_prefix() {
    each(|store| {
        let keys = ["a", "b-c/x", "b.c", "b/c/d", "b/c/e", "b/z", "c0/x", "c/y", "é/x", "zarr.json"];
        for key in keys {
            store.put(key, b"v").unwrap();
        }
        let mut sorted = keys.to_vec();
        sorted.sort_unstable();
        assert_eq!(store.list("").unwrap(), sorted);
        assert_eq!(store.list("b/").unwrap(), ["b/c/d", "b/c/e", "b/z"]);
        assert_eq!(store.list("nothing/").unwrap(), [""; 0]);
        assert_eq!(store.list("a/").unwrap(), [""; 0]);
        let top = store.list_dir("").unwrap();
        assert_eq!(top.keys, ["a", "b.c", "zarr.json"]);
        assert_eq!(top.prefixes, ["b-c/", "b/", "c/", "c0/", "é/"]);
        let below = store.list_dir("b/").unwrap();
        assert_eq!((below.keys, below.prefixes), (vec!["b/z".to_owned()], vec!["b/c/".to_owned()]));
        assert_eq!(store.list_dir("a/").unwrap(), Listing::default());
        store.delete_prefix("b/").unwrap();
        store.delete_prefix("nothing/").unwrap();
        store.delete_prefix("a/").unwrap();
        sorted.retain(|key| !key.starts_with("b/"));
        assert_eq!(store.list("").unwrap(), sorted);
        assert!(!store.list_dir("").unwrap().prefixes.contains(&"b/".to_owned()));
        store.delete_prefix("").unwrap();
        assert_eq!(store.list("").unwrap(), [""; 0]);
    });
}

#[test]
fn invalid_keys_are_rejected_by_every_call() {
    each(|store| {
        for key in ["", "/etc/passwd", "../x", "a/../../x", "a//b", "a/", "a\0b", "x.__lock"] {
            let prefix = format!("{key}/");
            let failures = [
                store.open(key, ReadHint::Whole).err(),
                store.put(key, b"").err(),
                store.delete(key).err(),
                store.replace(key, None, None).err(),
                store.list(&prefix).err(),
                store.list_dir(&prefix).err(),
                store.delete_prefix(&prefix).err(),
            ];
            for failure in failures {
                assert_eq!(failure.map(|error| error.kind), Some(Kind::Argument), "{key:?}");
            }
        }
        assert!(store.list("a").is_err());
    });
}

#[test]
fn concurrent_updates_of_one_key_are_serialized() {
    each(|store| {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..50).for_each(|_| drop(append(store, "k", b"+").unwrap())));
            }
        });
        assert_eq!(store.get("k").unwrap().map(|value| value.len()), Some(200));
        assert_eq!(store.list("").unwrap(), ["k"]);
    });
}

#[test]
fn updater_may_access_other_keys() {
    each(|store| {
        store.put("b", b"2").unwrap();
        store
            .update("a", UpdateOptions::READ_CURRENT, &mut |_| {
                store.put("c", b"3")?;
                Ok(Change::Write(vec![ValuePart::Owned(store.get("b")?.unwrap())]))
            })
            .unwrap();
        assert_eq!(store.get("a").unwrap().as_deref(), Some(&b"2"[..]));
        assert_eq!(store.get("c").unwrap().as_deref(), Some(&b"3"[..]));
    });
}

#[test]
fn foreign_store_update_retries_after_conflict() {
    let map = Map { has_replace: true, others: AtomicU64::new(3), ..Map::default() };
    let store = ForeignStore::new(map, false, 3);
    append(&store, "k", b"ours").unwrap();
    assert_eq!((&store as &dyn Store).get("k").unwrap().as_deref(), Some(&b"!!!ours"[..]));
}

#[test]
fn read_only_store_rejects_every_change() {
    let folder = Folder::new();
    let local = LocalStore::new(&folder.0, Settings { read_only: true, ..Settings::default() }).unwrap();
    let foreign = ForeignStore::new(Map::default(), true, 4);
    let guarded = ReadOnlyStore::new(Arc::new(MemoryStore::new()));
    for store in [&local as &dyn Store, &foreign, &guarded] {
        assert!(store.read_only());
        for failure in [store.put("k", b"").err(), store.delete("k").err(), store.delete_prefix("").err()] {
            assert_eq!(failure.map(|error| error.kind), Some(Kind::ReadOnly));
        }
        assert_eq!(store.get("k").unwrap(), None);
    }
}

#[test]
fn counting_store_counts_calls() {
    let store = CountingStore::new(Arc::new(MemoryStore::new()));
    append(&store, "k", b"12345").unwrap();
    append(&store, "k", b"6").unwrap();
    let object = store.open("k", ReadHint::UnknownRanges).unwrap().unwrap();
    object.read_at(1, &mut [0; 4]).unwrap();
    store.list("").unwrap();
    let expected = Counts {
        opens: 1,
        reads: 1,
        read_bytes: 4,
        updates: 2,
        looks: 2,
        written_bytes: 6,
        lists: 1,
        ..Counts::default()
    };
    assert_eq!(store.counts(), expected);
}

#[test]
fn lock_below_a_file_is_the_error_of_a_change() -> Result<()> {
    let folder = Folder::new();
    let store = LocalStore::new(&folder.0, Settings::default())?;
    (&store as &dyn Store).put("a", b"1")?;
    let changed = append(&store, "a/b", b"2").err().map(|error| error.message);
    let held = store.hold("a/b", &mut || Ok(())).err().map(|error| error.message);
    assert!(changed.is_some());
    assert_eq!(held, changed);
    Ok(())
}

#[test]
fn prefix_store_hides_other_keys() {
    let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
    for key in ["a/b", "a/c/d", "ab", "b"] {
        inner.put(key, key.as_bytes()).unwrap();
    }
    let store = PrefixStore::new(inner.clone(), "a/").unwrap();
    assert_eq!(store.list("").unwrap(), ["b", "c/d"]);
    assert_eq!(store.list_dir("").unwrap().prefixes, ["c/"]);
    (&store as &dyn Store).put("new", b"").unwrap();
    store.delete_prefix("").unwrap();
    assert_eq!(inner.list("").unwrap(), ["ab", "b"]);
    assert_eq!(PrefixStore::new(inner, "a").err().map(|error| error.kind), Some(Kind::Argument));
}

#[derive(Debug, Default)]
struct Notes(Mutex<Vec<String>>);

impl StoreObserver for Notes {
    fn after(&self, call: Call, key: &str, done: &CallReport<'_>) -> Result<()> {
        let note = format!("{} {key} {} {}", call.name(), done.bytes, done.error.is_some());
        self.0.lock().unwrap().push(note);
        Ok(())
    }
}

#[test]
fn instrumented_store_reports_every_call() {
    let watched = InstrumentedStore::observed_by(Arc::new(MemoryStore::new()), Notes::default());
    let store: &dyn Store = &watched;
    store.put("k", b"123").unwrap();
    store.get("k").unwrap();
    store.get("../k").unwrap_err();
    store.list("").unwrap();
    store.delete_prefix("").unwrap();
    let notes = watched.observer().0.lock().unwrap();
    let expected =
        ["update k 3 false", "open k 3 false", "open ../k 0 true", "list  0 false", "delete_prefix  0 false"];
    assert_eq!(notes[..], expected);
}

#[test]
fn memory_store_takes_well_fitting_buffers_only() {
    let store = MemoryStore::new();
    for (capacity, given_back) in [(100, false), (1000, true)] {
        let mut buffer = Vec::with_capacity(capacity);
        buffer.resize(100, 7u8);
        let mut buffer = Some(buffer);
        let change = store
            .update("k", UpdateOptions::UNCONDITIONAL, &mut |_| {
                Ok(Change::Write(vec![ValuePart::Owned(buffer.take().unwrap())]))
            })
            .unwrap();
        let Change::Write(parts) = change.change else { panic!() };
        assert!(
            matches!(&parts[..], [ValuePart::Owned(bytes)] if (bytes.capacity() >= capacity) == given_back)
        );
        assert_eq!((&store as &dyn Store).get("k").unwrap().unwrap(), vec![7; 100]);
    }
}

#[test]
fn named_memory_stores_are_shared() {
    let (first, second) = (MemoryStore::named("tests.rs"), MemoryStore::named("tests.rs"));
    (&*first as &dyn Store).put("k", b"v").unwrap();
    assert_eq!((&*second as &dyn Store).get("k").unwrap().as_deref(), Some(&b"v"[..]));
}

#[test]
fn coalesced_read_sends_one_request() -> Result<()> {
    let folder = Folder::new();
    let inner = local_in(&folder, "coalesced");
    inner.put("k", &[7; 100])?;
    let counting = Arc::new(CountingStore::new(inner));
    let shared = CoalescingStore::new(counting.clone());
    ["k", "absent"].iter().for_each(|key| shared.expect_hint(key, ReadHint::UnknownRanges));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let Ok(Some(object)) = shared.open("k", ReadHint::UnknownRanges) else { return };
                let mut out = [0; 10];
                assert!(object.read_at(20, &mut out).is_ok());
                assert_eq!(out, [7; 10]);
                assert!(shared.open("absent", ReadHint::Whole).is_ok_and(|stored| stored.is_none()));
            });
        }
    });
    assert_eq!((counting.counts().opens, counting.counts().reads), (2, 1));
    (&shared as &dyn Store).put("k", &[8; 100])?;
    assert_eq!((&shared as &dyn Store).get("k")?.as_deref(), Some(&[8; 100][..]));
    Ok(())
}

#[test]
fn unannounced_keys_bypass_coalescing() -> Result<()> {
    let folder = Folder::new();
    let inner = local_in(&folder, "unexpected");
    inner.put("a/k", b"1")?;
    let shared = CoalescingStore::new(inner.clone());
    shared.expect_hint("b/k", ReadHint::Whole);
    assert!(shared.expects("b/k") && shared.expects_below("b/") && !shared.expects_below("a/"));
    assert_eq!((&shared as &dyn Store).get("a/k")?.as_deref(), Some(&b"1"[..]));
    inner.put("a/k", b"2")?;
    assert_eq!((&shared as &dyn Store).get("a/k")?.as_deref(), Some(&b"2"[..]));
    assert!(
        shared.cache_state("a/k").coalesced_since.is_none()
            && shared.cache_state("b/k").coalesced_since.is_some()
    );
    Ok(())
}

/// A store whose first read is interrupted.
#[derive(Debug)]
struct Interrupted(Arc<dyn Store>, AtomicUsize);

impl Store for Interrupted {
    fn open(&self, key: &str, hint: ReadHint) -> Result<Option<Box<dyn ValueReader>>> {
        match self.1.fetch_add(1, Ordering::SeqCst) {
            0 => Err(Error::new(Kind::Interrupted, "interrupted")),
            _ => self.0.open(key, hint),
        }
    }

    fn update<'a>(
        &self,
        key: &str,
        options: UpdateOptions,
        updater: &mut Updater<'_, 'a>,
    ) -> Result<UpdateOutcome<'a>> {
        self.0.update(key, options, updater)
    }

    fn list_keys(&self, prefix: &str, depth: Depth) -> Result<Listing> {
        self.0.list_keys(prefix, depth)
    }

    fn change_prefix(&self, prefix: &str, change: PrefixChange<'_>) -> Result<bool> {
        self.0.change_prefix(prefix, change)
    }
}

#[test]
fn interrupt_of_one_reader_does_not_affect_others() -> Result<()> {
    let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
    inner.put("k", b"1")?;
    let shared = CoalescingStore::new(Arc::new(Interrupted(inner, AtomicUsize::new(0))));
    shared.expect("k", None);
    let store: &dyn Store = &shared;
    let first = store.get("k").map_err(|error| error.kind);
    assert_eq!((first, store.get("k")?), (Err(Kind::Interrupted), Some(b"1".to_vec())));
    Ok(())
}

#[test]
fn announced_nearby_ranges_are_coalesced() -> Result<()> {
    let folder = Folder::new();
    let inner = local_in(&folder, "expected");
    let value: Vec<u8> = (0..100_000_u32).map(|k| k as u8).collect();
    inner.put("k", &value)?;
    let counting = Arc::new(CountingStore::new(inner));
    let shared = CoalescingStore::new(counting.clone());
    let spans = [(0, Some(10)), (4_000, Some(4_100)), (5, Some(3_000)), (-50, None), (99_900, Some(99_980))];
    for span in spans {
        shared.expect("k", Some(span));
    }
    shared.expect("k", Some((200_000, None))); // beyond the end of the value
    let Ok(Some(object)) = shared.open("k", ReadHint::UnknownRanges) else {
        return Err(Error::internal("absent"));
    };
    for (first, last) in spans {
        let begin = if first < 0 { value.len() as i64 + first } else { first } as usize;
        let end = last.map_or(value.len(), |last| last as usize);
        let mut out = vec![0; end - begin];
        object.read_at(begin as u64, &mut out)?;
        assert_eq!(out, value[begin..end]);
    }
    assert_eq!((counting.counts().opens, counting.counts().reads), (1, 2));
    Ok(())
}
