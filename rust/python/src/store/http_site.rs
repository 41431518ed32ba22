//! `HttpSite`: HTTP requests that the engine sends for a store written in Python.

use std::fmt::Write;
use std::sync::mpsc::{channel, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::runtime::once_cell::intern;
use pyo3::prelude::*;
use tessarr_engine::store::{
    complete_on_thread, recv_interruptible, replaced, run_blocking, Completion, Foreign, GetOutcome,
    HttpClient, HttpError, OpenResult, PutOutcome, PutPrecondition, ReadHint, ReplaceOutcome, ResponseBody,
    Signer, SwapCell, ValueReader, Version,
};
use tessarr_engine::{Error, Result};

use super::async_bridge::queue_open;
use super::foreign::{wrong_count, Bytes, Opening, PyForeign, Whole};
use crate::runtime::error::foreign;

/// The web server of a store written in Python, once the store knows it.
#[pyclass(frozen, module = "tessarr._engine")]
#[derive(Default)]
pub(crate) struct HttpSite(SwapCell<Place>);

/// The base URL of values and the client for it.
pub(crate) struct Place {
    web: Arc<HttpClient>,
    root: String,
    query: String,
    /// The characters of keys, beside letters and digits, that need no encoding.
    plain: String,
    /// The maximum size of values that the engine writes.
    stores: usize,
    /// Whether only this store uses Python's file system; otherwise the engine reports its writes
    /// to it.
    private: bool,
    /// The time at which the location expires.
    until: Option<Instant>,
}

/// The key ID, the secret key, a session token and the region that sign requests.
type Keys = (String, String, Option<String>, String);

#[pymethods]
impl HttpSite {
    #[new]
    fn new() -> Self {
        HttpSite::default()
    }

    /// Set the location, as `tessarr.store.object` describes it. Return false if the engine cannot
    /// send such requests.
    #[allow(clippy::too_many_arguments)] // the members of a tuple
    fn set_location(
        &self,
        root: String,
        query: String,
        headers: Vec<(String, String)>,
        patience_s: f64,
        plain: String,
        states: Option<&str>,
        keys: Option<Keys>,
        stores: usize,
        valid_s: f64,
        forbids: bool,
        private: bool,
    ) -> bool {
        let duration = |seconds| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        let web = || {
            let mut web = HttpClient::new(&headers, duration(patience_s))?.with_forbidden_as_absent(forbids);
            if let Some(states) = states {
                // A bucket: its file systems have this timeout, too.
                web = web.with_generation_header(states)?.with_idle_timeout();
            }
            if let Some((name, secret, token, region)) = &keys {
                web = web.with_signer(Signer::new(name, secret, token.as_deref(), region)?);
            }
            Some(web.into())
        };
        let until = Instant::now().checked_add(duration(valid_s));
        let place = web().map(|web| Place { web, root, query, plain, stores, private, until }.into());
        let is_placed = place.is_some();
        self.0.set(place);
        is_placed
    }

    /// Let Python send the requests until the location is set again.
    fn clear(&self) {
        self.0.set(None);
    }

    /// Return whether the engine sends the requests.
    fn is_active(&self) -> bool {
        self.get().is_some()
    }
}

impl HttpSite {
    /// Return the site of a store; None: only Python can send its requests.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Option<Py<HttpSite>>> {
        let told = object.getattr_opt(intern!(object.py(), "_http_site"))?;
        Ok(told.and_then(|told| told.cast_into::<HttpSite>().ok()).map(Bound::unbind))
    }

    /// Return the location, unless it has expired.
    pub(crate) fn get(&self) -> Option<Arc<Place>> {
        let place = self.0.get()?;
        place.until.is_none_or(|until| Instant::now() < until).then_some(place)
    }
}

impl Place {
    /// Read a value, or the byte range of a header, and wait for the response.
    fn fetch(&self, key: &str, range: Option<&str>) -> Result<GetOutcome> {
        let url = self.url(key);
        let waits = Arc::new(());
        let is_waiting = Arc::downgrade(&waits);
        let wanted = move || is_waiting.strong_count() > 0;
        let answer = waited(|told| {
            self.web.get(&url, range, wanted, move |answer| {
                let _ = told.send(answer); // fails if no thread waits any more
            });
        });
        drop(waits);
        Ok(answer?.unwrap_or(GetOutcome::Unusable))
    }

    /// Write a value and wait for the response.
    fn stored(&self, key: &str, data: &[u8], before: PutPrecondition) -> Result<PutOutcome> {
        let (url, data) = (self.url(key), Arc::new(data.to_vec()));
        let done = waited(|told| {
            self.web.put(&url, data, before, move |done| {
                let _ = told.send(done);
            });
        });
        Ok(done?.unwrap_or(PutOutcome::Lost))
    }

    fn url(&self, key: &str) -> String {
        let mut url = String::with_capacity(self.root.len() + key.len() + 16);
        url.push_str(&self.root);
        for byte in key.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => url.push(byte.into()),
                _ if self.plain.as_bytes().contains(&byte) => url.push(byte.into()),
                _ => {
                    let _ = write!(url, "%{byte:02X}"); // a String accepts every write
                }
            }
        }
        url.push_str(&self.query);
        url
    }
}

/// Wait for the response of a request; None: the request ended without one.
fn waited<T>(ask: impl FnOnce(Sender<T>)) -> Result<Option<T>> {
    let (told, answers) = channel();
    ask(told);
    run_blocking(|| match is_engine_thread() {
        true => Ok(answers.recv().ok()), // the thread that waits for this one checks for signals
        false => recv_interruptible(&answers),
    })
}

/// Return whether this is a thread of the engine, where no file system runs.
pub(crate) fn is_engine_thread() -> bool {
    std::thread::current().name().is_some_and(|name| name.starts_with("tessarr-"))
}

/// Return the range header of a read that opens a value, and a function. The function returns which
/// bytes of a value of a size the response must contain.
fn wanted(opening: &Opening) -> (Option<String>, impl Fn(u64) -> (u64, u64)) {
    let (method, count) = (opening.method, opening.count);
    let first = opening.from.unwrap_or(0);
    let last = |count: u64| first.saturating_add(count.max(1) - 1);
    let (range, count) = match (method, count) {
        ("open_tail", Some(count)) => (Some(format!("bytes=-{}", count.max(1))), count),
        ("open_value", _) => (Some(format!("bytes=0-{}", FIRST_BYTES - 1)), FIRST_BYTES),
        (_, Some(count)) => (Some(format!("bytes={first}-{}", last(count))), count),
        (_, None) => (None, u64::MAX),
    };
    let known = move |size: u64| match method {
        "open_part" => (0, 0), // the value may be too short for the range
        "open_tail" => (size.saturating_sub(count), count.min(size)),
        _ => (0, count.min(size)),
    };
    (range, known)
}

/// The number of bytes that the engine reads to open a value.
const FIRST_BYTES: u64 = 1 << 16;

impl PyForeign {
    /// Return the location, if the engine may send a request now.
    fn place(&self) -> Option<Arc<Place>> {
        self.site.as_ref()?.get().get().filter(|place| place.web.try_admit())
    }

    /// Send a request for a value. Return the request if only Python can send it.
    pub(crate) fn start_get(
        self: &Arc<Self>,
        key: String,
        want: ReadHint,
        told: Completion,
    ) -> Option<(String, Completion)> {
        let Some(place) = self.place() else { return Some((key, told)) };
        let store = self.clone();
        let (url, range) = (place.url(&key), wanted(&self.opening(want)).0);
        place.web.get(&url, range.as_deref(), told.active_check(), move |answer| {
            match store.parse_response(answer, &key, want) {
                Some(opened) => told.complete(opened),
                None if told.is_active() => run_blocking(|| queue_open(&store, key, want, told)),
                None => {}
            }
        });
        None
    }

    /// Open a value; None: Python has to open it.
    pub(crate) fn open_at_site(self: &Arc<Self>, key: &str, want: ReadHint) -> Result<Option<OpenResult>> {
        let Some(place) = self.place() else { return Ok(None) };
        self.check_may_block()?;
        let answer = place.fetch(key, wanted(&self.opening(want)).0.as_deref())?;
        Ok(self.parse_response(answer, key, want))
    }

    /// Return the result of a response; None: Python has to repeat the request.
    fn parse_response(self: &Arc<Self>, answer: GetOutcome, key: &str, want: ReadHint) -> Option<OpenResult> {
        let piece = match answer {
            GetOutcome::ResponseBody(piece) => piece,
            GetOutcome::Absent => return Some(Ok(None)),
            GetOutcome::Refused(refusal) => return self.refused(key, "GET", refusal).map(Err),
            GetOutcome::TimedOut => return self.late(key).map(Err),
            GetOutcome::Unusable => return None,
        };
        let opening = self.opening(want);
        let (begin, count) = wanted(&opening).1(piece.size);
        if !piece.contains(begin, count) {
            return None;
        }
        let named = |tag: &[u8]| self.version_named(key, tag).filter(|_| !tag.is_empty());
        // The server compares its own name of the state, of any length.
        let version = match self.compares_versions() {
            true => named(piece.tag.as_bytes()),
            false => named(&piece.state()),
        };
        let version = version.filter(|_| piece.is_strong);
        let state = version.or_else(|| named(&piece.state()));
        Some(Ok(Some(match piece.is_whole() && piece.size <= opening.whole {
            true => Box::new(Whole { bytes: Bytes::Copied(piece.data.into()), version, state }),
            false => {
                let (store, key, size) = (self.clone(), key.to_owned(), piece.size);
                Box::new(RemoteValue { store, key, size, version, state, known: Mutex::new(piece.into()) })
            }
        })))
    }

    /// Return the location for a write of `bytes` bytes, if the engine may send it.
    fn write_location(&self, bytes: usize) -> Option<Arc<Place>> {
        self.place().filter(|place| (1..=place.stores).contains(&bytes))
    }

    /// Write a value if its precondition holds. Return None or an ambiguous outcome if Python has
    /// to repeat the write.
    pub(crate) fn write_to_site(
        &self,
        key: &str,
        data: &[u8],
        before: PutPrecondition,
    ) -> Result<Option<ReplaceOutcome>> {
        let Some(place) = self.write_location(data.len()) else { return Ok(None) };
        self.check_may_block()?;
        self.write_outcome(&place, key, place.stored(key, data, before)?)
    }

    /// Return whether the engine sends writes.
    pub(crate) fn site_accepts_writes(&self) -> bool {
        let place = self.site.as_ref().and_then(|site| site.get().get());
        place.is_some_and(|place| place.stores > 0 && place.web.is_available())
    }

    /// Start a write without waiting for its response.
    pub(crate) fn start_put(
        self: &Arc<Self>,
        key: &str,
        value: &Arc<Vec<u8>>,
        told: Completion<Option<Version>>,
    ) {
        let (store, name, data) = (self.clone(), key.to_owned(), value.clone());
        let Some(place) = self.write_location(value.len()) else {
            return complete_on_thread(told, move || store.write_by_python(&name, &data));
        };
        let there = place.clone();
        place.web.put(&place.url(key), value.clone(), PutPrecondition::Anything, move |done| {
            match store.write_outcome(&there, &name, done) {
                Ok(Some(ReplaceOutcome::Done(version))) => told.complete(Ok(store.compared(version))),
                Ok(_) => complete_on_thread(told, move || store.write_by_python(&name, &data)),
                Err(error) => told.complete(Err(error)),
            }
        });
    }

    /// Return the outcome of a write. Python has to repeat the write for None or an ambiguous
    /// outcome.
    fn write_outcome(&self, place: &Place, key: &str, done: PutOutcome) -> Result<Option<ReplaceOutcome>> {
        Ok(match done {
            PutOutcome::Done(tag) => {
                if !place.private {
                    let tell = || {
                        self.call(|object| {
                            object.call_method1(intern!(object.py(), "_on_stored"), (key,)).map(drop)
                        })
                    };
                    run_blocking(tell)?;
                }
                let known = !tag.is_empty() && !tag.starts_with("W/");
                let version = known.then(|| self.version_named(key, tag.as_bytes())).flatten();
                Some(ReplaceOutcome::Done(version))
            }
            PutOutcome::PreconditionFailed => Some(ReplaceOutcome::Conflict),
            PutOutcome::Refused(refusal) => {
                let is_lost = refusal.may_have_done();
                self.refused(key, "PUT", refusal)
                    .map_or(Ok(is_lost.then_some(ReplaceOutcome::Ambiguous)), Err)?
            }
            PutOutcome::Lost => self.lost(key).map_or(Ok(Some(ReplaceOutcome::Ambiguous)), Err)?,
            PutOutcome::Unusable => None,
        })
    }

    fn refused(&self, key: &str, method: &str, refusal: HttpError) -> Option<Error> {
        let HttpError { status, reason, headers } = refusal;
        let told = (key, method, status, reason, headers);
        self.failed(|object| object.call_method1(intern!(object.py(), "_http_error"), told))
    }

    fn lost(&self, key: &str) -> Option<Error> {
        self.failed(|object| object.call_method1(intern!(object.py(), "_lost_response_error"), (key,)))
    }

    fn late(&self, key: &str) -> Option<Error> {
        self.failed(|object| object.call_method1(intern!(object.py(), "_timeout_error"), (key,)))
    }

    /// Return the exception that Python raises for a response; None: Python has to repeat the
    /// request.
    fn failed(
        &self,
        raised: impl for<'py> FnOnce(&Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>>,
    ) -> Option<Error> {
        let error = || {
            self.call(|object| {
                let raised = raised(object)?;
                Ok((!raised.is_none()).then(|| foreign(object.py(), PyErr::from_value(raised))))
            })
        };
        run_blocking(error).unwrap_or_else(Some)
    }
}

/// An open value on a server, with its known bytes.
struct RemoteValue {
    store: Arc<PyForeign>,
    key: String,
    size: u64,
    version: Option<Version>,
    state: Option<Version>,
    known: Mutex<Arc<ResponseBody>>,
}

impl RemoteValue {
    fn known(&self) -> Arc<ResponseBody> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Read bytes from the server. Return false if Python has to read them.
    fn ask(&self, offset: u64, out: &mut [u8]) -> Result<bool> {
        let Some(place) = self.store.place() else { return Ok(false) };
        let last = offset.saturating_add(out.len() as u64 - 1);
        let known = self.known();
        // A server that rejected the first range may not have sent the state.
        let is_first = known.data.is_empty() && known.tag.is_empty();
        match place.fetch(&self.key, Some(&format!("bytes={offset}-{last}")))? {
            GetOutcome::ResponseBody(piece)
                if piece.size != self.size || !is_first && piece.tag != known.tag =>
            {
                Err(replaced(&self.key))
            }
            GetOutcome::ResponseBody(piece) => {
                let found = piece.copy_to(offset, out);
                if is_first || piece.is_whole() {
                    // The server does not support ranges and returned the whole value.
                    *self.known.lock().unwrap_or_else(PoisonError::into_inner) = piece.into();
                }
                Ok(found)
            }
            GetOutcome::Absent => Err(replaced(&self.key)),
            GetOutcome::Refused(refusal) => {
                self.store.refused(&self.key, "GET", refusal).map_or(Ok(false), Err)
            }
            GetOutcome::TimedOut => self.store.late(&self.key).map_or(Ok(false), Err),
            GetOutcome::Unusable => Ok(false),
        }
    }

    fn read_by_python(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let count = out.len() as u64;
        let opening = Opening { method: "open_part", from: Some(offset), count: Some(count), whole: 0 };
        let opened = self.store.call(|object| {
            let method = intern!(object.py(), "open_part");
            let value = object.call_method1(method, (self.key.as_str(), offset, count))?;
            self.store.opened(&self.key, &value, &opening)
        })?;
        let is_same = |now: &dyn ValueReader| {
            now.size() == self.size && (self.state.is_none() || now.state() == self.state)
        };
        match opened {
            Some(now) if is_same(&*now) => now.read_at(offset, out),
            _ => Err(replaced(&self.key)),
        }
    }
}

impl ValueReader for RemoteValue {
    fn size(&self) -> u64 {
        self.size
    }

    fn version(&self) -> Option<Version> {
        self.version
    }

    fn state(&self) -> Option<Version> {
        self.state
    }

    fn needs_request(&self, offset: u64, count: u64) -> bool {
        !self.known().contains(offset, count)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let count = out.len() as u64;
        if out.is_empty() {
            return Ok(());
        }
        if offset.checked_add(count).is_none_or(|end| end > self.size) {
            return Err(wrong_count(&[], offset, count));
        }
        if self.known().copy_to(offset, out) || self.ask(offset, out)? {
            return Ok(());
        }
        run_blocking(|| self.read_by_python(offset, out))
    }
}
