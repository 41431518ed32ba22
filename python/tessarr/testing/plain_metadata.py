"""Array metadata in plain Python: just enough to read and write elements.

It trusts its input. Checking documents is not its purpose; being independent of
`tessarr.metadata` is.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from tessarr.testing.plain_types import data_type_v2, data_type_v3, fill_bytes

__all__ = ["PlainArray", "parse_v2", "parse_v3"]

_VARIABLE = {"string", "bytes", "variable_length_bytes"}


@dataclass(frozen=True)
class PlainArray:
    """The metadata of an array of either format, in the terms of format 3.

    ``chunks`` are the lengths of all chunks along each axis; the last may reach over the edge.
    """

    shape: tuple[int, ...]
    chunks: tuple[tuple[int, ...], ...]
    dtype: np.dtype[Any]
    fill: bytes
    """One element; where these have any length, its bytes."""
    codecs: list[dict[str, Any]]
    key_prefix: str
    separator: str
    is_text: bool = False
    """Elements have any length, and are text."""

    def key(self, cell: tuple[int, ...]) -> str:
        """Return the key of a chunk below the array.

        Examples
        --------
        >>> parse_v2(b'{"shape": [4], "chunks": [2], "dtype": "|u1", "fill_value": 0, '
        ...          b'"order": "C", "compressor": null, "filters": null}').key((1,))
        '1'
        """
        parts = [self.key_prefix] if self.key_prefix else []
        parts += map(str, cell)
        return self.separator.join(parts) if parts else "0"


def parse_v3(document: bytes) -> PlainArray:
    r"""Parse ``zarr.json`` of an array.

    Examples
    --------
    >>> parse_v3(b'{"shape": [4], "data_type": "float16", "fill_value": "0x7e01", "codecs": '
    ...          b'["bytes"], "chunk_grid": {"configuration": {"chunk_shape": [2]}}, '
    ...          b'"chunk_key_encoding": "default"}').fill
    b'\x01~'
    """
    found = json.loads(document)
    is_text = found["data_type"] == "string"
    is_flexible = isinstance(found["data_type"], str) and found["data_type"] in _VARIABLE
    dtype = np.dtype(object) if is_flexible else data_type_v3(found["data_type"])
    encoding = _named(found["chunk_key_encoding"])
    default = encoding["name"] == "default"
    return PlainArray(
        shape=tuple(found["shape"]),
        chunks=_chunks(found["shape"], found["chunk_grid"]["configuration"]),
        dtype=dtype,
        fill=_fill(found["fill_value"], dtype, is_text=is_text),
        codecs=[_deep_named(codec) for codec in found["codecs"]],
        key_prefix="c" if default else "",
        separator=encoding["configuration"].get("separator", "/" if default else "."),
        is_text=is_text,
    )


def parse_v2(document: bytes) -> PlainArray:
    """Parse ``.zarray``.

    Examples
    --------
    >>> parse_v2(b'{"shape": [4, 4], "chunks": [2, 2], "dtype": ">i2", "fill_value": 3, "order": '
    ...          b'"F", "compressor": {"id": "zlib"}, "filters": null}').codecs[0]
    {'name': 'transpose', 'configuration': {'order': [1, 0]}}
    """
    found = json.loads(document)
    dtype = np.dtype(object) if found["dtype"] == "|O" else data_type_v2(found["dtype"])
    codecs: list[dict[str, Any]] = []
    if dtype.kind != "O":  # else the first filter makes bytes
        codecs.append({"name": "bytes", "configuration": {}})
    if found["order"] == "F":
        order = list(reversed(range(len(found["shape"]))))
        codecs.insert(0, {"name": "transpose", "configuration": {"order": order}})
    for stage in (*(found["filters"] or ()), found["compressor"]):
        if stage is not None:
            config = dict(stage)
            name = config.pop("id")
            if name == "blosc":
                config["typesize"] = dtype.itemsize
            # A filter of arrays, which is the first, comes before the elements become bytes.
            place = len(codecs) - 1 if name == "delta" else len(codecs)
            codecs.insert(place, {"name": name, "configuration": config})
    is_text = any(codec["name"] == "vlen-utf8" for codec in codecs)
    return PlainArray(
        shape=tuple(found["shape"]),
        chunks=_chunks(found["shape"], {"chunk_shape": found["chunks"]}),
        dtype=dtype,
        fill=_fill(found["fill_value"], dtype, is_text=is_text),
        codecs=codecs,
        key_prefix="",
        separator=found.get("dimension_separator", "."),
        is_text=is_text,
    )


def _chunks(shape: list[int], grid: dict[str, Any]) -> tuple[tuple[int, ...], ...]:
    """Return the lengths of the chunks of a regular or a rectilinear grid."""
    axes = grid["chunk_shape"] if "chunk_shape" in grid else grid["chunk_shapes"]
    return tuple(_axis(size, axis) for size, axis in zip(shape, axes, strict=True))


def _axis(size: int, stated: Any) -> tuple[int, ...]:
    if isinstance(stated, int):
        return (stated,) * -(-size // stated)
    pairs = [item if isinstance(item, list) else [item, 1] for item in stated]
    lengths = [length for length, count in pairs for _ in range(count)]
    starts = [sum(lengths[:n]) for n in range(len(lengths))]
    return tuple(length for length, start in zip(lengths, starts, strict=True) if start < size)


def _named(value: Any) -> dict[str, Any]:
    """Write an extension out: a bare name has an empty configuration."""
    if isinstance(value, str):
        return {"name": value, "configuration": {}}
    return {"name": value["name"], "configuration": dict(value.get("configuration", {}))}


def _deep_named(value: Any) -> dict[str, Any]:
    codec = _named(value)
    for member in ("codecs", "index_codecs"):
        if member in codec["configuration"]:
            codec["configuration"][member] = [
                _deep_named(inner) for inner in codec["configuration"][member]
            ]
    return codec


def _fill(value: Any, dtype: np.dtype[Any], *, is_text: bool) -> bytes:
    """Return one element as bytes."""
    if dtype.kind != "O":
        return fill_bytes(value, dtype)
    text = value or ""
    return text.encode() if is_text else base64.b64decode(text)
