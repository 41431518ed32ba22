//! Cookies: some servers require those that they have set.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use hyper::header::{HeaderMap, HeaderValue, COOKIE, SET_COOKIE};

use crate::store::fork;

/// The maximum number of cookies, as in browsers.
const MAX_COOKIES: usize = 50;

/// Cookies of a server: values by name.
#[derive(Debug, Default)]
pub(super) struct Cookies(Mutex<BTreeMap<String, String>>);

impl Cookies {
    /// Store the cookies of a response to a request for `path`.
    pub(super) fn store(&self, path: &str, response: &HeaderMap) {
        let new_cookies = response.get_all(SET_COOKIE).iter().filter_map(|cookie| cookie.to_str().ok());
        let mut new_cookies = new_cookies.filter_map(|cookie| parse(path, cookie)).peekable();
        if new_cookies.peek().is_none() {
            return;
        }
        let _gate = fork::gate();
        let mut cookies = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, value) in new_cookies {
            match value {
                Some(value) if cookies.len() < MAX_COOKIES || cookies.contains_key(name) => {
                    cookies.insert(name.to_owned(), value.to_owned());
                }
                Some(_) => {}
                None => drop(cookies.remove(name)),
            }
        }
    }

    /// Add the cookies to the headers of a request, which may have others.
    pub(super) fn add_to(&self, request: &mut HeaderMap) {
        let _gate = fork::gate();
        let cookies = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if cookies.is_empty() {
            return;
        }
        let sent = request.get(COOKIE).and_then(|sent| sent.to_str().ok()).map(ToOwned::to_owned);
        let cookies = cookies.iter().map(|(name, value)| format!("{name}={value}"));
        let all: Vec<String> = sent.into_iter().chain(cookies).collect();
        if let Ok(all) = HeaderValue::from_str(&all.join("; ")) {
            request.insert(COOKIE, all);
        }
    }
}

/// Return whether `path` is `folder` or lies below it.
fn is_below(path: &str, folder: &str) -> bool {
    let rest = path.strip_prefix(folder);
    rest.is_some_and(|rest| {
        rest.is_empty() || rest.starts_with('/') || folder.is_empty() || folder.ends_with('/')
    })
}

/// Parse a cookie: its name, and its value, or None if it expires at once. None: it is for other
/// paths.
fn parse<'c>(path: &str, cookie: &'c str) -> Option<(&'c str, Option<&'c str>)> {
    let mut parts = cookie.split(';').map(|part| {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        (name.trim(), value.trim())
    });
    let (name, value) = parts.next().filter(|(name, _)| !name.is_empty())?;
    let mut is_kept = true;
    for (attribute, setting) in parts {
        match attribute.to_ascii_lowercase().as_str() {
            "path" if !is_below(path, setting) => return None,
            "max-age" if setting == "0" || setting.starts_with('-') => is_kept = false,
            "expires" if httpdate::parse_http_date(setting).is_ok_and(|end| end <= SystemTime::now()) => {
                is_kept = false;
            }
            _ => {}
        }
    }
    Some((name, is_kept.then_some(value)))
}
