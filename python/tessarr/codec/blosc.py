"""The codec ``blosc``: Blosc 1 containers (Zarr 3 codecs/blosc; numcodecs id ``blosc``)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from tessarr.codec.base import register_codec
from tessarr.codec.native import NativeCodec
from tessarr.codec.parameters import check_choice, check_integer
from tessarr.format.validation import ABSENT, describe, is_integer

if TYPE_CHECKING:
    from tessarr.codec.base import ArraySpec
    from tessarr.format.validation import Members
    from tessarr.types import BytesLike, ZarrFormat

__all__ = ["COMPRESSORS", "MAX_BUFFER_BYTES", "Blosc"]

NOSHUFFLE: Final = 0
SHUFFLE: Final = 1
BITSHUFFLE: Final = 2
AUTOSHUFFLE: Final = -1

MAX_BUFFER_BYTES: Final = 2**31 - 1 - 16
"""The maximum size of the content of a container."""

COMPRESSORS: Final = ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd")
"""The compressors inside a container."""
_SHUFFLES: Final = {"noshuffle": NOSHUFFLE, "shuffle": SHUFFLE, "bitshuffle": BITSHUFFLE}
_SHUFFLES_OF_GDAL: Final = {"none": NOSHUFFLE, "byte": SHUFFLE, "bit": BITSHUFFLE, **_SHUFFLES}
"""Names that GDAL writes in place of the numbers of format 2."""
_SHUFFLE_NAMES: Final = {number: name for name, number in _SHUFFLES.items()}
_MAX_BLOCK_BYTES: Final = 2**31 - 1
_MAX_TYPESIZE: Final = 2**31 - 1


@register_codec
@dataclass(frozen=True, slots=True)
class Blosc(NativeCodec):
    """Blosc compression: a shuffle, then one of several compressors, in blocks.

    Parameters
    ----------
    cname : {"lz4", "lz4hc", "blosclz", "zstd", "zlib", "snappy"}
        The compressor.
    clevel : int
        0 (none) to 9 (smallest).
    shuffle : int or str
        0 or "noshuffle", 1 or "shuffle" (bytes), 2 or "bitshuffle"; -1 chooses "bitshuffle"
        for elements of one byte and "shuffle" for others.
    blocksize : int
        The size of a block in bytes; with 0, Blosc chooses it.
    typesize : int, optional
        The size of the shuffled elements in bytes; by default that of the array's elements.
        Codecs that differ only in this parameter are equal, because each chunk states it.
    spelling : str
        An alias that format 3 writes in place of the name, as other writers did.

    Examples
    --------
    >>> Blosc(cname="zstd", clevel=3, shuffle="bitshuffle").to_json(2)
    {'id': 'blosc', 'cname': 'zstd', 'clevel': 3, 'shuffle': 2}
    """

    name = "blosc"
    aliases = ("numcodecs.blosc",)
    cname: str = "lz4"
    clevel: int = 5
    shuffle: int = SHUFFLE
    blocksize: int = 0
    typesize: int | None = field(default=None, compare=False)
    spelling: str = field(default="", compare=False, repr=False, kw_only=True)

    # The constants of numcodecs: Blosc(shuffle=Blosc.BITSHUFFLE).
    NOSHUFFLE: ClassVar[int] = NOSHUFFLE
    SHUFFLE: ClassVar[int] = SHUFFLE
    BITSHUFFLE: ClassVar[int] = BITSHUFFLE
    AUTOSHUFFLE: ClassVar[int] = AUTOSHUFFLE

    def __repr__(self) -> str:
        # The text of zarr-python 2, without parameters that Blosc or the array determine.
        blocks = f", blocksize={self.blocksize}" if self.blocksize else ""
        cname, clevel, shuffle = self.cname, self.clevel, self.shuffle
        return f"Blosc(cname={cname!r}, clevel={clevel}, shuffle={shuffle}{blocks})"

    def __post_init__(self) -> None:
        shuffle_name: object = self.shuffle  # users may pass the names of format 3
        if isinstance(shuffle_name, str):
            check_choice("shuffle", shuffle_name, _SHUFFLES)
            object.__setattr__(self, "shuffle", _SHUFFLES[shuffle_name])
        check_choice("cname", self.cname, COMPRESSORS)
        check_integer("clevel", self.clevel, 0, 9)
        check_integer("shuffle", self.shuffle, AUTOSHUFFLE, BITSHUFFLE)
        check_integer("blocksize", self.blocksize, 0, _MAX_BLOCK_BYTES)
        if self.typesize is not None:
            check_integer("typesize", self.typesize, 1, _MAX_TYPESIZE)

    @classmethod
    def read(cls, members: Members, zarr_format: ZarrFormat) -> Blosc | None:
        codec = cls._read_v2(members) if zarr_format == 2 else cls._read_v3(members)
        members.done()
        return codec

    @classmethod
    def _read_v3(cls, members: Members) -> Blosc | None:
        cname = members.choice("cname", COMPRESSORS)
        clevel = members.integer("clevel", 0, 9)
        shuffle = members.choice("shuffle", _SHUFFLES)
        blocksize = members.integer("blocksize", 0, _MAX_BLOCK_BYTES)
        # Without a shuffle the size of elements has no meaning.
        typesize: int | None = None
        value = members.get("typesize")
        if value is None or (is_integer(value) and value == 0):
            message = f"{describe(value)}, taken for the size of the elements"
            members.problems.tolerate(members.at("typesize"), message)
        elif value is not ABSENT or shuffle != "noshuffle":
            typesize = members.integer("typesize", 1, _MAX_TYPESIZE)
            if typesize is None:
                return None
        if cname is None or clevel is None or shuffle is None or blocksize is None:
            return None
        return cls(cname, clevel, _SHUFFLES[shuffle], blocksize, typesize)

    @classmethod
    def _read_v2(cls, members: Members) -> Blosc | None:
        default = cls()
        cname = members.choice("cname", COMPRESSORS, default.cname)
        clevel = members.integer("clevel", 0, 9, default.clevel)
        value = members.get("shuffle")
        if isinstance(value, str) and value.lower() in _SHUFFLES_OF_GDAL:
            shuffle: int | None = _SHUFFLES_OF_GDAL[value.lower()]
            message = f"the text {describe(value)}, taken for {shuffle}"
            members.problems.tolerate(members.at("shuffle"), message)
        else:
            shuffle = members.integer("shuffle", AUTOSHUFFLE, BITSHUFFLE, default.shuffle)
        blocksize = members.integer("blocksize", 0, _MAX_BLOCK_BYTES, default.blocksize)
        members.get("typesize")  # newer numcodecs writes it; each chunk states it, too
        if cname is None or clevel is None or shuffle is None or blocksize is None:
            return None
        return cls(cname, clevel, shuffle, blocksize)

    def configuration(self) -> dict[str, Any]:
        config: dict[str, Any] = {"cname": self.cname, "clevel": self.clevel}
        config["shuffle"] = _SHUFFLE_NAMES[self._shuffle()]
        if self.typesize is not None:
            config["typesize"] = self.typesize
        config["blocksize"] = self.blocksize
        return config

    def get_config(self) -> dict[str, Any]:
        names = ("cname", "clevel", "shuffle", "blocksize")
        return {"id": self.name, **{name: getattr(self, name) for name in names}}

    def stored_config(self) -> dict[str, Any]:
        config = self.get_config()
        if not self.blocksize:  # the default of the format
            del config["blocksize"]
        return config

    def resolve(self, spec: ArraySpec, zarr_format: ZarrFormat) -> Blosc:
        codec = self
        # Format 3 states the size of shuffled elements only; format 2 lacks the member.
        if codec.typesize is None and (zarr_format == 2 or codec.shuffle != NOSHUFFLE):
            # Elements of any length are bytes, so a shuffle has no benefit.
            item_bytes = 1 if spec.data_type.elements else spec.data_type.item_bytes
            codec = replace(codec, typesize=item_bytes)
        # Format 3 has no automatic shuffle, except under the names of numcodecs.
        if zarr_format == 3 and codec.shuffle == AUTOSHUFFLE and not codec.spelling:
            codec = replace(codec, shuffle=codec._shuffle())
        return codec

    def encode(self, data: BytesLike, /) -> bytes:
        """Encode bytes or an array; the array's element size is the default `typesize`."""
        itemsize = getattr(data, "itemsize", 1)
        if self.typesize is None and 1 < itemsize <= _MAX_TYPESIZE:
            return replace(self, typesize=itemsize).encode(data)
        return super(Blosc, self).encode(data)

    def _shuffle(self) -> int:
        if self.shuffle != AUTOSHUFFLE:
            return self.shuffle
        return BITSHUFFLE if self.typesize == 1 else SHUFFLE

    def engine(self) -> dict[str, object]:
        return {
            "name": "blosc",
            "cname": self.cname,
            "clevel": self.clevel,
            "shuffle": self._shuffle(),
            # The container has one byte for the size; Blosc treats larger elements as bytes.
            "typesize": self.typesize if self.typesize and self.typesize < 256 else 1,
            "blocksize": self.blocksize,
        }
