"""Hypothesis strategies for arrays: metadata documents, as JSON, and values to store in them.

The documents follow the specifications and do not use `tessarr.metadata`, so that tests can find
its mistakes.
"""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from tessarr.testing.data_types import (
    fill_values,
    records_v2,
    records_v3,
    types_v2,
    types_v3,
)
from tessarr.testing.plain_types import clear_unused_bits, data_type_v2, data_type_v3

__all__ = [
    "ArrayCase",
    "array_cases",
    "bytes_codecs",
    "chunk_shapes",
    "shapes",
    "values",
]

Shape: TypeAlias = tuple[int, ...]
Codec: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class ArrayCase:
    """A new array for a test: its metadata document, shape and data type.

    Parameters
    ----------
    zarr_format : int
        2 or 3.
    document : dict
        The JSON of ``.zarray`` or ``zarr.json``.
    shape : tuple of int
        The shape of the array.
    dtype : numpy.dtype
        The data type of the elements in memory.
    """

    zarr_format: int
    document: dict[str, Any]
    shape: Shape
    dtype: np.dtype[Any]

    def store(self) -> dict[str, bytes]:
        """Return a store with the metadata document only."""
        name = "zarr.json" if self.zarr_format == 3 else ".zarray"
        return {name: json.dumps(self.document).encode()}


@st.composite
def shapes(draw: st.DrawFn, *, max_rank: int = 4, max_size: int = 400) -> Shape:
    """Generate a shape of rank 0 to `max_rank`; lengths of 0 and 1 occur."""
    rank = draw(st.sampled_from([n for n in (0, 1, 1, 2, 2, 2, 3, 3, 4) if n <= max_rank]))
    longest = max(2, min(12, math.floor(max_size ** (1 / max(rank, 1)))))
    lengths = [draw(st.integers(1, longest)) for _ in range(rank)]
    if rank == 1 and draw(st.booleans()):
        lengths = [draw(st.integers(1, max_size))]
    if rank and draw(st.integers(0, 14)) == 0:
        lengths[draw(st.integers(0, rank - 1))] = 0
    return tuple(lengths)


@st.composite
def chunk_shapes(draw: st.DrawFn, shape: Shape, *, parts: Shape | None = None) -> Shape:
    """Generate a chunk shape that needs few chunks, often with edge chunks.

    Parameters
    ----------
    shape : tuple of int
        The shape of the array.
    parts : tuple of int, optional
        A shape whose multiple the chunk shape must be along each axis.
    """
    lengths = []
    for axis, size in enumerate(shape):
        unit = parts[axis] if parts else 1
        least = max(1, math.ceil(size / 5 / unit))
        most = max(least, math.ceil((size + 2) / unit))
        lengths.append(unit * draw(st.integers(least, most)))
    return tuple(lengths)


def bytes_codecs(item_bytes: int) -> st.SearchStrategy[Codec]:
    """Generate one bytes-to-bytes codec of format 3."""
    return st.one_of(
        st.just({"name": "crc32c"}),
        _codec("gzip", level=st.integers(0, 9)),
        _codec("zstd", level=st.sampled_from((-5, 0, 1, 3, 9)), checksum=st.booleans()),
        _codec(
            "blosc",
            cname=st.sampled_from(("lz4", "lz4hc", "blosclz", "zstd", "zlib")),
            clevel=st.integers(0, 9),
            shuffle=st.sampled_from(("noshuffle", "shuffle", "bitshuffle")),
            typesize=st.sampled_from((item_bytes, item_bytes, 1, 3)),
            blocksize=st.sampled_from((0, 0, 0, 64, 256)),
        ),
        st.sampled_from(_CHECKSUMS).map(lambda name: {"name": name, "configuration": {}}),
        st.sampled_from(_IN_PYTHON).map(lambda name: {"name": name, "configuration": {}}),
    )


_CHECKSUMS = (
    *("numcodecs.crc32", "numcodecs.adler32"),
    *("numcodecs.fletcher32", "numcodecs.jenkins_lookup3"),
)
_IN_PYTHON = ("numcodecs.bz2", "numcodecs.base64")


def _codec(name: str, **configuration: st.SearchStrategy[Any]) -> st.SearchStrategy[Codec]:
    fixed = st.fixed_dictionaries(configuration)
    return fixed.map(lambda config: {"name": name, "configuration": config})


@st.composite
def array_cases(
    draw: st.DrawFn,
    *,
    zarr_format: int | None = None,
    sharded: bool | None = None,
    rectilinear: bool = False,
    records: bool = False,
) -> ArrayCase:
    """Generate an array of either format.

    Parameters
    ----------
    zarr_format : int, optional
        2 or 3; both by default.
    sharded : bool, optional
        Whether the array is sharded; both by default. Format 2 has no shards.
    rectilinear : bool, optional
        Whether chunks, or shards, have different lengths. Format 3 only.
    records : bool, optional
        Whether the elements must be records.
    """
    if zarr_format is None:
        zarr_format = 3 if sharded else draw(st.sampled_from((2, 3, 3)))
    if zarr_format == 2:
        return draw(_v2_cases(records_v2() if records else types_v2()))
    return draw(_v3_cases(records_v3() if records else types_v3(), sharded, rectilinear))


@st.composite
def _v2_cases(draw: st.DrawFn, types: st.SearchStrategy[Any]) -> ArrayCase:
    shape = draw(shapes())
    chunk_shape = draw(chunk_shapes(shape))
    data_type = draw(types)
    dtype = data_type_v2(data_type)
    document = {
        "zarr_format": 2,
        "shape": list(shape),
        "chunks": list(chunk_shape),
        "dtype": data_type,
        "fill_value": draw(st.none() | fill_values(dtype, 2)),
        "order": draw(st.sampled_from(("C", "C", "F"))),
        "compressor": draw(st.none() | _v2_codecs()),
        "filters": draw(_v2_filters(dtype)),
    }
    separator = draw(st.sampled_from((None, ".", "/")))
    if separator:
        document["dimension_separator"] = separator
    return ArrayCase(2, document, shape, dtype)


def _v2_filters(dtype: np.dtype[Any]) -> st.SearchStrategy[list[Codec] | None]:
    delta = {"id": "delta", "dtype": dtype.str, "astype": dtype.str}
    array = st.sampled_from(([], [], [delta])) if _is_number(dtype, "iu") else st.just([])
    others: tuple[list[Codec], ...] = (
        *([], [], [{"id": "shuffle", "elementsize": dtype.itemsize}]),
        *([{"id": "zlib", "level": 1}], [{"id": "fletcher32"}], [{"id": "crc32"}]),
    )
    both = st.tuples(array, st.sampled_from(others))
    return both.map(lambda filters: [*filters[0], *filters[1]] or None)


def _v2_codecs() -> st.SearchStrategy[Codec]:
    blosc = st.fixed_dictionaries(
        {
            "id": st.just("blosc"),
            "cname": st.sampled_from(("lz4", "zstd", "blosclz", "zlib", "lz4hc")),
            "clevel": st.integers(0, 9),
            "shuffle": st.sampled_from((0, 1, 2)),
            "blocksize": st.sampled_from((0, 128)),
        }
    )
    return st.one_of(
        blosc,
        st.builds(lambda level: {"id": "zlib", "level": level}, st.integers(0, 9)),
        st.builds(lambda level: {"id": "gzip", "level": level}, st.integers(0, 9)),
        st.builds(lambda level: {"id": "zstd", "level": level}, st.sampled_from((-1, 0, 1, 5))),
        st.builds(lambda level: {"id": "lz4", "acceleration": level}, st.integers(1, 9)),
        st.builds(lambda level: {"id": "bz2", "level": level}, st.integers(1, 9)),
        st.just({"id": "lzma", "preset": 0}),
    )


@st.composite
def _v3_cases(
    draw: st.DrawFn, types: st.SearchStrategy[Any], sharded: bool | None, rectilinear: bool
) -> ArrayCase:
    shape = draw(shapes())
    data_type = draw(types)
    dtype = data_type_v3(data_type)
    depth = draw(st.sampled_from((0, 1, 1, 2))) if sharded is None else int(sharded)
    if sharded:
        depth = draw(st.sampled_from((1, 1, 2)))
    # From the innermost chunk outwards: each level is a multiple of the previous one.
    parts = draw(st.tuples(*(st.integers(1, max(1, min(4, size))) for size in shape)))
    levels = [tuple(parts)]
    for n in range(depth):
        last = n == depth - 1
        levels.append(
            draw(chunk_shapes(shape, parts=levels[-1]))
            if last
            else tuple(a * draw(st.integers(1, 2)) for a in levels[-1])
        )
    chunk_shape = levels[-1] if depth else draw(chunk_shapes(shape))
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(shape),
        "data_type": data_type,
        "chunk_grid": draw(_rectilinear_grids(shape, levels[-2] if depth else (1,) * len(shape)))
        if rectilinear
        else {"name": "regular", "configuration": {"chunk_shape": list(chunk_shape)}},
        "chunk_key_encoding": draw(_key_encodings()),
        "fill_value": draw(fill_values(dtype, 3)),
        "codecs": draw(_chains(dtype, len(shape), levels[:depth][::-1])),
    }
    return ArrayCase(3, document, shape, dtype)


@st.composite
def _rectilinear_grids(draw: st.DrawFn, shape: Shape, parts: Shape) -> Codec:
    """Generate a grid of chunks that are multiples of `parts`; some lie beyond the edge."""
    axes: list[Any] = []
    for size, part in zip(shape, parts, strict=True):
        longest = max(1, -(-size // part))
        least = max(1, longest // 4)
        if draw(st.integers(0, 3)) == 0:
            axes.append(part * draw(st.integers(least, longest)))
            continue
        lengths: list[int] = []
        while sum(lengths) < size or not lengths:
            lengths.append(part * draw(st.integers(least, longest)))
        lengths += [part * n for n in draw(st.sampled_from(((), (), (), (1,), (2, 1))))]
        packed = draw(st.booleans())
        runs = [(length, len(list(run))) for length, run in itertools.groupby(lengths)]
        axes.append([[*run] if run[1] > 1 else run[0] for run in runs] if packed else lengths)
    configuration = {"kind": "inline", "chunk_shapes": axes}
    return {"name": "rectilinear", "configuration": configuration}


def _key_encodings() -> st.SearchStrategy[Codec]:
    names = st.sampled_from(("default", "default", "v2"))
    separators = st.sampled_from((None, "/", "."))
    return st.builds(
        lambda name, separator: {
            "name": name,
            **({"configuration": {"separator": separator}} if separator else {}),
        },
        names,
        separators,
    )


@st.composite
def _chains(draw: st.DrawFn, dtype: np.dtype[Any], rank: int, parts: list[Shape]) -> list[Codec]:
    """Generate a codec chain with the subchunk shapes in `parts`, outermost first."""
    chain: list[Codec] = []
    for _ in range(draw(st.sampled_from((0, 0, 0, 1, 2)))):
        order = list(draw(st.permutations(range(rank))))
        chain.append({"name": "transpose", "configuration": {"order": order}})
        parts = [tuple(part[axis] for axis in order) for part in parts]
    if _is_number(dtype, "iu") and draw(st.integers(0, 5)) == 0:
        wider = [f"{name}{8 * size}" for name, size in _WIDER[dtype.kind] if size > dtype.itemsize]
        if wider:
            name = draw(st.sampled_from(wider))
            chain.append({"name": "cast_value", "configuration": {"data_type": name}})
            dtype = np.dtype(name)
    if parts:
        chain.append(
            {
                "name": "sharding_indexed",
                "configuration": {
                    "chunk_shape": list(parts[0]),
                    "codecs": draw(_chains(dtype, rank, parts[1:])),
                    "index_codecs": draw(_index_chains()),
                    **draw(
                        st.sampled_from(
                            ({}, {"index_location": "start"}, {"index_location": "end"})
                        )
                    ),
                },
            }
        )
        after = (0, 0, 0, 1)
    else:
        if _is_number(dtype, "iu") and draw(st.integers(0, 3)) == 0:
            configuration = {"dtype": dtype.str, "astype": dtype.str}
            chain.append({"name": "numcodecs.delta", "configuration": configuration})
        if draw(st.integers(0, 5)) == 0:
            chain.append({"name": "reshape", "configuration": {"shape": [-1]}})
        chain.append(draw(_bytes_codec(dtype)))
        after = (0, 1, 1, 2)
    return chain + [draw(bytes_codecs(dtype.itemsize)) for _ in range(draw(st.sampled_from(after)))]


_WIDER = {
    "i": [("int", 2), ("int", 4), ("int", 8)],
    "u": [("uint", 2), ("uint", 4), ("uint", 8), ("int", 2), ("int", 4), ("int", 8)],
}


def _is_number(dtype: np.dtype[Any], kinds: str) -> bool:
    """Return whether a data type is a builtin NumPy type of one of these kinds."""
    return dtype.kind in kinds and dtype.num < 256


def _bytes_codec(dtype: np.dtype[Any]) -> st.SearchStrategy[Codec]:
    if _is_number(dtype, "iuf"):
        packed = st.just({"name": "packbits", "configuration": {}})
        bytes_codec = _codec("bytes", endian=st.sampled_from(("little", "little", "big")))
        return st.integers(0, 5).flatmap(lambda n: packed if n == 0 else bytes_codec)
    if dtype.newbyteorder("big") == dtype.newbyteorder("little"):
        return st.just({"name": "bytes"})
    return _codec("bytes", endian=st.sampled_from(("little", "little", "big")))


def _index_chains() -> st.SearchStrategy[list[Codec]]:
    orders = st.sampled_from(("little", "little", "big"))
    sums = st.sampled_from(([{"name": "crc32c"}], [{"name": "crc32c"}], []))
    return st.builds(
        lambda order, after: [{"name": "bytes", "configuration": {"endian": order}}, *after],
        orders,
        sums,
    )


def values(
    dtype: np.dtype[Any], shape: Shape, *, fill: bytes | None = None
) -> st.SearchStrategy[npt.NDArray[Any]]:
    """Generate elements: arbitrary bits, few different values, or mostly the fill value.

    Parameters
    ----------
    dtype : numpy.dtype
        The data type. Booleans are 0 or 1, and text is valid; other types have any valid bits,
        including NaN with any payload.
    shape : tuple of int
        The shape of the array.
    fill : bytes, optional
        One element that occurs often, also in runs.
    """
    return st.builds(
        lambda seed, kind: _values(dtype, shape, fill, seed, kind),
        st.integers(0, 2**32 - 1),
        st.sampled_from(("any", "few", "fill")),
    )


def _values(
    dtype: np.dtype[Any], shape: Shape, fill: bytes | None, seed: int, kind: str
) -> npt.NDArray[Any]:
    dice = np.random.default_rng(seed)
    count = math.prod(shape)
    if dtype.kind == "b":
        data = dice.integers(0, 2, count, np.uint8).tobytes()
    elif dtype.kind == "U":
        points = dice.integers(0, 0xD800, count * dtype.itemsize // 4, np.uint32)
        data = points.astype(f"{dtype.byteorder}u4").tobytes()
    else:
        data = dice.bytes(count * dtype.itemsize)
    elements = clear_unused_bits(np.frombuffer(data, dtype)).copy()
    if kind == "few" and count:
        elements = elements[dice.integers(0, min(count, 3), count)]
    elif kind == "fill" and fill is not None:
        fill_element = np.frombuffer(fill, dtype)
        start, stop = sorted(dice.integers(0, count + 1, 2).tolist())
        elements[start:stop] = fill_element
        elements[dice.random(count) < 0.3] = fill_element
    return elements.reshape(shape)
