//! The one error type of the engine; the binding maps each kind to a class.

use std::any::Any;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// The result of every fallible engine function.
pub type Result<T> = std::result::Result<T, Error>;

/// Which Python exception class an error becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Stored bytes are bad (`DataError`).
    Data,
    /// The store failed (`StoreError`); `errno` where the system gave one.
    Store {
        /// Trying again may help.
        retryable: bool,
        /// The operating system's number, if any.
        errno: Option<i32>,
    },
    /// A caller's argument is wrong (`ArgumentError`).
    Argument,
    /// A selection is out of bounds or malformed (`SelectionError`).
    Selection,
    /// Others changed what a change was decided on (`ConflictError`).
    Conflict,
    /// The store or array is open for reading only (`ReadOnlyError`).
    ReadOnly,
    /// Something that must not exist does (`ExistsError`).
    Exists,
    /// Not found (`NotFoundError`).
    NotFound,
    /// Valid, but not supported by this build (`UnsupportedError`).
    Unsupported,
    /// The user pressed Ctrl-C; the binding raises what is pending.
    Interrupted,
    /// A callback raised; `Error::foreign` holds its exception.
    Foreign,
    /// The system gives no more memory (`MemoryError`).
    Memory,
    /// A broken promise inside the engine (`InternalError`).
    Internal,
}

/// The code of an exception that ends a program, such as that of Ctrl-C.
pub const EXIT: &str = "exit";

/// The code of an error after a change that may have been made.
pub const AMBIGUOUS_WRITE: &str = "answer_lost";

/// What failed, where and why.
#[derive(Clone)]
pub struct Error {
    /// The class.
    pub kind: Kind,
    /// A kind of `tessarr.errors.KINDS` that is narrower than the class; None: the class's own.
    pub code: Option<&'static str>,
    /// Why, in one sentence without a full stop.
    pub message: String,
    /// The store key concerned.
    pub key: Option<String>,
    /// The grid position concerned.
    pub chunk: Option<Vec<u64>>,
    /// The codec concerned, by its name.
    pub codec: Option<String>,
    /// The file or folder that the operating system refused, if it was one.
    pub file: Option<Box<PathBuf>>,
    /// The exception of a callback.
    pub foreign: Option<Arc<dyn Any + Send + Sync>>,
}

impl Error {
    /// A new error of `kind`.
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
        }
    }

    /// It ends the program, unless somebody takes it for what it is.
    pub fn is_exit(&self) -> bool {
        self.code == Some(EXIT)
    }

    /// It is no answer, but ended the wait for one.
    pub fn ends_wait(&self) -> bool {
        self.kind == Kind::Interrupted || self.is_exit()
    }

    /// Stored bytes are bad.
    pub fn data(message: impl Into<String>) -> Self {
        Self::new(Kind::Data, message)
    }

    /// Stored bytes are too many or too few.
    pub fn size(message: impl Into<String>) -> Self {
        Error { code: Some("wrong_size"), ..Self::data(message) }
    }

    /// A stored checksum differs from the data.
    pub fn checksum(stored: u32, computed: u32) -> Self {
        let message = format!("checksum mismatch: stored 0x{stored:08x}, computed 0x{computed:08x}");
        Error { code: Some("checksum_mismatch"), ..Self::data(message) }
    }

    /// The system does not give `bytes` bytes of memory for `what`.
    pub fn memory(bytes: usize, what: &str) -> Self {
        Self::new(Kind::Memory, format!("no memory for {what} of {bytes} bytes"))
    }

    /// A broken promise inside the engine.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Kind::Internal, message)
    }

    /// The operating system refused; `what` says which action on which path.
    pub fn io(what: impl fmt::Display, error: &std::io::Error) -> Self {
        use std::io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
        let retryable = matches!(error.kind(), Interrupted | TimedOut | WouldBlock);
        Self::new(Kind::Store { retryable, errno: error.raw_os_error() }, format!("{what}: {error}"))
    }

    /// It came after a change of which nobody knows whether it was made.
    #[must_use]
    pub fn after_ambiguous_write(mut self) -> Self {
        if matches!(self.kind, Kind::Store { .. } | Kind::Foreign) {
            self.code.get_or_insert(AMBIGUOUS_WRITE);
        }
        self
    }

    /// Adds the key, unless one is known already.
    #[must_use]
    pub fn at_key(mut self, key: &str) -> Self {
        self.key.get_or_insert_with(|| key.to_owned());
        self
    }

    /// Adds the grid position, unless one is known already.
    #[must_use]
    pub fn at_chunk(mut self, chunk: &[u64]) -> Self {
        self.chunk.get_or_insert_with(|| chunk.to_vec());
        self
    }

    /// Says which subchunk of a shard is meant.
    #[must_use]
    pub fn in_subchunk(mut self, cell: &[u64]) -> Self {
        let cell: Vec<String> = cell.iter().map(u64::to_string).collect();
        self.message = format!("subchunk ({}): {}", cell.join(", "), self.message);
        self
    }

    /// Adds the codec, unless one is known already.
    #[must_use]
    pub fn in_codec(mut self, codec: impl fmt::Display) -> Self {
        self.codec.get_or_insert_with(|| codec.to_string());
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
