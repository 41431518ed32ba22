"""Both packages call the functions for the same chunks."""

from __future__ import annotations

import asyncio
import pickle
import random
import threading
import time
from typing import Any

import numpy as np
import pytest

import tessarr.tensorstore as ts
from interop.tensorstore_parity.random_views import Keys, apply_views, outcome, same, some_view
from sampling import seeds

theirs = pytest.importorskip("tensorstore", reason="the package tensorstore is absent")


class Recorder:
    """An array with two functions that record their arguments."""

    def __init__(self, shape: Any, origin: Any) -> None:
        self.values = np.arange(np.prod(shape), dtype="i4").reshape(shape)
        self.origin = origin
        self.calls: list[Any] = []
        self.lock = threading.Lock()

    def _slices(self, domain: Any) -> Any:
        return tuple(
            slice(dim.inclusive_min - start, dim.exclusive_max - start)
            for dim, start in zip(domain, self.origin, strict=True)
        )

    def read(self, domain: Any, chunk: Any, parameters: Any) -> None:
        assert chunk.shape == domain.shape
        assert chunk.flags.writeable
        with self.lock:
            self.calls.append(("read", str(domain), parameters.if_not_equal, parameters.batch))
        chunk[...] = self.values[self._slices(domain)]

    def write(self, domain: Any, chunk: Any, parameters: Any) -> None:
        assert not chunk.flags.writeable
        with self.lock:
            self.calls.append(("write", str(domain), chunk.tolist(), parameters.if_equal))
        self.values[self._slices(domain)] = chunk


def virtual(package: Any, seed: int) -> tuple[Any, Recorder]:
    draw = random.Random(seed)
    rank = draw.randint(1, 3)
    shape = [draw.randint(1, 7) for _ in range(rank)]
    origin = [draw.choice([0, 0, -3, 2]) for _ in range(rank)]
    layout: dict[str, Any] = {"read_chunk_shape": [draw.randint(1, 4) for _ in range(rank)]}
    if draw.random() < 0.3:
        layout["grid_origin"] = [draw.randint(-2, 2) for _ in range(rank)]
    if draw.random() < 0.3:
        layout["inner_order"] = draw.sample(range(rank), rank)
    recorder = Recorder(shape, origin)
    labels = ["x", *[""] * (rank - 1)]
    domain = package.IndexDomain(inclusive_min=origin, shape=shape, labels=labels)
    store = package.virtual_chunked(
        recorder.read,
        recorder.write,
        dtype="int32",
        domain=domain,
        chunk_layout=package.ChunkLayout(**layout),
        dimension_units=["4nm", *[None] * (rank - 1)],
    )
    return store, recorder


@seeds(range(150))
def test_same_chunks_are_read_and_written(seed: int) -> None:
    (actual, mine), (expected, others) = virtual(ts, seed), virtual(theirs, seed)
    assert repr(actual) == repr(expected) == "TensorStore(...)"
    assert repr(actual.schema) == repr(expected.schema)
    assert actual.mode == expected.mode
    acts = some_view(Keys(seed), actual)
    item, two = apply_views(actual, ts, acts), apply_views(expected, theirs, acts)
    assert same(item.read().result(), two.read().result()), acts
    assert sorted(mine.calls) == sorted(others.calls)
    mine.calls, others.calls = [], []
    items = -np.arange(item.size, dtype="i4").reshape(item.shape)
    item.write(items).result()
    two.write(items).result()
    assert np.array_equal(mine.values, others.values), acts
    assert sorted(call[:2] for call in mine.calls) == sorted(call[:2] for call in others.calls), (
        acts
    )


@pytest.mark.parametrize("driver", ["zarr3", "shards", "virtual"])
@pytest.mark.parametrize(
    "key",
    [
        *(
            "[[3, 0, 2, 1]]",
            "[[0, 0, 1, 2, 3]]",
            "[[0, 1, 2]]",
            "[[True] * 4]",
            "[::-1][[-3, 0, -1, -2]]",
        ),
        *("[:, [1, 0]]", ".oindex[[3, 2, 1, 0], [0, 1]]", ".oindex[[3, 2, 1, 0], [0, 0]]"),
        *(".vindex[[[0] * 2, [1] * 2, [2] * 2, [3] * 2], [[0, 1]] * 4]", "[[[True] * 2] * 4]"),
        *(".vindex[[0, 1, 2, 3] * 2, [0, 1] * 4]", ".vindex[[0, 1, 2, 3] * 3, [0] * 8 + [1] * 4]"),
        *("[[[0, 1], [2, 3]]]", "[ts.newaxis][:, [2, 3, 1, 0]]", "[ts.d[0, 1].diagonal]"),
    ],
)
def test_index_array_covering_chunk_does_not_read(driver: str, key: str) -> None:
    def describe(package: Any) -> bool:
        """Return whether the program wrote a chunk that it cannot read."""
        options: dict[str, Any] = {"dtype": "int32", "shape": [4, 2]}
        if driver == "virtual":

            def read(*_: Any) -> None:
                raise ValueError

            store = package.virtual_chunked(read, lambda *_: None, **options)
        else:
            lengths = [2, 1] if driver == "shards" else [4, 2]
            layout = package.ChunkLayout(write_chunk_shape=[4, 2], read_chunk_shape=lengths)
            spec = {"driver": "zarr3", "kvstore": "memory://"}
            store = package.open(spec, create=True, chunk_layout=layout, **options).result()
            store.kvstore["c/0/0"] = b"damaged"
        view = eval(f"store{key}", {"store": store, "ts": package})
        return outcome(lambda: view.write(5).result()) is None

    assert describe(ts) == describe(theirs)


CONSTRUCTORS = [
    "ts.virtual_chunked(f, dtype='int32', shape=[4, 5])",
    "ts.virtual_chunked(f, dtype='int32', shape=[4000, 5000])",
    "ts.virtual_chunked(None, f, dtype='int32', shape=[4])",
    "ts.virtual_chunked(None, None, dtype='int32', shape=[4])",
    "ts.virtual_chunked(f, shape=[4])",
    "ts.virtual_chunked(f, dtype='int32')",
    "ts.virtual_chunked(f, dtype='int32', rank=2)",
    "ts.virtual_chunked(f, dtype='int32', rank=1, shape=[2, 3])",
    "ts.virtual_chunked(f, dtype='int32', shape=[4], chunk_layout=layout(write_chunk_shape=[2]))",
    "ts.virtual_chunked(f, dtype='bool', shape=[4], chunk_layout=layout(chunk_shape=[3]))",
    "ts.virtual_chunked(f, dtype='bool', shape=[400, 50], chunk_layout=layout(chunk_elements=9))",
    "ts.virtual_chunked(f, dtype='int32', shape=[4], schema=ts.Schema(fill_value=3))",
    *(
        f"ts.virtual_chunked(f, dtype='bool', shape=[9], chunk_layout=layout({one}))"
        for one in (
            {"codec_chunk": {"shape": [4]}},
            {"codec_chunk": {"shape_soft_constraint": [4]}},
            {"codec_chunk": {"elements": 4}},
        )
    ),
]


@pytest.mark.parametrize("text", CONSTRUCTORS)
def test_constraints(text: str) -> None:
    def built(package: Any) -> Any:
        store = eval(text, {"ts": package, "f": lambda *_: None, "layout": package.ChunkLayout})
        return repr(store.schema), store.mode, str(store.domain)

    assert outcome(lambda: built(ts)) == outcome(lambda: built(theirs))


@pytest.mark.parametrize("package", [ts, theirs], ids=["here", "there"])
def test_caching_by_generations(package: Any) -> None:
    stamp = package.KvStore.TimestampedStorageGeneration
    now, requested = [b"1"], []

    def read(domain: Any, chunk: Any, parameters: Any) -> Any:
        requested.append(parameters.if_not_equal)
        if parameters.if_not_equal == now[0]:
            return stamp(time=time.time())
        chunk[...] = int(now[0])
        return stamp(now[0], time.time())

    context = package.Context({"cache_pool": {"total_bytes_limit": 10**7}})
    store = package.virtual_chunked(read, dtype="int32", shape=[1], context=context)
    result = [store.read().result().tolist() for _ in range(2)]
    now[0] = b"2"
    result.append(store.read().result().tolist())
    assert result == [[1], [1], [2]]
    assert requested == [b"", b"1", b"1"]


@pytest.mark.parametrize("package", [ts, theirs], ids=["here", "there"])
def test_chunk_without_generation_stays_cached(package: Any) -> None:
    calls = []

    def read(domain: Any, chunk: Any, parameters: Any) -> None:
        calls.append(1)
        chunk[...] = len(calls)

    context = package.Context({"cache_pool": {"total_bytes_limit": 10**7}})
    store = package.virtual_chunked(read, dtype="int32", shape=[3], context=context)
    assert [store.read().result()[0] for _ in range(3)] == [1, 1, 1]
    without = package.virtual_chunked(read, dtype="int32", shape=[3])
    assert [without.read().result()[0] for _ in range(2)] == [2, 3]


def called_within(package: Any, steps: str, *, stamped: bool, room: int) -> list[Any]:
    """Return the calls of functions during reads and writes of parts of a chunk."""
    calls: list[Any] = []
    values = np.arange(8, dtype="i4")

    def stamp() -> Any:
        generation = f"g{int(values[1] == 5)}"
        return package.KvStore.TimestampedStorageGeneration(generation, time.time())

    def read(domain: Any, chunk: Any, parameters: Any) -> Any:
        calls.append(("read", parameters.if_not_equal))
        chunk[...] = values[domain.index_exp]
        return stamp() if stamped else None

    def write(domain: Any, chunk: Any, parameters: Any) -> Any:
        calls.append(("write", parameters.if_equal))
        values[domain.index_exp] = chunk
        return stamp() if stamped else None

    built = package.virtual_chunked(
        read,
        write,
        dtype=package.int32,
        shape=[8],
        chunk_layout=package.ChunkLayout(chunk_shape=[4]),
        context=package.Context({"cache_pool": {"total_bytes_limit": room}}),
    )
    with package.Transaction() as transaction:
        inside = built.with_transaction(transaction)
        for step in steps:
            if step == "w":
                inside[1].write(5).result()
            else:
                calls.append(int(inside[2].read().result()))
    return [*calls, values.tolist()]


@pytest.mark.parametrize("steps", ["w", "wr", "rw", "wrr", "rwr", "wrw"])
@pytest.mark.parametrize("stamped", [False, True])
@pytest.mark.parametrize("room", [0, 10**6])
def test_transaction_read_is_cached(steps: str, stamped: bool, room: int) -> None:
    mine, real = (called_within(item, steps, stamped=stamped, room=room) for item in (ts, theirs))
    assert mine == real


def test_cache_respects_byte_limit() -> None:
    calls = []

    def read(domain: Any, chunk: Any, parameters: Any) -> None:
        calls.append(domain.origin)

    context = ts.Context({"cache_pool": {"total_bytes_limit": 100}})
    layout = ts.ChunkLayout(chunk_shape=[10])
    store = ts.virtual_chunked(
        read, dtype="int32", shape=[40], chunk_layout=layout, context=context
    )
    store.read().result()
    assert len(calls) == 4
    store[20:].read().result()
    assert len(calls) == 4  # the two that fit
    store[:1].read().result()
    assert len(calls) == 5


def test_conflicting_write_is_repeated() -> None:
    stamp = ts.KvStore.TimestampedStorageGeneration
    cached = {"value": [1, 2], "generation": 1}
    seen = []

    requested = []

    def read(domain: Any, chunk: Any, parameters: Any) -> Any:
        requested.append(parameters.if_not_equal)
        chunk[...] = cached["value"]
        return stamp(str(cached["generation"]).encode(), time.time())

    def write(domain: Any, chunk: Any, parameters: Any) -> Any:
        seen.append(parameters.if_equal)
        if len(seen) == 1:
            cached["value"], cached["generation"] = [5, 6], 2  # another writer, in the meantime
            return stamp(b"", time.time())
        cached["value"], cached["generation"] = chunk.tolist(), 3
        return stamp(b"3", time.time())

    store = ts.virtual_chunked(read, write, dtype="int32", shape=[2])
    store[0] = 9
    assert seen == [b"1", b"2"]
    assert requested == [b"", b"1"]  # so that the function need not return an unchanged chunk again
    assert cached["value"] == [9, 6]


def test_unchanged_chunk_is_read_once_more() -> None:
    """Tessarr does not call a function without generations forever."""
    stamp = ts.KvStore.TimestampedStorageGeneration
    seen: list[bytes] = []

    def read(domain: Any, chunk: Any, parameters: Any) -> None:
        chunk[...] = len(seen)

    def write(domain: Any, chunk: Any, parameters: Any) -> Any:
        seen.append(parameters.if_equal)
        return stamp(b"" if parameters.if_equal else b"1", time.time())

    context = ts.Context({"cache_pool": {"total_bytes_limit": 100}})
    store = ts.virtual_chunked(read, write, dtype="int32", shape=[2], context=context)
    store.write(7).result()
    store[0] = 9
    assert seen == [b"", b"1", b"1", b""]


def test_coroutines_run_on_loop() -> None:
    base = ts.array(np.arange(6).reshape(2, 3))

    async def read(domain: Any, chunk: Any, parameters: Any) -> None:
        chunk[...] = await base[domain].read() + 100

    async def write(domain: Any, chunk: Any, parameters: Any) -> None:
        await base[domain].write(chunk - 100)

    async def work() -> Any:
        layout = ts.ChunkLayout(chunk_shape=[1, 2])
        store = ts.virtual_chunked(read, write, dtype=ts.int64, shape=[2, 3], chunk_layout=layout)
        await store[0, 1:].write(7)
        return await store.read()

    assert asyncio.run(work()).tolist() == [[100, 7, 7], [103, 104, 105]]
    store = ts.virtual_chunked(read, dtype=ts.int64, shape=[2, 3])
    with pytest.raises(ValueError, match="event loop"):
        store.read().result()


def test_function_errors_fail_futures() -> None:
    def fail(domain: Any, chunk: Any, parameters: Any) -> None:
        raise KeyError("boom")

    store = ts.virtual_chunked(fail, fail, dtype=ts.int32, shape=[2])
    with pytest.raises(KeyError, match="boom"):
        store.read().result()
    with pytest.raises(KeyError, match="boom"):
        store.write(1).result()
    with pytest.raises(TypeError, match="not 5"):
        ts.virtual_chunked(lambda *_: 5, dtype=ts.int32, shape=[2]).read().result()


def test_partial_write_needs_read_function() -> None:
    written = []

    def write(domain: Any, chunk: Any, parameters: Any) -> None:
        written.append(chunk.tolist())

    layout = ts.ChunkLayout(chunk_shape=[2])
    store = ts.virtual_chunked(None, write, dtype=ts.int32, shape=[4], chunk_layout=layout)
    with pytest.raises(ValueError, match="parts of chunks"):
        store[1:4].write(8).result()
    assert written == []  # TensorStore writes the complete chunks
    store[2:4].write(8).result()
    assert written == [[8, 8]]
    with pytest.raises(ValueError, match="writing only"):
        store.read().result()


def plain_read(domain: Any, chunk: Any, parameters: Any) -> None:
    chunk[...] = domain.origin[0]


def test_pickling() -> None:
    layout = ts.ChunkLayout(chunk_shape=[2])
    store = ts.virtual_chunked(plain_read, dtype="int8", shape=[5], chunk_layout=layout)[1:]
    assert pickle.loads(pickle.dumps(store)).read().result().tolist() == [0, 2, 2, 4]


def test_specs_have_functions() -> None:
    def specs(package: Any) -> Any:
        store = package.virtual_chunked(plain_read, dtype="int8", shape=[5])[1:]
        spec = store.spec()
        wide = package.cast(store, "int16")
        nested = package.stack([wide, package.array([8] * 4, dtype="int16").translate_to[1]])
        return [
            repr(spec),
            repr(store),
            str(spec.domain),
            spec.schema.chunk_layout.to_json(),
            package.open(spec).result().read().result().tolist(),
            package.open(spec[2:4]).result().domain.to_json(),
            package.open(pickle.loads(pickle.dumps(spec))).result().read().result().tolist(),
            pickle.loads(pickle.dumps(nested)).read().result().tolist(),
            outcome(spec.to_json),
            outcome(lambda: spec.url),
            outcome(lambda: package.open(spec, write=True).result()),
            outcome(lambda: spec.update(dtype="int16")),
            outcome(lambda: spec.update(shape=[9])),
            outcome(lambda: package.Spec({"driver": "virtual_chunked", "dtype": "int8"})),
        ]

    assert specs(ts) == specs(theirs)


def test_unfilled_elements_are_zero_or_empty() -> None:
    for name, empty in [("int32", 0), ("ustring", ""), ("string", b""), ("json", None)]:
        store = ts.virtual_chunked(lambda *_: None, dtype=name, shape=[1])
        assert store.read().result().tolist() == [empty]


@pytest.mark.parametrize(
    "acts",
    [
        ["a[0:2].write(1)"],
        ["a[0].write(1)"],
        ["a[0].write(1)", "a[1].write(2)", "a.read()"],
        ["a[0:2].write(1)", "a[2:4].write(2)", "a.read()"],
        ["a[0:4].write(1)", "a[0:2].write(2)"],
        ["a[1:3].write(1).copy", "a.read()"],
        ["a[0:2].write(1)", "b[2:4].write(2)"],
        ["a.read()", "a[4:6].write(1)", "a[6:8].read()"],
    ],
)
def test_atomic_write_of_several_chunks_is_refused(acts: list[str]) -> None:
    """Both packages refuse the write that needs it, and abort the transaction."""

    def describe(package: Any) -> Any:
        written: list[Any] = []

        def write(domain: Any, chunk: Any, parameters: Any) -> None:
            written.append((str(domain), np.array(chunk).tolist()))

        def read(domain: Any, chunk: Any, parameters: Any) -> None:
            chunk[...] = 7

        transaction = package.Transaction(atomic=True)
        layout = package.ChunkLayout(chunk_shape=[2])
        names = {
            name: package.virtual_chunked(
                read, write, dtype=package.int32, shape=[8], chunk_layout=layout
            ).with_transaction(transaction)
            for name in "ab"
        }
        result = [outcome(lambda act=act: eval(act, names).result()) for act in acts]
        result.append(outcome(transaction.commit_sync))
        # TensorStore also writes chunks after mere reads.
        changed = sorted(item for item in written if {1, 2} & set(item[1]))
        seen = [item.tolist() if isinstance(item, np.ndarray) else item for item in result]
        return seen, changed, transaction.aborted

    assert describe(ts) == describe(theirs)
