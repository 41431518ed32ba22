"""The driver ``stack``: several handles as layers of one domain.

A position belongs to the last layer whose domain has it. Reading and writing cut the view into the
parts that belong to each layer (`tessarr.tensorstore.parts`), the topmost first, and do all at
once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from tessarr.errors import ArgumentError
from tessarr.space import Dim, DimExpression, IndexDomain, IndexTransform, d
from tessarr.tensorstore.after import all_done, attempt, written
from tessarr.tensorstore.chunk_layout import ChunkLayout
from tessarr.tensorstore.data_type import dtype
from tessarr.tensorstore.driver import Driver
from tessarr.tensorstore.driver_spec import Opening
from tessarr.tensorstore.future import WriteFutures, converted, failed, start
from tessarr.tensorstore.in_memory import check_finite
from tessarr.tensorstore.opening import open_spec
from tessarr.tensorstore.parts import Cutter, Part
from tessarr.tensorstore.schema import Schema
from tessarr.tensorstore.spec import Spec
from tessarr.tensorstore.store import TensorStore, handle

if TYPE_CHECKING:
    import numpy.typing as npt

    from tessarr.tensorstore.driver import Using
    from tessarr.tensorstore.future import Future

__all__ = ["StackDriver", "concat", "layered", "overlay", "stack"]

Layer: TypeAlias = Any
"""A `TensorStore`, or a `Spec` with a domain, which is opened when it is needed."""

DataType = dtype


class Access(NamedTuple):
    """What layers are for, and what they are opened with."""

    read: bool | None
    write: bool | None
    context: Any
    transaction: Any

    @property
    def mode(self) -> str:
        """What is asked for; both if nothing is."""
        both = not self.read and not self.write
        return "r" * bool(self.read or both) + "w" * bool(self.write or both)


def overlay(
    layers: Iterable[Layer],
    *,
    read: bool | None = None,
    write: bool | None = None,
    context: Any = None,
    transaction: Any = None,
    **constraints: Any,
) -> TensorStore:
    """Return the union of several handles; where they overlap the later one counts.

    Parameters
    ----------
    layers
        Handles, or specs whose domains are known, which are opened when they are needed.
    read, write
        What the result is for; by default both.
    context
        What specs are opened with.
    transaction
        What reads and writes take part in.
    **constraints
        ``rank``, ``dtype``, ``domain``, ``shape``, ``dimension_units`` and ``schema``, as for
        `open`. A domain that is given takes the place of that which contains all layers.

    Raises
    ------
    ArgumentError
        If the layers do not fit each other.

    Examples
    --------
    >>> import tessarr.tensorstore as ts
    >>> store = ts.overlay([ts.array([1, 2, 3]), ts.array([7, 8]).translate_to[2]])
    >>> store.read().result().tolist()
    [1, 2, 7, 8]
    """
    return layered(_listed(layers), Access(read, write, context, transaction), constraints)


def concat(
    layers: Iterable[Layer],
    axis: int | str,
    *,
    read: bool | None = None,
    write: bool | None = None,
    context: Any = None,
    transaction: Any = None,
    **constraints: Any,
) -> TensorStore:
    """Return several handles one after the other, along one of their dimensions.

    Parameters
    ----------
    layers
        As for `overlay`.
    axis
        The dimension, by its number or its label. The first layer stays where it is.
    read, write, context, transaction, **constraints
        As for `overlay`.

    Raises
    ------
    ArgumentError
        If the layers do not fit each other.

    Examples
    --------
    >>> import tessarr.tensorstore as ts
    >>> store = ts.concat([ts.array([1, 2, 3]), ts.array([7, 8])], axis=0)
    >>> store.read().result().tolist()
    [1, 2, 3, 7, 8]
    """
    found = _nonempty(layers, "concat")
    rank = _same_rank(found)
    at: int | str
    at = axis if isinstance(axis, str) else _dimension(axis, rank)
    if isinstance(at, str):
        labels = _merged_labels(found)
        if at not in labels or not at:
            raise ArgumentError(f"no layer has a dimension {at!r}, only {labels}")
        at = labels.index(at)
    placed = [found[0]]
    end = found[0].domain.dims[at].exclusive_max
    for layer in found[1:]:
        size = layer.domain.dims[at].size
        placed.append(layer[d[at].translate_to[end]])
        end += size
    return layered(placed, Access(read, write, context, transaction), constraints)


def stack(
    layers: Iterable[Layer],
    axis: int = 0,
    *,
    read: bool | None = None,
    write: bool | None = None,
    context: Any = None,
    transaction: Any = None,
    **constraints: Any,
) -> TensorStore:
    """Return several handles side by side, along a new dimension.

    Parameters
    ----------
    layers
        As for `overlay`.
    axis
        Which dimension of the result is the new one.
    read, write, context, transaction, **constraints
        As for `overlay`.

    Raises
    ------
    ArgumentError
        If the layers do not fit each other.

    Examples
    --------
    >>> import tessarr.tensorstore as ts
    >>> store = ts.stack([ts.array([1, 2]), ts.array([7, 8])], axis=1)
    >>> store.read().result().tolist()
    [[1, 7], [2, 8]]
    """
    found = _nonempty(layers, "stack")
    at = _dimension(axis, _same_rank(found) + 1)
    new: DimExpression = d[at][None]
    placed = []
    for k, layer in enumerate(found):
        one = layer[new]
        # A new dimension has implicit bounds, which are none here.
        one = one[d[at].translate_to[k]][d[at].mark_bounds_implicit[False]]
        placed.append(one)
    return layered(placed, Access(read, write, context, transaction), constraints)


def _listed(layers: Any) -> list[Layer]:
    if isinstance(layers, TensorStore):
        raise TypeError("give a sequence of layers, not one TensorStore")
    found = list(layers)
    for layer in found:
        if not isinstance(layer, TensorStore | Spec):
            raise TypeError(f"a layer is a TensorStore or a Spec, not {type(layer).__name__}")
    return found


def _nonempty(layers: Iterable[Layer], what: str) -> list[Layer]:
    found = _listed(layers)
    if not found:
        raise ArgumentError(f"{what} needs a layer")
    for k, layer in enumerate(found):
        _domain(layer, k)
    return found


def _domain(layer: Layer, k: int) -> IndexDomain:
    domain: IndexDomain | None = layer.domain
    if domain is None:
        raise ArgumentError(f"layer {k} has to have a domain")
    return domain


def _dimension(axis: Any, rank: int) -> int:
    at = int(axis.__index__()) if hasattr(axis, "__index__") else None
    if at is None:
        raise TypeError(f"an axis is a number, not {axis!r}")
    if not -rank <= at < rank:
        raise ArgumentError(f"dimension {at} is not in [{-rank}, {rank})")
    return at % rank


def _same_rank(layers: Sequence[Layer]) -> int:
    rank: int = layers[0].domain.rank
    for k, layer in enumerate(layers):
        if layer.domain.rank != rank:
            raise ArgumentError(f"layer {k} has rank {layer.domain.rank}, layer 0 rank {rank}")
    return rank


def _merged_labels(layers: Sequence[Layer]) -> list[str]:
    labels = [""] * layers[0].domain.rank
    for k, layer in enumerate(layers):
        for at, label in enumerate(layer.domain.labels):
            if label and labels[at] and label != labels[at]:
                raise ArgumentError(
                    f"layer {k}: dimension {at} is called {label!r}, and {labels[at]!r} before"
                )
            labels[at] = labels[at] or label
    return labels


def layered(layers: Sequence[Layer], access: Access, constraints: dict[str, Any]) -> TensorStore:
    """Return the handle of layers whose domains are where they belong."""
    schema = _schema(constraints)
    data_type = schema.dtype
    for k, layer in enumerate(layers):
        _domain(layer, k)
        if layer.dtype is None:
            raise ArgumentError(f"layer {k} has to have a data type")
        data_type = data_type or layer.dtype
        if layer.dtype != data_type:
            raise ArgumentError(f"layer {k} has {layer.dtype}, and {data_type} is needed")
    if data_type is None:
        raise ArgumentError("the data type has to be given where there is no layer")
    domain = _whole(layers, schema)
    units = _units(layers, schema, domain.rank)
    driver = StackDriver(layers, data_type, domain, units, access.context)
    return handle(driver, None, access.mode, access.transaction)


def _schema(constraints: dict[str, Any]) -> Schema:
    allowed = {"rank", "dtype", "domain", "shape", "dimension_units", "schema"}
    unknown = sorted(set(constraints) - allowed)
    if unknown:
        raise TypeError(f"unknown keywords {unknown}")
    given = dict(constraints)
    schema: Schema = Schema()
    base = given.pop("schema", None)
    if base is not None:
        schema.update(schema=base)
    schema.update(**{name: value for name, value in given.items() if value is not None})
    if schema.codec is not None:
        raise ArgumentError("a stack has no codec")
    if schema.fill_value is not None:
        raise ArgumentError("a stack has no fill value")
    if set(schema.chunk_layout.to_json()) - {"rank"}:
        raise ArgumentError("a stack has no chunk layout")
    return schema


def _whole(layers: Sequence[Layer], schema: Schema) -> IndexDomain:
    given: IndexDomain | None = schema.domain
    rank = schema.rank
    if layers:
        _same_rank(layers)
        labels = _merged_labels(layers)
        if rank is not None and rank != len(labels):
            raise ArgumentError(f"rank {rank} is asked for, the layers have rank {len(labels)}")
    elif given is None:
        raise ArgumentError("the domain has to be given where there is no layer")
    else:
        return given
    dims = []
    for at, label in enumerate(labels):
        bounds = [layer.domain.dims[at] for layer in layers]
        lower = min(one.inclusive_min for one in bounds)
        upper = max(one.exclusive_max for one in bounds)
        if given is not None:
            wanted = given.dims[at]
            if wanted.label and label and wanted.label != label:
                raise ArgumentError(
                    f"dimension {at} is called {wanted.label!r}, and by the layers {label!r}"
                )
            labels[at] = label or wanted.label
            if not (wanted.implicit_lower and wanted.inclusive_min == Dim().inclusive_min):
                lower = wanted.inclusive_min
            if not (wanted.implicit_upper and wanted.exclusive_max == Dim().exclusive_max):
                upper = wanted.exclusive_max
        dims.append(Dim.of(lower, upper, labels[at]))
    return IndexDomain.of(tuple(dims))


def _units(layers: Sequence[Layer], schema: Schema, rank: int) -> tuple[Any, ...]:
    given = schema.dimension_units or (None,) * rank
    found: list[Any] = []
    for at in range(rank):
        units = {unit for layer in layers if (unit := _unit(layer, at)) is not None}
        found.append(given[at] or (units.pop() if len(units) == 1 else None))
    return tuple(found)


def _unit(layer: Layer, at: int) -> Any:
    units = layer.dimension_units
    return None if units is None else units[at]


class StackDriver(Driver):
    """Layers.

    Parameters
    ----------
    layers
        From the lowest to the topmost, each where it belongs in the domain.
    data_type
        That of all layers.
    domain
        That of the whole.
    units
        The unit of each dimension.
    context
        What layers that are specs are opened with.
    """

    __slots__ = ("_bounds", "_context", "_data_type", "_domain", "_units", "layers")

    name = "stack"

    def __init__(
        self,
        layers: Sequence[Layer],
        data_type: DataType,
        domain: IndexDomain,
        units: tuple[Any, ...],
        context: Any,
    ) -> None:
        self.layers = tuple(layers)
        self._data_type = data_type
        self._domain = domain
        self._units = units
        self._context = context
        boxes = [layer.domain.dims for layer in layers]
        shape = (len(boxes), domain.rank)
        self._bounds = (
            np.array([[dim.inclusive_min for dim in dims] for dims in boxes], "i8").reshape(shape),
            np.array([[dim.exclusive_max for dim in dims] for dims in boxes], "i8").reshape(shape),
        )

    @property
    def dtype(self) -> DataType:
        """The data type of all layers."""
        return self._data_type

    @property
    def domain(self) -> IndexDomain:
        """That of the whole."""
        return self._domain

    @property
    def chunk_layout(self) -> ChunkLayout:
        """Nothing: layers may differ."""
        return ChunkLayout()

    @property
    def dimension_units(self) -> tuple[Any, ...]:
        """What is said, or what the layers agree upon."""
        return self._units

    def storages(self) -> frozenset[Any]:
        """Tell where elements are: where those of the layers are."""
        found: frozenset[Any] = frozenset()
        for layer in self.layers:
            if isinstance(layer, TensorStore):
                found |= layer._driver.storages()
        return found

    def read(
        self, view: IndexTransform, out: npt.NDArray[Any] | None, using: Using
    ) -> Future[npt.NDArray[Any]]:
        """Read from each layer what belongs to it."""
        try:
            check_finite(view)
            result = np.empty(view.domain.shape, self._data_type.dtype) if out is None else out
            if view.size == 0:
                return attempt(lambda: result)
            cutter = Cutter(view)
            parts = self._parts(cutter)
            reads = [self._read(n, part, cutter, result, using) for n, part in parts]
        except Exception as error:  # noqa: BLE001 (the future tells it)
            return failed(error)
        return all_done(reads, lambda: result)

    def _read(
        self, n: int, part: Part, cutter: Cutter, result: npt.NDArray[Any], using: Using
    ) -> Future[Any]:
        view = cutter.view_of(part)
        place = cutter.place(result, part)

        def begin(layer: TensorStore) -> Future[Any]:
            found = layer[view].read(batch=using.batch, out=place)
            if place is not None:
                return found
            return converted(found, lambda items: cutter.put(result, part, items))

        return self._with(n, begin, using, write=False)

    def write(self, view: IndexTransform, values: npt.NDArray[Any], using: Using) -> WriteFutures:
        """Write to each layer what belongs to it."""
        check_finite(view)
        if view.size == 0:
            done = attempt(lambda: None)
            return WriteFutures._of(done, done)
        cutter = Cutter(view)
        parts = self._parts(cutter)
        for n, _ in parts:
            layer = self.layers[n]
            if isinstance(layer, TensorStore) and not layer.writable:
                raise ArgumentError(f"layer {n} cannot be written")
        writes = []
        for n, part in parts:
            items = cutter.items(values, part)
            writes.append(self._write(n, cutter.view_of(part), items, using))
        return written(writes)

    def _write(
        self, n: int, view: IndexTransform, items: npt.NDArray[Any], using: Using
    ) -> WriteFutures:
        if isinstance(self.layers[n], TensorStore):
            return self._joined(self.layers[n], using)[view].write(items, batch=using.batch)

        def begin(layer: TensorStore) -> Future[Any]:
            return layer[view].write(items, batch=using.batch).commit

        done = self._with(n, begin, using, write=True)
        return WriteFutures._of(done, done)

    def _joined(self, layer: TensorStore, using: Using) -> TensorStore:
        return layer if using.transaction is None else layer.with_transaction(using.transaction)

    def _with(self, n: int, begin: Any, using: Using, *, write: bool) -> Future[Any]:
        """Do something with a layer, which is opened if it is a spec."""
        layer = self.layers[n]
        if isinstance(layer, TensorStore):
            found: Future[Any] = begin(self._joined(layer, using))
            return found
        opening = Opening(not write, write, using.transaction)
        return start(lambda: begin(open_spec(layer, opening, self._context).result()).result())

    def _parts(self, cutter: Cutter) -> list[tuple[int, Part]]:
        """Return the parts of a view, with the layers that they belong to.

        Raises
        ------
        ArgumentError
            If a position belongs to none.
        """
        reach = cutter.reach()
        least, most = (np.array(ends, "i8") for ends in zip(*reach, strict=True)) if reach else (
            np.empty(0, "i8"), np.empty(0, "i8"),
        )  # fmt: skip
        lower, upper = self._bounds
        touched = np.flatnonzero(((lower < most) & (upper > least)).all(axis=1))
        left = [cutter.whole]
        found: list[tuple[int, Part]] = []
        for n in touched[::-1].tolist():
            box = list(zip(lower[n].tolist(), upper[n].tolist(), strict=True))
            rest: list[Part] = []
            for part in left:
                inner = cutter.within(part, box)
                if inner is None:
                    rest.append(part)
                    continue
                found.append((n, inner))
                rest += cutter.without(part, inner)
            left = rest
            if not left:
                break
        if left:
            where = tuple(one.offset for one in self._corner(cutter, left[0]))
            raise ArgumentError(f"no layer has position {where}")
        return found

    def _corner(self, cutter: Cutter, part: Part) -> Any:
        view = cutter.view_of(part)
        return view[view.domain.origin].output
