//! Coalesced reads: several reads of one value share its requests.
//!
//! Callers announce the values and spans that they will read. The store opens each of these values
//! once and reads each part of it once. Neighbouring spans are merged into one part. All other
//! calls go to the inner store unchanged.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::ops::{Bound, Range};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::SystemTime;

use crate::error::{Error, Result};
use crate::store::cache::RequestTime;
use crate::store::{
    fork, AsyncRequest, CacheState, Call, Depth, Exchange, Listing, PrefixChange, ReadFlags, ReadHint,
    StartRequest, Store, UpdateOptions, UpdateOutcome, Updater, ValueReader, REPLACED,
};

/// Larger parts are not shared.
const MAX_SHARED_BYTES: usize = 4 << 20;

/// The maximum size of a part that merges several spans.
const MAX_MERGED_BYTES: u64 = 128 << 20;

/// Gaps between spans that are read over: in local and in remote stores.
const GAPS: [u64; 2] = [8 << 10, 64 << 10];

/// A span of a value: the first byte (negative: from the end) and the end; None: to the end.
pub type Span = (i64, Option<i64>);

/// The minimum number of bytes that opening a value fetches before its ranges are known.
const MIN_FIRST_BYTES: i64 = 64 << 10;

/// More bytes than any value has.
const ENDLESS: i64 = 1 << 40;

/// Return the hint with which to open a value so that reading `span` needs no other request.
pub fn read_hint_of(span: Span) -> ReadHint {
    match span {
        (0..=MIN_FIRST_BYTES, None) => ReadHint::Whole, // also if the value is shorter
        (first, None) if first < 0 => ReadHint::Suffix(first.unsigned_abs()),
        (first, last) if first >= 0 && last.is_none_or(|last| first < last && last > MIN_FIRST_BYTES) => {
            let count = last.unwrap_or(ENDLESS.max(first)) - first;
            ReadHint::Range { offset: first as u64, count: count as u64 }
        }
        _ => ReadHint::UnknownRanges, // the first bytes contain them, or they do not exist
    }
}

/// A result, once one caller has computed it.
type SharedResult<A> = Arc<OnceLock<Result<A>>>;

/// Results that several callers need: the first caller computes them for all.
struct SharedResults<K, A>(Mutex<HashMap<K, SharedResult<A>>>);

impl<K, A> Default for SharedResults<K, A> {
    fn default() -> Self {
        SharedResults(Mutex::default())
    }
}

impl<K: Clone + Eq + Hash, A: Clone> SharedResults<K, A> {
    /// Return the result, computed by `compute`. An interrupt reaches only the caller that computes
    /// it: the others compute again.
    fn get(&self, key: &K, compute: impl Fn() -> Result<A>) -> Result<A> {
        loop {
            let shared_result = with(&self.0, |results| results.entry(key.clone()).or_default().clone());
            let mut is_first = false;
            let result = shared_result.get_or_init(|| {
                is_first = true;
                compute()
            });
            if !result.as_ref().is_err_and(Error::ends_wait) {
                return result.clone();
            }
            self.remove_if(key, |now| Arc::ptr_eq(now, &shared_result));
            if is_first {
                return result.clone();
            }
        }
    }

    fn remove_if(&self, key: &K, is_outdated: impl Fn(&SharedResult<A>) -> bool) {
        let old =
            with(&self.0, |results| results.get(key).is_some_and(is_outdated).then(|| results.remove(key)));
        drop(old);
    }

    fn clear(&self) {
        let old = with(&self.0, std::mem::take);
        drop(old);
    }
}

/// Open values by key; None: the value does not exist.
type Values = SharedResults<String, Option<Arc<OpenValue>>>;

/// Shares the responses of another store about expected values, as long as it lives.
#[derive(Clone)]
pub struct CoalescingStore {
    inner: Arc<dyn Store>,
    values: Arc<Values>,
    expected: Arc<Mutex<BTreeMap<String, Vec<Span>>>>,
    /// Before the first request.
    created: RequestTime,
    created_at: SystemTime,
}

struct OpenValue {
    object: Box<dyn ValueReader>,
    /// Ranges that are read as one part.
    expected: Vec<Range<u64>>,
    /// Parts by offset and size.
    parts: SharedResults<(u64, usize), Arc<Vec<u8>>>,
}

impl std::fmt::Debug for CoalescingStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("CoalescingStore").field(&self.inner).finish()
    }
}

fn with<T, R>(mutex: &Mutex<T>, work: impl FnOnce(&mut T) -> R) -> R {
    let _gate = fork::gate();
    let mut guard = mutex.lock().unwrap_or_else(PoisonError::into_inner);
    work(&mut guard)
}

impl CoalescingStore {
    /// Share the responses of `inner`.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        fork::register();
        CoalescingStore {
            inner,
            values: Arc::default(),
            expected: Arc::default(),
            created: RequestTime::now(),
            created_at: SystemTime::now(),
        }
    }

    /// Announce that a span of a value will be read; None: all of it.
    pub fn expect(&self, key: &str, span: Option<Span>) {
        with(&self.expected, |all| all.entry(key.to_owned()).or_default().push(span.unwrap_or((0, None))));
    }

    /// Announce the hint with which a value will be opened.
    pub fn expect_hint(&self, key: &str, hint: ReadHint) {
        let offset = |offset| i64::try_from(offset).unwrap_or(i64::MAX);
        let span = match hint {
            ReadHint::Whole => Some((0, None)),
            ReadHint::Prefix(count) => Some((0, Some(offset(count)))),
            ReadHint::Suffix(count) => Some((-offset(count), None)),
            ReadHint::Range { offset: first, count } => {
                Some((offset(first), Some(offset(first.saturating_add(count)))))
            }
            // Ranges are not known yet.
            ReadHint::UnknownRanges | ReadHint::Revalidate | ReadHint::IfChanged { .. } => None,
        };
        with(&self.expected, |all| all.entry(key.to_owned()).or_default().extend(span));
    }

    /// Return whether a read of this value is announced.
    pub fn expects(&self, key: &str) -> bool {
        with(&self.expected, |all| all.contains_key(key))
    }

    /// Return whether a read of a value whose key begins with `start` is announced.
    pub fn expects_below(&self, start: &str) -> bool {
        let from = (Bound::Included(start), Bound::Unbounded);
        with(&self.expected, |all| {
            all.range::<str, _>(from).next().is_some_and(|(key, _)| key.starts_with(start))
        })
    }

    fn drop_results(&self) {
        self.values.clear();
    }
}

impl Store for CoalescingStore {
    fn inner(&self) -> Option<&dyn Store> {
        Some(&*self.inner)
    }

    fn open(&self, key: &str, hint: ReadHint) -> Result<Option<Box<dyn ValueReader>>> {
        self.keys().check(key)?;
        let Some(spans) = with(&self.expected, |all| all.get(key).cloned()) else {
            return self.inner.open(key, hint);
        };
        let opened = self.values.get(&key.to_owned(), || {
            let is_remote = self.inner.concurrency() > 0;
            let gap = GAPS[usize::from(is_remote)];
            let first = merge_spans(&spans, i64::MAX, gap).into_iter().next().filter(|_| is_remote);
            let object = self.inner.open(key, first.map_or(hint, |(part, _)| hint_for_first_part(part)))?;
            Ok(object.map(|object| {
                let size = i64::try_from(object.size()).unwrap_or(i64::MAX);
                let parts = merge_spans(&spans, size, gap).into_iter();
                let expected = parts.filter_map(|(part, is_shared)| is_shared.then_some(part)).collect();
                Arc::new(OpenValue { object, expected, parts: SharedResults::default() })
            }))
        });
        let Some(opened) = opened? else { return Ok(None) };
        Ok(Some(Box::new(CoalescedReader { key: key.to_owned(), opened, values: self.values.clone() })))
    }

    fn cache_state(&self, key: &str) -> CacheState {
        let state = self.inner.cache_state(key);
        match self.expects(key) {
            true => CacheState {
                coalesced_since: Some(self.created_at),
                first_request: Some(self.created),
                ..state
            },
            false => state,
        }
    }

    /// Reads of other values are asynchronous; a thread waits for values that several callers
    /// expect.
    fn async_requests(&self, call: Call) -> Option<StartRequest> {
        let start = self.inner.async_requests(call).filter(|_| call == Call::Open)?;
        let store = Arc::new(self.clone());
        Some(Arc::new(move |request: AsyncRequest| match store.expects(request.key()) {
            true => request.run_on_thread(store.clone()),
            false => start(request),
        }))
    }

    fn update<'a>(
        &self,
        key: &str,
        options: UpdateOptions,
        updater: &mut Updater<'_, 'a>,
    ) -> Result<UpdateOutcome<'a>> {
        let change = self.inner.update(key, options, updater);
        self.drop_results();
        change
    }

    fn list_keys(&self, prefix: &str, depth: Depth) -> Result<Listing> {
        self.inner.list_keys(prefix, depth)
    }

    fn change_prefix(&self, prefix: &str, change: PrefixChange<'_>) -> Result<bool> {
        let result = self.inner.change_prefix(prefix, change);
        self.drop_results();
        result
    }

    fn exchange(&self, changes: &[Exchange]) -> Result<Option<bool>> {
        let result = self.inner.exchange(changes);
        self.drop_results();
        result
    }
}

/// Merge spans of a value of `size` bytes into parts. Return for each part whether it has several
/// spans. The size may be unknown (`i64::MAX`).
fn merge_spans(spans: &[Span], size: i64, gap: u64) -> Vec<(Range<u64>, bool)> {
    let inside = |&(first, last): &Span| {
        let begin = if first < 0 { size.saturating_add(first) } else { first };
        let end = last.unwrap_or(size);
        (0 <= begin && begin < end && end <= size).then_some(begin as u64..end as u64)
    };
    let mut parts: Vec<Range<u64>> = spans.iter().filter_map(inside).collect();
    parts.sort_unstable_by_key(|part| part.start);
    let mut result: Vec<(Range<u64>, bool)> = Vec::new();
    for part in parts {
        match result.last_mut() {
            Some((last, is_shared)) if part.start <= last.end.saturating_add(gap) => {
                last.end = last.end.max(part.end);
                *is_shared = true;
            }
            _ => result.push((part, false)),
        }
    }
    result
}

/// Return the hint with which to open a value of unknown size of which `part` is read first.
fn hint_for_first_part(part: Range<u64>) -> ReadHint {
    let (first, last) = (part.start as i64, part.end as i64);
    match last == i64::MAX {
        // The part counts from the end.
        true if first > ENDLESS => read_hint_of((first.wrapping_sub(last), None)),
        true => read_hint_of((first, None)),
        false => read_hint_of((first, Some(last))),
    }
}

struct CoalescedReader {
    key: String,
    opened: Arc<OpenValue>,
    values: Arc<Values>,
}

impl ValueReader for CoalescedReader {
    fn inner(&self) -> Option<&dyn ValueReader> {
        Some(&*self.opened.object)
    }

    /// Read a part once for all callers.
    fn read_with(&self, offset: u64, out: &mut [u8], flags: ReadFlags) -> Result<()> {
        let object = &*self.opened.object;
        let end = offset.saturating_add(out.len() as u64);
        let within = |part: &&Range<u64>| {
            part.start <= offset && end <= part.end && part.end - part.start <= MAX_MERGED_BYTES
        };
        let expected = self.opened.expected.iter().find(within).cloned();
        let result = if expected.is_none() && out.len() > MAX_SHARED_BYTES {
            object.read_with(offset, out, flags)
        } else {
            let part = expected.unwrap_or(offset..end);
            let (begin, size) = (part.start, (part.end - part.start) as usize);
            let part = self.opened.parts.get(&(begin, size), || {
                let mut bytes = crate::store::value_reader::room_for(size as u64)?;
                bytes.resize(size, 0);
                object.read_with(begin, &mut bytes, flags).map(|()| Arc::new(bytes))
            });
            let from = (offset - begin) as usize;
            part.map(|bytes| out.copy_from_slice(&bytes[from..][..out.len()]))
        };
        if result.as_ref().is_err_and(|error| error.code == Some(REPLACED)) {
            // Opening again returns the current value.
            self.values.remove_if(&self.key, |_| true);
        }
        result
    }

    /// Return false: the request would not be shared.
    fn needs_request(&self, _offset: u64, _count: u64) -> bool {
        false
    }

    /// Return None: copies from the file would not be shared.
    fn file(&self) -> Option<&std::fs::File> {
        None
    }
}
