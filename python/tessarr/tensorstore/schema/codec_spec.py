"""Codec specs: constraints on the encoding of chunks for one driver.

For format 3, a codec spec is a partial codec chain; for format 2, a compressor and filters.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final, Self

from tessarr import codec as codecs
from tessarr._safe_repr import safe_repr
from tessarr.codec.base import find_codec_by_id
from tessarr.errors import ArgumentError, UnsupportedError
from tessarr.format.registry import set_public_module
from tessarr.tensorstore.json.format_json import format_repr, sort_members
from tessarr.tensorstore.json.parse import (
    check_integers,
    error_class,
    integer,
    normalize_json,
    read_items,
    read_object,
    refuse_unknown,
    without_fractions,
)
from tessarr.tensorstore.json.pickling import Picklable
from tessarr.tensorstore.schema.codec_chain_spec import ChainSpec, merge_chains
from tessarr.types import JSONObject

__all__ = ["NOTHING", "OPEN", "CodecSpec", "Compression", "compressor_from_json"]


class _Open:
    """The type of `OPEN`."""

    def __repr__(self) -> str:
        return "open"

    def __reduce__(self) -> str:
        return "OPEN"


OPEN: Final = _Open()
"""Marks an absent member; None means that the array has no compressor."""

_LEVELS: Final = {"zlib": (0, 9), "gzip": (0, 9), "bz2": (1, 9), "zstd": (-131072, 22)}
_BLOSC: Final = {"cname": "lz4", "clevel": 5, "shuffle": -1, "blocksize": 0}


def filters_from_json(value: Any) -> list[Any] | None:
    """Return the filters of format 2 from JSON: a list, or null for no filters.

    Raises
    ------
    ArgumentError
        If the JSON is neither a list nor null.
    """
    return None if value is None else read_items(normalize_json(value, "filters"), "filters")


def compressor_from_json(value: Any, what: str = "compressor") -> JSONObject | None:
    """Return the compressor of format 2 from JSON, with defaults for absent members.

    Raises
    ------
    ArgumentError
        If the JSON is not a valid compressor.
    """
    if value is None:
        return None
    members: JSONObject = read_object(normalize_json(value, what), what)
    codec_id = members.get("id")
    if not isinstance(codec_id, str):
        raise ArgumentError(f"{what}: {safe_repr(codec_id)} is not the id of a compressor")
    if codec_id in _LEVELS:
        level = integer(*_LEVELS[codec_id])(members.pop("level", 1), f"{what}/level")
        refuse_unknown({name: 0 for name in members if name != "id"}, what)
        return {"id": codec_id, "level": level}
    if codec_id == "blosc":
        members = {**_BLOSC, **without_fractions(members)}
    try:
        codec = codecs.to_codec(members)
    except UnsupportedError as error:
        raise ArgumentError(f"{what}: {error}") from error
    # The configuration of a foreign codec or of Blosc may lack members that the user passed.
    is_own = codec_id != "blosc" and find_codec_by_id(codec_id)
    return codec.get_config() if is_own else members


def _with_defaults(filters: list[Any]) -> list[Any]:
    """Return the filters with defaults for absent members; unknown filters do not change."""
    result = []
    for json in filters:
        try:
            result.append(compressor_from_json(json, "filters"))
        except ArgumentError:
            result.append(json)
    return result


@dataclass(frozen=True, slots=True)
class Compression:
    """Constraints on the compressor and filters of format 2."""

    compressor: Any = OPEN
    filters: Any = None

    def merge(self, other: Compression) -> Compression:
        """Merge two constraints.

        Raises
        ------
        ArgumentError
            If the constraints differ.
        """
        compressor, filters = self.compressor, self.filters
        both = None not in (filters, other.filters)
        if both and _with_defaults(filters) != _with_defaults(other.filters):
            raise ArgumentError(
                f"filters {safe_repr(other.filters)} do not match {safe_repr(filters)}"
            )
        if OPEN not in (compressor, other.compressor) and compressor != other.compressor:
            raise ArgumentError(
                f"the compressor {safe_repr(other.compressor)} does not match "
                f"{safe_repr(compressor)}"
            )
        if compressor is OPEN:
            compressor = other.compressor
        return Compression(compressor, other.filters if filters is None else filters)

    def is_same(self, other: Compression) -> bool:
        """Return whether both are equal; an empty list of filters equals None."""
        filters = (self.filters or None) == (other.filters or None)
        return filters and self.compressor == other.compressor


NOTHING: Final = Compression()
"""The empty constraints."""


class CodecSpec(Picklable):
    """Constraints on the encoding of chunks.

    Parameters
    ----------
    json : dict or CodecSpec
        ``{"driver": "zarr3", "codecs": […]}``, where the serializer and options of codecs are
        optional; or ``{"driver": "zarr", "compressor": …, "filters": …}``.

    Raises
    ------
    ArgumentError
        If the JSON is not a valid codec spec.

    Examples
    --------
    >>> CodecSpec({"driver": "zarr3", "codecs": ["gzip"]})
    CodecSpec({'codecs': [{'name': 'gzip'}], 'driver': 'zarr3'})
    """

    __slots__ = ("__weakref__", "_chain", "_compression", "_driver")

    _driver: str
    _chain: ChainSpec | None
    _compression: Compression

    def __init__(self, json: Any) -> None:
        new = json if isinstance(json, CodecSpec) else CodecSpec._parse(json)
        self._set(new._driver, new._chain, new._compression)

    @classmethod
    def _parse(cls, json: Any) -> Self:
        check_integers(json)
        members = read_object(json, "codec")
        driver = members.pop("driver", None)
        if not isinstance(driver, str):
            raise error_class(driver)(f"codec/driver: {safe_repr(driver)} is not a string")
        if driver == "zarr3":
            chain = ChainSpec.read(members.pop("codecs")) if "codecs" in members else None
            new = cls._of("zarr3", chain)
        elif driver in {"zarr", "zarr2"}:
            compressor: Any = OPEN
            if "compressor" in members:
                compressor = compressor_from_json(members.pop("compressor"))
            filters = filters_from_json(members.pop("filters", None))
            new = cls._of("zarr", compression=Compression(compressor, filters))
        else:
            raise ArgumentError(f"codec/driver: {safe_repr(driver)} is not 'zarr3' or 'zarr'")
        refuse_unknown(members, "codec")
        return new

    def _set(self, driver: str, chain: ChainSpec | None, compression: Compression) -> None:
        object.__setattr__(self, "_driver", driver)
        object.__setattr__(self, "_chain", chain)
        object.__setattr__(self, "_compression", compression)

    @classmethod
    def _of(
        cls, driver: str, chain: ChainSpec | None = None, compression: Compression = NOTHING
    ) -> Self:
        """Return constraints on the codecs of format 3, or on the compression of format 2."""
        new = object.__new__(cls)
        new._set(driver, chain, compression)
        return new

    def _merge_with(self, other: CodecSpec) -> CodecSpec:
        """Merge two specs; one may describe the subchunks of the other.

        Raises
        ------
        ArgumentError
            If the specs contradict each other or have different drivers.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> zlib = ts.CodecSpec({"driver": "zarr", "compressor": {"id": "zlib"}})
        >>> zlib._merge_with(ts.CodecSpec({"driver": "zarr", "filters": None}))
        CodecSpec({'compressor': {'id': 'zlib', 'level': 1}, 'driver': 'zarr', 'filters': None})
        """
        if self._driver != other._driver:
            raise ArgumentError(
                f"codec: the driver {other._driver!r} does not match {self._driver!r}"
            )
        try:
            chain = merge_chains(self._chain, other._chain)
            compression = self._compression.merge(other._compression)
        except ArgumentError as error:
            raise ArgumentError(f"codec: {error}") from error
        return CodecSpec._of(self._driver, chain, compression)

    def to_json(self, include_defaults: bool = False) -> JSONObject:  # noqa: FBT002
        """Return the constraints as JSON.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.CodecSpec({"driver": "zarr", "compressor": None}).to_json()
        {'compressor': None, 'driver': 'zarr', 'filters': None}
        """
        result: JSONObject = {"driver": self._driver}
        if self._driver == "zarr3":
            if self._chain is not None:
                result["codecs"] = self._chain.to_json()
            return sort_members(result)
        if self._compression.compressor is not OPEN:
            result["compressor"] = deepcopy(self._compression.compressor)
        result["filters"] = deepcopy(self._compression.filters)
        return sort_members(result)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("constraints on codecs cannot be changed")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("constraints on codecs cannot be changed")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CodecSpec):
            return NotImplemented
        same = (self._driver, self._chain) == (other._driver, other._chain)
        return same and self._compression.is_same(other._compression)

    def __hash__(self) -> int:
        # The hash contains only names, because equal options can differ in their representation.
        names = () if self._chain is None else tuple(part.name for part in self._chain.parts)
        return hash((self._driver, names))

    def __repr__(self) -> str:
        return format_repr("CodecSpec", self.to_json())


set_public_module("tessarr.tensorstore", CodecSpec)
