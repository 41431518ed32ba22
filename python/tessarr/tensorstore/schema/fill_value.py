"""Fill values of schemas: arrays that broadcast to the domain."""

from __future__ import annotations

from math import isfinite, isnan, prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tessarr import dtype as data_types
from tessarr._safe_repr import safe_repr
from tessarr.errors import ArgumentError, TooLargeError
from tessarr.format.validation import Problems
from tessarr.metadata.build import encode_fill_value
from tessarr.tensorstore.json.parse import check_integers, normalize_json
from tessarr.tensorstore.schema.data_type import dtype as DataType  # noqa: N812
from tessarr.tensorstore.schema.data_type import json_value
from tessarr.tensorstore.schema.element_type import WHOLE, Field, element_of, is_raw
from tessarr.tensorstore.schema.propagate import drop_broadcast

__all__ = [
    "decode_fill",
    "encode_fill",
    "encode_record_fill",
    "fill_from_json",
    "fill_to_json",
    "freeze",
    "is_same_fill",
    "read_fill",
]

_MAX_RANK: Final = 32
_LONGEST: Final = 400
_ROOMY: Final = 4  # floats of this size can represent the range of all NumPy integers
_TEXT: Final = {"string": bytes, "ustring": str}


def fill_from_json(value: Any, dtype: DataType | None) -> npt.NDArray[Any]:
    """Return a fill value from JSON: an element, or nested lists of elements.

    Parameters
    ----------
    value : JSON
        The JSON of the fill value.
    dtype
        The data type; with None, elements remain JSON values.

    Raises
    ------
    ArgumentError
        If an element does not fit the data type, or lists of one level differ in length.
    """
    value = json_value(value)
    pairs = dtype is not None and dtype.name in {"complex64", "complex128"}
    shape = _shape(value, pairs=pairs)
    elements = _flat(value, shape)
    if dtype is None or _is_python_object(dtype):
        result = np.empty(prod(shape), object)
        for k, element in enumerate(elements):
            name = None if dtype is None else dtype.name
            if name in {"byte", "char"}:
                raise ArgumentError(f"fill_value: JSON has nothing for elements of {name}")
            if name in {"string", "ustring"} and not isinstance(element, str):
                raise ArgumentError(f"fill_value: {safe_repr(element)} is not a string")
            result[k] = element.encode("utf-8", "surrogatepass") if name == "string" else element
        return drop_broadcast(result.reshape(shape))
    stored = data_types.to_data_type(dtype.numpy_dtype)
    data = b"".join(_element(stored, element) for element in elements)
    return drop_broadcast(
        np.frombuffer(data, stored.numpy).astype(dtype.numpy_dtype).reshape(shape)
    )


def _is_python_object(dtype: DataType) -> bool:
    """Return whether elements remain unconverted: Python objects and bytes."""
    return dtype.numpy_dtype.hasobject or dtype.name in {"byte", "char"}


def _shape(value: Any, *, pairs: bool) -> tuple[int, ...]:
    lengths = []
    while isinstance(value, (list, tuple)):
        if pairs and len(value) == 2 and not isinstance(value[0], (list, tuple)):
            break
        lengths.append(len(value))
        if not value:
            break
        value = value[0]
    if len(lengths) > _MAX_RANK:
        raise ArgumentError(f"fill_value: more than {_MAX_RANK} dimensions")
    return tuple(lengths)


def _flat(value: Any, shape: tuple[int, ...]) -> list[Any]:
    level = [value]
    for length in shape:
        if not all(isinstance(item, (list, tuple)) and len(item) == length for item in level):
            raise ArgumentError("fill_value: lists of one level differ in length")
        level = [item for items in level for item in items]
    return level


def _element(stored: data_types.DataType, value: Any) -> bytes:
    kind = stored.numpy.kind
    if kind == "b" and not isinstance(value, bool):
        raise ArgumentError(f"fill_value: {safe_repr(value)} is not true or false")
    if kind in "iu" and isinstance(value, float) and value.is_integer():
        value = int(value)
    if kind != "b" and isinstance(value, str):
        value = _number(value, stored.numpy)
    if isinstance(value, float) and not isfinite(value):
        value = "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
    problems = Problems(strict=True)  # a schema is not a stored document
    fill = stored.fill_from_json(value, 3, "fill_value", problems)
    if fill is None or problems.found:
        raise ArgumentError(problems.join_messages("; "))
    return fill


def _number(text: str, target: np.dtype[Any]) -> Any:
    """Parse a number; return the text unchanged if it is not a number."""
    text = text.strip()
    whole = target.kind in "iu" or np.can_cast(target, np.int64, "same_kind")
    try:
        if "_" in text or len(text) > _LONGEST:
            return text
        if whole:
            return int(text)
        return float.fromhex(text) if "0x" in text.lower() else float(text)
    except (ValueError, OverflowError):
        return text


def read_fill(value: Any, dtype: DataType | None) -> npt.NDArray[Any]:
    """Return a read-only copy of a user's fill value.

    Raises
    ------
    ArgumentError
        If the value does not fit the data type, or if NumPy cannot represent it.
    TypeError
        If the value has another type, or is an array that cannot be cast safely.
    """
    try:
        array = np.asarray(value)
        if dtype is None:
            return freeze(drop_broadcast(_open_fill(array)))
        target = dtype.numpy_dtype
        if dtype.name in {"byte", "char"}:
            result = array
        elif isinstance(value, np.ndarray):
            result = value.astype(target, casting="safe")
        elif array.dtype.kind in "biu" and target.itemsize >= _ROOMY:
            result = np.array(value, target)  # this conversion raises no warnings
        else:
            with np.errstate(all="ignore"):
                result = np.array(value, target)
    except Exception as error:  # methods of the value can raise any exception
        raise _refusal(value, error) from error
    _check_objects(result, dtype.name)
    if array.dtype.kind in "biufc":
        _check_exact(array, result, dtype)
    if result.ndim or result is array:
        return freeze(drop_broadcast(result))
    result.setflags(write=False)
    return result


def _refusal(value: Any, error: Exception) -> Exception:
    """Return the error for a value that NumPy cannot convert to the data type."""
    message = f"fill_value: {safe_repr(value)} does not fit: {error}"
    if isinstance(error, TypeError):
        return TypeError(message)
    new = TooLargeError if isinstance(error, OverflowError) else ArgumentError
    return new(message, kind="cannot_cast")


def _open_fill(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a fill value for a schema without a data type."""
    if array.dtype.kind in "UTmM":
        raise ArgumentError(f"fill_value: no data type corresponds to {array.dtype}: pass dtype")
    if array.dtype == object:
        check_integers(normalize_json(array.tolist(), "fill_value"))
    return array.astype(object) if array.dtype.kind in "SV" else array


def _check_objects(converted: npt.NDArray[Any], name: str) -> None:
    """Raise an error if Python objects do not match the data type `name`."""
    if name == "json":
        check_integers(normalize_json(converted.tolist(), "fill_value"))
    elif name in _TEXT:
        for item in converted.flat:
            if not isinstance(item, _TEXT[name]):
                raise TypeError(
                    f"fill_value: {safe_repr(item)} is none of the data type {safe_repr(name)}"
                )


def _convert_fill(fill: npt.NDArray[Any], dtype: DataType) -> npt.NDArray[Any]:
    """Convert a fill value to a data type.

    Raises
    ------
    ArgumentError
        If the data type cannot represent the value.
    """
    if fill.dtype == dtype.numpy_dtype:
        return fill
    try:
        with np.errstate(all="ignore"):
            result = fill.astype(dtype.numpy_dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise ArgumentError(f"fill_value: {error}", kind="cannot_cast") from error
    _check_exact(fill, result, dtype)
    return result


def _check_exact(array: npt.NDArray[Any], converted: npt.NDArray[Any], dtype: DataType) -> None:
    """Raise an error if a conversion changed more than the precision of a value."""
    exact = array.dtype.kind not in "fc" or converted.dtype.kind in "biuSU"
    # Python compares numbers of different types exactly, without a conversion.
    if exact and converted.tolist() != array.tolist():
        whole = array.dtype.kind in "iu" and converted.dtype.kind in "iu"
        what = f"fill_value: {safe_repr(array)} does not fit the data type {dtype.name!r}"
        raise (TooLargeError if whole else ArgumentError)(what, kind="cannot_cast")


def freeze(fill: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a read-only copy, because schemas share fill values."""
    copy = np.array(fill)
    copy.setflags(write=False)
    return copy


def fill_to_json(fill: npt.NDArray[Any]) -> Any:
    """Return the fill value as JSON."""
    if fill.dtype == object or fill.dtype.kind in "SVUmM":
        plain = np.frompyfunc(_plain, 1, 1)(fill)
        return plain.tolist() if isinstance(plain, np.ndarray) else plain
    if fill.dtype.kind == "c":
        pairs = np.stack([np.real(fill), np.imag(fill)], axis=-1)
        return pairs.tolist()
    if fill.dtype.kind in "biuf":
        return fill.tolist()
    whole = fill.dtype.name.startswith(("int", "uint"))  # types of 2 or 4 bits
    return fill.astype(np.int64 if whole else np.float64).tolist()


def _plain(value: Any) -> Any:
    if isinstance(value, np.void):
        value = value.tobytes()
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return value.item() if isinstance(value, np.generic) else value


def encode_fill(fill: npt.NDArray[Any] | None, stored: data_types.DataType) -> bytes:
    """Encode the fill value of a schema as the bytes of one element.

    Raises
    ------
    ArgumentError
        If the fill value is not a single value, or does not fit the data type.
    """
    if fill is None or fill.size != 1:
        raise ArgumentError(f"fill_value: {fill} is not a single value")
    if fill.dtype == object and stored.elements is None:
        value = fill.item()
        if not (isinstance(value, bytes) and stored.numpy.kind in "SV"):
            return _element(stored, value)
        fill = np.asarray(value, stored.numpy.kind)
    if fill.dtype == stored.numpy and fill.dtype.kind in "biufc":
        return fill.tobytes()
    if fill.dtype != stored.numpy:
        fill = _convert_fill(fill, element_of(stored, WHOLE).dtype)
    try:
        return encode_fill_value(stored, fill.reshape(-1)[0])
    except (ValueError, TypeError, OverflowError) as error:
        raise ArgumentError(f"fill_value: {error}", kind="cannot_cast") from error


def encode_record_fill(fill: npt.NDArray[Any], stored: data_types.DataType) -> bytes:
    """Encode a schema's fill value as a struct with one field.

    Raises
    ------
    ArgumentError
        If the struct has several fields, or the value does not fit the field.
    """
    names = stored.numpy.names or ()
    if len(names) != 1:
        raise ArgumentError("fill_value: give that of a struct with several fields in metadata")
    record = np.zeros((), stored.numpy)
    field = stored.numpy[names[0]].base
    if fill.dtype == object and field.kind in "biufc":  # NumPy would convert JSON text to true
        one = data_types.to_data_type(field)
        data = b"".join(_element(one, value) for value in fill.flat)
        fill = np.frombuffer(data, field).reshape(fill.shape)
    try:
        record[names[0]] = fill
    except (ValueError, TypeError, OverflowError) as error:
        raise ArgumentError(f"fill_value: {error}", kind="cannot_cast") from error
    return record.tobytes()


def decode_fill(stored: data_types.DataType, fill: bytes, of: Field) -> npt.NDArray[Any]:
    """Convert the encoded fill value of a stored array to the fill value of a schema."""
    if stored.elements is not None:
        result = np.empty((), object)
        result[()] = stored.scalar(fill)
        return result
    if of.as_void or is_raw(stored):
        return np.frombuffer(fill, "V1")
    one = np.frombuffer(fill, stored.numpy)
    if stored.numpy.names:
        one = one[of.name or stored.numpy.names[0]]
    element = element_of(stored, of)
    if element.dtype.name in {"byte", "char"}:
        return np.ascontiguousarray(one).view(element.dtype.dtype).reshape(element.inner)
    return one.astype(element.dtype.numpy_dtype).reshape(element.inner)


def is_same_fill(old: npt.NDArray[Any], new: npt.NDArray[Any]) -> bool:
    """Return whether two fill values are equal, even if their data types differ."""
    if old.shape != new.shape:
        return False
    if old.dtype == new.dtype and old.dtype != object:
        return old.tobytes() == new.tobytes()
    return bool(fill_to_json(old) == fill_to_json(new))
