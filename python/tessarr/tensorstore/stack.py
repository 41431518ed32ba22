"""Several handles as one: `overlay`, `concat` and `stack`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tessarr.errors import ArgumentError
from tessarr.space import Dim, IndexDomain, IndexTransform, OutputIndexMap
from tessarr.space.maps import identity
from tessarr.tensorstore.layers import Layer, StackDriver
from tessarr.tensorstore.schema import Schema
from tessarr.tensorstore.spec import Spec
from tessarr.tensorstore.store import TensorStore, handle

__all__ = ["Access", "concat", "layered", "overlay", "stack"]


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
        placed.append(_begun_at(layer, at, end))
        end += layer.domain.dims[at].size
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
    placed = [_side_by_side(layer, at, k) for k, layer in enumerate(found)]
    return layered(placed, Access(read, write, context, transaction), constraints)


def _begun_at(layer: Layer, at: int, begin: int) -> Layer:
    """Return a layer whose dimension `at` begins elsewhere."""
    dims = list(layer.domain.dims)
    dim = dims[at]
    if not dim.finite:
        raise ArgumentError(f"dimension {at} of a layer is {dim}: it has to end somewhere")
    dims[at] = Dim.of(begin, begin + dim.size, dim.label, dim.implicit)
    maps = list(identity(len(dims)))
    maps[at] = OutputIndexMap.along(at, dim.inclusive_min - begin)
    return layer[IndexTransform.of(IndexDomain.of(tuple(dims)), tuple(maps))]


def _side_by_side(layer: Layer, at: int, place: int) -> Layer:
    """Return a layer with one more dimension, of the only index `place`."""
    dims = layer.domain.dims
    maps = [OutputIndexMap.along(k + (k >= at)) for k in range(len(dims))]
    domain = IndexDomain.of((*dims[:at], Dim.of(place, place + 1), *dims[at:]))
    return layer[IndexTransform.of(domain, tuple(maps))]


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
        data_type = data_type or layer.dtype
        if layer.dtype is not None and layer.dtype != data_type:
            raise ArgumentError(f"layer {k} has {layer.dtype}, and {data_type} is needed")
    if data_type is None:
        raise ArgumentError("no layer has a data type that is known: it has to be given")
    domain = _whole(layers, schema)
    driver = StackDriver(layers, data_type, domain, schema.dimension_units, access.context)
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
