//! Edits of members of JSON documents as text.
//!
//! An edit copies the bytes of all other members, so that it neither parses nor encodes them.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Range;

/// A document whose brackets or strings do not end.
#[derive(Debug, PartialEq, Eq)]
pub struct Malformed;

/// A member of an object.
#[derive(Debug)]
struct Member {
    /// The name between its quotes, with escapes.
    name: Range<usize>,
    value: Range<usize>,
}

impl Member {
    /// The position of the quote before the name.
    fn start(&self) -> usize {
        self.name.start - 1
    }

    /// The name as UTF-8, with surrogates as in WTF-8.
    fn name<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        let raw = &text[self.name.clone()];
        if raw.contains(&b'\\') {
            Cow::Owned(unescape(raw))
        } else {
            Cow::Borrowed(raw)
        }
    }
}

/// An object in a document.
#[derive(Debug)]
struct Object {
    /// The positions of its braces.
    open: usize,
    close: usize,
    members: Vec<Member>,
}

/// The order of names, which determines the position of new members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// New members come last.
    Last,
    /// By code points.
    Name,
    /// By parts between slashes.
    Path,
}

impl Order {
    fn compare(self, one: &[u8], other: &[u8]) -> Ordering {
        let key = |byte: &u8| if *byte == b'/' { 0 } else { u16::from(*byte) + 1 };
        match self {
            Order::Last => Ordering::Greater,
            Order::Name => one.cmp(other),
            Order::Path => one.iter().map(key).cmp(other.iter().map(key)),
        }
    }
}

/// The edits of one object: texts of members by name, or `None` to remove the member.
#[derive(Debug)]
pub struct ObjectEdit {
    /// The level of the object: 0 for the document itself.
    pub level: usize,
    /// The position of new members.
    pub order: Order,
    /// Names and texts of values; each name occurs once.
    pub members: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

/// The objects on a path in a document: the document itself, the value of a member, and so on.
#[derive(Debug)]
pub struct ObjectChain(Vec<Object>);

impl ObjectChain {
    /// Find the objects on a path; the chain ends before a value that is absent or no object.
    pub fn find(text: &[u8], path: &[&[u8]]) -> Result<ObjectChain, Malformed> {
        let mut scanner = Scanner { text, at: if text.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 } };
        let mut objects = Vec::new();
        scanner.skip_space();
        if scanner.peek() == Some(b'{') {
            scanner.object(path, &mut objects)?;
        }
        objects.reverse(); // inner objects end first
        Ok(ObjectChain(objects))
    }

    /// The number of objects.
    #[must_use]
    pub fn levels(&self) -> usize {
        self.0.len()
    }

    /// Return the text of the value of a member.
    #[must_use]
    pub fn value<'a>(&self, text: &'a [u8], level: usize, name: &[u8]) -> Option<&'a [u8]> {
        let members = &self.0.get(level)?.members;
        let member = members.iter().find(|member| *member.name(text) == *name)?;
        Some(&text[member.value.clone()])
    }

    /// Return the names of an object that start with a prefix.
    #[must_use]
    pub fn names<'a>(&self, text: &'a [u8], level: usize, prefix: &[u8]) -> Vec<Cow<'a, [u8]>> {
        let members = self.0.get(level).map_or(&[][..], |object| &object.members);
        members.iter().map(|member| member.name(text)).filter(|name| name.starts_with(prefix)).collect()
    }

    /// Return the document with edits of its objects, at most one of each object.
    ///
    /// `indent` is the number of spaces per level for the members of empty objects; otherwise new
    /// members are separated like the present ones.
    #[must_use]
    pub fn edit(&self, text: &[u8], edits: &[ObjectEdit], indent: usize) -> Vec<u8> {
        let Some(root) = self.0.first() else { return text.to_vec() };
        let more: usize = edits.iter().flat_map(|edit| &edit.members).map(|(_, value)| longer(value)).sum();
        let mut out = Vec::with_capacity(text.len() + more);
        out.extend_from_slice(&text[..root.open]);
        Editor { chain: self, text, edits, indent }.object(0, &mut out);
        out.extend_from_slice(&text[root.close + 1..]);
        out
    }
}

/// An estimate of the bytes that a member adds.
fn longer(value: &Option<Vec<u8>>) -> usize {
    value.as_ref().map_or(0, |value| value.len() + 64)
}

/// A member of an edited object.
enum Item<'a> {
    Kept(usize),
    Replaced(usize, &'a [u8]),
    New(&'a [u8], &'a [u8]),
}

struct Editor<'a> {
    chain: &'a ObjectChain,
    text: &'a [u8],
    edits: &'a [ObjectEdit],
    indent: usize,
}

impl Editor<'_> {
    fn object(&self, level: usize, out: &mut Vec<u8>) {
        let object = &self.chain.0[level];
        let members = &object.members;
        let items = self.items(level);
        let (Some(first), Some(last)) = (members.first(), members.last()) else {
            return self.filled(level, &items, out);
        };
        let lead = &self.text[object.open + 1..first.start()];
        out.push(b'{');
        for (k, item) in items.iter().enumerate() {
            match item {
                _ if k == 0 => out.extend_from_slice(lead),
                Item::Kept(i) | Item::Replaced(i, _) if *i > 0 => {
                    out.extend_from_slice(&self.text[members[i - 1].value.end..members[*i].start()]);
                }
                _ => {
                    out.push(b',');
                    out.extend_from_slice(lead);
                }
            }
            self.item(level, item, out);
        }
        if !items.is_empty() {
            out.extend_from_slice(&self.text[last.value.end..object.close]);
        }
        out.push(b'}');
    }

    /// Write the new members of an empty object.
    fn filled(&self, level: usize, items: &[Item<'_>], out: &mut Vec<u8>) {
        out.push(b'{');
        for (k, item) in items.iter().enumerate() {
            if k > 0 {
                out.push(b',');
            }
            self.line(level + 1, out);
            self.item(level, item, out);
        }
        if !items.is_empty() {
            self.line(level, out);
        }
        out.push(b'}');
    }

    fn line(&self, level: usize, out: &mut Vec<u8>) {
        out.push(b'\n');
        out.resize(out.len() + self.indent * level, b' ');
    }

    fn item(&self, level: usize, item: &Item<'_>, out: &mut Vec<u8>) {
        let members = &self.chain.0[level].members;
        match item {
            Item::Kept(i) => {
                let (start, value) = (members[*i].start(), &members[*i].value);
                match self.chain.0.get(level + 1) {
                    Some(inner) if inner.open == value.start => {
                        out.extend_from_slice(&self.text[start..value.start]);
                        self.object(level + 1, out);
                    }
                    _ => out.extend_from_slice(&self.text[start..value.end]),
                }
            }
            Item::Replaced(i, value) => {
                out.extend_from_slice(&self.text[members[*i].start()..members[*i].value.start]);
                out.extend_from_slice(value);
            }
            Item::New(name, value) => {
                escape(name, out);
                out.extend_from_slice(b": ");
                out.extend_from_slice(value);
            }
        }
    }

    /// Return the members of an object after its edit.
    fn items(&self, level: usize) -> Vec<Item<'_>> {
        let members = &self.chain.0[level].members;
        let Some(edit) = self.edits.iter().find(|edit| edit.level == level) else {
            return (0..members.len()).map(Item::Kept).collect();
        };
        let mut changes: Vec<_> = edit.members.iter().map(|(name, value)| (name, value, false)).collect();
        if edit.order != Order::Last {
            changes.sort_by(|one, other| edit.order.compare(one.0, other.0));
        }
        let by_name: std::collections::HashMap<&[u8], usize> =
            changes.iter().enumerate().map(|(k, change)| (change.0.as_slice(), k)).collect();
        let found: Vec<_> =
            members.iter().map(|member| by_name.get(&*member.name(self.text)).copied()).collect();
        for k in found.iter().flatten() {
            changes[*k].2 = true;
        }
        let mut new = changes
            .iter()
            .filter(|(_, value, present)| !present && value.is_some())
            .filter_map(|(name, value, _)| value.as_ref().map(|value| (name.as_slice(), value.as_slice())))
            .peekable();
        let mut items = Vec::with_capacity(members.len() + changes.len());
        for (i, member) in members.iter().enumerate() {
            let name = member.name(self.text);
            while let Some((name, value)) =
                new.next_if(|(new_name, _)| edit.order.compare(new_name, &name) == Ordering::Less)
            {
                items.push(Item::New(name, value));
            }
            match found[i].map(|k| changes[k].1) {
                None => items.push(Item::Kept(i)),
                Some(Some(value)) => items.push(Item::Replaced(i, value)),
                Some(None) => {}
            }
        }
        items.extend(new.map(|(name, value)| Item::New(name, value)));
        items
    }
}

/// A reader of the structure of a document: brackets, strings and separators.
struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
}

impl Scanner<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Read the object at the current position; add it after the objects on the path below it.
    fn object(&mut self, path: &[&[u8]], objects: &mut Vec<Object>) -> Result<(), Malformed> {
        let open = self.at;
        self.at += 1;
        let mut members = Vec::new();
        let mut descended = false;
        loop {
            self.skip_space();
            match self.peek() {
                Some(b'}') => break,
                Some(b',') if !members.is_empty() => self.at += 1,
                Some(b'"') => {
                    let member = self.member(path, &mut descended, objects)?;
                    members.push(member);
                }
                _ => return Err(Malformed),
            }
        }
        objects.push(Object { open, close: self.at, members });
        self.at += 1;
        Ok(())
    }

    fn member(
        &mut self,
        path: &[&[u8]],
        descended: &mut bool,
        objects: &mut Vec<Object>,
    ) -> Result<Member, Malformed> {
        let start = self.at + 1;
        self.skip_string()?;
        let name = start..self.at - 1;
        self.skip_space();
        if self.peek() != Some(b':') {
            return Err(Malformed);
        }
        self.at += 1;
        self.skip_space();
        let value = self.at;
        let mut member = Member { name, value: value..value };
        match path.split_first() {
            Some((next, rest)) if *member.name(self.text) == **next => {
                if std::mem::replace(descended, true) {
                    return Err(Malformed); // the member occurs twice
                }
                if self.peek() == Some(b'{') {
                    self.object(rest, objects)?;
                } else {
                    self.skip_value()?;
                }
            }
            _ => self.skip_value()?,
        }
        member.value.end = self.at;
        Ok(member)
    }

    fn skip_value(&mut self) -> Result<(), Malformed> {
        let start = self.at;
        let mut depth = 0usize;
        while let Some(byte) = self.peek() {
            match byte {
                b'"' => {
                    self.skip_string()?;
                    if depth == 0 {
                        return Ok(());
                    }
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' if depth > 1 => depth -= 1,
                b'}' | b']' if depth == 1 => {
                    self.at += 1;
                    return Ok(());
                }
                b'}' | b']' | b',' | b' ' | b'\t' | b'\n' | b'\r' if depth == 0 => break,
                _ => {}
            }
            self.at += 1;
        }
        if depth > 0 || self.at == start {
            return Err(Malformed);
        }
        Ok(())
    }

    fn skip_string(&mut self) -> Result<(), Malformed> {
        self.at += 1;
        while let Some(byte) = self.peek() {
            self.at += 1;
            match byte {
                b'"' => return Ok(()),
                b'\\' => self.at += 1,
                _ => {}
            }
        }
        Err(Malformed)
    }
}

/// Return a name without escapes; an invalid escape stays.
fn unescape(raw: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let Some((&kind, after)) = rest.split_first() else { break };
        rest = after;
        match kind {
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'u' => {
                let Some(unit) = hex_unit(rest) else { continue };
                rest = &rest[4..];
                let low = rest.strip_prefix(b"\\u").and_then(hex_unit);
                match low {
                    Some(low) if (0xd800..0xdc00).contains(&unit) && (0xdc00..0xe000).contains(&low) => {
                        rest = &rest[6..];
                        push_code_point(0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00), &mut out);
                    }
                    _ => push_code_point(unit, &mut out),
                }
            }
            other => out.push(other),
        }
    }
    out
}

/// Return the number of four hexadecimal digits.
#[must_use]
pub fn hex_unit(text: &[u8]) -> Option<u32> {
    text.get(..4)?.iter().try_fold(0, |unit, digit| Some(unit * 16 + char::from(*digit).to_digit(16)?))
}

/// Append a code point as UTF-8, and a surrogate as in WTF-8.
pub fn push_code_point(code: u32, out: &mut Vec<u8>) {
    match char::from_u32(code) {
        Some(char) => out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
        None => out.extend([0xe0 | (code >> 12), 0x80 | (code >> 6 & 0x3f), 0x80 | (code & 0x3f)].map(
            |byte| byte as u8, // a surrogate: below 0x10000
        )),
    }
}

/// Append a name as an ASCII string, like `json.dumps`.
fn escape(name: &[u8], out: &mut Vec<u8>) {
    use std::io::Write;
    out.push(b'"');
    for char in String::from_utf8_lossy(name).chars() {
        match char {
            '"' | '\\' => out.extend([b'\\', char as u8]),
            '\n' => out.extend_from_slice(b"\\n"),
            '\r' => out.extend_from_slice(b"\\r"),
            '\t' => out.extend_from_slice(b"\\t"),
            '\u{8}' => out.extend_from_slice(b"\\b"),
            '\u{c}' => out.extend_from_slice(b"\\f"),
            ' '..='~' => out.push(char as u8),
            _ => {
                for unit in char.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}"); // writing to a vector does not fail
                }
            }
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(text: &str, path: &[&str], level: usize, order: Order, members: &[(&str, Option<&str>)]) -> String {
        let path: Vec<_> = path.iter().map(|name| name.as_bytes()).collect();
        let chain = ObjectChain::find(text.as_bytes(), &path).unwrap_or(ObjectChain(Vec::new()));
        let members = members
            .iter()
            .map(|(name, value)| (name.as_bytes().to_vec(), value.map(|value| value.as_bytes().to_vec())))
            .collect();
        let out = chain.edit(text.as_bytes(), &[ObjectEdit { level, order, members }], 2);
        String::from_utf8_lossy(&out).into_owned()
    }

    const TEXT: &str = "{\n  \"a\": 1,\n  \"b\": {\n    \"x\": [\"}\", {\"x\": 0}],\n    \"z\": null\n  },\n  \"c\": \"\\\"}\"\n}\n";

    #[test]
    fn edits_without_members_return_the_document() {
        for path in [&[][..], &["b"], &["b", "x"], &["nope"], &["a", "b"]] {
            for level in 0..3 {
                assert_eq!(edit(TEXT, path, level, Order::Path, &[]), TEXT);
            }
        }
    }

    #[test]
    fn members_are_replaced_added_and_removed() {
        let changed = edit(TEXT, &["b"], 1, Order::Path, &[("x", Some("2")), ("y", Some("3")), ("q", None)]);
        assert_eq!(changed, TEXT.replace("[\"}\", {\"x\": 0}]", "2,\n    \"y\": 3"));
        assert_eq!(edit(&changed, &["b"], 1, Order::Path, &[("y", None), ("x", Some("[\"}\", {\"x\": 0}]"))]), TEXT);
    }

    #[test]
    fn all_members_are_removed_and_added() {
        let empty = edit(TEXT, &["b"], 1, Order::Name, &[("x", None), ("z", None)]);
        assert!(empty.contains("\"b\": {},"));
        let filled = edit(&empty, &["b"], 1, Order::Name, &[("z", Some("null")), ("x", Some("[\"}\", {\"x\": 0}]"))]);
        assert_eq!(filled, TEXT);
    }

    #[test]
    fn first_and_last_members_are_removed() {
        assert_eq!(edit("{\"a\":1,\"b\":2,\"c\":3}", &[], 0, Order::Name, &[("a", None)]), "{\"b\":2,\"c\":3}");
        assert_eq!(edit("{\"a\":1,\"b\":2,\"c\":3}", &[], 0, Order::Name, &[("c", None)]), "{\"a\":1,\"b\":2}");
        assert_eq!(edit("{ \"b\": 2 }", &[], 0, Order::Name, &[("a", Some("1"))]), "{ \"a\": 1, \"b\": 2 }");
    }

    #[test]
    fn order_determines_the_position() {
        let text = "{\"a\":1,\"a/b\":2,\"a.c\":3}";
        assert_eq!(
            edit(text, &[], 0, Order::Path, &[("a/c", Some("0"))]),
            "{\"a\":1,\"a/b\":2,\"a/c\": 0,\"a.c\":3}"
        );
        assert_eq!(
            edit("{\"b\":1}", &[], 0, Order::Last, &[("c", Some("0")), ("a", Some("0"))]),
            "{\"b\":1,\"c\": 0,\"a\": 0}"
        );
        assert_eq!(edit("{\"b\":1}", &[], 0, Order::Name, &[("a", Some("0"))]), "{\"a\": 0,\"b\":1}");
    }

    #[test]
    fn names_with_escapes_match() {
        let text = "{\"\\u00e9\\ud83d\\ude00\\n\":1,\"é\":2}";
        let changed = edit(text, &[], 0, Order::Name, &[("é😀\n", Some("0"))]);
        assert_eq!(changed, "{\"\\u00e9\\ud83d\\ude00\\n\":0,\"é\":2}");
        assert_eq!(edit("{}", &[], 0, Order::Last, &[("é😀\n\"", Some("0"))]), "{\n  \"\\u00e9\\ud83d\\ude00\\n\\\"\": 0\n}");
    }

    #[test]
    fn values_and_names_are_read() {
        let chain = ObjectChain::find(TEXT.as_bytes(), &[b"b"]).unwrap_or(ObjectChain(Vec::new()));
        assert_eq!(chain.levels(), 2);
        assert_eq!(chain.value(TEXT.as_bytes(), 1, b"z"), Some(&b"null"[..]));
        assert_eq!(chain.value(TEXT.as_bytes(), 1, b"a"), None);
        assert_eq!(chain.names(TEXT.as_bytes(), 1, b""), [&b"x"[..], b"z"]);
        assert_eq!(chain.names(TEXT.as_bytes(), 0, b"c"), [&b"c"[..]]);
    }

    #[test]
    fn documents_without_end_are_malformed() {
        for text in ["{", "{\"a", "{\"a\"", "{\"a\":", "{\"a\":[1", "{\"a\":[\"", "{,}", "{\"a\":1", "{\"b\":1,\"b\":2}"] {
            assert!(ObjectChain::find(text.as_bytes(), &[b"b"]).is_err(), "{text}");
        }
        for text in ["", "[]", "1", "null"] {
            assert_eq!(ObjectChain::find(text.as_bytes(), &[]).map(|chain| chain.levels()), Ok(0));
        }
    }
}
