"""Constraints of a spec's ``metadata`` and schema, and the metadata that meet them.

The formats differ in the members of their documents, and in codecs, dimension names and units:
`Zarr2` and `Zarr3` are the two kinds of `Constraints`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from tessarr import dtype as data_types
from tessarr._safe_repr import safe_repr
from tessarr.codec import ArraySpec
from tessarr.errors import ArgumentError, UnsupportedError
from tessarr.format.chunk_grid import RegularGrid
from tessarr.format.validation import Problems
from tessarr.index_space import INFINITE, Dim, IndexDomain, IndexTransform, View
from tessarr.metadata.node import ArrayMeta, check_sizes
from tessarr.tensorstore.json.parse import check_equal, raise_problems, without_fractions
from tessarr.tensorstore.schema.chunk_layout import ChunkLayout
from tessarr.tensorstore.schema.codec_spec import OPEN, CodecSpec
from tessarr.tensorstore.schema.element_type import (
    WHOLE,
    Element,
    Field,
    element_of,
    stored_type,
)
from tessarr.tensorstore.schema.fill_value import decode_fill, encode_fill, encode_record_fill
from tessarr.tensorstore.schema.layout_constraints import NO_LAYOUT, LayoutConstraints
from tessarr.tensorstore.schema.propagate import merge_domains
from tessarr.tensorstore.schema.schema import Schema

if TYPE_CHECKING:
    from tessarr.tensorstore.schema.units import Units
    from tessarr.types import JSONObject, Shape, ZarrFormat

__all__ = ["Constraints", "NewArray", "build_array_view", "parse_data_type"]


class NewArray(NamedTuple):
    """The resolved properties of a new array.

    Parameters
    ----------
    shape, grid
        The shape and the chunk grid.
    read
        The shape of the smallest chunks.
    spec
        The chunk that the codecs encode.
    labels
        The labels of all dimensions; "" for none.
    layout
        The constraints on the chunk layout.
    """

    shape: Shape
    grid: RegularGrid
    read: Shape
    spec: ArraySpec
    labels: tuple[str, ...]
    layout: LayoutConstraints


@dataclass(frozen=True, slots=True)
class Constraints(ABC):
    """Constraints on the members of a metadata document, all optional.

    Parameters
    ----------
    shape
        The shape of the array.
    data_type
        The data type of the elements.
    chunk_shape
        The shape of the chunks.
    fill
        The fill value as JSON; `OPEN` if the member is missing.
    attributes
        Attributes that must be present.
    explicit_defaults
        Members with default values that the JSON contains.
    """

    shape: Shape | None = None
    data_type: data_types.DataType | None = None
    chunk_shape: Shape | None = None
    fill: Any = OPEN
    attributes: JSONObject = field(default_factory=dict)
    explicit_defaults: JSONObject = field(default_factory=dict)

    driver: ClassVar[str]
    zarr_format: ClassVar[ZarrFormat]
    data_type_member: ClassVar[str]
    unknown_inner: ClassVar[Shape | None]
    """The dimensions inside an element while its data type is open."""

    @classmethod
    @abstractmethod
    def read(cls, json: Any) -> Self:
        """Return the constraints of JSON members.

        Raises
        ------
        ArgumentError
            If a member is invalid.
        """

    @abstractmethod
    def to_json(self) -> JSONObject:
        """Return the constraints as JSON."""

    def default_members(self) -> JSONObject:
        """Return members with the defaults that their JSON omits."""
        return {}

    @property
    @abstractmethod
    def rank(self) -> int | None:
        """The number of chunked dimensions, or None while it is open."""

    @property
    @abstractmethod
    def codec(self) -> CodecSpec:
        """The known encoding of chunks."""

    @property
    def dimension_names(self) -> tuple[str | None, ...] | None:
        """The names of dimensions, or None while they are open."""
        return None

    @property
    def dimension_units(self) -> Units | None:
        """The units of dimensions, or None while they are open."""
        return None

    @abstractmethod
    def chunks(self, chunked: int | None, rank: int, inner: Shape) -> LayoutConstraints:
        """Return the known constraints on chunks.

        Parameters
        ----------
        chunked
            The number of chunked dimensions; None while it is open.
        rank
            The number of all dimensions.
        inner
            The dimensions inside an element.
        """

    @abstractmethod
    def choose_chunks(
        self, layout: LayoutConstraints, extent: View, chunked: int
    ) -> tuple[Shape, Shape]:
        """Return the shapes of chunks of a new array of some extent, read and written.

        Parameters
        ----------
        layout
            The constraints on the chunk layout.
        extent
            The domain of the array.
        chunked
            The number of chunked dimensions, which are the first.

        Raises
        ------
        ArgumentError
            If no shapes meet all constraints.
        """

    @abstractmethod
    def _build_metadata(self, schema: Schema, new: NewArray) -> ArrayMeta:
        """Return the metadata of a new array."""

    @abstractmethod
    def check_members(self, meta: ArrayMeta) -> None:
        """Raise an error if the metadata does not have the members of the constraints.

        Raises
        ------
        ArgumentError
            If they differ.
        """

    def element(self, schema: Schema, of: Field) -> Element | None:
        """Return the type of an element, or None while it is open."""
        return None if self.data_type is None else element_of(self.data_type, of)

    def fill_bytes(self) -> bytes | None:
        """Return the fill value as the bytes of one element.

        Raises
        ------
        ArgumentError
            If it does not fit the data type.
        """
        if self.data_type is None:
            raise ArgumentError(f"fill_value needs {self.data_type_member} in the same object")
        if self.fill is None and self.zarr_format == 2:
            return None
        # A spec is stricter than a stored document, except for booleans as 0 and 1.
        problems = Problems(strict=self.data_type.name != "bool")
        result = self.data_type.fill_from_json(self.fill, self.zarr_format, "fill_value", problems)
        raise_problems(problems)
        return result

    def effective(self, schema: Schema, of: Field = WHOLE) -> Schema:
        """Return the known schema, without the codec, from these constraints and a schema.

        Raises
        ------
        ArgumentError
            If they contradict each other.
        """
        element = self.element(schema, of)
        inner = self.unknown_inner if element is None else element.inner
        rank = self._rank(schema, inner)
        fill = None
        if self.fill is not OPEN and element is not None and self.data_type is not None:
            data = self.fill_bytes()
            fill = None if data is None else decode_fill(self.data_type, data, of)
        units = self.dimension_units
        fields = {
            "dtype": None if element is None else element.dtype,
            "rank": rank,
            "domain": self.domain(schema, rank, inner),
            "chunk_layout": ChunkLayout._of(self._lazy_layout(schema, rank, inner)),
            "fill_value": fill,
            "dimension_units": None if units is None else (*units, *(None for _ in inner or ())),
        }
        has_fill = self.fill is not OPEN and element is not None
        return Schema._of(fields)._merge_with(schema._of_elements(fill=not has_fill))

    def codec_with(self, schema: Schema) -> CodecSpec:
        """Return the known encoding.

        Raises
        ------
        ArgumentError
            If the schema contradicts these constraints.
        """
        return self.codec if schema.codec is None else self.codec._merge_with(schema.codec)

    def outline(self, schema: Schema, of: Field) -> Schema:
        """Return the known data type, domain and rank.

        While the data type is open, elements may have inner dimensions, so the rank is open.

        Raises
        ------
        ArgumentError
            If constraints contradict each other.
        """
        known_parts = Schema(rank=schema.rank, dtype=schema.dtype, domain=schema.domain)
        known = self.effective(known_parts, of)
        if self.data_type is None and schema.rank is None and known.domain is None:
            return Schema(dtype=known.dtype)
        return known

    def _rank(self, schema: Schema, inner: Shape | None) -> int | None:
        chunked = self.rank
        if chunked is None or inner is None:
            return schema.rank
        rank = chunked + len(inner)
        if schema.rank not in {None, rank}:
            raise ArgumentError(f"rank {schema.rank} does not match metadata, of rank {rank}")
        return rank

    def domain(
        self, schema: Schema, rank: int | None, inner: Shape | None = ()
    ) -> IndexDomain | None:
        """Return the known domain, or None.

        Parameters
        ----------
        schema
            The schema.
        rank
            The number of dimensions, or None while it is open.
        inner
            The dimensions inside an element; None while they are unknown.

        Raises
        ------
        ArgumentError
            If the schema has another domain.
        """
        domain = self._known_domain(schema, rank, inner)
        if domain is None or rank is None or schema.domain is None:
            return domain
        outer_rank = rank - len(inner or ())
        marked = [
            Dim._of(dim.inclusive_min, dim.exclusive_max, dim.label, (False, k < outer_rank))
            for k, dim in enumerate(domain._dims)
        ]
        return IndexDomain._of(marked)

    def _known_domain(
        self, schema: Schema, rank: int | None, inner: Shape | None
    ) -> IndexDomain | None:
        """Return the known domain, without flags of implicit bounds."""
        schema_domain = schema.domain
        chunked = self._chunked_rank(rank, inner)
        if rank is None:
            return schema_domain
        # With an open data type, the inner dimensions are known by now.
        resolved = inner is not None and self.unknown_inner is None
        whole = schema.rank is not None or self.data_type is not None or resolved
        scalar = chunked == 0 and whole
        is_known = self.shape is not None or self.dimension_names is not None or scalar
        if schema_domain is None and not (is_known and (inner is not None or rank == chunked)):
            return None
        outer_rank = rank - len(inner or ())
        known_shape = self.shape or ()
        domain = _unbounded_domain(known_shape, outer_rank, self.dimension_names, inner or ())
        return domain if schema_domain is None else merge_domains(domain, schema_domain)

    def _chunked_rank(self, rank: int | None, inner: Shape | None) -> int | None:
        """Return the number of chunked dimensions, or None while it is open."""
        chunked = known_rank = self.rank
        if rank is not None and inner is not None:
            chunked = rank - len(inner)
        wrong = chunked is not None and rank is not None and not 0 <= chunked <= rank
        if wrong or known_rank not in {None, chunked}:
            raise ArgumentError(f"rank {rank} does not match metadata, of rank {known_rank}")
        return chunked

    def layout(
        self, schema: Schema, rank: int | None, inner: Shape | None = None
    ) -> LayoutConstraints:
        """Return the known layout of chunks.

        Raises
        ------
        ArgumentError
            If the schema contradicts it.
        """
        schema_layout = schema._layout
        if rank is None:
            return schema_layout
        chunked = self._chunked_rank(rank, inner)
        if inner is None:
            inner = () if chunked is None else (0,) * (rank - chunked)
        known = self.chunks(chunked, rank, inner)
        return known if schema_layout is NO_LAYOUT else schema_layout.merge(known)

    def _lazy_layout(
        self, schema: Schema, rank: int | None, inner: Shape | None
    ) -> LayoutConstraints:
        """Return the known layout of chunks, computed on first use."""
        if rank is None or schema._layout is NO_LAYOUT:
            return self.layout(schema, rank, inner)
        return LayoutConstraints.later(rank, lambda: self.layout(schema, rank, inner).resolve())

    def create(self, schema: Schema, of: Field) -> ArrayMeta:
        """Return the metadata of a new array; the caller checks them against the schema.

        Raises
        ------
        ArgumentError, MetadataError
            If constraints contradict each other, or leave shape or data type open.
        UnsupportedError
            If the format does not have such elements.
        """
        stored, problems = self._stored_data_type(schema, of), Problems()
        inner = element_of(stored, of).inner
        domain = self._known_domain(schema, self._rank(schema, inner), inner)
        if domain is None or not all(dim.finite for dim in domain._dims):
            raise ArgumentError("a new array needs a finite domain: give shape or domain")
        layout, chunked = self.layout(schema, domain.rank, inner), domain.rank - len(inner)
        read, write = self.choose_chunks(layout, domain._as_view(), chunked)
        shape = domain.shape[:chunked]
        spec = ArraySpec(write, stored, self.new_fill(schema, stored))
        check_sizes(shape, spec, "/shape", "/chunk_shape", problems)
        grid = RegularGrid(write).fit(shape, "/chunk_shape", problems)
        problems.check("metadata")
        assert grid is not None
        new = NewArray(shape, grid, read, spec, domain.labels, layout)
        return self._build_metadata(schema, new)

    def _stored_data_type(self, schema: Schema, of: Field) -> data_types.DataType:
        """Return the data type of a new array."""
        stored = self.data_type
        if stored is None:
            if of != WHOLE:
                raise ArgumentError(f"field needs {self.data_type_member} in metadata")
            if schema.dtype is None:
                raise ArgumentError("a new array needs a data type: give dtype")
            stored = stored_type(schema.dtype)
        why = stored.refusal(self.zarr_format)
        if why is not None:
            raise UnsupportedError(
                f"dtype {stored}: {why}", kind="unsupported_data_type", extension=str(stored)
            )
        return stored

    def new_fill(self, schema: Schema, stored: data_types.DataType) -> bytes | None:
        """Return the fill value of a new array as the bytes of one element, or None.

        Raises
        ------
        ArgumentError
            If it does not fit the data type.
        """
        if self.fill is not OPEN:
            return self.fill_bytes()
        value = schema._fill
        if value is None:
            return None if self.zarr_format == 2 else stored.default_fill()
        if stored.numpy.names:
            return encode_record_fill(value, stored)
        return stored.storable_fill(encode_fill(value, stored), self.zarr_format)

    def check_common_members(
        self, meta: ArrayMeta, chunk_shape: Shape | None, stored_fill: Any
    ) -> None:
        """Raise an error if shape, data type, chunk shape, fill value or attributes differ.

        Raises
        ------
        ArgumentError
            If they differ.
        """
        check_equal("shape", self.shape, meta.shape)
        check_equal("chunk_shape", self.chunk_shape, chunk_shape)
        if self.data_type is not None:
            form = self.zarr_format
            expected_type, actual = self.data_type.to_json(form), meta.data_type.to_json(form)
            check_equal(self.data_type_member, expected_type, actual)
        if self.fill is not OPEN and self.fill_bytes() != stored_fill:
            raise ArgumentError(
                f"metadata: fill_value {safe_repr(self.fill)} does not match "
                f"{safe_repr(meta.fill_scalar)}"
            )
        for name, expected in self.attributes.items():
            check_equal(f"attributes/{name}", expected, meta.attributes.get(name))


def _unbounded_domain(
    known_lengths: Shape, rank: int, names: tuple[str | None, ...] | None, inner: Shape
) -> IndexDomain:
    """Return the domain of an array, with unknown lengths as unbounded dimensions."""
    shape = (*known_lengths, *(INFINITE + 1 for _ in range(rank - len(known_lengths))))
    return build_array_view(shape, names, inner).domain


def build_array_view(
    shape: Shape, names: tuple[str | None, ...] | None, inner: Shape
) -> IndexTransform:
    """Return the view of all of an array; names that cannot be labels are left out."""
    if names is not None and not (len(names) == len(shape) and _are_labels(names)):
        names = None
    return IndexTransform._of_view(View.for_array(shape, names, inner))


def _are_labels(names: tuple[str | None, ...]) -> bool:
    """Return whether names are valid UTF-8 and unique."""
    labels = [name for name in names if name]
    try:
        "".join(labels).encode()
    except UnicodeEncodeError:
        return False
    return len(set(labels)) == len(labels)


def parse_data_type(value: Any, zarr_format: ZarrFormat, path: str) -> data_types.DataType:
    """Return the data type of a JSON value.

    Raises
    ------
    ArgumentError
        If the value is invalid.
    """
    problems = Problems()
    result = data_types.from_json(without_fractions(value), zarr_format, path, problems)
    raise_problems(problems)
    assert result is not None
    return result
