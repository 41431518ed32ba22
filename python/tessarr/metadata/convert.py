"""Conversion of metadata to another format, for the same stored chunks.

Format 3 can express nearly all metadata of format 2: order F is a transpose, the byte order of the
data type becomes that of the codec ``bytes``, filters and compressor are codecs, and keys have the
encoding "v2". The reverse holds for the basic part of format 3. Metadata without an equivalent is
a `Problem` at its JSON path in the source. A changed form, or a loss that changes no value, is a
note.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from tessarr import dtype
from tessarr.codec import Bytes, Chain, Codec, ShardingIndexed, Transpose
from tessarr.codec.numcodecs_filters import ItemFilter
from tessarr.errors import ArgumentError, MetadataError, UnsupportedError
from tessarr.format import node_path as node_paths
from tessarr.format.chunk_key_encoding import DefaultKeys, V2Keys
from tessarr.format.storage_transformer import IgnoredTransformer
from tessarr.format.validation import Problems, describe, pointer
from tessarr.metadata import v2, v3
from tessarr.metadata.attributes import allow_copied_tokens, read_user_attributes
from tessarr.metadata.node import ArrayMeta, GroupMeta

if TYPE_CHECKING:
    from tessarr.dtype import DataType
    from tessarr.types import JSONObject, ZarrFormat

Order: TypeAlias = Literal["little", "big", "mixed"] | None
"""A byte order of elements; None if the byte order does not matter."""

__all__ = ["Conversion", "convert_dimension_names", "convert_metadata"]

_KIND: Final = "no_equivalent"

_DIMENSIONS: Final = "_ARRAY_DIMENSIONS"
"""The attribute of xarray that names axes in format 2."""


@dataclass(slots=True)
class Conversion:
    """The result of the conversion of one node.

    Parameters
    ----------
    meta
        The new metadata, if there are no problems.
    problems
        Metadata without an equivalent.
    notes
        Changes of the form, and members that are left out.
    """

    meta: ArrayMeta | GroupMeta | None = None
    problems: Problems = field(default_factory=Problems)
    notes: list[str] = field(default_factory=list)

    @property
    def documents(self) -> dict[str, bytes]:
        """The new documents by name; the first one creates the node."""
        assert self.meta is not None
        if self.meta.zarr_format == 3:
            return {v3.DOCUMENT: v3.dump(self.meta)}
        return v2.dump(self.meta)

    def add_problem(self, loc: str, message: str) -> None:
        """Add a problem for metadata without an equivalent."""
        self.problems.add(loc, message, _KIND)


def convert_metadata(meta: ArrayMeta | GroupMeta, path: str, to: ZarrFormat) -> Conversion:
    """Convert metadata to format `to`.

    Parameters
    ----------
    meta
        Metadata of format 1 or 2 if `to` is 3, and of format 1 or 3 if `to` is 2.
    path
        The path of the node, which must be valid in both formats.
    to
        The new format.

    Examples
    --------
    >>> convert_metadata(GroupMeta(2, {"a": 1}), "g", 3).meta
    GroupMeta(zarr_format=3, attributes={'a': 1}, extra={}, consolidated=None)
    >>> [str(p) for p in convert_metadata(GroupMeta(2), "...", 3).problems.found]
    ["path '...' is not allowed: '...' is not a name"]
    """
    conversion = Conversion()
    try:
        if node_paths.normalize_path(path, to) != path:
            conversion.add_problem("", f"path {path!r} means another node in format {to}")
    except ArgumentError as error:
        conversion.add_problem("", str(error))
    if to == 3 and node_paths.find_reserved_names(path):
        name = node_paths.find_reserved_names(path)[0]
        conversion.notes.append(f"format 3 reserves names that begin with '__', such as {name!r}")
    with allow_copied_tokens():
        problems = Problems()
        read_user_attributes(meta.attributes, problems)
        conversion.problems.add_translated(problems, {"attributes": "/attributes"})
    _report_extra(meta, conversion)
    if isinstance(meta, GroupMeta):
        new: ArrayMeta | GroupMeta = GroupMeta(to, meta.attributes)
    elif meta.is_v1 and to == 2:
        new = replace(meta, is_v1=False)
    else:
        built = _convert_to_v3(meta, conversion) if to == 3 else _convert_to_v2(meta, conversion)
        if built is None or len(conversion.problems):
            return conversion
        new = built
    if not len(conversion.problems):
        conversion.meta = new
        _check_result(conversion, path)
    return conversion


def _report_extra(meta: ArrayMeta | GroupMeta, conversion: Conversion) -> None:
    extra = {name for name in meta.extra if name != "consolidated_metadata"}
    if extra:
        names = ", ".join(map(describe, sorted(extra)))
        conversion.notes.append(
            f"members that mean nothing in the new format are left out: {names}"
        )
    for i, transformer in enumerate(getattr(meta, "storage_transformers", ())):
        if isinstance(transformer, IgnoredTransformer):
            conversion.notes.append("a storage transformer that need not be understood is left out")
        else:
            message = f"format 2 has no storage transformer {transformer.name!r}"
            conversion.add_problem(pointer("/storage_transformers", i), message)


def _check_result(conversion: Conversion, path: str) -> None:
    """Read the new documents again, to detect a change of their meaning."""
    new = conversion.meta
    if not isinstance(new, ArrayMeta):
        return
    documents = conversion.documents
    reread: ArrayMeta | GroupMeta
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if v3.DOCUMENT in documents:
                reread = v3.parse(documents[v3.DOCUMENT], where=path)
            else:
                reread = v2.parse_array(documents[v2.ARRAY], None, where=path)
    except (MetadataError, UnsupportedError) as error:
        conversion.add_problem("", str(error))
    else:
        assert isinstance(reread, ArrayMeta)
        # The formats use some names for different codecs.
        other = [type(codec) for codec in reread.codecs.codecs]
        if [type(codec) for codec in new.codecs.codecs] != other:
            conversion.add_problem(
                "/codecs", f"format {new.zarr_format} has other codecs of these names"
            )
    if len(conversion.problems):
        conversion.meta = None


def convert_dimension_names(
    meta: ArrayMeta, to: ZarrFormat, notes: list[str] | None = None
) -> tuple[JSONObject, tuple[str | None, ...] | None]:
    """Return the attributes and dimension names of an array for format `to`.

    In format 2 the names are an attribute, by the convention of xarray.
    """
    notes = [] if notes is None else notes
    if to == 2:
        names = _complete_names(meta)
        if names is None:
            if meta.axis_names:
                notes.append("/dimension_names: names for some of the axes only are left out")
            return meta.attributes, None
        notes.append(f"dimension_names become the attribute {_DIMENSIONS!r}")
        return {**meta.attributes, _DIMENSIONS: names}, None
    names = meta.attributes.get(_DIMENSIONS)
    if meta.zarr_format == 3 or not isinstance(names, list) or len(names) != meta.rank:
        return meta.attributes, meta.axis_names
    if not all(isinstance(name, str) for name in names):
        return meta.attributes, None
    notes.append(f"attribute {_DIMENSIONS!r} becomes dimension_names")
    rest = {name: value for name, value in meta.attributes.items() if name != _DIMENSIONS}
    return rest, tuple(names)


def _complete_names(meta: ArrayMeta) -> list[str] | None:
    """Return the dimension names if all axes have one, or None."""
    names = [name for name in meta.axis_names or () if name is not None]
    return names if meta.axis_names and len(names) == meta.rank else None


# To format 3


def _convert_to_v3(meta: ArrayMeta, conversion: Conversion) -> ArrayMeta | None:
    data_type = meta.data_type
    order = _find_byte_order(data_type)
    if order == "mixed":
        conversion.add_problem("/dtype", "the fields of a record have one byte order in format 3")
    refusal = data_type.refusal(3)
    if refusal is not None:
        conversion.add_problem("/dtype", refusal)
    codecs: list[Codec] = []
    elements = data_type
    for codec, loc in _locate_codecs_v2(meta):
        if not _has_codec(codec, 3):
            conversion.add_problem(loc, f"format 3 has no codec {codec.label!r}")
        elif isinstance(codec, ItemFilter):
            elements = _apply_filter(codec, elements, loc, conversion)
            order = _find_byte_order(elements)
            codecs.append(codec.ordered("little"))
        elif isinstance(codec, Bytes):
            codecs.append(Bytes(None if order == "mixed" else order))
        elif order == "big" and codec.kind == "array_bytes":
            conversion.add_problem(loc, f"codec {codec.label!r} and big-endian elements")
        elif not (isinstance(codec, Transpose) and meta.rank < 2):
            codecs.append(codec)
    if len(conversion.problems):
        return None
    native = data_type.ordered("native")
    fill = meta.fill_value
    if fill is None:
        fill = native.default_fill()
        text = describe(native.fill_to_json(fill, 3))
        conversion.notes.append(f"/fill_value: null, which leaves it open, becomes {text}")
    elif native != data_type:
        fill = data_type.swapped(fill).tobytes()
    attributes, names = convert_dimension_names(meta, 3, conversion.notes)
    new = replace(meta.chunk_spec, data_type=native)
    return ArrayMeta(
        3,
        meta.shape,
        native,
        meta.chunk_grid,
        meta.chunk_key_encoding,
        fill,
        Chain(tuple(codecs)).resolve(new, 3),
        attributes,
        names,
    )


def _locate_codecs_v2(meta: ArrayMeta) -> list[tuple[Codec, str]]:
    """Return the codecs of an array of format 2, each with its JSON pointer in ``.zarray``."""
    located: list[tuple[Codec, str]] = []
    filters = 0
    last = len(meta.codecs.codecs) - 1
    for i, codec in enumerate(meta.codecs.codecs):
        if i == 0 and meta.order == "F" and isinstance(codec, Transpose):
            located.append((codec, "/order"))
        elif isinstance(codec, Bytes):
            located.append((codec, "/dtype"))
        elif i == last and not meta.last_is_filter:
            located.append((codec, "/compression" if meta.is_v1 else "/compressor"))
        else:
            located.append((codec, pointer("/filters", filters)))
            filters += 1
    return located


def _apply_filter(
    codec: ItemFilter, elements: DataType, loc: str, conversion: Conversion
) -> DataType:
    """Return the data type of elements after a filter of format 2.

    Such a filter views bytes as items of its own type. In format 3 elements have no byte order
    before the codec ``bytes``, so the byte orders of the filter and of the elements must agree.
    """
    decoded, encoded = (dtype.to_data_type(type_) for type_ in codec.types(elements.numpy))
    orders = _find_byte_order(elements), _find_byte_order(decoded)
    same_size = elements.unit_bytes == decoded.unit_bytes
    if (None not in orders and orders[0] != orders[1]) or (not same_size and "big" in orders):
        conversion.add_problem(
            loc, f"{codec.label!r} takes elements for such of another byte order or size"
        )
    return encoded


def _find_byte_order(data_type: DataType) -> Order:
    """Return the byte order of elements; None if it does not matter."""
    little, big = data_type.ordered("little"), data_type.ordered("big")
    if little == big:
        return None
    return "little" if data_type == little else "big" if data_type == big else "mixed"


# To format 2


def _convert_to_v2(meta: ArrayMeta, conversion: Conversion) -> ArrayMeta | None:
    grid = meta.chunk_grid.regular()
    if grid is None:
        conversion.add_problem("/chunk_grid", "format 2 has no chunks of different lengths")
    refusal = meta.data_type.refusal(2)
    if refusal is not None:
        conversion.add_problem("/data_type", refusal)
    encoding = meta.chunk_key_encoding
    if isinstance(encoding, DefaultKeys):
        encoding = V2Keys(encoding.separator)
    elif not isinstance(encoding, V2Keys):
        conversion.add_problem("/chunk_key_encoding", f"format 2 has no keys {encoding.name!r}")
    serializer = meta.codecs.array_bytes
    order = serializer.endian if isinstance(serializer, Bytes) else None
    data_type = meta.data_type.ordered(order or "native")
    chain = _convert_chain_to_v2(meta, data_type, conversion)
    if chain is None or grid is None or len(conversion.problems):
        return None
    fill = meta.fill_value
    assert fill is not None
    if meta.data_type.storable_fill(fill, 2) != fill:
        conversion.add_problem("/fill_value", "format 2 has no form for the bits of this NaN")
    names = _complete_names(meta)
    if names is not None and meta.attributes.get(_DIMENSIONS, names) != names:
        conversion.add_problem("/dimension_names", f"attribute {_DIMENSIONS!r} has other names")
    if data_type != meta.data_type:
        fill = meta.data_type.swapped(fill).tobytes()
    return ArrayMeta(
        2,
        meta.shape,
        data_type,
        grid,
        encoding,
        fill,
        chain,
        convert_dimension_names(meta, 2, conversion.notes)[0],
    )


def _convert_chain_to_v2(
    meta: ArrayMeta, data_type: DataType, conversion: Conversion
) -> Chain | None:
    """Return the chain for format 2, and add problems for codecs that format 2 lacks."""
    axes = tuple(range(meta.rank))
    fortran = False
    codecs: list[Codec] = []
    for i, codec in enumerate(meta.codecs.codecs):
        loc = pointer("/codecs", i)
        if isinstance(codec, ShardingIndexed):
            conversion.add_problem(loc, "format 2 has no shards")
        elif isinstance(codec, Transpose):
            fortran = codec.axes(meta.rank) == axes[::-1]
            if i > 0 or not (fortran or codec.axes(meta.rank) == axes):
                conversion.add_problem(loc, "format 2 has no order of axes but C and F")
        elif codec.kind == "ignored":
            conversion.notes.append(f"{loc}: a codec that need not be understood is left out")
        elif isinstance(codec, Bytes):
            pass
        elif not _has_codec(codec, 2):
            conversion.add_problem(loc, f"format 2 has no codec {codec.label!r}")
        elif isinstance(codec, ItemFilter):
            if codec.ordered("little") != codec:
                conversion.add_problem(loc, f"{codec.label!r} sets its byte order itself")
            codecs.append(codec.ordered("big" if data_type.big_endian else "little"))
        else:
            codecs.append(codec)
    if len(conversion.problems):
        return None
    last = codecs.pop() if codecs and codecs[-1].kind == "bytes_bytes" else None
    chain = v2.build_chain(fortran, meta.rank, codecs, last)
    return chain.resolve(replace(meta.chunk_spec, data_type=data_type), 2)


def _has_codec(codec: Codec, to: ZarrFormat) -> bool:
    """Tell whether a format has a name for a codec."""
    try:
        document = codec.to_json(to)
    except (UnsupportedError, ValueError):
        return False
    name = document.get("id" if to == 2 else "name") if isinstance(document, dict) else document
    return bool(name)
