"""Optional elements: ``zarrs.optional`` of format 3, which zarrs writes.

In NumPy they are records of ``value`` and ``valid``. All features of records apply, such as
``a["value"]``, ``a["valid"]`` and buffers that the engine fills. A missing value is zero.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Self

import numpy as np

from tessarr.dtype import names
from tessarr.dtype.base import DataType, register
from tessarr.dtype.numeric import Boolean
from tessarr.format.validation import describe, pointer

if TYPE_CHECKING:
    from tessarr.format.validation import Members, Problems
    from tessarr.types import JSON, ZarrFormat

__all__ = ["Optional"]

_BOOLEAN: Final = Boolean(np.dtype(np.bool_))


@register
@dataclass(frozen=True, slots=True)
class Optional(DataType):
    r"""Values that may be missing.

    Parameters
    ----------
    numpy : numpy.dtype
        The dtype of results.
    inner : DataType
        The type of values.

    Examples
    --------
    >>> maybe = Optional.of(names.to_data_type("uint8"))
    >>> maybe.numpy
    dtype([('value', 'u1'), ('valid', '?')])
    >>> maybe.cast_fill(7), maybe.cast_fill(None)
    (b'\x07\x01', b'\x00\x00')
    """

    v3_names = ("zarrs.optional",)
    has_missing = True
    serializer = "zarrs.optional"

    inner: DataType = _BOOLEAN

    @classmethod
    def of(cls, inner: DataType) -> Self:
        """Return the type of optional values of `inner`."""
        return cls(np.dtype([("value", inner.numpy), ("valid", np.bool_)]), inner)

    @property
    def name(self) -> str:
        return "zarrs.optional"

    @property
    def unit_bytes(self) -> int:
        return 1  # the codecs of the values have their own byte order

    @property
    def stray_bits(self) -> bool:
        return True

    def ordered(self, order: Literal["native", "little", "big"]) -> Self:
        return self.of(self.inner.ordered("native"))

    def canonical(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        records = np.zeros(array.shape, self.numpy)
        valid = array["valid"].view(np.uint8) != 0
        records["valid"] = valid
        records["value"][valid] = self.inner.canonical(array["value"][valid])
        return records

    def to_numpy_input(self, value: object) -> object:
        if type(value) in (list, tuple) and _holds_masks(value):
            value = np.ma.array(value)
        if isinstance(value, np.ma.MaskedArray):
            return self._to_records(value.filled(0), ~np.ma.getmaskarray(value))
        dtype = getattr(value, "dtype", None)
        if isinstance(dtype, np.dtype) and dtype.names is not None:
            return value
        if isinstance(value, np.ndarray) and value.dtype.kind != "O":
            return self._to_records(value, np.ones(value.shape, np.bool_))
        listed = np.asarray(value, dtype=object)
        valid = np.asarray(np.frompyfunc(_is_present, 1, 1)(listed), dtype=np.bool_)
        return self._to_records(np.where(valid, listed, 0), valid)

    def _to_records(self, values: Any, valid: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        records = np.zeros(valid.shape, self.numpy)
        records["valid"] = valid
        records["value"] = self.inner.to_numpy_input(values)
        return self.canonical(records)

    def refusal(self, zarr_format: ZarrFormat) -> str | None:
        return "format 2 has no such type" if zarr_format == 2 else self.inner.refusal(3)

    @classmethod
    def from_v3(cls, name: str, configuration: Members) -> Self | None:
        problems, loc = configuration.problems, configuration.loc
        inner = names.from_json(dict(configuration.value), 3, loc, problems)
        if inner is None:
            return None
        if inner.elements is not None:
            kind = "unsupported_data_type"
            hint = " as one that may be missing"
            problems.unsupported(loc, "data type", inner.name, kind=kind, hint=hint)
            return None
        return cls.of(inner)

    def to_json(self, zarr_format: ZarrFormat) -> JSON:
        inner_json = self.inner.to_json(3)
        inner: Any = {"name": inner_json} if isinstance(inner_json, str) else inner_json
        return {"name": self.name, "configuration": {**inner, "configuration": {}} | inner}

    def fill_from_json(
        self, value: Any, zarr_format: ZarrFormat, loc: str, problems: Problems
    ) -> bytes | None:
        if value is None:
            return self.default_fill()
        if not isinstance(value, list) or len(value) != 1:
            message = f"{describe(value)} is not null or a list of one value"
            problems.add(loc, message, "wrong_type")
            return None
        inner = self.inner.fill_from_json(value[0], 3, pointer(loc, 0), problems)
        return None if inner is None else inner + b"\1"

    def fill_to_json(self, fill: bytes, zarr_format: ZarrFormat) -> JSON:
        return [self.inner.fill_to_json(fill[:-1], 3)] if fill[-1] else None

    def cast_fill(self, value: Any) -> bytes:
        if value is None or value is np.ma.masked:
            return self.default_fill()
        if isinstance(value, np.ndarray | np.void) and value.dtype == self.numpy:
            return self.canonical(np.asarray(value).reshape(1)).tobytes()
        if isinstance(value, list | tuple) and len(value) == 1:
            value = value[0]
        return self.inner.cast_fill(value) + b"\1"


def _is_present(value: object) -> bool:
    pandas = sys.modules.get("pandas")
    if pandas is not None and (value is pandas.NA or value is pandas.NaT):
        return False
    return value is not None and value is not np.ma.masked


def _holds_masks(items: Any) -> bool:
    """Tell whether nested lists contain masked arrays; `np.ma.masked` is not one."""
    return any(
        _holds_masks(item)
        if type(item) in (list, tuple)
        else isinstance(item, np.ma.MaskedArray) and item.ndim > 0
        for item in items
    )
