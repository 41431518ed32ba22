"""Several handles as one: `overlay`, `concat` and `stack`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypedDict, Unpack

from tessarr.errors import ArgumentError
from tessarr.format.registry import set_public_module, with_keywords
from tessarr.index_space import IndexDomain, IndexTransform, LayerStack, View
from tessarr.index_space.dimension_names import as_integer, as_label
from tessarr.tensorstore.context.context import Context, new_context
from tessarr.tensorstore.context.references import References
from tessarr.tensorstore.drivers.stack.stack_driver import Layer, StackDriver
from tessarr.tensorstore.handle.handle import TensorStore, build_handle
from tessarr.tensorstore.json.parse import check_class, drop_absent
from tessarr.tensorstore.schema.data_type import DTypeLike
from tessarr.tensorstore.schema.schema import Schema
from tessarr.tensorstore.schema.units import UnitLike
from tessarr.tensorstore.spec.resource_spec import COPY_RESOURCES
from tessarr.tensorstore.spec.spec import Spec
from tessarr.tensorstore.transaction.transaction import Transaction

if TYPE_CHECKING:
    from tessarr.tensorstore.schema.data_type import dtype as DataType  # noqa: N812

__all__ = [
    "LayersKeywords",
    "check_parts",
    "combine_layers",
    "concat",
    "overlay",
    "overlay_domain",
    "stack",
    "with_data_type",
]

_NO_RESOURCES: Final = References(COPY_RESOURCES, {})


class LayersKeywords(TypedDict, total=False):
    """The mode, the context and the schema of layers: see `overlay`."""

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


class _Options(NamedTuple):
    """The values of the keywords: the modes, the context, the transaction and constraints."""

    modes: str = ""
    context: Context | None = None
    transaction: Transaction | None = None
    dtype: DataType | None = None
    rank: int | None = None
    domain: IndexDomain | None = None
    units: Sequence[Any] | None = None


@with_keywords(__name__)
def overlay(layers: Iterable[Layer], **keywords: Unpack[LayersKeywords]) -> TensorStore:
    """Return the union of several handles; a later one hides earlier ones.

    Parameters
    ----------
    layers
        Handles, or specs with known domains, which the first use opens.
    **keywords
        ``read`` and ``write``: the mode of the result, by default both; ``context``: opens specs;
        ``transaction``: the transaction of reads and writes. As for `open`: ``rank``, ``dtype``,
        ``domain``, ``shape``, ``dimension_units`` and ``schema``. A domain replaces the union of
        the layers' domains.

    Raises
    ------
    ArgumentError
        If the layers do not match.

    Examples
    --------
    >>> import tessarr.tensorstore as ts
    >>> store = ts.overlay([ts.array([1, 2, 3]), ts.array([7, 8]).translate_to[2]])
    >>> store.read().result().tolist()
    [1, 2, 7, 8]
    """
    return combine_layers(layers, "overlay", None, keywords)


@with_keywords(__name__)
def concat(
    layers: Iterable[Layer], axis: int | str, **keywords: Unpack[LayersKeywords]
) -> TensorStore:
    """Return several handles one after the other, along one of their dimensions.

    Parameters
    ----------
    layers, **keywords
        As for `overlay`. The first layer keeps its position.
    axis
        The dimension, by its number or its label.

    Raises
    ------
    ArgumentError
        If the layers differ in rank or labels, or the dimension does not exist.

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


@with_keywords(__name__)
def stack(
    layers: Iterable[Layer], axis: int = 0, **keywords: Unpack[LayersKeywords]
) -> TensorStore:
    """Return several handles side by side, along a new dimension.

    Parameters
    ----------
    layers, **keywords
        As for `overlay`.
    axis
        The position of the new dimension in the result.

    Raises
    ------
    ArgumentError
        If the layers differ in rank or labels, or the dimension does not exist.

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
    """Return the handle of layers, combined as `tessarr.index_space.LayerStack` describes."""
    layer_list = tuple(layers)
    options = _read_keywords(keywords) if keywords else _Options()
    context, within = options.context, options.domain
    data_type, views, mode, transaction, specs = _common_properties(
        layer_list, options.dtype, options.transaction
    )
    if context is not None:
        references = references.bind(context)
    bounds = None if within is None else within._as_view()
    placed = LayerStack.build(views, how, axis, options.rank, bounds)
    if specs:
        layer_list = _bind_specs(layer_list, data_type, context)
    driver = StackDriver(layer_list, placed, data_type, options.units, references)
    if options.modes:
        mode = _check_mode(mode, options.modes)
    return build_handle(driver, placed.domain, mode, transaction)


def _read_keywords(keywords: LayersKeywords) -> _Options:
    options = drop_absent(keywords, LayersKeywords)
    modes = "".join([name[0] for name in ("read", "write") if options.pop(name, False)])
    context = check_class(options.pop("context", None), Context, "context")
    transaction = check_class(options.pop("transaction", None), Transaction, "transaction")
    schema = Schema()
    schema.update(**options)
    check_parts(schema)
    parts = schema.dtype, schema.rank, schema.domain, schema.dimension_units
    return _Options(modes, context, transaction, *parts)


def _common_properties(
    layers: Sequence[Layer], data_type: DataType | None, transaction: Transaction | None
) -> tuple[DataType, list[View], str, Transaction | None, bool]:
    """Return the common properties of layers.

    These are the data type, a view of each layer, the possible modes, the transaction, and whether
    any layer is a spec. Specs are opened in the transaction of the keywords.
    """
    views: list[View] = []
    possible, common, specs = "rw", transaction, False
    layer_type: DataType | None
    for layer in layers:
        if isinstance(layer, TensorStore):
            layer_type, joined, mode = layer._driver.dtype, layer._transaction, layer._mode
            view = layer._as_view()
        elif isinstance(layer, Spec):
            if layer.domain is None:
                raise ArgumentError(f"layer {len(views)} needs a domain")
            layer_type, joined, mode = layer.dtype, transaction, "rw"
            view, specs = layer._as_view(), True
        else:
            raise TypeError(f"a layer is a TensorStore or a Spec, not {type(layer).__name__}")
        if layer_type is not data_type and layer_type is not None:
            if data_type is not None and layer_type != data_type:
                raise ArgumentError(f"layer {len(views)} has {layer_type}, not {data_type}")
            data_type = layer_type
        if not views:
            possible, common = mode, joined
        elif joined is not common:
            raise ArgumentError(f"layer {len(views)} is in a different transaction than layer 0")
        elif mode != possible:
            possible = "".join(sorted({*possible, *mode}))
        views.append(view)
    if data_type is None:
        raise ArgumentError("no layer has a known data type: give dtype")
    if transaction is not None and common is not transaction and common is not None:
        raise ArgumentError("the layers are in a different transaction than the argument")
    return data_type, views, possible, transaction or common, specs


def overlay_domain(layers: Iterable[Layer], within: IndexDomain | None) -> IndexDomain:
    """Return the smallest domain that contains all layers, with the bounds of `within`."""
    views = [layer._as_view() for layer in layers]
    placed = LayerStack.build(
        views, "overlay", None, None, None if within is None else within._as_view()
    )
    return IndexTransform._of_view(placed.domain).domain


def with_data_type(layer: Spec, data_type: DataType) -> Spec:
    """Return a layer with `data_type`, if the layer has none."""
    if layer.dtype is not None:
        return layer
    spec = layer.copy()
    spec.update(dtype=data_type)
    return spec


def _bind_specs(
    layers: tuple[Layer, ...], data_type: DataType, context: Context | None
) -> tuple[Layer, ...]:
    """Return the layers, with specs bound to a context."""
    shared = new_context() if context is None else context
    return tuple(
        layer if isinstance(layer, TensorStore) else with_data_type(layer, data_type)._bound(shared)
        for layer in layers
    )


def _check_mode(possible: str, requested: str) -> str:
    """Return the requested mode, if some layer supports it."""
    for letter, action in (("r", "read"), ("w", "written")):
        if letter in requested and letter not in possible:
            raise ArgumentError(f"no layer can be {action}: all were opened in another mode")
    return requested


def check_parts(schema: Schema) -> None:
    """Raise an error for constraints that layers cannot have in common.

    Raises
    ------
    ArgumentError
        If the schema has such constraints.
    """
    if schema.codec is not None:
        raise ArgumentError("a stack has no codec")
    if schema.fill_value is not None:
        raise ArgumentError("a stack has no fill value")
    # A layout without constraints is accepted.
    if set(schema.chunk_layout.to_json()) - {"rank"}:
        raise ArgumentError("a stack has no chunk layout")


set_public_module("tessarr.tensorstore", concat, overlay, stack)
