"""The compiled part of Tessarr: chunks, codecs and stores (`rust/`)."""

import builtins
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from typing import (
    Any,
    Literal,
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

from tessarr.types import ArrayKey

__all__ = [
    "ArrayBase",
    "BlockSource",
    "Blocks",
    "BufferScope",
    "ByteFloats",
    "CachePool",
    "CachedStore",
    "CoalescingStore",
    "CountingStore",
    "Description",
    "ForeignStore",
    "GridPartition",
    "JsonText",
    "LayerStack",
    "Limits",
    "LocalStore",
    "MemoryStore",
    "ObjectStore",
    "PendingTransfer",
    "PreparedRead",
    "SplitStore",
    "StagedStore",
    "Store",
    "Summary",
    "UnreadValue",
    "ValueReader",
    "View",
    "VisibleLayers",
    "WriteBuffer",
    "apply_view",
    "as_bool",
    "choose_chunk_shapes",
    "chunk_cache_bytes",
    "convert",
    "count_chunk_cache",
    "count_local_requests",
    "decode",
    "decode_json",
    "delay_store",
    "digest_generation",
    "empty",
    "encode",
    "encode_json",
    "end_buffer_scopes",
    "guard_store",
    "observe_store",
    "overlaps_itself",
    "prefix_store",
    "prepare_basic_read",
    "put",
    "reduce",
    "retry_store",
    "run_reads",
    "set_chunk_cache_bytes",
    "set_threads",
    "start_reads",
    "summarize",
    "take",
    "threads",
    "unpickle_memory_store",
]

_T = TypeVar("_T")
_Indices: TypeAlias = NDArray[np.int64]
_Range: TypeAlias = tuple[int, int, int]
_Mask: TypeAlias = tuple[NDArray[np.bool_], int]
_Axis: TypeAlias = _Range | _Indices | tuple[_Indices] | _Mask
_Field: TypeAlias = tuple[int, int, int]
_VersionedParts: TypeAlias = tuple[
    Literal["unspecified", "missing", "value"], bytes, bytes | int | None, float
]

@final
class PendingTransfer:
    """Queued transfers that a worker thread runs."""

    def cancel(self, future: object) -> bool: ...
    def help(self) -> None: ...

@final
class JsonText:
    """A JSON document as text, with the objects on a path.

    The first object, at level 0, is the document; the next one is its member ``path[0]``, and so
    on. The objects end before a member that is absent or no object. A document that is no object
    has none.
    """

    def __new__(cls, document: bytes, path: Sequence[str]) -> Self: ...
    @property
    def levels(self) -> int: ...
    def get(self, level: int, name: str) -> bytes | None: ...
    def names(self, level: int, prefix: str) -> list[str]: ...
    def edit(
        self,
        edits: Sequence[tuple[int, Literal["name", "path"] | None, Mapping[str, bytes | None]]],
        indent: int,
    ) -> bytes: ...

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
    def with_shape(self, shape: Sequence[int]) -> Description: ...
    @property
    def is_native(self) -> bool: ...
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
        chunk_cache_bytes: int | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> Self: ...
    @property
    def _description(self) -> Description: ...
    def _replace_description(self, description: Description) -> None: ...
    def _configure(self, read_only: bool, direct: bool) -> None: ...
    @overload
    def __getitem__(self, key: ArrayKey, /) -> NDArray[Any]: ...
    @overload
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
    def _disable_buffer(self) -> None: ...
    def _store_buffered_chunks(self) -> None: ...
    def _start_buffer(self, max_bytes: int) -> BufferScope: ...
    def _set_write_buffer(self, write_buffer: WriteBuffer) -> None: ...
    def _keep_padding(self) -> None: ...
    def _check_presence(self, key: str, document: str, meta: Any) -> None: ...
    def _check_presence_as(self, other: ArrayBase) -> None: ...
    @property
    def _has_write_buffer(self) -> bool: ...
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
class BufferScope:
    """A block of buffered writes, from its creation to `end`."""

    def __new__(cls, store: Store, prefix: str, max_bytes: int) -> Self: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def is_open(self) -> bool: ...
    def store(self) -> None: ...
    def end(self) -> None: ...
    def discard(self) -> None: ...

def end_buffer_scopes() -> None: ...

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
    def read_batch(
        self, reads: Sequence[tuple[str, str]], concurrency: int, *, limit: int | None = None
    ) -> list[Any]: ...
    @property
    def concurrency(self) -> int: ...
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
    ) -> tuple[bytes, float]: ...
    def hold(self, key: str, work: Callable[[], _T]) -> _T: ...
    def put(self, key: str, data: Buffer) -> None: ...
    def delete(self, key: str) -> None: ...
    def replace(self, key: str, data: Buffer | None, expected: Buffer | None) -> bool: ...
    def size(self, key: str) -> int | None: ...
    def open_value(
        self, key: str, byte_range: tuple[int, int | None] | None = None
    ) -> ValueReader | None: ...
    def get_version(
        self, key: str, *, limit: int | None = None
    ) -> tuple[bytes, bytes | None] | None: ...
    @overload
    def read_versioned(
        self, key: str, known: bytes | None = None, byte_range: tuple[int, int | None] | None = None
    ) -> _VersionedParts: ...
    @overload
    def read_versioned(
        self,
        key: str,
        known: bytes | None,
        byte_range: tuple[int, int | None] | None,
        max_bytes: int | None,
    ) -> _VersionedParts | UnreadValue: ...
    def list_range(
        self, start: str, first: bytes | None = None, end: bytes | None = None, *, strip: int = 0
    ) -> builtins.list[bytes]: ...
    def store_buffered_chunks(self, prefix: str) -> None: ...
    def list(self, prefix: str = "") -> builtins.list[str]: ...
    def list_dir(self, prefix: str = "") -> tuple[builtins.list[str], builtins.list[str]]: ...
    def list_sizes(self, prefix: str) -> builtins.list[tuple[str, int]] | None: ...
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

@final
class PreparedRead:
    """A read that has not started. It starts at most once."""

    @property
    def is_empty(self) -> bool: ...
    @property
    def is_scalar(self) -> bool: ...
    def touches_at_most(self, cell_shape: Sequence[int], max_cells: int) -> bool: ...
    def run(self) -> NDArray[Any]: ...

@final
class UnreadValue:
    """A value that is open and not yet read."""

    def read(self) -> _VersionedParts: ...

def digest_generation(value: bytes) -> bytes:
    """Return the generation of a value whose store has no versions."""

def as_bool(value: object, name: str) -> bool:
    """Return the truth value of None, a boolean or a number.

    Strings and sequences raise a TypeError, which calls the argument ``name``.
    """

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

class ObjectStore(Store):
    """A store on S3, GCS, Azure or a web server."""

    def __new__(
        cls,
        kind: str,
        url: str,
        bucket: str,
        prefix: str,
        options: list[tuple[str, str]],
        *,
        headers: Sequence[tuple[str, str]],
        connection: dict[str, Any],
        credentials: Callable[[], Mapping[str, Any]] | None = None,
        read_only: bool = False,
        concurrency: int = 64,
        retries: int = 10,
        timeout_s: float = 60.0,
        conditional_writes: bool = True,
        may_be_anonymous: bool = True,
        forbidden_is_absent: bool = False,
    ) -> Self: ...

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
    def deletes_below(self, prefix: str) -> bool: ...
    def is_small(self, max_bytes: int) -> bool: ...
    def stage_if(self, key: str, data: bytes, version: bytes) -> bool: ...
    def expect_version(self, key: str, data: bytes, version: bytes | None) -> bool: ...
    def write_if(self, key: str, data: bytes | None, generation: bytes) -> tuple[bytes, float]: ...
    def find_conflict(self) -> str | None: ...
    def abort(self) -> None: ...
    def commit(
        self, atomic: bool, redo: Callable[[str, bytes | None], Any] | None = None
    ) -> str | int | None: ...

_Dim: TypeAlias = tuple[int, int, str | None, tuple[bool, bool]]
_Map: TypeAlias = tuple[int, int, int | _Indices | None, tuple[int, int] | None]

@final
class View:
    """A domain and an output index map for each dimension of the base.

    ``View(dims)`` is a domain without maps.
    """

    def __new__(cls, dims: Sequence[_Dim], maps: Sequence[_Map] | None = None) -> Self: ...
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
    def to_json(self, domain_only: bool) -> dict[str, Any]: ...
    def with_maps(self, maps: Sequence[_Map] | None = None) -> View: ...
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
    def dims(self) -> tuple[_Dim, ...]: ...
    def dims_text(self) -> str: ...
    def hull(self, other: View) -> View: ...
    def intersect(self, other: View) -> View: ...
    def merge(self, other: View) -> View: ...
    def position(self, indices: Iterable[SupportsIndex]) -> tuple[int, ...]: ...
    def maps(self) -> tuple[_Map, ...]: ...
    @property
    def is_identity(self) -> bool:
        """Whether the transform is the identity."""
    def linear_maps(self, exclusive: bool) -> builtins.list[tuple[int, int, int]]: ...
    def index_array_strides(self) -> builtins.list[builtins.list[int] | None]: ...
    def select(self, key: Any, mode: str) -> View | None: ...
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
def decode_json(document: bytes, max_depth: int) -> tuple[Any, bool] | None: ...
def encode_json(
    value: object, indent: int, sorted: bool, other: Callable[[object], str]
) -> bytes: ...
def prepare_basic_read(
    array: Any, key: object, out: object = None, number: int = 0
) -> PreparedRead | None: ...
def run_reads(reads: Sequence[PreparedRead]) -> list[NDArray[Any]]: ...
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

@final
class Summary:
    """Counts, extremes, moments and a histogram of elements."""

    @property
    def count(self) -> int: ...
    @property
    def nan_count(self) -> int: ...
    @property
    def infinity_counts(self) -> tuple[int, int]: ...
    @property
    def extremes(self) -> tuple[int, int] | tuple[float, float] | None: ...
    @property
    def sum(self) -> int | float: ...
    @property
    def mean(self) -> float | None: ...
    @property
    def standard_deviation(self) -> float | None: ...
    @property
    def bins(self) -> tuple[int, int, list[int]]: ...
    def merged(self, other: Summary) -> Summary: ...
    def repeated(self, count: int) -> Summary: ...

def summarize(values: NDArray[Any], kind: str, max_bins: int) -> Summary: ...
def set_threads(n: int | None) -> None: ...
def threads() -> int: ...
def set_chunk_cache_bytes(n: int | None) -> None: ...
def chunk_cache_bytes() -> int: ...
def count_chunk_cache() -> dict[str, int]: ...
def count_local_requests() -> dict[str, int]: ...
def unpickle_memory_store(class_: type[MemoryStore], name: str, process: int, /) -> MemoryStore: ...
