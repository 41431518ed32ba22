"""Merged constraints and new arrays match TensorStore's, or both packages raise errors.

Tessarr differs on purpose:

* the same fill value of another data type is no conflict (TensorStore's documentation agrees, but
  0.1.86 raises an error);

* a fill value outside the data type's range raises an error, where TensorStore truncates it;
* these tests do not index schemas without a rank: TensorStore ends with a segmentation fault;
* `translate_to` without a lower bound is an `IndexError`, as in TensorStore's documentation.
"""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

import tessarr.tensorstore as ours
from interop.tensorstore_parity.random_schemas import (
    JSON,
    Cases,
    agree,
    both,
    compare,
    created,
    new_metadata,
    outcome,
    theirs,
)
from tessarr.errors import TessarrError
from tessarr.tensorstore.drivers.zarr import resolve_metadata
from tessarr.tensorstore.drivers.zarr.array_properties import properties_of
from tessarr.tensorstore.schema.element_type import WHOLE
from tessarr.tensorstore.schema.schema import Schema


@pytest.mark.parametrize("driver", ["zarr3", "zarr"])
def test_arrays_are_created_equally(driver: str) -> None:
    """Metadata and schema produce the same document, and the array has the same schema."""
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
            schema["domain"].pop("labels", None)  # the handle has it, not the metadata
        if {"dtype", "data_type"} & set(metadata):
            schema.pop("dtype", None)
        mine = outcome(lambda m=metadata, s=schema: new_metadata(driver, m, s))
        other = outcome(lambda m=metadata, s=schema: created(driver, m, s))
        cases.append(((metadata, schema), mine, other))
    compare(cases)


def test_schemas_merge_equally() -> None:
    """Merging two schemas matches TensorStore."""
    draw = Cases(4)
    cases = []
    for _ in range(2000):
        rank = draw.rank() or 2
        first, other = (draw.schema(rank, wild=True) for _ in range(2))
        for name in ("dtype", "fill_value"):
            other.pop(name, None)
        if draw.maybe():
            other.pop("domain", None)
        cases.append(both(_schemas, first, other))
    compare(cases)


def _schemas(ts: Any, first: JSON, other: JSON) -> Any:
    schema = ts.Schema(first)
    schema.update(schema=ts.Schema(other))
    return schema.to_json()


@pytest.mark.parametrize("driver", ["zarr3", "zarr"])
def test_codecs_merge_equally(driver: str) -> None:
    """Merging two codec specs matches TensorStore."""
    draw = Cases(5)
    cases = []
    for _ in range(1500):
        rank = draw.draw.choice([1, 2, 2, 3])
        first, other = (draw.codec(rank, driver) for _ in range(2))
        if draw.maybe() and "codecs" in first:
            other = copy.deepcopy(first)
            other["codecs"] = other["codecs"][: draw.draw.randint(0, 3)]
        cases.append(both(_codecs, first, other))
    compare(cases)


def _codecs(ts: Any, first: JSON, other: JSON) -> Any:
    schema = ts.Schema(codec=ts.CodecSpec(first))
    schema.update(codec=ts.CodecSpec(other))
    return schema.codec.to_json()


def test_schemas_are_indexed_equally() -> None:
    """A view of a schema equals TensorStore's view."""
    from interop.tensorstore_parity.indexing.test_dimension_expressions import Cases as Acts

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
            continue  # an empty view of index arrays ends TensorStore's process
        if "-" in act and not all(dim.finite for dim in domain):
            continue  # TensorStore refuses negative steps from a missing bound
        cases.append(both(_indexed, schema, act))
    compare(cases)


def _indexed(ts: Any, schema: JSON, act: str) -> Any:
    import numpy as np

    view = eval(f"made{act}", {"made": ts.Schema(schema), "ts": ts, "np": np})
    document = view.to_json()
    if 0 in view.shape:
        document.pop("fill_value", None)  # TensorStore has none for an empty domain
    return document


@pytest.mark.parametrize("driver", ["zarr3", "zarr"])
def test_specs_have_equal_properties(driver: str) -> None:
    """An unopened spec and TensorStore's unopened spec have equal properties."""
    draw = Cases(7)
    cases = []
    for _ in range(1500):
        rank = draw.rank()
        metadata = draw.metadata(driver, rank)
        schema = draw.schema(rank, driver=driver)
        mine = outcome(lambda m=metadata, s=schema: _spec_schema(ours, driver, m, s))
        other = outcome(lambda m=metadata, s=schema: _spec_schema(theirs, driver, m, s))
        cases.append(((metadata, schema), mine, other))
    compare(cases)


def _spec_schema(ts: Any, driver: str, metadata: JSON, schema: JSON) -> Any:
    spec = {"driver": driver, "kvstore": "memory://", "metadata": metadata, "schema": schema}
    return ts.Spec(spec).schema.to_json()


@pytest.mark.parametrize("driver", ["zarr3", "zarr"])
def test_existing_arrays_are_checked_equally(driver: str) -> None:
    """Both packages refuse constraints that an existing array does not meet."""
    draw = Cases(8)
    cases = []
    for _ in range(700):
        rank = draw.rank()
        first = draw.metadata(driver, rank)
        first["shape"] = [draw.draw.choice([4, 10, 20]) for _ in range(rank)]
        first |= {"data_type": "uint8"} if driver == "zarr3" else {"dtype": "|u1"}
        first.pop("fill_value", None)
        try:
            meta = resolve_metadata.new_metadata(driver, first, Schema())
        except (TessarrError, ValueError):
            continue
        known = properties_of(meta, WHOLE).schema.to_json()
        schema = {k: v for k, v in draw.schema(rank, driver=driver).items() if draw.maybe(0.3)}
        schema |= {k: v for k, v in known.items() if draw.maybe(0.5)}
        metadata = draw.metadata(driver, rank)
        metadata = {k: v for k, v in metadata.items() if draw.maybe(0.1) and k != "fill_value"}
        written = properties_of(meta, WHOLE).metadata_json
        metadata |= {k: v for k, v in written.items() if draw.maybe(0.3) and k != "fill_value"}
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
def test_specs_of_scalars_have_equal_properties(spec: JSON) -> None:
    """Without dimensions, Tessarr knows the domain whenever TensorStore knows it."""

    def describe(ts: Any, name: str) -> Any:
        value = getattr(ts.Spec(_placed(spec)), name)
        value = value() if callable(value) else value
        return value.to_json() if hasattr(value, "to_json") else value

    for name in ("to_json", "domain", "rank", "transform", "schema", "shape", "dimension_units"):
        _, actual, expected = both(describe, name)
        assert agree(actual, expected), (name, actual, expected)


def _placed(spec: JSON) -> JSON:
    """Return a spec whose arrays are in memory."""
    if "base" in spec:
        return {**spec, "base": _placed(spec["base"])}
    if "layers" in spec:
        return {**spec, "layers": [_placed(layer) for layer in spec["layers"]]}
    return {**spec, "kvstore": "memory://"}
