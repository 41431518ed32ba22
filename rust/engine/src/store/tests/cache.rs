//! Tests of the read cache: what it holds and what it requests again.

use super::*;

#[test]
fn cache_contains_its_own_writes() -> Result<()> {
    let (store, counting, inner) = cached(u64::MAX);
    inner.put("k", b"1")?;
    for tail in [b"2", b"3"] {
        append(&store, "k", tail)?;
    }
    assert_eq!(inner.get("k")?.as_deref(), Some(&b"123"[..]));
    assert_eq!(counting.counts().looks, 1);
    assert!((&store as &dyn Store).get("absent")?.is_none());
    append(&store, "absent", b"4")?;
    assert_eq!(counting.counts().looks, 1);
    let checked = CachePool::new(u64::MAX).store(counting.clone(), 1, Freshness::Now);
    let read = |value: &[u8]| {
        let before = counting.counts().opens;
        assert_eq!((&checked as &dyn Store).get("k").unwrap().as_deref(), Some(value));
        counting.counts().opens - before
    };
    read(b"123");
    inner.put("k", b"changed")?;
    assert_eq!([read(b"changed"), read(b"changed")], [1, 1]);
    inner.put("gone", b"5")?;
    assert_eq!((&store as &dyn Store).get("gone")?.as_deref(), Some(&b"5"[..]));
    inner.delete("gone")?;
    append(&store, "gone", b"6")?; // the value differs from the cached one
    assert_eq!(inner.get("gone")?.as_deref(), Some(&b"6"[..]));
    Ok(())
}

/// A cache over a counting store, the counting store, and the store below.
fn cached(limit: u64) -> (CachedStore, Arc<CountingStore>, Arc<dyn Store>) {
    let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let counting = Arc::new(CountingStore::new(inner.clone()));
    (CachedStore::new(counting.clone(), limit, None), counting, inner)
}

#[test]
fn cache_reads_once_and_invalidates_on_write() {
    let (cache, counting, inner) = cached(u64::MAX);
    let store: &dyn Store = &cache;
    inner.put("a/k", b"1").unwrap();
    for _ in 0..3 {
        assert_eq!(store.get("a/k").unwrap().as_deref(), Some(&b"1"[..]));
        assert_eq!(store.get("a/absent").unwrap(), None);
        assert_eq!(store.list("a/").unwrap(), ["a/k"]);
        assert_eq!(store.list_dir("").unwrap().prefixes, ["a/"]);
    }
    assert_eq!((counting.counts().opens, counting.counts().lists), (2, 2));
    assert_eq!((cache.counts().hits, cache.counts().misses), (8, 4));
    store.put("a/absent", b"2").unwrap();
    assert_eq!(store.get("a/absent").unwrap().as_deref(), Some(&b"2"[..]));
    assert_eq!(store.list("a/").unwrap(), ["a/absent", "a/k"]);
    inner.put("a/k", b"others").unwrap();
    assert_eq!(store.get("a/k").unwrap().as_deref(), Some(&b"1"[..]));
    assert!(!store.replace("a/k", Some(b"3"), Some(b"1")).unwrap());
    assert_eq!(store.get("a/k").unwrap().as_deref(), Some(&b"others"[..]));
    inner.delete("a/k").unwrap();
    cache.clear();
    assert_eq!(store.list("").unwrap(), ["a/absent"]);
    assert_eq!(store.get("a/k").unwrap(), None);
}

#[test]
fn cache_evicts_least_recently_used_entries() {
    let (cache, counting, inner) = cached(3 * 1200);
    let store: &dyn Store = &cache;
    for key in ["a", "b", "c", "d"] {
        inner.put(key, &[7; 1000]).unwrap();
    }
    for key in ["a", "b", "a", "c", "a", "d", "a"] {
        store.get(key).unwrap();
    }
    assert_eq!(counting.counts().opens, 4);
    store.get("b").unwrap(); // least recently used
    assert_eq!(counting.counts().opens, 5);
    assert!(cache.counts().bytes <= 3 * 1200);
    inner.put("large", &[7; 4000]).unwrap();
    store.get("large").unwrap();
    store.get("a").unwrap();
    assert_eq!(counting.counts().opens, 6);
}

#[test]
fn cache_stores_ranges_of_a_large_value() {
    let (_, _, inner) = cached(0);
    let folder = Folder::new();
    let local = local_in(&folder, "root");
    drop(inner);
    let counting = Arc::new(CountingStore::new(local.clone()));
    let cache = CachedStore::new(counting.clone(), u64::MAX, None);
    local.put("shard", b"0123456789").unwrap();
    for _ in 0..3 {
        let object = cache.open("shard", ReadHint::Suffix(4)).unwrap().unwrap();
        let mut out = [0; 4];
        object.read_at(6, &mut out).unwrap();
        assert_eq!((&out, object.size()), (b"6789", 10));
    }
    let object = cache.open("shard", ReadHint::Suffix(2)).unwrap().unwrap();
    let mut out = [0; 2];
    object.read_at(7, &mut out).unwrap(); // inside the cached range
    assert_eq!(&out, b"78");
    assert_eq!((counting.counts().opens, counting.counts().reads), (1, 1));
    local.put("shard", b"others wrote this").unwrap();
    let failed = object.read_at(0, &mut [0; 2]).unwrap_err();
    assert_eq!(failed.kind, Kind::Store { retryable: true, errno: None });
    let object = cache.open("shard", ReadHint::UnknownRanges).unwrap().unwrap();
    assert_eq!(object.size(), 17);
}

#[test]
fn coalesced_ranges_are_one_read_in_any_order() -> Result<()> {
    let folder = Folder::new();
    let local = local_in(&folder, "root");
    local.put("shard", b"0123456789")?;
    for order in [[false, true, true], [true, false, true], [true, true, false]] {
        let counting = Arc::new(CountingStore::new(local.clone()));
        let cache = CachedStore::new(counting.clone(), u64::MAX, None);
        let known = cache.open("shard", ReadHint::Suffix(2))?.unwrap();
        known.read_at(8, &mut [0; 2])?;
        // Opened below only for another range.
        let object = cache.open("shard", ReadHint::Suffix(2))?.unwrap();
        let before = counting.counts().reads;
        for (number, more) in order.into_iter().enumerate() {
            object.read_with(
                number as u64 * 2,
                &mut [0; 2],
                ReadFlags { continues_request: more, ..ReadFlags::default() },
            )?;
        }
        assert_eq!(counting.counts().reads - before, 1, "{order:?}");
    }
    Ok(())
}

#[test]
fn value_replaced_between_parts_is_reread() {
    let (_, _, inner) = cached(0);
    let cache: &dyn Store = &CachedStore::new(inner, 20 << 10, None);
    let suffix = |object: &dyn ValueReader, out: &mut [u8]| object.read_at(object.size() - 4, out);
    // The values are too large to be cached completely; their ends are cached.
    let value = |letter: u8| vec![letter; 30 << 10];
    cache.put("shard", &value(b'a')).unwrap();
    for _ in 0..2 {
        let object = cache.open("shard", ReadHint::Suffix(4)).unwrap().unwrap();
        suffix(&*object, &mut [0; 4]).unwrap();
    }
    let mut times = 0;
    let read = cache.read("shard", ReadHint::Suffix(4), |object| {
        times += 1;
        let (object, mut out) = (object.unwrap(), [0; 8]);
        suffix(&*object, &mut out[4..])?;
        if times == 1 {
            cache.put("shard", &value(b'b')).unwrap();
        }
        object.read_at(0, &mut out[..4])?;
        Ok(out)
    });
    assert_eq!((read.unwrap(), times), (*b"bbbbbbbb", 2));
}

#[test]
fn expired_entries_are_reread() {
    let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let cache = CachedStore::new(inner.clone(), u64::MAX, Some(std::time::Duration::ZERO));
    let store: &dyn Store = &cache;
    assert_eq!(store.get("k").unwrap(), None);
    inner.put("k", b"1").unwrap();
    assert_eq!(store.get("k").unwrap().as_deref(), Some(&b"1"[..]));
}

#[test]
fn entry_age_includes_age_in_lower_cache() -> Result<()> {
    let (first, counting, inner) = cached(u64::MAX);
    inner.put("a/k", b"old")?;
    for key in ["a/k", "a/absent"] {
        (&first as &dyn Store).get(key)?;
    }
    inner.put("a/k", b"new")?;
    inner.put("a/absent", b"new")?;
    let (pool, now) = (CachePool::new(u64::MAX), std::time::Instant::now());
    let below = |inner: Arc<dyn Store>| PrefixStore::new(inner, "a/").map(Arc::new);
    let any = pool.store(below(Arc::new(first))?, 0, Freshness::Always);
    let late = pool.store(below(counting.clone())?, 0, Freshness::Since(now));
    for (key, old) in [("k", Some(&b"old"[..])), ("absent", None)] {
        assert_eq!((&any as &dyn Store).get(key)?.as_deref(), old);
        assert_eq!((&late as &dyn Store).get(key)?.as_deref(), Some(&b"new"[..]));
        let opens_before = counting.counts().opens;
        assert_eq!((&late as &dyn Store).get(key)?.as_deref(), Some(&b"new"[..]));
        assert_eq!(counting.counts().opens, opens_before);
    }
    Ok(())
}

#[test]
fn read_during_change_is_not_cached() {
    let (cache, _, inner) = cached(u64::MAX);
    let store: &dyn Store = &cache;
    inner.put("k", b"old").unwrap();
    let object = store.open("k", ReadHint::UnknownRanges).unwrap().unwrap();
    store.put("k", b"new").unwrap();
    assert_eq!(read_all(&*object).unwrap(), b"old");
    assert_eq!(store.get("k").unwrap().as_deref(), Some(&b"new"[..]));
}

/// A cache that validates every entry, over a folder.
fn compared(folder: &Folder) -> (CachedStore, Arc<CountingStore>, Arc<dyn Store>) {
    let local = local_in(folder, "root");
    let counting = Arc::new(CountingStore::new(local.clone()));
    (CachePool::new(u64::MAX).store(counting.clone(), 0, Freshness::Now), counting, local)
}

#[test]
fn written_value_is_a_cache_hit() {
    let folder = Folder::new();
    let (cache, counting, local) = compared(&folder);
    let store: &dyn Store = &cache;
    store.put("k", b"0123456789").unwrap();
    assert_eq!(store.get("k").unwrap().as_deref(), Some(&b"0123456789"[..]));
    assert_eq!((counting.counts().opens, counting.counts().reads), (1, 0));
    local.put("k", b"9876543210").unwrap();
    assert_eq!(store.get("k").unwrap().as_deref(), Some(&b"9876543210"[..]));
    store.put("k", b"0123456789").unwrap();
    // The same size, in the same tick.
    std::fs::write(folder.0.join("root/k"), b"in place..").unwrap();
    assert_eq!(store.get("k").unwrap().as_deref(), Some(&b"in place.."[..]));
}

#[test]
fn written_value_matches_unversioned_read() -> Result<()> {
    let folder = Folder::new();
    let (cache, _, _) = compared(&folder);
    let store: &dyn Store = &cache;
    for value in [&b"small"[..], &vec![1; 1 << 21]] {
        store.put("k", value)?;
        let seen = Expected::of(store.open("k", ReadHint::UnknownRanges)?.as_deref())?;
        for hint in [ReadHint::UnknownRanges, ReadHint::Whole, ReadHint::UnknownRanges] {
            cache.clear();
            assert!(seen.matches(store.open("k", hint)?.as_deref())?);
            assert!(seen.matches(store.open("k", hint)?.as_deref())?);
        }
    }
    Ok(())
}

#[test]
fn new_parts_of_written_value_are_cache_hits() {
    let folder = Folder::new();
    let (cache, counting, local) = compared(&folder);
    local.put("k", &[1; 8 << 20]).unwrap(); // not read completely
    append(&cache, "k", b"tail").unwrap();
    let before = counting.counts().reads;
    let object = cache.open("k", ReadHint::Suffix(4)).unwrap().unwrap();
    let mut out = [0; 4];
    object.read_at(8 << 20, &mut out).unwrap();
    assert_eq!((&out, counting.counts().reads - before), (b"tail", 0));
    object.read_at(0, &mut out).unwrap();
    assert_eq!((out, counting.counts().reads - before), ([1; 4], 1));
}

#[test]
fn update_of_cached_value_does_not_read() {
    let folder = Folder::new();
    let (cache, _, local) = compared(&folder);
    let store: &dyn Store = &cache;
    let in_memory = || {
        let mut cached_count = None;
        let look = &mut |current: Option<&dyn ValueReader>| {
            cached_count = current.unwrap().bytes().map(<[u8]>::to_vec);
            Ok(Change::Keep)
        };
        store.update("k", UpdateOptions::READ_CURRENT, look).unwrap();
        cached_count
    };
    store.put("k", b"0123456789").unwrap();
    assert_eq!(in_memory().as_deref(), Some(&b"0123456789"[..]));
    store.put("k", b"0123456789").unwrap();
    local.put("k", b"9876543210").unwrap();
    assert_eq!(in_memory().as_deref(), Some(&b"9876543210"[..]));
}

/// The reader of a key, and its cache of decoded chunks.
fn opened(store: &CachedStore, hint: ReadHint) -> Box<dyn ValueReader> {
    store.open("k", hint).unwrap().unwrap()
}

fn cached_chunk(object: &dyn ValueReader, (offset, size): (u64, u64), level: u64) -> Option<Vec<u8>> {
    object.decoded_cache().and_then(|chunks| chunks.get(offset, size, level)).map(|bytes| bytes.to_vec())
}

#[test]
fn decoded_chunks_belong_to_their_value() {
    for size in [10, 2 << 20] {
        let (store, counting, inner) = cached(u64::MAX);
        inner.put("k", &vec![1; size]).unwrap();
        let object = opened(&store, ReadHint::UnknownRanges);
        object.decoded_cache().unwrap().insert(2, 3, 7, vec![4, 5]);
        for hint in [ReadHint::UnknownRanges, ReadHint::Whole] {
            let again = opened(&store, hint);
            assert_eq!(cached_chunk(&*again, (2, 3), 7), Some(vec![4, 5]));
            assert_eq!((cached_chunk(&*again, (2, 3), 8), cached_chunk(&*again, (2, 4), 7)), (None, None));
        }
        assert_eq!(counting.counts().opens, 1);
        (&store as &dyn Store).put("k", &vec![2; size]).unwrap();
        assert_eq!(cached_chunk(&*opened(&store, ReadHint::UnknownRanges), (2, 3), 7), None);
        // Of a value that no longer exists.
        object.decoded_cache().unwrap().insert(2, 3, 7, vec![4, 5]);
        assert_eq!(cached_chunk(&*opened(&store, ReadHint::UnknownRanges), (2, 3), 7), None);
    }
}

#[test]
fn lower_cache_stores_decoded_chunks() {
    let folder = Folder::new();
    let (_, counting, inner) = compared(&folder);
    inner.put("k", &vec![1; 2 << 20]).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(30)); // until the file has a version
    let below: Arc<dyn Store> = Arc::new(CachedStore::new(counting.clone(), u64::MAX, None));
    let above = || CachePool::new(u64::MAX).store(below.clone(), 0, Freshness::Always);
    opened(&above(), ReadHint::Suffix(9)).decoded_cache().unwrap().insert(2, 3, 7, vec![4, 5]);
    let later = above();
    for hint in [ReadHint::Suffix(9), ReadHint::UnknownRanges] {
        assert_eq!(cached_chunk(&*opened(&later, hint), (2, 3), 7), Some(vec![4, 5]));
    }
    assert_eq!((counting.counts().opens, counting.counts().reads), (1, 0));
}

#[test]
fn compare_through_another_cache_does_not_read() -> Result<()> {
    let folder = Folder::new();
    let (_, counting, inner) = compared(&folder);
    inner.put("k", b"value")?;
    std::thread::sleep(std::time::Duration::from_millis(30)); // until the file has a version
    let small = CachePool::new(400).store(counting.clone(), 0, Freshness::Now);
    let store = CachePool::new(u64::MAX).store(Arc::new(small), 0, Freshness::Now);
    for _ in 0..3 {
        assert_eq!((&store as &dyn Store).get("k")?.as_deref(), Some(&b"value"[..]));
        (&store as &dyn Store).get("others, which take its place")?;
    }
    assert_eq!(counting.counts().reads, 1);
    Ok(())
}

#[test]
fn decoded_chunks_are_invalid_after_foreign_write() {
    let (_, counting, inner) = cached(0);
    let store = CachePool::new(u64::MAX).store(counting, 1, Freshness::Now);
    inner.put("k", b"one").unwrap();
    opened(&store, ReadHint::Whole).decoded_cache().unwrap().insert(0, 3, 7, vec![4]);
    assert_eq!(cached_chunk(&*opened(&store, ReadHint::Whole), (0, 3), 7), Some(vec![4]));
    inner.put("k", b"two").unwrap();
    assert_eq!(cached_chunk(&*opened(&store, ReadHint::Whole), (0, 3), 7), None);
}

#[test]
fn value_is_evicted_before_its_decoded_chunk() {
    let (store, counting, inner) = cached(10_000);
    inner.put("k", &[1; 6000]).unwrap();
    opened(&store, ReadHint::Whole).decoded_cache().unwrap().insert(0, 6000, 7, vec![2; 8000]);
    let again = opened(&store, ReadHint::Whole);
    assert_eq!((cached_chunk(&*again, (0, 6000), 7), again.bytes()), (Some(vec![2; 8000]), None));
    assert_eq!(counting.counts().opens, 1);
    assert!(store.counts().bytes <= 10_000);
    assert!(!again.decoded_cache().unwrap().has_room(10_001));
}

/// Runs a callback once, before a value is opened.
#[derive(Default)]
struct Between(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl std::fmt::Debug for Between {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Between")
    }
}

impl StoreObserver for Between {
    fn after(&self, _: Call, _: &str, _: &CallReport<'_>) -> Result<()> {
        let work = self.0.lock().unwrap().take();
        work.into_iter().for_each(|work| work());
        Ok(())
    }
}

#[test]
fn concurrent_reads_do_not_mix_values() {
    let first_bytes = |object: &dyn ValueReader| {
        let mut out = [0; 4];
        object.read_at(0, &mut out).map(|()| out)
    };
    for newer_first in [false, true] {
        let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
        inner.put("k", &[1; 30 << 10]).unwrap(); // too large to be cached completely
        let watched = Arc::new(InstrumentedStore::observed_by(inner.clone(), Between::default()));
        let store = Arc::new(CachePool::new(20 << 10).store(watched.clone(), 0, Freshness::Always));
        let newer = Arc::new(Mutex::new(None));
        let (other, cached_count) = (store.clone(), newer.clone());
        let overtake = move || {
            inner.put("k", &[2; 30 << 10]).unwrap();
            *cached_count.lock().unwrap() = Some(opened(&other, ReadHint::UnknownRanges));
        };
        *watched.observer().0.lock().unwrap() = Some(Box::new(overtake));
        let older = opened(&store, ReadHint::UnknownRanges);
        let newer = newer.lock().unwrap().take().unwrap();
        if newer_first {
            assert_eq!(first_bytes(&*newer).unwrap(), [2; 4]);
        }
        assert_eq!(first_bytes(&*older).unwrap(), [1; 4]);
        assert_eq!(first_bytes(&*newer).unwrap(), [2; 4]);
        assert_eq!(first_bytes(&*older).unwrap(), [1; 4]);
    }
}

#[test]
fn decoded_chunk_is_not_evicted_by_its_value() {
    // How many chunks stay cached, whether the value does, and how often it is requested.
    let stay = |inner: Arc<dyn Store>, chunks: &[(u64, u64)], bytes: usize| {
        inner.put("k", &[1; 6000]).unwrap();
        let counting = Arc::new(CountingStore::new(inner));
        let store = CachedStore::new(counting.clone(), 10_000, None);
        let object = opened(&store, ReadHint::Whole);
        for &(offset, size) in chunks {
            object.decoded_cache().unwrap().insert(offset, size, 7, vec![2; bytes]);
        }
        let again = opened(&store, ReadHint::Whole);
        let cached_count = chunks.iter().filter(|&&chunk| cached_chunk(&*again, chunk, 7).is_some()).count();
        assert!(store.counts().bytes <= 10_000);
        (cached_count, again.bytes().is_some(), counting.counts().opens)
    };
    let with_versions = || -> Arc<dyn Store> { Arc::new(MemoryStore::new()) };
    let without = || -> Arc<dyn Store> { Arc::new(ForeignStore::new(Map::default(), false, 0)) };
    let parts = [(0, 3000), (3000, 3000)];
    assert_eq!(stay(with_versions(), &parts, 4300), (2, false, 1));
    // Without a version, later reads may belong to another value.
    assert_eq!(stay(without(), &parts, 4300), (0, true, 1));
    assert_eq!(stay(without(), &parts, 3000), (1, true, 1));
    for inner in [with_versions(), without()] {
        assert_eq!(stay(inner, &[(0, 6000)], 8000), (1, false, 1));
    }
}

/// A store that compares versions without opening the value.
#[derive(Debug, Default)]
struct Versioned(Mutex<Option<(Vec<u8>, u64)>>);

struct OfVersion(Vec<u8>, Version);

impl ValueReader for OfVersion {
    fn size(&self) -> u64 {
        self.0.len() as u64
    }
    fn version(&self) -> Option<Version> {
        Some(self.1)
    }
    fn read_with(&self, offset: u64, out: &mut [u8], _: ReadFlags) -> Result<()> {
        read_from(&self.0, offset, out)
    }
}

impl Versioned {
    fn version(number: u64) -> Option<Version> {
        Version::foreign(1, "k", &number.to_le_bytes())
    }
}

impl Foreign for Versioned {
    fn get(self: &Arc<Self>, _: &str, _: ReadHint) -> Result<Option<Box<dyn ValueReader>>> {
        let cached_count = self.0.lock().unwrap().clone();
        let opened = |(bytes, number)| Some(OfVersion(bytes, Versioned::version(number)?));
        Ok(cached_count.and_then(opened).map(|object| Box::new(object) as Box<dyn ValueReader>))
    }
    fn put(self: &Arc<Self>, _: &str, data: &[u8]) -> Result<Option<Version>> {
        let mut now = self.0.lock().unwrap();
        let number = now.as_ref().map_or(0, |(_, number)| number + 1);
        *now = Some((data.to_vec(), number));
        Ok(Versioned::version(number))
    }
    fn delete(self: &Arc<Self>, _: &str) -> Result<()> {
        *self.0.lock().unwrap() = None;
        Ok(())
    }
    fn replace(
        self: &Arc<Self>,
        key: &str,
        data: Option<&[u8]>,
        expected: Option<&dyn ValueReader>,
    ) -> Result<ReplaceOutcome> {
        let now = self.0.lock().unwrap().as_ref().and_then(|(_, number)| Versioned::version(*number));
        if now != expected.and_then(ValueReader::version) {
            return Ok(ReplaceOutcome::Conflict);
        }
        match data {
            Some(data) => Ok(ReplaceOutcome::Done(self.put(key, data)?)),
            None => self.delete(key).map(|()| ReplaceOutcome::Done(None)),
        }
    }
    fn compares_versions(&self) -> bool {
        true
    }
    fn list(self: &Arc<Self>, _: &str) -> Result<Vec<String>> {
        Ok(Vec::new())
    }
    fn list_dir(self: &Arc<Self>, _: &str) -> Result<Option<Listing>> {
        Ok(None)
    }
    fn change_prefix(self: &Arc<Self>, _: &str, _: PrefixChange<'_>) -> Result<bool> {
        Ok(false)
    }
}

/// An expected version has no bytes to cache.
#[test]
fn conditional_change_with_version_does_not_read() -> Result<()> {
    let inner: Arc<dyn Store> = Arc::new(ForeignStore::new(Versioned::default(), false, 77));
    inner.put("k", b"old")?;
    let store = CachedStore::new(inner, u64::MAX, None);
    for (number, new) in [(0, b"new"), (1, b"two")] {
        let known = Precondition::Version(Versioned::version(number).unwrap());
        let options = UpdateOptions { current: true, precondition: known, ..UpdateOptions::UNCONDITIONAL };
        let outcome = store.update("k", options, &mut |current| {
            assert_eq!(current.and_then(ValueReader::version), Versioned::version(number));
            Ok(Change::Write(vec![ValuePart::Owned(new.to_vec())]))
        })?;
        assert_eq!(outcome.version, Versioned::version(number + 1));
        assert_eq!((&store as &dyn Store).get("k")?.as_deref(), Some(&new[..]));
    }
    Ok(())
}

/// An outdated cache entry is no conflict.
#[test]
fn conflict_with_cached_value_is_verified() -> Result<()> {
    let inner: Arc<dyn Store> = Arc::new(ForeignStore::new(Versioned::default(), false, 78));
    let store = CachedStore::new(inner.clone(), u64::MAX, None);
    assert_eq!((&store as &dyn Store).get("k")?, None);
    inner.put("k", b"old")?;
    let mut seen = Vec::new();
    store.update("k", UpdateOptions::READ_CURRENT, &mut |current| {
        seen.push(current.is_some());
        match current {
            None => Err(Error::new(Kind::Conflict, "there is none")),
            Some(_) => Ok(Change::Write(vec![ValuePart::Owned(b"new".to_vec())])),
        }
    })?;
    assert_eq!((seen, inner.get("k")?.as_deref()), (vec![false, true], Some(&b"new"[..])));
    Ok(())
}

/// A cache over a coalescing store that expects "k", a cache with the same pool over the inner
/// store, and the counting store below both.
fn cached_through() -> Result<(Arc<dyn Store>, CachedStore, Arc<CountingStore>)> {
    let (inner, pool) = (Arc::new(MemoryStore::new()) as Arc<dyn Store>, CachePool::new(u64::MAX));
    inner.put("k", b"1")?;
    let counting = Arc::new(CountingStore::new(inner));
    let below: Arc<dyn Store> = counting.clone();
    let cache = |fresh| pool.store(below.clone(), 0, fresh);
    let shared = Arc::new(CoalescingStore::new(below.clone()));
    shared.expect("k", None);
    let checked: Arc<dyn Store> = Arc::new(cache(Freshness::Now));
    let Some(over) = with_coalescing(&checked, &below, &shared) else {
        return Err(Error::internal("the reads are not coalesced"));
    };
    Ok((over, cache(Freshness::Always), counting))
}

#[test]
fn cache_over_coalesced_reads_stores_them() -> Result<()> {
    let (over, cache, counting) = cached_through()?;
    for _ in 0..2 {
        assert_eq!(over.get("k")?.as_deref(), Some(&b"1"[..]));
        assert_eq!((&cache as &dyn Store).get("k")?.as_deref(), Some(&b"1"[..]));
    }
    assert_eq!(counting.counts().opens, 1);
    Ok(())
}

#[test]
fn read_before_change_is_not_cached_after_it() -> Result<()> {
    let (over, cache, _) = cached_through()?;
    let cache: &dyn Store = &cache;
    assert_eq!(over.get("k")?.as_deref(), Some(&b"1"[..]));
    cache.put("k", b"2")?;
    assert_eq!(over.get("k")?.as_deref(), Some(&b"1"[..])); // the state when the reads began
    assert_eq!(cache.get("k")?.as_deref(), Some(&b"2"[..]));
    cache.delete("k")?;
    assert_eq!(over.get("k")?.as_deref(), Some(&b"1"[..]));
    assert_eq!(cache.get("k")?, None);
    Ok(())
}

#[test]
fn coalesced_read_older_than_freshness_bound_is_not_used() -> Result<()> {
    let (inner, pool) = (Arc::new(MemoryStore::new()) as Arc<dyn Store>, CachePool::new(u64::MAX));
    inner.put("k", b"1")?;
    let shared = Arc::new(CoalescingStore::new(inner.clone()));
    shared.expect("k", None);
    let cache: Arc<dyn Store> = Arc::new(pool.store(inner.clone(), 0, Freshness::Now));
    let over = with_coalescing(&cache, &inner, &shared).unwrap();
    assert_eq!((&*shared as &dyn Store).get("k")?.as_deref(), Some(&b"1"[..]));
    inner.put("k", b"2")?; // by another writer
    std::thread::sleep(std::time::Duration::from_millis(2));
    let later = std::time::Instant::now();
    assert_eq!(over.get("k")?.as_deref(), Some(&b"1"[..]));
    let since = pool.store(inner.clone(), 0, Freshness::Since(later));
    assert_eq!((&since as &dyn Store).get("k")?.as_deref(), Some(&b"2"[..]));
    Ok(())
}
