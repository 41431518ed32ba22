"""The exceptions of Tessarr: one tree, and a stable ``kind`` on each error.

::

    TessarrError (Exception)           .kind .path .key .chunk .codec
    ├─ NotFoundError                   + FileNotFoundError, KeyError, ValueError    .node_kind
    ├─ ExistsError                     + FileExistsError, KeyError, ValueError
    ├─ MetadataError                   + ValueError             .problems
    ├─ UnsupportedError                + NotImplementedError    .extension
    ├─ SelectionError                  + IndexError
    ├─ ArgumentError                   + ValueError
    │  ├─ AxisError                    + IndexError
    │  ├─ CastError                    + TypeError
    │  ├─ NotJSONError                 + TypeError
    │  └─ TooLargeError                + OverflowError
    ├─ DataError                       + ValueError
    ├─ OutOfMemoryError                + MemoryError, ValueError
    ├─ StoreError                      + OSError, ValueError    .retryable .errno .filename
    │  ├─ AccessError                  + PermissionError
    │  └─ ConflictError                + ValueError
    ├─ ReadOnlyError                   + PermissionError, ValueError
    └─ InternalError                   + RuntimeError

Each class also derives from the builtin exceptions that users of other Zarr libraries and of
h5py catch today. ``str(error)`` is the whole message: what failed, where, why and what to do.
The cause of an error is its ``__cause__`` or a note (`BaseException.add_note`).

Exceptions of foreign code reach you unchanged: those of your codecs and stores, and those of the
methods of an object that you store. Exceptions of codecs and stores carry a note with their
origin: ``raised in test.xor, codec 1 of 2, for chunk (0, 3) (key "a/c/0/3")``. Two kinds of
exceptions have a meaning:

* If a codec raises a `DataError`, Tessarr raises a `DataError` with ``key``, ``chunk`` and
  ``codec``; the exception of the codec is its cause. The same applies to errors of unpickling.
* A `KeyError` or a `FileNotFoundError` of a store's ``get`` or ``delete`` means that the key is
  absent.

In all cases a chunk keeps its old value or gets its complete new value.

File systems of fsspec do not count as foreign code. Errors of their servers and client libraries
reach you as a `StoreError` with the original error as its cause.

`KINDS` lists every kind with its meaning. Kinds never change their names, so programs may compare
against them; the text of messages may change.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from functools import partial
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "KINDS",
    "AccessError",
    "ArgumentError",
    "AxisError",
    "CastError",
    "ConflictError",
    "DataError",
    "ExistsError",
    "InternalError",
    "MetadataError",
    "NotFoundError",
    "NotJSONError",
    "OutOfMemoryError",
    "Problem",
    "ReadOnlyError",
    "SelectionError",
    "StoreError",
    "TessarrError",
    "TessarrWarning",
    "TooLargeError",
    "UnsupportedError",
]

KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        # NotFoundError
        "not_found": "a required key is absent",
        "node_not_found": "the path has neither an array nor a group",
        "array_not_found": "the path has no array",
        "group_not_found": "the path has no group",
        "attribute_not_found": "no attribute has this name",
        "consolidated_not_found": "the group has no consolidated metadata",
        # ExistsError
        "exists": "a key that must not exist is present",
        "node_exists": "the path already has an array or a group",
        # MetadataError (the error itself, then its problems)
        "invalid_metadata": "a metadata document breaks its specification",
        "invalid_json": "the document is not JSON",
        "missing_member": "a required member is absent",
        "unknown_member": "a member without must_understand false is unknown",
        "wrong_type": "a value has the wrong JSON type",
        "invalid_value": "a value is outside what the specification allows",
        "mismatch": "two values do not fit each other",
        "too_large": "a size or number exceeds its limit",
        # UnsupportedError (also problems)
        "unsupported": "valid, but not supported",
        "unsupported_format": "a format of Zarr that is not supported",
        "unsupported_data_type": "a data type that is not supported",
        "unsupported_codec": "a codec that is not supported",
        "unsupported_chunk_grid": "a chunk grid that is not supported",
        "unsupported_chunk_key_encoding": "a chunk key encoding that is not supported",
        "unsupported_storage_transformer": "a storage transformer that is not supported",
        "no_equivalent": "metadata has no equivalent in another format",
        "missing_package": "an optional Python package is not installed",
        # SelectionError
        "invalid_selection": "the selection is malformed",
        "out_of_bounds": "an index lies outside the array",
        "too_many_indices": "the selection has more indices than the array has dimensions",
        # ArgumentError
        "invalid_argument": "an argument is outside what is allowed",
        "invalid_path": "the path of a node is not allowed",
        "no_such_axis": "the array does not have the axis",
        "shape_mismatch": "the shape of a value does not fit",
        "cannot_cast": "a value cannot be converted to the data type",
        "not_json": "an attribute cannot be stored as JSON",
        # DataError
        "bad_data": "stored bytes are damaged",
        "checksum_mismatch": "a stored checksum differs from the data",
        "wrong_size": "stored bytes are too many or too few",
        # OutOfMemoryError
        "out_of_memory": "the memory does not suffice for an array or a chunk",
        # StoreError
        "store_failed": "the store failed",
        "value_replaced": "a value was replaced after it was opened: open it again",
        # AccessError
        "access_denied": "the operating system denies the access",
        "answer_lost": "a write is ambiguous: check the stored value before you repeat it",
        # ConflictError
        "conflict": "another writer changed a value on which a change depends: retry it",
        # ReadOnlyError
        "read_only": "the store or node is open for reading only",
        # InternalError
        "internal": "a bug of Tessarr",
    }
)
"""Every kind of error and of metadata problem, with its meaning."""


class TessarrWarning(UserWarning):
    """Warns of input that breaks its specification but has only one sensible reading."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault of a metadata document.

    Parameters
    ----------
    loc : str
        The JSON pointer of the faulty value; ``""`` is the whole document.
    message : str
        What is wrong and what is allowed, in one sentence without a full stop.
    kind : str
        One of `KINDS`.

    Examples
    --------
    >>> print(Problem("/codecs/0/configuration/level", "12 is not in 0 … 9", "invalid_value"))
    /codecs/0/configuration/level: 12 is not in 0 … 9
    """

    loc: str
    message: str
    kind: str

    def __str__(self) -> str:
        from tessarr._safe_repr import to_printable

        return f"{to_printable(self.loc)}: {self.message}" if self.loc else self.message


class TessarrError(Exception):
    """The base of all errors that Tessarr raises on purpose.

    Parameters
    ----------
    message : str
        What failed, where, why and what to do.
    kind : str, optional
        One of `KINDS`; by default the general kind of the class.
    path : str, optional
        The path of the node concerned, in its hierarchy.
    key : str, optional
        The key concerned, in its store.
    chunk : tuple of int, optional
        The position concerned, in the chunk grid.
    codec : str, optional
        The name of the codec concerned.

    Examples
    --------
    >>> error = NotFoundError("no node at 'a'", kind="node_not_found", path="a")
    >>> str(error), error.kind, isinstance(error, KeyError)
    ("no node at 'a'", 'node_not_found', True)
    """

    default_kind: ClassVar[str] = "internal"
    _fields: ClassVar[tuple[str, ...]] = ("kind", "path", "key", "chunk", "codec")

    def __init__(
        self,
        message: str,
        *,
        kind: str | None = None,
        path: str | None = None,
        key: str | None = None,
        chunk: Sequence[int] | None = None,
        codec: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.kind = self.default_kind if kind is None else kind
        self.path = path
        self.key = key
        self.chunk = None if chunk is None else tuple(chunk)
        self.codec = codec

    def __str__(self) -> str:
        # KeyError would quote the message and OSError would prefix its number.
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        fields = {name: getattr(self, name) for name in self._fields}
        # The same errno selects the same class.
        return partial(type(self), self.message, **fields), (), dict(self.__dict__)


class NotFoundError(TessarrError, ValueError, FileNotFoundError, KeyError):
    """A key or a node does not exist.

    Attributes
    ----------
    node_kind : {"array", "group"} or None
        The kind of the node at the path, if it is not the requested kind.
    """

    default_kind = "not_found"
    _fields = (*TessarrError._fields, "node_kind")

    def __init__(
        self, message: str, *, node_kind: Literal["array", "group"] | None = None, **fields: Any
    ) -> None:
        super().__init__(message, **fields)
        self.errno = errno.ENOENT
        self.node_kind = node_kind


class ExistsError(TessarrError, FileExistsError, KeyError, ValueError):
    """A key or a node exists already."""

    default_kind = "exists"

    def __init__(self, message: str, **fields: Any) -> None:
        super().__init__(message, **fields)
        self.errno = errno.EEXIST


class MetadataError(TessarrError, ValueError):
    """A metadata document breaks its specification.

    Attributes
    ----------
    problems : tuple of Problem
        All faults, each with its JSON path.
    """

    default_kind = "invalid_metadata"
    _fields = (*TessarrError._fields, "problems")

    def __init__(self, message: str, *, problems: Sequence[Problem] = (), **fields: Any) -> None:
        super().__init__(message, **fields)
        self.problems = tuple(problems)


class UnsupportedError(TessarrError, NotImplementedError, ValueError):
    """Valid, but not supported by this version or this installation.

    Attributes
    ----------
    extension : str or None
        The name of the data type, codec or other extension concerned.
    """

    default_kind = "unsupported"
    _fields = (*TessarrError._fields, "extension")

    def __init__(self, message: str, *, extension: str | None = None, **fields: Any) -> None:
        super().__init__(message, **fields)
        self.extension = extension


class SelectionError(TessarrError, IndexError):
    """An index or a selection is malformed or out of bounds."""

    default_kind = "invalid_selection"


class ArgumentError(TessarrError, ValueError):
    """An argument is outside what is allowed."""

    default_kind = "invalid_argument"


class AxisError(ArgumentError, IndexError):
    """The array does not have the axis."""

    default_kind = "no_such_axis"


class CastError(ArgumentError, TypeError):
    """A value is of a class that cannot be converted to the data type of an array."""

    default_kind = "cannot_cast"


class NotJSONError(ArgumentError, TypeError):
    """A value is not JSON."""

    default_kind = "not_json"


class TooLargeError(ArgumentError, OverflowError):
    """A number is outside the range of its data type."""

    default_kind = "too_large"


class DataError(TessarrError, ValueError):
    """Stored bytes are damaged or do not fit their metadata."""

    default_kind = "bad_data"


class OutOfMemoryError(TessarrError, MemoryError, ValueError):
    """The memory does not suffice for an array or a chunk."""

    default_kind = "out_of_memory"

    @classmethod
    def _for_array(cls, shape: tuple[int, ...], dtype: Any) -> Self:
        """Return the error for a new array that does not fit into memory."""
        size = prod((*shape, dtype.itemsize))
        return cls(
            f"there is no memory for an array of shape {shape} and data type {dtype}, which takes "
            f"{size} bytes: read or write a part of it at a time"
        )


class StoreError(TessarrError, ValueError, OSError):
    """A request to a store failed.

    Attributes
    ----------
    retryable : bool
        Whether a retry may succeed.
    errno : int or None
        The error number of the operating system, if any.
    filename : str or None
        The file or folder of an error of the operating system.

    Notes
    -----
    If `errno` means denied access (EACCES, EPERM, EROFS), the result is an `AccessError`.

    Examples
    --------
    >>> isinstance(StoreError("cannot open 'x'", errno=13, filename="x"), PermissionError)
    True
    """

    default_kind = "store_failed"
    _fields = (*TessarrError._fields, "retryable", "errno", "filename")

    def __new__(cls, message: str, *, errno: int | None = None, **_fields: Any) -> Self:
        error_type: type = AccessError if cls is StoreError and errno in _DENIED else cls
        return OSError.__new__(error_type, message)  # not that of ValueError

    def __init__(
        self,
        message: str,
        *,
        retryable: bool = False,
        errno: int | None = None,
        filename: str | None = None,
        **fields: Any,
    ) -> None:
        super().__init__(message, **fields)
        self.retryable = retryable
        self.errno = errno
        self.filename = filename

    @classmethod
    def _of_system(cls, action: str, filename: str, error: OSError, **fields: Any) -> StoreError:
        """Return the error for a file operation that the operating system rejected."""
        message = f"cannot {action} {filename!r}: {error.strerror or error}"
        if error.errno is not None:
            message += f" (os error {error.errno})"
        return StoreError(message, errno=error.errno, filename=filename, **fields)


class AccessError(StoreError, PermissionError):
    """The operating system denies the access, or the file system is read-only."""

    default_kind = "access_denied"


_DENIED: Final = frozenset((errno.EACCES, errno.EPERM, errno.EROFS))


class ConflictError(StoreError):
    """Another writer changed a value on which a transaction depends."""

    default_kind = "conflict"

    def __init__(self, message: str, *, retryable: bool = True, **fields: Any) -> None:
        super().__init__(message, retryable=retryable, **fields)


class ReadOnlyError(TessarrError, PermissionError, ValueError):
    """The store or the node is open for reading only."""

    default_kind = "read_only"

    def __init__(self, message: str, **fields: Any) -> None:
        super().__init__(message, **fields)
        self.errno = errno.EACCES


class InternalError(TessarrError, RuntimeError):
    """A bug in Tessarr: please report it."""

    default_kind = "internal"
