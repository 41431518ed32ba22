"""Random programs of keys inside and outside a transaction have equal results.

Programs omit steps that TensorStore gets wrong, as the guide lists: see `fits`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, Final, TypeAlias

import pytest

import tessarr.tensorstore as ours

theirs = pytest.importorskip("tensorstore", reason="the package tensorstore is absent")

KEYS: Final = "abc"
MISSING: Final = b"\2"  # the generation of a missing key
Step: TypeAlias = tuple[str, ...]
"""The operation, its keys, and its condition."""

CONDITIONS: Final = ("now", "first", "stale", "missing", "seen")
RANGES: Final = (("a", "b"), ("b", ""), ("", ""))
WRITES: Final = ("write", "delete", "write if", "delete if")
READS: Final = ("read", "read unless")
OTHERS: Final = ("others write", "others delete")


class Keys:
    """Keys, inside and outside a transaction, in one implementation."""

    def __init__(self, ts: Any, known: str, **options: bool) -> None:
        self.ranges = ts.KvStore.KeyRange
        self.outside = ts.KvStore.open("memory://").result()
        self.stale, self.first, self.seen = {}, {}, {}
        self.others: dict[str, bytes | None] = {}
        for key in KEYS:
            self.stale[key] = self.outside.write(key, b"stale").result().generation
            self.change(key, b"0" if key in known else None)
            self.first[key] = self.seen[key] = self.now(key)
        self.transaction = ts.Transaction(**options)
        self.inside = self.outside.with_transaction(self.transaction)

    def now(self, key: str) -> bytes:
        result: bytes = self.outside.read(key).result().stamp.generation
        return result

    def change(self, key: str, value: bytes | None) -> None:
        self.outside.write(key, value).result()
        self.others[key] = value

    def generation(self, key: str, which: str) -> bytes:
        if which == "now":
            return self.now(key)
        if which == "missing":
            return MISSING
        result: bytes = getattr(self, which)[key]
        return result

    def read(self, key: str, **condition: bytes) -> Any:
        result = self.inside.read(key, **condition).result()
        if not condition:
            self.seen[key] = result.stamp.generation
        return result.state, result.value

    def do(self, step: Step, value: bytes) -> Any:
        """Run a step and return its result; writes use `value`."""
        operation, *arguments = step
        if operation == "range":
            return self.inside.delete_range(self.ranges(*arguments)).result()
        if operation == "list":
            return sorted(self.inside.list().result())  # TensorStore has no order for new keys
        data = None if "delete" in operation else value
        if operation in OTHERS:
            return self.change(arguments[0], data)
        condition = self.generation(*arguments) if arguments[1:] else None
        if operation in READS:
            return self.read(
                arguments[0], **{} if condition is None else {"if_not_equal": condition}
            )
        self.inside.write(arguments[0], data, if_equal=condition).result()
        return None

    def values(self) -> dict[str, bytes]:
        return {key.decode(): self.outside[key] for key in self.outside.list().result()}


def describe(ts: Any, known: str, steps: list[Step], **options: bool) -> tuple[list[Any], Keys]:
    """Return the results of all steps and of the commit, and the final keys."""
    keys, result = Keys(ts, known, **options), []
    for number, step in enumerate(steps):
        try:
            result.append(keys.do(step, b"%d" % number))
        except ValueError:
            result.append("an error")
    try:
        keys.transaction.commit_sync()
    except ValueError:
        return [*result, "refused"], keys
    return [*result, "committed", keys.values()], keys


def build(draw: Random) -> tuple[str, list[Step]]:
    """Return the initial keys and the steps."""

    def step() -> Step:
        value = draw.choice([*WRITES, *READS, *READS, *OTHERS, "range", "list"])
        if value == "range":
            return (value, *draw.choice(RANGES))
        if value == "list":
            return (value,)
        condition = [draw.choice(CONDITIONS)] if value.endswith(("if", "unless")) else []
        return (value, draw.choice(KEYS), *condition)

    known = "".join(key for key in KEYS if draw.random() < 0.5)
    return known, [step() for _ in range(draw.randint(1, 7))]


def fits(steps: list[Step], *, atomic: bool, repeatable_read: bool) -> bool:
    """Return whether TensorStore runs the step correctly."""
    written: set[str] = set()
    removed: set[str] = set()
    seen: set[str] = set()  # keys whose generation only Tessarr read
    read: set[str] = set()
    for value, *arguments in steps:
        if value == "list" and repeatable_read:
            return False
        if value == "range":
            first, last = arguments
            removed |= {key for key in KEYS if first <= key and (not last or key < last)}
        if value in OTHERS or not arguments or value == "range":
            continue
        key, *condition = arguments
        if condition == ["seen"] and key in seen:
            return False
        if value in WRITES:
            if condition and key in removed:
                return False
            written.add(key)
        else:
            read.add(key)
            if key in written | removed:
                seen.add(key)
            if repeatable_read and (key in written or (atomic and len(read) > 1)):
                return False
    return True


def programs(count: int, **options: bool) -> Iterator[tuple[str, list[Step]]]:
    draw = Random(5)
    while count:
        known, steps = build(draw)
        if fits(steps, **options):
            yield known, steps
            count -= 1


@pytest.mark.parametrize("atomic", [False, True])
@pytest.mark.parametrize("repeatable_read", [False, True])
def test_random_programs_match_tensorstore(*, atomic: bool, repeatable_read: bool) -> None:
    options = {"atomic": atomic, "repeatable_read": repeatable_read}
    differ = []
    for known, steps in programs(1500, **options):
        mine, keys = describe(ours, known, steps, **options)
        if mine != describe(theirs, known, steps, **options)[0]:
            differ.append((known, steps))
        if mine[-1] == "refused":
            others = {key: value for key, value in keys.others.items() if value is not None}
            assert keys.values() == others, "nothing is changed"
    assert differ == []


READING: Final[dict[str, Callable[[Any], object]]] = {
    "read": lambda store: store.read("a").result(),
    "brackets": lambda store: store["a"],
    "in": lambda store: "a" in store,
}


@pytest.mark.parametrize("ts", [ours, theirs], ids=["ours", "theirs"])
@pytest.mark.parametrize("scheme", READING)
def test_unrepeated_read_aborts_transaction(ts: Any, scheme: str, tmp_path: Path) -> None:
    read = READING[scheme]
    for url in ("memory://", f"file://{tmp_path}/"):
        store = ts.KvStore.open(url).result()
        store["a"] = b"0"
        transaction = ts.Transaction(repeatable_read=True)
        inside = store.with_transaction(transaction)
        inside["b"] = b"1"
        read(inside)
        store["a"] = b"other"
        with pytest.raises(ValueError, match="Generation mismatch"):
            read(inside)
        assert transaction.future.exception(60)  # in TensorStore's files it ends a moment later
        assert (transaction.open, transaction.aborted) == (False, True)
        with pytest.raises(ValueError, match="aborted"):
            read(inside)
        with pytest.raises(ValueError, match="aborted"):
            inside.write("c", b"1").result()
        with pytest.raises(ValueError, match="Generation mismatch"):
            transaction.commit_sync()
        assert store.list().result() == [b"a"]


@pytest.mark.parametrize("ts", [ours, theirs], ids=["ours", "theirs"])
@pytest.mark.parametrize("driver", ["json", "zarr3"])
def test_handle_read_of_changed_key_keeps_transaction_open(
    ts: Any, driver: str, tmp_path: Path
) -> None:
    for url in ("memory://", f"file://{tmp_path}/"):
        if driver == "json":
            location = {"kvstore": f"{url}a.json", "json_pointer": "/a"}
            store = ts.open({"driver": driver, **location}).result()
        else:
            new = {"create": True, "dtype": "int8", "shape": [2]}
            store = ts.open({"driver": driver, "kvstore": url}, **new).result()
        store.write(1).result()
        transaction = ts.Transaction(repeatable_read=True)
        inside = store.with_transaction(transaction)
        inside.read().result()
        store.write(2).result()
        with contextlib.suppress(ValueError):
            inside.read().result()
        assert (transaction.open, transaction.aborted) == (True, False)
        with pytest.raises(ValueError, match="mismatch"):
            transaction.commit_sync()


@pytest.mark.parametrize("scheme", READING)
def test_unrepeated_chunk_aborts_transaction(scheme: str) -> None:
    context = ours.Context()
    spec = {"driver": "zarr3", "kvstore": "memory://"}
    new: dict[str, Any] = {"create": True, "dtype": "int8", "shape": [2], "context": context}
    array = ours.open(spec, **new).result()
    array.write(1).result()
    transaction = ours.Transaction(repeatable_read=True)
    chunks = (array.kvstore / "c/").with_transaction(transaction)
    chunk = {"read": lambda: chunks.read("0").result(), "brackets": lambda: chunks["0"]}
    chunk["in"] = lambda: "0" in chunks
    chunk[scheme]()
    array.with_transaction(transaction)[:1].write(5).result()
    array.write(9).result()
    with pytest.raises(ValueError, match="mismatch"):
        chunk[scheme]()
    assert (transaction.open, transaction.aborted) == (False, True)


def test_unrepeated_copy_aborts_transaction() -> None:
    store = ours.KvStore.open("memory://").result()
    store["a"], store["b"] = b"1", b"2"
    transaction = ours.Transaction(repeatable_read=True)
    inside = store.with_transaction(transaction)
    inside.read("b").result()
    store["b"] = b"other"
    with pytest.raises(ValueError, match="mismatch"):
        inside.experimental_copy_range_to(ours.KvStore.open("memory://").result()).result()
    assert (transaction.open, transaction.aborted) == (False, True)
