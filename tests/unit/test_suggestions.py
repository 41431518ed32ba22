"""Suggestions in messages: misspelt names, and codecs in the wrong argument."""

from __future__ import annotations

from typing import Any

import pytest

import tessarr
from tessarr.errors import ArgumentError, UnsupportedError


def create(**settings: Any) -> tessarr.Array:
    return tessarr.create_array(None, **{"shape": 4, "dtype": "i4", **settings})


MISSPELT: list[tuple[dict[str, Any], str]] = [
    ({"compressors": "zstdd"}, "zstd"),
    ({"compressors": {"name": "blocs"}}, "blosc"),
    ({"compressors": ["gzip", "Zstd"]}, "zstd"),
    ({"compressors": {"id": "zlibb"}, "zarr_format": 2}, "zlib"),
    ({"compression": "gzp"}, "gzip"),
    ({"codecs": ["byts"]}, "bytes"),
    ({"serializer": "sharding-indexed"}, "sharding_indexed"),
    ({"filters": "tranpose"}, "transpose"),
    ({"object_codec": "msgpack", "dtype": object, "zarr_format": 2}, "msgpack2"),
    ({"compressors": {"name": "zstd", "configuration": {"levl": 3}}}, "level"),
    ({"compressors": {"id": "zlib", "levle": 3}, "zarr_format": 2}, "level"),
    ({"dtype": "flaot32"}, "float32"),
    ({"dtype": {"name": "intt64"}}, "int64"),
    ({"dtype": [("a", "strng")]}, "string"),
]


@pytest.mark.parametrize(("settings", "name"), MISSPELT)
def test_misspelt_name_is_suggested(settings: dict[str, Any], name: str) -> None:
    """The most similar name ends the message."""
    with pytest.raises((UnsupportedError, ArgumentError), match=rf"did you mean '{name}'\?"):
        create(**settings)


def test_name_unlike_all_others_suggests_nothing() -> None:
    """No name is similar enough."""
    with pytest.raises(UnsupportedError, match=r"codec 'qwxyz' is not supported$"):
        create(compressors="qwxyz")


@pytest.mark.parametrize(
    ("keyword", "name"),
    [("chunk", "chunks"), ("dims", "dimension_names"), ("fill", "fill_value"), ("codec", "codecs")],
)
def test_misspelt_keyword_is_suggested(keyword: str, name: str) -> None:
    """Other libraries' names of a setting are suggested, too."""
    with pytest.raises(TypeError, match=rf"did you mean '{name}'\?"):
        create(**{keyword: None})


@pytest.mark.parametrize(("url", "scheme"), [("htps://x/y", "https"), ("memry://x", "memory")])
def test_misspelt_scheme_is_suggested(url: str, scheme: str) -> None:
    """The suggestions are the schemes of fsspec and of Tessarr."""
    pytest.importorskip("fsspec", reason="fsspec is not installed")
    with pytest.raises(UnsupportedError, match=rf"did you mean '{scheme}'\?"):
        tessarr.open(url, mode="r")


SHARDS = {"name": "sharding_indexed", "configuration": {"chunk_shape": [2], "codecs": ["bytes"]}}
TURNED = {"name": "transpose", "configuration": {"order": [0]}}


@pytest.mark.parametrize(
    ("argument", "codec", "other"),
    [
        ("compressors", "bytes", "serializer"),
        ("compressors", SHARDS, "serializer"),
        ("compressors", "sharding_indexed", "serializer"),
        ("compressors", "vlen-utf8", "serializer"),
        ("compressors", "pcodec", "serializer"),
        ("compressors", TURNED, "filters"),
        ("compressors", tessarr.codecs.Delta("i4"), "filters"),
        ("filters", "zstd", "compressors"),
        ("filters", "bytes", "serializer"),
        ("serializer", "zstd", "compressors"),
        ("serializer", TURNED, "filters"),
    ],
)
def test_codec_in_wrong_argument_names_right_one(argument: str, codec: Any, other: str) -> None:
    """The role of the codec decides; its parameters may be incomplete."""
    with pytest.raises(ArgumentError, match=rf"{argument}: codec .*: give it as {other}="):
        create(**{argument: codec})


def test_codec_of_elements_as_compressor_of_format_2_is_refused() -> None:
    """The codec has a data type, or it is a filter."""
    with pytest.raises(ArgumentError, match="give it as filters="):
        create(compressors="vlen-utf8", dtype=str, zarr_format=2)
    with pytest.raises(ArgumentError, match="codec 'bytes' is no compressor of format 2"):
        create(compressors="bytes", zarr_format=2)


def test_array_codec_as_compressor_of_format_2_is_stored() -> None:
    """Numcodecs' codecs for arrays are compressors in format 2."""
    pytest.importorskip("pcodec", reason="pcodec is not installed")
    a = create(compressors="pcodec", zarr_format=2)
    a[...] = [1, 2, 3, 4]
    assert a[...].tolist() == [1, 2, 3, 4]


def test_name_of_another_format_is_not_suggested_for_itself() -> None:
    """The codec `bytes` of format 3 has no id in format 2."""
    with pytest.raises(UnsupportedError) as caught:
        create(compressors={"id": "bytes"}, zarr_format=2)
    assert "did you mean 'bytes'" not in str(caught.value)
