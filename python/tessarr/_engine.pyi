"""The compiled part of Tessarr: chunks, codecs and stores (`rust/`)."""

import builtins
from _thread import RLock
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from types import GenericAlias
from typing import (
    Any,
    ClassVar,
    Generic,
    Literal,
    Never,
    Self,
    SupportsIndex,
    TypeAlias,
    TypeVar,
    final,
    overload,
)

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer, disjoint_base

from tessarr.index_space.index_domain import IndexDomain
from tessarr.index_space.output_index_map import OutputIndexMaps

__all__ = [
    "ArrayBase",
    "BlockSource",
    "Blocks",
    "ByteFloats",
    "CachePool",
    "CachedStore",
    "CoalescingStore",
    "CountingStore",
    "Description",
    "Dim",
    "Event",
    "ForeignStore",
    "GridPartition",
    "HandleBase",
    "HttpSite",
    "Indexer",
    "KvStoreBase",
    "LayerStack",
    "Limits",
    "LocalStore",
    "MemoryStore",
    "OutputIndexMap",
    "PendingTransfer",
    "PreparedRead",
    "ReadResult",
    "SplitStore",
    "StagedStore",
    "Store",
    "StoreLocation",
    "TimestampedStorageGeneration",
    "TransactionBase",
    "TransformBase",
    "UnreadValue",
    "ValueReader",
    "View",
    "VisibleLayers",
    "WriteBuffer",
    "apply_view",
    "as_bool",
    "as_bytes",
    "as_text",
    "choose_chunk_shapes",
    "convert",
    "count_local_requests",
    "decode",
    "delay_store",
    "empty",
    "encode",
    "encode_json",
    "find_large_int",
    "guard_store",
    "join_path",
    "make_cache_key",
    "observe_store",
    "overlaps_itself",
    "prefix_store",
    "put",
    "reduce",
    "replace_transaction",
    "retry_store",
    "set_threads",
    "start_reads",
    "take",
    "threads",
    "unpickle_memory_store",
]

_T = TypeVar("_T")
_Handle = TypeVar("_Handle", bound=HandleBase)
_Made_co = TypeVar("_Made_co", covariant=True)
_Transform = TypeVar("_Transform", bound=TransformBase)
_Transaction = TypeVar("_Transaction", bound=TransactionBase)
_Grids = TypeVar("_Grids", bound=tuple[Any, ...])
_Indices: TypeAlias = NDArray[np.int64]
_Range: TypeAlias = tuple[int, int, int]
_Axis: TypeAlias = _Range | _Indices | tuple[_Indices]
_Field: TypeAlias = tuple[int, int, int]

@final
class PendingTransfer:
    """Queued transfers that a worker thread runs."""

    def cancel(self, future: object) -> bool: ...
    def help(self) -> None: ...

@final
class ByteFloats:
    """Floats of a byte.

    Parameters
    ----------
    numbers
        The number of each byte.
    nearest
        The nearest byte for the upper half of a ``float32``, whose last bit is set if the lower
        half is not zero.
    """

    def __new__(cls, numbers: Sequence[float], nearest: bytes) -> Self: ...

_Row: TypeAlias = Sequence[tuple[Any, bool] | None]
_Asked: TypeAlias = tuple[_Row, _Row, tuple[int, bool] | None]
"""Constraints on the lengths, the ratios and the number of elements of chunks."""

@final
class Description:
    """A compiled array description: immutable, independent of store and path.

    ``description`` has the members shape, grid, dtype, item_bytes,
    is_bool, elements, fill, keys, store_fill, missing and chain, as `ArrayMeta.description`
    returns them.
    """

    def __new__(cls, description: dict[str, Any]) -> Self: ...
    def with_shape(self, shape: Sequence[int], fill: bytes | None = None) -> Description: ...
    @property
    def shape(self) -> Sequence[int]:
        """Shape of the array."""

@disjoint_base
class ArrayBase:
    """Base of `tessarr.Array`: a compiled description, a store and a key prefix.

    This class handles basic indices (integers, slices, one ellipsis). Every
    other key goes to the methods ``_getitem`` and ``_setitem`` of the subclass.
    """

    def __new__(
        cls,
        description: Description,
        store: Store,
        prefix: str,
        read_only: bool,
        *args: Any,
        **kwargs: Any,
    ) -> Self: ...
    @property
    def _description(self) -> Description: ...
    def _replace_description(self, description: Description) -> None: ...
    def _configure(self, read_only: bool, direct: bool) -> None: ...
    def __getitem__(self, key: Any, /) -> Any: ...
    def __setitem__(self, key: Any, value: Any, /) -> None: ...
    def _read(
        self,
        axes: Sequence[_Axis],
        out_axes: Sequence[int | None],
        out: NDArray[Any],
        fields: Sequence[_Field] | None = None,
    ) -> None: ...
    def _write(
        self,
        axes: Sequence[_Axis],
        out_axes: Sequence[int | None],
        value: NDArray[Any],
        fields: Sequence[_Field] | None = None,
    ) -> None: ...
    def _prepare_read(
        self,
        axes: Sequence[_Axis],
        out_axes: Sequence[int | None],
        out: NDArray[Any],
        fields: Sequence[_Field] | None = None,
    ) -> PreparedRead: ...
    def _prepare_view_read(
        self,
        view: View,
        dtype: np.dtype[Any],
        out: NDArray[Any] | None = None,
        fields: Sequence[_Field] | None = None,
    ) -> PreparedRead: ...
    def _write_future(
        self,
        axes: Sequence[_Axis],
        out_axes: Sequence[int | None],
        value: NDArray[Any],
        future: Any,
        fields: Sequence[_Field] | None = None,
    ) -> PendingTransfer: ...
    def _set_write_buffer(self, write_buffer: WriteBuffer) -> None: ...
    def _keep_padding(self) -> None: ...
    def _check_presence(self, document: str) -> None: ...
    @property
    def _is_native(self) -> bool: ...
    def _storage_statistics(
        self, view: View, not_stored: bool, fully_stored: bool
    ) -> tuple[bool, bool] | None: ...
    def _store_write_buffer(
        self,
        first: bytes | None = None,
        last: bytes | None = None,
        *,
        overwriting: StagedStore | None = None,
        keep: bool = False,
    ) -> None: ...
    def _discard_write_buffer(self, first: bytes, last: bytes) -> None: ...
    def _trim_write_buffer(self, ends: Sequence[int | None]) -> None: ...

@final
class WriteBuffer:
    """The write buffer of a transaction: elements that are not yet stored."""

    def __new__(cls) -> Self: ...
    @property
    def nbytes(self) -> int: ...
    def __bool__(self) -> bool: ...
    def close(self) -> None: ...
    def clear_ends(self) -> None: ...
    def clear(self) -> None: ...

@disjoint_base
class Store:
    """Base of the stores: keys to byte strings, replaced atomically."""

    def __new__(cls, store: Store) -> Self: ...
    @property
    def is_exclusive(self) -> bool: ...
    @property
    def read_only(self) -> bool: ...
    @overload
    def get(self, key: str, default: None = None, *, limit: int | None = None) -> bytes | None: ...
    @overload
    def get(self, key: str, default: bytes, *, limit: int | None = None) -> bytes: ...
    @overload
    def get(self, key: str, default: _T, *, limit: int | None = None) -> bytes | _T: ...
    @property
    def write_concurrency(self) -> int: ...
    def change(
        self, key: str, make: Callable[[bytes | None], Buffer | None], *, limit: int | None = None
    ) -> None: ...
    def write(
        self, key: str, data: Buffer | None, version: bytes | None = None
    ) -> tuple[bool, bytes | None]: ...
    def write_versioned(
        self, key: str, data: Buffer | None, expected: bytes | None = None
    ) -> TimestampedStorageGeneration: ...
    def hold(self, key: str, work: Callable[[], _T]) -> _T: ...
    def put(self, key: str, data: Buffer) -> None: ...
    def delete(self, key: str) -> None: ...
    def replace(self, key: str, data: Buffer | None, expected: Buffer | None) -> bool: ...
    def size(self, key: str) -> int | None: ...
    def open_value(self, key: str) -> ValueReader | None: ...
    def get_version(
        self, key: str, *, limit: int | None = None
    ) -> tuple[bytes, bytes | None] | None: ...
    @overload
    def read_versioned(
        self, key: str, known: bytes | None = None, byte_range: tuple[int, int | None] | None = None
    ) -> ReadResult: ...
    @overload
    def read_versioned(
        self,
        key: str,
        known: bytes | None,
        byte_range: tuple[int, int | None] | None,
        max_bytes: int | None,
    ) -> ReadResult | UnreadValue: ...
    def list_range(
        self, start: str, first: bytes | None = None, end: bytes | None = None, *, strip: int = 0
    ) -> builtins.list[bytes]: ...
    def list(self, prefix: str = "") -> builtins.list[str]: ...
    def list_dir(self, prefix: str = "") -> tuple[builtins.list[str], builtins.list[str]]: ...
    def delete_range(
        self, start: str, first: bytes | None = None, end: bytes | None = None
    ) -> None: ...
    def delete_prefix(self, prefix: str) -> None: ...
    def clear_prefix(self, prefix: str) -> None: ...
    def remove_link(self, prefix: str) -> bool: ...
    def deletes_at_once(self, prefix: str) -> bool: ...
    def replaces_at_once(self, prefix: str) -> bool: ...
    def replace_prefix(self, staged: str, prefix: str) -> bool: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class ValueReader:
    """An open value: later changes of the key do not show."""

    @property
    def size(self) -> int: ...
    @property
    def state(self) -> bytes | None: ...
    @property
    def version(self) -> bytes | None: ...
    def read(self, offset: int, count: int) -> bytes: ...

@disjoint_base
class TimestampedStorageGeneration:
    """The generation of a key at a time.

    Parameters
    ----------
    generation : str or bytes
        Equal generations mean equal values; empty: unknown.
    time : float
        The time at which the key had it, in seconds since 1970.

    Examples
    --------
    >>> import tessarr.tensorstore as ts
    >>> ts.KvStore.TimestampedStorageGeneration("x", 5)
    KvStore.TimestampedStorageGeneration(b'x', 5.000000)
    """

    @property
    def generation(self) -> bytes: ...
    @generation.setter
    def generation(self, generation: str | bytes) -> None: ...
    @property
    def time(self) -> float: ...
    @time.setter
    def time(self, time: float) -> None: ...
    def __new__(cls, *_arguments: Any, **_keywords: Any) -> Self: ...
    def __init__(self, generation: str | bytes = ..., time: float = ...) -> None: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: dict[int, Any]) -> Self: ...
    def __reduce__(self) -> tuple[Any, ...]: ...
    def __setstate__(self, state: Any) -> None: ...
    def __eq__(self, other: object, /) -> bool: ...
    __hash__: ClassVar[None]  # type: ignore[assignment]

@disjoint_base
class ReadResult:
    """The result of a read.

    Parameters
    ----------
    state : {"unspecified", "missing", "value"}
        Whether the key has a value. Unspecified: it equals the value that the reader has.
    value : str or bytes
        The value.
    stamp : TimestampedStorageGeneration
        The generation of the value.

    Examples
    --------
    >>> import tessarr.tensorstore as ts
    >>> ts.KvStore.ReadResult("value", "x").value
    b'x'
    """

    @property
    def state(self) -> Literal["unspecified", "missing", "value"]: ...
    @state.setter
    def state(self, state: Literal["unspecified", "missing", "value"]) -> None: ...
    @property
    def value(self) -> bytes: ...
    @value.setter
    def value(self, value: str | bytes) -> None: ...
    @property
    def stamp(self) -> TimestampedStorageGeneration: ...
    @stamp.setter
    def stamp(self, stamp: TimestampedStorageGeneration) -> None: ...
    def __new__(cls, *_arguments: Any, **_keywords: Any) -> Self: ...
    def __init__(
        self,
        state: Literal["unspecified", "missing", "value"] = ...,
        value: str | bytes = ...,
        stamp: TimestampedStorageGeneration | None = None,
    ) -> None: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: dict[int, Any]) -> Self: ...
    def __reduce__(self) -> tuple[Any, ...]: ...
    def __setstate__(self, state: Any) -> None: ...

@final
class Event:
    """A flag that threads wait for."""

    def open(self) -> None: ...
    def wait(self) -> None: ...

@final
class PreparedRead:
    """A read that has not started. It starts at most once."""

    @property
    def is_empty(self) -> bool: ...
    def run(self) -> NDArray[Any]: ...

@final
class UnreadValue:
    def read(self) -> ReadResult: ...

def as_bytes(value: object, what: str) -> bytes:
    """Return the UTF-8 bytes of a string, or bytes. Errors call the value `what`."""

def as_bool(value: object, name: str) -> bool:
    """Return the truth value of None, a boolean or a number.

    Strings and sequences raise a TypeError, which calls the argument ``name``.
    """

def as_text(value: object, what: str = "a path") -> str:
    """Return a path or a key as a string; bytes must be UTF-8. Errors call the value `what`."""

def join_path(path: str, component: str) -> str:
    """Join a path and a component with one slash."""

def replace_transaction(old: _Transaction | None, new: _Transaction | None) -> _Transaction | None:
    """Return `new` as the replacement of a transaction; None stands for no transaction."""

@final
class StoreLocation:
    """The location of the keys of a key-value store.

    Parameters
    ----------
    store
        The store that contains the keys.
    prefix
        The prefix of the keys in the store.
    strip_slash
        Whether to remove a slash at the beginning of the key with its path.
    read_only
        Whether the location rejects listings and changes.
    """

    def __new__(
        cls, store: Store, prefix: str = "", *, strip_slash: bool = False, read_only: bool = False
    ) -> Self: ...
    @property
    def store(self) -> Store: ...
    @property
    def read_only(self) -> bool: ...
    @staticmethod
    def in_memory() -> StoreLocation: ...
    def with_store(self, store: Store) -> StoreLocation: ...
    def with_prefix(self, path: str) -> StoreLocation: ...
    def key(self, path: str) -> str: ...

_Ends: TypeAlias = tuple[bytes, bytes]

@disjoint_base
class KvStoreBase:
    """Base of `KvStore`: a spec, a location, a key prefix and a transaction.

    The spec is bound, and its path is not used. This class reads and changes keys in memory; for
    other stores, the methods ``_read``, ``_write`` and ``_start_delete_range`` of the subclass
    start the operation. ``_staging_store`` and ``_staging_range`` return the store that stages
    changes; ``_unsupported`` returns the error of an operation that the store does not support.
    """

    def __new__(
        cls,
        spec: Any = None,
        place: StoreLocation | None = None,
        path: str | None = None,
        transaction: TransactionBase | None = None,
    ) -> Self: ...
    @property
    def _spec(self) -> Any: ...
    @property
    def _location(self) -> StoreLocation: ...
    @property
    def _path(self) -> str: ...
    @_path.setter
    def _path(self, path: str | bytes) -> None: ...
    @property
    def _transaction(self) -> Any: ...
    @_transaction.setter
    def _transaction(self, transaction: Any) -> None: ...
    def copy(self) -> Self: ...
    def with_transaction(self, transaction: TransactionBase | None) -> Self:
        """Return this store with a transaction that stages its changes.

        Raises
        ------
        ArgumentError
            If its transaction is not committed.
        """

    def __add__(self, suffix: str | bytes, /) -> Self: ...
    def __truediv__(self, component: str | bytes, /) -> Self: ...
    def __radd__(self, value: Never, /) -> Never: ...  # PyO3 derives these methods
    def __rtruediv__(self, value: Never, /) -> Never: ...
    def _key(self, key: str | bytes) -> str: ...
    def _store(self, key: str, writes: bool = False) -> Store: ...
    def _range(self, ends: _Ends, writes: bool = False) -> tuple[Store, str, bytes, bytes]: ...
    def __getitem__(self, key: str | bytes, /) -> bytes: ...
    def __contains__(self, key: str | bytes, /) -> bool: ...
    def __setitem__(self, key: str | bytes, value: str | bytes | None, /) -> None: ...
    def __delitem__(self, key: str | bytes, /) -> None: ...
    def read(
        self,
        key: str | bytes,
        *,
        if_not_equal: str | bytes | None = None,
        staleness_bound: float | None = None,
        batch: Any | None = None,
        byte_range: slice | None = None,
    ) -> Any:
        """Read the value of a key; a missing key is no error.

        Parameters
        ----------
        key
            The key below the path.
        if_not_equal
            A generation. If the value still has it, the value is not read, and the state of
            the result is "unspecified".
        staleness_bound
            Accepted and ignored: no value is cached, every read sends a request.
        batch
            The batch that collects reads until it is submitted.
        byte_range
            The byte range: ``slice(5, 10)``, ``slice(5, None)``, ``slice(None, 10)`` or, for
            the last bytes, ``slice(-5, None)``.
        """

    def write(
        self,
        key: str | bytes,
        value: str | bytes | None,
        *,
        if_equal: str | bytes | None = None,
    ) -> Any:
        """Replace the value of a key.

        Parameters
        ----------
        key
            The key below the path.
        value
            The new value; None deletes the key.
        if_equal
            A generation. If the value has another one, nothing changes, and the generation of
            the result is empty. In a transaction the value must have this generation at the
            commit: otherwise the commit fails and changes nothing.
        """

    def delete_range(self, range: Any) -> Any:
        """Delete all keys in a range.

        Parameters
        ----------
        range
            The range of keys.
        """

    def _list_range(self, ends: _Ends, strip: int) -> list[bytes]: ...
    def _delete(self, ends: _Ends) -> None: ...

@disjoint_base
class TransactionBase:
    """Base of `Transaction`: its state and the stores that stage its changes.

    This class stages and commits keys in memory, as long as nothing else takes part and no thread
    waits for the end. Otherwise this class or the subclass holds ``_lock``, and the subclass does
    the work. Its methods ``commit_sync`` and ``abort`` end the transaction, ``_end`` completes an
    end, and ``_set_result`` completes the future.
    """

    def __new__(cls, atomic: bool = False, repeatable_read: bool = False) -> Self: ...
    @property
    def _atomic(self) -> bool: ...
    @property
    def _repeatable(self) -> bool: ...
    @property
    def _stages(self) -> dict[Any, Any]: ...
    @property
    def _lock(self) -> RLock: ...
    @property
    def _committed(self) -> bool | None: ...
    def _close(self, committed: bool) -> bool: ...
    @property
    def _sealed(self) -> bool: ...
    @_sealed.setter
    def _sealed(self, sealed: bool) -> None: ...
    @property
    def _ended(self) -> bool: ...
    @_ended.setter
    def _ended(self, ended: bool) -> None: ...
    @property
    def _mixed(self) -> bool: ...
    @_mixed.setter
    def _mixed(self, mixed: bool) -> None: ...
    def _commit_in_memory(self) -> bool: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: object, where: object, /
    ) -> None: ...

@disjoint_base
class LocalStore(Store):
    """A store in a folder: the file ``path/key`` holds the value of ``key``."""

    def __new__(
        cls,
        path: str | PathLike[str],
        *,
        read_only: bool = False,
        durable: bool = False,
        reading: str = "default",
        locking: str = "os",
        lock_timeout_s: float = 60.0,
    ) -> Self: ...
    @property
    def path(self) -> str: ...
    @property
    def durable(self) -> bool: ...
    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, Any]]: ...

@disjoint_base
class MemoryStore(Store):
    """A store in memory; stores of the same name share their contents."""

    def __new__(
        cls,
        items: Mapping[str, Buffer] | None = None,
        *,
        name: str | None = None,
        any_keys: bool = False,
    ) -> Self: ...
    @property
    def name(self) -> str | None: ...
    @property
    def any_keys(self) -> bool: ...

@disjoint_base
class ForeignStore(Store):
    """A store that a Python object implements."""

    def __new__(cls, object: Any, *, read_only: bool = False, any_keys: bool = False) -> Self: ...
    @property
    def object(self) -> Any: ...
    @property
    def any_keys(self) -> bool: ...
    def __getnewargs_ex__(self) -> tuple[tuple[Any], dict[str, bool]]: ...

@disjoint_base
class CountingStore(Store):
    """A wrapper that counts requests."""

    def __new__(cls, store: Store) -> Self: ...
    @property
    def store(self) -> Store: ...
    def __getnewargs__(self) -> tuple[Store]: ...
    def counts(self) -> dict[str, int]: ...

@disjoint_base
class SplitStore(Store):
    """Metadata documents in one store, and chunks in another."""

    def __new__(cls, metadata: Store, chunks: Store, single_node: bool = False) -> Self: ...
    @property
    def metadata(self) -> Store: ...
    @property
    def chunks(self) -> Store: ...
    def __getnewargs__(self) -> tuple[Store, Store, bool]: ...

@final
class CoalescingStore(Store):
    """A wrapper that opens each announced value once and reads each of its bytes once."""

    def __new__(cls, store: Store) -> Self: ...
    def expect(self, key: str, byte_range: tuple[int, int | None] | None = None) -> None: ...
    def substitute(self, store: Store, below: Store) -> Store: ...

@disjoint_base
class CachedStore(Store):
    """A cache of another store."""

    def __new__(cls, store: Store, max_bytes: int, max_age_s: float | None) -> Self: ...
    def forget(self) -> None: ...
    def counts(self) -> dict[str, int]: ...

@final
class CachePool:
    """A cache that several stores share."""

    def __new__(cls, max_bytes: int) -> Self: ...
    def store(self, store: Store, space: int, max_age_s: float | None) -> Store: ...
    def forget(self) -> None: ...
    def counts(self) -> dict[str, int]: ...

@final
class HttpSite:
    """The web server of a store written in Python, once the store knows it."""

    def __new__(cls) -> Self: ...
    def set_location(
        self,
        root: str,
        query: str,
        headers: list[tuple[str, str]],
        patience_s: float,
        plain: str,
        states: str | None,
        keys: tuple[str, str, str | None, str] | None,
        stores: int,
        valid_s: float,
        forbids: bool,
        private: bool,
    ) -> bool: ...
    def clear(self) -> None: ...
    def is_active(self) -> bool: ...

@final
class Limits:
    """Limits on concurrent requests and on requests per second."""

    def __new__(
        cls,
        concurrency: int | None,
        chunks: int | None,
        reads_per_s: float | None,
        writes_per_s: float | None,
        doubling_s: float | None,
    ) -> Self: ...
    def store(self, store: Store) -> Store: ...

@disjoint_base
class StagedStore(Store):
    """Staged changes of another store."""

    def __new__(
        cls,
        store: Store,
        repeatable: bool,
        owner: Any = None,
        *,
        sharing: StagedStore | None = None,
    ) -> Self: ...
    @property
    def below(self) -> Store: ...
    @property
    def number(self) -> int: ...
    @property
    def owner(self) -> Any: ...
    def count_changes(self) -> int: ...
    def is_cached(self, key: str) -> bool: ...
    def is_staged(self, key: str) -> bool: ...
    def is_small(self, max_bytes: int) -> bool: ...
    def stage_if(self, key: str, data: bytes, version: bytes) -> bool: ...
    def expect_version(self, key: str, data: bytes, version: bytes | None) -> bool: ...
    def write_if(
        self, key: str, data: bytes | None, generation: bytes
    ) -> TimestampedStorageGeneration: ...
    def find_conflict(self) -> str | None: ...
    def abort(self) -> None: ...
    def commit(
        self, atomic: bool, redo: Callable[[str, bytes | None], Any] | None = None
    ) -> str | int | None: ...

@disjoint_base
class Dim:
    """An interval of indices along one dimension, and the label of the dimension.

    ``Dim(size)``, ``Dim(inclusive_min, exclusive_max)``, ``Dim(label)`` for one without bounds,
    or keywords.

    Parameters
    ----------
    inclusive_min, exclusive_max, inclusive_max, size : int, optional
        The bounds. Without any the dimension is unbounded and both bounds are implicit by
        default; with ``size=None`` it begins at 0 and has no end.
    label : str, optional
        The label; by default none.
    implicit_lower, implicit_upper : bool, optional
        Whether the bound may change with the bounds of the base. By default only omitted
        infinite bounds are implicit.

    Raises
    ------
    ArgumentError
        If the bounds are not an interval.

    Notes
    -----
    TensorStore's ``Dim`` (index space, dimension).

    Examples
    --------
    >>> Dim(5, label="x"), Dim(3, 9).size, list(Dim(inclusive_min=-1, size=3))
    (Dim(inclusive_min=0, exclusive_max=5, label="x"), 6, [-1, 0, 1])
    """

    def __new__(cls, *_arguments: Any, **_keywords: Any) -> Self: ...
    def __init__(
        self,
        *bounds: Any,
        inclusive_min: SupportsIndex | None = ...,
        exclusive_max: SupportsIndex | None = ...,
        inclusive_max: SupportsIndex | None = ...,
        size: SupportsIndex | None = ...,
        label: str | bytes | None = ...,
        implicit_lower: bool | None = ...,
        implicit_upper: bool | None = ...,
    ) -> None: ...
    @staticmethod
    def _of(
        lower: int, upper: int, label: str | None = None, implicit: tuple[bool, bool] = ...
    ) -> Dim:
        """Return ``[lower, upper)``, which must be an interval."""
    @property
    def inclusive_min(self) -> int:
        """The least index."""
    @property
    def exclusive_max(self) -> int:
        """One more than the greatest index."""
    @property
    def inclusive_max(self) -> int:
        """The greatest index."""
    @property
    def exclusive_min(self) -> int:
        """One less than the least index."""
    @property
    def label(self) -> str:
        """The label; "" without one."""
    @label.setter
    def label(self, label: str | None) -> None: ...
    @property
    def implicit_lower(self) -> bool:
        """Whether the lower bound may change with the bounds of the base."""
    @implicit_lower.setter
    def implicit_lower(self, implicit: bool) -> None: ...
    @property
    def implicit_upper(self) -> bool:
        """Whether the upper bound may change with the bounds of the base."""
    @implicit_upper.setter
    def implicit_upper(self, implicit: bool) -> None: ...
    @property
    def _implicit(self) -> tuple[bool, bool]:
        """Whether the lower and the upper bound are implicit."""
    @property
    def size(self) -> int:
        """The number of indices."""
    @property
    def empty(self) -> bool:
        """Whether the interval is empty."""
    @property
    def finite(self) -> bool:
        """Whether both bounds are finite."""
    def hull(self, other: Dim) -> Dim:
        """Return the smallest interval that contains both; labels have to agree."""
    def intersect(self, other: Dim) -> Dim:
        """Return the indices of both; labels have to agree."""
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: dict[int, Any]) -> Self: ...
    def __contains__(self, other: object, /) -> bool: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[int]: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, ...]: ...
    def __setstate__(self, state: Any) -> None: ...

@disjoint_base
class OutputIndexMap:
    """The map from positions of a view to the indices of one dimension of the base.

    ``OutputIndexMap(offset)`` is a constant index, ``OutputIndexMap(input_dimension, offset,
    stride)`` follows one dimension of the view, ``OutputIndexMap(index_array, offset, stride,
    index_range)`` takes the index from an array.

    Parameters
    ----------
    offset : int, optional
        The offset; by default 0.
    stride : int, optional
        The factor of the index of the input dimension, or of the index array; by default 1.
    input_dimension : int, optional
        The dimension of the view that the index follows.
    index_array : array of int, optional
        The indices that positions get: one axis per dimension of the view, of length 1 where
        the index does not vary.
    index_range : Dim, optional
        The interval that must contain the items of the index array; by default any.

    Raises
    ------
    TypeError
        If the arguments are not those of one of the forms.

    Examples
    --------
    >>> OutputIndexMap(input_dimension=0, offset=2, stride=3)
    OutputIndexMap(offset=2, stride=3, input_dimension=0)
    >>> OutputIndexMap([4, 8], index_range=Dim(10))
    OutputIndexMap(offset=0, stride=1, index_array={4, 8}, index_range=[0, 10))
    """

    def __new__(cls, *_arguments: Any, **_keywords: Any) -> Self: ...
    def __init__(
        self,
        *arguments: Any,
        offset: SupportsIndex = ...,
        stride: SupportsIndex = ...,
        input_dimension: SupportsIndex = ...,
        index_array: Any = ...,
        index_range: Dim = ...,
    ) -> None: ...
    @staticmethod
    def _constant(offset: int) -> OutputIndexMap: ...
    @staticmethod
    def _along(dimension: int, offset: int = 0, stride: int = 1) -> OutputIndexMap: ...
    @staticmethod
    def _by_array(
        array: NDArray[np.int64],
        offset: int = 0,
        stride: int = 1,
        within: tuple[int, int] = ...,
    ) -> OutputIndexMap: ...
    @property
    def offset(self) -> int:
        """The offset."""
    @property
    def _factor(self) -> int:
        """The stride; 0 of a constant."""
    @property
    def stride(self) -> int | None:
        """The factor of the index; None of a constant."""
    @property
    def input_dimension(self) -> int | None:
        """The dimension of the view that the index follows."""
    @property
    def index_array(self) -> NDArray[np.int64] | None:
        """The indices that positions get."""
    @property
    def _within(self) -> tuple[int, int]:
        """The half-open interval that must contain the items of the index array."""
    @property
    def index_range(self) -> Dim | None:
        """The interval that must contain the items of the index array; None without an array."""
    @property
    def method(self) -> Any:
        """The form."""
    __hash__: ClassVar[None]  # type: ignore[assignment]
    def __eq__(self, other: object, /) -> bool: ...
    def __reduce__(self) -> tuple[Any, ...]: ...
    def __setstate__(self, state: Any) -> None: ...

@disjoint_base
class TransformBase:
    """Base of `IndexDomain` and `IndexTransform`: a view and its properties.

    Properties are computed once.
    """

    def __new__(cls, *_arguments: Any, **_keywords: Any) -> Self: ...
    def __init__(self, view: View) -> None: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: dict[int, Any]) -> Self: ...
    @staticmethod
    def _create(class_: type[_Transform], view: View, /) -> _Transform: ...
    @property
    def _view(self) -> View: ...
    def _as_view(self) -> View: ...
    def _with_view(self, view: View) -> Self: ...
    @property
    def _domain(self) -> IndexDomain:
        """The positions."""
    @property
    def _dims(self) -> tuple[Dim, ...]:
        """The dimensions; not to be modified."""
    @property
    def _output(self) -> OutputIndexMaps:
        """The output index map of each dimension of the base."""
    @property
    def T(self) -> Self:  # noqa: N802 (as NumPy calls it)
        """The view with its dimensions in reverse order."""
    @property
    def rank(self) -> int:
        """The number of dimensions."""
    @property
    def origin(self) -> tuple[int, ...]:
        """The least index of each dimension."""
    @property
    def shape(self) -> tuple[int, ...]:
        """The number of indices of each dimension."""
    @property
    def _plain_shape(self) -> tuple[int, ...] | None:
        """The shape if bounds are finite, explicit and start at 0, without labels; else None."""
    @property
    def size(self) -> int:
        """The number of positions."""
    @property
    def implicit_lower_bounds(self) -> tuple[bool, ...]:
        """Whether the lower bound of each dimension is implicit."""
    @property
    def implicit_upper_bounds(self) -> tuple[bool, ...]:
        """Whether the upper bound of each dimension is implicit."""
    @property
    def _inclusive_max(self) -> tuple[int, ...]:
        """The greatest index of each dimension."""
    @property
    def _exclusive_max(self) -> tuple[int, ...]:
        """One more than the greatest index of each dimension."""
    @property
    def _labels(self) -> tuple[str, ...]:
        """The label of each dimension; "" without one."""

@disjoint_base
class HandleBase:
    """Base of `TensorStore`: the driver, the view, the mode and the transaction.

    The method ``_kvstore`` of the subclass returns the key-value store of the array, or None.
    """

    @staticmethod
    def _create(
        class_: type[_Handle],
        driver: Any,
        view: View | TransformBase,
        mode: str,
        transaction: Any,
        /,
    ) -> _Handle: ...
    def _as_view(self) -> View: ...
    @property
    def _driver(self) -> Any: ...
    @property
    def _view(self) -> Any: ...
    @property
    def _mode(self) -> str: ...
    @property
    def _transaction(self) -> Any: ...
    @property
    def kvstore(self) -> Any:
        """The key-value store of the array, or None."""

@disjoint_base
class Indexer(Generic[_Made_co]):
    """Applies an operation to an indexing key: ``view.translate_to[1, 2]``.

    This class handles operations on transforms whose argument needs no parsing; the owner's
    ``_apply_operation`` handles all others and reports errors.
    """

    __iter__: ClassVar[None]
    def __new__(cls, owner: Any, name: str) -> Self: ...
    def __getitem__(self, key: Any, /) -> _Made_co: ...
    def __class_getitem__(cls, key: Any) -> GenericAlias: ...

@final
class View:
    """A domain and an output index map for each dimension of the base.

    ``View(dims)`` is a domain without maps.
    """

    def __new__(cls, dims: Iterable[Dim]) -> Self: ...
    @staticmethod
    def from_bounds(
        rank: SupportsIndex | None,
        inclusive_min: Iterable[SupportsIndex] | None,
        exclusive_max: Iterable[SupportsIndex] | None,
        inclusive_max: Iterable[SupportsIndex] | None,
        shape: Iterable[SupportsIndex] | None,
        labels: Iterable[str | None] | None,
        implicit_lower: Iterable[bool] | None,
        implicit_upper: Iterable[bool] | None,
    ) -> View: ...
    @staticmethod
    def domain_from_json(json: dict[str, Any]) -> View: ...
    @staticmethod
    def from_json(json: dict[str, Any]) -> View: ...
    def to_state(self) -> tuple[tuple[Any, ...], builtins.list[Any]]: ...
    @staticmethod
    def from_state(dims: Iterable[Any], maps: Iterable[Any]) -> View: ...
    def to_json(self, domain_only: bool) -> dict[str, Any]: ...
    def with_maps(self, maps: Iterable[Any] | None = None) -> View: ...
    @property
    def rank(self) -> int:
        """The number of dimensions."""
    @property
    def output_rank(self) -> int:
        """The number of maps."""
    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each dimension."""
    @property
    def plain_shape(self) -> tuple[int, ...] | None:
        """The shape if bounds are finite, explicit and start at 0, without labels; else None."""
    @property
    def origin(self) -> tuple[int, ...]:
        """The least index of each dimension."""
    @property
    def exclusive_max(self) -> tuple[int, ...]:
        """One more than the greatest index of each dimension."""
    @property
    def inclusive_max(self) -> tuple[int, ...]:
        """The greatest index of each dimension."""
    @property
    def labels(self) -> tuple[str, ...]:
        """The label of each dimension; "" without one."""
    @property
    def implicit_lower(self) -> tuple[bool, ...]:
        """Whether the lower bound of each dimension is implicit."""
    @property
    def implicit_upper(self) -> tuple[bool, ...]:
        """Whether the upper bound of each dimension is implicit."""
    @property
    def size(self) -> int:
        """The number of positions."""
    def domain(self) -> View: ...
    def dims(self) -> tuple[Dim, ...]: ...
    def dim(self, k: int) -> Dim: ...
    def dims_text(self) -> str: ...
    def hull(self, other: View) -> View: ...
    def intersect(self, other: View) -> View: ...
    def merge(self, other: View) -> View: ...
    def position(self, indices: Iterable[SupportsIndex]) -> tuple[int, ...]: ...
    def maps(self) -> tuple[OutputIndexMap, ...]: ...
    @property
    def is_identity(self) -> bool:
        """Whether the transform is the identity."""
    def linear_maps(self, exclusive: bool) -> builtins.list[tuple[int, int, int]]: ...
    def index_array_strides(self) -> builtins.list[builtins.list[int] | None]: ...
    def propagate_grids(
        self, origin: tuple[_T, ...], grids: _Grids
    ) -> tuple[tuple[_T, ...], _Grids]: ...
    def propagate_order(self, order: Sequence[int]) -> tuple[int, ...]: ...
    def select(self, key: Any, mode: str) -> View | None: ...
    def apply_operation(self, name: str, key: Any) -> View | None: ...
    def apply_operations(
        self, names: tuple[int | str | slice, ...] | None, acts: tuple[tuple[str, Any], ...]
    ) -> View: ...
    def transpose(self, order: Sequence[int]) -> View: ...
    def reverse(self) -> View: ...
    def simplify(self) -> View: ...
    def restrict(self, to: View) -> View: ...
    def compose(self, by: View) -> View: ...
    @property
    def has_implicit_bounds(self) -> bool:
        """Whether any bound is implicit."""
    @property
    def has_index_arrays(self) -> bool:
        """Whether any map has an index array."""
    def covers(self, domain: View) -> bool: ...
    def resolve_bounds(self, target: View) -> View: ...
    @staticmethod
    def for_array(
        shape: Sequence[int], labels: Sequence[str | None] | None, inner: Sequence[int]
    ) -> View: ...
    def base_resizes(
        self, lower: Iterable[int | None] | None, upper: Iterable[int | None] | None, tied: bool
    ) -> tuple[
        tuple[int | None, ...], tuple[int | None, ...], tuple[tuple[int, int] | None, ...]
    ]: ...
    def select_dims(self, names: tuple[int | str | slice, ...]) -> builtins.list[int]: ...
    def touches_at_most(self, cell_shape: Sequence[int], max_cells: int) -> bool: ...
    def to_selection(
        self, shape: Sequence[int]
    ) -> tuple[
        tuple[_Axis, ...],
        tuple[int | None, ...],
        tuple[int, ...],
        tuple[int, ...],
        bool,
        tuple[int, ...] | None,
    ]: ...
    def __eq__(self, other: object, /) -> bool: ...

@final
class LayerStack:
    """Views at their positions in a common domain, from the lowest to the topmost.

    `build` combines views at their own positions ("overlay"), one after another along an axis
    ("concat"), or side by side along a new axis ("stack"). A rank, bounds and labels override
    those of the common domain.
    """

    @staticmethod
    def build(
        views: builtins.list[View],
        how: str = "overlay",
        axis: int | str | None = None,
        rank: int | None = None,
        bounds: View | None = None,
    ) -> LayerStack: ...
    @property
    def domain(self) -> View: ...
    def views(self) -> builtins.list[View]: ...
    def visible(
        self,
        view: View,
        find: Callable[[builtins.list[int]], builtins.list[NDArray[Any] | ArrayBase | None]],
    ) -> VisibleLayers: ...

@final
class VisibleLayers:
    """The visible parts of layers: arrays in memory, chunked arrays, and others."""

    @property
    def is_single_remote(self) -> bool: ...
    @property
    def has_stored(self) -> bool: ...
    def read(self, out: NDArray[Any], future: Any) -> PendingTransfer: ...
    def remote(self) -> builtins.list[tuple[int, View, View]]: ...
    def take(self, out: NDArray[Any]) -> None: ...
    def put(self, items: NDArray[Any]) -> None: ...

@final
class Blocks:
    """A downsampled array: the base, the domain of its blocks and the block shape."""

    def __new__(cls, base: View, domain: View, factors: Sequence[int]) -> Self: ...
    def source(self, view: View) -> BlockSource | None: ...

@final
class BlockSource:
    """The source of a view of blocks: a product of positions of each dimension."""

    @property
    def counts(self) -> tuple[int, ...]: ...
    @property
    def order(self) -> View | None: ...
    def part(
        self, first: int, last: int
    ) -> tuple[View, builtins.list[tuple[int, int, int, int]]]: ...

@final
class GridPartition:
    """The cells of a grid in which a view has positions.

    Each has a domain, the part of the view in it, relative to its origin, and the positions of
    the part in an array of the view's shape.
    """

    def __new__(
        cls, view: View, domain: View, origin: Sequence[int], shape: Sequence[int]
    ) -> Self: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> tuple[View, View, View]: ...
    def copy_known(
        self,
        find: Callable[[builtins.list[tuple[int, ...]]], Sequence[NDArray[Any] | None]],
        out: NDArray[Any],
    ) -> builtins.list[tuple[View, View, View]] | None: ...

def apply_view(array: NDArray[Any], view: View) -> NDArray[Any]: ...
def empty(
    shape: Sequence[int], dtype: np.dtype[Any], order: Literal["C", "F"] = "C"
) -> NDArray[Any]: ...
def take(array: NDArray[Any], view: View, out: NDArray[Any] | None = None) -> NDArray[Any]: ...
def put(array: NDArray[Any], view: View, items: NDArray[Any]) -> None: ...
def overlaps_itself(array: NDArray[Any]) -> bool: ...
def choose_chunk_shapes(
    write: _Asked, read: _Asked | None, domain: View, rank: int
) -> tuple[tuple[int, ...], tuple[int, ...]]: ...
def encode_json(
    value: object, indent: int, sorted: bool, other: Callable[[object], str]
) -> bytes: ...
def make_cache_key(value: Any) -> bytes | None: ...
def find_large_int(value: Any) -> int | None: ...
def start_reads(
    reads: Sequence[PreparedRead],
    futures: Sequence[Any],
    *,
    coalesce: bool = False,
    locations: Sequence[tuple[Store, CoalescingStore] | None] | None = None,
    weak: bool = False,
) -> PendingTransfer: ...
def prefix_store(store: Store, prefix: str) -> Store: ...
def guard_store(store: Store) -> Store: ...
def delay_store(
    store: Store, read_s: float, write_s: float, bytes_per_s: float | None, concurrency: int
) -> Store: ...
def retry_store(
    store: Store,
    most: int,
    first_s: float,
    longest_s: float,
    judge: Callable[[BaseException], tuple[BaseException, bool, bool | None]],
) -> Store: ...
def observe_store(
    store: Store, watch: Callable[[str, str, int, float, str | None], object]
) -> Store: ...
def encode(codec: dict[str, Any], data: Any) -> bytes: ...
def decode(
    codec: dict[str, Any],
    data: Any,
    decoded_bytes: int | None = None,
    limit: int | None = None,
) -> bytes: ...
def convert(
    values: NDArray[Any],
    out: NDArray[Any],
    source: str | ByteFloats,
    target: str | ByteFloats,
) -> None: ...
def reduce(
    values: NDArray[Any],
    out: NDArray[Any],
    cuts: Sequence[tuple[int, int, int, int]],
    method: str,
    kind: str,
) -> None: ...
def set_threads(n: int | None) -> None: ...
def threads() -> int: ...
def count_local_requests() -> dict[str, int]: ...
def unpickle_memory_store(class_: type[MemoryStore], name: str, process: int, /) -> MemoryStore: ...
