"""Partial codec chains of format 3, as constraints.

A partial chain may lack its serializer, and its codecs may lack options. A *strict* merge combines
two chains codec by codec. Otherwise, one chain may also describe the subchunks of the other, or
have one more transposition. The creation of an array chooses the missing parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from tessarr import codec as codecs
from tessarr._safe_repr import safe_repr
from tessarr.codec.base import find_codec
from tessarr.codec.blosc import COMPRESSORS
from tessarr.errors import ArgumentError, UnsupportedError
from tessarr.tensorstore.json.parse import (
    boolean,
    choice,
    integer,
    lengths,
    normalize_json,
    read_items,
    read_object,
    refuse_unknown,
)
from tessarr.types import JSONObject, Shape

__all__ = [
    "INDEX",
    "MAX_TYPESIZE",
    "SHARDING",
    "ChainSpec",
    "CodecEntry",
    "complete_configuration",
    "merge_chains",
]

SHARDING: Final = "sharding_indexed"
MAX_TYPESIZE: Final = 255
_MAX_BLOSC_BLOCK: Final = (2**31 - 1 - 2 * 4 * 255) // 3

Layout: TypeAlias = "tuple[Shape | None, Shape | None]"
"""The element order, slowest axis first, and the read chunk shape; None if unknown."""


@dataclass(frozen=True, slots=True)
class CodecEntry:
    """One codec with its known options.

    Parameters
    ----------
    name : str
        The name in format 3.
    kind : {"array_array", "array_bytes", "bytes_bytes"}
        The role of the codec: its input and output.
    options : mapping
        Members of the configuration; codec chains are `ChainSpec` objects.
    """

    name: str
    kind: str
    options: Mapping[str, Any]

    @classmethod
    def read(cls, value: Any, what: str, depth: int = 0) -> CodecEntry:
        """Return the codec from JSON: a name or an object.

        Raises
        ------
        ArgumentError
            If the JSON is not a valid codec.
        """
        members = {"name": value} if isinstance(value, str) else read_object(value, what)
        name = members.pop("name", None)
        if not isinstance(name, str):
            raise ArgumentError(f"{what}/name: {safe_repr(name)} is not the name of a codec")
        configuration = read_object(members.pop("configuration", {}), f"{what}/configuration")
        refuse_unknown(members, what)
        known = find_codec(name)
        if known is None or known.kind == "ignored":
            raise ArgumentError(f"{what}: there is no codec {safe_repr(name)}")
        at = f"{what}/configuration"
        readers = _OPTIONS.get(name)
        if readers is None:
            json = normalize_json(configuration, at)
            if json:
                complete_configuration(name, json)
            return cls(name, known.kind, json)
        options: dict[str, Any] = {}
        for option, read in readers.items():
            if option in configuration:
                value = configuration.pop(option)
                if read is _chain:
                    options[option] = ChainSpec.read(value, f"{at}/{option}", depth + 1)
                else:
                    options[option] = read(value, f"{at}/{option}")
        refuse_unknown(configuration, at)
        if name == "transpose" and "order" not in options:
            raise ArgumentError(f"{at}: transpose has no order")
        return cls(name, known.kind, options)

    @property
    def subchunks(self) -> ChainSpec | None:
        """The codecs of subchunks, or None if they are unknown or the codec is not sharding."""
        result = self.options.get("codecs")
        return result if isinstance(result, ChainSpec) else None

    def to_json(self) -> JSONObject:
        """Return the codec as JSON, without the type size if the codec does not shuffle."""
        configuration = {
            option: value.to_json() if isinstance(value, ChainSpec) else _listed(value)
            for option, value in self.options.items()
        }
        if configuration.get("shuffle") == "noshuffle":
            configuration.pop("typesize", None)
        document: JSONObject = {"name": self.name}
        return {**document, "configuration": configuration} if configuration else document

    def merge(self, other: CodecEntry, *, strict: bool) -> CodecEntry:
        """Merge two specifications of one codec.

        Raises
        ------
        ArgumentError
            If the codecs or their options differ.
        """
        if self.name != other.name:
            raise ArgumentError(f"codec {other.name!r} does not match {self.name!r}")
        options = dict(self.options)
        for option, value in other.options.items():
            old = options.get(option)
            if old is None:
                options[option] = value
            elif isinstance(old, ChainSpec):
                options[option] = old.merge(value, strict=strict)
            else:
                options[option] = _merge_option(self.name, option, old, value)
        return replace(self, options=options)

    def axes(self, rank: int) -> Shape:
        """Return the axis order of a transposition.

        Raises
        ------
        ArgumentError
            If the order does not have `rank` axes.
        """
        order = self.options["order"]
        if isinstance(order, str):
            return tuple(range(rank)) if order == "C" else tuple(reversed(range(rank)))
        if len(order) != rank:
            raise ArgumentError(f"transpose: {list(order)} is not a permutation of {rank} axes")
        return tuple(order)


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _merge_option(name: str, option: str, old: Any, new: Any) -> Any:
    if old == new and type(old) is type(new):
        return old
    if name == "transpose":
        for letter, axes in ((old, new), (new, old)):
            if isinstance(letter, str) and not isinstance(axes, str):
                in_order = tuple(range(len(axes)))
                if axes == (in_order if letter == "C" else in_order[::-1]):
                    return axes
    raise ArgumentError(
        f"codec {safe_repr(name)}: {option} {safe_repr(_listed(new))} does not match "
        f"{safe_repr(_listed(old))}"
    )


@dataclass(frozen=True, slots=True)
class ChainSpec:
    """A codec chain with optional parts.

    Examples
    --------
    >>> one = ChainSpec.read(["gzip"])
    >>> one.merge(ChainSpec.read([{"name": "gzip", "configuration": {"level": 3}}])).to_json()
    [{'name': 'gzip', 'configuration': {'level': 3}}]
    """

    array_array: tuple[CodecEntry, ...] = ()
    array_bytes: CodecEntry | None = None
    bytes_bytes: tuple[CodecEntry, ...] = ()

    @classmethod
    def read(cls, value: Any, what: str = "codecs", depth: int = 0) -> ChainSpec:
        """Return the chain from JSON.

        Raises
        ------
        ArgumentError
            If the JSON is not a valid chain.
        """
        if not isinstance(value, (list, tuple)):
            raise ArgumentError(f"{what}: {safe_repr(value)} is not a list of codecs")
        if depth > _MAX_SHARDING:
            raise ArgumentError(f"{what}: more than {_MAX_SHARDING} levels of shards")
        parts = [CodecEntry.read(item, f"{what}/{k}", depth) for k, item in enumerate(value)]
        kinds = [part.kind for part in parts]
        arrays = next((k for k, kind in enumerate(kinds) if kind != "array_array"), len(kinds))
        rest = arrays + (kinds[arrays : arrays + 1] == ["array_bytes"])
        for k in range(rest, len(parts)):
            if kinds[k] != "bytes_bytes":
                raise ArgumentError(f"{what}/{k}: {parts[k].name!r} is not from bytes to bytes")
        serializer = parts[arrays] if rest > arrays else None
        return cls(tuple(parts[:arrays]), serializer, tuple(parts[rest:]))

    @property
    def parts(self) -> tuple[CodecEntry, ...]:
        """The codecs in the order of encoding."""
        middle = () if self.array_bytes is None else (self.array_bytes,)
        return (*self.array_array, *middle, *self.bytes_bytes)

    def to_json(self) -> list[JSONObject]:
        """Return the chain as JSON."""
        return [part.to_json() for part in self.parts]

    @property
    def sharding_levels(self) -> int:
        """The number of nested sharding codecs."""
        if self.array_bytes is None or self.array_bytes.name != SHARDING:
            return 0
        inner = self.array_bytes.subchunks
        return 1 + (0 if inner is None else inner.sharding_levels)

    def merge(self, other: ChainSpec, *, strict: bool = False) -> ChainSpec:
        """Merge two chains.

        Raises
        ------
        ArgumentError
            If the chains contradict each other.
        """
        if not strict and self.sharding_levels != other.sharding_levels:
            outer, inner = (
                (self, other) if self.sharding_levels > other.sharding_levels else (other, self)
            )
            if not outer.array_array and not outer.bytes_bytes and outer.array_bytes is not None:
                return replace(outer, array_bytes=_with_inner(outer.array_bytes, inner))
        middle = self.array_bytes
        arrays = _merge_entries(self.array_array, other.array_array, "array to array", strict)
        if other.array_bytes is not None:
            middle = (
                other.array_bytes
                if middle is None
                else middle.merge(other.array_bytes, strict=strict)
            )
        rest = _merge_entries(self.bytes_bytes, other.bytes_bytes, "bytes to bytes", strict)
        return ChainSpec(arrays, middle, rest)

    def layout(self, rank: int, shape: Shape | None) -> Layout:
        """Return the known layout of a chunk; `shape` may be unknown.

        Raises
        ------
        ArgumentError
            If a transposition or a subchunk has the wrong number of axes.
        """
        shapes = [shape]
        for part in self.array_array:
            last = shapes[-1]
            if part.name == "transpose" and last is not None:
                shapes.append(tuple(last[axis] for axis in part.axes(rank)))
            else:
                shapes.append(last if part.name in _SAME_SHAPE else None)
        order, read = self._inner_layout(rank, shapes[-1])
        for part in reversed(self.array_array):
            if part.name == "transpose":
                axes = part.axes(rank)
                order = None if order is None else tuple(axes[axis] for axis in order)
                read = None if read is None else _undo_order(axes, read)
            elif part.name not in _SAME_SHAPE:
                order = read = None
        return order, read

    def _inner_layout(self, rank: int, shape: Shape | None) -> Layout:
        if self.array_bytes is None:
            return None, shape
        if self.array_bytes.name != SHARDING:
            return tuple(range(rank)), shape
        part = self.array_bytes.options.get("chunk_shape")
        if part is not None and len(part) != rank:
            raise ArgumentError(f"subchunks of shape {list(part)} in chunks of {rank} dimensions")
        inner = self.array_bytes.subchunks
        return (None, None) if inner is None else inner.layout(rank, part)

    def add_sharding(self, part: Shape) -> ChainSpec:
        """Return a sharding chain with subchunks of shape `part`, which this chain encodes."""
        options: dict[str, Any] = {"chunk_shape": part}
        if self != ChainSpec():
            options["codecs"] = self
        return ChainSpec((), CodecEntry(SHARDING, "array_bytes", options), ())

    def with_defaults(self) -> ChainSpec:
        """Return the chain with the defaults that a stored document implies for absent options."""
        middle = self.array_bytes
        if middle is not None and middle.name == SHARDING:
            options = {"index_location": "end", **middle.options}
            options |= {
                name: chain.with_defaults()
                for name, chain in options.items()
                if isinstance(chain, ChainSpec)
            }
            middle = replace(middle, options=options)
        rest = (
            replace(part, options={"checksum": False, **part.options})
            if part.name == "zstd"
            else part
            for part in self.bytes_bytes
        )
        return ChainSpec(self.array_array, middle, tuple(rest))


def merge_chains(
    old: ChainSpec | None, new: ChainSpec | None, *, strict: bool = False
) -> ChainSpec | None:
    """Merge two chains; None is a chain without constraints."""
    if old is None or new is None:
        return old or new
    return old.merge(new, strict=strict)


def _with_inner(sharding: CodecEntry, inner: ChainSpec) -> CodecEntry:
    old = sharding.subchunks
    chain = inner if old is None else old.merge(inner)
    return replace(sharding, options={**sharding.options, "codecs": chain})


def _merge_entries(
    old: Sequence[CodecEntry], new: Sequence[CodecEntry], what: str, strict: bool
) -> tuple[CodecEntry, ...]:
    extra: tuple[CodecEntry, ...] = ()
    if not strict and what.startswith("array") and abs(len(old) - len(new)) == 1:
        longer = old if len(old) > len(new) else new
        if longer[-1].name == "transpose":
            extra = (longer[-1],)
            old, new = old[: len(longer) - 1], new[: len(longer) - 1]
    if len(old) != len(new):
        raise ArgumentError(f"{len(new)} codecs from {what} do not match {len(old)}")
    both = zip(old, new, strict=True)
    return (*(one.merge(other, strict=strict) for one, other in both), *extra)


def _undo_order(axes: Sequence[int], lengths: Sequence[int]) -> Shape:
    """Return the lengths before a transposition from the lengths after it."""
    by_axis = dict(zip(axes, lengths, strict=True))
    return tuple(by_axis[axis] for axis in range(len(axes)))


def complete_configuration(name: str, options: Mapping[str, Any]) -> JSONObject:
    """Return the complete configuration of a codec from some of its options.

    Raises
    ------
    ArgumentError
        If the codec does not exist or rejects an option.
    """
    try:
        document = codecs.to_codec({"name": name, "configuration": dict(options)}).to_json(3)
    except UnsupportedError as error:
        raise ArgumentError(str(error)) from error
    json: JSONObject = document.get("configuration", {})
    return json


def _order(value: Any, what: str) -> Any:
    if value in ("C", "F"):
        return value
    read = integer(0, 31)
    axes = tuple(read(item, f"{what}/{k}") for k, item in enumerate(read_items(value, what)))
    if sorted(axes) != list(range(len(axes))):
        raise ArgumentError(f"{what}: {safe_repr(list(axes))} is not a permutation")
    return axes


def _chain(value: Any, what: str) -> ChainSpec:
    return ChainSpec.read(value, what)


_MAX_SHARDING: Final = 16
_Read: TypeAlias = Callable[[Any, str], Any]
_OPTIONS: Final[Mapping[str, Mapping[str, _Read]]] = MappingProxyType(
    {
        "transpose": {"order": _order},
        "bytes": {"endian": choice("little", "big")},
        "gzip": {"level": integer(0, 9)},
        "zstd": {"level": integer(-131072, 22), "checksum": boolean},
        "crc32c": {},
        "blosc": {
            "cname": choice(*COMPRESSORS),
            "clevel": integer(0, 9),
            "shuffle": choice("noshuffle", "shuffle", "bitshuffle"),
            "typesize": integer(1, MAX_TYPESIZE),
            "blocksize": integer(0, _MAX_BLOSC_BLOCK),
        },
        SHARDING: {
            "chunk_shape": lengths(1),
            "index_codecs": _chain,
            "codecs": _chain,
            "index_location": choice("start", "end"),
        },
    }
)
_SAME_SHAPE: Final = frozenset(
    {"transpose", "bitround", "cast_value", "scale_offset", "numcodecs.bitround", "numcodecs.delta",
     "numcodecs.fixedscaleoffset", "numcodecs.quantize", "numcodecs.astype"}
)  # fmt: skip
INDEX: Final = ChainSpec.read([{"name": "bytes", "configuration": {"endian": "little"}}, "crc32c"])
