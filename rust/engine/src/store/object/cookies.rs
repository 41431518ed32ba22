//! Cookies: some servers require those that they have set.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use hyper::header::{HeaderMap, HeaderValue, COOKIE, SET_COOKIE};

use crate::store::fork;

/// The maximum number of cookies, as in browsers.
const MOST: usize = 50;

/// Cookies of a server: values by name.
#[derive(Default)]
pub(super) struct Cookies(Mutex<BTreeMap<String, String>>);

impl Cookies {
    /// Store the cookies of a response to a request for `path`.
    pub(super) fn keep(&self, path: &str, answer: &HeaderMap) {
        let set = answer.get_all(SET_COOKIE).iter().filter_map(|cookie| cookie.to_str().ok());
        let mut set = set.filter_map(|cookie| told(path, cookie)).peekable();
        if set.peek().is_none() {
            return;
        }
        let _gate = fork::gate();
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, value) in set {
            match value {
                Some(value) if kept.len() < MOST || kept.contains_key(name) => {
                    kept.insert(name.to_owned(), value.to_owned());
                }
                Some(_) => {}
                None => drop(kept.remove(name)),
            }
        }
    }

    /// Add the cookies to the headers of a request, which may have others.
    pub(super) fn add_to(&self, request: &mut HeaderMap) {
        let _gate = fork::gate();
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.is_empty() {
            return;
        }
        let own = request.get(COOKIE).and_then(|own| own.to_str().ok()).map(ToOwned::to_owned);
        let kept = kept.iter().map(|(name, value)| format!("{name}={value}"));
        let all: Vec<String> = own.into_iter().chain(kept).collect();
        if let Ok(all) = HeaderValue::from_str(&all.join("; ")) {
            request.insert(COOKIE, all);
        }
    }
}

/// Whether `path` is `folder` or lies below it.
fn is_below(path: &str, folder: &str) -> bool {
    let rest = path.strip_prefix(folder);
    rest.is_some_and(|rest| {
        rest.is_empty() || rest.starts_with('/') || folder.is_empty() || folder.ends_with('/')
    })
}

/// Parse a cookie: its name, and its value, or None if it expires at once. None: it is for other
/// paths.
fn told<'c>(path: &str, cookie: &'c str) -> Option<(&'c str, Option<&'c str>)> {
    let mut parts = cookie.split(';').map(|part| {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        (name.trim(), value.trim())
    });
    let (name, value) = parts.next().filter(|(name, _)| !name.is_empty())?;
    let mut lasts = true;
    for (what, how) in parts {
        match what.to_ascii_lowercase().as_str() {
            "path" if !is_below(path, how) => return None,
            "max-age" if how == "0" || how.starts_with('-') => lasts = false,
            "expires" if httpdate::parse_http_date(how).is_ok_and(|end| end <= SystemTime::now()) => {
                lasts = false;
            }
            _ => {}
        }
    }
    Some((name, lasts.then_some(value)))
}
