"""zarr-python 3's names for codecs have the same meaning."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tessarr
from tessarr import codecs

CALLS: list[tuple[str, dict[str, Any]]] = [
    ("BloscCodec", {"typesize": 4}),
    ("BloscCodec", {"typesize": 4, "shuffle": "shuffle"}),
    ("BloscCodec", {"typesize": 2, "cname": "lz4", "clevel": 3, "shuffle": "bitshuffle"}),
    ("GzipCodec", {}),
    ("GzipCodec", {"level": 1}),
    ("ZstdCodec", {}),
    ("ZstdCodec", {"level": 3, "checksum": True}),
    ("BytesCodec", {}),
    ("BytesCodec", {"endian": "big"}),
    ("TransposeCodec", {"order": (1, 0)}),
    ("Crc32cCodec", {}),
]


@pytest.mark.parametrize(("name", "settings"), CALLS, ids=str)
def test_same_arguments_build_equal_metadata(name: str, settings: dict[str, Any]) -> None:
    """The metadata of an array with the codec equal zarr-python's for the same call."""
    import zarr

    kinds = {"BytesCodec": "serializer", "TransposeCodec": "filters"}
    documents = []
    for module, library in ((codecs, tessarr), (zarr.codecs, zarr)):
        codec = getattr(module, name)(**settings)
        dtype = "u2" if settings.get("typesize") == 2 else "f4"
        keyword = {kinds.get(name, "compressors"): codec}
        store: dict[str, Any] = {}
        array: Any = library
        array = array.create_array(store=store, shape=(4, 4), chunks=(2, 2), dtype=dtype, **keyword)
        array[:] = 1
        document = tessarr.open_array({key: bytes(_of(value)) for key, value in store.items()})
        documents.append([codec.to_json(3) for codec in document.codecs if _is(codec, name)])
    assert documents[0] == documents[1]
    assert documents[0]


def _of(value: Any) -> Any:
    return value if isinstance(value, bytes | bytearray) else value.to_bytes()


def _is(codec: Any, name: str) -> bool:
    return type(codec).__name__.lower() == name.removesuffix("Codec").lower()


def test_array_by_zarr_pythons_names() -> None:
    """The codecs are those of its documentation's example of sharding."""
    array = tessarr.create_array(
        None,
        shape=(8, 8),
        dtype="u1",
        chunks=(8, 8),
        serializer=codecs.ShardingCodec(
            chunk_shape=(4, 4),
            codecs=[
                codecs.BytesCodec(),
                codecs.BloscCodec(
                    cname=codecs.BloscCname.lz4, shuffle=codecs.BloscShuffle.bitshuffle
                ),
            ],
            index_location=codecs.ShardingCodecIndexLocation.start,
        ),
        compressors=None,
    )
    array[:] = np.arange(64).reshape(8, 8)
    assert array.shards == (8, 8)
    assert array.chunks == (4, 4)
    assert array[7, 7] == 63
    assert array.compressors == (codecs.Blosc("lz4", 5, 2),)


def test_without_shuffle_data_type_chooses() -> None:
    """Elements of one byte use bit shuffle, all others byte shuffle."""
    for dtype, shuffle in (("u1", 2), ("f8", 1)):
        array = tessarr.zeros(4, dtype=dtype, compressors=codecs.BloscCodec())
        assert array.compressors[0].to_json(2)["shuffle"] == shuffle


def test_text_and_bytes() -> None:
    """The serializers of variable-length text and bytes have their names, too."""
    text = tessarr.array(["a", "bc"], dtype=str, serializer=codecs.VLenUTF8Codec())
    assert list(text[:]) == ["a", "bc"]
    data = tessarr.array([b"a", b"bc"], dtype=bytes, serializer=codecs.VLenBytesCodec())
    assert list(data[:]) == [b"a", b"bc"]
    assert codecs.Endian.big == "big"
