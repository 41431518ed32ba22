"""Codecs of real numbers: ``cast_value`` and ``scale_offset`` of zarr-extensions.

The arithmetic of ``scale_offset`` is that of the array's data type. Results that the type cannot
represent are an error: an integer that would wrap around, or a quotient that is not an integer.
Floating-point numbers may become infinite.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from tessarr import dtype as dtypes
from tessarr.codec.base import ArrayArrayCodec, register_codec
from tessarr.codec.casting import (
    OUT_OF_RANGE,
    ROUNDINGS,
    UnrepresentableError,
    cast,
    integer_limits,
    is_real,
    to_builtin_type,
)
from tessarr.codec.parameters import WrongParameter, check_choice
from tessarr.dtype import DataType
from tessarr.errors import ArgumentError, DataError
from tessarr.format.validation import ABSENT, Problems, is_integer, pointer

if TYPE_CHECKING:
    from tessarr.codec.base import ArraySpec
    from tessarr.format.validation import Members
    from tessarr.types import DTypeLike

__all__ = ["CastValue", "ScaleOffset"]


_DIRECTIONS: Final = ("encode", "decode")

Rounding = Literal[
    "nearest-even", "towards-zero", "towards-positive", "towards-negative", "nearest-away"
]
Scalar = int | float | str
Pairs = tuple[tuple[Scalar, Scalar], ...]


@register_codec
@dataclass(frozen=True, slots=True)
class CastValue(ArrayArrayCodec):
    """Real numbers stored as another data type.

    Parameters
    ----------
    data_type : DataType or dtype_like
        The type of the stored numbers.
    rounding : str
        "nearest-even", "towards-zero", "towards-positive", "towards-negative", "nearest-away".
    out_of_range : {"clamp", "wrap"}, optional
        The treatment of numbers beyond the range of `data_type`; by default they are an error.
    scalar_map : mapping, optional
        ``{"encode": [[from, to], ...], "decode": [[from, to], ...]}``: numbers that the codec
        replaces rather than casts, in the JSON form of fill values of format 3.

    Examples
    --------
    >>> import numpy as np
    >>> nan = {"encode": [["NaN", 0]], "decode": [[0, "NaN"]]}
    >>> CastValue("uint8", scalar_map=nan).encode(np.array([1.0, np.nan, 254.6]))
    array([  1,   0, 255], dtype=uint8)
    """

    name = "cast_value"
    codec_id = None
    data_type: DataType | DTypeLike
    rounding: Rounding = "nearest-even"
    out_of_range: Literal["clamp", "wrap"] | None = None
    scalar_map: Mapping[str, Any] | tuple[tuple[str, Pairs], ...] | None = None

    def __post_init__(self) -> None:
        target = self.target
        object.__setattr__(self, "data_type", target)
        if not is_real(target):
            expected = "a type of real numbers that can be cast"
            raise WrongParameter("data_type", target.name, expected, right_type=True)
        check_choice("rounding", self.rounding, ROUNDINGS)
        check_choice("out_of_range", self.out_of_range, (*OUT_OF_RANGE, None))
        if self.out_of_range == "wrap" and integer_limits(target) is None:
            expected = "possible for floating-point numbers"
            raise WrongParameter("out_of_range", "wrap", expected, right_type=True)
        object.__setattr__(self, "scalar_map", _normalize_scalar_map(self.scalar_map))

    @classmethod
    def read(cls, members: Members, zarr_format: Any) -> CastValue | None:
        problems, before = members.problems, len(members.problems)
        value, item_loc = members.require("data_type"), members.at("data_type")
        target = None if value is ABSENT else dtypes.from_json(value, 3, item_loc, problems)
        rounding: Any = members.choice("rounding", ROUNDINGS, "nearest-even")
        outside: Any = members.choice("out_of_range", OUT_OF_RANGE, None)
        scalars = members.get("scalar_map", None)
        members.done()
        if target is None or len(problems) > before:
            return None
        try:
            return cls(target, rounding, outside, scalars)
        except WrongParameter as error:
            problems.add(members.at(error.parameter), error.problem, error.problem_kind)
            return None

    @property
    def target(self) -> DataType:
        """The data type of the stored numbers."""
        if isinstance(self.data_type, DataType):
            return self.data_type
        return dtypes.to_data_type(self.data_type).ordered("native")

    def configuration(self) -> dict[str, Any]:
        config: dict[str, Any] = {"data_type": self.target.to_json(3), "rounding": self.rounding}
        if self.out_of_range is not None:
            config["out_of_range"] = self.out_of_range
        if self.scalar_map is not None:
            pairs = dict(self.scalar_map)
            config["scalar_map"] = {
                name: [list(pair) for pair in pairs[name]] for name in _DIRECTIONS if name in pairs
            }
        return config

    def get_config(self) -> dict[str, Any]:
        return {"id": self.name, **self.configuration()}

    def check(self, spec: ArraySpec, loc: str, problems: Problems) -> None:
        if not is_real(spec.data_type):
            problems.add(loc, f"{spec.data_type.name} is no type of real numbers", "mismatch")
            return
        before = len(problems)
        for name in _DIRECTIONS:
            self._pairs(name, spec.data_type, f"{loc}/scalar_map/{name}", problems)
        if spec.fill is None or len(problems) > before:
            return
        fill = np.frombuffer(spec.fill, spec.data_type.numpy)
        try:
            back = self.decode(self.encode(fill), replace(spec, shape=(1,)))
        except (ArgumentError, DataError) as error:
            problems.add(loc, f"the fill value cannot be cast: {error}", "mismatch")
            return
        same = (fill == back) | ((fill != fill) & (back != back))  # noqa: PLR0124 - NaN
        if not same.all():
            message = f"the fill value {fill[0]} comes back as {back[0]}"
            problems.add(loc, message, "mismatch")

    def encoded(self, spec: ArraySpec) -> ArraySpec:
        fill = spec.fill
        if fill is not None:
            fill = self.encode(np.frombuffer(fill, spec.data_type.numpy)).tobytes()
        return replace(spec, data_type=self.target, fill=fill)

    def encode(self, array: np.ndarray[Any, Any], /) -> np.ndarray[Any, Any]:
        pairs = self._pairs("encode", dtypes.to_data_type(array.dtype), "", Problems())
        try:
            return self._cast(array, self.target.numpy, pairs)
        except UnrepresentableError as error:
            raise ArgumentError(str(error), codec=self.name) from error

    def decode(self, array: np.ndarray[Any, Any], spec: ArraySpec, /) -> np.ndarray[Any, Any]:
        pairs = self._pairs("decode", spec.data_type, "", Problems())
        try:
            return self._cast(array, spec.data_type.numpy, pairs)
        except UnrepresentableError as error:
            raise DataError(str(error), codec=self.name) from error

    def _cast(
        self, array: np.ndarray[Any, Any], target: np.dtype[Any], pairs: list[tuple[Any, Any]]
    ) -> np.ndarray[Any, Any]:
        outside = self.out_of_range
        if outside == "wrap" and "float" in target.name:
            outside = None  # only integers wrap around; floats cannot be out of range here
        if not pairs:
            return cast(array, target, self.rounding, outside)
        result, rest = np.empty(array.shape, target), np.ones(array.shape, bool)
        for key, value in pairs:  # the first of equal keys counts
            selected = rest & (array != array if key != key else array == key)  # noqa: PLR0124
            result[selected] = value
            rest &= ~selected
        result[rest] = cast(array[rest], target, self.rounding, outside)
        return result

    def _pairs(
        self, name: str, array_type: DataType, loc: str, problems: Problems
    ) -> list[tuple[Any, Any]]:
        """Return one direction of `scalar_map` as numbers of the two data types."""
        types = (array_type, self.target) if name == "encode" else (self.target, array_type)
        pairs = dict(self.scalar_map or ()).get(name, ())
        numbers = []
        for position, pair in enumerate(pairs):
            both = []
            for side, (value, data_type) in enumerate(zip(pair, types, strict=True)):
                item_loc = pointer(pointer(loc, position), side)
                fill = data_type.fill_from_json(_normalize_scalar(value), 3, item_loc, problems)
                both.append(None if fill is None else data_type.scalar(fill))
            if None not in both:
                numbers.append((both[0], both[1]))
        return numbers


def _normalize_scalar(value: Scalar) -> Scalar:
    # The example of the specification has a sign, which fill values lack.
    return "Infinity" if value == "+Infinity" else value


def _normalize_scalar_map(value: Any) -> tuple[tuple[str, Pairs], ...] | None:
    if value is None:
        return None
    members = dict(value) if isinstance(value, Mapping | tuple) else None
    if members is None or not members.keys() <= set(_DIRECTIONS):
        raise WrongParameter(
            "scalar_map", value, "an object of 'encode' and 'decode'", right_type=False
        )
    for name, pairs in members.items():
        good = isinstance(pairs, Sequence) and not isinstance(pairs, str)
        if not good or not all(map(_is_pair, pairs)):
            expected = f"an object whose {name!r} is a list of pairs of numbers"
            raise WrongParameter("scalar_map", value, expected, right_type=False)
    return tuple(
        (name, tuple((pair[0], pair[1]) for pair in members[name]))
        for name in _DIRECTIONS
        if name in members
    )


def _is_pair(value: object) -> bool:
    if not isinstance(value, list | tuple) or len(value) != 2:
        return False
    return all(isinstance(item, int | float | str) and item is not True for item in value)


@register_codec
@dataclass(frozen=True, slots=True)
class ScaleOffset(ArrayArrayCodec):
    """Numbers less an offset, times a scale.

    Parameters
    ----------
    offset, scale : int, float or str, optional
        Numbers in the JSON form of fill values of the array's data type; by default 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> ScaleOffset(offset=1000, scale=2).encode(np.array([1000, 1001], dtype="u2"))
    array([0, 2], dtype=uint16)
    >>> ScaleOffset(offset=1000).to_json(3)
    {'name': 'scale_offset', 'configuration': {'offset': 1000}}
    """

    name = "scale_offset"
    codec_id = None
    offset: float | str | None = None
    scale: float | str | None = None

    def __post_init__(self) -> None:
        for name in ("offset", "scale"):
            value = getattr(self, name)
            if value is not None and not (is_integer(value) or isinstance(value, float | str)):
                raise WrongParameter(name, value, "a number", right_type=False)

    def configuration(self) -> dict[str, Any]:
        parameters = {"offset": self.offset, "scale": self.scale}
        return {name: value for name, value in parameters.items() if value is not None}

    def get_config(self) -> dict[str, Any]:
        return {"id": self.name, **self.configuration()}

    def check(self, spec: ArraySpec, loc: str, problems: Problems) -> None:
        if not is_real(spec.data_type):
            problems.add(loc, f"{spec.data_type.name} is no type of real numbers", "mismatch")
            return
        before = len(problems)
        for name in ("offset", "scale"):
            value = getattr(self, name)
            if value is not None:
                spec.data_type.fill_from_json(value, 3, f"{loc}/{name}", problems)
        if len(problems) > before:
            return
        if self._number("scale", spec.data_type) == 0:
            problems.add(f"{loc}/scale", "0 is not a number that can be divided by")
            return
        if spec.fill is not None:
            try:
                self._encode_fill(spec)
            except (ArgumentError, DataError) as error:
                problems.add(loc, f"the fill value: {error}", "mismatch")

    def encoded(self, spec: ArraySpec) -> ArraySpec:
        return spec if spec.fill is None else replace(spec, fill=self._encode_fill(spec))

    def encode(self, array: np.ndarray[Any, Any], /) -> np.ndarray[Any, Any]:
        from tessarr import dtype as dtypes

        data_type = dtypes.to_data_type(array.dtype)
        offset, scale = self._number("offset", data_type), self._number("scale", data_type)
        limits = integer_limits(data_type)
        if limits is None:
            with np.errstate(all="ignore"):
                result: np.ndarray[Any, Any] = (array - offset) * scale
                return result.astype(array.dtype, copy=False)
        if array.size:
            numbers = to_builtin_type(array)
            # Both steps are monotonic, so all elements fit if the extremes do.
            for extreme in (int(numbers.min()), int(numbers.max())):
                for number in (extreme - offset, (extreme - offset) * scale):
                    if not limits[0] <= number <= limits[1]:
                        message = f"{number}, of {extreme}, does not fit {data_type.name}"
                        raise ArgumentError(message, codec=self.name)
        result = _apply_modulo(
            _apply_modulo(to_builtin_type(array), np.subtract, offset), np.multiply, scale
        )
        return result.astype(array.dtype, copy=False)

    def decode(self, array: np.ndarray[Any, Any], spec: ArraySpec, /) -> np.ndarray[Any, Any]:
        data_type = spec.data_type
        offset, scale = self._number("offset", data_type), self._number("scale", data_type)
        limits = integer_limits(data_type)
        if limits is None:
            with np.errstate(all="ignore"):
                result: np.ndarray[Any, Any] = array / scale + offset
                return result.astype(array.dtype, copy=False)
        if array.size == 0:
            return array
        stored = to_builtin_type(array)
        with np.errstate(all="ignore"):
            whole = stored // stored.dtype.type(scale)
        if (_apply_modulo(whole, np.multiply, scale) != stored).any():
            message = f"an element is no multiple of the scale, {scale}"
            raise DataError(message, codec=self.name)
        for extreme in (int(stored.min()), int(stored.max())):
            number = extreme // scale + offset
            if not limits[0] <= number <= limits[1]:
                message = f"{number}, of {extreme}, does not fit {data_type.name}"
                raise DataError(message, codec=self.name)
        return _apply_modulo(whole, np.add, offset).astype(spec.data_type.numpy, copy=False)

    def _number(self, name: str, data_type: DataType) -> Any:
        """Return a parameter as a number of the data type; for integer types as a Python int."""
        value = getattr(self, name)
        if value is None:
            value = 0 if name == "offset" else 1
        if isinstance(value, str):
            fill = data_type.fill_from_json(value, 3, name, Problems())
            value = 0 if fill is None else data_type.scalar(fill)
        if integer_limits(data_type) is not None:
            return int(value)
        return data_type.numpy.type(value)

    def _encode_fill(self, spec: ArraySpec) -> bytes:
        """Return the encoding of the fill value."""
        assert spec.fill is not None
        return self.encode(np.frombuffer(spec.fill, spec.data_type.numpy)).tobytes()


def _apply_modulo(
    array: np.ndarray[Any, Any], ufunc: np.ufunc, number: int
) -> np.ndarray[Any, Any]:
    """Return the result of an operation modulo the range of the integer type."""
    bits = 8 * array.dtype.itemsize
    operand = np.array(number % (1 << bits), dtype=f"u{array.dtype.itemsize}")
    result: np.ndarray[Any, Any] = ufunc(array.view(operand.dtype), operand)
    return result.view(array.dtype)
