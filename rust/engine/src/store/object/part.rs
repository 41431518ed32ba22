//! Parts of objects.

use std::borrow::Cow;

/// Longer entity tags are hashed.
const MAX_TAG_BYTES: usize = 40;

/// The bytes of an object that a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum ByteRange {
    /// All.
    Whole,
    /// The last bytes; all if the object has fewer.
    Last(u64),
    /// Bytes from an offset; fewer if the object ends before.
    Span {
        /// The offset of the first byte.
        offset: u64,
        /// The number of bytes.
        count: u64,
    },
}

/// A known state of an object. If the object is still in this state, the server sends no bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::store) struct KnownState {
    /// The tag.
    pub(super) tag: String,
    /// The size of the object in bytes.
    pub(super) size: u64,
}

impl KnownState {
    /// Return the state with this tag; None: the tag is a hash.
    pub(super) fn of(tag: &[u8], size: u64) -> Option<Self> {
        let tag = std::str::from_utf8(tag).ok()?.to_owned();
        Some(KnownState { tag, size })
    }

    /// Return an empty part of the object.
    pub(super) fn to_part(&self) -> ObjectPart {
        let KnownState { tag, size } = self.clone();
        ObjectPart { data: Vec::new(), first: 0, size, tag, is_strong: true }
    }
}

/// A part of an object.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::store) struct ObjectPart {
    /// The bytes: all of the object if the server does not support ranges.
    pub(super) data: Vec<u8>,
    /// The offset of these bytes in the object.
    pub(super) first: u64,
    /// The size of the object in bytes.
    pub(super) size: u64,
    /// The generation of the object; empty if the server does not send one.
    pub(super) tag: String,
    /// Whether no other state of the object has this tag.
    pub(super) is_strong: bool,
}

impl ObjectPart {
    /// Return whether these bytes are in the part.
    pub(super) fn contains(&self, offset: u64, count: u64) -> bool {
        let end = self.first.saturating_add(self.data.len() as u64);
        count == 0 || self.first <= offset && offset.checked_add(count).is_some_and(|until| until <= end)
    }

    /// Return whether the part is the whole object.
    pub(super) fn is_whole(&self) -> bool {
        self.first == 0 && self.size == self.data.len() as u64
    }

    /// Copy the first of these bytes, as many as are in the part, and return their number.
    pub(super) fn copy_first(&self, offset: u64, out: &mut [u8]) -> usize {
        let start = offset.checked_sub(self.first).and_then(|start| usize::try_from(start).ok());
        let bytes = start.and_then(|start| self.data.get(start..)).unwrap_or_default();
        let count = bytes.len().min(out.len());
        out[..count].copy_from_slice(&bytes[..count]);
        count
    }

    /// Copy bytes, if they are in the part.
    pub(super) fn copy_to(&self, offset: u64, out: &mut [u8]) -> bool {
        let start = offset.checked_sub(self.first).and_then(|start| usize::try_from(start).ok());
        let bytes = start.and_then(|start| self.data.get(start..)?.get(..out.len()));
        bytes.is_some_and(|bytes| {
            out.copy_from_slice(bytes);
            true
        })
    }

    /// Return the tag, hashed if it is long.
    pub(super) fn state(&self) -> Cow<'_, [u8]> {
        match self.tag.len() <= MAX_TAG_BYTES {
            true => self.tag.as_bytes().into(),
            false => {
                ring::digest::digest(&ring::digest::SHA256, self.tag.as_bytes()).as_ref().to_vec().into()
            }
        }
    }
}
