"""Conversion of elements between data types.

Numbers convert as in C, which truncates fractions and drops excess bits. Numbers as text have six
digits, as ``%g`` writes them. JSON converts only without loss.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from tessarr import _engine
from tessarr._safe_repr import safe_repr
from tessarr.errors import DataError
from tessarr.tensorstore.schema.data_type import json_value

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from tessarr.tensorstore.schema.data_type import dtype as DataType  # noqa: N812

__all__ = ["Conversion", "find_conversion"]


class Conversion(Protocol):
    """Returns an array of another data type, or stores the elements in an existing array."""

    def __call__(
        self, values: npt.NDArray[Any], out: npt.NDArray[Any] | None = None
    ) -> npt.NDArray[Any]:
        """Return `out`, or a new array."""
        ...


_CONVERTIBLE: Final = {
    "bool": {"bool", "int", "float", "complex", "json"},
    "int": {"bool", "int", "float", "complex", "text", "json"},
    "float": {"bool", "int", "float", "complex", "text", "json"},
    "complex": {"int", "float", "complex", "text", "json"},
    "text": {"text", "json"},
    "json": {"bool", "int", "float", "text", "json"},
    "byte": {"byte"},
    "time": set[str](),
}


@cache
def find_conversion(source: DataType, target: DataType) -> Conversion | None:
    """Return the conversion to another data type, or None.

    Equal data types convert without a copy.

    Examples
    --------
    >>> from tessarr.tensorstore.schema.data_type import float32, int8, ustring
    >>> find_conversion(float32, int8)(np.float32([1.5, -2.7])).tolist()
    [1, -2]
    >>> find_conversion(ustring, int8) is None
    True
    """
    if source == target:
        return _copy_unchanged
    source_kind, target_kind = _element_kind(source), _element_kind(target)
    if target_kind not in _CONVERTIBLE[source_kind]:
        return None
    if source_kind == "byte":
        return lambda values, out=None: _store_into(values.copy().view(target.dtype), out)
    if "json" in (source_kind, target_kind) or "text" in (source_kind, target_kind):
        convert = _element_conversion(source.name, source_kind, target)
        return lambda values, out=None: _store_into(
            _convert_each(values, convert, target.dtype), out
        )
    return lambda values, out=None: _convert_numbers(values, target, out)


def _copy_unchanged(
    values: npt.NDArray[Any], out: npt.NDArray[Any] | None = None
) -> npt.NDArray[Any]:
    return _store_into(values, out)


def _store_into(values: npt.NDArray[Any], out: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
    if out is None:
        return values
    np.copyto(out, values, casting="unsafe")
    return out


def _element_kind(data_type: DataType) -> str:
    name = data_type.name
    if name in ("string", "ustring"):
        return "text"
    if name in ("bool", "json"):
        return name
    if name in ("byte", "char"):
        return "byte"
    for kind, starts in (("int", ("int", "uint")), ("float", ("float", "bfloat"))):
        if name.startswith(starts):
            return kind
    return "complex" if name.startswith("complex") else "time"


def _convert_numbers(
    values: npt.NDArray[Any], target: DataType, out: npt.NDArray[Any] | None
) -> npt.NDArray[Any]:
    if out is None:
        out = _engine.empty(values.shape, target.dtype)
    _engine.convert(values, out, _engine_type(values.dtype), _engine_type(out.dtype))
    return out


@cache
def _engine_type(kind: np.dtype[Any]) -> str | _engine.ByteFloats:
    """Return the engine's name, or table, of a numeric type."""
    if kind.isbuiltin == 1:
        return f"{kind.kind}{kind.itemsize}"
    if kind.itemsize > 1 or "int" in kind.name:
        return kind.name
    bits = np.arange(1 << 8, dtype="u1")
    with np.errstate(all="ignore"):
        numbers = bits.view(kind).astype("f4")
        nearest = (np.arange(1 << 16, dtype="u4") << 16).view("f4").astype(kind)
    return _engine.ByteFloats(numbers.tolist(), nearest.tobytes())


def _convert_each(
    values: npt.NDArray[Any], convert: Callable[[Any], Any], data_type: np.dtype[Any]
) -> npt.NDArray[Any]:
    result = _engine.empty(values.shape, data_type)
    flat = result.reshape(-1)
    items = values.reshape(-1)
    for k, value in enumerate(items.tolist() if items.dtype.isbuiltin == 1 else items):
        flat[k] = convert(value)
    return result


def _element_conversion(name: str, kind: str, target: DataType) -> Callable[[Any], Any]:
    """Return the conversion of one element from or to text or JSON."""
    goal = _element_kind(target)
    if kind == "json":
        convert = _converter_from_json(target, goal)
        return lambda value: convert(json_value(value))
    if kind == "text":
        as_text: Callable[[Any], str] = _decode_text if name == "string" else str
        if target.name == "string":
            return lambda value: as_text(value).encode()
        return as_text
    if goal == "json":
        return _converter_to_json(kind)
    text = _complex_text if kind == "complex" else str if kind == "int" else _float_text
    if target.name == "string":
        return lambda value: text(value).encode()
    return text


def _decode_text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise DataError(f"{safe_repr(value)} is not UTF-8") from None


def _float_text(value: Any) -> str:
    return f"{float(value):g}"


def _complex_text(value: complex) -> str:
    return f"({value.real:g},{value.imag:g})"


def _converter_to_json(kind: str) -> Callable[[Any], Any]:
    if kind == "complex":
        return lambda value: [float(value.real), float(value.imag)]
    return {"bool": bool, "int": int, "float": float}[kind]


def _converter_from_json(target: DataType, goal: str) -> Callable[[Any], Any]:
    if goal == "text":
        return _converter_to_text(target.name)
    if goal == "bool":
        return _bool_from_json
    if goal == "float":
        return lambda value: target.type(_float_from_json(value))
    limits = _integer_limits(target)
    return lambda value: target.type(_integer_from_json(value, limits))


def _converter_to_text(name: str) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        if not isinstance(value, str):
            raise DataError(f"expected a text, not {safe_repr(value)}", kind="cannot_cast")
        return value.encode() if name == "string" else value

    return convert


def _bool_from_json(value: Any) -> bool:
    if value in ("true", "false"):
        return bool(value == "true")
    if not isinstance(value, bool):
        raise DataError(f"expected true or false, not {safe_repr(value)}", kind="cannot_cast")
    return value


def _float_from_json(value: Any) -> float:
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            pass
    elif isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            pass
    raise DataError(f"expected a number, not {safe_repr(value)}", kind="cannot_cast")


def _integer_limits(target: DataType) -> tuple[int, int]:
    bits = int(target.name.removeprefix("u").removeprefix("int"))
    if target.name.startswith("u"):
        return 0, 2**bits - 1
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def _integer_from_json(value: Any, limits: tuple[int, int]) -> int:
    number: int | None = None
    if isinstance(value, str):
        try:
            number = int(value)
        except ValueError:
            number = None
    elif isinstance(value, float):
        number = int(value) if value.is_integer() else None
    elif isinstance(value, int) and not isinstance(value, bool):
        number = value
    if number is None or not limits[0] <= number <= limits[1]:
        raise DataError(
            f"expected an integer from {limits[0]} to {limits[1]}, not {safe_repr(value)}",
            kind="cannot_cast",
        )
    return number
