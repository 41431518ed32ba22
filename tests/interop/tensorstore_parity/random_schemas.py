"""Random constraints, and their outcomes in both libraries."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from typing import Any

import pytest

import tessarr.tensorstore as ours
from tessarr.errors import TessarrError
from tessarr.metadata import v2, v3
from tessarr.tensorstore.drivers.zarr import resolve_metadata
from tessarr.tensorstore.drivers.zarr.array_properties import properties_of
from tessarr.tensorstore.schema.element_type import WHOLE
from tessarr.tensorstore.schema.schema import Schema

__all__ = [
    "JSON",
    "Cases",
    "agree",
    "both",
    "compare",
    "created",
    "new_metadata",
    "outcome",
    "theirs",
]

theirs = pytest.importorskip("tensorstore", reason="the package tensorstore is absent")

JSON = dict[str, Any]


class Cases:
    """Generator of constraints."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)

    def maybe(self, chance: float = 0.5) -> bool:
        return self.draw.random() < chance

    def rank(self) -> int:
        return self.draw.choice([0, 1, 1, 2, 2, 2, 3, 3, 4])

    def length(self) -> int:
        return self.draw.choice([1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 30, 64, 100, 101, 384, 1000])

    def extent(self) -> int:
        return self.draw.choice([0, 1, 2, 5, 10, 64, 100, 101, 400, 1000, 4097, 100000])

    def grid(self, rank: int, *, wild: bool = False) -> JSON:
        grid: JSON = {}
        if self.maybe():
            lengths: list[Any] = [self.length() for _ in range(rank)]
            for k in range(rank):
                if self.maybe(0.3):
                    lengths[k] = self.draw.choice([0, None, -1])
            if wild and self.maybe(0.03):
                lengths = [*lengths, 3]
            grid["shape" + self.soft()] = lengths
        if self.maybe(0.3):
            ratios = [self.draw.choice([0, None, 1, 1, 2, 0.5, 3.7, 10]) for _ in range(rank)]
            grid["aspect_ratio" + self.soft()] = ratios
        if self.maybe(0.4):
            count = self.draw.choice([0, 1, 10, 100, 1000, 12345, 10**6, 2**20, 10**7])
            grid["elements" + self.soft()] = count
        return grid

    def soft(self) -> str:
        return self.draw.choice(["", "", "_soft_constraint"])

    def layout(self, rank: int, *, codec: float = 0.05, wild: bool = False) -> JSON:
        layout: JSON = {}
        for usage, chance in (("chunk", 0.3), ("write_chunk", 0.4), ("read_chunk", 0.4)):
            if self.maybe(chance):
                layout[usage] = self.grid(rank, wild=wild)
        if self.maybe(codec):
            layout["codec_chunk"] = self.grid(rank)
        if self.maybe(0.25):
            layout["inner_order" + self.soft()] = self.draw.sample(range(rank), rank)
        if self.maybe(0.1):
            origin = self.draw.choice([0, 0, 0, None, 5 if wild else 0])
            layout["grid_origin" + self.soft()] = [origin] * rank
        if self.maybe(0.1):
            layout["rank"] = rank
        return layout

    def domain(self, rank: int) -> JSON:
        domain: JSON = {}
        if self.maybe(0.8):
            domain["shape"] = [self.extent() for _ in range(rank)]
        else:
            upper: list[Any] = [self.extent() for _ in range(rank)]
            for k in range(rank):
                if self.maybe(0.2):
                    upper[k] = self.draw.choice([[upper[k]], "+inf", ["+inf"]])
            domain["exclusive_max"] = upper
            if self.maybe():
                lower = self.draw.choice([0, 0, 0, [0], ["-inf"], -3])
                domain["inclusive_min"] = [lower] * rank
        if self.maybe(0.3):
            domain["labels"] = [self.draw.choice(["", "xyzw"[k]]) for k in range(rank)]
        return domain

    def units(self, rank: int) -> list[Any]:
        units = [None, "", "4nm", "4 nm", [4, "nm"], 5, "m", [1, ""]]
        return [self.draw.choice(units) for _ in range(rank)]

    def dtype(self) -> str:
        return self.draw.choice(
            ["bool", "int8", "uint8", "int16", "uint32", "int64", "float16", "float32", "float64",
             "complex64", "bfloat16", "int4", "float8_e5m2"]
        )  # fmt: skip

    def fill(self, dtype: str | None) -> Any:
        if dtype == "bool":
            return self.maybe()
        if dtype is None:
            return self.draw.choice([0, 1, 3])
        if dtype == "complex64":
            return 1
        return self.draw.choice([0, 1, 3, 7])

    def schema(self, rank: int, *, driver: str = "zarr3", wild: bool = False) -> JSON:
        schema: JSON = {}
        if self.maybe(0.3):
            schema["rank"] = rank if not wild or self.maybe(0.9) else rank + 1
        if self.maybe(0.6):
            schema["dtype"] = self.dtype()
        if self.maybe(0.6):
            schema["domain"] = self.domain(rank)
        if self.maybe(0.6):
            schema["chunk_layout"] = self.layout(rank, wild=wild)
        if self.maybe(0.3):
            schema["codec"] = self.codec(rank, driver)
        dtype = schema.get("dtype")
        if self.maybe(0.3) and dtype != "complex64":
            schema["fill_value"] = self.fill(dtype)
        if self.maybe(0.2):
            schema["dimension_units"] = self.units(rank)
        return schema

    def codec(self, rank: int, driver: str) -> JSON:
        if driver == "zarr3":
            return {"driver": "zarr3", "codecs": self.chain(rank)} if self.maybe(0.9) else {
                "driver": "zarr3"
            }  # fmt: skip
        codec: JSON = {"driver": "zarr"}
        if self.maybe(0.8):
            codec["compressor"] = self.compressor()
        return codec

    def compressor(self) -> JSON | None:
        return self.draw.choice(
            [None, {"id": "blosc"}, {"id": "blosc", "clevel": 3, "cname": "zstd"},
             {"id": "zlib"}, {"id": "zlib", "level": 3}, {"id": "zstd", "level": 4},
             {"id": "bz2"}, {"id": "gzip", "level": 2}]
        )  # fmt: skip

    def options(self, **choices: list[Any]) -> JSON:
        return {name: self.draw.choice(of) for name, of in choices.items() if self.maybe(0.4)}

    def named(self, name: str, configuration: JSON) -> Any:
        if configuration or self.maybe(0.3):
            return {"name": name, "configuration": configuration}
        return self.draw.choice([name, {"name": name}])

    def chain(self, rank: int, depth: int = 0) -> list[Any]:
        codecs = []
        if self.maybe(0.25):
            order: Any = self.draw.choice(["C", "F", self.draw.sample(range(rank), rank)])
            codecs.append(self.named("transpose", {"order": order}))
        if depth < 2 and self.maybe(0.3):
            codecs.append(self.sharding(rank, depth))
        elif self.maybe(0.5):
            codecs.append(self.named("bytes", self.options(endian=["little", "little", "big"])))
        if self.maybe(0.1 if codecs and "sharding" in str(codecs[-1]) else 0.5):
            codecs += [self.compression() for _ in range(self.draw.choice([1, 1, 2]))]
        return codecs

    def sharding(self, rank: int, depth: int) -> Any:
        configuration: JSON = {}
        if self.maybe(0.6):
            configuration["chunk_shape"] = [self.draw.choice([1, 2, 5, 10]) for _ in range(rank)]
        if self.maybe(0.6):
            configuration["codecs"] = self.chain(rank, depth + 1)
        if self.maybe(0.2):
            configuration["index_codecs"] = self.draw.choice([["bytes"], ["bytes", "crc32c"], []])
        configuration |= self.options(index_location=["start", "end"])
        return self.named("sharding_indexed", configuration)

    def compression(self) -> Any:
        match self.draw.choice(["gzip", "zstd", "blosc", "crc32c"]):
            case "gzip":
                return self.named("gzip", self.options(level=[1, 5, 5]))
            case "zstd":
                return self.named("zstd", self.options(level=[1, 5, -3], checksum=[True, False]))
            case "blosc":
                shuffles = ["noshuffle", "shuffle", "bitshuffle"]
                options = self.options(
                    cname=["lz4", "zstd"], clevel=[3, 5], shuffle=shuffles, typesize=[1, 4],
                    blocksize=[0, 1000],
                )  # fmt: skip
                return self.named("blosc", options)
            case _:
                return self.named("crc32c", {})

    def metadata(self, driver: str, rank: int, *, whole: bool = False) -> JSON:
        draw = self.metadata3 if driver == "zarr3" else self.metadata2
        return draw(rank, whole=whole)

    def metadata3(self, rank: int, *, whole: bool = False) -> JSON:
        metadata: JSON = {}
        if self.maybe(0.8 if whole else 0.4):
            metadata["shape"] = [self.extent() for _ in range(rank)]
        if self.maybe(0.7 if whole else 0.4):
            metadata["data_type"] = self.dtype()
            if self.maybe(0.3) and metadata["data_type"] != "complex64":
                metadata["fill_value"] = self.fill(metadata["data_type"])
        if self.maybe(0.3):
            lengths = [self.length() for _ in range(rank)]
            metadata["chunk_grid"] = {"name": "regular", "configuration": {"chunk_shape": lengths}}
        if self.maybe(0.2):
            metadata["chunk_key_encoding"] = self.draw.choice(
                [{"name": "default"}, {"name": "v2"},
                 {"name": "default", "configuration": {"separator": "."}},
                 {"name": "v2", "configuration": {"separator": "/"}}]
            )  # fmt: skip
        if self.maybe(0.4):
            metadata["codecs"] = self.chain(rank)
        if self.maybe(0.2):
            names = [self.draw.choice([None, "", "xyzw"[k]]) for k in range(rank)]
            metadata["dimension_names"] = names
        if self.maybe(0.2):
            metadata["attributes"] = {"a": self.draw.choice([1, 2])}
            if self.maybe():
                units = ["nm", "4nm", None, "", "2.5e-7 m"]
                metadata["attributes"]["dimension_units"] = [
                    self.draw.choice(units) for _ in range(rank)
                ]
        return metadata

    def metadata2(self, rank: int, *, whole: bool = False) -> JSON:
        metadata: JSON = {}
        if self.maybe(0.8 if whole else 0.4):
            metadata["shape"] = [self.extent() for _ in range(rank)]
        if self.maybe(0.4):
            metadata["chunks"] = [self.length() for _ in range(rank)]
        if self.maybe(0.7 if whole else 0.4):
            metadata["dtype"] = self.draw.choice(["<i4", ">u2", "|b1", "<f8", "|S4", "|V3", "<c8"])
            if self.maybe(0.3):
                fill: Any = False if metadata["dtype"] == "|b1" else 3
                if metadata["dtype"] in {"|S4", "|V3", "<c8"}:
                    fill = None
                metadata["fill_value"] = self.draw.choice([fill, None])
        if self.maybe(0.4):
            metadata["compressor"] = self.compressor()
        if self.maybe(0.2):
            metadata["order"] = self.draw.choice(["C", "F"])
        if self.maybe(0.2):
            metadata["dimension_separator"] = self.draw.choice([".", "/"])
        return metadata


def outcome(make: Callable[[], Any]) -> Any:
    """Return the result, or the class of the error."""
    try:
        return json.loads(json.dumps(make()))
    except (ValueError, IndexError, TypeError, NotImplementedError, KeyError) as error:
        return error


def agree(mine: Any, other: Any) -> bool:
    if isinstance(other, Exception):
        return isinstance(mine, type(other)) and isinstance(mine, TessarrError | TypeError)
    return not isinstance(mine, Exception) and mine == other


def both(make: Callable[..., Any], *argument: Any) -> tuple[Any, Any, Any]:
    """Return a case: the arguments and the outcomes in both libraries."""
    return (
        argument,
        outcome(lambda: make(ours, *argument)),
        outcome(lambda: make(theirs, *argument)),
    )


def compare(cases: list[tuple[Any, Any, Any]], allowed: int = 0) -> None:
    """Raise an error if more than `allowed` of (case, ours, theirs) differ."""
    differ = [case for case in cases if not agree(case[1], case[2])]
    text = "\n".join(f"{c}\n  ours   {m!r:.1500}\n  theirs {t!r:.1500}" for c, m, t in differ[:5])
    assert len(differ) <= allowed, f"{len(differ)} of {len(cases)} differ:\n{text}"
    failed = sum(isinstance(case[2], Exception) for case in cases)
    assert failed < 0.8 * len(cases), "too few cases are valid"


def created(driver: str, metadata: JSON, schema: JSON) -> Any:
    """Return TensorStore's metadata document of a new array, and its JSON."""
    context = theirs.Context()
    spec = {"driver": driver, "kvstore": "memory://", "metadata": metadata, "schema": schema}
    store = theirs.open(spec, create=True, context=context).result()
    keys = theirs.KvStore.open("memory://", context=context).result()
    document = json.loads(keys["zarr.json" if driver == "zarr3" else ".zarray"])
    return {
        "document": canonical(document),
        "metadata": store.spec().to_json()["metadata"],
        "schema": store.schema.to_json(),
    }


def canonical(document: JSON) -> JSON:
    """Return a document without members that equal their defaults."""
    document_copy = copy.deepcopy(document)
    if document_copy["zarr_format"] == 2:
        if document_copy.get("dimension_separator") == ".":
            del document_copy["dimension_separator"]
        return document_copy
    if not document_copy.get("attributes"):
        document_copy.pop("attributes", None)
    encoding = document_copy["chunk_key_encoding"]
    usual = {"default": "/", "v2": "."}[encoding["name"]]
    if encoding.get("configuration", {}).get("separator") == usual:
        del encoding["configuration"]
    document_copy["codecs"] = [_canonical_codec(codec) for codec in document_copy["codecs"]]
    return document_copy


def _canonical_codec(codec: JSON) -> JSON:
    configuration = dict(codec.get("configuration", {}))
    for name in ("codecs", "index_codecs"):
        if name in configuration:
            configuration[name] = [_canonical_codec(part) for part in configuration[name]]
    usual = {"index_location": "end", "checksum": False}
    for name, value in usual.items():
        if configuration.get(name) == value:
            del configuration[name]
    return {"name": codec["name"], **({"configuration": configuration} if configuration else {})}


def new_metadata(driver: str, metadata: JSON, schema: JSON) -> Any:
    meta = resolve_metadata.new_metadata(driver, metadata, Schema(schema))
    document = v3.to_json(meta) if driver == "zarr3" else v2.to_json(meta)
    if driver == "zarr":
        document["compressor"] = properties_of(meta, WHOLE).metadata_json["compressor"]
    return {
        "document": canonical(document),
        "metadata": properties_of(meta, WHOLE).metadata_json,
        "schema": properties_of(meta, WHOLE).schema.to_json(),
    }
