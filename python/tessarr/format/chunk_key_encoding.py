"""Chunk key encodings: an extension point of format 3.

A *key* names a value in a store: the path of a node and a name such as ``zarr.json`` or ``c/0/1``.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from tessarr.errors import ArgumentError, StoreError
from tessarr.format.node_path import DOCUMENT_NAMES
from tessarr.format.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tessarr.format.validation import Members
    from tessarr.types import JSONObject

__all__ = [
    "ChunkKeyEncoding",
    "DefaultKeys",
    "Separator",
    "V2Keys",
    "find_key_encoding",
    "register",
    "select_chunk_keys",
]

Separator = Literal[".", "/"]


@dataclass(frozen=True, slots=True)
class ChunkKeyEncoding(ABC):
    """How a position in the chunk grid becomes a key under the array's path."""

    name: ClassVar[str] = ""

    @classmethod
    @abstractmethod
    def from_json(cls, configuration: Members) -> ChunkKeyEncoding | None:
        """Return the encoding of a ``configuration``, or None and problems."""

    @abstractmethod
    def to_json(self) -> JSONObject:
        """Return the encoding as metadata of format 3 states it."""

    @abstractmethod
    def encode(self, cell: Sequence[int]) -> str:
        """Return the key of the chunk at `cell`, relative to the array's path."""

    @abstractmethod
    def decode(self, key: str, rank: int) -> tuple[int, ...] | None:
        """Return the position whose key is `key`, or None if it is no chunk's."""

    def description(self) -> object:
        """Return the encoding as the engine takes it; by default a function of its position."""
        return self._encode_checked

    def _encode_checked(self, cell: tuple[int, ...]) -> str:
        key = self.encode(cell)
        if key in DOCUMENT_NAMES:
            message = f"chunk key encoding {self.name!r} gives chunk {cell} the key of metadata"
            raise ArgumentError(message, key=key, chunk=cell)
        return key


_INDEX: Final = re.compile("0|[1-9][0-9]{0,18}")


def _decode_indices(parts: list[str], rank: int) -> tuple[int, ...] | None:
    if len(parts) != rank or not all(_INDEX.fullmatch(part) for part in parts):
        return None
    return tuple(int(part) for part in parts)


@dataclass(frozen=True, slots=True)
class DefaultKeys(ChunkKeyEncoding):
    """``c/0/1``: the encoding "default" of format 3.

    Examples
    --------
    >>> DefaultKeys().encode((0, 12)), DefaultKeys(".").encode(())
    ('c/0/12', 'c')
    >>> DefaultKeys().decode("c/0/12", 2)
    (0, 12)
    """

    name = "default"
    separator: Separator = "/"

    @classmethod
    def from_json(cls, configuration: Members) -> DefaultKeys | None:
        separator = configuration.choice("separator", ("/", "."), "/")
        configuration.done()
        return None if separator is None else cls("/" if separator == "/" else ".")

    def to_json(self) -> JSONObject:
        return {"name": self.name, "configuration": {"separator": self.separator}}

    def encode(self, cell: Sequence[int]) -> str:
        return self.separator.join(("c", *map(str, cell)))

    def decode(self, key: str, rank: int) -> tuple[int, ...] | None:
        first, *parts = key.split(self.separator)
        return _decode_indices(parts, rank) if first == "c" else None

    def description(self) -> dict[str, object]:
        return {"kind": "default", "separator": self.separator}


@dataclass(frozen=True, slots=True)
class V2Keys(ChunkKeyEncoding):
    """``0.1``: the encoding of format 2, and "v2" of format 3.

    Examples
    --------
    >>> V2Keys().encode((0, 12)), V2Keys("/").encode(()), V2Keys().decode("0.12", 2)
    ('0.12', '0', (0, 12))
    """

    name = "v2"
    separator: Separator = "."
    is_explicit: bool = field(default=True, compare=False, repr=False)
    """Whether the metadata say so: what they leave open, a store may settle."""

    @classmethod
    def from_json(cls, configuration: Members) -> V2Keys | None:
        separator = configuration.choice("separator", ("/", "."), ".")
        configuration.done()
        return None if separator is None else cls("/" if separator == "/" else ".")

    def to_json(self) -> JSONObject:
        return {"name": self.name, "configuration": {"separator": self.separator}}

    def encode(self, cell: Sequence[int]) -> str:
        return self.separator.join(map(str, cell)) or "0"

    def decode(self, key: str, rank: int) -> tuple[int, ...] | None:
        if rank == 0:
            return () if key == "0" else None
        return _decode_indices(key.split(self.separator), rank)

    def description(self) -> dict[str, object]:
        return {"kind": "v2", "separator": self.separator}


_encodings: Registry[type[ChunkKeyEncoding]] = Registry(
    "chunk key encoding", "tessarr.chunk_key_encodings"
)


def register(encoding: type[ChunkKeyEncoding]) -> type[ChunkKeyEncoding]:
    """Register a chunk key encoding by its name; a class decorator."""
    _encodings.add(encoding.name, encoding)
    return encoding


def find_key_encoding(name: str) -> type[ChunkKeyEncoding] | None:
    """Return the chunk key encoding called `name`, or None."""
    return _encodings.find(name)


def select_chunk_keys(
    keys: Iterable[str], prefix: str, encoding: ChunkKeyEncoding, rank: int
) -> list[tuple[str, tuple[int, ...]]]:
    """Return which of some keys are those of chunks, each with its position in the grid.

    Parameters
    ----------
    keys
        All that are stored below `prefix`.
    prefix
        What the keys of the array begin with.
    encoding, rank
        Of the array.

    Raises
    ------
    StoreError
        If a chunk is stored under a key of another encoding than `encoding`, and not under its own;
        only the encodings ``default`` and ``v2`` are checked.

    Examples
    --------
    >>> select_chunk_keys(["a/.zarray", "a/0.1", "a/1.0"], "a/", V2Keys("."), 2)
    [('a/0.1', (0, 1)), ('a/1.0', (1, 0))]
    >>> select_chunk_keys(["a/.zarray", "a/0.1"], "a/", V2Keys("/"), 2)
    Traceback (most recent call last):
    tessarr.errors.StoreError: no chunk is stored under 'a/0/1', but one is under 'a/0.1': ...
    """
    known = list(keys)
    others = _ENGINE_ENCODINGS if type(encoding) in {DefaultKeys, V2Keys} else ()
    found, strays = [], []
    for key in known:
        name = key[len(prefix) :]
        cell = encoding.decode(name, rank)
        if cell is not None:
            found.append((key, cell))
            continue
        for other in others:
            if (cell := other.decode(name, rank)) is not None:
                strays.append((key, prefix + encoding.encode(cell), other))
                break
    if strays:
        there = set(known)
        for key, wanted, other in strays:
            if wanted not in there:
                raise StoreError(
                    f"no chunk is stored under {wanted!r}, but one is under {key!r}: by the "
                    f"metadata, keys have {_describe(encoding)}, this key has "
                    f"{_describe(other)}; correct the metadata, or rename or delete the files",
                    key=wanted,
                )
    return found


_ENGINE_ENCODINGS: Final = (DefaultKeys("/"), DefaultKeys("."), V2Keys("/"), V2Keys("."))
"""The encodings that the engine has, too."""


def _describe(encoding: ChunkKeyEncoding) -> str:
    separator = getattr(encoding, "separator", None)
    return f'the encoding "{encoding.name}" with the separator {separator!r}'


register(DefaultKeys)
register(V2Keys)
