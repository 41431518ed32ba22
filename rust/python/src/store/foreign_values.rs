//! Values of a store that is written in Python.

use crate::runtime::once_cell::intern;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use tessarr_engine::store::{replaced, ReadFlags, ValueReader, Version};
use tessarr_engine::{Error, Result};

use super::bytes_of;
use super::foreign::{attached, is_kind, wrong_count};
use crate::runtime::gil_value::GilValue;

/// Up to this size, a copy takes less time than the later release of Python's object, for which a
/// thread waits for the GIL.
const COPIED_BYTES: usize = 64 << 10;

/// Bytes from Python.
pub(super) enum Bytes {
    Copied(Box<[u8]>),
    GilValue(GilValue<PyBackedBytes>),
}

impl Bytes {
    pub(super) fn of(bytes: PyBackedBytes) -> Bytes {
        match bytes.len() <= COPIED_BYTES {
            true => Bytes::Copied(bytes.as_ref().into()),
            false => Bytes::GilValue(GilValue::new(bytes)),
        }
    }
}

/// A whole value from the store.
pub(super) struct Whole {
    pub(super) bytes: Bytes,
    pub(super) version: Option<Version>,
    pub(super) state: Option<Version>,
}

impl Whole {
    pub(super) fn slice(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Copied(bytes) => bytes,
            Bytes::GilValue(bytes) => bytes.get().map_or(&[], |bytes| bytes),
        }
    }
}

impl ValueReader for Whole {
    fn version(&self) -> Option<Version> {
        self.version
    }

    fn state(&self) -> Option<Version> {
        self.state
    }

    fn bytes(&self) -> Option<&[u8]> {
        Some(self.slice())
    }
}

/// An open value of the store, which reads byte ranges.
pub(super) struct Ranged {
    pub(super) key: String,
    pub(super) value: GilValue<Py<PyAny>>,
    pub(super) size: u64,
    pub(super) version: Option<Version>,
    pub(super) state: Option<Version>,
}

impl ValueReader for Ranged {
    fn size(&self) -> u64 {
        self.size
    }

    fn version(&self) -> Option<Version> {
        self.version
    }

    fn state(&self) -> Option<Version> {
        self.state
    }

    fn read_with(&self, offset: u64, out: &mut [u8], _: ReadFlags) -> Result<()> {
        let value = self.value.get().ok_or_else(|| Error::internal("a value was let go while in use"))?;
        let piece =
            attached(|py| match value.bind(py).call_method1(intern!(py, "read"), (offset, out.len())) {
                Err(raised) if is_kind(py, &raised, "value_replaced") => Ok(None),
                done => Ok(Some(bytes_of(&done?)?)),
            })?;
        let Some(piece) = piece else { return Err(replaced(&self.key)) };
        if piece.len() != out.len() {
            return Err(wrong_count(&piece, offset, out.len() as u64));
        }
        out.copy_from_slice(&piece);
        Ok(())
    }
}
