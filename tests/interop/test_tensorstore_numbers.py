"""Integers that a spec writes as floats, as `3.0`, are taken where TensorStore takes them."""

from __future__ import annotations

import json
from typing import Any

import pytest

import tessarr.tensorstore as ours
from interop.views import outcome

theirs = pytest.importorskip("tensorstore", reason="compared with TensorStore's own")

FORM_2: list[dict[str, Any]] = [
    *({"zarr_format": value} for value in (2.0, 2, 2.5, 3.0, "2", True, None)),
    *({"compressor": {"id": "blosc", "clevel": value}} for value in (3.0, 3.5, 10.0, "3", True)),
    *({"compressor": {"id": "blosc", "shuffle": value}} for value in (2.0, -1.0, 3.0)),
    *({"compressor": {"id": "blosc", "blocksize": value}} for value in (4.0, 4.5, -1.0)),
    *({"compressor": {"id": name, "level": 3.0}} for name in ("zlib", "gzip", "bz2", "zstd")),
    *({"dtype": [["a", "<i2", [value]]]} for value in (2.0, 2.5, 0.0, -1.0, "2")),
    {"shape": [3.0], "chunks": [2.0]},
]
FORM_3: list[dict[str, Any]] = [
    *({"zarr_format": value} for value in (3.0, 3, 3.5, 2.0, "3", True, None)),
    {"shape": [3.0], "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2.0]}}},
    *(
        {"codecs": ["bytes", {"name": name, "configuration": options}]}
        for name, options in [
            ("gzip", {"level": 5.0}),
            ("zstd", {"level": 5.0}),
            ("blosc", {"clevel": 5.0, "typesize": 2.0, "blocksize": 0.0}),
        ]
    ),
    {"codecs": [{"name": "transpose", "configuration": {"order": [1.0, 0.0]}}]},
]
CASES = [*(("zarr2", one) for one in FORM_2), *(("zarr3", one) for one in FORM_3)]


@pytest.mark.parametrize(("driver", "metadata"), CASES, ids=str)
def test_members_of_metadata(driver: str, metadata: dict[str, Any]) -> None:
    spec = {"driver": driver, "kvstore": "memory://a/", "metadata": metadata}

    def told(ts: Any) -> str:
        return json.dumps(ts.Spec(spec).to_json(), sort_keys=True)

    assert outcome(lambda: told(ours)) == outcome(lambda: told(theirs))


def test_members_that_are_merged() -> None:
    """What is written in two ways is the same."""
    blosc = {"driver": "zarr", "compressor": {"id": "blosc", "clevel": 5.0}}
    metadata = {"compressor": {"id": "blosc", "clevel": 5, "shuffle": -1.0}}
    spec = {"driver": "zarr2", "kvstore": "memory://", "metadata": metadata}

    def told(ts: Any) -> Any:
        return ts.Spec(spec | {"schema": {"codec": blosc}}).codec.to_json()

    assert told(ours) == told(theirs)
