//! Edits of members of JSON documents as text.
//!
//! An edit copies the bytes of all other members, so that it neither parses nor encodes them.

mod editor;
mod names;
mod scanner;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Range;

use editor::Editor;
use names::unescape;
pub use names::{hex_unit, push_code_point};
use scanner::Scanner;

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
