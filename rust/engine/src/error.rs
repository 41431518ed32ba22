//! The error type of the engine; the binding maps each kind to an exception class.

use std::any::Any;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// The result of every fallible engine function.
pub type Result<T> = std::result::Result<T, Error>;

/// The Python exception class of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Stored bytes are invalid (`DataError`).
    Data,
    /// The store failed (`StoreError`).
    Store {
        /// A retry may succeed.
        retryable: bool,
        /// The error number of the operating system, if any.
        errno: Option<i32>,
    },
    /// An argument of the caller is invalid (`ArgumentError`).
    Argument,
    /// A selection is out of bounds or malformed (`SelectionError`).
    Selection,
    /// Another writer changed the value that a change is based on (`ConflictError`).
    Conflict,
    /// The store or array is open for reading only (`ReadOnlyError`).
    ReadOnly,
    /// Something exists that must not (`ExistsError`).
    Exists,
    /// Not found (`NotFoundError`).
    NotFound,
    /// Valid, but this build does not support it (`UnsupportedError`).
    Unsupported,
    /// The user pressed Ctrl-C; the binding raises the pending exception.
    Interrupted,
    /// A callback raised an exception, which `Error::foreign` holds.
    Foreign,
    /// The system has no more memory (`MemoryError`).
    Memory,
    /// A bug in the engine (`InternalError`).
    Internal,
}

/// The code of an exception that ends the program, such as that of Ctrl-C.
pub const EXIT: &str = "exit";

/// The code of an error after an ambiguous write: the store may have applied it.
pub const AMBIGUOUS_WRITE: &str = "answer_lost";

/// What failed, where and why.
#[derive(Clone)]
pub struct Error {
    /// The exception class.
    pub kind: Kind,
    /// A kind of `tessarr.errors.KINDS` that is narrower than the class; None: the kind of the
    /// class.
    pub code: Option<&'static str>,
    /// The reason, in one sentence without a full stop.
    pub message: String,
    /// The store key.
    pub key: Option<String>,
    /// The grid position.
    pub chunk: Option<Vec<u64>>,
    /// The name of the codec.
    pub codec: Option<Box<str>>,
    /// The file or folder that the operating system rejected, if any.
    pub file: Option<Box<PathBuf>>,
    /// The exception of a callback.
    pub foreign: Option<Arc<dyn Any + Send + Sync>>,
    /// A note that the exception shows below its message, such as the number of other errors.
    pub note: Option<Arc<String>>,
}

impl Error {
    /// Return a new error of `kind`.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Error {
            kind,
            code: None,
            message: message.into(),
            key: None,
            chunk: None,
            codec: None,
            file: None,
            foreign: None,
            note: None,
        }
    }

    /// Return whether the error ends the program unless a caller handles it.
    pub fn is_exit(&self) -> bool {
        self.code == Some(EXIT)
    }

    /// Return whether the error ends the wait for an operation, not the operation itself.
    pub fn ends_wait(&self) -> bool {
        self.kind == Kind::Interrupted || self.is_exit()
    }

    /// Stored bytes are invalid.
    pub fn data(message: impl Into<String>) -> Self {
        Self::new(Kind::Data, message)
    }

    /// Return an error for a wrong number of stored bytes.
    pub fn size(message: impl Into<String>) -> Self {
        Error { code: Some("wrong_size"), ..Self::data(message) }
    }

    /// Return an error for a stored checksum that differs from the checksum of the data.
    pub fn checksum(stored: u32, computed: u32) -> Self {
        let message = format!("checksum mismatch: stored 0x{stored:08x}, computed 0x{computed:08x}");
        Error { code: Some("checksum_mismatch"), ..Self::data(message) }
    }

    /// Memory exhaustion: the system cannot allocate `bytes` bytes for `what`.
    pub fn memory(bytes: usize, what: &str) -> Self {
        Self::new(Kind::Memory, format!("no memory for {what} of {bytes} bytes"))
    }

    /// An argument of the caller is invalid.
    pub fn argument(message: impl Into<String>) -> Self {
        Self::new(Kind::Argument, message)
    }

    /// A selection is out of bounds or malformed.
    pub fn selection(message: impl Into<String>) -> Self {
        Self::new(Kind::Selection, message)
    }

    /// An error of a store, whose request may succeed later if it is `retryable`.
    pub fn store(retryable: bool, message: impl Into<String>) -> Self {
        Self::new(Kind::Store { retryable, errno: None }, message)
    }

    /// Return an error for a bug in the engine.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Kind::Internal, message)
    }

    /// Return an error of the operating system; `what` names the action and the path.
    pub fn io(what: impl fmt::Display, error: &std::io::Error) -> Self {
        use std::io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
        let retryable = matches!(error.kind(), Interrupted | TimedOut | WouldBlock);
        Self::new(Kind::Store { retryable, errno: error.raw_os_error() }, format!("{what}: {error}"))
    }

    /// Mark the error of an ambiguous write: the store may have applied it.
    #[must_use]
    pub fn after_ambiguous_write(mut self) -> Self {
        if matches!(self.kind, Kind::Store { .. } | Kind::Foreign) {
            self.code.get_or_insert(AMBIGUOUS_WRITE);
        }
        self
    }

    /// Add the key, unless the error has one.
    #[must_use]
    pub fn at_key(mut self, key: &str) -> Self {
        self.key.get_or_insert_with(|| key.to_owned());
        self
    }

    /// Add the grid position, unless the error has one.
    #[must_use]
    pub fn at_chunk(mut self, chunk: &[u64]) -> Self {
        self.chunk.get_or_insert_with(|| chunk.to_vec());
        self
    }

    /// Add the subchunk of a shard to the message.
    #[must_use]
    pub fn in_subchunk(mut self, cell: &[u64]) -> Self {
        let cell: Vec<String> = cell.iter().map(u64::to_string).collect();
        self.message = format!("subchunk ({}): {}", cell.join(", "), self.message);
        self
    }

    /// Add the codec, unless the error has one.
    #[must_use]
    pub fn in_codec(mut self, codec: impl fmt::Display) -> Self {
        self.codec.get_or_insert_with(|| codec.to_string().into());
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?}: {} (key {:?}, chunk {:?}, codec {:?})",
            self.kind, self.message, self.key, self.chunk, self.codec
        )
    }
}

impl std::error::Error for Error {}
