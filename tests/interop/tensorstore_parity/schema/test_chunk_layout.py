"""Chunk layouts match TensorStore's, or both packages raise errors."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from interop.tensorstore_parity.random_schemas import (
    JSON,
    Cases,
    agree,
    both,
    compare,
    created,
    new_metadata,
    outcome,
)


def test_chunk_shapes_are_chosen_equally() -> None:
    """2500 layouts for arrays of known shape have the same read and write chunks."""
    draw = Cases(11)
    cases = []
    for _ in range(2500):
        rank = draw.draw.choice([1, 2, 2, 3, 3, 4])
        schema = {
            "dtype": "uint8",
            "domain": {"shape": [draw.extent() for _ in range(rank)]},
            "chunk_layout": draw.layout(rank, codec=0),
        }
        mine = outcome(lambda s=schema: new_metadata("zarr3", {}, s))
        cases.append((schema, mine, outcome(lambda s=schema: created("zarr3", {}, s))))
    compare(cases)


def test_aspect_ratio_of_any_size_matches_tensorstore() -> None:
    """Ratios of up to 1e140 to 1, from the least to the largest number, have the same chunks."""
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
        mine = outcome(lambda s=schema: new_metadata("zarr3", {}, s))
        cases.append((schema, mine, outcome(lambda s=schema: created("zarr3", {}, s))))
    compare(cases)


def test_layouts_merge_equally() -> None:
    """Merging two chunk layouts matches TensorStore."""
    draw = Cases(3)
    cases = []
    for _ in range(1500):
        rank = draw.rank() or 1
        first, other = (draw.layout(rank, codec=0.3, wild=True) for _ in range(2))
        cases.append(both(_layouts, first, other))
    compare(cases)


def _layouts(ts: Any, first: JSON, other: JSON) -> Any:
    schema = ts.Schema(chunk_layout=ts.ChunkLayout(first))
    schema.update(chunk_layout=ts.ChunkLayout(other))
    return schema.chunk_layout.to_json()


@pytest.mark.parametrize("driver", ["zarr", "zarr3"])
@pytest.mark.parametrize("kind", ["chunk", "read_chunk", "write_chunk", "codec_chunk"])
@pytest.mark.parametrize("count", [0, 1, 2**62 - 2, 2**62 - 1, 2**62])
def test_least_and_most_elements(driver: str, kind: str, count: int) -> None:
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
            _, actual, expected = both(layout, name, shape)
            assert agree(actual, expected), (name, shape, actual, expected)


_GRIDS: list[JSON] = [
    *({"shape": [50, 30]}, {"shape": [-1, 30]}, {"shape": [0, 30]}),
    *({"shape_soft_constraint": [50, 30]}, {"shape_soft_constraint": [-1, 7]}),
    *({"shape_soft_constraint": [16, None]}, {"shape_soft_constraint": [50, 0], "elements": 300}),
    *({"aspect_ratio": [2, 1]}, {"aspect_ratio_soft_constraint": [5, 1]}),
    *({"elements": 100}, {"elements_soft_constraint": 100}, {"elements_soft_constraint": 300}),
]


@pytest.mark.parametrize("driver", ["zarr", "zarr3"])
@pytest.mark.parametrize("write", _GRIDS, ids=repr)
def test_soft_constraints_on_read_and_write_chunks(driver: str, write: JSON) -> None:
    """In format 3, constraints on write chunks apply first; in format 2, those on read chunks."""
    metadata: JSON = {"codecs": []} if driver == "zarr3" else {}
    cases = []
    for read in _GRIDS:
        layout = {"write_chunk": write, "read_chunk": read}
        schema = {"dtype": "int16", "domain": {"shape": [101, 60]}, "chunk_layout": layout}
        mine = outcome(lambda s=schema: new_metadata(driver, metadata, s))
        cases.append((schema, mine, outcome(lambda s=schema: created(driver, metadata, s))))
    compare(cases)


@pytest.mark.parametrize("metadata", [{}, {"codecs": []}], ids=repr)
@pytest.mark.parametrize("usage", ["write_chunk", "read_chunk"])
def test_codec_chunk_constraints_match_tensorstore(metadata: JSON, usage: str) -> None:
    """The constraints choose no shape; without shards, a hard aspect ratio must fit the others."""
    some: list[JSON] = [
        *({"aspect_ratio": [1, 2]}, {"aspect_ratio": [2, 1]}, {"aspect_ratio": [0, 2]}),
        *({"aspect_ratio_soft_constraint": [2, 1]}, {"aspect_ratio": [3, 0], "elements": 64}),
        *({"elements": 100}, {"elements": 64}, {"elements_soft_constraint": 64}),
    ]
    cases = []
    for first, codec in itertools.product(some, some):
        layout = {usage: first, "codec_chunk": codec}
        schema = {"dtype": "int16", "domain": {"shape": [100, 100]}, "chunk_layout": layout}
        mine = outcome(lambda s=schema: new_metadata("zarr3", metadata, s))
        cases.append((schema, mine, outcome(lambda s=schema: created("zarr3", metadata, s))))
    compare(cases)


def _of_bytes(ts: Any, count: int) -> Any:
    """Read from a shard of `count` subchunks: first a missing value, then a truncated value."""
    metadata = {
        "shape": [count],
        "data_type": "uint8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [count]}},
        "codecs": [{"name": "sharding_indexed", "configuration": {"chunk_shape": [1]}}],
    }
    spec = {"driver": "zarr3", "kvstore": "memory://", "metadata": metadata}
    store = ts.open(spec, create=True, context=ts.Context()).result()
    result = store[count - 1].read().result()
    assert result == 0
    store.kvstore["c/0"] = b"shorter than its index"
    with pytest.raises(ValueError, match=r"index|bytes"):
        store[0].read().result()
    return store.chunk_layout.to_json()


@pytest.mark.parametrize("count", [2**26 + 1, 2**30, 2**30 + 1])
def test_most_subchunks_of_shard(count: int) -> None:
    """Tessarr allocates no memory for an index that is not stored."""
    seed, actual, expected = both(_of_bytes, count)
    assert agree(actual, expected), (seed, actual, expected)
