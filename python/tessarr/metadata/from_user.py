"""Node metadata from user input: metadata objects, nodes and JSON documents."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tessarr.metadata import v2, v3
from tessarr.metadata.consolidated import MEMBER
from tessarr.metadata.node import ArrayMeta, GroupMeta

__all__ = ["read_user_metadata"]


def read_user_metadata(value: Any, path: str) -> ArrayMeta | GroupMeta | None:
    """Convert user input to the metadata of a new node; return None if it is not metadata.

    Parameters
    ----------
    value
        Metadata of Tessarr; a node, or any object whose ``metadata`` or ``to_dict()`` is metadata;
        or the JSON of a document: ``zarr.json``, or ``.zarray`` or ``.zgroup`` with
        ``attributes`` in it.
    path
        The path of the node, for messages.

    Raises
    ------
    MetadataError
        If a document is invalid; ``.problems`` contains all faults.

    Examples
    --------
    >>> read_user_metadata({"zarr_format": 2, "attributes": {"a": 1}}, "x")
    GroupMeta(zarr_format=2, attributes={'a': 1}, extra={}, consolidated=None)
    >>> read_user_metadata({"shape": (3,)}, "x") is None
    True
    """
    value = getattr(value, "metadata", value)
    if isinstance(value, ArrayMeta | GroupMeta):
        return value
    if not isinstance(value, Mapping) and hasattr(value, "to_dict"):
        value = value.to_dict()
    if not isinstance(value, Mapping) or "zarr_format" not in value:
        return None
    # The round trip converts tuples to lists, and copies the user's document.
    document = json.loads(json.dumps({k: item for k, item in value.items() if k != MEMBER}))
    form = document["zarr_format"]
    if form == 3 and "node_type" in document:
        return v3.read(document, where=path)
    attributes = document.pop("attributes", None) or {}
    document.pop("node_type", None)  # zarr-python writes it in format 2, too
    if form == 2 and {"shape", "chunks", "compressor"} <= document.keys():
        return v2.read_array(document, dict(attributes), where=path)
    if form == 2 and document.keys() == {"zarr_format"}:
        return v2.read_group(document, dict(attributes), where=path)
    return None
