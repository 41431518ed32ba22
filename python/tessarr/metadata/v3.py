"""Documents of format 3: ``zarr.json`` (Zarr core specification 3.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from tessarr import dtype
from tessarr.codec import ArraySpec, Bytes, Chain, ShardingIndexed
from tessarr.format import chunk_grid as grid
from tessarr.format import chunk_key_encoding
from tessarr.format import json as _json
from tessarr.format import node_path as node_paths
from tessarr.format.validation import (
    ABSENT,
    Members,
    Problems,
    describe,
    is_integer,
    pointer,
    read_extension,
)
from tessarr.metadata.node import ArrayMeta, GroupMeta, check_codecs, check_sizes, register_writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tessarr.dtype import DataType
    from tessarr.format.chunk_grid import ChunkGrid
    from tessarr.format.chunk_key_encoding import ChunkKeyEncoding
    from tessarr.format.storage_transformer import StorageTransformer
    from tessarr.types import JSONObject, Shape

__all__ = ["DOCUMENT", "INDENT", "dump", "parse", "read", "to_json"]

T = TypeVar("T")

DOCUMENT: Final = "zarr.json"
"""The name of the document, under the path of its node."""

INDENT: Final = 2
"""The indentation of documents."""


def parse(document: bytes, *, where: str) -> ArrayMeta | GroupMeta:
    """Return the metadata of a node from its document, with complete validation.

    Parameters
    ----------
    document : bytes
        The content of ``zarr.json``.
    where : str
        The path of the node, for messages.

    Raises
    ------
    MetadataError
        If the document breaks the specification; ``problems`` contains all faults.
    UnsupportedError
        If it needs an extension that is not supported.

    Warns
    -----
    TessarrWarning
        If the document has a known fault of other writers with only one sensible reading.

    Examples
    --------
    >>> parse(b'{"zarr_format": 3, "node_type": "group"}', where="a").attributes
    {}
    >>> parse(b'{"zarr_format": 2}', where="a")
    Traceback (most recent call last):
    tessarr.errors.MetadataError: invalid metadata 'a/zarr.json': 2 problems
      /zarr_format: 2 is not 3: the documents of format 2 are called .zarray and .zgroup
      member 'node_type' is missing
    """
    key = node_paths.join(where, DOCUMENT)
    value, defects = _json.load(
        document, what=f"metadata {key!r}", path=where, key=key, tokens_in="attributes"
    )
    return read(value, where=where, defects=defects)


def read(value: Any, *, where: str, defects: Iterable[str] = ()) -> ArrayMeta | GroupMeta:
    """Return the metadata of a node from the JSON of its document; see `parse`.

    Parameters
    ----------
    value : JSON
        The document.
    where : str
        The path of the node, for messages.
    defects : iterable of str
        Deviations from JSON that the parser accepted.
    """
    key = node_paths.join(where, DOCUMENT)
    what = f"metadata {key!r}"
    problems = Problems(defects=defects)
    meta = _parse_node(value, problems)
    problems.check(what, path=where, key=key)
    assert meta is not None
    return meta


def _parse_node(value: Any, problems: Problems) -> ArrayMeta | GroupMeta | None:
    if not isinstance(value, dict):
        problems.add("", f"{describe(value)} is not an object", "wrong_type")
        return None
    members = Members(value, "", problems)
    _check_format(members.require("zarr_format"), problems)
    if problems.found and problems.found[-1].kind == "unsupported_format":
        return None  # the other members of such a document are unknown
    node_type = members.choice("node_type", ("array", "group"))
    if len(problems):
        return None
    return _parse_array(members) if node_type == "array" else _parse_group(members)


def _check_format(zarr_format: Any, problems: Problems) -> None:
    loc = "/zarr_format"
    if zarr_format is ABSENT or (is_integer(zarr_format) and zarr_format == 3):
        return
    if is_integer(zarr_format) and zarr_format > 3:
        hint = ": this version of Tessarr knows 2 and 3; see whether a newer one knows more"
        name = str(zarr_format)
        problems.unsupported(loc, "Zarr format", name, kind="unsupported_format", hint=hint)
    elif is_integer(zarr_format) and zarr_format == 2:
        problems.add(loc, "2 is not 3: the documents of format 2 are called .zarray and .zgroup")
    else:
        problems.add(loc, f"{describe(zarr_format)} is not 3")


def _parse_array(members: Members) -> ArrayMeta | None:
    problems = members.problems
    shape = members.lengths("shape", 0)
    raw_type, data_type = members.require("data_type"), None
    if raw_type is not ABSENT:
        data_type = dtype.from_json(raw_type, 3, "/data_type", problems)
    raw_fill = members.require("fill_value")
    chunk_grid = _parse_grid(members, shape)
    encoding = _parse_keys(members)
    codecs = _parse_codecs(members)
    fill = None
    if data_type is not None and raw_fill is not ABSENT:
        fill = _parse_fill(raw_fill, data_type, codecs, problems)
    attributes = _parse_attributes(members)
    transformers = _parse_transformers(members)
    names = _parse_dimension_names(members, shape)
    extra = _parse_extra(members)
    if shape is not None and data_type is not None and chunk_grid is not None:
        spec = ArraySpec(next(chunk_grid.shapes()), data_type, fill)
        lengths_loc = pointer("/chunk_grid/configuration", chunk_grid.lengths_member)
        check_sizes(shape, spec, "/shape", lengths_loc, problems)
        if codecs is not None:
            check_codecs(codecs, chunk_grid, spec, "/codecs", problems)
        if codecs is not None and not len(problems):
            codecs = codecs.resolve(spec)
    if len(problems):
        return None
    assert shape is not None
    assert data_type is not None
    assert chunk_grid is not None
    assert encoding is not None
    assert codecs is not None
    return ArrayMeta(
        3,
        shape,
        data_type,
        chunk_grid,
        encoding,
        fill,
        codecs,
        attributes,
        names,
        transformers,
        extra,
    )


def _parse_fill(
    value: Any, data_type: DataType, codecs: Chain | None, problems: Problems
) -> bytes | None:
    if value is None and data_type.fill_from_json(None, 3, "", Problems()) is None:
        default = data_type.default_fill()
        text = describe(data_type.fill_to_json(default, 3))
        problems.tolerate("/fill_value", f"null, taken for the default of {data_type}: {text}")
        return default
    fill = data_type.fill_from_json(value, 3, "/fill_value", problems)
    if fill is None or codecs is None or not data_type.is_packed(value):
        return fill
    # The base64 of the old type ``structured`` has the byte order of the codec.
    while isinstance(codecs.array_bytes, ShardingIndexed):
        codecs = codecs.array_bytes.codecs
    order = getattr(codecs.array_bytes, "endian", None) or "little"
    if data_type.unit_bytes == 1 or data_type.big_endian == (order == "big"):
        return fill
    return data_type.swapped(fill).tobytes()


def _parse_group(members: Members) -> GroupMeta:
    attributes = _parse_attributes(members)
    consolidated = members.get("consolidated_metadata", None)
    if consolidated is not None and not isinstance(consolidated, dict):
        message = f"{describe(consolidated)} is not an object"
        members.problems.add("/consolidated_metadata", message, "wrong_type")
    return GroupMeta(3, attributes, _parse_extra(members), consolidated)


def _read_extension_member(
    members: Members, name: str, find: Callable[[str], type[T] | None], kind: str
) -> tuple[type[T], Members] | None:
    """Return the class and the configuration of an extension, or None and problems.

    An unknown extension is a problem of `kind`.
    """
    value = members.require(name)
    what, loc, problems = name.replace("_", " "), members.at(name), members.problems
    extension = None if value is ABSENT else read_extension(value, what, loc, problems)
    if extension is None:
        return None
    cls = find(extension.name)
    if cls is None:
        problems.unsupported(loc, what, extension.name, kind=kind)
        return None
    return cls, extension.configuration


def _parse_grid(members: Members, shape: Shape | None) -> ChunkGrid | None:
    kind, find = "unsupported_chunk_grid", grid.find_grid
    extension = _read_extension_member(members, "chunk_grid", find, kind)
    if extension is None:
        return None
    cls, configuration = extension
    chunks = cls.from_json(configuration)
    if chunks is None or shape is None:
        return chunks
    return chunks.fit(shape, configuration.at(cls.lengths_member), members.problems)


def _parse_keys(members: Members) -> ChunkKeyEncoding | None:
    kind, find = "unsupported_chunk_key_encoding", chunk_key_encoding.find_key_encoding
    extension = _read_extension_member(members, "chunk_key_encoding", find, kind)
    return None if extension is None else extension[0].from_json(extension[1])


def _parse_codecs(members: Members) -> Chain | None:
    value = members.get("codecs")
    if value is ABSENT:
        # Drafts of the specification had no codec ``bytes``.
        members.problems.tolerate("", "member 'codecs' is missing, taken for 'bytes'")
        return Chain((Bytes(),))
    return Chain.read(value, "/codecs", members.problems)


def _parse_attributes(members: Members) -> JSONObject:
    attributes = members.get("attributes", {})
    if isinstance(attributes, dict):
        return attributes
    message = f"{describe(attributes)} is not an object"
    members.problems.add("/attributes", message, "wrong_type")
    return {}


def _parse_transformers(members: Members) -> tuple[StorageTransformer, ...]:
    value = members.get("storage_transformers", [])
    loc, problems = "/storage_transformers", members.problems
    if not isinstance(value, list):
        problems.add(loc, f"{describe(value)} is not a list", "wrong_type")
        return ()
    transformers = [
        _parse_transformer(item, pointer(loc, i), problems) for i, item in enumerate(value)
    ]
    return tuple(transformer for transformer in transformers if transformer is not None)


def _parse_transformer(value: Any, loc: str, problems: Problems) -> StorageTransformer | None:
    extension = read_extension(value, "storage transformer", loc, problems)
    if extension is None:
        return None
    import json

    from tessarr.format import storage_transformer

    cls = storage_transformer.find_transformer(extension.name)
    if cls is not None:
        return cls.from_json(extension.configuration)
    if not extension.must_understand:
        return storage_transformer.IgnoredTransformer(json.dumps(value))
    kind = "unsupported_storage_transformer"
    problems.unsupported(loc, "storage transformer", extension.name, kind=kind)
    return None


def _parse_dimension_names(members: Members, shape: Shape | None) -> tuple[str | None, ...] | None:
    names = members.get("dimension_names")
    loc, problems = "/dimension_names", members.problems
    if names is ABSENT:
        return None
    if names is None:
        problems.tolerate(loc, "null, taken for no names")
        return None
    if not isinstance(names, list):
        problems.add(loc, f"{describe(names)} is not a list of names", "wrong_type")
        return None
    for i, name in enumerate(names):
        if name is not None and not isinstance(name, str):
            problems.add(pointer(loc, i), f"{describe(name)} is not a string or null", "wrong_type")
    if shape is not None and len(names) != len(shape):
        message = f"{len(names)} names for an array of {len(shape)} dimensions"
        problems.add(loc, message, "mismatch")
    return tuple(names)


def _parse_extra(members: Members) -> JSONObject:
    """Return members with ``must_understand: false``; add problems for other unknown members."""
    extra = {}
    for name, value in members.value.items():
        if members.is_read(name):
            continue
        if isinstance(value, dict) and value.get("must_understand") is False:
            extra[name] = value
        else:
            message = f'unknown member {name!r} without "must_understand": false'
            members.problems.add(members.at(name), message, "unknown_member")
    return extra


def dump(meta: ArrayMeta | GroupMeta) -> bytes:
    """Return the document of `meta`.

    Examples
    --------
    >>> print(dump(GroupMeta(3, {"a": 1})).decode())
    {
      "zarr_format": 3,
      "node_type": "group",
      "attributes": {
        "a": 1
      }
    }
    """
    return _json.dump(to_json(meta), indent=INDENT)


def to_json(meta: ArrayMeta | GroupMeta) -> JSONObject:
    """Return the JSON of the document of `meta`."""
    if isinstance(meta, GroupMeta):
        document: JSONObject = {"zarr_format": 3, "node_type": "group"}
        document["attributes"] = meta.attributes
        if meta.consolidated is not None:
            document["consolidated_metadata"] = meta.consolidated
        return {**document, **meta.extra}
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(meta.shape),
        "data_type": meta.data_type.to_json(3),
        "chunk_grid": meta.chunk_grid.to_json(),
        "chunk_key_encoding": meta.chunk_key_encoding.to_json(),
        "fill_value": meta.data_type.fill_to_json(meta.fill_or_default, 3),
        "codecs": meta.codecs.to_json(),
        "attributes": meta.attributes,
    }
    if meta.storage_transformers:
        transformers = [transformer.to_json() for transformer in meta.storage_transformers]
        document["storage_transformers"] = transformers
    if meta.axis_names is not None:
        document["dimension_names"] = list(meta.axis_names)
    return {**document, **meta.extra}


register_writer(3, to_json)
