"""Chunk key encodings: an extension point of format 3.

A *key* names a value in a store: the path of a node and a name such as ``zarr.json`` or ``c/0/1``.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final, Literal, Self

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
    """The base class of chunk key encodings, which derive a key from chunk coordinates."""

    name: ClassVar[str] = ""

    @classmethod
    @abstractmethod
    def from_json(cls, configuration: Members) -> ChunkKeyEncoding | None:
        """Return the encoding of a ``configuration``; if invalid, add problems, return None."""

    @abstractmethod
    def to_json(self) -> JSONObject:
        """Return the JSON of the encoding in format 3."""

    @abstractmethod
    def encode(self, cell: Sequence[int]) -> str:
        """Return the key of the chunk at `cell`, relative to the array's path."""

    @abstractmethod
    def decode(self, key: str, rank: int) -> tuple[int, ...] | None:
        """Return the chunk coordinates of `key`, or None if it is not the key of a chunk."""

    def decode_columns(
        self, keys: Sequence[str], prefix: str, rank: int
    ) -> list[tuple[int | str, ...]]:
        """Return the chunk coordinates of many keys, as a column for each axis.

        Parameters
        ----------
        keys
            Keys of an array; the method ignores those of other values than chunks.
        prefix
            The prefix of the keys of the array.
        rank
            The rank of the array, at least 1.

        Returns
        -------
        list
            The columns. An index may be a number or its decimal text.

        Examples
        --------
        >>> DefaultKeys().decode_columns(["a/zarr.json", "a/c/0/12", "a/c/1/7"], "a/", 2)
        [('0', '1'), ('12', '7')]
        """
        decoded = (self.decode(key[len(prefix) :], rank) for key in keys)
        cells = [cell for cell in decoded if cell is not None]
        return [*zip(*cells, strict=True)] if cells else [()] * rank

    def description(self) -> object:
        """Return the encoding for the engine; by default a function of the chunk coordinates."""
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
class _SeparatedKeys(ChunkKeyEncoding):
    """The base class of the encodings that the engine implements."""

    first: ClassVar[tuple[str, ...]] = ()
    """The parts of a key before the indices."""
    separator: Separator = "/"

    @classmethod
    def from_json(cls, configuration: Members) -> Self | None:
        separator = configuration.choice("separator", ("/", "."), cls().separator)
        configuration.done()
        return None if separator is None else cls("/" if separator == "/" else ".")

    def to_json(self) -> JSONObject:
        return {"name": self.name, "configuration": {"separator": self.separator}}

    def description(self) -> dict[str, object]:
        return {"kind": self.name, "separator": self.separator}

    def decode_columns(
        self, keys: Sequence[str], prefix: str, rank: int
    ) -> list[tuple[int | str, ...]]:
        text = "\0".join(keys)
        if text.count("\0") >= len(keys):  # a key contains the separator
            return super(_SeparatedKeys, self).decode_columns(keys, prefix, rank)
        name = re.escape(self.separator).join([*self.first, *[f"({_INDEX.pattern})"] * rank])
        found = re.findall(rf"(?:\A|\0){re.escape(prefix)}{name}(?![^\0])", text)
        return [*zip(*found, strict=True)] if rank > 1 and found else [tuple(found)] * rank


@dataclass(frozen=True, slots=True)
class DefaultKeys(_SeparatedKeys):
    """``c/0/1``: the encoding "default" of format 3.

    Examples
    --------
    >>> DefaultKeys().encode((0, 12)), DefaultKeys(".").encode(())
    ('c/0/12', 'c')
    >>> DefaultKeys().decode("c/0/12", 2)
    (0, 12)
    """

    name = "default"
    first = ("c",)
    separator: Separator = "/"

    def encode(self, cell: Sequence[int]) -> str:
        return self.separator.join((*self.first, *map(str, cell)))

    def decode(self, key: str, rank: int) -> tuple[int, ...] | None:
        first, *parts = key.split(self.separator)
        return _decode_indices(parts, rank) if first == "c" else None


@dataclass(frozen=True, slots=True)
class V2Keys(_SeparatedKeys):
    """``0.1``: the encoding of format 2, and "v2" of format 3.

    Examples
    --------
    >>> V2Keys().encode((0, 12)), V2Keys("/").encode(()), V2Keys().decode("0.12", 2)
    ('0.12', '0', (0, 12))
    """

    name = "v2"
    separator: Separator = "."
    is_explicit: bool = field(default=True, compare=False, repr=False)
    """Whether the metadata states the separator; otherwise the store may choose it."""

    def encode(self, cell: Sequence[int]) -> str:
        return self.separator.join(map(str, cell)) or "0"

    def decode(self, key: str, rank: int) -> tuple[int, ...] | None:
        if rank == 0:
            return () if key == "0" else None
        return _decode_indices(key.split(self.separator), rank)


_encodings: Registry[type[ChunkKeyEncoding]] = Registry(
    "chunk key encoding", "tessarr.chunk_key_encodings"
)


def register(encoding: type[ChunkKeyEncoding]) -> type[ChunkKeyEncoding]:
    """Register a chunk key encoding by its name; a class decorator."""
    _encodings[encoding.name] = encoding
    return encoding


find_key_encoding = _encodings.find
"""Return the chunk key encoding with a name, or None."""


def select_chunk_keys(
    keys: Iterable[str], prefix: str, encoding: ChunkKeyEncoding, rank: int
) -> list[tuple[str, tuple[int, ...]]]:
    """Return the keys of chunks among `keys`, each with its chunk coordinates.

    Parameters
    ----------
    keys
        All stored keys below `prefix`.
    prefix
        The prefix of the keys of the array.
    encoding, rank
        The encoding and the rank of the array.

    Raises
    ------
    StoreError
        If a chunk has a key of another encoding, and none of `encoding`; only the encodings
        ``default`` and ``v2`` are checked.

    Examples
    --------
    >>> select_chunk_keys(["a/.zarray", "a/0.1", "a/1.0"], "a/", V2Keys("."), 2)
    [('a/0.1', (0, 1)), ('a/1.0', (1, 0))]
    >>> select_chunk_keys(["a/.zarray", "a/0.1"], "a/", V2Keys("/"), 2)
    Traceback (most recent call last):
    tessarr.errors.StoreError: no chunk is stored under 'a/0/1', but one is under 'a/0.1': ...
    """
    all_keys = list(keys)
    others = _ENGINE_ENCODINGS if type(encoding) in {DefaultKeys, V2Keys} else ()
    chunk_keys, misnamed = [], []
    for key in all_keys:
        name = key[len(prefix) :]
        cell = encoding.decode(name, rank)
        if cell is not None:
            chunk_keys.append((key, cell))
            continue
        for other in others:
            if (cell := other.decode(name, rank)) is not None:
                misnamed.append((key, prefix + encoding.encode(cell), other))
                break
    if misnamed:
        existing = set(all_keys)
        for key, expected_key, other in misnamed:
            if expected_key not in existing:
                raise StoreError(
                    f"no chunk is stored under {expected_key!r}, but one is under {key!r}: by the "
                    f"metadata, keys have {_describe(encoding)}, this key has "
                    f"{_describe(other)}; correct the metadata, or rename or delete the files",
                    key=expected_key,
                )
    return chunk_keys


_ENGINE_ENCODINGS: Final = (DefaultKeys("/"), DefaultKeys("."), V2Keys("/"), V2Keys("."))
"""The encodings that the engine implements."""


def _describe(encoding: ChunkKeyEncoding) -> str:
    separator = getattr(encoding, "separator", None)
    return f'the encoding "{encoding.name}" with the separator {separator!r}'


register(DefaultKeys)
register(V2Keys)
