"""Filters of numcodecs, which encode items of one type, and their base classes.

In format 2 a filter ignores the data type of a chunk. It views the bytes of the chunk, in memory
order, as items of its parameter ``dtype``, and encodes them to items of its parameter ``astype``.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self

import numpy as np

from tessarr import dtype as dtypes
from tessarr.codec.base import ArrayArrayCodec, deliver, register_codec
from tessarr.codec.chain import to_flat_array
from tessarr.codec.parameters import WrongParameter, check_integer, check_number, number_type
from tessarr.errors import DataError

if TYPE_CHECKING:
    from tessarr.codec.base import ArraySpec
    from tessarr.format.validation import Problems
    from tessarr.types import DTypeLike, JSONObject, ZarrFormat

__all__ = [
    "AsType",
    "Delta",
    "FixedScaleOffset",
    "ItemFilter",
    "PackBitsV2",
    "Quantize",
    "TypedFilter",
    "as_array",
    "view_items",
]


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


@register_codec
@dataclass(frozen=True, slots=True)
class AsType(ItemFilter):
    """Items stored as another type, cast as NumPy casts. Nothing checks that they fit.

    Parameters
    ----------
    encode_dtype : dtype_like
        The type of encoded items.
    decode_dtype : dtype_like, optional
        The type of decoded items; by default the array's.

    Examples
    --------
    >>> import numpy as np
    >>> AsType("i1", "i2").encode(np.arange(100, 104, dtype="i2"))
    array([100, 101, 102, 103], dtype=int8)
    """

    name = "numcodecs.astype"
    codec_id = "astype"
    encode_dtype: DTypeLike
    decode_dtype: DTypeLike | None = None

    def __post_init__(self) -> None:
        for name in ("encode_dtype", "decode_dtype"):
            value = getattr(self, name)
            if value is not None or name == "encode_dtype":
                object.__setattr__(self, name, number_type(name, value).str)

    def types(self, dtype: np.dtype[Any]) -> tuple[np.dtype[Any], np.dtype[Any]]:
        decoded = dtype if self.decode_dtype is None else np.dtype(self.decode_dtype)
        return decoded, np.dtype(self.encode_dtype)

    def resolve(self, spec: ArraySpec, zarr_format: ZarrFormat) -> AsType:
        return replace(self, decode_dtype=self.types(spec.data_type.numpy)[0])


@register_codec
@dataclass(frozen=True, slots=True, repr=False)
class Delta(TypedFilter):
    """The first item, then the differences of consecutive items.

    Integers wrap around. Encoding does not check that differences fit `astype`.

    Parameters
    ----------
    dtype : dtype_like, optional
        The type of decoded items; by default the array's.
    astype : dtype_like, optional
        The type of encoded items; by default `dtype`.

    Examples
    --------
    >>> import numpy as np
    >>> Delta("i2", "i1").encode(np.arange(100, 120, 5, dtype="i2"))
    array([100,   5,   5,   5], dtype=int8)
    >>> Delta("i2").to_json(2)
    {'id': 'delta', 'dtype': '<i2', 'astype': '<i2'}
    """

    name = "numcodecs.delta"
    codec_id = "delta"
    dtype: DTypeLike | None = None
    astype: DTypeLike | None = None

    def stages(self, spec: ArraySpec) -> list[dict[str, object]] | None:
        decoded, encoded = self.types(spec.data_type.numpy)
        integers = decoded.kind in "iu" and encoded.kind in "iu"
        if integers or (decoded == encoded and decoded.str[1:] in ("f4", "f8")):
            return [{"name": "delta", "dtype": decoded.str, "astype": encoded.str}]
        return None

    def encode_items(self, items: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        encoded = np.empty(items.shape, dtype=self.types(items.dtype)[1])
        encoded[:1] = items[:1]
        encoded[1:] = np.diff(items)
        return encoded

    def decode_items(self, items: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        dtype = items.dtype if self.dtype is None else np.dtype(self.dtype)
        if dtype.kind == "b":  # the difference of booleans is inequality
            return np.logical_xor.accumulate(items)
        return np.cumsum(items, out=np.empty(items.shape, dtype=dtype))


@register_codec
@dataclass(frozen=True, slots=True, repr=False)
class FixedScaleOffset(TypedFilter):
    """Floating-point numbers as integers: ``round((x - offset) * scale)``. Loses precision.

    Encoding does not check that the integers fit `astype`.

    Parameters
    ----------
    offset, scale : int or float
        The subtrahend, and the factor.
    dtype : dtype_like, optional
        The type of decoded items; by default the array's.
    astype : dtype_like, optional
        The type of encoded items; by default `dtype`.

    Examples
    --------
    >>> import numpy as np
    >>> filter = FixedScaleOffset(offset=1000, scale=10, dtype="f8", astype="u1")
    >>> filter.encode(np.array([1000.0, 1000.11, 1001.0]))
    array([ 0,  1, 10], dtype=uint8)
    """

    name = "numcodecs.fixedscaleoffset"
    codec_id = "fixedscaleoffset"
    kinds = "biufc"
    offset: float
    scale: float
    dtype: DTypeLike | None = None
    astype: DTypeLike | None = None

    def __post_init__(self) -> None:
        check_number("offset", self.offset)
        check_number("scale", self.scale)
        if self.scale == 0:
            raise WrongParameter(
                "scale", self.scale, "a number that can be divided by", right_type=True
            )
        super(FixedScaleOffset, self).__post_init__()

    def get_config(self) -> JSONObject:
        names = ("scale", "offset", "dtype", "astype")
        return {"id": self.codec_id, **{name: getattr(self, name) for name in names}}

    # The operations have the order of numcodecs, because other orders round differently.
    def encode_items(self, items: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.around((items - self.offset) * self.scale)

    def decode_items(self, items: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return items / self.scale + self.offset


@register_codec
@dataclass(frozen=True, slots=True, repr=False)
class Quantize(TypedFilter):
    """Floating-point numbers with fewer bits, so that they compress better. Loses precision.

    Parameters
    ----------
    digits : int
        The number of decimal places to keep, -300 to 300.
    dtype : dtype_like, optional
        The type of decoded items, a floating-point one; by default the array's.
    astype : dtype_like, optional
        The type of encoded items; by default `dtype`.

    Examples
    --------
    >>> import numpy as np
    >>> Quantize(1, "f8").encode(np.array([0.0, 1 / 9, 2 / 9]))
    array([0.   , 0.125, 0.25 ])
    """

    name = "numcodecs.quantize"
    codec_id = "quantize"
    kinds = "f"
    digits: int
    dtype: DTypeLike | None = None
    astype: DTypeLike | None = None

    def __post_init__(self) -> None:
        check_integer("digits", self.digits, -300, 300)
        super(Quantize, self).__post_init__()

    def check(self, spec: ArraySpec, loc: str, problems: Problems) -> None:
        if self.types(spec.data_type.numpy)[0].kind != "f":
            message = f"{spec.data_type.name} is no type of floating-point numbers"
            problems.add(loc, message, "mismatch")
        super(Quantize, self).check(spec, loc, problems)

    def encode_items(self, items: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        # The smallest power of two that keeps as many digits as the power of ten.
        exponent = math.log10(10.0**-self.digits)
        exponent = math.floor(exponent) if exponent < 0 else math.ceil(exponent)
        scale = 2.0 ** math.ceil(math.log2(10.0**-exponent))
        return np.around(scale * items) / scale


@register_codec
@dataclass(frozen=True, slots=True)
class PackBitsV2(ArrayArrayCodec):
    """Booleans as bits: the number of unused bits, then bytes with the highest bit first.

    Format 3 has another codec ``packbits``: `PackBits`.

    Examples
    --------
    >>> import numpy as np
    >>> PackBitsV2().encode(np.array([True, False, False, True]))
    array([  4, 144], dtype=uint8)
    """

    name = "numcodecs.packbits"
    codec_id = "packbits"

    def check(self, spec: ArraySpec, loc: str, problems: Problems) -> None:
        if spec.data_type.item_bytes != 1:
            message = f"{spec.data_type.name} is not bool, of which bits are made"
            problems.add(loc, message, "mismatch")

    def encoded(self, spec: ArraySpec) -> ArraySpec:
        shape = (1 + -(-spec.size_bytes // 8),)
        return replace(spec, shape=shape, data_type=dtypes.to_data_type(np.uint8), fill=None)

    def encode(self, array: np.ndarray[Any, Any], /) -> np.ndarray[Any, Any]:
        """Encode an array of booleans, or a buffer of bytes that are 0 or 1."""
        bits = view_items(as_array(array), np.dtype(bool))
        unused = np.array([-bits.size % 8], dtype=np.uint8)
        return np.concatenate([unused, np.packbits(bits)])

    def decode(
        self, array: np.ndarray[Any, Any], spec: ArraySpec | None = None, /, out: Any = None
    ) -> np.ndarray[Any, Any]:
        """Decode to an array of `spec`, or a buffer to booleans, which `out` receives if given."""
        data = view_items(as_array(array), np.dtype(np.uint8))
        count = 8 * (data.size - 1) - int(data[0]) if data.size else -1
        expected = count if spec is None else spec.size_bytes
        if count != expected or not 0 <= count <= 8 * data.size or data[0] > 7:
            message = f"it does not begin with the unused bits of {expected} booleans"
            raise DataError(message, codec=self.codec_id)
        bits = np.unpackbits(data[1:], count=count).view(bool)
        if spec is None:
            return np.asarray(deliver(bits, out))
        return bits.view(spec.data_type.numpy).reshape(spec.shape)
