"""The compiled part of Tessarr: chunks, codecs and stores (`rust/`)."""

from collections.abc import MutableMapping, Sequence
from concurrent.futures import Future
from typing import Any, Self, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

_Indices: TypeAlias = NDArray[np.int64]
_Axis: TypeAlias = tuple[int, int, int] | _Indices | tuple[_Indices]

@final
class Description:
    """A compiled array description: immutable, independent of store and path.

    ``description`` has the members shape, chunk_shape, dtype, item_bytes,
    is_bool, fill, keys, store_fill and chain, as `tessarr.codec.chain` makes them.
    """

    def __new__(cls, description: dict[str, Any]) -> Self: ...
    @property
    def shape(self) -> Sequence[int]:
        """Shape of the array."""

class ArrayBase:
    """Base of `tessarr.Array`: a compiled description, a store and a key prefix.

    Basic indices (integers, slices, one ellipsis) are handled here; every
    other key goes to the methods ``_getitem`` and ``_setitem`` of the subclass.
    """

    def __new__(
        cls, description: Description, store: Store, prefix: str, read_only: bool, *args: Any, **kwargs: Any
    ) -> Self: ...
    @property
    def _description(self) -> Description: ...
    def _replace(self, description: Description) -> None: ...
    def __getitem__(self, key: Any, /) -> Any: ...
    def __setitem__(self, key: Any, value: Any, /) -> None: ...
    def _read(self, axes: Sequence[_Axis], out_axes: Sequence[int | None], out: NDArray[Any]) -> None: ...
    def _write(self, axes: Sequence[_Axis], out_axes: Sequence[int | None], value: NDArray[Any]) -> None: ...
    def _read_future(
        self,
        axes: Sequence[_Axis],
        out_axes: Sequence[int | None],
        out: NDArray[Any],
        future: Future[Any],
        result: Any,
    ) -> None: ...
    def _write_future(
        self,
        axes: Sequence[_Axis],
        out_axes: Sequence[int | None],
        value: NDArray[Any],
        future: Future[Any],
    ) -> None: ...

class Store:
    """A key-value store of the engine."""

    @property
    def read_only(self) -> bool: ...
    def get(self, key: str) -> bytes | None: ...
    def put(self, key: str, data: Any) -> None: ...
    def delete(self, key: str) -> None: ...
    def replace(self, key: str, data: Any | None, expected: bytes | None) -> bool: ...
    def size(self, key: str) -> int | None: ...
    def list(self, prefix: str = "") -> list[str]: ...
    def list_dir(self, prefix: str = "") -> tuple[list[str], list[str]]: ...
    def delete_prefix(self, prefix: str = "") -> None: ...
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...

@final
class LocalStore(Store):
    """A folder."""

    def __new__(cls, path: str, *, read_only: bool = False, durable: bool = False) -> Self: ...

@final
class MemoryStore(Store):
    """Memory of this process."""

    def __new__(cls) -> Self: ...

@final
class ForeignStore(Store):
    """A store or a mapping that is written in Python."""

    def __new__(cls, obj: MutableMapping[str, bytes] | Any, *, read_only: bool = False) -> Self: ...

def encode(codec: dict[str, Any], data: Any) -> bytes: ...
def decode(codec: dict[str, Any], data: Any, decoded_bytes: int | None = None) -> bytes: ...
def set_threads(n: int) -> None: ...
def threads() -> int: ...
