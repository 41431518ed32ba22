"""Unusual operations of handles succeed or fail as in TensorStore."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import tessarr.tensorstore as ours
from interop.tensorstore_parity.random_views import outcome

theirs = pytest.importorskip("tensorstore", reason="compared with TensorStore's own")


def compare(tell: Callable[[Any], Any]) -> None:
    """Assert that both packages return the same, or the same kind of error."""
    assert outcome(lambda: tell(ours)) == outcome(lambda: tell(theirs))


def small(ts: Any) -> Any:
    """Open an array of 3 × 4 elements."""
    layout = ts.ChunkLayout(chunk_shape=[2, 2])
    new = {"create": True, "dtype": "int32", "shape": [3, 4], "chunk_layout": layout}
    return ts.open({"driver": "zarr3", "kvstore": "memory://"}, **new).result()


OWNERS: dict[str, Callable[[Any], Any]] = {
    "handle": small,
    "elements": lambda ts: ts.array(np.zeros((3, 4), "i4")),
    "transform": lambda ts: ts.IndexTransform(2),
    "domain": lambda ts: ts.IndexDomain(2),
    "spec": lambda ts: ts.Spec({"driver": "zarr3", "rank": 2}),
    "schema": lambda ts: ts.Schema(rank=2),
}
STEPS = [
    *(".transpose([1, 2])", ".transpose([0])", ".transpose([0, 0])", ".transpose('x')"),
    *(".transpose(['x', 'y'])", ".label['a']", ".label['a', 'a']", ".label[1, 2]", ".label()"),
    *(".translate_by[1, 2, 3]", ".translate_to[1, 2, 3]", ".translate_backward_by[1, 2, 3]"),
    *(".translate_to[2**62, 0]", ".translate_by[2**63, 0]", ".translate_by['x', 'y']"),
    *(".translate_to[None, 3]", ".translate_to[1.5, 3]", ".mark_bounds_implicit['x']"),
    *("[ts.d[0].label['a', 'b']]", "[ts.d[2].label['a']]", "[ts.d[0].translate_by[1, 2]]"),
    *("[ts.d['q'].translate_by[1]]", "[ts.d[0].transpose[5]]", "[ts.d[0].stride[0]]"),
    *("[5, 5, 5]", "[ts.IndexTransform(3)]", "[ts.IndexDomain(3)]"),
]


def _after(owner: str, step: str, ts: Any) -> str:
    built = eval(f"owner{step}", {"owner": OWNERS[owner](ts), "ts": ts})
    return str(getattr(built, "domain", built))


@pytest.mark.parametrize("owner", OWNERS)
@pytest.mark.parametrize("step", STEPS)
def test_steps(owner: str, step: str) -> None:
    compare(partial(_after, owner, step))


@pytest.mark.parametrize("fix", [False, True])
@pytest.mark.parametrize("step", ["[5:7]", "[5]", "[:2]", "[[0, 7]]", "[::2]", "[3:3]", "[5:5]"])
def test_bounds_outside_base(step: str, *, fix: bool) -> None:
    def resolved(ts: Any) -> str:
        view = eval(f"store{step}", {"store": small(ts)})
        return str(view.resolve(fix_resizable_bounds=fix).result().domain)

    compare(resolved)


TYPES = [
    *("bool", "int2", "int4", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"),
    *("uint64", "float8_e3m4", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e4m3b11fnuz"),
    *("float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn", "float16"),
    *("bfloat16", "float32", "float64", "complex64", "complex128"),
    *("string", "ustring", "json", "byte", "char"),
]
OBJECTS = {"string": [b"1"], "ustring": ["1"], "json": [1]}


def _array(ts: Any, name: str) -> Any:
    if name in OBJECTS:
        return ts.array(np.array(OBJECTS[name], "O"), dtype=name)
    plain = np.array([b"1"]) if name in {"byte", "char"} else np.ones(1)
    values = plain if name in {"byte", "char"} else plain.astype(ts.dtype(name).numpy_dtype)
    return ts.array(values, dtype=name)


@pytest.mark.parametrize("source", TYPES)
def test_implicit_conversions(source: str) -> None:
    def copied(ts: Any, target: str) -> Any:
        store = _array(ts, target)
        store.write(_array(ts, source)).result()
        # TensorStore reads elements of bytes as empty values, and converts float8_e8m0fnu by wrong
        # powers of two.
        wrong = target in {"byte", "char"} or "float8_e8m0fnu" in {source, target}
        return None if wrong else store.read().result().tolist()

    for target in TYPES:
        item, other = (outcome(partial(copied, ts, target)) for ts in (ours, theirs))
        assert item == other, target


@pytest.mark.parametrize("end", ["none", "commit", "abort"])
@pytest.mark.parametrize("other", ["none", "same", "new"])
def test_handle_keeps_uncommitted_transaction(end: str, other: str) -> None:
    def bound(ts: Any, spec: Any) -> bool:
        transaction = ts.Transaction()
        staged = spec.with_transaction(transaction)
        if end != "none":
            (transaction.commit_sync if end == "commit" else transaction.abort)()
        new = {"none": None, "same": transaction, "new": ts.Transaction()}[other]
        return staged.with_transaction(new).transaction is new

    compare(lambda ts: bound(ts, small(ts)))
    compare(lambda ts: bound(ts, ts.KvStore.open("memory://").result()))
