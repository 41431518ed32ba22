"""Schemas: constraints on a new array, or properties of an open one.

A schema only gains constraints. The rank, the data type, the domain and the units are hard
constraints; chunk layouts and codecs define how they merge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Self, TypedDict, Unpack

import numpy.typing as npt

from tessarr._safe_repr import safe_repr
from tessarr.errors import ArgumentError
from tessarr.format.registry import set_public_module, with_keywords
from tessarr.index_space import Bounded, IndexDomain, IndexTransform, View
from tessarr.index_space.dimension_names import as_integer as index64
from tessarr.tensorstore.json.format_json import format_repr, sort_members
from tessarr.tensorstore.json.parse import (
    check_integers,
    check_known,
    integer,
    json_conflict,
    read_items,
    read_object,
    refuse_unknown,
    to_plain_json,
)
from tessarr.tensorstore.json.pickling import Copyable, Picklable
from tessarr.tensorstore.schema import propagate
from tessarr.tensorstore.schema.chunk_layout import ChunkLayout
from tessarr.tensorstore.schema.codec_spec import CodecSpec
from tessarr.tensorstore.schema.data_type import DTypeLike
from tessarr.tensorstore.schema.data_type import dtype as DataType  # noqa: N812
from tessarr.tensorstore.schema.fill_value import (
    fill_from_json,
    fill_to_json,
    freeze,
    is_same_fill,
    read_fill,
)
from tessarr.tensorstore.schema.layout_constraints import (
    NO_LAYOUT,
    LayoutConstraints,
    propagate_layout,
    propagate_layout_back,
)
from tessarr.tensorstore.schema.units import (
    UnitLike,
    Units,
    merge_units,
    propagate_units,
    propagate_units_back,
    units_from_json,
    units_of,
)
from tessarr.types import JSONObject

__all__ = ["MAX_RANK", "Schema", "SchemaKeywords"]

MAX_RANK: Final = 32
_new: Final = object.__new__


class SchemaKeywords(TypedDict, total=False):
    """The keywords of `Schema`: constraints on an open array or on a new array."""

    rank: int | None
    dtype: DTypeLike | None
    domain: IndexDomain | None
    shape: Iterable[int] | None
    chunk_layout: ChunkLayout | None
    codec: CodecSpec | None
    fill_value: npt.ArrayLike | None
    dimension_units: Iterable[UnitLike] | None
    schema: Schema | None


class Schema(Bounded, Picklable, Copyable):
    """Constraints on an array, which must hold or apply if possible.

    Parameters
    ----------
    json : dict or Schema, optional
        All constraints as JSON.
    rank : int, optional
        The number of dimensions.
    dtype : dtype_like, optional
        The data type.
    domain : IndexDomain, optional
        The bounds and labels; infinite implicit bounds are unconstrained.
    shape : sequence of int, optional
        The shape of a domain with the origin zero.
    chunk_layout : ChunkLayout, optional
        The chunk shapes and their order in memory.
    codec : CodecSpec, optional
        The encoding of chunks.
    fill_value : array_like, optional
        The value of elements that no stored chunk holds; it broadcasts to the domain.
    dimension_units : sequence of unit_like, optional
        The physical length of one step along each dimension.
    schema : Schema, optional
        Further constraints.

    Raises
    ------
    ArgumentError
        If constraints contradict each other.

    Examples
    --------
    >>> schema = Schema(dtype="uint8", shape=[10, 20], dimension_units=["4nm", None])
    >>> schema[2:5, 3]
    Schema({
      'dimension_units': [[4.0, 'nm']],
      'domain': {'exclusive_max': [5], 'inclusive_min': [2]},
      'dtype': 'uint8',
      'rank': 1,
    })
    """

    __slots__ = (
        "__weakref__",
        *("_codec", "_domain", "_dtype", "_fill", "_layout", "_rank", "_units"),
    )
    __hash__ = None  # type: ignore[assignment]

    _rank: int | None
    _dtype: DataType | None
    _domain: IndexDomain | None
    _layout: LayoutConstraints
    _codec: CodecSpec | None
    _fill: npt.NDArray[Any] | None
    _units: Units

    @with_keywords(__name__)
    def __init__(self, json: Any = ..., **parts: Unpack[SchemaKeywords]) -> None:
        self._rank = self._dtype = self._domain = self._codec = self._fill = None
        self._layout, self._units = NO_LAYOUT, ()
        if json is not ...:
            if parts:
                raise json_conflict(parts)
            self._assign(json if isinstance(json, Schema) else Schema._parse(json))
        elif parts:
            check_known(parts, _PARTS)
            self._add(parts)

    @classmethod
    def _of(cls, parts: Mapping[str, Any]) -> Schema:
        """Return a schema from known keywords."""
        new = cls()
        new._add(parts)
        return new

    @classmethod
    def _parse(cls, json: Any) -> Schema:
        new = cls()
        check_integers(json)
        new._read(read_object(json, "schema"))
        return new

    def _read(self, members: dict[str, Any]) -> None:
        if "rank" in members:
            self._fix_rank(integer(0, MAX_RANK)(members.pop("rank"), "rank"), "rank")
        if "dtype" in members:
            name = to_plain_json(members.pop("dtype"))
            if not isinstance(name, str):
                raise ArgumentError(f"dtype: {safe_repr(name)} is not the name of a data type")
            self._dtype = DataType(name)
        if "domain" in members:
            self._add_domain(IndexDomain(json=read_object(members.pop("domain"), "domain")))
        if "chunk_layout" in members:
            layout = ChunkLayout(read_object(members.pop("chunk_layout"), "chunk_layout"))
            self._add_layout(layout._constraints)
        if "codec" in members:
            self._add_codec(CodecSpec(members.pop("codec")))
        if "fill_value" in members:
            fill = fill_from_json(to_plain_json(members.pop("fill_value")), self._dtype)
            self._add_fill(freeze(fill))
        if "dimension_units" in members:
            self._add_units(units_from_json(members.pop("dimension_units")))
        refuse_unknown(members, "schema")

    @with_keywords(__name__)
    def update(self, **parts: Unpack[SchemaKeywords]) -> None:
        """Add constraints; after an error, the schema is unchanged.

        Parameters
        ----------
        **parts
            The keywords of the class.

        Raises
        ------
        ArgumentError
            If constraints contradict each other.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> schema = ts.Schema(dtype=ts.int8)
        >>> schema.update(rank=2, fill_value=3)
        >>> schema.to_json()
        {'dtype': 'int8', 'fill_value': 3, 'rank': 2}
        >>> schema.update(shape=[4])
        Traceback (most recent call last):
            ...
        tessarr.errors.ArgumentError: domain: rank 1 does not match the rank 2
        """
        check_known(parts, _PARTS)
        new = self.copy()
        new._add(parts)
        self._assign(new)

    def _add(self, parts: Mapping[str, Any]) -> None:
        for name, add in _PARTS.items():
            value = parts.get(name)
            if value is not None:
                add(self, value)

    def _merge(self, other: Schema) -> None:
        if other._rank is not None and other._domain is None:
            self._fix_rank(other._rank, "schema")
        if other._dtype is not None:
            self._add_dtype(other._dtype)
        if other._domain is not None:
            self._add_domain(other._domain)
        if other._layout is not NO_LAYOUT:
            self._add_layout(other._layout)
        if other._fill is not None:
            self._add_fill(other._fill)
        if other._codec is not None:
            self._add_codec(other._codec)
        if other._units:
            self._add_units(other._units)

    def _fix_rank(self, rank: int, what: str) -> None:
        if not 0 <= rank <= MAX_RANK:
            raise ArgumentError(f"{what}: the rank {rank} is not one from 0 to {MAX_RANK}")
        if self._rank is not None and self._rank != rank:
            raise ArgumentError(f"{what}: rank {rank} does not match the rank {self._rank}")
        if self._fill is not None and self._fill.ndim > rank:
            raise ArgumentError(
                f"{what}: rank {rank} is less than that of the fill value, {self._fill.ndim}"
            )
        self._rank = rank

    def _add_dtype(self, dtype: DataType) -> None:
        if self._dtype is None:
            self._dtype = dtype
        elif self._dtype is not dtype and self._dtype != dtype:
            raise ArgumentError(f"dtype {dtype.name!r} does not match {self._dtype.name!r}")

    def _add_domain(self, domain: IndexDomain) -> None:
        self._fix_rank(domain.rank, "domain")
        merged = domain if self._domain is None else propagate.merge_domains(self._domain, domain)
        if self._fill is not None and not propagate.is_broadcastable(self._fill.shape, merged):
            raise ArgumentError(
                f"domain: {merged} does not fit a fill value of shape {self._fill.shape}"
            )
        self._domain = merged

    def _add_layout(self, layout: LayoutConstraints) -> None:
        merged = self._layout.merge(layout)
        if merged.rank >= 0:
            self._fix_rank(merged.rank, "chunk_layout")
        self._layout = merged

    def _add_codec(self, codec: CodecSpec) -> None:
        self._codec = codec if self._codec is None else self._codec._merge_with(codec)

    def _add_fill(self, fill: npt.NDArray[Any]) -> None:
        if self._domain is not None and not propagate.is_broadcastable(fill.shape, self._domain):
            raise ArgumentError(f"fill_value: shape {fill.shape} does not fit {self._domain}")
        if self._rank is not None and fill.ndim > self._rank:
            raise ArgumentError(f"fill_value: {fill.ndim} dimensions, the rank is {self._rank}")
        if self._fill is not None and not is_same_fill(self._fill, fill):
            raise ArgumentError(
                f"fill_value {fill_to_json(fill)} does not match {fill_to_json(self._fill)}"
            )
        if self._fill is None:
            self._fill = fill

    def _add_units(self, units: Units) -> None:
        if units:
            self._fix_rank(len(units), "dimension_units")
            merged = merge_units(self._units, units)
            self._units = merged if any(merged) else ()

    def _assign(self, other: Schema) -> None:
        for name in Schema.__annotations__:
            setattr(self, name, getattr(other, name))

    @property
    def _is_empty(self) -> bool:
        """Whether the schema has no constraints."""
        if self._rank is not None or self._dtype is not None or self._layout is not NO_LAYOUT:
            return False
        return self._codec is None and self._fill is None  # other constraints set the rank

    def _merge_with(self, other: Schema) -> Schema:
        """Merge these constraints with others, as a new schema.

        Raises
        ------
        ArgumentError
            If the constraints contradict each other.
        """
        if self._is_empty:
            return other.copy()
        new = self.copy()
        new._merge(other)
        return new

    def copy(self) -> Self:
        """Return a copy of the schema.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> schema = ts.Schema(dtype=ts.int8)
        >>> other = schema.copy()
        >>> other.update(rank=1)
        >>> other.rank, schema.rank
        (1, None)
        """
        new = _new(type(self))
        new._assign(self)
        return new

    def _of_elements(self, *, fill: bool) -> Schema:
        """Return the data type, the units and, if `fill` is true, the fill value."""
        schema = Schema()
        schema._dtype, schema._units = self._dtype, self._units
        schema._fill = self._fill if fill else None
        return schema

    def _as_view(self) -> View:
        if self._rank is None:
            raise ArgumentError("the schema has no rank: it cannot be indexed")
        domain = IndexDomain(self._rank) if self._domain is None else self._domain
        return domain._as_view().with_maps()

    def _with_view(self, view: View) -> Self:
        return self._propagate(IndexTransform._of_view(view))

    @property
    def T(self) -> Self:  # noqa: N802 (the name in NumPy)
        """The schema with reversed dimensions, or a copy if the rank is unknown.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.Schema(shape=[3, 4], dimension_units=["nm", "s"]).T.dimension_units
        (Unit(1, "s"), Unit(1, "nm"))
        """
        return self.copy() if self._rank is None else super().T

    def _propagate(self, transform: IndexTransform) -> Self:
        """Return the schema of a view of the array.

        Raises
        ------
        ArgumentError
            If the view does not fit the schema.
        """
        if self._domain is not None:
            transform = transform._with_base_bounds(self._domain)
        new = self._propagate_fields(transform)
        if self._domain is None:
            new._domain = None
        return new

    def _propagate_fields(
        self, view: IndexTransform, layout: LayoutConstraints | None = None
    ) -> Self:
        """Return the schema of a view with a final domain.

        Parameters
        ----------
        view
            The view of the array.
        layout
            The chunk layout of the view, if it is known.

        Raises
        ------
        ArgumentError
            If the view does not fit the schema.
        """
        new = _new(type(self))
        new._dtype, new._codec, new._fill = self._dtype, self._codec, self._fill
        new._layout = propagate_layout(self._layout, view) if layout is None else layout
        new._units = propagate_units(self._units, view) if self._units else ()
        if new._fill is not None and new._fill.ndim and not view._is_identity:
            new._fill = freeze(propagate.propagate_array(new._fill, view, self._domain))
        new._rank, new._domain = view.rank, view.domain
        return new

    def _propagate_back(self, transform: IndexTransform) -> Schema:
        """Return the schema of the base; this schema describes its view.

        Raises
        ------
        ArgumentError
            If a constraint does not propagate to the base.
        """
        if self._rank not in {None, transform.input_rank}:
            raise ArgumentError(
                f"a schema of rank {self._rank} for a view of rank {transform.input_rank}"
            )
        new = self.copy()
        new._rank = transform.output_rank
        new._layout = propagate_layout_back(self._layout, transform)
        if self._domain is not None:
            new._domain = propagate.propagate_domain_back(self._domain, transform)
        if self._fill is not None:
            new._fill = freeze(propagate.propagate_array_back(self._fill, transform))
        if self._units:
            new._units = propagate_units_back(self._units, transform)
        return new

    @property
    def rank(self) -> int | None:
        """The number of dimensions, or None if it is unknown.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.Schema(shape=[3, 4]).rank, ts.Schema(dtype=ts.int8).rank
        (2, None)
        """
        return self._rank

    ndim = rank

    @property
    def dtype(self) -> DataType | None:
        """The data type, or None if it is unknown.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.Schema(dtype="float32").dtype, ts.Schema(rank=1).dtype
        (dtype("float32"), None)
        """
        return self._dtype

    @property
    def domain(self) -> IndexDomain | None:
        """The domain, or None if it is unknown.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.Schema(shape=[3, 4]).domain, ts.Schema(rank=2).domain
        ({ [0, 3), [0, 4) }, None)
        """
        return self._domain

    @property
    def chunk_layout(self) -> ChunkLayout:
        """A copy of the constraints on chunks.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> layout = ts.ChunkLayout(chunk_shape=[3, 4])
        >>> ts.Schema(chunk_layout=layout).chunk_layout == layout
        True
        """
        return ChunkLayout._of(self._layout)

    @property
    def codec(self) -> CodecSpec | None:
        """The constraints on the encoding, or None.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.Schema(codec=ts.CodecSpec({"driver": "zarr3", "codecs": ["crc32c"]})).codec
        CodecSpec({'codecs': [{'name': 'crc32c'}], 'driver': 'zarr3'})
        """
        return self._codec

    @property
    def fill_value(self) -> npt.NDArray[Any] | None:
        """The fill value as a read-only array, or None if it is unknown.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.Schema(dtype=ts.int16, fill_value=7).fill_value
        array(7, dtype=int16)
        """
        return None if self._fill is None else self._fill.view()

    @property
    def dimension_units(self) -> Units | None:
        """The unit of each dimension, or None if the rank is unknown.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.Schema(rank=2).dimension_units, ts.Schema(dimension_units=["nm", 3]).dimension_units
        ((None, None), (Unit(1, "nm"), Unit(3, "")))
        """
        if self._rank is None:
            return None
        return self._units or (None,) * self._rank

    def to_json(self, include_defaults: bool = False) -> JSONObject:  # noqa: FBT002
        """Return the constraints as JSON.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.Schema(rank=1, dtype=ts.int8, dimension_units=["4 nm"]).to_json()
        {'dimension_units': [[4.0, 'nm']], 'dtype': 'int8', 'rank': 1}
        """
        result: JSONObject = {}
        if self._rank is not None:
            result["rank"] = self._rank
        if self._dtype is not None:
            result["dtype"] = self._dtype.to_json()
        if self._domain is not None:
            result["domain"] = self._domain.to_json()
        layout = self._layout
        if layout is not NO_LAYOUT and (layout.has_constraints or include_defaults):
            # The rank follows from the rank of the schema.
            whole = ChunkLayout._of(layout) if include_defaults else layout
            if layout_json := whole.to_json():
                result["chunk_layout"] = layout_json
        if self._codec is not None:
            result["codec"] = self._codec.to_json()
        if self._fill is not None:
            result["fill_value"] = fill_to_json(self._fill)
        if any(self._units):
            result["dimension_units"] = [
                None if unit is None else unit.to_json() for unit in self._units
            ]
        return sort_members(result)

    def _key(self) -> tuple[Any, ...]:
        """Return a key that equal schemas share; the key ignores the fill value."""
        units = self._units if any(self._units) else ()
        layout = self._layout.key() if self._layout.has_constraints else None
        return self._rank, self._dtype, self._domain, self._codec, units, layout

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Schema):
            return NotImplemented
        if self._fill is None or other._fill is None:
            return self._fill is other._fill and self._key() == other._key()
        return is_same_fill(self._fill, other._fill) and self._key() == other._key()

    def __repr__(self) -> str:
        return format_repr("Schema", self.to_json())


def _add_rank(schema: Schema, value: Any) -> None:
    rank = index64(value)
    if rank != -1:  # an unknown rank
        schema._fix_rank(rank, "rank")


def _instance(value: Any, wanted: type[Any], what: str) -> Any:
    if not isinstance(value, wanted):
        raise TypeError(f"{what}: {safe_repr(value)} is not a {wanted.__name__}")
    return value


_PARTS: Final[Mapping[str, Callable[[Schema, Any], None]]] = {
    "rank": _add_rank,
    "dtype": lambda new, dtype: new._add_dtype(DataType(dtype)),
    "domain": lambda new, domain: new._add_domain(_instance(domain, IndexDomain, "domain")),
    "shape": lambda new, shape: new._add_domain(_domain_of(shape)),
    "chunk_layout": lambda new, layout: new._add_layout(
        _instance(layout, ChunkLayout, "chunk_layout")._constraints
    ),
    "codec": lambda new, codec: new._add_codec(_instance(codec, CodecSpec, "codec")),
    "fill_value": lambda new, fill: new._add_fill(read_fill(fill, new._dtype)),
    "dimension_units": lambda new, units: new._add_units(units_of(units)),
    "schema": lambda new, schema: new._merge(_instance(schema, Schema, "schema")),
}
"""Functions that add constraints, by keyword, in the order of evaluation."""


def _domain_of(shape: Iterable[int]) -> IndexDomain:
    if not isinstance(shape, (list, tuple)):
        if isinstance(shape, (str, bytes, Mapping)) or not hasattr(shape, "__iter__"):
            raise TypeError(f"shape: {safe_repr(shape)} is not a list")
        shape = read_items(shape, "shape")
    return IndexDomain._shaped([n if type(n) is int else index64(n) for n in shape])


set_public_module("tessarr.tensorstore", Schema)
