"""Selection of fields of records: ``a["f"]``, ``a["f", 0:10]``, ``a[["f", "g"]]``.

A field is a range of bytes of every item. The engine copies only these bytes, so a write to one
field keeps the stored values of the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tessarr.errors import ArgumentError, SelectionError
from tessarr.indexing.assigned_values import broadcast_value, empty, read_target
from tessarr.indexing.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from tessarr.indexing.array_likes import Fill

__all__ = ["Fields", "find_fields", "split_fields"]


@dataclass(frozen=True, slots=True)
class Fields:
    """Fields of the items of an array.

    Parameters
    ----------
    dtype : numpy.dtype
        The data type of the engine's buffer: that of the field, or packed records of several.
    parts : tuple of (int, int, int)
        For each field its offset in an item of the array, its offset in an item of the buffer,
        and its size in bytes.
    inner : str, optional
        The field of the buffer's records that the user selects, if this field is an array.
    chosen : str or tuple of str
        The name of the selected field, or the names of several.
    """

    dtype: np.dtype[Any]
    parts: tuple[tuple[int, int, int], ...]
    inner: str | None = None
    chosen: tuple[str, ...] | str = ()

    def target(
        self, selection: Selection, out: Any
    ) -> tuple[npt.NDArray[Any], Callable[[npt.NDArray[Any]], Any]]:
        """Return the buffer that the engine fills, and a function from it to the result."""
        inner = self.inner
        if inner is None:
            return read_target(selection, self.dtype, out)
        buffer, finish = read_target(selection, self.dtype, None)
        if out is None:
            return buffer, lambda filled: finish(filled)[inner]
        base, shape = _split_subarray(self.dtype[inner])
        check = Selection((), (), selection.shape + shape, selection.shape + shape)
        target, deliver = read_target(check, base, out)

        def copy(filled: npt.NDArray[Any]) -> Any:
            target[...] = finish(filled)[inner].reshape(target.shape)
            return deliver(target)

        return buffer, copy

    def value(self, value: object, selection: Selection, fill: Fill) -> npt.NDArray[Any]:
        """Convert and broadcast a value to the buffer that the engine stores.

        The fill value of the array, which `fill` returns, replaces masked elements.
        """

        def fill_fields() -> npt.NDArray[Any] | None:
            record = fill()
            if record is None:
                return None
            return (
                record[self.chosen if isinstance(self.chosen, str) else list(self.chosen)]
                if self.inner is None
                else record[self.inner]
            )

        if self.inner is None:
            return broadcast_value(value, selection, self.dtype, fill_fields)
        base, shape = _split_subarray(self.dtype[self.inner])
        whole = selection.shape + shape
        from tessarr.indexing.array_likes import broadcast_masked, has_mask

        if has_mask(value):  # the fill value has the axes of the field
            value = broadcast_masked(value, whole)
        elements = broadcast_value(value, Selection((), (), whole, whole), base, fill_fields)
        records = empty(selection.shape, self.dtype)
        records[self.inner] = elements
        return selection.buffer(records)


def _split_subarray(dtype: np.dtype[Any]) -> tuple[np.dtype[Any], tuple[int, ...]]:
    return dtype.subdtype or (dtype, ())


def split_fields(key: Any) -> tuple[Any, list[str] | str | None]:
    """Split a key into names of fields and the rest.

    Parameters
    ----------
    key : object
        The key of indexing, with names or lists of names among its items.

    Returns
    -------
    rest : object
        The key without names.
    names : str, list of str, or None
        One name; several names, or a list of one name; or None.

    Examples
    --------
    >>> split_fields(("f", slice(3))), split_fields(["f", "g"]), split_fields(("f", "g", 0))
    (((slice(None, 3, None),), 'f'), (Ellipsis, ['f', 'g']), ((0,), ['f', 'g']))
    >>> split_fields((0, 1))
    ((0, 1), None)
    """
    rest: list[Any] = []
    names: list[str] = []
    listed = False
    for item in key if isinstance(key, tuple) else (key,):
        if isinstance(item, str):
            names.append(item)
        elif isinstance(item, list) and item and all(isinstance(name, str) for name in item):
            names += item
            listed = True
        else:
            rest.append(item)
    if not names:
        return key, None
    return tuple(rest) or ..., names if listed or len(names) > 1 else names[0]


def find_fields(names: str | Sequence[str], dtype: np.dtype[Any]) -> Fields:
    """Return the fields of a record type with these names.

    Raises
    ------
    SelectionError
        If a field does not exist.
    ArgumentError
        If a name occurs twice, or if there are no names.

    Examples
    --------
    >>> record = np.dtype([("a", "u1"), ("b", "f4"), ("c", "i2")])
    >>> find_fields("b", record)
    Fields(dtype=dtype('float32'), parts=((1, 0, 4),), inner=None, chosen='b')
    >>> find_fields(["c", "a"], record).parts
    ((5, 0, 2), (0, 2, 1))
    """
    requested = [names] if isinstance(names, str) else list(names)
    known = cast("dict[str, Any]", dtype.fields or {})
    for name in requested:
        if name not in known:
            listed = f"there are {', '.join(map(repr, known))}" if known else "it has no fields"
            raise SelectionError(f"the array has no field {name!r}: {listed}")
    if len(set(requested)) < len(requested) or not requested:
        raise ArgumentError(f"{requested} are not different names of fields")
    parts: list[tuple[int, int, int]] = []
    end = 0
    for name in requested:
        size = known[name][0].itemsize
        parts.append((known[name][1], end, size))
        end += size
    if isinstance(names, str) and known[names][0].subdtype is None:
        return Fields(known[names][0], tuple(parts), chosen=names)
    packed = np.dtype([(name, known[name][0]) for name in requested])
    inner = names if isinstance(names, str) else None
    return Fields(packed, tuple(parts), inner, tuple(requested))
