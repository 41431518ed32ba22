"""The driver ``stack``: several handles as layers of one domain.

A position belongs to the last layer whose domain has it. The engine tells what a view sees of each
layer, and copies what is in memory; all others are read, or written, at once.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from tessarr.errors import ArgumentError, ReadOnlyError
from tessarr.index_space import IndexTransform
from tessarr.tensorstore.batch.read_group import Together
from tessarr.tensorstore.driver import NOTHING, Driver, Using
from tessarr.tensorstore.future.combine import all_done, chained, converted, written
from tessarr.tensorstore.future.future import Future, failed
from tessarr.tensorstore.future.write_futures import WriteFutures
from tessarr.tensorstore.handle.handle import TensorStore
from tessarr.tensorstore.ndarray_views import assign, checked, empty, near, selected, unmade
from tessarr.tensorstore.opening import open_spec
from tessarr.tensorstore.schema.chunk_layout import ChunkLayout
from tessarr.tensorstore.spec.driver_spec import Opening

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import numpy.typing as npt

    from tessarr.array import Array
    from tessarr.index_space import IndexDomain, Layers, Seen, View
    from tessarr.tensorstore.batch.shared_reads import Expected
    from tessarr.tensorstore.context.references import References
    from tessarr.tensorstore.schema.data_type import dtype as DataType  # noqa: N812

__all__ = ["Layer", "StackDriver", "common_units"]

Layer: TypeAlias = Any
"""A `TensorStore`, or a `Spec` with a domain, which is opened when it is needed."""


class StackDriver(Driver):
    """Layers.

    Parameters
    ----------
    layers
        From the lowest to the topmost.
    placed
        Where they belong in the domain.
    dtype
        The data type of all layers.
    units
        The unit of each dimension, as far as it is given.
    references
        Its resources.
    """

    __slots__ = ("_arrays", "_layers", "_placed", "_units", "references")

    name = "stack"

    def __init__(
        self,
        layers: Sequence[Layer],
        placed: Layers,
        dtype: DataType,
        units: Sequence[Any] | None,
        references: References,
    ) -> None:
        self._layers = layers
        self._placed = placed
        self.dtype = dtype
        self._units = units
        self.references = references
        # To read from, and to write to; not looked for yet.
        self._arrays: dict[bool, list[npt.NDArray[Any] | None]] | None = None

    @property
    def layers(self) -> list[Layer]:
        """The layers, each where it belongs."""
        views = self._placed.views()
        return [layer._after(view) for layer, view in zip(self._layers, views, strict=True)]

    @property
    def domain(self) -> IndexDomain:
        """That of the whole."""
        return IndexTransform._of_view(self._placed.whole).domain

    @property
    def chunk_layout(self) -> ChunkLayout:
        """Nothing: layers may differ."""
        return ChunkLayout()

    @property
    def dimension_units(self) -> tuple[Any, ...]:
        """What is said, or what the layers agree upon."""
        return common_units(self._units or (None,) * self.domain.rank, self.layers)

    def due(self, using: Using) -> list[Expected]:
        """Return what layers have to look at."""
        open_ones = [layer for layer in self._layers if isinstance(layer, TensorStore)]
        return [one for layer in open_ones for one in layer._driver.due(_as_layer(using))]

    def changed_in(self, using: Using) -> Driver:
        """Return the same layers in a transaction."""
        layers = [
            layer._taking_part(using) if isinstance(layer, TensorStore) else layer
            for layer in self._layers
        ]
        return StackDriver(layers, self._placed, self.dtype, self._units, self.references)

    def storages(self) -> frozenset[Any]:
        """Tell where elements are: where those of the layers are."""
        found: frozenset[Any] = frozenset()
        for layer in self._layers:
            if isinstance(layer, TensorStore):
                found |= layer._driver.storages()
        return found

    def read(
        self, view: IndexTransform, out: npt.NDArray[Any] | None, using: Using
    ) -> Future[npt.NDArray[Any]]:
        """Read from each layer what belongs to it."""
        try:
            seen = self._seen(view, using, write=False)
            if seen.alone:
                n, found, _ = seen.far()[0]
                return self._read(n, found, out, using)
            result = empty(view.domain.shape, self.dtype.dtype) if out is None else out
            checked(seen.take, result)
            stored = [_reading_stored(seen, result)] if seen.waits else []
            own = Together() if using.batch is None and using.together is None else None
            beside = using if own is None else Using(using.transaction, together=own)
            reads = [self._read_part(*one, result, beside) for one in seen.far()]
            if own is not None:
                own.begin()
        except Exception as error:  # noqa: BLE001 (the future tells it)
            return failed(unmade(error, view))
        if stored and not reads:
            return stored[0]
        return all_done(stored + reads, lambda: result, begin=own is not None)

    def _read_part(
        self, n: int, view: View, place: View, result: npt.NDArray[Any], using: Using
    ) -> Future[Any]:
        if place.lists:
            items = self._read(n, view, None, using)
            return converted(items, lambda items: assign(result, place, items))
        return self._read(n, view, selected(result, place), using)

    def _read(
        self, n: int, view: View, out: npt.NDArray[Any] | None, using: Using
    ) -> Future[npt.NDArray[Any]]:
        layer = self._layers[n]
        if isinstance(layer, TensorStore):
            return _reading(layer, view, out, using)

        def begin(layer: TensorStore) -> Future[Any]:
            # A batch may be over when a layer that had to be opened is there.
            return _reading(layer, view, out, Using(using.transaction))

        return self._opened(n, begin, using, write=False)

    def write(self, view: IndexTransform, values: npt.NDArray[Any], using: Using) -> WriteFutures:
        """Write to each layer what belongs to it."""
        seen = self._seen(view, using, write=True)
        far = seen.far()
        for n, *_ in far:
            layer = self._layers[n]
            if isinstance(layer, TensorStore) and not layer.writable:
                raise ArgumentError(f"layer {n} cannot be written")
        if seen.alone:
            return self._write(far[0][0], far[0][1], values, using)
        checked(seen.put, values)
        return written([self._write(n, v, selected(values, at), using) for n, v, at in far])

    def _write(self, n: int, view: View, items: npt.NDArray[Any], using: Using) -> WriteFutures:
        def begin(layer: TensorStore) -> WriteFutures:
            driver, found = layer._driver.settled(IndexTransform._of_view(view), _as_layer(using))
            return driver.write(found, items, using)

        layer = self._layers[n]
        if isinstance(layer, TensorStore):
            return begin(layer)
        done = self._opened(n, lambda layer: begin(layer).commit, using, write=True)
        return WriteFutures._of(done, done)

    def _opened(
        self, n: int, begin: Callable[[TensorStore], Future[Any]], using: Using, *, write: bool
    ) -> Future[Any]:
        """Do something with a layer that is a spec, and opened for it."""

        def opened(found: TensorStore) -> Future[Any]:
            if found.dtype != self.dtype:
                raise ArgumentError(f"layer {n} has {found.dtype}, not {self.dtype}")
            return begin(found)

        opening = Opening(not write, write, using.transaction)
        return chained(open_spec(self._layers[n], opening), opened)

    def _seen(self, view: IndexTransform, using: Using, *, write: bool) -> Seen:
        """Return what a view sees of each layer.

        Raises
        ------
        ArgumentError
            If a position belongs to none.
        """
        find = partial(self._known, using, write=write)
        return checked(self._placed.seen, view._as_view(), find)

    def _known(
        self, using: Using, numbers: list[int], *, write: bool
    ) -> list[npt.NDArray[Any] | Array | None]:
        """Return the array that each of some layers is a view of, if the engine is to be given it.

        What is stored is, if several are read together, and by nobody else.
        """
        if using.transaction is not None:
            return [None] * len(numbers)
        near = self._near(using, write=write)
        if write or using is not NOTHING or len(numbers) == 1:
            return [near[n] for n in numbers]
        return [self._stored(n) if near[n] is None else near[n] for n in numbers]

    def _stored(self, n: int) -> Array | None:
        layer = self._layers[n]
        if isinstance(layer, TensorStore) and "r" in layer._mode:
            return layer._driver.stored
        return None

    def _near(self, using: Using, *, write: bool) -> list[npt.NDArray[Any] | None]:
        """Return the array that each layer is a view of, if it is in memory."""
        arrays = self._arrays
        if arrays is None:
            arrays = self._arrays = {}
        found = arrays.get(write)
        if found is None:
            able = "w" if write else "r"
            found = arrays[write] = [
                near(layer._driver, using, write=write)
                if isinstance(layer, TensorStore) and able in layer._mode
                else None
                for layer in self._layers
            ]
        return found


def _reading_stored(seen: Seen, result: npt.NDArray[Any]) -> Future[npt.NDArray[Any]]:
    """Begin to read what is stored, by one call of the engine."""
    future: Future[npt.NDArray[Any]] = Future._pending()
    future._work = checked(seen.read, result, future).help
    return future


def common_units(stated: Sequence[Any], layers: Iterable[Layer]) -> tuple[Any, ...]:
    """Return the unit of each dimension that is stated, or that layers agree upon."""
    found = [layer.dimension_units for layer in layers]
    said = [[units[k] for units in found if units and units[k]] for k in range(len(stated))]
    return tuple(
        unit or (those[0] if those and those.count(those[0]) == len(those) else None)
        for unit, those in zip(stated, said, strict=True)
    )


def _reading(
    layer: TensorStore, view: View, out: npt.NDArray[Any] | None, using: Using
) -> Future[npt.NDArray[Any]]:
    """Begin to read a view of what a layer is a view of."""
    if not layer.readable:
        return failed(ReadOnlyError("a layer was opened for writing only: reading is refused"))
    driver, found = layer._driver.settled(IndexTransform._of_view(view), _as_layer(using))
    return driver.read(found, out, using)


def _as_layer(using: Using) -> Using:
    """Say that bounds of layers are those of the whole, which it has as long as it is there."""
    return using if using.transaction is not None else using._replace(looks=False)
