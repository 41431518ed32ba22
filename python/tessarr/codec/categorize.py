"""The codec ``categorize``: text as label numbers (numcodecs id ``categorize``). Format 2 only."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tessarr import dtype as dtypes
from tessarr.codec.base import ArrayArrayCodec, ArraySpec, deliver, register_codec
from tessarr.codec.numcodecs_filters import as_array, view_items
from tessarr.codec.parameters import WrongParameter, number_type
from tessarr.dtype.variable import Text

if TYPE_CHECKING:
    from tessarr.dtype import DataType
    from tessarr.format.validation import Problems

__all__ = ["Categorize"]


@register_codec
@dataclass(frozen=True, slots=True, init=False)
class Categorize(ArrayArrayCodec):
    """Label numbers, counted from 1, in place of labels; other elements become 0, read as empty.

    Parameters
    ----------
    labels : sequence of str or bytes
        The labels.
    dtype : dtype_like
        The data type of the array: text or bytes of a fixed length, or object for ``str``.
    astype : dtype_like
        The integer type of stored numbers.

    Examples
    --------
    >>> import numpy as np
    >>> codec = Categorize(["female", "male"], dtype=object)
    >>> codec.encode(np.array(["male", "female", "other"], object))
    array([2, 1, 0], dtype=uint8)
    """

    name = "categorize"
    takes_any_length = True

    labels: tuple[str, ...]
    dtype: str
    astype: str = "|u1"

    def __init__(self, labels: Any, dtype: Any, astype: Any = "u1") -> None:
        single = isinstance(labels, str | bytes) or not isinstance(labels, Iterable)
        values = [None] if single else list(labels)
        texts = [label.decode() if isinstance(label, bytes) else label for label in values]
        if not all(isinstance(text, str) for text in texts):
            raise WrongParameter("labels", labels, "a list of text or bytes", right_type=False)
        encoded = number_type("astype", astype, "ui")
        if len(texts) > np.iinfo(encoded).max:
            raise WrongParameter("labels", texts, f"countable by {encoded}", right_type=True)
        is_object = dtype is object or dtype in ("O", "|O", "object")
        decoded = "|O" if is_object else _normalize_text_type(dtype)
        object.__setattr__(self, "labels", tuple(texts))
        object.__setattr__(self, "dtype", decoded)
        object.__setattr__(self, "astype", encoded.str)

    def __repr__(self) -> str:
        labels = list(self.labels)
        return f"Categorize(dtype={self.dtype!r}, astype={self.astype!r}, labels={labels!r})"

    def get_config(self) -> dict[str, Any]:
        return {
            "id": self.name,
            "labels": list(self.labels),
            "dtype": self.dtype,
            "astype": self.astype,
        }

    def object_type(self) -> DataType | None:
        return Text() if self.dtype == "|O" else None

    def check(self, spec: ArraySpec, loc: str, problems: Problems) -> None:
        fits = (
            spec.data_type.elements == "text"
            if self.dtype == "|O"
            else spec.data_type.elements is None and spec.data_type.numpy.str == self.dtype
        )
        if not fits:
            message = f"labels of {self.dtype} for elements of {spec.data_type.name}"
            problems.add(loc, message, "mismatch")

    def encoded(self, spec: ArraySpec) -> ArraySpec:
        return ArraySpec(spec.shape, dtypes.to_data_type(np.dtype(self.astype)))

    def encode(self, array: np.ndarray[Any, Any], /) -> np.ndarray[Any, Any]:
        # numcodecs uses the last of duplicate labels.
        numbers = {label: number for number, label in enumerate(self._labels(), 1)}
        codes = [numbers.get(value, 0) for value in array.reshape(-1).tolist()]
        return np.array(codes, self.astype).reshape(array.shape)

    def decode(
        self, array: np.ndarray[Any, Any], spec: ArraySpec | None = None, /, out: Any = None
    ) -> np.ndarray[Any, Any]:
        """Decode numbers, or a buffer of them, to labels; into the array `out` if not None."""
        if spec is None:
            array = view_items(as_array(array), np.dtype(self.astype)).reshape(np.shape(array))
        empty = b"" if self.dtype[1] == "S" else ""
        table = np.array([empty, *self._labels()], self.dtype)
        known = (array >= 0) & (array < len(table))
        return np.asarray(deliver(np.asarray(table[np.where(known, array, 0)], self.dtype), out))

    def _labels(self) -> list[Any]:
        if self.dtype[1] == "S":
            return [label.encode() for label in self.labels]
        return list(self.labels)


def _normalize_text_type(value: Any) -> str:
    """Return the typestring of text or bytes of a fixed length; raise an error for other types."""
    with suppress(TypeError, ValueError, SyntaxError):
        dtype = np.dtype(value)
        if dtype.kind in "US" and dtype.itemsize:
            return str(dtype.str)
    expected = "a type of text or bytes of a fixed length, or object"
    raise WrongParameter("dtype", value, expected, right_type=isinstance(value, str))
