"""Array metadata in plain Python: just enough to read and write elements.

The module does not validate documents. It is independent of `tessarr.metadata`.
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

    ``chunks`` are the lengths of all chunks along each axis; the last chunk may cross the edge.
    """

    shape: tuple[int, ...]
    chunks: tuple[tuple[int, ...], ...]
    dtype: np.dtype[Any]
    fill: bytes
    """The bytes of one element."""
    codecs: list[dict[str, Any]]
    key_prefix: str
    separator: str
    is_text: bool = False
    """Whether elements are variable-length text."""

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
    members = json.loads(document)
    is_text = members["data_type"] == "string"
    is_flexible = isinstance(members["data_type"], str) and members["data_type"] in _VARIABLE
    dtype = np.dtype(object) if is_flexible else data_type_v3(members["data_type"])
    encoding = _expand_name(members["chunk_key_encoding"])
    default = encoding["name"] == "default"
    return PlainArray(
        shape=tuple(members["shape"]),
        chunks=_chunks(members["shape"], members["chunk_grid"]["configuration"]),
        dtype=dtype,
        fill=_fill(members["fill_value"], dtype, is_text=is_text),
        codecs=[_expand_codec(codec) for codec in members["codecs"]],
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
    members = json.loads(document)
    dtype = np.dtype(object) if members["dtype"] == "|O" else data_type_v2(members["dtype"])
    codecs: list[dict[str, Any]] = []
    if dtype.kind != "O":  # for objects, the first filter creates bytes
        codecs.append({"name": "bytes", "configuration": {}})
    if members["order"] == "F":
        order = list(reversed(range(len(members["shape"]))))
        codecs.insert(0, {"name": "transpose", "configuration": {"order": order}})
    for stage in (*(members["filters"] or ()), members["compressor"]):
        if stage is not None:
            config = dict(stage)
            name = config.pop("id")
            if name == "blosc":
                config["typesize"] = dtype.itemsize
            # An array-to-array filter must come before the array-to-bytes codec.
            position = len(codecs) - 1 if name == "delta" else len(codecs)
            codecs.insert(position, {"name": name, "configuration": config})
    is_text = any(codec["name"] == "vlen-utf8" for codec in codecs)
    return PlainArray(
        shape=tuple(members["shape"]),
        chunks=_chunks(members["shape"], {"chunk_shape": members["chunks"]}),
        dtype=dtype,
        fill=_fill(members["fill_value"], dtype, is_text=is_text),
        codecs=codecs,
        key_prefix="",
        separator=members.get("dimension_separator", "."),
        is_text=is_text,
    )


def _chunks(shape: list[int], grid: dict[str, Any]) -> tuple[tuple[int, ...], ...]:
    """Return the lengths of the chunks of a regular or a rectilinear grid."""
    axes = grid["chunk_shape"] if "chunk_shape" in grid else grid["chunk_shapes"]
    return tuple(_axis_lengths(size, axis) for size, axis in zip(shape, axes, strict=True))


def _axis_lengths(size: int, lengths_json: Any) -> tuple[int, ...]:
    if isinstance(lengths_json, int):
        return (lengths_json,) * -(-size // lengths_json)
    pairs = [item if isinstance(item, list) else [item, 1] for item in lengths_json]
    lengths = [length for length, count in pairs for _ in range(count)]
    starts = [sum(lengths[:n]) for n in range(len(lengths))]
    return tuple(length for length, start in zip(lengths, starts, strict=True) if start < size)


def _expand_name(value: Any) -> dict[str, Any]:
    """Return the full form of an extension; a bare name has an empty configuration."""
    if isinstance(value, str):
        return {"name": value, "configuration": {}}
    return {"name": value["name"], "configuration": dict(value.get("configuration", {}))}


def _expand_codec(value: Any) -> dict[str, Any]:
    codec = _expand_name(value)
    for member in ("codecs", "index_codecs"):
        if member in codec["configuration"]:
            codec["configuration"][member] = [
                _expand_codec(inner) for inner in codec["configuration"][member]
            ]
    return codec


def _fill(value: Any, dtype: np.dtype[Any], *, is_text: bool) -> bytes:
    """Return one element as bytes."""
    if dtype.kind != "O":
        return fill_bytes(value, dtype)
    text = value or ""
    return text.encode() if is_text else base64.b64decode(text)
