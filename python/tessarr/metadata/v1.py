"""Reader of format 1: the documents ``meta`` and ``attrs`` (Zarr specification 1).

Format 1 differs from format 2 only in form, so this module translates its documents to format 2.
A store contains one array, without groups and filters.
"""

from __future__ import annotations

import base64
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tessarr import dtype
from tessarr.format import json
from tessarr.format import node_path as node_paths
from tessarr.format.validation import (
    Members,
    Problems,
    describe,
    is_integer,
    read_lengths,
    read_text,
)
from tessarr.metadata import v2

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tessarr.metadata.node import ArrayMeta
    from tessarr.types import JSONObject, MemoryOrder

__all__ = ["ARRAY", "ATTRIBUTES", "is_v1", "parse"]

ARRAY: Final = "meta"
ATTRIBUTES: Final = "attrs"

_MEMBERS: Final = (
    *("zarr_format", "shape", "chunks", "dtype", "compression", "compression_opts"),
    *("fill_value", "order"),
)

_LEVELS: Final = {"zlib": (-1, 9), "gzip": (-1, 9), "bz2": (1, 9)}


def is_v1(document: bytes | None) -> bool:
    """Tell whether the content of a key ``meta`` is an array document of format 1.

    Other programs use a key ``meta``, too, so only a document with the right members counts.

    Examples
    --------
    >>> is_v1(b'{"zarr_format": 1, "shape": [1]}'), is_v1(b'{"zarr_format": 2}'), is_v1(None)
    (True, False, False)
    """
    if document is None or b'"zarr_format"' not in document:
        return False
    from tessarr.errors import MetadataError

    try:
        value, _ = json.load(document, what=ARRAY, tokens=True)
    except MetadataError:
        return True  # an invalid document, which `parse` reports
    return (
        isinstance(value, dict)
        and is_integer(value.get("zarr_format"))
        and (value["zarr_format"] == 1)
    )


def parse(
    document: bytes, attrs: bytes | None, *, where: str, order: MemoryOrder | None = None
) -> ArrayMeta:
    """Return the metadata of an array from its documents, with complete validation.

    Parameters
    ----------
    document : bytes
        The content of ``meta``.
    attrs : bytes or None
        The content of ``attrs``, if there is one.
    where : str
        The path of the array, for messages.
    order : {"C", "F"}, optional
        The real memory order, if the document is wrong.

    Raises
    ------
    MetadataError
        If a document breaks the specification; ``problems`` contains all faults.
    UnsupportedError
        If it needs a data type or codec that is not supported.

    Warns
    -----
    TessarrWarning
        If the memory order is unknown: see `tessarr.migrate_1to2`.
    """
    members, what, key = _open_document(document, where, ARRAY)
    problems, meta = members.problems, None
    translated = _translate(members, order)
    if translated is not None:
        inner = Problems()
        meta = v2.read_members(Members(translated, "", inner))
        problems.add_translated(
            inner, {"/compressor": "/compression_opts", "/filters": "/compression"}
        )
    problems.check(what, path=where, key=key)
    assert meta is not None
    attributes: JSONObject = {}
    if attrs is not None:
        members, what, key = _open_document(attrs, where, ATTRIBUTES)
        members.problems.check(what, path=where, key=key)
        attributes = dict(members.value)
    return replace(meta, attributes=attributes, is_v1=True)


def _open_document(document: bytes, where: str, name: str) -> tuple[Members, str, str]:
    """Return the members of a document, its name in messages, and its key."""
    key = node_paths.join(where, name)
    what = f"metadata {key!r}"
    value, defects = json.load(document, what=what, path=where, key=key, tokens=True)
    return v2.open_document(value, where, name, defects)


def _translate(members: Members, order: MemoryOrder | None) -> JSONObject | None:
    """Translate ``meta`` to a document of format 2; if invalid, add problems and return None."""
    problems = members.problems
    for name in _MEMBERS:
        members.require(name)
    if len(problems):
        return None
    value = members.value
    if not is_integer(value["zarr_format"]) or value["zarr_format"] != 1:
        problems.add("/zarr_format", f"{describe(value['zarr_format'])} is not 1")
    compressor = _translate_compressor(value["compression"], value["compression_opts"], problems)
    if len(problems):
        return None
    fill = _translate_fill(value["fill_value"], value["dtype"])
    if order is None:
        _check_order(dict(value), problems)
    return {
        "zarr_format": 2,
        "shape": value["shape"],
        "chunks": value["chunks"],
        "dtype": value["dtype"],
        "compressor": compressor,
        "fill_value": fill,
        "order": order or value["order"],
        "filters": None,
    }


def _translate_compressor(name: Any, options: Any, problems: Problems) -> JSONObject | None:
    """Return the configuration of the compressor in format 2."""
    if name is None or name == "none":
        return None
    if name in _LEVELS:
        low, high = _LEVELS[name]
        level = 1 if options is None else options
        level = read_text(level, "integer", "/compression_opts", problems)
        if not is_integer(level) or not low <= level <= high:
            message = f"{describe(options)} is not a level of {low} to {high}"
            problems.add("/compression_opts", message)
            return None
        # "gzip" is an alias for zlib.
        return {"id": "bz2" if name == "bz2" else "zlib", "level": level}
    if name in {"blosc", "lzma"}:
        if not isinstance(options, dict | None):
            message = f"{describe(options)} is not an object"
            problems.add("/compression_opts", message, "wrong_type")
            return None
        return {**(options or {}), "id": name}
    if isinstance(name, str):
        problems.unsupported("/compression", "codec", name, kind="unsupported_codec")
    else:
        problems.add("/compression", f"{describe(name)} is not a name", "wrong_type")
    return None


def _translate_fill(fill: Any, raw_type: Any) -> Any:
    """Translate a fill value to format 2."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data_type = dtype.from_json(raw_type, 2, "/dtype", Problems())
    if data_type is None:
        return fill
    numpy = data_type.numpy
    if numpy.kind == "S" and isinstance(fill, str) and fill:
        raw = fill.encode("utf-8")
        return base64.b64encode(raw).decode("ascii") if len(raw) <= numpy.itemsize else fill
    if numpy.names is not None and isinstance(fill, list):
        try:
            return base64.b64encode(np.array(tuple(fill), numpy).tobytes()).decode("ascii")
        except (TypeError, ValueError):
            return fill
    return fill


def _check_order(value: Mapping[str, Any], problems: Problems) -> None:
    chunks = read_lengths(value["chunks"], 0, "/chunks", Problems())
    if value["order"] != "F" or value["compression"] == "blosc" or chunks is None:
        return
    if sum(length > 1 for length in chunks) > 1:
        problems.tolerate(
            "/order",
            "the only known writer put elements in order C whatever it says here, unless "
            "compressed by Blosc: if values are scrambled, see migrate_1to2(order='C')",
        )
