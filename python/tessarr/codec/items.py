"""The base class of numcodecs' filters, which encode items of one type.

In format 2 a filter ignores the data type of a chunk. It views the bytes of the chunk, in memory
order, as items of its parameter ``dtype``, and encodes them to items of its parameter ``astype``.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self

import numpy as np

from tessarr import dtype as dtypes
from tessarr.codec.base import ArrayArrayCodec, deliver
from tessarr.codec.chain import to_flat_array
from tessarr.codec.parameters import number_type
from tessarr.errors import DataError

if TYPE_CHECKING:
    from tessarr.codec.base import ArraySpec
    from tessarr.format.validation import Problems
    from tessarr.types import DTypeLike, ZarrFormat

__all__ = ["ItemFilter", "TypedFilter", "as_array", "view_items"]

_TYPES: Final = ("dtype", "astype")
"""The endings of the names of parameters that are types."""


class ItemFilter(ArrayArrayCodec):
    """A codec from items of one type to the same number of items of another type."""

    __slots__ = ()

    @abstractmethod
    def types(self, dtype: np.dtype[Any]) -> tuple[np.dtype[Any], np.dtype[Any]]:
        """Return the types of decoded and of encoded items, for arrays of `dtype`."""

    def encode_items(self, items: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return the encoded items before the cast to their type; by default the same items."""
        return items

    def decode_items(self, items: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return the decoded items before the cast to their type; by default the same items."""
        return items

    def __repr__(self) -> str:
        # The text of zarr-python 2: types by name, and one type if both are equal.
        config: dict[str, Any] = self.get_config()
        del config["id"]
        if config["astype"] == config["dtype"]:
            del config["astype"]
        types = {name: np.dtype(config[name]) for name in _TYPES if config.get(name)}
        texts = [f"{name}={types.get(name, value)}" for name, value in config.items()]
        return f"{type(self).__name__}({', '.join(texts)})"

    def native(self) -> Self:
        return self.ordered("native")

    def ordered(self, order: Literal["native", "little", "big"]) -> Self:
        """Return the filter with types of another byte order."""
        config = self.get_config()
        types = {name: value for name, value in config.items() if name.endswith(_TYPES) and value}
        changed = {name: np.dtype(type_).newbyteorder(order) for name, type_ in types.items()}
        return self.from_config({**config, **changed})

    def check(self, spec: ArraySpec, loc: str, problems: Problems) -> None:
        decoded, _ = self.types(spec.data_type.numpy)
        if spec.size_bytes % decoded.itemsize:
            message = f"chunks of {spec.size_bytes} bytes are not whole items of {decoded}"
            problems.add(loc, message, "mismatch")

    def encoded(self, spec: ArraySpec) -> ArraySpec:
        decoded, encoded = self.types(spec.data_type.numpy)
        shape = spec.shape
        if decoded.itemsize != spec.data_type.item_bytes:
            shape = (spec.size_bytes // decoded.itemsize,)
        return replace(spec, shape=shape, data_type=dtypes.to_data_type(encoded), fill=None)

    def encode(self, array: np.ndarray[Any, Any], /) -> np.ndarray[Any, Any]:
        """Encode an array, or any buffer of whole items."""
        array = as_array(array)
        decoded, encoded = self.types(array.dtype)
        with np.errstate(all="ignore"):
            items = self.encode_items(view_items(array, decoded))
        items = items.astype(encoded, copy=False)
        return items.reshape(array.shape) if decoded.itemsize == array.itemsize else items

    def decode(
        self, array: np.ndarray[Any, Any], spec: ArraySpec | None = None, /, out: Any = None
    ) -> np.ndarray[Any, Any]:
        """Decode to an array of `spec`; without `spec`, decode a buffer to items or into `out`."""
        array = as_array(array)
        decoded, encoded = self.types(array.dtype if spec is None else spec.data_type.numpy)
        with np.errstate(all="ignore"):
            items = self.decode_items(view_items(array, encoded)).astype(decoded, copy=False)
        if spec is None:
            return np.asarray(deliver(items, out))
        items = view_items(items, spec.data_type.numpy)
        try:
            return items.reshape(spec.shape)
        except ValueError as error:
            message = f"{items.size} items instead of an array of shape {spec.shape}"
            raise DataError(message, kind="wrong_size", codec=self.name) from error


class TypedFilter(ItemFilter):
    """A filter with the parameters `dtype` and `astype`, the types of decoded and encoded items."""

    __slots__ = ()
    kinds: ClassVar[str] = "biufcmM"
    """The NumPy kinds that the types may have."""
    dtype: DTypeLike | None
    astype: DTypeLike | None

    def __post_init__(self) -> None:
        for name in ("dtype", "astype"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, number_type(name, value, self.kinds).str)
        if self.astype is None:
            object.__setattr__(self, "astype", self.dtype)

    def types(self, dtype: np.dtype[Any]) -> tuple[np.dtype[Any], np.dtype[Any]]:
        decoded = dtype if self.dtype is None else np.dtype(self.dtype)
        return decoded, decoded if self.astype is None else np.dtype(self.astype)

    def resolve(self, spec: ArraySpec, zarr_format: ZarrFormat) -> Self:
        decoded, encoded = self.types(spec.data_type.numpy)
        return replace(self, dtype=decoded, astype=encoded)  # type: ignore[type-var]


def as_array(data: Any) -> np.ndarray[Any, Any]:
    """Return an array unchanged, and the bytes of any other buffer as an array."""
    return data if isinstance(data, np.ndarray) else to_flat_array(data)


def view_items(array: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """View the bytes of an array in C order as items of another type."""
    return np.ascontiguousarray(array).reshape(-1).view(dtype)
