"""Codecs from bytes to bytes that the engine implements, and their base class.

They are ``gzip`` (RFC 1952), ``zlib`` (RFC 1950), ``zstd`` (RFC 8878), ``lz4`` and ``shuffle``;
`tessarr.codec.blosc` and `tessarr.codec.checksum` have further ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from tessarr.codec.base import BytesBytesCodec, deliver, register_codec, to_memoryview
from tessarr.codec.parameters import check_integer
from tessarr.format.validation import is_integer

if TYPE_CHECKING:
    from tessarr.codec.base import ArraySpec
    from tessarr.format.validation import Members
    from tessarr.types import BytesLike, ZarrFormat

__all__ = ["LZ4", "GZip", "NativeCodec", "Shuffle", "Zlib", "Zstd"]


class NativeCodec(BytesBytesCodec):
    """A codec from bytes to bytes that the engine has."""

    __slots__ = ()

    def engine(self) -> dict[str, object]:
        """Return the description of the codec for the engine."""
        raise NotImplementedError

    def encode(self, data: BytesLike, /) -> bytes:
        """Encode bytes."""
        from tessarr import _engine  # a late import: metadata does not need the engine

        return _engine.encode(self.engine(), to_memoryview(data))

    def decode(self, data: BytesLike, /, out: BytesLike | None = None) -> BytesLike:
        """Decode bytes, into the buffer `out` if it is not None."""
        from tessarr import _engine

        size = None if out is None else memoryview(out).nbytes  # type: ignore[arg-type]
        return deliver(_engine.decode(self.engine(), data, size), out)

    def decode_at_most(self, data: BytesLike, limit: int, /) -> bytes:
        """Decode bytes; more than `limit` are an error."""
        from tessarr import _engine

        return _engine.decode(self.engine(), data, None, limit)


@register_codec
@dataclass(frozen=True, slots=True)
class GZip(NativeCodec):
    """Gzip compression.

    Parameters
    ----------
    level : int
        0 (none) to 9 (smallest); in format 2 also -1, the library's default.
    spelling : str
        An alias that format 3 writes in place of the name, as other writers did.

    Examples
    --------
    >>> GZip(5).to_json(3), GZip(5).to_json(2)
    ({'name': 'gzip', 'configuration': {'level': 5}}, {'id': 'gzip', 'level': 5})
    """

    name = "gzip"
    aliases = ("numcodecs.gzip",)
    level: int = 1
    spelling: str = field(default="", compare=False, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        check_integer("level", self.level, -1, 9)

    @classmethod
    def read(cls, members: Members, zarr_format: ZarrFormat) -> GZip | None:
        level = (
            members.integer("level", 0, 9)
            if zarr_format == 3
            else members.integer("level", -1, 9, cls().level)
        )
        members.done()
        return None if level is None else cls(level)

    def resolve(self, spec: ArraySpec, zarr_format: ZarrFormat) -> GZip:
        # Format 3 cannot state the default.
        is_valid = zarr_format == 2 or bool(self.spelling)
        return self if is_valid else replace(self, level=self._level())

    def engine(self) -> dict[str, object]:
        return {"name": "gzip", "level": self._level()}

    def _level(self) -> int:
        return 6 if self.level == -1 else self.level


@register_codec
@dataclass(frozen=True, slots=True)
class Zlib(NativeCodec):
    """Zlib compression.

    Parameters
    ----------
    level : int
        0 (none) to 9 (smallest); -1 is the library's default.

    Examples
    --------
    >>> Zlib(1).to_json(3), Zlib(1).to_json(2)
    ({'name': 'numcodecs.zlib', 'configuration': {'level': 1}}, {'id': 'zlib', 'level': 1})
    """

    name = "numcodecs.zlib"
    codec_id = "zlib"
    level: int = 1

    def __post_init__(self) -> None:
        check_integer("level", self.level, -1, 9)

    def engine(self) -> dict[str, object]:
        return {"name": "zlib", "level": 6 if self.level == -1 else self.level}


_LEVELS: Final = (-131072, 22)


@register_codec
@dataclass(frozen=True, slots=True)
class Zstd(NativeCodec):
    """Zstandard compression.

    Parameters
    ----------
    level : int
        -131072 (fastest) to 22 (smallest); 0 is the library's default, 3.
    checksum : bool
        Whether a checksum of the content is stored.
    spelling : str
        An alias that format 3 writes in place of the name, as other writers did.

    Examples
    --------
    >>> Zstd(3).to_json(3)
    {'name': 'zstd', 'configuration': {'level': 3, 'checksum': False}}
    """

    name = "zstd"
    aliases = ("numcodecs.zstd",)
    level: int = 0
    checksum: bool = False
    spelling: str = field(default="", compare=False, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        check_integer("level", self.level, *_LEVELS)

    @classmethod
    def read(cls, members: Members, zarr_format: ZarrFormat) -> Zstd | None:
        low, high = _LEVELS
        if zarr_format == 3:
            level = members.integer("level", low, high)
        else:
            level = members.integer("level", low, None, cls().level)
            if level is not None and level > high:
                defect = f"zstd has no level {level}, taken for {high} as numcodecs does"
                members.problems.tolerate(members.at("level"), defect)
                level = high
        checksum = members.boolean("checksum", default=False)
        members.done()
        return None if level is None or checksum is None else cls(level, checksum)

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Zstd:
        level = config.get("level", cls().level)  # numcodecs lowers it when it encodes
        high = is_integer(level) and level > _LEVELS[1]
        return super(Zstd, cls).from_config({**config, "level": _LEVELS[1] if high else level})

    def configuration(self) -> dict[str, Any]:
        # zarrs refuses format 3 without the member, which is optional there.
        return {"level": self.level, "checksum": self.checksum}

    def get_config(self) -> dict[str, Any]:
        return {"id": self.name, "level": self.level, "checksum": self.checksum}

    def stored_config(self) -> dict[str, Any]:
        config = self.get_config()
        if not self.checksum:  # TensorStore and numcodecs before 0.13 refuse the member
            del config["checksum"]
        return config

    def engine(self) -> dict[str, object]:
        return {"name": "zstd", "level": self.level, "checksum": self.checksum}


_MAX_ACCELERATION = 2**31 - 1


@register_codec
@dataclass(frozen=True, slots=True)
class LZ4(NativeCodec):
    """LZ4 compression in numcodecs' framing.

    Parameters
    ----------
    acceleration : int
        Higher is faster and larger; values below 1 mean 1.

    Examples
    --------
    >>> LZ4().to_json(2)
    {'id': 'lz4', 'acceleration': 1}
    """

    name = "numcodecs.lz4"
    codec_id = "lz4"
    acceleration: int = 1

    def __post_init__(self) -> None:
        check_integer("acceleration", self.acceleration, -_MAX_ACCELERATION, _MAX_ACCELERATION)

    def engine(self) -> dict[str, object]:
        return {"name": "lz4", "acceleration": max(self.acceleration, 1)}


@register_codec
@dataclass(frozen=True, slots=True)
class Shuffle(NativeCodec):
    """Byte shuffle, which improves the compression by the next codec.

    Parameters
    ----------
    elementsize : int, optional
        The size of an item in bytes. None and 0, which netCDF writes, mean the size of the
        elements; 1 means no shuffle.

    Examples
    --------
    >>> Shuffle(2).encode(b"aAbBcC")
    b'abcABC'
    """

    name = "numcodecs.shuffle"
    codec_id = "shuffle"
    elementsize: int | None = None

    def __post_init__(self) -> None:
        if self.elementsize is not None:
            check_integer("elementsize", self.elementsize, 0, 2**31 - 1)

    @classmethod
    def read(cls, members: Members, zarr_format: ZarrFormat) -> Shuffle | None:
        # numcodecs' default in format 2; zarr-python uses the element size in format 3.
        default = 4 if zarr_format == 2 else None
        before = len(members.problems)
        if members.get("elementsize") is None:
            elementsize: int | None = 0
        else:
            elementsize = members.integer("elementsize", 0, 2**31 - 1, default)
        members.done()
        return cls(elementsize) if len(members.problems) == before else None

    def encoded_bytes(self, size: int) -> int:
        return size

    def resolve(self, spec: ArraySpec, zarr_format: ZarrFormat) -> Shuffle:
        if self.elementsize:
            return self
        # Elements of any length are bytes, which need no shuffle.
        any_length = spec.data_type.elements is not None
        return replace(self, elementsize=1 if any_length else spec.data_type.item_bytes)

    def engine(self) -> dict[str, object]:
        return {"name": "shuffle", "item_bytes": max(self.elementsize or 1, 1)}
