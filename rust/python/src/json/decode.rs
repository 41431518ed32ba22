//! Strict JSON to Python values, in one pass.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PySlice, PyString};
use tessarr_engine::json_text::{hex_unit, push_code_point};

/// The number of names that a decoder shares between objects; a power of two.
const NAMES: usize = 512;
/// Longer names are not shared.
const LONGEST_NAME: usize = 64;
/// The most digits of a number that surely fits into 64 bits.
const DIGITS: usize = 18;

/// A reason why a document has no value.
enum Fault {
    /// The document is not JSON.
    Syntax,
    /// The document is JSON that Tessarr refuses, or memory is exhausted.
    Refused(PyErr),
}

impl From<PyErr> for Fault {
    fn from(error: PyErr) -> Fault {
        Fault::Refused(error)
    }
}

type Result<T> = std::result::Result<T, Fault>;

struct Decoder<'a, 'py> {
    py: Python<'py>,
    text: &'a [u8],
    at: usize,
    max_depth: usize,
    /// Whether the document contains NaN, Infinity or -Infinity.
    has_tokens: bool,
    names: Vec<Option<(&'a [u8], Bound<'py, PyString>)>>,
}

impl<'a, 'py> Decoder<'a, 'py> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Skip white space and return the next byte.
    fn next_token(&mut self) -> Option<u8> {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
        self.peek()
    }

    fn skip(&mut self, expected: &[u8]) -> bool {
        let found = self.text[self.at..].starts_with(expected);
        self.at += if found { expected.len() } else { 0 };
        found
    }

    fn document(&mut self) -> Result<Bound<'py, PyAny>> {
        let value = self.value(1)?;
        if self.next_token().is_some() {
            return Err(Fault::Syntax);
        }
        Ok(value)
    }

    /// Decode the next value, which is at a level if it is a list or an object.
    fn value(&mut self, level: usize) -> Result<Bound<'py, PyAny>> {
        let py = self.py;
        match self.next_token().ok_or(Fault::Syntax)? {
            b'"' => Ok(self.string()?.into_any()),
            b'{' | b'[' if level > self.max_depth => {
                let message = format!("more than {} levels of lists and objects", self.max_depth);
                Err(PyValueError::new_err(message).into())
            }
            b'{' => self.object(level),
            b'[' => self.list(level),
            b'-' | b'0'..=b'9' => self.number(),
            b't' if self.skip(b"true") => Ok(PyBool::new(py, true).to_owned().into_any()),
            b'f' if self.skip(b"false") => Ok(PyBool::new(py, false).to_owned().into_any()),
            b'n' if self.skip(b"null") => Ok(py.None().into_bound(py)),
            b'N' if self.skip(b"NaN") => Ok(self.token(f64::NAN)),
            b'I' if self.skip(b"Infinity") => Ok(self.token(f64::INFINITY)),
            _ => Err(Fault::Syntax),
        }
    }

    fn token(&mut self, value: f64) -> Bound<'py, PyAny> {
        self.has_tokens = true;
        PyFloat::new(self.py, value).into_any()
    }

    fn list(&mut self, level: usize) -> Result<Bound<'py, PyAny>> {
        let list = PyList::empty(self.py);
        self.at += 1;
        if self.next_token() == Some(b']') {
            self.at += 1;
            return Ok(list.into_any());
        }
        loop {
            list.append(self.value(level + 1)?)?;
            let next = self.next_token();
            self.at += 1;
            match next {
                Some(b',') => {}
                Some(b']') => return Ok(list.into_any()),
                _ => return Err(Fault::Syntax),
            }
        }
    }

    fn object(&mut self, level: usize) -> Result<Bound<'py, PyAny>> {
        let members = PyDict::new(self.py);
        self.at += 1;
        if self.next_token() == Some(b'}') {
            self.at += 1;
            return Ok(members.into_any());
        }
        let mut count = 0;
        loop {
            if self.next_token() != Some(b'"') {
                return Err(Fault::Syntax);
            }
            let name = self.name()?;
            if self.next_token() != Some(b':') {
                return Err(Fault::Syntax);
            }
            self.at += 1;
            let value = self.value(level + 1)?;
            members.set_item(&name, value)?;
            count += 1;
            if members.len() < count {
                return Err(self.repeated(&name));
            }
            let next = self.next_token();
            self.at += 1;
            match next {
                Some(b',') => {}
                Some(b'}') => return Ok(members.into_any()),
                _ => return Err(Fault::Syntax),
            }
        }
    }

    fn repeated(&self, name: &Bound<'py, PyString>) -> Fault {
        let shown = || -> PyResult<String> {
            let start = name.as_any().get_item(PySlice::new(self.py, 0, 60, 1))?;
            self.py.import("builtins")?.getattr("ascii")?.call1((start,))?.extract()
        };
        match shown() {
            Ok(shown) => PyValueError::new_err(format!("the member {shown} occurs twice")).into(),
            Err(error) => error.into(),
        }
    }

    /// Decode the name of a member; equal names share one string, whose hash is then known.
    fn name(&mut self) -> Result<Bound<'py, PyString>> {
        let start = self.at + 1;
        let plain = self.plain_end(start);
        if self.text.get(plain) != Some(&b'"') || plain - start > LONGEST_NAME {
            return self.string();
        }
        let name = &self.text[start..plain];
        let hash = name.iter().fold(name.len(), |hash, byte| hash.wrapping_mul(31) ^ usize::from(*byte));
        self.at = plain + 1;
        let slot = &mut self.names[hash & (NAMES - 1)];
        if let Some((known, shared)) = slot {
            if *known == name {
                return Ok(shared.clone());
            }
        }
        let string = PyString::from_bytes(self.py, name)?;
        *slot = Some((name, string.clone()));
        Ok(string)
    }

    /// Return the first position of a quote, a backslash or a control character.
    fn plain_end(&self, start: usize) -> usize {
        let rest = &self.text[start..];
        let plain = |byte: &u8| *byte >= b' ' && *byte != b'"' && *byte != b'\\';
        start + rest.iter().position(|byte| !plain(byte)).unwrap_or(rest.len())
    }

    fn string(&mut self) -> Result<Bound<'py, PyString>> {
        let start = self.at + 1;
        let end = self.plain_end(start);
        match self.text.get(end) {
            Some(b'"') => {
                self.at = end + 1;
                Ok(PyString::from_bytes(self.py, &self.text[start..end])?)
            }
            Some(b'\\') => self.escaped_string(start, end),
            _ => Err(Fault::Syntax),
        }
    }

    /// Decode a string with escapes; lone surrogates survive.
    fn escaped_string(&mut self, start: usize, end: usize) -> Result<Bound<'py, PyString>> {
        let mut bytes = self.text[start..end].to_vec();
        let mut has_surrogates = false;
        self.at = end;
        loop {
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => {
                    let code = self.escape()?;
                    has_surrogates |= char::from_u32(code).is_none();
                    push_code_point(code, &mut bytes);
                }
                _ => return Err(Fault::Syntax), // a control character, or the end
            }
            let end = self.plain_end(self.at);
            bytes.extend_from_slice(&self.text[self.at..end]);
            self.at = end;
        }
        self.at += 1;
        if !has_surrogates {
            return Ok(PyString::from_bytes(self.py, &bytes)?);
        }
        let decoded = PyBytes::new(self.py, &bytes).call_method1("decode", ("utf-8", "surrogatepass"))?;
        decoded.cast_into::<PyString>().map_err(|error| Fault::Refused(error.into()))
    }

    /// Return the code point of an escape; a pair of surrogates is one.
    fn escape(&mut self) -> Result<u32> {
        let kind = self.text.get(self.at + 1).copied().ok_or(Fault::Syntax)?;
        self.at += 2;
        Ok(u32::from(match kind {
            b'"' | b'\\' | b'/' => kind,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let unit = hex_unit(&self.text[self.at..]).ok_or(Fault::Syntax)?;
                self.at += 4;
                let low = self.text[self.at..].strip_prefix(b"\\u").and_then(hex_unit);
                return Ok(match low {
                    Some(low) if (0xd800..0xdc00).contains(&unit) && (0xdc00..0xe000).contains(&low) => {
                        self.at += 6;
                        0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00)
                    }
                    _ => unit,
                });
            }
            _ => return Err(Fault::Syntax),
        }))
    }

    fn number(&mut self) -> Result<Bound<'py, PyAny>> {
        let start = self.at;
        let is_negative = self.skip(b"-");
        if is_negative && self.skip(b"Infinity") {
            return Ok(self.token(f64::NEG_INFINITY));
        }
        if !self.skip(b"0") && self.skip_digits() == 0 {
            return Err(Fault::Syntax);
        }
        let whole = self.at;
        if self.peek() == Some(b'.') {
            self.at += 1;
            if self.skip_digits() == 0 {
                return Err(Fault::Syntax);
            }
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if !self.skip(b"-") {
                self.skip(b"+");
            }
            if self.skip_digits() == 0 {
                return Err(Fault::Syntax);
            }
        }
        let text = std::str::from_utf8(&self.text[start..self.at]).map_err(|_| Fault::Syntax)?;
        if self.at > whole {
            return self.float(text);
        }
        if text.len() <= DIGITS {
            let number: i64 = text.parse().map_err(|_| Fault::Syntax)?;
            return Ok(PyInt::new(self.py, number).into_any());
        }
        Ok(self.py.get_type::<PyInt>().call1((text,))?)
    }

    fn skip_digits(&mut self) -> usize {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        self.at - start
    }

    fn float(&self, text: &str) -> Result<Bound<'py, PyAny>> {
        let number: f64 = text.parse().map_err(|_| Fault::Syntax)?;
        if number.is_infinite() {
            let shown = &text[..text.len().min(40)];
            let message = format!("the number {shown} is too large for a float of 64 bits");
            return Err(PyValueError::new_err(message).into());
        }
        Ok(PyFloat::new(self.py, number).into_any())
    }
}

/// The value of a JSON document, and whether it contains NaN, Infinity or -Infinity.
///
/// None if the document is not JSON or not UTF-8. A repeated member, a number beyond float64 and
/// too many levels raise a ValueError.
#[pyfunction]
pub(super) fn decode_json<'py>(
    document: &Bound<'py, PyBytes>,
    max_depth: usize,
) -> PyResult<Option<(Bound<'py, PyAny>, bool)>> {
    let text = document.as_bytes();
    if std::str::from_utf8(text).is_err() {
        return Ok(None);
    }
    let names = vec![None; NAMES];
    let mut decoder = Decoder { py: document.py(), text, at: 0, max_depth, has_tokens: false, names };
    match decoder.document() {
        Ok(value) => Ok(Some((value, decoder.has_tokens))),
        Err(Fault::Syntax) => Ok(None),
        Err(Fault::Refused(error)) => Err(error),
    }
}
