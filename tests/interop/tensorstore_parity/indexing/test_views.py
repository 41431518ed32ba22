"""Views over handles match TensorStore's: arrays in memory, casts, stacks.

Both packages build handles from the same arrays, index them with the same expressions, and read and
write them. Results or classes of errors must be equal.
"""

from __future__ import annotations

import random
import tracemalloc
from functools import partial
from typing import Any

import numpy as np
import pytest

import tessarr.tensorstore as ts
from interop.tensorstore_parity.random_views import Keys, apply_views, outcome, same, some_view
from sampling import seeds
from tessarr.tensorstore.schema.data_type import NAMES

theirs = pytest.importorskip("tensorstore", reason="the package tensorstore is absent")

# TensorStore converts float8_e8m0fnu by the wrong powers of two: 1.0 becomes 5.4e-20.
NUMBERS = [
    name
    for name in NAMES
    if name not in ("byte", "char", "string", "ustring", "json", "float8_e8m0fnu")
]


@seeds(range(200))
def test_arrays_in_memory(seed: int) -> None:
    keys = Keys(seed)
    shape = [keys.draw.randint(1, 7) for _ in range(keys.draw.randint(1, 3))]
    values = np.arange(np.prod(shape), dtype="i4").reshape(shape)
    mine, other = values.copy(), values.copy()
    actual, expected = ts.array(mine), theirs.array(other)
    acts = some_view(keys, actual)
    item, two = apply_views(actual, ts, acts), apply_views(expected, theirs, acts)
    assert str(item.domain) == str(two.domain)
    assert same(item.read().result(), two.read().result()), acts
    items = -np.arange(item.size, dtype="i4").reshape(item.shape)
    item.write(items).result()
    two.write(items).result()
    assert same(mine, other), acts


# Omitted: text, which is ustring in Tessarr and an error in TensorStore, and bytes, which
# TensorStore reads as empty.
SOURCES: list[Any] = [
    *([1, 2, 3], [1.5], 5, [{"a": 1}], [{"a": 1}, None], None, [True], [1j], [], [[], []]),
    *(np.zeros(2, ">i4"), np.float32(1)),
    *(np.array([300]), np.array([1.5]), np.zeros(2, "?"), [300], [2.5, 1.5]),
]


@pytest.mark.parametrize("name", [None, "int32", "uint8", "float32", "json", "bool"])
@pytest.mark.parametrize("source", SOURCES, ids=repr)
def test_array_sources(source: Any, name: str | None) -> None:
    def built(package: Any) -> Any:
        return outcome(lambda: package.array(source, dtype=name).read().result())

    assert same(built(ts), built(theirs))


@pytest.mark.parametrize("copy", [None, True, False])
@pytest.mark.parametrize("write", [None, True, False])
@pytest.mark.parametrize("source", ["plain", "broadcast", "list"])
def test_copying_and_writing_of_arrays_in_memory(copy: Any, write: Any, source: str) -> None:
    def built(package: Any) -> Any:
        plain = np.arange(3)
        arguments: Any = {
            "plain": plain,
            "broadcast": np.broadcast_to(np.int32(1), (2,)),
            "list": [1, 2],
        }[source]
        store = package.array(arguments, copy=copy, write=write)
        if store.writable:
            store[0] = 7
        return store.mode, plain.tolist()

    assert outcome(lambda: built(ts)) == outcome(lambda: built(theirs))


def test_text_in_memory() -> None:
    assert ts.array(["a", "bcd"]).dtype == ts.ustring
    assert ts.array(["a", "bcd"]).read().result().tolist() == ["a", "bcd"]
    assert ts.array(b"a").read().result() == b"a"
    with pytest.raises(ValueError, match="33"):
        ts.array(np.zeros((1,) * 33))


def values_of(name: str, draw: random.Random) -> np.ndarray[Any, Any]:
    data_type = ts.dtype(name).dtype
    if name == "bool":
        return np.array([True, False, True, True])
    if name.startswith(("int", "uint")):
        bits = int(name.removeprefix("u").removeprefix("int"))
        least = 0 if name[0] == "u" else -(2 ** (bits - 1))
        most = 2**bits - 1 if name[0] == "u" else 2 ** (bits - 1) - 1
        items = [0, 1, least, most, *(draw.randint(least, most) for _ in range(4))]
        return np.array(items, dtype=f"{name[0]}{max(1, bits // 8)}").astype(data_type)
    if name.startswith("complex"):
        return np.array([0, 1.5 + 2j, -3.25 - 1j, 2j, 100], data_type)
    return np.array([0, 1, 0.5, 0.25, 1.75, 2.5, 3.5, -1.5, -2], "f4").astype(data_type)


# C leaves the conversion of numbers outside the range of an integer undefined.
def fits(values: np.ndarray[Any, Any], target: str) -> bool:
    if not target.startswith(("int", "uint")) or values.dtype.kind in "iub":
        return True
    if values.dtype.isbuiltin != 1 and "int" in values.dtype.name:
        return True
    bits = int(target.removeprefix("u").removeprefix("int"))
    real = values.real if values.dtype.kind == "c" else values.astype("f8")
    least = 0 if target[0] == "u" else -(2 ** (bits - 1))
    most = 2**bits - 1 if target[0] == "u" else 2 ** (bits - 1) - 1
    return bool(np.all(np.isfinite(real)) and real.min() >= least and real.max() <= most)


@pytest.mark.parametrize("source", NUMBERS)
@pytest.mark.parametrize("target", [*NUMBERS, "byte", "char", "string", "ustring", "json"])
def test_casts_of_numbers(source: str, target: str) -> None:
    values = values_of(source, random.Random(source + target))
    if not fits(values, target):
        values = values_of(source, random.Random(0))[:2]

    def built(package: Any) -> Any:
        view = package.cast(package.array(values), target)
        return view.mode, outcome(lambda: view.read().result())

    actual, expected = outcome(lambda: built(ts)), outcome(lambda: built(theirs))
    if isinstance(actual, tuple) and isinstance(expected, tuple):
        assert actual[0] == expected[0]
        actual, expected = actual[1], expected[1]
    assert same(actual, expected), (values, actual, expected)


@pytest.mark.parametrize("name", [name for name in NUMBERS if name.startswith("float8")])
def test_numbers_of_8_bits_are_rounded_once(name: str) -> None:
    draw = np.random.default_rng(0)
    kind = ts.dtype(name).dtype
    exact = np.arange(256, dtype="u1").view(kind).astype("f4")
    near = np.concatenate([exact, (exact[1:] + exact[:-1]) / 2])
    bits = near.view("u4")[:, None] + np.array([-1, 0, 1, 1 << 16], "i8")
    values = np.concatenate(
        [bits.astype("u4").reshape(-1), draw.integers(0, 2**32, 20000, "u4")]
    ).view("f4")
    with np.errstate(all="ignore"):
        expected = values.astype(kind)
    assert same(ts.cast(ts.array(values), name).read().result(), expected)
    assert same(ts.cast(ts.array(expected), "float32").read().result(), expected.astype("f4"))


@pytest.mark.parametrize("source", ["float32", "float64", "int64"])
@pytest.mark.parametrize("name", [name for name in NUMBERS if name.endswith("16") and "f" in name])
def test_float16_rounding(name: str, source: str) -> None:
    halves = np.arange(2**16, dtype="u2").view(ts.dtype(name).dtype)
    with np.errstate(all="ignore"):
        halves = halves.astype("f8")
    halves = np.unique(halves[np.isfinite(halves)])
    middle = (halves[1:] + halves[:-1]) / 2
    near = np.concatenate([middle * (1 + by) for by in (0, 2**-40, -(2**-40), 2**-22)])
    values = near[np.abs(near) < 2**62].astype(source)
    if source == "float32":
        draw = np.random.default_rng(0)
        values = np.concatenate([values, draw.integers(0, 2**32, 20000, "u4").view("f4")])
    actual, expected = (
        package.cast(package.array(values), name).read().result() for package in (ts, theirs)
    )
    assert same(actual, expected)


@pytest.mark.parametrize(
    "name", [name for name in NUMBERS if name.startswith(("float4", "float8"))]
)
def test_float64_to_float8_rounding(name: str) -> None:
    kind = ts.dtype(name).dtype
    exact = np.unique(np.arange(256, dtype="u1").view(kind).astype("f8"))
    exact = exact[np.isfinite(exact)]
    middle = (exact[1:] + exact[:-1]) / 2
    values = np.concatenate([exact, *(middle * (1 + by) for by in (0, 2**-40, -(2**-40)))])
    actual, expected = (
        package.cast(package.array(values), name).read().result() for package in (ts, theirs)
    )
    assert same(actual, expected)


def test_cast_writes_in_place() -> None:
    target = np.zeros((1000, 300), "f4")
    view = ts.cast(ts.array(target), ts.uint16)[::2, 100:300].T
    values = np.arange(view.size, dtype="u2").reshape(view.shape)
    tracemalloc.start()
    view.write(values).result()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < values.nbytes / 4
    assert np.array_equal(target[::2, 100:].T, values)
    # The source can be a view of the same elements.
    ts.cast(ts.array(target[1:]), ts.float64).write(target[:-1].astype("f8")).result()
    expected = target.copy()
    ts.cast(ts.array(target[::-1]), ts.float32).write(target).result()
    assert np.array_equal(target, expected[::-1])


@pytest.mark.parametrize("source", NUMBERS)
def test_long_row_cast_equals_element_cast(source: str) -> None:
    draw = random.Random(source)
    values = np.concatenate([values_of(source, draw) for _ in range(300)])[:1200].reshape(3, -1)
    for target in NUMBERS:
        items = values if fits(values, target) else values[:, :2].repeat(100, axis=1)
        wide = np.zeros((items.shape[0], 2 * items.shape[1] + 1), items.dtype)
        wide[:, 1::2] = items
        for result in (items, wide[:, 1::2], items.T, items[::-1, ::-1]):
            actual, expected = (
                outcome(partial(cast_round_trip, package, result, source, target))
                for package in (ts, theirs)
            )
            if isinstance(actual, tuple) and isinstance(expected, tuple):
                assert all(map(same, actual, expected)), target
            else:
                assert same(actual, expected), target


def cast_round_trip(
    package: Any, values: np.ndarray[Any, Any], source: str, target: str
) -> tuple[np.ndarray[Any, Any], ...]:
    """Return cast elements, and those of another array after a write of the cast elements."""
    other = np.ones(values.shape, values.dtype)
    items = package.cast(package.array(values), target).read().result()
    if fits(items, source):
        package.cast(package.array(other), target).write(items).result()
    return items, other


def test_last_of_overlapping_cast_writes_wins() -> None:
    values = np.zeros(3, "f4")
    view = ts.cast(ts.array(values), ts.uint8)
    item = ts.IndexTransform(input_shape=[4], output=[ts.OutputIndexMap(1)])
    view[item].write(np.arange(1, 5, dtype="u1")).result()
    view[[2]].oindex[[0, 0]].write(np.array([8, 9], "u1")).result()
    assert values.tolist() == [0, 4, 9]
    again = np.lib.stride_tricks.sliding_window_view(values, 2, writeable=True)
    ts.cast(ts.array(again), ts.uint8).write(np.array([[1, 2], [3, 4]], "u1")).result()
    assert values.tolist() == [1, 3, 4]


OBJECTS: list[tuple[str, str, list[Any]]] = [
    *[("json", "int32", [value]) for value in [1, 1.0, "1", 1.5, None, 2**40, True, "x", [1]]],
    *[("json", "int4", [value]) for value in [7, 8, -8, -9]],
    *[("json", "bool", [value]) for value in [True, "true", "false", 1, "yes", None]],
    *[("json", "float32", [value]) for value in [1, 2.5, "NaN", "2.5", "x", None, True, [1]]],
    *[("json", name, ["é", "a"]) for name in ("string", "ustring", "json")],
    *[("json", name, [5]) for name in ("string", "ustring", "json", "complex64", "byte")],
    *[("string", name, [b"a", b"12"]) for name in ("string", "ustring", "json", "int32")],
    *[("string", name, [b"\xff"]) for name in ("ustring", "json")],
    *[("ustring", name, ["é", "5"]) for name in ("string", "ustring", "json", "int32", "bool")],
    *[(name, "ustring", [5, 100]) for name in ("int32", "uint64", "int8")],
    ("float32", "ustring", [5, 0.1, 1e30, float("nan"), -float("inf"), 1e-7, -0.0, 123456789]),
    ("float64", "string", [5, 0.1, 1e21, 123456.7, 1e16, 1e-5, 1e-4, 2.0**-1074]),
    ("complex64", "ustring", [1 + 2j, 0.1j]),
    ("bool", "json", [True, False]),
    ("float64", "json", [0.1, float("nan"), 5]),
    ("uint64", "json", [2**64 - 1]),
]


@pytest.mark.parametrize(("source", "target", "values"), OBJECTS)
def test_casts_of_text_and_json(source: str, target: str, values: list[Any]) -> None:
    def built(package: Any) -> Any:
        arguments: Any = values
        if source in ("string", "ustring", "json"):
            arguments = np.empty(len(values), "O")
            arguments[:] = values
        return package.cast(package.array(arguments, dtype=source), target).read().result()

    assert same(outcome(lambda: built(ts)), outcome(lambda: built(theirs)))


@seeds(range(60))
def test_writes_to_casts(seed: int) -> None:
    keys = Keys(seed)
    values = np.arange(24, dtype="u1").reshape(4, 6)
    mine, other = values.copy(), values.copy()
    actual = ts.cast(ts.array(mine), ts.float32)
    expected = theirs.cast(theirs.array(other), theirs.float32)
    acts = some_view(keys, actual)
    item, two = apply_views(actual, ts, acts), apply_views(expected, theirs, acts)
    items = np.linspace(0, 200, item.size, dtype="f4").reshape(item.shape)
    for target in (item, two):
        target.write(items).result()
        target.write(2.75).result() if seed % 3 == 0 else None
    assert same(mine, other), acts
    assert same(item.read().result(), two.read().result())
    assert str(item.base.domain) == str(two.base.domain)
    assert same(item.base.read().result(), two.base.read().result())


def layer(package: Any, draw: random.Random, n: int, rank: int, log: list[Any]) -> Any:
    shape = [draw.randint(1, 4) for _ in range(rank)]
    values = (100 * n + np.arange(np.prod(shape))).astype("i4").reshape(shape)
    log.append(values)
    origin = [draw.randint(-1, 3) for _ in range(rank)]
    labels = ["x" if draw.random() < 0.2 else ""] + [""] * (rank - 1)
    return package.array(values).translate_to[tuple(origin)].label[tuple(labels)]


def layered(package: Any, seed: int) -> tuple[Any, list[np.ndarray[Any, Any]]]:
    draw = random.Random(seed)
    rank = draw.randint(1, 3)
    arrays: list[Any] = []
    layers = [layer(package, draw, n, rank, arrays) for n in range(draw.randint(1, 4))]
    kind = draw.choice(["overlay", "overlay", "concat", "stack"])
    if kind == "overlay":
        return package.overlay(layers), arrays
    if draw.random() < 0.7:  # layers of one shape
        del arrays[:]
        values = [n * 100 + np.arange(2 * 3 ** (rank - 1), dtype="i4") for n in range(len(layers))]
        arrays += [item.reshape([2] + [3] * (rank - 1)) for item in values]
        layers = [package.array(item) for item in arrays]
    axis: Any = draw.randint(-rank - 1, rank)
    if draw.random() < 0.2 and kind == "concat":
        axis = "x"
    return getattr(package, kind)(layers, axis), arrays


@seeds(range(300))
def test_layers(seed: int) -> None:
    actual, expected = outcome(lambda: layered(ts, seed)), outcome(lambda: layered(theirs, seed))
    if isinstance(actual, type) or isinstance(expected, type):
        assert actual is expected
        return
    (item, mine), (two, others) = actual, expected
    assert str(item.domain) == str(two.domain)
    assert item.mode == two.mode
    keys = Keys(seed)
    acts = some_view(keys, item)
    first, second = apply_views(item, ts, acts), apply_views(two, theirs, acts)
    result = [outcome(lambda item=item: item.read().result()) for item in (first, second)]
    assert same(*result), acts
    items = -np.arange(first.size, dtype="i4").reshape(first.shape)
    written = [outcome(lambda item=item: item.write(items).result()) for item in (first, second)]
    assert written[0] is written[1]
    if written[0] is None:
        assert all(same(a, b) for a, b in zip(mine, others, strict=True)), acts


LAYERED: list[str] = [
    "ts.overlay([])",
    "ts.overlay([a(0, 3)], dtype='int64')",
    "ts.overlay([a(0, 3)], dtype='int32')",
    "ts.overlay([a(0, 3)], rank=2)",
    "ts.overlay([a(0, 3), a(2, 5)], shape=[4])",
    "ts.overlay([a(0, 3), a(2, 5)], domain=ts.IndexDomain(shape=[5], labels=['q']))",
    "ts.overlay([a(0, 3), a(2, 5)], domain=ts.IndexDomain(1))",
    "ts.overlay([a(0, 3)], domain=ts.IndexDomain(1, inclusive_min=[-2]))",
    "ts.overlay([a(0, 3)], domain=ts.IndexDomain(1, labels=['x']))",
    "ts.overlay([a(0, 3, 'y')], domain=ts.IndexDomain(1, labels=['x']))",
    "ts.overlay([a(0, 3)], read=True)",
    "ts.overlay([a(0, 3)], write=True)",
    "ts.overlay([a(0, 3)], read=False)",
    "ts.overlay([a(0, 3)], read=True, write=False)",
    "ts.overlay([a(0, 3)], fill_value=3)",
    "ts.overlay([a(0, 3)], schema=ts.Schema(fill_value=3))",
    "ts.overlay([a(0, 3)], schema=ts.Schema(chunk_layout=ts.ChunkLayout(chunk_shape=[2])))",
    "ts.overlay([a(0, 3)], schema=ts.Schema(codec=ts.CodecSpec({'driver': 'zarr3'})))",
    "ts.overlay(5)",
    "ts.overlay([5])",
    "ts.overlay(a(0, 3))",
    "ts.overlay([a(0, 3), ts.array([1.5])])",
    "ts.concat([], 0)",
    "ts.concat([], 0, dtype='int32', rank=1)",
    "ts.concat([a(0, 3)], 1)",
    "ts.concat([a(0, 3)], 1.5)",
    "ts.concat([a(0, 3)], 'x')",
    "ts.concat([a(0, 3, 'x'), a(5, 6)], 'x')",
    "ts.concat([a(0, 3), a(5, 6, 'x')], 'x')",
    "ts.concat([a(0, 3, 'x'), a(5, 6, 'y')], 0)",
    "ts.concat([a(3, 5).mark_bounds_implicit[True], a(5, 6)], 0)",
    "ts.stack([])",
    "ts.stack([a(0, 3)], 'x')",
    "ts.stack([a(0, 3), a(2, 5)], 2)",
    "ts.stack([a(0, 3, 'x'), a(2, 5)], 1)",
]


def test_no_layers() -> None:  # TensorStore crashes
    with pytest.raises(ValueError, match="domain"):
        ts.overlay([], dtype="int32")
    assert ts.overlay([], dtype="int32", shape=[0]).read().result().shape == (0,)
    with pytest.raises(ValueError, match=r"position \(0,\)"):
        ts.overlay([], dtype="int32", shape=[3]).read().result()


@pytest.mark.parametrize("text", LAYERED)
def test_constraints_on_layers(text: str) -> None:
    def built(package: Any) -> Any:
        def a(lower: int, upper: int, label: str = "") -> Any:
            values = np.arange(upper - lower, dtype="i4")
            return package.array(values).translate_to[lower].label[label]

        store = eval(text, {"ts": package, "a": a})
        return (
            str(store.domain),
            store.mode,
            store.dtype.name,
            str(getattr(store, "dimension_units", None)),
        )

    assert outcome(lambda: built(ts)) == outcome(lambda: built(theirs))


@pytest.mark.parametrize("shape", [(3, 0), (0, 3), (3, 0, 2), (0, 0)], ids=str)
@pytest.mark.parametrize("driver", ["array", "zarr3"])
def test_broadcast_source_is_not_copied(driver: str, shape: tuple[int, ...]) -> None:
    def copied(package: Any) -> Any:
        if driver == "array":
            store = package.array(np.zeros(shape, "i4"))
        else:
            spec = {"driver": driver, "kvstore": "memory://"}
            store = package.open(spec, create=True, dtype="int32", shape=shape).result()
        store.write(package.array(np.array(1, "i4"))).result()
        return store.read().result()

    assert copied(ts).shape == copied(theirs).shape == shape
