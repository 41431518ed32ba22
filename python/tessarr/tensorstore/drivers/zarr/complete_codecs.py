"""Completion of a codec chain: the codecs in the metadata document of a new array."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from tessarr import dtype as data_types
from tessarr.dtype import DataType
from tessarr.errors import ArgumentError
from tessarr.metadata.new_codecs import default_serializer
from tessarr.tensorstore.schema.codec_chain_spec import (
    INDEX,
    MAX_TYPESIZE,
    SHARDING,
    ChainSpec,
    CodecEntry,
    complete_configuration,
)
from tessarr.tensorstore.schema.element_type import is_raw
from tessarr.types import JSONObject, Shape

__all__ = ["CodecTarget", "complete_chain"]


@dataclass(frozen=True, slots=True)
class CodecTarget:
    """The array that a chain is completed for.

    Parameters
    ----------
    data_type
        The elements.
    rank
        The number of dimensions.
    read_chunk
        The shape of read chunks.
    order
        The requested order of elements, or None.
    """

    data_type: DataType
    rank: int
    read_chunk: Shape
    order: Shape | None = None


def complete_chain(chain: ChainSpec, target: CodecTarget) -> list[JSONObject]:
    """Return the chain for a document, with all open options chosen.

    Raises
    ------
    ArgumentError
        If a codec cannot be completed.
    """
    codecs: list[JSONObject] = []
    for part in chain.array_array:
        codecs.append(_complete_codec(part, target, None))
        if part.name == "transpose":
            target = _transpose_target(target, part.axes(target.rank))
    middle = chain.array_bytes or _default_serializer(target.data_type)
    in_order = tuple(range(target.rank))
    if middle.name != SHARDING and target.order not in {None, in_order}:
        assert target.order is not None
        codecs.append(_codec_json("transpose", {"order": list(target.order)}))
    if middle.name == SHARDING:
        if chain.bytes_bytes:
            names = ", ".join(repr(part.name) for part in chain.bytes_bytes)
            raise ArgumentError(
                f"codecs {names} cannot apply to whole shards: use them for subchunks"
            )
        codecs.append(_complete_sharding(middle, target))
        return codecs
    codecs.append(_complete_codec(middle, target, None))
    item_bytes = _item_bytes(target.data_type) if middle.name == "bytes" else None
    for part in chain.bytes_bytes:
        codecs.append(_complete_codec(part, target, item_bytes))
        item_bytes = None
    return codecs


def _transpose_target(target: CodecTarget, axes: Shape) -> CodecTarget:
    positions = {axis: index for index, axis in enumerate(axes)}
    order = target.order
    return replace(
        target,
        read_chunk=tuple(target.read_chunk[axis] for axis in axes),
        order=None if order is None else tuple(positions[axis] for axis in order),
    )


def _default_serializer(data_type: DataType) -> CodecEntry:
    json: JSONObject = default_serializer(data_type).to_json(3)
    return CodecEntry(json["name"], "array_bytes", json.get("configuration", {}))


def _item_bytes(data_type: DataType) -> int:
    """Return the item size for blosc's shuffle: 1 for records and raw elements."""
    return 1 if data_type.numpy.names or is_raw(data_type) else data_type.item_bytes


def _complete_codec(part: CodecEntry, target: CodecTarget, item_bytes: int | None) -> JSONObject:
    name, options = part.name, dict(part.options)
    if name == "transpose":
        return _codec_json(name, {"order": list(part.axes(target.rank))})
    if name == "bytes":
        is_single = target.data_type.unit_bytes == 1
        return _codec_json(name, {} if is_single else {"endian": "little", **options})
    if name == "blosc":
        return _blosc(options, item_bytes)
    defaults = _DEFAULTS.get(name)
    if defaults is None:
        return _codec_json(name, complete_configuration(name, options))
    return _codec_json(name, {**defaults, **options})


_DEFAULTS: Final = {"crc32c": {}, "gzip": {"level": 6}, "zstd": {"level": 3, "checksum": False}}


def _blosc(options: dict[str, Any], item_bytes: int | None) -> JSONObject:
    shuffle, typesize = options.get("shuffle"), options.get("typesize")
    if shuffle != "noshuffle" and typesize is None:
        if item_bytes is not None and item_bytes <= MAX_TYPESIZE:
            typesize = item_bytes
        elif shuffle is None:
            shuffle = "noshuffle"
        else:
            raise ArgumentError("codec 'blosc': give the typesize for the shuffle")
    result = {
        "cname": options.get("cname", "lz4"),
        "clevel": options.get("clevel", 5),
        "shuffle": shuffle or ("bitshuffle" if typesize == 1 else "shuffle"),
        "blocksize": options.get("blocksize", 0),
    }
    if result["shuffle"] != "noshuffle":
        result["typesize"] = typesize
    return _codec_json("blosc", result)


def _complete_sharding(part: CodecEntry, target: CodecTarget) -> JSONObject:
    shape = part.options.get("chunk_shape", target.read_chunk)
    if len(shape) != target.rank:
        raise ArgumentError(f"subchunks {list(shape)} in chunks of {target.rank} dimensions")
    inner = part.subchunks or ChainSpec()
    index = part.options.get("index_codecs", INDEX)
    numbers = data_types.to_data_type("uint64")
    return _codec_json(
        SHARDING,
        {
            "chunk_shape": list(shape),
            "codecs": complete_chain(inner, target),
            "index_codecs": complete_chain(
                index, CodecTarget(numbers, target.rank + 1, (*shape, 2))
            ),
            "index_location": part.options.get("index_location", "end"),
        },
    )


def _codec_json(name: str, configuration: Mapping[str, Any]) -> JSONObject:
    if not configuration:
        return {"name": name}
    return {"name": name, "configuration": dict(configuration)}
