"""Messages contain TensorStore's status code, at the position where programs search for it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr.tensorstore as ours

theirs: Any = pytest.importorskip("tensorstore", reason="the package tensorstore is absent")

Act = Callable[[Any, str], object]
NEW: dict[str, Any] = {"create": True, "dtype": "uint8", "shape": [10]}


def spec(path: str, name: str = "a", driver: str = "zarr3") -> dict[str, Any]:
    return {"driver": driver, "kvstore": {"driver": "file", "path": f"{path}/{name}/"}}


def array(ts: Any, path: str, **more: Any) -> Any:
    return ts.open(spec(path), **more).result()


def damaged(ts: Any, path: str, *codecs: str, document: str = "c/0") -> Any:
    """Open an array with a damaged chunk or damaged metadata."""
    created_spec = spec(path, "damaged")
    metadata = {"codecs": [{"name": name} for name in ("bytes", *codecs)]}
    ts.open({**created_spec, "metadata": metadata}, **NEW).result().write(1).result()
    Path(path, "damaged", document).write_bytes(b"[0, 0, 0, 0, 0]")
    return ts.open(created_spec).result()


def shard(ts: Any, path: str, *codecs: str, change: Callable[[bytes], bytes]) -> Any:
    """Open an array, then replace the content of one of its shards."""
    created_spec = spec(path, "shard")
    inner = [{"name": name} for name in ("bytes", *codecs)]
    sharding = {"name": "sharding_indexed", "configuration": {"codecs": inner, "chunk_shape": [5]}}
    ts.open({**created_spec, "metadata": {"codecs": [sharding]}}, **NEW).result().write(
        range(10)
    ).result()
    file = Path(path, "shard", "c", "0")
    file.write_bytes(change(file.read_bytes()))
    return ts.open(created_spec).result()


def no_json(ts: Any, path: str, driver: str, document: str) -> Any:
    created_spec = spec(path, "no_json", driver)
    ts.open(created_spec, **NEW).result()
    Path(path, "no_json", document).write_bytes(b'{"a": ')
    return ts.open(created_spec, context=ts.Context()).result()


def conflict(ts: Any, path: str) -> None:
    store = ts.KvStore.open(f"file://{path}/").result()
    store["key"] = b"1"
    transaction = ts.Transaction()
    before = store.read("key").result().stamp.generation
    store.with_transaction(transaction).write("key", b"2", if_equal=before).result()
    store["key"] = b"3"
    transaction.commit_async().result()


def _other_sum(data: bytes) -> tuple[bytes, bytes, bytes]:
    """Return a shard whose first chunk has a wrong gzip checksum (the size is last)."""
    end = data.index(b"\x1f\x8b", 1) - 5
    return data[:end], bytes([data[end] ^ 255]), data[end + 1 :]


ACTS: dict[str, Act] = {
    "missing": lambda ts, path: ts.open(spec(path, "none")).result(),
    "missing of 2": lambda ts, path: ts.open(spec(path, "none", "zarr")).result(),
    "of no format": lambda ts, path: ts.open(f"file://{path}/none/").result(),
    "no document": lambda ts, path: (
        ts.open({"driver": "json", "kvstore": f"file://{path}/none"}).result().read().result()
    ),
    "there already": lambda ts, path: array(ts, path, **NEW, open=False),
    "another type": lambda ts, path: array(ts, path, dtype="int8"),
    "another shape": lambda ts, path: array(ts, path, shape=[11]),
    "another rank": lambda ts, path: array(ts, path, rank=2),
    "another fill value": lambda ts, path: array(ts, path, fill_value=3),
    "a group": lambda ts, path: ts.open(spec(path, "group")).result(),
    "read outside": lambda ts, path: array(ts, path)[20].read().result(),
    "write outside": lambda ts, path: array(ts, path)[5:20].write(1).result(),
    "listed outside": lambda ts, path: array(ts, path).oindex[[0, 20]].read().result(),
    "no checksum": lambda ts, path: damaged(ts, path, "crc32c").read().result(),
    "no gzip": lambda ts, path: damaged(ts, path, "gzip")[2:3].write(1).result(),
    "too short": lambda ts, path: damaged(ts, path).read().result(),
    "no JSON": lambda ts, path: no_json(ts, path, "zarr3", "zarr.json"),
    "no JSON of 2": lambda ts, path: no_json(ts, path, "zarr", ".zarray"),
    "a shard without index": lambda ts, path: shard(ts, path, change=lambda _: b"").read().result(),
    "a shard of two bytes": lambda ts, path: (
        shard(ts, path, change=lambda data: data[:2])[2:3].write(1).result()
    ),
    "another index": lambda ts, path: (
        shard(ts, path, change=lambda data: data[:-1] + b"x").read().result()
    ),
    "another sum of gzip": lambda ts, path: (
        shard(ts, path, "gzip", change=lambda data: b"".join(_other_sum(data))).read().result()
    ),
    "no array": lambda ts, path: damaged(ts, path, document="zarr.json"),
    "shrink": lambda ts, path: array(ts, path).resize(None, [5], expand_only=True).result(),
    "changed": conflict,
    # The class of these errors carries the same information.
    "other values": lambda ts, path: array(ts, path).write(np.zeros(3, "u1")).result(),
    "no such driver": lambda ts, path: ts.open({"driver": "none", "kvstore": "memory://"}).result(),
    "no type": lambda ts, path: ts.open(spec(path, "none"), create=True, shape=[3]).result(),
}


def code(ts: Any, act: Act, path: Path) -> str | None:
    """Return the code in the text of an error."""
    array(ts, str(path), **NEW)
    group = path / "group"
    group.mkdir(parents=True)
    (group / "zarr.json").write_text('{"zarr_format": 3, "node_type": "group"}')
    with pytest.raises(ValueError) as caught:
        act(ts, str(path))
    match = re.search(r"\b[A-Z]+_[A-Z_]+\b|ABORTED", str(caught.value))
    return match and match[0]


@pytest.mark.parametrize("name", ACTS)
def test_status_codes_match_tensorstore(name: str, tmp_path: Path) -> None:
    """Programs use codes to distinguish existing keys, missing keys and other errors."""
    result = code(ours, ACTS[name], tmp_path / "ours")
    assert result == code(theirs, ACTS[name], tmp_path / "theirs")
