"""Reading and writing the elements of an array of Zarr: `Access`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final
from weakref import ref

import numpy as np

from tessarr.errors import ArgumentError, NotFoundError, SelectionError
from tessarr.space import lower
from tessarr.store import LocalStore, MemoryStore
from tessarr.tensorstore.drivers.zarr.stored import statistics
from tessarr.tensorstore.futures.after import converted
from tessarr.tensorstore.futures.future import NOTHING, Future, failed, finished
from tessarr.tensorstore.futures.promise import Promise
from tessarr.tensorstore.futures.start import start
from tessarr.tensorstore.futures.writes import WriteFutures
from tessarr.tensorstore.kvstore.near import changes_at_once
from tessarr.tensorstore.together import begun

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from tessarr.array import Array
    from tessarr.indexing import Selection
    from tessarr.space import IndexTransform
    from tessarr.store import Store
    from tessarr.tensorstore.drivers.zarr.facts import Kind
    from tessarr.tensorstore.drivers.zarr.inner import Inner
    from tessarr.tensorstore.together import Together
    from tessarr.types import Shape

__all__ = ["Access"]

_FEW: Final = 4


class Access:
    """How elements are read and written.

    Parameters
    ----------
    kind
        What an element is; all that depends on the bounds is looked up in the array.
    place
        Where the array is, below caches.
    """

    __slots__ = (
        "_before",
        "_fields",
        "_inner",
        "_last",
        "_near",
        "_numpy",
        "_place",
        "_stored",
        "_swift",
        "in_memory",
        "plain",
    )

    def __init__(self, kind: Kind, place: Store) -> None:
        self._numpy, self._stored = kind.numpy, kind.stored
        self._fields, self._inner = kind.fields, kind.inner
        self.plain = kind.plain
        """Whether elements are as the engine reads them."""
        self._place = place
        self.in_memory = isinstance(place, MemoryStore)
        """Whether what is asked for is told at once."""
        self._near = self.in_memory or isinstance(place, LocalStore)
        self._swift: Shape = kind.swift
        # The futures of the last two reads. Who holds both begins many before he waits for one, and
        # threads read meanwhile; who waits for each is served here, at once.
        self._before: Callable[[], Future[Any] | None] = _nothing
        self._last: Callable[[], Future[Any] | None] = _nothing

    @property
    def at_once(self) -> bool:
        """Whether a small change takes less time than beginning it elsewhere."""
        return changes_at_once(self._place)

    def outer(self, view: IndexTransform) -> IndexTransform:
        """Return the view of the array, without the dimensions inside of its elements."""
        return view if self._inner is None else self._inner.split(view).outer

    def stored(
        self, array: Array, view: IndexTransform, *, not_stored: bool, fully_stored: bool
    ) -> tuple[bool | None, bool | None]:
        """Tell whether nothing is stored of a view, and whether all is."""
        try:
            return statistics(
                array, self.outer(view), not_stored=not_stored, fully_stored=fully_stored
            )
        except SelectionError as error:
            raise _outside(error) from error

    # Reading

    def read(
        self,
        array: Array,
        view: IndexTransform,
        out: npt.NDArray[Any] | None,
        together: Together | None = None,
    ) -> Future[npt.NDArray[Any]]:
        """Start to read a view of an array, into `out` if there is one; together with others."""
        try:
            if self._inner is not None:
                return self._read_inner(array, self._inner, view, out, together)
            chosen = lower(view, array._meta.shape)
        except (SelectionError, NotFoundError) as error:
            return failed(_outside(error))
        buffer = None
        if out is None:
            buffer = np.empty(chosen.buffer_shape, self._stored)
        elif self._stored == self._numpy:
            buffer = _filled_in(out, chosen)
        if buffer is None:
            assert out is not None
            return _filled(self.read(array, view, None, together), out)
        result = chosen.result(buffer) if out is None else out
        future = self._elements(array, chosen, buffer, result, together)
        if out is None and chosen.size > buffer.size:
            # Something repeats: `result` was made before it was filled.
            future = converted(future, lambda _: chosen.result(buffer))
        return future if self._stored == self._numpy else converted(future, self._native)

    def _elements(
        self,
        array: Array,
        chosen: Selection,
        buffer: npt.NDArray[Any],
        result: Any,
        together: Together | None,
    ) -> Future[Any]:
        if not chosen.size:
            return finished(result)
        parts = None if self._fields is None else self._fields.parts
        alone = together is None or (self.in_memory and not together.waits)
        swift = alone and bool(self._swift) and _few(chosen, self._swift)
        if together is not None and not swift:
            return together.read(array, chosen, buffer, parts, result)
        if swift and (self.in_memory or (self._near and self._before() is None)):
            future = _now(array, chosen, buffer, parts, result)
        else:
            future = begun(array, chosen, buffer, parts, result, soon=swift)
        if not self.in_memory:
            self._before, self._last = self._last, ref(future)
        return future

    def _native(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return values.astype(self._numpy)

    def _read_inner(
        self,
        array: Array,
        inner: Inner,
        view: IndexTransform,
        out: npt.NDArray[Any] | None,
        together: Together | None,
    ) -> Future[npt.NDArray[Any]]:
        split = inner.split(view)
        chosen = lower(split.outer, array._meta.shape)
        buffer = np.empty(chosen.buffer_shape, self._stored)
        future = converted(
            self._elements(array, chosen, buffer, buffer, together),
            lambda _: inner.taken(split, self._opened(chosen.result(buffer), inner)),
        )
        return future if out is None else _filled(future, out)

    def _opened(self, values: Any, inner: Inner) -> npt.NDArray[Any]:
        """Return whole elements with the dimensions inside of them."""
        found = np.asarray(values)
        shape = found.shape
        if self._fields is not None and self._fields.inner is not None:
            found = found[self._fields.inner]
        if found.ndim < len(shape) + len(inner.shape):  # bytes are the last of them
            found = np.ascontiguousarray(found).reshape(-1).view(self._numpy)
            return found.reshape(*shape, *inner.shape)
        return found.astype(self._numpy, copy=False)

    # Writing

    def write(self, array: Array, view: IndexTransform, values: npt.NDArray[Any]) -> WriteFutures:
        """Start to write to a view of an array."""
        try:
            if self._inner is not None:
                return self._write_inner(array, self._inner, view, values)
            chosen = lower(view, array._meta.shape)
        except SelectionError as error:
            future: Future[None] = failed(_outside(error))
            return WriteFutures._of(future, future)
        parts = None if self._fields is None else self._fields.parts
        future = self._store(array, chosen, values.astype(self._stored, copy=False), parts)
        return WriteFutures._of(future, future)

    def _store(
        self, array: Array, chosen: Selection, values: npt.NDArray[Any], parts: Any
    ) -> Future[None]:
        if not chosen.size:
            return NOTHING
        ready = chosen.buffer(values)
        if self._near and self._swift and _few(chosen, self._swift):
            write = partial(array._write, chosen.axes, chosen.out_axes, ready, parts)
            return start(write, here=self.at_once)
        promise, future = Promise.new()
        future._work = array._write_future(chosen.axes, chosen.out_axes, ready, promise, parts).help
        return future

    def _write_inner(
        self, array: Array, inner: Inner, view: IndexTransform, values: npt.NDArray[Any]
    ) -> WriteFutures:
        """Start to write what is inside of elements; the rest of these stays as it is."""
        base, element = self._inside()
        size, futures = element.itemsize, []
        elements = values.astype(element, copy=False)
        for piece in inner.pieces(inner.split(view), elements):
            chosen = lower(piece.outer, array._meta.shape)
            packed = np.ascontiguousarray(piece.values).view(f"V{size * len(piece.places)}")
            places = [(base + place * size, at * size) for at, place in enumerate(piece.places)]
            ready = packed.reshape(piece.outer.domain.shape)
            futures.append(self._store(array, chosen, ready, _runs(places, size)))
        several = len(futures) != 1
        done = start(lambda: _wait(futures), here=not futures) if several else futures[0]
        return WriteFutures._of(done, done)

    def _inside(self) -> tuple[int, np.dtype[Any]]:
        """Return where, in an element as stored, what is inside of it begins, and of what type."""
        base, stored = 0, self._stored
        if self._fields is not None and self._fields.inner is not None:
            base, stored = self._fields.parts[0][0], stored[self._fields.inner].base
        return base, stored if stored.itemsize == self._numpy.itemsize else self._numpy


def _runs(places: list[tuple[int, int]], size: int) -> list[tuple[int, int, int]]:
    """Return fields for places in an item and in the caller's, those that adjoin as one."""
    runs: list[tuple[int, int, int]] = []
    for item, caller in sorted(places):
        first, given, length = runs[-1] if runs else (item, caller, 0)
        if (first + length, given + length) == (item, caller):
            runs[-1:] = [(first, given, length + size)]
        else:
            runs.append((item, caller, size))
    return runs


def _wait(futures: list[Future[None]]) -> None:
    for future in futures:
        future.result()


def _few(chosen: Selection, chunk: Shape) -> bool:
    """Whether a selection touches so few chunks that it takes longer to begin elsewhere."""
    cells = 1
    for axis, length in zip(chosen.axes, chunk, strict=True):
        if not isinstance(axis, tuple) or len(axis) == 1:
            return False
        start, step, count = axis
        end = start + step * (count - 1)
        cells *= abs(end // length - start // length) + 1
    return cells <= _FEW


def _outside(error: SelectionError | NotFoundError) -> Exception:
    """Return the error for a view that is outside of what is there when it is read."""
    if isinstance(error, NotFoundError):
        return error
    found = ArgumentError(f"cannot read or write: {error}", kind="out_of_bounds")
    found.__cause__ = error
    return found


def _filled_in(out: npt.NDArray[Any], chosen: Selection) -> npt.NDArray[Any] | None:
    """Return what the engine fills in order to fill `out`, if it can."""
    buffer = chosen.buffer(out)
    same = buffer.size == out.size and (not out.size or np.may_share_memory(buffer, out))
    return buffer if same else None


def _filled(source: Future[Any], out: npt.NDArray[Any]) -> Future[Any]:
    """Return the future of `out`, filled with what is read."""

    def fill(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        out[...] = values
        return out

    return converted(source, fill)


def _nothing() -> None:
    """Refer to no future."""


def _now(
    array: Array, chosen: Selection, buffer: npt.NDArray[Any], parts: Any, result: Any
) -> Future[Any]:
    """Return the future of a read that is done at once."""
    try:
        array._read(chosen.axes, chosen.out_axes, buffer, parts)
    except Exception as error:  # noqa: BLE001 (told to whom it may concern)
        return failed(error)
    return finished(result)
