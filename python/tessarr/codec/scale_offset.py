"""The codec ``scale_offset``: ``(x - offset) * scale`` (zarr-extensions codecs/scale_offset).

The arithmetic is that of the array's data type. Results that the type cannot represent are an
error: an integer that would wrap around, or a quotient that is not an integer. Floating-point
numbers may become infinite.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tessarr.codec.base import ArrayArrayCodec, register_codec
from tessarr.codec.casting import integer_limits, is_real, to_builtin_type
from tessarr.codec.parameters import WrongParameter
from tessarr.errors import ArgumentError, DataError
from tessarr.format.validation import Problems, is_integer

if TYPE_CHECKING:
    from tessarr.codec.base import ArraySpec
    from tessarr.dtype import DataType

__all__ = ["ScaleOffset"]


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
