"""Several handles as one: `overlay`, `concat` and `stack`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypedDict, Unpack

from tessarr.errors import ArgumentError
from tessarr.index_space import IndexDomain, IndexTransform, Layers
from tessarr.index_space.dimension_names import as_integer, as_label
from tessarr.tensorstore.context.context import Context, own
from tessarr.tensorstore.context.references import References
from tessarr.tensorstore.drivers.stack.stack_driver import Layer, StackDriver
from tessarr.tensorstore.handle.handle import TensorStore, build_handle
from tessarr.tensorstore.json.keywords import tells
from tessarr.tensorstore.json.parse import given, of_class
from tessarr.tensorstore.schema.data_type import DTypeLike
from tessarr.tensorstore.schema.schema import Schema
from tessarr.tensorstore.schema.units import UnitLike
from tessarr.tensorstore.spec.spec import Spec
from tessarr.tensorstore.transaction.transaction import Transaction

if TYPE_CHECKING:
    from tessarr.index_space import View
    from tessarr.tensorstore.schema.data_type import dtype as DataType  # noqa: N812

__all__ = [
    "RESOURCES",
    "LayersKeywords",
    "check_parts",
    "combine_layers",
    "concat",
    "overlay",
    "overlay_domain",
    "stack",
    "with_data_type",
]

RESOURCES: Final = {"data_copy_concurrency": "data_copy_concurrency"}
"""What a spec of layers says of resources: it has an effect in the layers only."""


_NO_RESOURCES: Final = References(RESOURCES, {})


class LayersKeywords(TypedDict, total=False):
    """What layers are for, what they are opened with, and what they have to be: see `overlay`."""

    read: bool | None
    write: bool | None
    context: Context | None
    transaction: Transaction | None
    rank: int | None
    dtype: DTypeLike | None
    domain: IndexDomain | None
    shape: Iterable[int] | None
    dimension_units: Iterable[UnitLike] | None
    schema: Schema | None


_Keywords: TypeAlias = tuple[
    str,
    Context | None,
    Transaction | None,
    "DataType | None",
    int | None,
    IndexDomain | None,
    Sequence[Any] | None,
]
"""What keywords say: ways to use the handle, what it is part of, and constraints on the data type,
the rank, the domain and the units."""


_NO_KEYWORDS: Final[_Keywords] = ("", None, None, None, None, None, None)


@tells(LayersKeywords)
def overlay(layers: Iterable[Layer], **keywords: Unpack[LayersKeywords]) -> TensorStore:
    """Return the union of several handles; where they overlap the later one counts.

    Parameters
    ----------
    layers
        Handles, or specs whose domains are known, which are opened when they are needed.
    **keywords
        ``read`` and ``write``: what the result is for, by default both; ``context``: what specs are
        opened with; ``transaction``: what reads and writes take part in. As for `open`:
        ``rank``, ``dtype``, ``domain``, ``shape``, ``dimension_units`` and ``schema``. A domain
        that is given takes the place of that which contains all layers.

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
    return combine_layers(layers, "overlay", None, keywords)


@tells(LayersKeywords)
def concat(
    layers: Iterable[Layer], axis: int | str, **keywords: Unpack[LayersKeywords]
) -> TensorStore:
    """Return several handles one after the other, along one of their dimensions.

    Parameters
    ----------
    layers, **keywords
        As for `overlay`. The first layer stays where it is.
    axis
        The dimension, by its number or its label.

    Raises
    ------
    ArgumentError
        If the layers have other ranks or labels than each other, or there is no such dimension.

    Examples
    --------
    >>> import tessarr.tensorstore as ts
    >>> store = ts.concat([ts.array([1, 2, 3]), ts.array([7, 8])], axis=0)
    >>> store.read().result().tolist()
    [1, 2, 3, 7, 8]
    """
    return combine_layers(
        layers, "concat", as_label(axis) if isinstance(axis, str) else as_integer(axis), keywords
    )


@tells(LayersKeywords)
def stack(
    layers: Iterable[Layer], axis: int = 0, **keywords: Unpack[LayersKeywords]
) -> TensorStore:
    """Return several handles side by side, along a new dimension.

    Parameters
    ----------
    layers, **keywords
        As for `overlay`.
    axis
        Which dimension of the result is the new one.

    Raises
    ------
    ArgumentError
        If the layers have other ranks or labels than each other, or there is no such dimension.

    Examples
    --------
    >>> import tessarr.tensorstore as ts
    >>> store = ts.stack([ts.array([1, 2]), ts.array([7, 8])], axis=1)
    >>> store.read().result().tolist()
    [[1, 7], [2, 8]]
    """
    return combine_layers(layers, "stack", as_integer(axis), keywords)


def combine_layers(
    layers: Any,
    how: str,
    axis: int | str | None,
    keywords: LayersKeywords,
    references: References = _NO_RESOURCES,
) -> TensorStore:
    """Return the handle of layers, which are put together as `tessarr.index_space.Layers` says."""
    found = tuple(layers)
    ways, context, taking_part, data_type, rank, within, units = (
        _read_keywords(keywords) if keywords else _NO_KEYWORDS
    )
    data_type, views, mode, transaction, specs = _common_properties(found, data_type, taking_part)
    if context is not None:
        references = references.bind(context)
    given = None if within is None else within._as_view()
    placed = Layers.of(views, how, axis, rank, given)
    if specs:
        found = _bind_specs(found, data_type, context)
    driver = StackDriver(found, placed, data_type, units, references)
    if ways:
        mode = _check_mode(mode, ways)
    return build_handle(driver, placed.whole, mode, transaction)


def _read_keywords(keywords: LayersKeywords) -> _Keywords:
    options = given(keywords, LayersKeywords)
    ways = "".join([way[0] for way in ("read", "write") if options.pop(way, False)])
    context = of_class(options.pop("context", None), Context, "context")
    transaction = of_class(options.pop("transaction", None), Transaction, "transaction")
    schema = Schema()
    schema.update(**options)
    check_parts(schema)
    parts = schema.dtype, schema.rank, schema.domain, schema.dimension_units
    return ways, context, transaction, *parts


def _common_properties(
    layers: Sequence[Layer], data_type: DataType | None, given: Transaction | None
) -> tuple[DataType, list[View], str, Transaction | None, bool]:
    """Return what layers agree upon, to make one of them.

    It is the data type of all, a view of each, what some can do, the transaction, and whether there
    are specs. Specs are opened in the transaction that is given.
    """
    views: list[View] = []
    possible, common, specs = "rw", given, False
    found: DataType | None
    for layer in layers:
        if isinstance(layer, TensorStore):
            found, own, mode = layer._driver.dtype, layer._transaction, layer._mode
            view = layer._as_view()
        elif isinstance(layer, Spec):
            if layer.domain is None:
                raise ArgumentError(f"layer {len(views)} has to have a domain")
            found, own, mode = layer.dtype, given, "rw"
            view, specs = layer._as_view(), True
        else:
            raise TypeError(f"a layer is a TensorStore or a Spec, not {type(layer).__name__}")
        if found is not data_type and found is not None:
            if data_type is not None and found != data_type:
                raise ArgumentError(f"layer {len(views)} has {found}, and {data_type} is needed")
            data_type = found
        if not views:
            possible, common = mode, own
        elif own is not common:
            raise ArgumentError(f"layer {len(views)} is in another transaction than layer 0")
        elif mode != possible:
            possible = "".join(sorted({*possible, *mode}))
        views.append(view)
    if data_type is None:
        raise ArgumentError("no layer has a data type that is known: it has to be given")
    if given is not None and common is not given and common is not None:
        raise ArgumentError("the layers are in another transaction than that given")
    return data_type, views, possible, given or common, specs


def overlay_domain(layers: Iterable[Layer], within: IndexDomain | None) -> IndexDomain:
    """Return the smallest domain that contains those of all layers, with the bounds of another."""
    views = [layer._as_view() for layer in layers]
    placed = Layers.of(views, "overlay", None, None, None if within is None else within._as_view())
    return IndexTransform._of_view(placed.whole).domain


def with_data_type(layer: Spec, data_type: DataType) -> Spec:
    """Return a layer with its data type, where that is open."""
    if layer.dtype is not None:
        return layer
    made = layer.copy()
    made.update(dtype=data_type)
    return made


def _bind_specs(
    layers: tuple[Layer, ...], data_type: DataType, context: Context | None
) -> tuple[Layer, ...]:
    """Return the layers; specs as they are opened when they are needed."""
    shared = own() if context is None else context
    return tuple(
        [
            layer
            if isinstance(layer, TensorStore)
            else with_data_type(layer, data_type)._bound(shared)
            for layer in layers
        ]
    )


def _check_mode(possible: str, asked: str) -> str:
    """Return what is asked for, if it can be done with some layer."""
    for way, action in (("r", "read"), ("w", "written")):
        if way in asked and way not in possible:
            raise ArgumentError(f"no layer can be {action}: all were opened for something else")
    return asked


def check_parts(schema: Schema) -> None:
    """Refuse constraints on what layers do not have in common.

    Raises
    ------
    ArgumentError
        If there are any.
    """
    if schema.codec is not None:
        raise ArgumentError("a stack has no codec")
    if schema.fill_value is not None:
        raise ArgumentError("a stack has no fill value")
    # A layout may be there and say nothing.
    if set(schema.chunk_layout.to_json()) - {"rank"}:
        raise ArgumentError("a stack has no chunk layout")
