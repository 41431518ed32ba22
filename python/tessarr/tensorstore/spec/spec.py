"""Specs: JSON values that describe what to open or create."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final, Self, Unpack

from tessarr._safe_repr import safe_repr
from tessarr.errors import ArgumentError, UnsupportedError
from tessarr.format.registry import set_public_module, with_keywords
from tessarr.index_space import Bounded, Dim, Indexable, IndexDomain, IndexTransform
from tessarr.store import Store
from tessarr.tensorstore.context.context import Context, new_context
from tessarr.tensorstore.context.references import (
    STRIP_RESOURCES,
    Naming,
    References,
    bind_resources,
    unbind_resources,
)
from tessarr.tensorstore.json.format_json import format_repr, sort_members
from tessarr.tensorstore.json.parse import (
    as_bool,
    check_class,
    check_integers,
    drop_absent,
    error_class,
    integer,
    read_object,
    refuse_unknown,
    take_member,
    text,
    to_plain_json,
)
from tessarr.tensorstore.kvstore import KvStore
from tessarr.tensorstore.kvstore.kvstore_spec import DRIVERS as STORES
from tessarr.tensorstore.schema.chunk_layout import ChunkLayout
from tessarr.tensorstore.schema.codec_spec import CodecSpec
from tessarr.tensorstore.schema.data_type import dtype as DataType  # noqa: N812
from tessarr.tensorstore.schema.schema import MAX_RANK, Schema
from tessarr.tensorstore.spec.array_url import spec_of_url
from tessarr.tensorstore.spec.driver_spec import (
    DRIVERS,
    OF_SCHEMA,
    DriverSpec,
    SpecChanges,
    SpecKeywords,
    driver_spec,
)
from tessarr.tensorstore.spec.memo import get_or_parse
from tessarr.tensorstore.spec.open_mode import OpenMode
from tessarr.tensorstore.spec.serialize import (
    context_json,
    pickled_json,
    spec_to_json,
    to_minimal_json,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from tessarr.index_space import View
    from tessarr.tensorstore.context.references import ResourceChange
    from tessarr.tensorstore.schema.units import Units
    from tessarr.types import JSONObject

__all__ = ["Spec", "spec_of"]

_new: Final = object.__new__


class Spec(Bounded, Indexable):
    """A description of what to open or create.

    Parameters
    ----------
    json : dict, str or Spec
        The spec as JSON, or a URL: ``file:///path|zarr3:``.

    Raises
    ------
    ArgumentError
        If the JSON is not a valid spec.

    Notes
    -----
    An indexed spec opens a view of the array.

    Examples
    --------
    >>> spec = Spec("memory://data/a|zarr3:")
    >>> spec.update(shape=[30, 40], dtype="int8", create=True)
    >>> spec[10:20, 3:].to_json()["transform"]
    {'input_exclusive_max': [20, [40]], 'input_inclusive_min': [10, 3]}
    """

    __slots__ = ("__weakref__", "_context", "_driver", "_view")

    _driver: DriverSpec
    _view: IndexTransform | None
    _context: Any

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, json: Any) -> None:
        self._assign(json if isinstance(json, Spec) else self._from_json(json))

    @classmethod
    def _from_json(cls, json: Any) -> Spec:
        """Return the spec of JSON or of a URL; equal JSON shares one spec."""
        spec: Spec = get_or_parse(json, cls._parse)
        return spec

    @classmethod
    def _parse(cls, json: Any) -> Self:
        json = spec_of_url(json) if isinstance(json, str) else json
        check_integers(json)
        members = read_object(json, "spec")
        if "driver" not in members:
            raise ArgumentError('"driver" is missing: a spec needs the name of its driver')
        name = text(members.pop("driver"), "driver")
        if name in STORES and name not in DRIVERS:
            members = {"kvstore": {"driver": name, **members}}
            name = "auto"
        context = take_member(members, "context", lambda json, _: Context.Spec(to_plain_json(json)))
        view = take_member(members, "transform", read_object)
        new = object.__new__(cls)
        new._view = None if view is None else IndexTransform(json=view)
        new._context = context
        new._driver = driver_spec(name).parse(members, new._parse_schema(members))
        refuse_unknown(members)
        return new

    def _parse_schema(self, members: dict[str, Any]) -> Schema:
        schema = Schema(read_object(members.pop("schema", {}), "schema"))
        if "dtype" in members:
            name = to_plain_json(members.pop("dtype"))
            if not isinstance(name, str):
                raise error_class(name)(
                    f'"dtype": {safe_repr(name)} is not the name of a data type'
                )
            schema.update(dtype=name)
        if "rank" in members:
            rank = integer(0, MAX_RANK)(members.pop("rank"), "rank")
            if self._view is None:
                schema.update(rank=rank)
            elif self._view.input_rank != rank:
                raise ArgumentError(
                    f'"rank": {rank} does not match that of the transform, {self._view.input_rank}'
                )
        if self._view is not None:
            schema.update(rank=self._view.output_rank)
        return schema

    @classmethod
    def _of(cls, driver: DriverSpec, view: IndexTransform | None, context: Any = None) -> Self:
        new = _new(cls)
        new._driver, new._view, new._context = driver, view, context
        return new

    def _assign(self, other: Spec) -> None:
        self._driver, self._view, self._context = other._driver, other._view, other._context

    # Indexing

    def _known_view(self) -> IndexTransform | None:
        """Return the view, or None if its domain is unknown."""
        if self._view is not None:
            return self._view
        known = self._driver.outline().domain
        return None if known is None else IndexTransform._whole(known)

    def _require_view(self) -> IndexTransform:
        view = self._known_view()
        if view is not None:
            return view
        rank = self._driver.outline().rank
        if rank is None:
            raise ArgumentError("the rank of the spec is not known: it cannot be indexed")
        return IndexTransform(IndexDomain._of((Dim(),) * rank))

    def _as_view(self) -> View:
        return self._require_view()._as_view()

    def _with_view(self, view: View) -> Self:
        return self._of(self._driver, IndexTransform._of_view(view), self._context)

    # Properties

    @property
    def transform(self) -> IndexTransform | None:
        """The index transform from the view to the array, or None if the domain is unknown.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> spec = ts.Spec({"driver": "array", "array": [1, 2, 3], "dtype": "int8"})
        >>> spec[1:].transform
        Rank 1 -> 1 index space transform:
          Input domain:
            0: [1, 3)
          Output index maps:
            out[0] = 0 + 1 * in[0]
        >>> ts.Spec("memory://|zarr3:").transform is None
        True
        """
        return self._known_view()

    @property
    def schema(self) -> Schema:
        """All constraints that need no I/O.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> spec = ts.Spec("memory://|zarr3:")
        >>> spec.update(dtype=ts.int8, rank=2)
        >>> spec.schema.to_json()
        {'chunk_layout': {'grid_origin': [0, 0]}, 'codec': {'driver': 'zarr3'}, 'dtype': 'int8',
         'rank': 2}
        """
        known = self._known_schema()
        known.update(codec=self._driver.codec())
        known._layout.resolve()
        return known

    def _known_schema(self) -> Schema:
        """Return the schema without the codec, whose constraints may contradict each other."""
        known = self._driver.effective()
        view = self._view
        return known.copy() if view is None else known._propagate_fields(view)

    @property
    def rank(self) -> int | None:
        """The number of dimensions, or None if it is unknown.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> spec = ts.Spec("memory://|zarr3:")
        >>> spec.update(shape=[3, 4])
        >>> spec.rank, spec[0].rank, ts.Spec("memory://|zarr3:").rank
        (2, 1, None)
        """
        return self._driver.outline().rank if self._view is None else self._view.input_rank

    ndim = rank

    @property
    def dtype(self) -> DataType | None:
        """The data type, or None if it is unknown.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.Spec({"driver": "zarr3", "kvstore": "memory://", "dtype": "uint8"}).dtype
        dtype("uint8")
        """
        return self._driver.outline().dtype

    @property
    def domain(self) -> IndexDomain | None:
        """The domain, or None if it is unknown.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> spec = ts.Spec("memory://|zarr3:")
        >>> spec.update(shape=[3, 4])
        >>> spec.domain, spec[1:].domain
        ({ [0, 3*), [0, 4*) }, { [1, 3*), [0, 4*) })
        """
        if self._view is not None:
            return self._view.domain
        return self._driver.outline().domain

    @property
    def chunk_layout(self) -> ChunkLayout:
        """The constraints on chunks.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> spec = ts.Spec("memory://|zarr3:")
        >>> spec.update(chunk_layout=ts.ChunkLayout(chunk_shape=[3, 4]))
        >>> spec.chunk_layout.read_chunk.shape
        (3, 4)
        """
        known = self._known_schema()
        known._layout.resolve()
        return known.chunk_layout

    @property
    def codec(self) -> CodecSpec | None:
        """The constraints on the encoding, or None.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> spec = ts.Spec("memory://|zarr3:")
        >>> spec.update(codec=ts.CodecSpec({"driver": "zarr3", "codecs": ["crc32c"]}))
        >>> spec.codec
        CodecSpec({'codecs': [{'name': 'crc32c'}], 'driver': 'zarr3'})
        """
        return self._driver.codec()

    @property
    def fill_value(self) -> npt.NDArray[Any] | None:
        """The fill value, or None if it is unknown.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> spec = ts.Spec("memory://|zarr3:")
        >>> spec.update(dtype=ts.float32, fill_value=2.5)
        >>> spec.fill_value
        array(2.5, dtype=float32)
        """
        return self._known_schema().fill_value

    @property
    def dimension_units(self) -> Units | None:
        """The units of the dimensions, or None if the rank is unknown.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> spec = ts.Spec("memory://|zarr3:")
        >>> spec.update(dimension_units=["4 nm", None])
        >>> spec.dimension_units
        (Unit(4, "nm"), None)
        """
        return None if self.rank is None else self._known_schema().dimension_units

    @property
    def open_mode(self) -> OpenMode:
        """The open mode: what opening may do.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> spec = ts.Spec("memory://|zarr3:")
        >>> spec.update(create=True)
        >>> spec.open_mode, ts.Spec("memory://|zarr3:").open_mode
        (OpenMode(create=True), OpenMode(open=True))
        """
        return self._driver.open_mode

    @property
    def kvstore(self) -> Any:
        """The `KvStore.Spec` of the array, or None.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.Spec("memory://data/|zarr3:").kvstore
        KvStore.Spec({'driver': 'memory', 'path': 'data/'})
        """
        return self._driver.kvstore

    @property
    def base(self) -> Spec | None:
        """The spec of the base if this spec is a view of a single array, else None.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> spec = ts.Spec({"driver": "array", "array": [1, 2], "dtype": "int8"})
        >>> ts.cast(spec, ts.float32).base == spec, spec.base
        (True, None)
        """
        view = self._known_view()
        result: Spec | None = self._driver.base if view is None else self._driver.base_of(view)
        return result

    @property
    def url(self) -> str:
        """The URL of the spec, without parts that a URL cannot represent.

        Raises
        ------
        ArgumentError
            If no URL can represent the spec.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.Spec({"driver": "zarr3", "kvstore": {"driver": "memory", "path": "a/"}}).url
        'memory://a/|zarr3:'
        """
        return self._driver.url

    # Changes

    @with_keywords(__name__)
    def update(
        self,
        *,
        unbind_context: bool | None = None,
        strip_context: bool | None = None,
        context: Context | None = None,
        minimal_spec: bool | None = None,
        **keywords: Unpack[SpecKeywords],
    ) -> None:
        """Add constraints or change how the spec opens; after an error, the spec is unchanged.

        Parameters
        ----------
        unbind_context
            Whether to replace bound resources by their JSON.
        strip_context
            Whether to remove resources; opening then supplies them from its context.
        context
            The context that supplies unbound resources.
        minimal_spec
            Whether to remove metadata that the metadata document contains. The view keeps its
            domain.
        **keywords
            The keywords of `open`: the open mode, the kvstore, and constraints on the dimensions of
            the view. The flags `open` and `create` replace the previous mode.

        Raises
        ------
        ArgumentError
            If constraints contradict each other.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> spec = ts.Spec("memory://|zarr3:")
        >>> spec.update(dtype=ts.int8, shape=[4], create=True)
        >>> spec.update(shape=[5])
        Traceback (most recent call last):
            ...
        tessarr.errors.ArgumentError: dimension 0: the domain [0, 5) does not match [0, 4)
        """
        check_class(context, Context, "context")
        new = self._with(keywords) if keywords else self
        if as_bool(minimal_spec, "minimal_spec"):
            new = new._minimal()
        if as_bool(unbind_context, "unbind_context"):
            new = new._unbind()
        if as_bool(strip_context, "strip_context"):
            new = new._change_resources(STRIP_RESOURCES)
        if context is not None:
            new = new._bound(context)
        self._assign(new)

    def _with(self, keywords: SpecKeywords) -> Spec:
        """Return the spec with the changes of keywords."""
        changes: dict[str, Any] = drop_absent(keywords, SpecKeywords)
        parts = {name: changes.pop(name) for name in OF_SCHEMA & changes.keys()}
        options = SpecChanges.of(changes) if changes else SpecChanges()
        if parts:
            options.schema = self._driver_schema(parts)
        return self._of(self._driver.apply_changes(options), self._view, self._context)

    def _minimal(self) -> Spec:
        """Return the spec without metadata that the metadata document contains."""
        view, domain = self._view, self._driver.outline().domain
        if view is None and domain is not None:
            view = IndexTransform._whole(domain)
        return self._of(self._driver.apply_changes(SpecChanges(minimal=True)), view, self._context)

    def _driver_schema(self, parts: Any) -> Schema:
        """Convert constraints on the view to constraints on the driver's dimensions."""
        wanted = Schema._of(parts)
        return wanted if self._view is None else wanted._propagate_back(self._view)

    # Resources

    def _bound(self, context: Context | None) -> Spec:
        """Return the spec with all resources, including those of its own context."""
        return self._change_resources(bind_resources(context or new_context()))

    def _change_resources(self, change: ResourceChange) -> Spec:
        own = change.within(self._context)
        context = self._context if change.keeps_context else None
        return self._of(self._driver.change_resources(own), self._view, context)

    def _unbind(self) -> Spec:
        """Return the spec with the JSON of its resources."""
        naming = Naming(self._driver.references())
        new = self._change_resources(unbind_resources(naming))
        if json := naming.context():
            new._context = Context.Spec({**context_json(self._context), **json})
        return new

    def _copy_resources(self, memo: dict[int, Any]) -> Spec:
        """Return the spec with deep copies of its resources."""
        naming = Naming(self._driver.references(), brief=True)
        context = naming.shared_context(change=lambda resources: deepcopy(resources, memo))
        if context is None:
            return self._unbind()
        return self._of(self._driver.change_resources(unbind_resources(naming)), self._view)._bound(
            context
        )

    # Copies, JSON and pickles

    def copy(self) -> Spec:
        """Return a copy of the spec.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> spec = ts.Spec("memory://|zarr3:")
        >>> other = spec.copy()
        >>> other.update(rank=2)
        >>> other.rank, spec.rank
        (2, None)
        """
        new = object.__new__(type(self))
        new._assign(self)
        return new

    __copy__ = copy

    def __deepcopy__(self, memo: Any) -> Spec:
        return self.copy()

    def to_json(self, include_defaults: bool = False) -> JSONObject:  # noqa: FBT002
        """Return the JSON of the spec.

        Parameters
        ----------
        include_defaults
            Whether to include members that have their default values.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> spec = ts.Spec("memory://a/|zarr3:")
        >>> spec.update(dtype=ts.int8, rank=2)
        >>> spec.to_json()
        {'driver': 'zarr3', 'dtype': 'int8', 'kvstore': {'driver': 'memory', 'path': 'a/'},
         'rank': 2}
        """
        if as_bool(include_defaults, "include_defaults"):
            json: JSONObject = sort_members(
                spec_to_json(self, Naming(self._driver.references()), include_defaults=True)
            )
        else:
            json = sort_members(to_minimal_json(self))
        return json

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Spec):
            return NotImplemented
        mine, others = [*self._driver.references()], [*other._driver.references()]
        if len(mine) != len(others) or not all(map(References.has_same_resources, mine, others)):
            return False
        try:
            return self.to_json() == other.to_json()
        except UnsupportedError:
            return self is other

    def __repr__(self) -> str:
        try:
            return format_repr("Spec", to_minimal_json(self, bound=True))
        except UnsupportedError:  # JSON cannot represent functions and bytes
            return "Spec(...)"

    def __getstate__(self) -> tuple[JSONObject, Context | None]:
        json, beside = pickled_json(self)
        return sort_members(json), beside

    def __setstate__(self, state: tuple[JSONObject, Context | None]) -> None:
        json, beside = state
        new = Spec(json)
        self._assign(new if beside is None else new._bound(beside))


def spec_of(value: Any) -> Spec:
    """Convert a user's spec, JSON, URL or store to a spec, which other callers may share."""
    if isinstance(value, Spec):
        return value
    if isinstance(value, (KvStore, KvStore.Spec, Store)):
        return Spec({"driver": "auto", "kvstore": value})
    return Spec._from_json(value)


set_public_module("tessarr.tensorstore", Spec)
