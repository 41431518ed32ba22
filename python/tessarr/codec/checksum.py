"""Checksum codecs, which add 4 bytes before or after the data: damage is detected on reading."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from tessarr.codec.base import register_codec
from tessarr.codec.native import NativeCodec
from tessarr.codec.parameters import WrongParameter, check_choice, check_integer

if TYPE_CHECKING:
    from tessarr.format.validation import Members
    from tessarr.types import ZarrFormat

__all__ = ["CRC32", "Adler32", "Checksum", "Crc32c", "Fletcher32", "JenkinsLookup3"]


Location: TypeAlias = Literal["start", "end"]


class Checksum(NativeCodec):
    """A checksum of 4 bytes: damage is detected when a chunk is read."""

    __slots__ = ()

    location: Location

    def __post_init__(self) -> None:
        check_choice("location", self.location, ("start", "end"))

    def get_config(self) -> dict[str, Any]:
        # numcodecs states the location only if it is not the default.
        config: dict[str, Any] = {"id": self.codec_id or self.name}
        if self.location != type(self)().location:
            config["location"] = self.location
        return config

    def encoded_bytes(self, size: int) -> int:
        return size + 4

    def engine(self) -> dict[str, object]:
        name = self.codec_id or self.name
        return {"name": name, "at_start": self.location == "start"}


@register_codec
@dataclass(frozen=True, slots=True)
class Adler32(Checksum):
    """Adler-32 checksum: damage is detected when a chunk is read.

    Parameters
    ----------
    location : {"start", "end"}
        Where the checksum is.

    Examples
    --------
    >>> Adler32().to_json(2), Adler32("end").to_json(2)
    ({'id': 'adler32'}, {'id': 'adler32', 'location': 'end'})
    """

    name = "numcodecs.adler32"
    codec_id = "adler32"
    location: Location = "start"


@register_codec
@dataclass(frozen=True, slots=True)
class CRC32(Checksum):
    """CRC-32 checksum: damage is detected when a chunk is read.

    Parameters
    ----------
    location : {"start", "end"}
        Where the checksum is.

    Examples
    --------
    >>> CRC32().to_json(2), CRC32("end").to_json(2)
    ({'id': 'crc32'}, {'id': 'crc32', 'location': 'end'})
    """

    name = "numcodecs.crc32"
    codec_id = "crc32"
    location: Location = "start"


@register_codec
@dataclass(frozen=True, slots=True)
class Crc32c(Checksum):
    """CRC-32C checksum: damage is detected when a chunk is read.

    Parameters
    ----------
    location : {"end", "start"}
        The position of the checksum; "start" only in the form of numcodecs.
    spelling : str
        An alias that format 3 writes in place of the name, as other writers did.

    Examples
    --------
    >>> Crc32c().to_json(3)
    {'name': 'crc32c'}
    """

    name = "crc32c"
    aliases = ("numcodecs.crc32c",)
    location: Location = "end"
    spelling: str = field(default="", compare=False, repr=False, kw_only=True)

    @classmethod
    def read(cls, members: Members, zarr_format: ZarrFormat) -> Crc32c | None:
        location: str | None = "end"
        if zarr_format == 2:
            location = members.choice("location", ("start", "end", None), None) or "end"
        members.done()
        return cls("start" if location == "start" else "end")

    def to_json(self, zarr_format: ZarrFormat) -> Any:
        if zarr_format == 3 and self.location == "start":
            return super(Crc32c, replace(self, spelling=self.aliases[0])).to_json(3)
        return super(Crc32c, self).to_json(zarr_format)


@register_codec
@dataclass(frozen=True, slots=True)
class Fletcher32(Checksum):
    """Fletcher's checksum, as in HDF5: damage is detected when a chunk is read.

    Examples
    --------
    >>> Fletcher32().to_json(2), Fletcher32().encode(b"abcde").hex()
    ({'id': 'fletcher32'}, '6162636465c729f04f')
    """

    name = "numcodecs.fletcher32"
    codec_id = "fletcher32"
    location: ClassVar[Location] = "end"  # type: ignore[misc]


@register_codec
@dataclass(frozen=True, slots=True)
class JenkinsLookup3(Checksum):
    """Bob Jenkins' lookup3 checksum: damage is detected when a chunk is read.

    Parameters
    ----------
    initval : int
        The initial value of the sum, 0 to 2**32 - 1.
    prefix : None
        numcodecs' initial bytes of the sum; metadata cannot state them.

    Examples
    --------
    >>> JenkinsLookup3().encode(b"Four score and seven years ago")[-4:].hex()
    '51057717'
    """

    name = "numcodecs.jenkins_lookup3"
    codec_id = "jenkins_lookup3"
    location: ClassVar[Location] = "end"  # type: ignore[misc]
    initval: int = 0
    prefix: None = None

    def __post_init__(self) -> None:
        check_integer("initval", self.initval, 0, 2**32 - 1)
        if self.prefix is not None:
            raise WrongParameter("prefix", self.prefix, "null", right_type=True)

    def get_config(self) -> dict[str, Any]:
        return {"id": self.codec_id, "initval": self.initval, "prefix": None}

    def engine(self) -> dict[str, object]:
        config = super(JenkinsLookup3, self).engine()
        return {**config, "initval": self.initval}
