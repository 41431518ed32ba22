"""Scenarios of transactions, and the stored result, match TensorStore.

Each scenario returns its reads; errors compare by whether they are a `ValueError`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr.tensorstore as ours

theirs = pytest.importorskip("tensorstore", reason="compared with TensorStore's own transactions")


class Side:
    """One implementation, with its own store."""

    def __init__(self, ts: Any, kvstore: dict[str, str], driver: str) -> None:
        self.ts = ts
        self.place = kvstore
        self.driver = driver
        self.context = ts.Context()

    def open(self, **options: Any) -> Any:
        spec = {"driver": self.driver, "kvstore": self.place}
        return self.ts.open(spec, context=self.context, **options).result()

    def create(self, size: int = 8, **options: Any) -> Any:
        chunks = self.ts.ChunkLayout(chunk_shape=[4])
        options = {"dtype": self.ts.int32, "shape": [size], "chunk_layout": chunks, **options}
        return self.open(create=True, fill_value=0, **options)

    def filled(self, size: int = 8, value: int = 1) -> Any:
        built = self.create(size)
        built[...] = value
        return built

    def stored(self) -> list[bytes]:
        return sorted(self.kvstore().list().result())

    def kvstore(self) -> Any:
        return self.ts.KvStore.open(self.place, context=self.context).result()

    def tried(self, act: Callable[[], Any]) -> Any:
        """Return the result of `act`, or the fact that it raises an error."""
        try:
            return act()
        except ValueError:
            return "refused"


def values(handle: Any) -> list[int]:
    return handle.read().result().tolist()


def create_array(side: Side) -> Any:
    txn = side.ts.Transaction()
    built = side.create(transaction=txn)
    built[...] = 5
    result = [side.tried(side.open), side.stored(), values(built)]
    result.append(values(side.open(transaction=txn)))
    txn.commit_sync()
    return [*result, values(side.open()), values(built.with_transaction(None)), side.stored()]


def created_by_two(side: Side) -> Any:
    txn = side.ts.Transaction()
    side.create(transaction=txn)[...] = 5
    side.create()[...] = 6
    return side.tried(txn.commit_sync)  # files also store TensorStore's chunks


def created_in_vain(side: Side) -> Any:
    txn = side.ts.Transaction()
    side.create(transaction=txn)[...] = 5
    txn.abort()
    return side.stored()


def replaced(side: Side) -> Any:
    old = side.filled(value=3)
    txn = side.ts.Transaction()
    new = side.open(
        create=True, delete_existing=True, dtype=side.ts.float64, shape=[3], transaction=txn
    )
    result = [values(old), values(new)]
    new[1] = 1.5
    txn.commit_sync()
    again = side.open()
    return [*result, again.dtype.name, values(again), side.stored()]


def grown(side: Side) -> Any:
    built = side.filled()
    txn = side.ts.Transaction()
    inside = built.with_transaction(txn)
    longer = inside.resize(exclusive_max=[12]).result()
    longer[8:12] = 7
    result = [str(item.domain) for item in (longer, inside, inside.resolve().result(), built)]
    result += [str(built.resolve().result().domain), values(longer)]
    txn.commit_sync()
    return [*result, values(built.resolve().result()), str(longer.domain)]


def resized_in_vain(side: Side) -> Any:
    built = side.filled()
    txn = side.ts.Transaction()
    longer = built.with_transaction(txn).resize(exclusive_max=[13]).result()
    result = values(longer)
    txn.abort()
    return [result, values(built.resolve().result()), side.stored()]


def resized_by_two(side: Side) -> Any:
    built = side.filled()
    txn = side.ts.Transaction()
    built.with_transaction(txn).resize(exclusive_max=[12]).result()
    built.resize(exclusive_max=[20]).result()
    txn.commit_sync()
    return str(side.open().domain)


def resized_along_two_axes(side: Side) -> Any:
    built = side.create(shape=[4, 4], chunk_layout=None)
    txn = side.ts.Transaction()
    built.with_transaction(txn).resize(exclusive_max=[6, None]).result()
    built.resize(exclusive_max=[None, 9]).result()
    txn.commit_sync()
    return str(side.open().domain)


def keys_of_staged_chunks(side: Side) -> Any:
    built = side.filled()
    inside = built.with_transaction(side.ts.Transaction())
    inside[0:4] = 9
    kvstore = inside.kvstore
    (key,) = [key for key in side.stored() if key in (b"c/0", b"0")]
    now, before = (store.read(key).result().value for store in (kvstore, built.kvstore))
    return [now == before, len(now) == len(before), sorted(kvstore.list().result())]


def statistics(side: Side) -> Any:
    built = side.create()
    inside = built.with_transaction(side.ts.Transaction())
    inside[0] = 3
    both = {"query_not_stored": True, "query_fully_stored": True}
    result = [item.storage_statistics(**both).result() for item in (inside, inside[:4], built)]
    return [(item.not_stored, item.fully_stored) for item in result]


def read_again(side: Side) -> Any:
    built = side.filled()
    txn = side.ts.Transaction(repeatable_read=True)
    inside = built.with_transaction(txn)
    result = values(inside[0:2])
    inside[5] = 8
    built[1] = 4
    return [result, side.tried(lambda: values(inside[0:2])), side.tried(txn.commit_sync)]


def written_only(side: Side) -> Any:
    built = side.filled()
    with side.ts.Transaction(repeatable_read=True) as txn:
        built.with_transaction(txn)[1] = 8
        built[2] = 4
    return values(built)


def fill_is_written(side: Side) -> Any:
    built = side.filled()
    with side.ts.Transaction() as txn:
        built.with_transaction(txn)[0:4] = 0
    return side.stored()


def others_write_to_the_chunk(side: Side) -> Any:
    built = side.filled()
    txn = side.ts.Transaction()
    inside = built.with_transaction(txn)
    inside[1:3] = 8
    built[2:4] = 5
    result = values(inside)
    txn.commit_sync()
    return [result, values(built)]


SCENARIOS = [
    create_array,
    created_by_two,
    created_in_vain,
    replaced,
    grown,
    resized_in_vain,
    resized_by_two,
    resized_along_two_axes,
    keys_of_staged_chunks,
    statistics,
    read_again,
    written_only,
    fill_is_written,
    others_write_to_the_chunk,
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
@pytest.mark.parametrize("driver", ["zarr3", "zarr"])
@pytest.mark.parametrize("location", ["file", "memory"])
def test_scenarios_match_tensorstore(
    scenario: Callable[[Side], Any], driver: str, location: str, tmp_path: Path
) -> None:
    result = []
    for name, ts in (("ours", ours), ("theirs", theirs)):
        where = f"{tmp_path}/{name}/" if location == "file" else f"{name}/"
        result.append(scenario(Side(ts, {"driver": location, "path": where}, driver)))
    assert result[0] == result[1]


def documents(ts: Any) -> Any:
    """Write two members of a document, while another writer adds a third member."""
    context = ts.Context()
    kvstore = {"driver": "memory", "path": "a.json"}
    document = ts.KvStore.open(kvstore, context=context).result()
    document[b""] = b'{"a":1}'
    txn = ts.Transaction()
    inside = []
    for name in "ab":
        spec = {"driver": "json", "kvstore": kvstore, "json_pointer": f"/{name}"}
        inside.append(ts.open(spec, context=context).result().with_transaction(txn))
        inside[-1].write(5).result()
    result = [document[b""], *map(values, inside), document.with_transaction(txn)[b""]]
    document[b""] = b'{"a":1,"c":3}'
    txn.commit_sync()
    return [*result, document[b""]]


def test_values_in_documents() -> None:
    assert documents(ours) == documents(theirs)


def chunks_of_functions(ts: Any) -> Any:
    """Write chunks with functions at commit, which reads partly written chunks first.

    A read returns the written content, because TensorStore may cache either.
    """
    elements = np.ones(12, np.int32)
    calls: list[str] = []

    def read(domain: Any, chunk: Any, parameters: Any) -> None:
        chunk[...] = elements[domain.index_exp]

    def write(domain: Any, chunk: Any, parameters: Any) -> None:
        elements[domain.index_exp] = chunk
        calls.append(f"write {domain} {chunk.tolist()}")

    def describe() -> list[str]:
        result = sorted(calls)
        calls.clear()
        return result

    def written_only() -> Any:
        return ts.virtual_chunked(None, write, dtype=ts.int32, **chunks)

    chunks = {"shape": [12], "chunk_layout": ts.ChunkLayout(chunk_shape=[4])}
    handle = ts.virtual_chunked(read, write, dtype=ts.int32, **chunks)
    result = []
    for looked_at in (True, False):
        txn = ts.Transaction()
        inside = handle.with_transaction(txn)
        inside[1] = 5
        inside[2:6] = 6
        inside[8:12] = 7
        result += [describe(), *map(values, (inside, handle) if looked_at else ())]
        txn.commit_sync()
        result += [describe()]
    txn = ts.Transaction(atomic=True)
    handle.with_transaction(txn)[2] = 3
    txn.commit_sync()
    result += [describe()]
    txn = ts.Transaction(atomic=True)

    def both() -> None:  # TensorStore refuses the write, and not the commit
        handle.with_transaction(txn)[...] = 3
        txn.commit_sync()

    result += [refused(both), describe()]
    txn = ts.Transaction()
    handle.with_transaction(txn)[...] = 3
    txn.abort()
    only = written_only()
    with ts.Transaction() as txn:
        only.with_transaction(txn)[0:3] = 5
        only.with_transaction(txn)[3] = 6
    result += [describe()]
    txn = ts.Transaction()
    written_only().with_transaction(txn)[0:3] = 5
    return [*result, refused(txn.commit_sync)]


def refused(act: Callable[[], Any]) -> bool:
    try:
        act()
    except ValueError:
        return True
    return False


def test_chunks_of_functions() -> None:
    assert chunks_of_functions(ours) == chunks_of_functions(theirs)


def test_partly_written_chunks_are_read_once() -> None:
    calls = []

    def read(domain: Any, chunk: Any, parameters: Any) -> None:
        calls.append(str(domain))
        chunk[...] = 1

    handle = ours.virtual_chunked(
        read,
        lambda *_: None,
        dtype=ours.int32,
        shape=[12],
        chunk_layout=ours.ChunkLayout(chunk_shape=[4]),
    )
    with ours.Transaction() as txn:
        inside = handle.with_transaction(txn)
        inside[1] = 5
        inside[2:6] = 6
        inside[8:12] = 7
        assert not calls
    assert sorted(calls) == ["{ [0, 4) }", "{ [4, 8) }"]


def test_deleted_keys_are_deleted_in_order(tmp_path: Path) -> None:
    """TensorStore restores the deleted key at commit."""
    for kvstore in ({"driver": "file", "path": f"{tmp_path}/"}, {"driver": "memory"}):
        built = Side(ours, kvstore, "zarr3").filled()
        with ours.Transaction() as txn:
            inside = built.with_transaction(txn)
            inside[0:2] = 9
            inside.kvstore.delete_range(ours.KvStore.KeyRange(b"c", b"d")).result()
            assert values(inside) == [0] * 8
            inside[5] = 8
            assert values(inside) == [0, 0, 0, 0, 0, 8, 0, 0]
            assert values(built) == [1] * 8
        assert values(built) == [0, 0, 0, 0, 0, 8, 0, 0]


def test_shrinking() -> None:
    """TensorStore hangs if a transaction shrinks an array."""
    side = Side(ours, {"driver": "memory"}, "zarr3")
    built = side.filled(12)
    with ours.Transaction() as txn:
        built.with_transaction(txn).resize(exclusive_max=[5]).result()
        assert side.stored() == [b"c/0", b"c/1", b"c/2", b"zarr.json"]
    assert values(built.resolve().result()) == [1] * 5
    assert side.stored() == [b"c/0", b"c/1", b"zarr.json"]


def test_shrunk_and_grown_again() -> None:
    built = Side(ours, {"driver": "memory"}, "zarr3").filled(12, 3)
    txn = ours.Transaction()
    inside = built.with_transaction(txn)
    inside[...] = 4
    again = inside.resize(exclusive_max=[5]).result().resize(exclusive_max=[12]).result()
    # The other elements of the chunk are unchanged, as without a transaction.
    expected = [4] * 8 + [0] * 4
    assert values(again) == expected
    assert values(built) == [3] * 12
    txn.commit_sync()
    assert values(built.resolve().result()) == expected
    with ours.Transaction() as txn:
        inside = built.with_transaction(txn)
        inside.resize(exclusive_max=[3]).result()
        with pytest.raises(ValueError, match="outside"):
            inside[5] = 9


def test_single_chunk_is_atomic_on_every_store(tmp_path: Path) -> None:
    """TensorStore refuses it on files: its metadata read counts as a participant."""
    built = Side(ours, {"driver": "file", "path": f"{tmp_path}/"}, "zarr3").filled()
    with ours.Transaction(atomic=True) as txn:
        built.with_transaction(txn)[0] = 2
    assert values(built) == [2, 1, 1, 1, 1, 1, 1, 1]
    txn = ours.Transaction(atomic=True)
    built.with_transaction(txn)[...] = 3
    with pytest.raises(ValueError, match="single atomic"):
        txn.commit_sync()
    assert values(built) == [2, 1, 1, 1, 1, 1, 1, 1]


RANGES = [("b", "z"), ("b", ""), ("b/", "b0"), ("", ""), ("b1", "b3"), ("b2", "b2")]


@pytest.mark.parametrize("location", ["memory", "folder"])
@pytest.mark.parametrize("ends", RANGES)
@pytest.mark.parametrize("repeatable", [False, True])
def test_delete_range_covers_keys_at_commit(
    ends: tuple[str, str], location: str, *, repeatable: bool, tmp_path: Path
) -> None:
    """Other writers' new keys and later writes of the transaction stay.

    In files, TensorStore's deletion removes its own pending writes.
    """

    def describe(package: Any, url: str) -> Any:
        store = package.KvStore.open(url).result()
        for key in ("a", "b1", "b2", "c/d"):
            store[key] = key
        transaction = package.Transaction(repeatable_read=repeatable)
        inside = store.with_transaction(transaction)
        inside["b3"] = inside["c/e"] = b"before"
        inside.delete_range(package.KvStore.KeyRange(*ends)).result()
        # With `repeatable_read`, TensorStore stores no value after a write and then a read.
        seen = [] if repeatable else ["b1" in inside, "b3" in inside, "c/e" in inside]
        inside["b2"] = b"after"
        store["b11"] = store["b5"] = store["c/f"] = b"others"
        transaction.commit_sync()
        return seen, {key: store[key] for key in sorted(store.list().result())}

    url = "memory://" if location == "memory" else f"file://{tmp_path}/"
    assert describe(ours, url) == describe(theirs, "memory://")


@pytest.mark.parametrize("atomic", [False, True])
def test_read_key_deleted_in_range_is_compared(*, atomic: bool) -> None:
    for package in (ours, theirs):
        store = package.KvStore.open("memory://").result()
        store["a"] = store["b"] = b"1"
        transaction = package.Transaction(atomic=atomic, repeatable_read=True)
        inside = store.with_transaction(transaction)
        assert inside["a"] == b"1"
        inside.delete_range(package.KvStore.KeyRange("a", "c")).result()
        store["a"] = b"2"
        with pytest.raises(ValueError, match="Generation mismatch"):
            transaction.commit_sync()
        assert store["a"] == b"2"


LAYOUTS: list[dict[str, Any]] = [
    {"chunk_shape": [4]},
    {"write_chunk_shape": [4], "read_chunk_shape": [2]},
]


class Looking:
    """An array that a transaction writes and reads, and that other writers change."""

    def __init__(self, ts: Any, layout: dict[str, Any], codecs: list[Any]) -> None:
        options = {"dtype": ts.int32, "shape": [8], "chunk_layout": ts.ChunkLayout(**layout)}
        if codecs:
            options["codec"] = ts.CodecSpec({"driver": "zarr3", "codecs": codecs})
        self.outside = ts.open(FORMAT_3, create=True, **options).result()
        self.outside[...] = range(8)
        self.stored = self.outside.kvstore["c/0"]
        self.transaction = ts.Transaction()
        self.inside = self.outside.with_transaction(self.transaction)
        self.chunk = ts.KvStore.KeyRange("c/0", "c/1")

    def act(self, letter: str) -> Any:
        inside = self.inside
        if letter == "d":
            return inside.kvstore.delete_range(self.chunk).result()
        if letter == "x":
            return inside.kvstore.write("c/0", None).result().generation == b""
        if letter == "p":
            return inside.kvstore.write("c/0", self.stored).result().generation == b""
        if letter == "e":
            known = inside.kvstore.read("c/0").result().stamp.generation
            return (
                inside.kvstore.write("c/0", self.stored, if_equal=known).result().generation == b""
            )
        if letter == "w":
            return inside[0].write(100).result()
        if letter == "W":
            return inside[2:5].write(7).result()
        if letter == "z":
            return inside[:4].write(0).result()
        if letter == "o":
            return self.outside[1].write(55).result()
        if letter == "r":
            return values(inside)
        if letter == "l":
            return sorted(inside.kvstore.list().result())
        if letter == "k":
            return inside.kvstore.read("c/0").result().state
        result = inside.storage_statistics(query_not_stored=True, query_fully_stored=True).result()
        return result.not_stored, result.fully_stored

    def result(self, acts: tuple[str, ...]) -> Any:
        result: list[Any] = [self.act(letter) for letter in acts]
        try:
            result.append(self.transaction.commit_async().result())
        except ValueError:
            result.append("a conflict")
        return result, values(self.outside), sorted(self.outside.kvstore.list().result())


FORMAT_3 = {"driver": "zarr3", "kvstore": "memory://a/"}


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("codecs", [[], [{"name": "gzip"}]], ids=str)
def test_key_reads_keep_staged_elements(layout: Any, codecs: list[Any]) -> None:
    """Other writers' concurrent changes stay, as without the read."""
    for acts in product("wWzorlks", repeat=3):
        item, other = (Looking(ts, layout, codecs).result(acts) for ts in (ours, theirs))
        assert item == other, acts


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("letters", ["wWodp", "wWoxpe"])
def test_key_writes_replace_staged_elements(letters: str, layout: Any) -> None:
    """Another writer's chunk matters only for conditional writes."""
    for acts in product(letters, repeat=3):
        item, other = (Looking(ts, layout, []).result(acts) for ts in (ours, theirs))
        assert item == other, acts


def test_key_copy_keeps_other_staged_chunks() -> None:
    """TensorStore copies no keys in memory."""
    looking = Looking(ours, {"chunk_shape": [2]}, [])
    looking.inside[...] = 7
    source = ours.KvStore.open("memory://c/").result()
    source["1"] = looking.stored
    target = looking.inside.kvstore.copy()
    target.path += "c/"
    source.experimental_copy_range_to(target).result()
    looking.transaction.commit_sync()
    assert values(looking.outside) == [7, 7, 0, 1, 7, 7, 7, 7]


def test_generation_of_staged_value_is_stable() -> None:
    looking = Looking(ours, {"chunk_shape": [4]}, [])
    looking.act("w")
    staged = looking.inside.kvstore
    known = staged.read("c/0").result().stamp.generation
    assert staged.read("c/0", if_not_equal=known).result().state == "unspecified"
    looking.act("W")
    assert staged.read("c/0", if_not_equal=known).result().state == "value"


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_element_read_does_not_restore_deleted_key(layout: Any) -> None:
    """In TensorStore the key exists again, until the commit."""
    looking = Looking(ours, layout, [])
    looking.act("x")
    before = looking.act("l")
    looking.act("r")
    assert looking.act("l") == before == [b"c/1", b"zarr.json"]
    assert looking.act("s") == (False, False)


@pytest.mark.parametrize("package", [ours, theirs])
@pytest.mark.parametrize("half", ["copy", "commit"])
def test_cancelled_write_commits_all_elements(package: Any, half: str) -> None:
    options = {"dtype": package.int8, "shape": [20_000]}
    chunks = package.ChunkLayout(chunk_shape=[1])
    built = package.open(FORMAT_3, create=True, chunk_layout=chunks, **options).result()
    with package.Transaction() as transaction:
        writing = built.with_transaction(transaction).write(1)
        getattr(writing, half).cancel()
    assert built.read().result().all()


def test_write_cancelled_before_start_is_committed() -> None:
    """TensorStore commits the elements of the other store that it has already read."""
    store = ours.KvStore.open("memory://").result()
    built = ours.open(FORMAT_3, create=True, dtype=ours.int8, shape=[100]).result()
    values = ours.open(FORMAT_3, create=True, dtype=ours.int8, shape=[100]).result()
    values[...] = 3
    with ours.Transaction() as transaction:
        built.with_transaction(transaction).write(values).cancel()
        store.with_transaction(transaction).write("a", b"1").cancel()
    assert built.read().result().tolist() == [3] * 100
    assert store["a"] == b"1"


@pytest.mark.parametrize("format_name", ["zarr", "zarr3"])
@pytest.mark.parametrize("others", [6, 7, 9])
def test_grown_several_times(format_name: str, others: int) -> None:
    """A growth in a transaction applies to the other writer's shape."""

    def describe(package: Any) -> Any:
        spec = {"driver": format_name, "kvstore": "memory://"}
        layout = package.ChunkLayout(chunk_shape=[4])
        options = {"dtype": package.int32, "shape": [6], "chunk_layout": layout}
        built = package.open(spec, create=True, **options).result()
        with package.Transaction() as transaction:
            inside = built.with_transaction(transaction)
            for size in (9, 12):
                inside = inside.resize(exclusive_max=[size], expand_only=True).result()
            inside[8:11] = 3
            before = values(inside)
            built.resize(exclusive_max=[others]).result()
            inside[0] = 4
            result = before, values(inside), inside.resolve().result().shape
        return result, values(built.resolve().result())

    assert describe(ours) == describe(theirs)


@pytest.mark.parametrize("format_name", ["zarr", "zarr3"])
@pytest.mark.parametrize("repeatable", [False, True])
def test_concurrent_resize_during_use(format_name: str, *, repeatable: bool) -> None:
    def describe(package: Any) -> Any:
        spec = {"driver": format_name, "kvstore": "memory://"}
        layout = package.ChunkLayout(chunk_shape=[4])
        options = {"dtype": package.int32, "shape": [6], "chunk_layout": layout}
        built = package.open(spec, create=True, **options).result()
        transaction = package.Transaction(repeatable_read=repeatable)
        inside = built.with_transaction(transaction)
        inside[0] = 1
        built.resize(exclusive_max=[10]).result()
        inside.write(8).result()
        result = values(inside), inside.domain.shape, inside.resolve().result().shape
        transaction.commit_sync()
        return result, values(built.resolve().result())

    assert describe(ours) == describe(theirs)
