"""Documents of format 2: ``.zarray``, ``.zgroup`` and ``.zattrs`` (Zarr specification 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tessarr import dtype
from tessarr.codec import (
    ArrayArrayCodec,
    ArrayBytesCodec,
    ArraySpec,
    Bytes,
    BytesBytesCodec,
    Chain,
    Transpose,
)
from tessarr.codec.base import check_elements
from tessarr.codec.read import read_v2
from tessarr.format import json
from tessarr.format import node_path as node_paths
from tessarr.format.chunk_grid import RegularGrid
from tessarr.format.chunk_key_encoding import V2Keys
from tessarr.format.validation import (
    ABSENT,
    Members,
    Problems,
    describe,
    is_integer,
    pointer,
)
from tessarr.metadata.node import ArrayMeta, GroupMeta, check_sizes, register_writer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tessarr.codec import Codec
    from tessarr.dtype import DataType
    from tessarr.types import JSONObject

__all__ = [
    "ARRAY",
    "ATTRIBUTES",
    "GROUP",
    "INDENT",
    "build_chain",
    "check_codecs",
    "dump",
    "load",
    "open_document",
    "parse_array",
    "parse_group",
    "read_array",
    "read_attributes",
    "read_group",
    "read_members",
    "split_chain",
    "to_json",
]

ARRAY: Final = ".zarray"
GROUP: Final = ".zgroup"
ATTRIBUTES: Final = ".zattrs"
_N5_RAW: Final = {"type": "raw"}
"""The form of n5-zarr for no compressor."""

INDENT: Final = 4
"""The indentation of documents."""


def parse_array(zarray: bytes, zattrs: bytes | None, *, where: str) -> ArrayMeta:
    """Return the metadata of an array from its documents, with complete validation.

    Parameters
    ----------
    zarray : bytes
        The content of ``.zarray``.
    zattrs : bytes or None
        The content of ``.zattrs``, if there is one.
    where : str
        The path of the array, for messages.

    Raises
    ------
    MetadataError
        If a document breaks the specification; ``problems`` contains all faults.
    UnsupportedError
        If it needs a data type or codec that is not supported.

    Warns
    -----
    TessarrWarning
        If a document has a known fault of other writers with only one sensible reading.
    """
    value, defects = _load(zarray, where, ARRAY)
    return read_array(value, _parse_attributes(zattrs, where), where=where, defects=defects)


def read_array(
    value: Any, attributes: JSONObject, *, where: str, defects: Iterable[str] = ()
) -> ArrayMeta:
    """Return the metadata of an array from the JSON of its documents.

    Parameters
    ----------
    value : JSON
        The content of ``.zarray``.
    attributes : dict
        The content of ``.zattrs``.
    where : str
        The path of the array, for messages.
    defects : iterable of str
        Deviations from JSON that the parser accepted.
    """
    members, what, key = open_document(value, where, ARRAY, defects)
    problems = members.problems
    meta = read_members(members)
    problems.check(what, path=where, key=key)
    assert meta is not None
    meta.attributes.update(attributes)  # the new dictionary of this object
    return meta


def parse_group(
    zgroup: bytes,
    zattrs: bytes | None,
    consolidated: Any = None,
    *,
    where: str,
    defects: Iterable[str] = (),
) -> GroupMeta:
    """Return the metadata of a group from its documents, with complete validation.

    Parameters and exceptions are those of `parse_array`; `consolidated` is the JSON of
    ``.zmetadata``, which stays unchanged, and `defects` are those of its parser.

    Examples
    --------
    >>> parse_group(b'{"zarr_format": 2}', b'{"a": 1}', where="").attributes
    {'a': 1}
    """
    value, own_defects = _load(zgroup, where, GROUP)
    attributes = _parse_attributes(zattrs, where)
    all_defects = [*own_defects, *defects]
    return read_group(value, attributes, consolidated, where=where, defects=all_defects)


def read_group(
    value: Any,
    attributes: JSONObject,
    consolidated: Any = None,
    *,
    where: str,
    defects: Iterable[str] = (),
) -> GroupMeta:
    """Return the metadata of a group from the JSON of its documents."""
    members, what, key = open_document(value, where, GROUP, defects)
    _check_format(members)
    members.problems.check(what, path=where, key=key)
    extra = {name: item for name, item in members.value.items() if name != "zarr_format"}
    return GroupMeta(2, attributes, extra, consolidated)


def read_attributes(value: Any, *, where: str, defects: Iterable[str] = ()) -> JSONObject:
    """Return the attributes from the JSON of ``.zattrs``."""
    members, what, key = open_document(value, where, ATTRIBUTES, defects)
    members.problems.check(what, path=where, key=key)
    return dict(members.value)


def _load(document: bytes, where: str, name: str) -> tuple[Any, list[str]]:
    key = node_paths.join(where, name)
    return load(document, name, what=f"metadata {key!r}", path=where, key=key)


def load(
    document: bytes, name: str, *, what: str, path: str | None = None, key: str | None = None
) -> tuple[Any, list[str]]:
    """Parse the document called `name`; return its JSON and its defects.

    Attributes may contain NaN and infinities, and an empty document means no attributes. See
    `tessarr.format.json.load`.
    """
    is_attributes = name == ATTRIBUTES
    if is_attributes and not document.strip():
        return {}, ["it is empty, taken for {}"]
    return json.load(document, what=what, path=path, key=key, tokens=is_attributes)


def open_document(
    value: Any, where: str, name: str, defects: Iterable[str]
) -> tuple[Members, str, str]:
    """Return the members of a document, its name in messages, and its key."""
    key = node_paths.join(where, name)
    what = f"metadata {key!r}"
    problems = Problems(defects=defects)
    if not isinstance(value, dict):
        problems.add("", f"{describe(value)} is not an object", "wrong_type")
        problems.check(what, path=where, key=key)
    return Members(value, "", problems), what, key


def _parse_attributes(zattrs: bytes | None, where: str) -> JSONObject:
    if zattrs is None:
        return {}
    value, defects = _load(zattrs, where, ATTRIBUTES)
    return read_attributes(value, where=where, defects=defects)


def _check_format(members: Members) -> None:
    zarr_format = members.require("zarr_format")
    if zarr_format is not ABSENT and not (is_integer(zarr_format) and zarr_format == 2):
        three = is_integer(zarr_format) and zarr_format == 3
        hint = ": the document of format 3 is called zarr.json" if three else ""
        members.problems.add("/zarr_format", f"{describe(zarr_format)} is not 2{hint}")


def read_members(members: Members) -> ArrayMeta | None:
    """Return the metadata of the members of ``.zarray``; if invalid, add problems, return None."""
    value, problems = members.value, members.problems
    _check_format(members)
    if len(problems):
        return None
    shape = members.lengths("shape", 0)
    chunks = members.chunk_lengths("chunks", 0)
    grid = RegularGrid(chunks) if chunks is not None else None
    if grid is not None and shape is not None:
        grid = grid.fit(shape, "/chunks", problems)
    filters = _parse_filters(members)
    data_type = _parse_type(members, filters)
    fill = _parse_fill(members, data_type)
    order = members.choice("order", ("C", "F"))
    separator = members.choice("dimension_separator", (".", "/"), ".")
    compressor = _parse_compressor(members, first=not filters)
    extra = {name: item for name, item in value.items() if not members.is_read(name)}
    if shape is None or grid is None or data_type is None:
        return None
    spec = ArraySpec(grid.chunk_shape, data_type, fill)
    check_sizes(shape, spec, "/shape", "/chunks", problems)
    if filters is None or len(problems):
        return None
    check_codecs(spec, filters, compressor, problems)
    if len(problems):
        return None
    codecs = build_chain(order == "F", len(shape), filters, compressor)
    return ArrayMeta(
        2,
        shape,
        data_type,
        grid,
        V2Keys("/" if separator == "/" else ".", is_explicit="dimension_separator" in value),
        fill,
        codecs.resolve(spec, 2),
        extra=extra,
        last_is_filter=compressor is None and bool(filters),
    )


def _parse_type(members: Members, filters: list[Codec] | None) -> DataType | None:
    value = members.require("dtype")
    if value is ABSENT:
        return None
    if value == "|O" and members.get("filters"):
        # The first filter, which may be unknown, defines the objects.
        known = filters is not None and len(filters) == len(members.get("filters"))
        data_type = filters[0].object_type() if filters and known else None
        if data_type is not None or not known:
            return data_type
    return dtype.from_json(value, 2, "/dtype", members.problems)


def _read_nullable(members: Members, name: str) -> Any:
    """Return a member that may be null; a missing member means null."""
    value = members.get(name)
    if value is ABSENT:
        members.problems.tolerate("", f"member {name!r} is missing, taken for null")
        return None
    return value


def _parse_fill(members: Members, data_type: DataType | None) -> bytes | None:
    value = _read_nullable(members, "fill_value")
    if value is None or data_type is None:
        return None
    return data_type.fill_from_json(value, 2, "/fill_value", members.problems)


def _parse_filters(members: Members) -> list[Codec] | None:
    value = _read_nullable(members, "filters")
    problems = members.problems
    if value is None:
        return []
    if not isinstance(value, list):
        problems.add("/filters", f"{describe(value)} is not a list or null", "wrong_type")
        return None
    if not value:
        problems.tolerate("/filters", "an empty list instead of null")
    filters: list[Codec] = []
    for i, item in enumerate(value):
        loc = pointer("/filters", i)
        codec = read_v2(item, loc, problems, first=i == 0)
        if codec is not None:
            filters.append(codec)
    return filters


def _parse_compressor(members: Members, *, first: bool) -> Codec | None:
    value = _read_nullable(members, "compressor")
    if value is None:
        return None
    if value == _N5_RAW:
        members.problems.tolerate("/compressor", f"{_N5_RAW}, taken for null")
        return None
    return read_v2(value, "/compressor", members.problems, first=first)


def check_codecs(
    spec: ArraySpec, filters: list[Codec], compressor: Codec | None, problems: Problems
) -> None:
    """Add problems for filters and a compressor that do not fit their input."""
    locs = [pointer("/filters", i) for i in range(len(filters))]
    spec_here = spec
    bytes_codec: Codec | None = None
    codecs = [*filters, *([] if compressor is None else [compressor])]
    for codec, loc in zip(codecs, [*locs, "/compressor"], strict=False):
        if isinstance(codec, BytesBytesCodec):
            bytes_codec = bytes_codec or codec
        elif bytes_codec is not None:
            message = f"codec {codec.label!r} takes an array, but {bytes_codec.label!r} makes bytes"
            problems.add(loc, message, "mismatch")
        elif isinstance(codec, ArrayArrayCodec | ArrayBytesCodec):
            before = len(problems)
            if not check_elements(codec, spec_here, loc, problems):
                return
            codec.check(spec_here, loc, problems)
            if len(problems) > before:
                return
            if isinstance(codec, ArrayBytesCodec):
                bytes_codec = codec
            else:
                spec_here = codec.encoded(spec_here)
    has_bytes_codec = any(isinstance(codec, ArrayBytesCodec) for codec in codecs)
    if spec_here.data_type.elements is not None and not has_bytes_codec:
        problems.add("/dtype", "no filter makes bytes of the objects", "missing_member")


def build_chain(fortran: bool, rank: int, filters: list[Codec], compressor: Codec | None) -> Chain:
    """Return the codec chain of the members of ``.zarray``."""
    codecs = [*filters, *([] if compressor is None else [compressor])]
    if fortran and not any(getattr(codec, "in_index_order", False) for codec in codecs):
        codecs.insert(0, Transpose(tuple(reversed(range(rank)))))
    arrays = sum(isinstance(codec, ArrayArrayCodec) for codec in codecs)
    if not any(isinstance(codec, ArrayBytesCodec) for codec in codecs):
        # ``bytes`` stores elements in their own byte order.
        first = next((i for i, c in enumerate(codecs) if isinstance(c, BytesBytesCodec)), arrays)
        codecs.insert(first, Bytes())
    return Chain(tuple(codecs))


def dump(meta: ArrayMeta | GroupMeta) -> dict[str, bytes]:
    r"""Return the documents of `meta` by name.

    Examples
    --------
    >>> dump(GroupMeta(2))
    {'.zgroup': b'{\n    "zarr_format": 2\n}', '.zattrs': b'{}'}
    """
    attributes = json.dump(meta.attributes, indent=INDENT)  # in the user's order
    document = json.dump(to_json(meta), indent=INDENT, sort_keys=True)
    return {GROUP if isinstance(meta, GroupMeta) else ARRAY: document, ATTRIBUTES: attributes}


def to_json(meta: ArrayMeta | GroupMeta) -> JSONObject:
    """Return the JSON of the document ``.zarray`` or ``.zgroup`` for `meta`."""
    if isinstance(meta, GroupMeta):
        return {"zarr_format": 2, **meta.extra}
    fortran, filters, compressor = split_chain(meta.codecs, meta.rank, meta.last_is_filter)
    fill = meta.fill_value
    document: JSONObject = {
        **meta.extra,
        "zarr_format": 2,
        "shape": list(meta.shape),
        "chunks": list(meta.chunk_spec.shape),
        "dtype": meta.data_type.to_json(2),
        "compressor": None if compressor is None else compressor.to_json(2),
        "fill_value": None if fill is None else meta.data_type.fill_to_json(fill, 2),
        "order": "F" if fortran else "C",
        "filters": [codec.to_json(2) for codec in filters] or None,
    }
    keys = meta.chunk_key_encoding
    if isinstance(keys, V2Keys) and keys.is_explicit:
        document["dimension_separator"] = keys.separator
    return document


def split_chain(
    codecs: Chain, rank: int, last_is_filter: bool
) -> tuple[bool, list[Codec], Codec | None]:
    """Split a chain into the order (whether "F"), the filters and the compressor."""
    arrays = list(codecs.array_array)
    reverse = Transpose(tuple(reversed(range(rank))))
    fortran = bool(arrays) and arrays[0] == reverse
    if fortran:
        del arrays[0]
    serializers = [] if isinstance(codecs.array_bytes, Bytes) else [codecs.array_bytes]
    rest: list[Codec] = [*arrays, *serializers, *codecs.bytes_bytes]
    compressor = rest.pop() if rest and not last_is_filter else None
    return fortran, rest, compressor


register_writer(2, to_json)
