"""Codecs in plain Python and NumPy: slow, short, and independent of the engine.

A chain is the list of codecs of a v3 document, ``[{"name": ..., "configuration": {...}}, ...]``.
Compressors come from the standard library. Zstandard, LZ4, Blosc and HDF5's checksums come from
numcodecs. This module implements crc32c, sharding and array codecs by their specifications.
"""

from __future__ import annotations

import itertools
import math
import random
import struct
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tessarr.testing.plain_types import clear_unused_bits

__all__ = ["Layout", "crc32c", "decode", "encode"]

Codec: TypeAlias = dict[str, Any]
Array: TypeAlias = npt.NDArray[Any]

_EMPTY = 2**64 - 1
_VLEN = ("vlen-utf8", "vlen-bytes")


@dataclass(frozen=True)
class Layout:
    """Properties of a chunk that a codec chain needs.

    Parameters
    ----------
    shape : tuple of int
        The shape of the chunk.
    dtype : numpy.dtype
        The data type of its elements in memory.
    fill : bytes
        One element, in the byte order of `dtype`.
    scramble : int or None
        A seed for random order and gaps of subchunks in shards, so that readers must rely on the
        index alone; None for the usual order.
    is_text : bool
        Whether variable-length elements are text.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fill: bytes
    scramble: int | None = None
    is_text: bool = False

    def filled(self) -> Array:
        """Return a chunk that holds only the fill value."""
        if self.dtype.kind == "O":
            filled = np.empty(self.shape, object)
            filled.fill(self.element)  # np.full would drop NULs at the end
            return filled
        element = np.frombuffer(self.fill, self.dtype)[0:1].reshape(())
        return np.broadcast_to(element, self.shape).copy()

    def is_fill(self, chunk: Array) -> bool:
        """Return whether all elements of a chunk have the bits of the fill value."""
        if self.dtype.kind == "O":
            return all(element == self.element for element in chunk.reshape(-1))
        return chunk.tobytes() == self.fill * chunk.size

    @property
    def element(self) -> str | bytes:
        """The fill value of variable-length elements."""
        return self.fill.decode() if self.is_text else self.fill

    def with_shape(self, shape: tuple[int, ...]) -> Layout:
        """Return the layout of a part of another shape."""
        return Layout(shape, self.dtype, self.fill, self.scramble, self.is_text)


def encode(chunk: Array, codecs: list[Codec], layout: Layout) -> bytes:
    """Encode one chunk.

    Examples
    --------
    >>> import numpy as np
    >>> one = np.array([[1, 2], [3, 4]], "u2")
    >>> chain = [{"name": "transpose", "configuration": {"order": [1, 0]}},
    ...          {"name": "bytes", "configuration": {"endian": "big"}}]
    >>> encode(one, chain, Layout((2, 2), one.dtype, bytes(2))).hex()
    '0001000300020004'
    """
    codec, rest = codecs[0], codecs[1:]
    if codec["name"] in _ARRAY_ARRAY:
        return encode(_encode_array(codec, chunk), rest, _encoded_layout(codec, layout))
    chunk = np.ascontiguousarray(chunk).reshape(chunk.shape)
    if codec["name"] in _VLEN:
        data = _encode_elements(chunk)
    elif codec["name"] == "bytes":
        data = chunk.astype(_stored_dtype(layout.dtype, codec)).tobytes()
    elif codec["name"] == "packbits":
        data = chunk.astype(chunk.dtype.newbyteorder("<")).tobytes()
    else:
        data = _encode_shard(chunk, codec["configuration"], layout)
    for codec in rest:
        data = _compress(codec, data)
    return data


def decode(data: bytes, codecs: list[Codec], layout: Layout) -> Array:
    """Decode one chunk; the inverse of `encode`.

    Raises
    ------
    ValueError
        If the bytes do not fit the layout, or a checksum differs.

    Examples
    --------
    >>> import numpy as np
    >>> chain = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]
    >>> layout = Layout((3,), np.dtype("u2"), bytes(2))
    >>> decode(encode(np.array([1, 2, 3], "u2"), chain, layout), chain, layout)
    array([1, 2, 3], dtype=uint16)
    """
    codec, rest = codecs[0], codecs[1:]
    if codec["name"] in _ARRAY_ARRAY:
        return _decode_array(codec, decode(data, rest, _encoded_layout(codec, layout)), layout)
    for outer in reversed(rest):
        data = _decompress(outer, data)
    if codec["name"] in _VLEN:
        return _decode_elements(data, codec["name"]).reshape(layout.shape)
    if codec["name"] not in ("bytes", "packbits"):
        return _decode_shard(data, codec["configuration"], layout)
    stored = _stored_dtype(layout.dtype, codec)
    if codec["name"] == "packbits":  # bytes hold the bits of all elements, lowest bit first
        stored = layout.dtype.newbyteorder("<")
    if len(data) != math.prod(layout.shape) * stored.itemsize:
        raise ValueError(f"{len(data)} bytes for shape {layout.shape} of {stored}")
    return clear_unused_bits(np.frombuffer(data, stored).reshape(layout.shape).astype(layout.dtype))


# Arrays to arrays

_ARRAY_ARRAY = ("transpose", "reshape", "cast_value", "numcodecs.delta", "delta")


def _encoded_layout(codec: Codec, layout: Layout) -> Layout:
    """Return the layout of the output of an array codec."""
    config = codec["configuration"]
    if codec["name"] == "transpose":
        return layout.with_shape(tuple(layout.shape[axis] for axis in config["order"]))
    if codec["name"] == "reshape":  # only to a single axis
        return layout.with_shape((math.prod(layout.shape),))
    if codec["name"] == "cast_value":
        fill = np.frombuffer(layout.fill, layout.dtype).astype(config["data_type"])
        return Layout(layout.shape, fill.dtype, fill.tobytes(), layout.scramble)
    return Layout(layout.shape, np.dtype(config["astype"]), b"", layout.scramble)


def _encode_array(codec: Codec, chunk: Array) -> Array:
    config = codec["configuration"]
    if codec["name"] == "transpose":
        return chunk.transpose(config["order"])
    if codec["name"] == "reshape":
        return chunk.reshape(-1)
    if codec["name"] == "cast_value":
        return chunk.astype(config["data_type"])
    items = [int(item) for item in chunk.reshape(-1)]
    differences = [item - before for item, before in zip(items, [0, *items], strict=False)]
    return _wrap_integers(differences, chunk.dtype).astype(config["astype"]).reshape(chunk.shape)


def _decode_array(codec: Codec, chunk: Array, layout: Layout) -> Array:
    config = codec["configuration"]
    if codec["name"] == "transpose":
        order = list(config["order"])
        return chunk.transpose([order.index(axis) for axis in range(len(order))])
    if codec["name"] == "reshape":
        return chunk.reshape(layout.shape)
    if codec["name"] == "cast_value":
        return chunk.astype(layout.dtype)
    sums = itertools.accumulate(int(item) for item in chunk.reshape(-1))
    return _wrap_integers(list(sums), layout.dtype).reshape(layout.shape)


def _wrap_integers(numbers: list[int], dtype: np.dtype[Any]) -> Array:
    """Return Python integers as elements of an integer type, modulo its range."""
    bits = 8 * dtype.itemsize
    unsigned = np.array([number % 2**bits for number in numbers], f"u{dtype.itemsize}")
    return unsigned.view(f"{dtype.kind}{dtype.itemsize}").astype(dtype)


def _stored_dtype(dtype: np.dtype[Any], codec: Codec) -> np.dtype[Any]:
    endian = codec.get("configuration", {}).get("endian")
    if endian is None:
        return dtype
    return dtype.newbyteorder(">" if endian == "big" else "<")


# Variable-length elements: numcodecs' vlen-utf8 and vlen-bytes


def _encode_elements(chunk: Array) -> bytes:
    out = struct.pack("<I", chunk.size)
    for element in chunk.reshape(-1):
        data = element.encode() if isinstance(element, str) else element
        out += struct.pack("<I", len(data)) + data
    return out


def _decode_elements(data: bytes, name: str) -> Array:
    (count,), offset = struct.unpack_from("<I", data), 4
    elements: list[str | bytes] = []
    for _ in range(count):
        (size,) = struct.unpack_from("<I", data, offset)
        element = data[offset + 4 : offset + 4 + size]
        elements.append(element.decode() if name == "vlen-utf8" else element)
        offset += 4 + size
    if offset != len(data):
        raise ValueError(f"{len(data)} bytes, of which elements take {offset}")
    return np.array(elements, object)


# Sharding: https://zarr-specs.readthedocs.io/en/latest/v3/codecs/sharding-indexed/index.html


def _grid(shape: tuple[int, ...], part: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(a // b for a, b in zip(shape, part, strict=True))


def _window(cell: tuple[int, ...], part: tuple[int, ...]) -> tuple[slice, ...]:
    return tuple(slice(n * size, (n + 1) * size) for n, size in zip(cell, part, strict=True))


def _index_layout(grid: tuple[int, ...]) -> Layout:
    return Layout((*grid, 2), np.dtype("<u8"), bytes(8))


def _encode_shard(shard: Array, config: dict[str, Any], layout: Layout) -> bytes:
    part = tuple(config["chunk_shape"])
    grid = _grid(shard.shape, part)
    at_start = config.get("index_location", "end") == "start"
    index_layout = _index_layout(grid)
    index = np.full(index_layout.shape, _EMPTY, index_layout.dtype)
    index_bytes = len(encode(index, config["index_codecs"], index_layout))
    cells = list(itertools.product(*map(range, grid)))
    dice = None if layout.scramble is None else random.Random(layout.scramble)  # noqa: S311
    if dice:
        dice.shuffle(cells)
    body = bytearray()
    for cell in cells:
        chunk = shard[_window(cell, part)]
        if layout.is_fill(chunk) and not (dice and dice.random() < 0.2):
            continue
        if dice and dice.random() < 0.3:
            body += dice.randbytes(dice.randrange(1, 9))
        data = encode(chunk, config["codecs"], layout.with_shape(part))
        index[cell] = len(body) + (index_bytes if at_start else 0), len(data)
        body += data
    encoded = encode(index, config["index_codecs"], index_layout)
    return encoded + bytes(body) if at_start else bytes(body) + encoded


def _decode_shard(data: bytes, config: dict[str, Any], layout: Layout) -> Array:
    part = tuple(config["chunk_shape"])
    grid = _grid(layout.shape, part)
    index_layout = _index_layout(grid)
    blank = np.zeros(index_layout.shape, index_layout.dtype)
    index_bytes = len(encode(blank, config["index_codecs"], index_layout))
    if len(data) < index_bytes:
        raise ValueError(f"a shard of {len(data)} bytes has no room for its index")
    at_start = config.get("index_location", "end") == "start"
    raw = data[:index_bytes] if at_start else data[len(data) - index_bytes :]
    index = decode(raw, config["index_codecs"], index_layout)
    shard = layout.filled()
    for cell in itertools.product(*map(range, grid)):
        offset, length = (int(value) for value in index[cell])
        if offset == length == _EMPTY:
            continue
        if offset + length > len(data):
            raise ValueError(f"subchunk {cell} lies outside its shard")
        chunk = decode(data[offset : offset + length], config["codecs"], layout.with_shape(part))
        shard[_window(cell, part)] = chunk
    return shard


# Bytes to bytes


def _compress(codec: Codec, data: bytes) -> bytes:
    if codec["name"] == "crc32c":
        return data + crc32c(data).to_bytes(4, "little")
    buffer: Any = data
    if codec["name"] == "blosc":
        # numcodecs uses the item size of the buffer as the element size.
        size = codec["configuration"].get("typesize") or 1
        buffer = np.frombuffer(data, f"V{size if len(data) % size == 0 else 1}")
    return bytes(_numcodecs(codec).encode(buffer))


def _decompress(codec: Codec, data: bytes) -> bytes:
    if codec["name"] != "crc32c":
        return bytes(_numcodecs(codec).decode(data))
    if crc32c(data[:-4]).to_bytes(4, "little") != data[-4:]:
        raise ValueError("the crc32c of the data differs from the stored one")
    return data[:-4]


def _numcodecs(codec: Codec) -> Any:
    """Return the codec of numcodecs, which has other names for some parameters."""
    import numcodecs  # pyright: ignore[reportMissingTypeStubs]

    name = codec["name"].removeprefix("numcodecs.")
    config = dict(codec.get("configuration", {}))
    if name == "blosc":
        config.pop("typesize", None)
        shuffles = {"noshuffle": 0, "shuffle": 1, "bitshuffle": 2}
        config["shuffle"] = shuffles.get(config["shuffle"], config["shuffle"])
    return numcodecs.get_codec({"id": name, **config})


def _crc_table() -> list[int]:
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_CRC_TABLE = _crc_table()


def crc32c(data: bytes) -> int:
    """Compute the checksum of RFC 3720, appendix B.4.

    Examples
    --------
    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    value = 0xFFFFFFFF
    for byte in data:
        value = (value >> 8) ^ _CRC_TABLE[(value ^ byte) & 0xFF]
    return value ^ 0xFFFFFFFF
