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
use crate::store::async_ops::by_thread;
use crate::store::cache::Asked;
use crate::store::{
    fork, Ask, Decoded, Exchange, How, Listing, Made, Need, Object, Store, Told, Updater, Version, Want,
    REPLACED,
};

/// Larger parts are not shared.
const PART_BYTES: usize = 4 << 20;

/// The maximum size of a part that merges several spans.
const TOGETHER_BYTES: u64 = 128 << 20;

/// Gaps between spans that are read over: in local and in remote stores.
const GAPS: [u64; 2] = [8 << 10, 64 << 10];

/// A span of a value: the first byte (negative: from the end) and the end; None: to the end.
pub type Span = (i64, Option<i64>);

/// The minimum number of bytes that opening a value fetches before its ranges are known.
const FIRST_BYTES: i64 = 64 << 10;

/// More bytes than any value has.
const ENDLESS: i64 = 1 << 40;

/// The hint with which to open a value so that reading `span` needs no other request.
pub fn want_of(span: Span) -> Want {
    match span {
        (0..=FIRST_BYTES, None) => Want::Whole, // also if the value is shorter
        (first, None) if first < 0 => Want::Suffix(first.unsigned_abs()),
        (first, last) if first >= 0 && last.is_none_or(|last| first < last && last > FIRST_BYTES) => {
            let count = last.unwrap_or(ENDLESS.max(first)) - first;
            Want::Part { offset: first as u64, count: count as u64 }
        }
        _ => Want::Ranges, // the first bytes contain them, or they do not exist
    }
}

/// A result, once one caller has computed it.
type Slot<A> = Arc<OnceLock<Result<A>>>;

/// Results that several callers need: the first caller computes them for all.
struct Answers<Q, A>(Mutex<HashMap<Q, Slot<A>>>);

impl<Q, A> Default for Answers<Q, A> {
    fn default() -> Self {
        Answers(Mutex::default())
    }
}

impl<Q, A> std::fmt::Debug for Answers<Q, A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Answers")
    }
}

impl<Q: Clone + Eq + Hash, A: Clone> Answers<Q, A> {
    /// Return the result, computed by `find`. An interrupt reaches only the caller that computes
    /// it: the others compute again.
    fn get(&self, question: &Q, find: impl Fn() -> Result<A>) -> Result<A> {
        loop {
            let slot = with(&self.0, |slots| slots.entry(question.clone()).or_default().clone());
            let mut is_mine = false;
            let found = slot.get_or_init(|| {
                is_mine = true;
                find()
            });
            if !found.as_ref().is_err_and(Error::ends_wait) {
                return found.clone();
            }
            self.forget_if(question, |now| Arc::ptr_eq(now, &slot));
            if is_mine {
                return found.clone();
            }
        }
    }

    fn forget_if(&self, question: &Q, is_old: impl Fn(&Slot<A>) -> bool) {
        let old =
            with(&self.0, |slots| slots.get(question).is_some_and(is_old).then(|| slots.remove(question)));
        drop(old);
    }

    fn forget_all(&self) {
        let old = with(&self.0, std::mem::take);
        drop(old);
    }
}

/// Open values by key; None: the value does not exist.
type Values = Answers<String, Option<Arc<Opened>>>;

/// Shares the responses of another store about expected values, as long as it lives.
#[derive(Clone, Debug)]
pub struct SharedStore {
    inner: Arc<dyn Store>,
    values: Arc<Values>,
    expected: Arc<Mutex<BTreeMap<String, Vec<Span>>>>,
    /// Before the first request.
    began: Asked,
    began_at: SystemTime,
}

struct Opened {
    object: Box<dyn Object>,
    /// Ranges that are read as one part.
    expected: Vec<Range<u64>>,
    /// Parts by offset and size.
    parts: Answers<(u64, usize), Arc<Vec<u8>>>,
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Opened")
    }
}

fn with<T, R>(mutex: &Mutex<T>, work: impl FnOnce(&mut T) -> R) -> R {
    let _gate = fork::gate();
    let mut guard = mutex.lock().unwrap_or_else(PoisonError::into_inner);
    work(&mut guard)
}

impl SharedStore {
    /// Share the responses of `inner`.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        fork::register();
        SharedStore {
            inner,
            values: Arc::default(),
            expected: Arc::default(),
            began: Asked::now(),
            began_at: SystemTime::now(),
        }
    }

    /// Announce that a span of a value will be read; None: all of it.
    pub fn expect(&self, key: &str, span: Option<Span>) {
        with(&self.expected, |all| all.entry(key.to_owned()).or_default().push(span.unwrap_or((0, None))));
    }

    /// Announce the hint with which a value will be opened.
    pub fn expect_want(&self, key: &str, want: Want) {
        let offset = |offset| i64::try_from(offset).unwrap_or(i64::MAX);
        let span = match want {
            Want::Whole => Some((0, None)),
            Want::Prefix(count) => Some((0, Some(offset(count)))),
            Want::Suffix(count) => Some((-offset(count), None)),
            Want::Part { offset: first, count } => {
                Some((offset(first), Some(offset(first.saturating_add(count)))))
            }
            Want::Ranges | Want::Nothing => None, // ranges are not known yet
        };
        with(&self.expected, |all| all.entry(key.to_owned()).or_default().extend(span));
    }

    /// Whether a read of this value is announced.
    pub fn expects(&self, key: &str) -> bool {
        with(&self.expected, |all| all.contains_key(key))
    }

    /// Whether a read of a value whose key begins with `start` is announced.
    pub fn expects_below(&self, start: &str) -> bool {
        let from = (Bound::Included(start), Bound::Unbounded);
        with(&self.expected, |all| {
            all.range::<str, _>(from).next().is_some_and(|(key, _)| key.starts_with(start))
        })
    }

    /// The earliest time of the shared request for a value.
    pub(in crate::store) fn first_asked(&self, key: &str) -> Option<Asked> {
        self.expects(key).then_some(self.began)
    }

    fn forget(&self) {
        self.values.forget_all();
    }
}

impl Store for SharedStore {
    fn inner(&self) -> Option<&dyn Store> {
        Some(&*self.inner)
    }

    fn open(&self, key: &str, want: Want) -> Result<Option<Box<dyn Object>>> {
        self.keys().check(key)?;
        let Some(spans) = with(&self.expected, |all| all.get(key).cloned()) else {
            return self.inner.open(key, want);
        };
        let opened = self.values.get(&key.to_owned(), || {
            let far = self.inner.concurrency() > 0;
            let gap = GAPS[usize::from(far)];
            let first = together(&spans, i64::MAX, gap).into_iter().next().filter(|_| far);
            let object = self.inner.open(key, first.map_or(want, |(part, _)| opening(part)))?;
            Ok(object.map(|object| {
                let size = i64::try_from(object.size()).unwrap_or(i64::MAX);
                let parts = together(&spans, size, gap).into_iter();
                let expected = parts.filter_map(|(part, several)| several.then_some(part)).collect();
                Arc::new(Opened { object, expected, parts: Answers::default() })
            }))
        });
        let Some(opened) = opened? else { return Ok(None) };
        Ok(Some(Box::new(SharedObject { key: key.to_owned(), opened, values: self.values.clone() })))
    }

    fn shared_since(&self, key: &str) -> Option<SystemTime> {
        self.expects(key).then_some(self.began_at)
    }

    fn asking(&self) -> Option<Arc<dyn Ask>> {
        Some(Arc::new(SharedAsk { store: self.clone(), inner: self.inner.asking()? }))
    }

    fn update<'a>(&self, key: &str, need: Need, updater: &mut Updater<'_, 'a>) -> Result<Made<'a>> {
        let change = self.inner.update(key, need, updater);
        self.forget();
        change
    }

    fn hold(&self, key: &str, work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        self.inner.hold(key, work)
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        self.inner.list(prefix)
    }

    fn list_dir(&self, prefix: &str) -> Result<Listing> {
        self.inner.list_dir(prefix)
    }

    fn delete_prefix(&self, prefix: &str) -> Result<()> {
        let done = self.inner.delete_prefix(prefix);
        self.forget();
        done
    }

    fn replace_prefix(&self, staged: &str, prefix: &str) -> Result<bool> {
        let done = self.inner.replace_prefix(staged, prefix);
        self.forget();
        done
    }

    fn clear_prefix(&self, prefix: &str) -> Result<()> {
        let done = self.inner.clear_prefix(prefix);
        self.forget();
        done
    }

    fn remove_link(&self, prefix: &str) -> Result<bool> {
        let done = self.inner.remove_link(prefix);
        self.forget();
        done
    }

    fn exchange(&self, changes: &[Exchange]) -> Result<Option<bool>> {
        let done = self.inner.exchange(changes);
        self.forget();
        done
    }
}

/// Starts reads of values; a thread waits for values that several callers expect.
struct SharedAsk {
    store: SharedStore,
    inner: Arc<dyn Ask>,
}

impl Ask for SharedAsk {
    fn ask(&self, key: &str, want: Want, told: Told) {
        if !self.store.expects(key) {
            return self.inner.ask(key, want, told);
        }
        let (store, key) = (self.store.clone(), key.to_owned());
        by_thread(told, move || store.open(&key, want));
    }
}

/// Merge spans of a value of `size` bytes into parts, and tell whether a part has several spans.
/// The size may be unknown (`i64::MAX`).
fn together(spans: &[Span], size: i64, gap: u64) -> Vec<(Range<u64>, bool)> {
    let inside = |&(first, last): &Span| {
        let begin = if first < 0 { size.saturating_add(first) } else { first };
        let end = last.unwrap_or(size);
        (0 <= begin && begin < end && end <= size).then_some(begin as u64..end as u64)
    };
    let mut parts: Vec<Range<u64>> = spans.iter().filter_map(inside).collect();
    parts.sort_unstable_by_key(|part| part.start);
    let mut found: Vec<(Range<u64>, bool)> = Vec::new();
    for part in parts {
        match found.last_mut() {
            Some((last, several)) if part.start <= last.end.saturating_add(gap) => {
                last.end = last.end.max(part.end);
                *several = true;
            }
            _ => found.push((part, false)),
        }
    }
    found
}

/// The hint with which to open a value of unknown size of which `part` is read first.
fn opening(part: Range<u64>) -> Want {
    let (first, last) = (part.start as i64, part.end as i64);
    match last == i64::MAX {
        true if first > ENDLESS => want_of((first.wrapping_sub(last), None)), // the part counts from the end
        true => want_of((first, None)),
        false => want_of((first, Some(last))),
    }
}

struct SharedObject {
    key: String,
    opened: Arc<Opened>,
    values: Arc<Values>,
}

impl Object for SharedObject {
    fn size(&self) -> u64 {
        self.opened.object.size()
    }

    fn version(&self) -> Option<Version> {
        self.opened.object.version()
    }

    fn state(&self) -> Option<Version> {
        self.opened.object.state()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.read(offset, out, |object, offset, out| object.read_at(offset, out))
    }

    fn read_as(&self, offset: u64, out: &mut [u8], how: How) -> Result<()> {
        self.read(offset, out, |object, offset, out| object.read_as(offset, out, how))
    }

    fn remembers(&self, offset: u64, count: u64) -> bool {
        self.opened.object.remembers(offset, count)
    }

    fn decoded(&self) -> Option<&dyn Decoded> {
        self.opened.object.decoded()
    }

    fn bytes(&self) -> Option<&[u8]> {
        self.opened.object.bytes()
    }
}

impl SharedObject {
    /// Read a part once for all callers.
    fn read(
        &self,
        offset: u64,
        out: &mut [u8],
        read: impl Fn(&dyn Object, u64, &mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let object = &*self.opened.object;
        let end = offset.saturating_add(out.len() as u64);
        let within = |part: &&Range<u64>| {
            part.start <= offset && end <= part.end && part.end - part.start <= TOGETHER_BYTES
        };
        let expected = self.opened.expected.iter().find(within).cloned();
        let done = if expected.is_none() && out.len() > PART_BYTES {
            read(object, offset, out)
        } else {
            let part = expected.unwrap_or(offset..end);
            let (begin, size) = (part.start, (part.end - part.start) as usize);
            let part = self.opened.parts.get(&(begin, size), || {
                let mut bytes = crate::store::value_reader::room_for(size as u64)?;
                bytes.resize(size, 0);
                read(object, begin, &mut bytes).map(|()| Arc::new(bytes))
            });
            let from = (offset - begin) as usize;
            part.map(|bytes| out.copy_from_slice(&bytes[from..][..out.len()]))
        };
        if done.as_ref().is_err_and(|error| error.code == Some(REPLACED)) {
            // Opening again returns the current value.
            self.values.forget_if(&self.key, |_| true);
        }
        done
    }
}
