"""The exceptions of Tessarr: one tree, and a stable ``kind`` on each error.

::

    TessarrError (Exception)           .kind .path .key .chunk .codec
    ├─ NotFoundError                   + FileNotFoundError, KeyError, ValueError
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

Each class also derives from the builtin exceptions that users of other Zarr
libraries and of h5py catch today. ``str(error)`` is the whole message: what
failed, where, why and what to do. The cause of an error is kept as
``__cause__`` or as a note (`BaseException.add_note`).

Exceptions of code that is not Tessarr's, a codec or a store that you wrote, the methods
of an object that is to be stored, reach you as they are: the same object, of whatever
class. Those of codecs and stores have a note that says where they were raised:
``raised in test.xor, codec 1 of 2, for chunk (0, 3) (key "a/c/0/3")``. Only two have a
meaning: what a codec raises as a `DataError` is told as one with its ``key``, ``chunk``
and ``codec``, and the codec's as its cause (so is what a pickle raises when it is
read); and a `KeyError` or a `FileNotFoundError` of a store that is asked for a key, or
to delete one, says that the key is absent. Nothing is half stored then: a chunk is as
it was, or replaced whole.

File systems of fsspec are not such code: what they and their client libraries raise, for a server
that does not answer or refuses, reaches you as a `StoreError`. Its cause is their error.

`KINDS` lists every kind with its meaning. A kind never changes its name, so
programs may compare against it; the text of messages may change.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

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
        "not_found": "a key that has to exist is absent",
        "node_not_found": "there is neither an array nor a group at the path",
        "array_not_found": "there is no array at the path",
        "group_not_found": "there is no group at the path",
        "attribute_not_found": "there is no attribute of that name",
        "consolidated_not_found": "the group keeps no consolidated metadata",
        # ExistsError
        "exists": "a key that must not exist is present",
        "node_exists": "there is an array or a group at the path already",
        # MetadataError (the error itself, then its problems)
        "invalid_metadata": "a metadata document breaks its specification",
        "invalid_json": "the document is not JSON",
        "missing_member": "a required member is absent",
        "unknown_member": "a member that has to be understood is not known",
        "wrong_type": "a value has the wrong JSON type",
        "invalid_value": "a value is outside what the specification allows",
        "mismatch": "two values that have to fit each other do not",
        "too_large": "a size or number is beyond what is possible or allowed",
        # UnsupportedError (also problems)
        "unsupported": "valid, but not supported",
        "unsupported_format": "a format of Zarr that is not supported",
        "unsupported_data_type": "a data type that is not supported",
        "unsupported_codec": "a codec that is not supported",
        "unsupported_chunk_grid": "a chunk grid that is not supported",
        "unsupported_chunk_key_encoding": "a chunk key encoding that is not supported",
        "unsupported_storage_transformer": "a storage transformer that is not supported",
        "no_equivalent": "what metadata says cannot be said in another format",
        "missing_package": "an optional Python package is not installed",
        # SelectionError
        "invalid_selection": "the selection is malformed",
        "out_of_bounds": "an index lies outside the array",
        "too_many_indices": "the selection has more indices than the array has dimensions",
        # ArgumentError
        "invalid_argument": "an argument is outside what is allowed",
        "invalid_path": "the path of a node is not allowed",
        "no_such_axis": "an axis is named that the array does not have",
        "shape_mismatch": "the shape of a value does not fit",
        "cannot_cast": "a value cannot be converted to the data type",
        "not_json": "an attribute cannot be stored as JSON",
        # DataError
        "bad_data": "stored bytes are damaged",
        "checksum_mismatch": "a stored checksum differs from the data",
        "wrong_size": "stored bytes are too many or too few",
        # OutOfMemoryError
        "out_of_memory": "there is no memory for an array or a chunk",
        # StoreError
        "store_failed": "the store failed",
        "value_replaced": "a value was replaced after it was opened: open it again",
        # AccessError
        "access_denied": "the operating system denies the access",
        "answer_lost": "a change may have been made: look before you do it again",
        # ConflictError
        "conflict": "others changed what a change was decided on: decide again",
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
        from tessarr._safe_repr import printable

        return f"{printable(self.loc)}: {self.message}" if self.loc else self.message


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
        return type(self)._restored, (self.message, fields), dict(self.__dict__)

    @classmethod
    def _restored(cls, message: str, fields: dict[str, Any]) -> Self:
        return cls(message, **fields)  # with the same errno, of the same class


class NotFoundError(TessarrError, FileNotFoundError, KeyError, ValueError):
    """What was asked for does not exist."""

    default_kind = "not_found"

    def __init__(self, message: str, **fields: Any) -> None:
        super().__init__(message, **fields)
        self.errno = errno.ENOENT


class ExistsError(TessarrError, FileExistsError, KeyError, ValueError):
    """What was to be created exists already."""

    default_kind = "exists"

    def __init__(self, message: str, **fields: Any) -> None:
        super().__init__(message, **fields)
        self.errno = errno.EEXIST


class MetadataError(TessarrError, ValueError):
    """A metadata document, or what would become one, breaks its specification.

    Attributes
    ----------
    problems : tuple of Problem
        All faults that were found, each with its location.
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
    """An axis is named that the array does not have."""

    default_kind = "no_such_axis"


class CastError(ArgumentError, TypeError):
    """A value is of a class that cannot be converted to the data type of an array."""

    default_kind = "cannot_cast"


class NotJSONError(ArgumentError, TypeError):
    """What is given as JSON, or shall be stored as it, is none."""

    default_kind = "not_json"


class TooLargeError(ArgumentError, OverflowError):
    """A number is outside of the range of what shall store it."""

    default_kind = "too_large"


class DataError(TessarrError, ValueError):
    """Stored bytes are damaged or do not fit their metadata."""

    default_kind = "bad_data"


class OutOfMemoryError(TessarrError, MemoryError, ValueError):
    """There is no memory for an array or a chunk, or can be none: it is too large."""

    default_kind = "out_of_memory"

    @classmethod
    def _of_array(cls, shape: tuple[int, ...], dtype: Any) -> Self:
        """Return the error that there is none for a new array."""
        size = prod((*shape, dtype.itemsize))
        return cls(
            f"there is no memory for an array of shape {shape} and data type {dtype}, which takes "
            f"{size} bytes: read or write a part of it at a time"
        )


class StoreError(TessarrError, OSError, ValueError):
    """The store failed to do what was asked.

    Attributes
    ----------
    retryable : bool
        Whether trying again may help.
    errno : int or None
        The number of the operating system's error, where there is one.
    filename : str or None
        The file or folder that the operating system refused, where there is one.

    Notes
    -----
    With the `errno` of denied access (EACCES, EPERM, EROFS) it is an `AccessError`.

    Examples
    --------
    >>> isinstance(StoreError("cannot open 'x'", errno=13, filename="x"), PermissionError)
    True
    """

    default_kind = "store_failed"
    _fields = (*TessarrError._fields, "retryable", "errno", "filename")

    def __new__(cls, message: str, *, errno: int | None = None, **_fields: Any) -> Self:
        wanted: type = AccessError if cls is StoreError and errno in _DENIED else cls
        return super().__new__(wanted, message)

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
        """Return the error that the operating system has refused an action on a file."""
        what = f"cannot {action} {filename!r}: {error.strerror or error}"
        if error.errno is not None:
            what += f" (os error {error.errno})"
        return StoreError(what, errno=error.errno, filename=filename, **fields)


class AccessError(StoreError, PermissionError):
    """The operating system denies the access, or the file system is read-only."""

    default_kind = "access_denied"


_DENIED: Final = frozenset((errno.EACCES, errno.EPERM, errno.EROFS))


class ConflictError(StoreError):
    """Others changed what the changes of a transaction were decided on."""

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
    """A promise inside Tessarr is broken: please report it."""

    default_kind = "internal"
