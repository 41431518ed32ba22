"""The fields of a schema, and methods that merge constraints into them."""

from __future__ import annotations

from typing import Any, Final

import numpy.typing as npt

from tessarr.errors import ArgumentError
from tessarr.index_space import IndexDomain
from tessarr.tensorstore.schema import propagate
from tessarr.tensorstore.schema.codec_spec import CodecSpec
from tessarr.tensorstore.schema.data_type import dtype as DataType  # noqa: N812
from tessarr.tensorstore.schema.fill_value import fill_to_json, is_same_fill
from tessarr.tensorstore.schema.layout_constraints import NO_LAYOUT, LayoutConstraints
from tessarr.tensorstore.schema.units import Units, merge_units

__all__ = ["MAX_RANK", "SchemaFields"]

MAX_RANK: Final = 32
_MOST_BYTES: Final = 1 << 12


class SchemaFields:
    """The constraints of a schema; a contradiction raises an error."""

    __slots__ = ("_codec", "_domain", "_dtype", "_fill", "_layout", "_rank", "_units")

    _rank: int | None
    _dtype: DataType | None
    _domain: IndexDomain | None
    _layout: LayoutConstraints
    _codec: CodecSpec | None
    _fill: npt.NDArray[Any] | None
    _units: Units

    def _merge(self, other: SchemaFields) -> None:
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
        merged = self._layout.merged(layout)
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

    def _assign(self, other: SchemaFields) -> None:
        self._rank, self._dtype, self._domain = other._rank, other._dtype, other._domain
        self._layout, self._codec = other._layout, other._codec
        self._fill, self._units = other._fill, other._units

    @property
    def _is_empty(self) -> bool:
        """Whether the schema has no constraints."""
        if self._rank is not None or self._dtype is not None or self._layout is not NO_LAYOUT:
            return False
        return self._codec is None and self._fill is None  # other constraints set the rank
