"""Options of the library as one frozen value.

`options(...)` changes options for a block of code, `configure(...)` for the process, and
`current()` returns the options in effect. The library reads most options when it opens or
creates an array, so an open array never changes its behaviour.
"""

from __future__ import annotations

from contextvars import ContextVar, Token
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict

from tessarr import _engine
from tessarr.errors import ArgumentError
from tessarr.format.registry import set_public_module, with_keywords

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Unpack

__all__ = ["Options", "check_cache_bytes", "configure", "current", "options", "threads"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options and their defaults.

    Parameters
    ----------
    threads
        The number of threads that encode and decode chunks in the process. None means one
        per processor that the process may use; the CPU affinity and the CPU quota of a
        container limit this number. This option takes effect immediately and for every
        array, because all arrays share one pool.
    write_empty_chunks
        Store chunks in which every element is the fill value. By default, a write deletes
        such a chunk instead. Read when an array is opened or created; the keyword of the
        same name takes precedence.
    durable
        Wait until written data is on the disk (fsync), so that it survives a power failure.
        By default, a killed program loses nothing, but a power failure may lose the last
        seconds. Read when a folder is opened by its path; a store object keeps its own
        setting.
    chunk_cache_bytes
        The size of the chunk cache of the process in bytes; 0 disables it. The cache holds
        decoded chunks after reads of parts of compressed chunks, so that a loop over rows
        decodes each chunk once. It returns a chunk only if the stored value has not changed.
        None means 64 MiB, or a sixteenth of the memory that the process may use, if that is
        less. This option takes effect immediately and for every array without its own
        ``chunk_cache_bytes`` in `tessarr.Array.config`.
    metadata_bytes
        The size of the largest metadata document to read; a larger one raises a
        `MetadataError` without taking memory. Read at each request.
    zarr_format
        The default format of new arrays and groups: 3 or 2.
    compressor
        The default compression of new arrays: a codec, its JSON, its name, a list of these,
        or None for no compression. "auto" means Blosc with LZ4, level 5 and byte shuffle.
    text
        The NumPy type of text of any length: "string" for NumPy's ``StringDType``, "object"
        for ``str`` objects. "auto" means "string" in format 3 (with NumPy 2) and "object"
        in format 2.
    copy_bytes
        The memory that a copy between arrays may hold at a time, in addition to the memory
        for encoding and decoding. Read when a copy starts.
    nan_attributes
        How writes treat NaN and infinities in attributes, which JSON lacks. Tessarr stores
        them as the tokens NaN, Infinity and -Infinity, as xarray and zarr-python do; readers
        outside Python may reject these. "warn" emits a warning, "allow" does not, and
        "refuse" raises an error and stores nothing. Reading them is always allowed.
    allow_pickle
        Open arrays with pickled elements (format 2). Reading a pickle can run arbitrary
        code: allow it only if you trust all writers of the store.

    Examples
    --------
    >>> Options().zarr_format
    3
    """

    threads: int | None = None
    chunk_cache_bytes: int | None = None
    write_empty_chunks: bool = False
    durable: bool = False
    metadata_bytes: int = 1 << 28
    zarr_format: Literal[2, 3] = 3
    compressor: Any = "auto"
    text: Literal["auto", "string", "object"] = "auto"
    copy_bytes: int = 1 << 28
    nan_attributes: Literal["warn", "allow", "refuse"] = "warn"
    allow_pickle: bool = False

    def __post_init__(self) -> None:
        if self.threads is not None and (type(self.threads) is not int or self.threads < 1):
            raise ArgumentError(
                f"option threads must be a positive integer or None, not {self.threads!r}"
            )
        check_cache_bytes("option chunk_cache_bytes", self.chunk_cache_bytes)
        for name in ("metadata_bytes", "copy_bytes"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise ArgumentError(f"option {name} must be a positive integer, not {value!r}")
        for name, choices in _CHOICES.items():
            value = getattr(self, name)
            if value not in choices:
                *others, last = map(repr, choices)
                raise ArgumentError(
                    f"option {name} must be {', '.join(others)} or {last}, not {value!r}"
                )
        for name in ("write_empty_chunks", "durable", "allow_pickle"):
            value = getattr(self, name)
            if type(value) is not bool:
                raise ArgumentError(f"option {name} must be True or False, not {value!r}")


def check_cache_bytes(name: str, value: object) -> None:
    """Raise an `ArgumentError` unless a value is a size of a chunk cache, or None."""
    if value is not None and (type(value) is not int or not 0 <= value < 2**64):
        raise ArgumentError(f"{name} must be a number of bytes or None, not {value!r}")


_CHOICES: Final[dict[str, tuple[Any, ...]]] = {
    "zarr_format": (2, 3),
    "text": ("auto", "string", "object"),
    "nan_attributes": ("warn", "allow", "refuse"),
}


class OptionChanges(TypedDict, total=False):
    """The fields of `Options` as keywords."""

    threads: int | None
    chunk_cache_bytes: int | None
    write_empty_chunks: bool
    durable: bool
    metadata_bytes: int
    zarr_format: Literal[2, 3]
    compressor: Any
    text: Literal["auto", "string", "object"]
    copy_bytes: int
    nan_attributes: Literal["warn", "allow", "refuse"]
    allow_pickle: bool


_NAMES: Final = OptionChanges.__optional_keys__

KEYWORD_DEFAULTS: Final = {
    "threads": ...,
    "chunk_cache_bytes": ...,
    "write_empty_chunks": ...,
    "durable": ...,
    "metadata_bytes": ...,
    "zarr_format": ...,
    "compressor": ...,
    "text": ...,
    "copy_bytes": ...,
    "nan_attributes": ...,
    "allow_pickle": ...,
}
"""The defaults in signatures: an option that is not passed is unchanged."""


_process = Options()
_block_changes: ContextVar[dict[str, Any]] = ContextVar("tessarr_options")
"""The changes of all enclosing blocks."""


def current() -> Options:
    """Return the options in effect: those of the innermost block, or else of the process.

    Returns
    -------
    Options

    Examples
    --------
    >>> with options(write_empty_chunks=True):
    ...     current().write_empty_chunks
    True
    """
    changes = _block_changes.get(None)
    return replace(_process, **changes) if changes else _process


def _check_names(changes: Iterable[str]) -> None:
    unknown = sorted(set(changes) - _NAMES)
    if unknown:
        known = ", ".join(sorted(_NAMES))
        raise TypeError(f"unknown option {unknown[0]!r}; the options are {known}")


@with_keywords(__name__)
def configure(**changes: Unpack[OptionChanges]) -> None:
    """Change options for the process.

    Parameters
    ----------
    **changes
        Fields of `Options`.

    Raises
    ------
    TypeError
        If there is no option of that name.
    ArgumentError
        If a value is not allowed.

    Notes
    -----
    Inside a block of `options`, this affects only options that the block does not change.

    Examples
    --------
    >>> configure(zarr_format=3)
    """
    global _process
    _check_names(changes)
    _process = replace(_process, **changes)
    if "threads" in changes:
        _engine.set_threads(_process.threads)
    if "chunk_cache_bytes" in changes:
        _engine.set_chunk_cache_bytes(_process.chunk_cache_bytes)


def threads() -> int:
    """Return the number of threads that encode and decode chunks in the process.

    Examples
    --------
    >>> with options(threads=3):
    ...     threads()
    3
    """
    return _engine.threads()


class options:
    """Change options within a `with` block.

    Parameters
    ----------
    **changes
        Fields of `Options`.

    Raises
    ------
    TypeError
        If there is no option of that name.
    ArgumentError
        If a value is not allowed.

    Notes
    -----
    The options of the block apply to the thread (and asyncio task) that entered it. Only
    `threads` and `chunk_cache_bytes` apply to the whole process, because all threads share one
    pool and one cache.

    Examples
    --------
    >>> import tessarr
    >>> with tessarr.options(zarr_format=2):
    ...     a = tessarr.create_array(None, shape=(4,), dtype="u1")
    >>> a.zarr_format
    2
    """

    __slots__ = ("_cache_bytes", "_changes", "_threads", "_token")

    @with_keywords(__name__)
    def __init__(self, **changes: Unpack[OptionChanges]) -> None:
        _check_names(changes)
        replace(_process, **changes)  # raises an error for invalid values
        self._changes: dict[str, Any] = {**changes}
        self._token: Token[dict[str, Any]] | None = None
        self._threads = self._cache_bytes = 0

    def __enter__(self) -> Options:
        if self._token is not None:
            raise RuntimeError("this options(...) is already in use; make another one")
        self._token = _block_changes.set({**_block_changes.get({}), **self._changes})
        if "threads" in self._changes:
            self._threads = _engine.threads()
            _engine.set_threads(self._changes["threads"])
        if "chunk_cache_bytes" in self._changes:
            self._cache_bytes = _engine.chunk_cache_bytes()
            _engine.set_chunk_cache_bytes(self._changes["chunk_cache_bytes"])
        return current()

    def __exit__(self, *exception: object) -> None:
        if self._token is not None:
            _block_changes.reset(self._token)
            self._token = None
        if "threads" in self._changes:
            _engine.set_threads(self._threads)
        if "chunk_cache_bytes" in self._changes:
            _engine.set_chunk_cache_bytes(self._cache_bytes)


set_public_module("tessarr", Options, options)
