"""Constraints are merged, and arrays are laid out, as TensorStore does, or both refuse.

Where Tessarr differs on purpose:

* the same fill value of another data type is no conflict (TensorStore's documentation says so,
  too, but 0.1.86 refuses it);
* a fill value that the data type cannot hold is refused, where TensorStore cuts it;
* schemas without a rank are not indexed here; TensorStore ends with a segmentation fault;
* `translate_to` without a lower bound is an `IndexError`, as TensorStore's documentation says.
"""

from __future__ import annotations

import copy
import itertools
import json
import random
from collections.abc import Callable
from typing import Any

import pytest

import tessarr.tensorstore as ours
from tessarr.errors import TessarrError
from tessarr.tensorstore.drivers.zarr import resolve
from tessarr.tensorstore.drivers.zarr.facts import facts_of
from tessarr.tensorstore.schema.element import WHOLE
from tessarr.tensorstore.schema.schema import Schema

theirs = pytest.importorskip("tensorstore", reason="the package tensorstore is absent")

JSON = dict[str, Any]
_names = itertools.count()


class Cases:
    """Draws constraints."""

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
        found: JSON = {}
        if self.maybe():
            lengths: list[Any] = [self.length() for _ in range(rank)]
            for k in range(rank):
                if self.maybe(0.3):
                    lengths[k] = self.draw.choice([0, None, -1])
            if wild and self.maybe(0.03):
                lengths = [*lengths, 3]
            found["shape" + self.soft()] = lengths
        if self.maybe(0.3):
            ratios = [self.draw.choice([0, None, 1, 1, 2, 0.5, 3.7, 10]) for _ in range(rank)]
            found["aspect_ratio" + self.soft()] = ratios
        if self.maybe(0.4):
            count = self.draw.choice([0, 1, 10, 100, 1000, 12345, 10**6, 2**20, 10**7])
            found["elements" + self.soft()] = count
        return found

    def soft(self) -> str:
        return self.draw.choice(["", "", "_soft_constraint"])

    def layout(self, rank: int, *, codec: float = 0.05, wild: bool = False) -> JSON:
        found: JSON = {}
        for usage, chance in (("chunk", 0.3), ("write_chunk", 0.4), ("read_chunk", 0.4)):
            if self.maybe(chance):
                found[usage] = self.grid(rank, wild=wild)
        if self.maybe(codec):
            found["codec_chunk"] = self.grid(rank)
        if self.maybe(0.25):
            found["inner_order" + self.soft()] = self.draw.sample(range(rank), rank)
        if self.maybe(0.1):
            origin = self.draw.choice([0, 0, 0, None, 5 if wild else 0])
            found["grid_origin" + self.soft()] = [origin] * rank
        if self.maybe(0.1):
            found["rank"] = rank
        return found

    def domain(self, rank: int) -> JSON:
        found: JSON = {}
        if self.maybe(0.8):
            found["shape"] = [self.extent() for _ in range(rank)]
        else:
            upper: list[Any] = [self.extent() for _ in range(rank)]
            for k in range(rank):
                if self.maybe(0.2):
                    upper[k] = self.draw.choice([[upper[k]], "+inf", ["+inf"]])
            found["exclusive_max"] = upper
            if self.maybe():
                lower = self.draw.choice([0, 0, 0, [0], ["-inf"], -3])
                found["inclusive_min"] = [lower] * rank
        if self.maybe(0.3):
            found["labels"] = [self.draw.choice(["", "xyzw"[k]]) for k in range(rank)]
        return found

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
        found: JSON = {}
        if self.maybe(0.3):
            found["rank"] = rank if not wild or self.maybe(0.9) else rank + 1
        if self.maybe(0.6):
            found["dtype"] = self.dtype()
        if self.maybe(0.6):
            found["domain"] = self.domain(rank)
        if self.maybe(0.6):
            found["chunk_layout"] = self.layout(rank, wild=wild)
        if self.maybe(0.3):
            found["codec"] = self.codec(rank, driver)
        dtype = found.get("dtype")
        if self.maybe(0.3) and dtype != "complex64":
            found["fill_value"] = self.fill(dtype)
        if self.maybe(0.2):
            found["dimension_units"] = self.units(rank)
        return found

    def codec(self, rank: int, driver: str) -> JSON:
        if driver == "zarr3":
            return {"driver": "zarr3", "codecs": self.chain(rank)} if self.maybe(0.9) else {
                "driver": "zarr3"
            }  # fmt: skip
        found: JSON = {"driver": "zarr"}
        if self.maybe(0.8):
            found["compressor"] = self.compressor()
        return found

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
        found = []
        if self.maybe(0.25):
            order: Any = self.draw.choice(["C", "F", self.draw.sample(range(rank), rank)])
            found.append(self.named("transpose", {"order": order}))
        if depth < 2 and self.maybe(0.3):
            found.append(self.sharding(rank, depth))
        elif self.maybe(0.5):
            found.append(self.named("bytes", self.options(endian=["little", "little", "big"])))
        if self.maybe(0.1 if found and "sharding" in str(found[-1]) else 0.5):
            found += [self.compression() for _ in range(self.draw.choice([1, 1, 2]))]
        return found

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
                given = self.options(
                    cname=["lz4", "zstd"], clevel=[3, 5], shuffle=shuffles, typesize=[1, 4],
                    blocksize=[0, 1000],
                )  # fmt: skip
                return self.named("blosc", given)
            case _:
                return self.named("crc32c", {})

    def metadata(self, driver: str, rank: int, *, whole: bool = False) -> JSON:
        draw = self.metadata3 if driver == "zarr3" else self.metadata2
        return draw(rank, whole=whole)

    def metadata3(self, rank: int, *, whole: bool = False) -> JSON:
        found: JSON = {}
        if self.maybe(0.8 if whole else 0.4):
            found["shape"] = [self.extent() for _ in range(rank)]
        if self.maybe(0.7 if whole else 0.4):
            found["data_type"] = self.dtype()
            if self.maybe(0.3) and found["data_type"] != "complex64":
                found["fill_value"] = self.fill(found["data_type"])
        if self.maybe(0.3):
            lengths = [self.length() for _ in range(rank)]
            found["chunk_grid"] = {"name": "regular", "configuration": {"chunk_shape": lengths}}
        if self.maybe(0.2):
            found["chunk_key_encoding"] = self.draw.choice(
                [{"name": "default"}, {"name": "v2"},
                 {"name": "default", "configuration": {"separator": "."}},
                 {"name": "v2", "configuration": {"separator": "/"}}]
            )  # fmt: skip
        if self.maybe(0.4):
            found["codecs"] = self.chain(rank)
        if self.maybe(0.2):
            names = [self.draw.choice([None, "", "xyzw"[k]]) for k in range(rank)]
            found["dimension_names"] = names
        if self.maybe(0.2):
            found["attributes"] = {"a": self.draw.choice([1, 2])}
            if self.maybe():
                units = ["nm", "4nm", None, "", "2.5e-7 m"]
                found["attributes"]["dimension_units"] = [
                    self.draw.choice(units) for _ in range(rank)
                ]
        return found

    def metadata2(self, rank: int, *, whole: bool = False) -> JSON:
        found: JSON = {}
        if self.maybe(0.8 if whole else 0.4):
            found["shape"] = [self.extent() for _ in range(rank)]
        if self.maybe(0.4):
            found["chunks"] = [self.length() for _ in range(rank)]
        if self.maybe(0.7 if whole else 0.4):
            found["dtype"] = self.draw.choice(["<i4", ">u2", "|b1", "<f8", "|S4", "|V3", "<c8"])
            if self.maybe(0.3):
                fill: Any = False if found["dtype"] == "|b1" else 3
                if found["dtype"] in {"|S4", "|V3", "<c8"}:
                    fill = None
                found["fill_value"] = self.draw.choice([fill, None])
        if self.maybe(0.4):
            found["compressor"] = self.compressor()
        if self.maybe(0.2):
            found["order"] = self.draw.choice(["C", "F"])
        if self.maybe(0.2):
            found["dimension_separator"] = self.draw.choice([".", "/"])
        return found


def outcome(make: Callable[[], Any]) -> Any:
    """Return what is made, or the class of the error."""
    try:
        return json.loads(json.dumps(make()))
    except (ValueError, IndexError, TypeError, NotImplementedError, KeyError) as error:
        return error


def agree(mine: Any, other: Any) -> bool:
    if isinstance(other, Exception):
        return isinstance(mine, type(other)) and isinstance(mine, TessarrError | TypeError)
    return not isinstance(mine, Exception) and mine == other


def both(make: Callable[..., Any], *given: Any) -> tuple[Any, Any, Any]:
    """Return a case: what is given, and what either library makes of it."""
    return given, outcome(lambda: make(ours, *given)), outcome(lambda: make(theirs, *given))


def compare(cases: list[tuple[Any, Any, Any]], allowed: int = 0) -> None:
    """Fail if more than `allowed` of (case, ours, theirs) differ."""
    differ = [case for case in cases if not agree(case[1], case[2])]
    text = "\n".join(f"{c}\n  ours   {m!r:.1500}\n  theirs {t!r:.1500}" for c, m, t in differ[:5])
    assert len(differ) <= allowed, f"{len(differ)} of {len(cases)} differ:\n{text}"
    failed = sum(isinstance(case[2], Exception) for case in cases)
    assert failed < 0.8 * len(cases), "too few cases are valid"


def created(driver: str, metadata: JSON, schema: JSON) -> Any:
    """Return what TensorStore stores of a new array, and what it tells of it."""
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
    """Return a document without what says the same as if it were left out."""
    found = copy.deepcopy(document)
    if found["zarr_format"] == 2:
        if found.get("dimension_separator") == ".":
            del found["dimension_separator"]
        return found
    if not found.get("attributes"):
        found.pop("attributes", None)
    encoding = found["chunk_key_encoding"]
    usual = {"default": "/", "v2": "."}[encoding["name"]]
    if encoding.get("configuration", {}).get("separator") == usual:
        del encoding["configuration"]
    found["codecs"] = [_canonical_codec(codec) for codec in found["codecs"]]
    return found


def _canonical_codec(codec: JSON) -> JSON:
    configuration = dict(codec.get("configuration", {}))
    for name in ("codecs", "index_codecs"):
        if name in configuration:
            configuration[name] = [_canonical_codec(part) for part in configuration[name]]
    usual = {"index_location": "end", "checksum": False}
    for name, value in usual.items():
        if configuration.get(name) == value:
            del configuration[name]
    if configuration.get("shuffle") == "noshuffle":
        configuration.pop("typesize", None)
    return {"name": codec["name"], **({"configuration": configuration} if configuration else {})}


def made(driver: str, metadata: JSON, schema: JSON) -> Any:
    from tessarr.metadata import v2, v3

    meta = resolve.new_metadata(driver, metadata, Schema(schema))
    document = v3.to_json(meta) if driver == "zarr3" else v2.to_json(meta)
    if driver == "zarr":
        document["compressor"] = facts_of(meta, WHOLE).metadata_json["compressor"]
    return {
        "document": canonical(document),
        "metadata": facts_of(meta, WHOLE).metadata_json,
        "schema": facts_of(meta, WHOLE).schema.to_json(),
    }


def test_chunks_are_chosen_alike() -> None:
    """2500 layouts for arrays of known shape give the same read and write chunks."""
    draw = Cases(11)
    cases = []
    for _ in range(2500):
        rank = draw.draw.choice([1, 2, 2, 3, 3, 4])
        schema = {
            "dtype": "uint8",
            "domain": {"shape": [draw.extent() for _ in range(rank)]},
            "chunk_layout": draw.layout(rank, codec=0),
        }
        mine = outcome(lambda s=schema: made("zarr3", {}, s))
        cases.append((schema, mine, outcome(lambda s=schema: created("zarr3", {}, s))))
    compare(cases)


def test_ratios_of_any_size_choose_alike() -> None:
    """Ratios of up to 1e140 to 1, from the least to the largest number, give the same chunks."""
    draw = random.Random(17)
    cases = []
    for _ in range(1000):
        size = (
            10.0 ** draw.uniform(-307, 307) if draw.random() < 0.8 else draw.choice([5e-324, 1e308])
        )
        spread = draw.choice([0, 1, 3, 20, 140])
        ratio = [
            min(size * 10.0 ** draw.uniform(0, spread), 1.7e308)
            for _ in range(draw.choice([1, 2, 3]))
        ]
        grid = {"aspect_ratio": ratio, "elements": draw.choice([1, 100, 4096, 10**6])}
        schema = {
            "dtype": "uint8",
            "domain": {"shape": [draw.choice([10, 1000, 4097, 10**5]) for _ in ratio]},
            "chunk_layout": {"chunk": grid},
        }
        mine = outcome(lambda s=schema: made("zarr3", {}, s))
        cases.append((schema, mine, outcome(lambda s=schema: created("zarr3", {}, s))))
    compare(cases)


@pytest.mark.parametrize("driver", ["zarr3", "zarr"])
def test_arrays_are_created_alike(driver: str) -> None:
    """Metadata and schema give the same document, and the same schema is told of it."""
    draw = Cases(2)
    cases = []
    for _ in range(1000):
        rank = draw.rank()
        metadata = draw.metadata(driver, rank, whole=True)
        schema = draw.schema(rank, driver=driver)
        if "domain" not in schema and "shape" not in metadata:
            schema["domain"] = {"shape": [draw.extent() for _ in range(rank)]}
        if "dtype" not in schema and not {"dtype", "data_type"} & set(metadata):
            schema["dtype"] = draw.dtype()
        if driver == "zarr" and schema.get("dtype") in {"bfloat16", "int4", "float8_e5m2"}:
            schema["dtype"] = "float32"
        if driver == "zarr" and "domain" in schema:
            schema["domain"].pop("labels", None)  # which the handle has, not the metadata
        if {"dtype", "data_type"} & set(metadata):
            schema.pop("dtype", None)
        mine = outcome(lambda m=metadata, s=schema: made(driver, m, s))
        other = outcome(lambda m=metadata, s=schema: created(driver, m, s))
        cases.append(((metadata, schema), mine, other))
    compare(cases)


def test_layouts_merge_alike() -> None:
    """Two chunk layouts together are what TensorStore makes of them."""
    draw = Cases(3)
    cases = []
    for _ in range(1500):
        rank = draw.rank() or 1
        one, other = (draw.layout(rank, codec=0.3, wild=True) for _ in range(2))
        cases.append(both(_layouts, one, other))
    compare(cases)


def _layouts(ts: Any, one: JSON, other: JSON) -> Any:
    schema = ts.Schema(chunk_layout=ts.ChunkLayout(one))
    schema.update(chunk_layout=ts.ChunkLayout(other))
    return schema.chunk_layout.to_json()


def test_schemas_merge_alike() -> None:
    """Two schemas together are what TensorStore makes of them."""
    draw = Cases(4)
    cases = []
    for _ in range(2000):
        rank = draw.rank() or 2
        one, other = (draw.schema(rank, wild=True) for _ in range(2))
        for name in ("dtype", "fill_value"):
            other.pop(name, None)
        if draw.maybe():
            other.pop("domain", None)
        cases.append(both(_schemas, one, other))
    compare(cases)


def _schemas(ts: Any, one: JSON, other: JSON) -> Any:
    schema = ts.Schema(one)
    schema.update(schema=ts.Schema(other))
    return schema.to_json()


@pytest.mark.parametrize("driver", ["zarr3", "zarr"])
def test_codecs_merge_alike(driver: str) -> None:
    """Two codec specs together are what TensorStore makes of them."""
    draw = Cases(5)
    cases = []
    for _ in range(1500):
        rank = draw.draw.choice([1, 2, 2, 3])
        one, other = (draw.codec(rank, driver) for _ in range(2))
        if draw.maybe() and "codecs" in one:
            other = copy.deepcopy(one)
            other["codecs"] = other["codecs"][: draw.draw.randint(0, 3)]
        cases.append(both(_codecs, one, other))
    compare(cases)


def _codecs(ts: Any, one: JSON, other: JSON) -> Any:
    schema = ts.Schema(codec=ts.CodecSpec(one))
    schema.update(codec=ts.CodecSpec(other))
    return schema.codec.to_json()


@pytest.mark.parametrize("sizes", [(1, None), (None, 1), (2, 2)])
def test_the_size_of_elements_that_are_not_shuffled_is_not_told(
    sizes: tuple[int | None, int | None],
) -> None:
    specs: list[JSON] = []
    for shuffle, size in zip((None, "noshuffle"), sizes, strict=True):
        options = {"shuffle": shuffle, "typesize": size}
        given = {name: value for name, value in options.items() if value is not None}
        specs.append({"driver": "zarr3", "codecs": [{"name": "blosc", "configuration": given}]})
    for one, other in (specs, specs[::-1]):
        assert _codecs(ours, one, other) == _codecs(theirs, one, other)


def test_schemas_are_indexed_alike() -> None:
    """A view of a schema is the one that TensorStore makes."""
    from interop.test_tensorstore_space import Cases as Acts

    draw, acts = Cases(6), Acts(6)
    cases = []
    for _ in range(1500):
        rank = draw.draw.choice([1, 2, 2, 3])
        schema = {"rank": rank, **draw.schema(rank)}
        if schema.get("dtype") not in {"bool", "complex64"} and draw.maybe(0.2):
            schema["fill_value"] = 3
        try:
            domain = Schema(schema).domain or ours.IndexDomain(rank)
        except ValueError:
            continue
        act = acts.act(ours.IndexTransform(domain))
        if "None" in act or any(dim.empty for dim in domain):
            continue  # an empty view of index arrays ends TensorStore
        if "-" in act and not all(dim.finite for dim in domain):
            continue  # TensorStore refuses steps back from where there is no bound
        cases.append(both(_indexed, schema, act))
    compare(cases)


def _indexed(ts: Any, schema: JSON, act: str) -> Any:
    import numpy as np

    view = eval(f"made{act}", {"made": ts.Schema(schema), "ts": ts, "np": np})
    found = view.to_json()
    if 0 in view.shape:
        found.pop("fill_value", None)  # TensorStore has none where there is no position
    return found


@pytest.mark.parametrize("driver", ["zarr3", "zarr"])
def test_specs_tell_alike(driver: str) -> None:
    """What a spec that is not opened tells of its array is what TensorStore's tells."""
    draw = Cases(7)
    cases = []
    for _ in range(1500):
        rank = draw.rank()
        metadata = draw.metadata(driver, rank)
        schema = draw.schema(rank, driver=driver)
        mine = outcome(lambda m=metadata, s=schema: _effective(driver, m, s))
        other = outcome(lambda m=metadata, s=schema: _spec(driver, m, s))
        cases.append(((metadata, schema), mine, other))
    compare(cases)


def _effective(driver: str, metadata: JSON, schema: JSON) -> Any:
    return resolve.effective(driver, metadata, Schema(schema)).to_json()


def _spec(driver: str, metadata: JSON, schema: JSON) -> Any:
    spec = {"driver": driver, "kvstore": "memory://", "metadata": metadata, "schema": schema}
    return theirs.Spec(spec).schema.to_json()


@pytest.mark.parametrize("driver", ["zarr3", "zarr"])
def test_existing_arrays_are_checked_alike(driver: str) -> None:
    """Constraints that an existing array does not meet are refused by both."""
    draw = Cases(8)
    cases = []
    for _ in range(700):
        rank = draw.rank()
        first = draw.metadata(driver, rank)
        first["shape"] = [draw.draw.choice([4, 10, 20]) for _ in range(rank)]
        first |= {"data_type": "uint8"} if driver == "zarr3" else {"dtype": "|u1"}
        first.pop("fill_value", None)
        try:
            meta = resolve.new_metadata(driver, first, Schema())
        except (TessarrError, ValueError):
            continue
        known = facts_of(meta, WHOLE).schema.to_json()
        schema = {k: v for k, v in draw.schema(rank, driver=driver).items() if draw.maybe(0.3)}
        schema |= {k: v for k, v in known.items() if draw.maybe(0.5)}
        metadata = draw.metadata(driver, rank)
        metadata = {k: v for k, v in metadata.items() if draw.maybe(0.1) and k != "fill_value"}
        stated = facts_of(meta, WHOLE).metadata_json
        metadata |= {k: v for k, v in stated.items() if draw.maybe(0.3) and k != "fill_value"}
        cases.append(both(_opened, driver, _stored(driver, first), metadata, schema))
    compare(cases)


def _stored(driver: str, first: JSON) -> dict[str, bytes]:
    context = theirs.Context()
    spec = {"driver": driver, "kvstore": "memory://", "metadata": first}
    theirs.open(spec, create=True, context=context).result()
    keys = theirs.KvStore.open("memory://", context=context).result()
    return {key.decode(): keys[key] for key in keys.list().result()}


def _opened(ts: Any, driver: str, stored: dict[str, bytes], metadata: JSON, schema: JSON) -> Any:
    context = ts.Context()
    keys = ts.KvStore.open("memory://", context=context).result()
    for key, value in stored.items():
        keys[key] = value
    spec = {"driver": driver, "kvstore": "memory://", "metadata": metadata, "schema": schema}
    ts.open(spec, open=True, context=context).result()
    return "opened"


@pytest.mark.parametrize("driver", ["zarr", "zarr3"])
@pytest.mark.parametrize("kind", ["chunk", "read_chunk", "write_chunk", "codec_chunk"])
@pytest.mark.parametrize("count", [0, 1, 2**62 - 2, 2**62 - 1, 2**62])
def test_the_least_and_the_most_elements(driver: str, kind: str, count: int) -> None:
    def layout(package: Any, name: str, shape: list[int]) -> Any:
        schema = {
            "dtype": "uint8",
            "domain": {"shape": shape},
            "chunk_layout": {kind: {name: count}},
        }
        spec = {"driver": driver, "kvstore": "memory://", "schema": schema}
        return package.open(spec, create=True).result().chunk_layout.to_json()

    for name in ("elements", "elements_soft_constraint"):
        for shape in ([100, 100], [0, 5], []):
            _, here, there = both(layout, name, shape)
            assert agree(here, there), (name, shape, here, there)


_GRIDS: list[JSON] = [
    *({"shape": [50, 30]}, {"shape": [-1, 30]}, {"shape": [0, 30]}),
    *({"shape_soft_constraint": [50, 30]}, {"shape_soft_constraint": [-1, 7]}),
    *({"shape_soft_constraint": [16, None]}, {"shape_soft_constraint": [50, 0], "elements": 300}),
    *({"aspect_ratio": [2, 1]}, {"aspect_ratio_soft_constraint": [5, 1]}),
    *({"elements": 100}, {"elements_soft_constraint": 100}, {"elements_soft_constraint": 300}),
]


@pytest.mark.parametrize("driver", ["zarr", "zarr3"])
@pytest.mark.parametrize("write", _GRIDS, ids=repr)
def test_soft_constraints_on_chunks_that_are_read_and_written_alike(
    driver: str, write: JSON
) -> None:
    """In format 3 those on written chunks come first, in format 2 those on read ones."""
    metadata: JSON = {"codecs": []} if driver == "zarr3" else {}
    cases = []
    for read in _GRIDS:
        layout = {"write_chunk": write, "read_chunk": read}
        schema = {"dtype": "int16", "domain": {"shape": [101, 60]}, "chunk_layout": layout}
        mine = outcome(lambda s=schema: made(driver, metadata, s))
        cases.append((schema, mine, outcome(lambda s=schema: created(driver, metadata, s))))
    compare(cases)


@pytest.mark.parametrize("metadata", [{}, {"codecs": []}], ids=repr)
@pytest.mark.parametrize("usage", ["write_chunk", "read_chunk"])
def test_constraints_on_what_codecs_encode_together(metadata: JSON, usage: str) -> None:
    """They choose nothing; where nothing is sharded, a hard aspect ratio has to fit the others."""
    some: list[JSON] = [
        *({"aspect_ratio": [1, 2]}, {"aspect_ratio": [2, 1]}, {"aspect_ratio": [0, 2]}),
        *({"aspect_ratio_soft_constraint": [2, 1]}, {"aspect_ratio": [3, 0], "elements": 64}),
        *({"elements": 100}, {"elements": 64}, {"elements_soft_constraint": 64}),
    ]
    cases = []
    for one, codec in itertools.product(some, some):
        layout = {usage: one, "codec_chunk": codec}
        schema = {"dtype": "int16", "domain": {"shape": [100, 100]}, "chunk_layout": layout}
        mine = outcome(lambda s=schema: made("zarr3", metadata, s))
        cases.append((schema, mine, outcome(lambda s=schema: created("zarr3", metadata, s))))
    compare(cases)


_SCALARS: list[JSON] = [
    {"driver": "zarr3", "rank": 0},
    {"driver": "zarr3", "schema": {"rank": 0, "dtype": "int8"}},
    {"driver": "zarr3", "schema": {"dimension_units": []}},
    {"driver": "zarr3", "schema": {"chunk_layout": {"inner_order": []}}},
    {"driver": "zarr3", "metadata": {"data_type": "int8", "chunk_grid": {
        "name": "regular", "configuration": {"chunk_shape": []}}}},
    {"driver": "zarr", "rank": 0},
    {"driver": "zarr", "schema": {"rank": 0, "dtype": "int8"}},
    {"driver": "zarr", "metadata": {"chunks": []}},
    {"driver": "zarr", "metadata": {"chunks": [], "dtype": "<i2"}},
    {"driver": "json"},
    {"driver": "auto", "rank": 0},
]  # fmt: skip
_OF_SCALARS: list[JSON] = [
    {"driver": "cast", "dtype": "int8", "base": {"driver": "zarr3", "rank": 0}},
    {"driver": "cast", "dtype": "int8", "rank": 0, "base": {"driver": "zarr3"}},
    {"driver": "downsample", "downsample_method": "mean", "downsample_factors": [],
     "base": {"driver": "zarr3"}},
    {"driver": "downsample", "downsample_method": "mean", "downsample_factors": [],
     "base": {"driver": "zarr3", "rank": 0}},
    {"driver": "stack", "layers": [{"driver": "zarr3", "rank": 0}]},
    {"driver": "stack", "layers": [], "schema": {"domain": {"rank": 0}}},
]  # fmt: skip


@pytest.mark.parametrize("spec", [*_SCALARS, *_OF_SCALARS], ids=json.dumps)
def test_specs_of_scalars_tell_alike(spec: JSON) -> None:
    """Where there is no dimension, the domain is known wherever TensorStore knows it."""

    def told(ts: Any, what: str) -> Any:
        found = getattr(ts.Spec(_placed(spec)), what)
        found = found() if callable(found) else found
        return found.to_json() if hasattr(found, "to_json") else found

    for what in ("to_json", "domain", "rank", "transform", "schema", "shape", "dimension_units"):
        _, here, there = both(told, what)
        assert agree(here, there), (what, here, there)


def _placed(spec: JSON) -> JSON:
    """Return a spec whose arrays are in memory."""
    if "base" in spec:
        return {**spec, "base": _placed(spec["base"])}
    if "layers" in spec:
        return {**spec, "layers": [_placed(one) for one in spec["layers"]]}
    return {**spec, "kvstore": "memory://"}
