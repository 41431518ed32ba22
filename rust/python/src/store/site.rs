//! Values of web servers, which the engine asks for itself where a store of Python says where they are.

use std::cell::RefCell;
use std::fmt::Write;
use std::sync::mpsc::channel;
use std::sync::Arc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tessarr_engine::pool::{self, guarded};
use tessarr_engine::store::{received, Answer, Foreign, Opened, Piece, Told, Version, Want, Web};
use tessarr_engine::{Error, Kind, Result};

use super::asked::ask;
use super::foreign::{attached, Bytes, Opening, PyForeign, Whole};
use crate::error::foreign;

/// What servers call a state is told as it is up to so many bytes; Python makes something shorter of others.
const TAG_BYTES: usize = 40;

/// Where the values of a store are.
#[derive(Clone)]
pub(super) struct Site {
    web: Arc<Web>,
    root: String,
    query: String,
}

/// A value that is asked for.
pub(super) struct Wanted {
    pub(super) store: Arc<PyForeign>,
    pub(super) key: String,
    pub(super) want: Want,
    pub(super) told: Told,
}

thread_local! {
    /// What a thread opens next, if it tells of something, and whether it does.
    static NEXT: RefCell<(bool, Option<Wanted>)> = const { RefCell::new((false, None)) };
}

/// Have a thread open a value that tells of another one: to wake another thread takes longer. Give it back
/// where there is none.
pub(super) fn next(wanted: Wanted) -> Option<Wanted> {
    NEXT.with_borrow_mut(|(tells, next)| {
        if !*tells || next.is_some() {
            return Some(wanted);
        }
        *next = Some(wanted);
        None
    })
}

impl Wanted {
    /// Open it, and what is asked for then.
    pub(super) fn open_all(self) {
        let mut wanted = Some(self);
        while let Some(one) = wanted {
            // After a panic, of which its hook tells, others are opened all the same.
            let _ = guarded(|| {
                one.open();
                Ok(())
            });
            wanted = NEXT.take().1;
        }
    }

    fn open(self) {
        let Wanted { store, key, want, told } = self;
        let Some(site) = store.site.as_ref().filter(|_| told.is_wanted()) else { return };
        match store.opened_at(site, &key, want) {
            Some(opened) => {
                // Not before: what Python does here may read, and wait for it.
                NEXT.set((true, None));
                told.tell(opened);
            }
            None => ask(&store, key, want, told),
        }
    }
}

/// What a store of Python tells of it: a URL, what follows keys in URLs, and headers.
type Place = (String, String, Vec<(String, String)>);

impl Site {
    /// None: only Python knows how to ask for values.
    pub(super) fn of(object: &Bound<'_, PyAny>) -> PyResult<Option<Site>> {
        let told = object.getattr_opt(intern!(object.py(), "_site"))?;
        let Some((root, query, headers)) =
            told.map(|told| told.extract::<Option<Place>>()).transpose()?.flatten()
        else {
            return Ok(None);
        };
        Ok(Web::new(&headers).map(|web| Site { web: web.into(), root, query }))
    }

    pub(super) fn is_clear(&self) -> bool {
        self.web.is_clear()
    }

    fn url(&self, key: &str) -> String {
        let mut url = String::with_capacity(self.root.len() + key.len() + 16);
        url.push_str(&self.root);
        url.push('/');
        for byte in key.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => url.push(byte.into()),
                _ if b"-._~/!$&'()*,;=:@".contains(&byte) => url.push(byte.into()),
                _ => {
                    let _ = write!(url, "%{byte:02X}"); // which a text takes
                }
            }
        }
        url.push_str(&self.query);
        url
    }
}

/// The header that asks for what is read at once, and, of a file of so many bytes, where that begins and ends.
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
        "open_part" => (0, 0), // the file may not have it
        "open_tail" => (size.saturating_sub(count), count.min(size)),
        _ => (0, count.min(size)),
    };
    (range, known)
}

/// As many bytes a value is opened by.
const FIRST_BYTES: u64 = 1 << 16;

fn late() -> Error {
    Error::new(Kind::Store { retryable: true, errno: None }, "the server did not answer in time")
}

impl PyForeign {
    /// Open a value; None: Python is to be asked.
    ///
    /// It is asked for by a thread of the engine: another one may have to look for signals while it waits.
    pub(super) fn opened_there(&self, key: &str, want: Want) -> Result<Option<Opened>> {
        let Some(site) = self.site.as_ref().filter(|site| site.is_clear()) else { return Ok(None) };
        if std::thread::current().name().is_some_and(|name| name.starts_with("tessarr-")) {
            return Ok(self.opened_at(site, key, want));
        }
        self.may_wait()?;
        let (there, url, range) = (site.clone(), site.url(key), wanted(&self.opening(want)).0);
        let (told, answers) = channel();
        pool::ask(move |_| {
            let _ = told.send(there.web.get(&url, range.as_deref())); // unless nobody waits any more
        });
        Ok(received(&answers)?.and_then(|answer| self.answered(answer, key, want)))
    }

    /// The same in this thread.
    fn opened_at(&self, site: &Site, key: &str, want: Want) -> Option<Opened> {
        let (range, _) = wanted(&self.opening(want));
        self.answered(site.web.get(&site.url(key), range.as_deref()), key, want)
    }

    /// What an answer says; None: Python is to be asked.
    fn answered(&self, answer: Answer, key: &str, want: Want) -> Option<Opened> {
        let piece = match answer {
            Answer::Piece(piece) => piece,
            Answer::Absent => return Some(Ok(None)),
            Answer::Refused(status) => return Some(self.refused(key, status)),
            Answer::Late => return Some(Err(late())),
            Answer::Unclear => return None,
        };
        let opening = self.opening(want);
        let (begin, count) = wanted(&opening).1(piece.size);
        if !piece.has(begin, count) {
            return None;
        }
        Some(match self.whole_of(&piece, key, &opening) {
            Some([version, state]) => {
                let bytes = Bytes::Copied(piece.data.into());
                Ok(Some(Box::new(Whole { bytes, version, state })))
            }
            None => self.opened_by(piece, key, &opening),
        })
    }

    /// The version and the state of a value, if all of it is there, and it is read whole; None: it is another.
    fn whole_of(&self, piece: &Piece, key: &str, opening: &Opening) -> Option<[Option<Version>; 2]> {
        let all = piece.first == 0 && piece.size == piece.data.len() as u64 && piece.size <= opening.whole;
        if !all || piece.tag.len() > TAG_BYTES {
            return None;
        }
        let told = !piece.tag.is_empty();
        let state = told.then(|| self.version_named(key, piece.tag.as_bytes())).flatten();
        Some([state.filter(|_| piece.lasts), state])
    }

    /// A value that is read on.
    fn opened_by(&self, piece: Piece, key: &str, opening: &Opening) -> Opened {
        self.call(|object| {
            let py = object.py();
            let Piece { data, first, size, tag, lasts } = piece;
            let part = (key, PyBytes::new(py, &data), first, size, tag, lasts);
            self.opened(key, &object.call_method1(intern!(py, "_opened_by"), part)?, opening)
        })
    }

    fn refused(&self, key: &str, status: u16) -> Opened {
        let error = attached(|py| {
            let error = self.object().bind(py).call_method1(intern!(py, "_refused"), (key, status))?;
            Ok(foreign(py, PyErr::from_value(error)))
        });
        Err(error.unwrap_or_else(|error| error))
    }
}
