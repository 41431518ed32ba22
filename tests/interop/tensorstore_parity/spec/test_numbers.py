"""Numbers of any type, and integers such as `3.0` in a spec: accepted as in TensorStore."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import numpy as np
import pytest

import tessarr.tensorstore as ours
from interop.tensorstore_parity.random_views import outcome

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

    def describe(ts: Any) -> str:
        return json.dumps(ts.Spec(spec).to_json(), sort_keys=True)

    assert outcome(lambda: describe(ours)) == outcome(lambda: describe(theirs))


def test_codec_member_spellings_are_equal() -> None:
    """Two spellings of a member are equal."""
    blosc = {"driver": "zarr", "compressor": {"id": "blosc", "clevel": 5.0}}
    metadata = {"compressor": {"id": "blosc", "clevel": 5, "shuffle": -1.0}}
    spec = {"driver": "zarr2", "kvstore": "memory://", "metadata": metadata}

    def describe(ts: Any) -> Any:
        return ts.Spec(spec | {"schema": {"codec": blosc}}).codec.to_json()

    assert describe(ours) == describe(theirs)


SLICES = [
    *(slice(0, 3), slice(None), slice(2, None), slice(-3, None), slice(3, 2), slice(5, 20)),
    *(slice(True, 3), slice(np.int8(1), np.uint64(3)), slice(0, 3, 1), slice(0, 3, 0)),
    *(slice("1", "3"), slice(1.0, 3), slice(b"1", None)),
    *((0, 3), 5),
]
TIMES = [True, False, np.True_, np.float32(1), np.int8(1), np.array(1.0), 1, -np.inf, None, "1", 1j]


@pytest.mark.parametrize("bounds", SLICES, ids=repr)
def test_bytes_of_value(bounds: Any) -> None:
    """Only integers are valid byte counts."""

    def read(ts: Any) -> Any:
        store = ts.KvStore.open("memory://").result()
        store["a"] = b"0123456789"
        return store.read("a", byte_range=bounds).result().value

    assert outcome(lambda: read(ours)) == outcome(lambda: read(theirs))


@pytest.mark.parametrize("time", TIMES, ids=repr)
def test_staleness_bound_numbers_match_tensorstore(time: Any) -> None:
    def read(ts: Any) -> Any:
        store = ts.KvStore.open("memory://").result()
        store["a"] = b"0"
        return store.read("a", staleness_bound=time).result().value

    def describe(ts: Any) -> Any:
        spec = ts.Spec({"driver": "zarr3", "kvstore": "memory://"})
        spec.update(recheck_cached_data=time)
        return bool(spec.to_json().get("recheck_cached_data", True))

    for work in (read, describe):
        assert outcome(partial(work, ours)) == outcome(partial(work, theirs))
