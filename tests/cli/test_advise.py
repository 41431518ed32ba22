"""``tessarr advise``: correct measurements and better recommendations."""

from __future__ import annotations

import json
import shlex
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tessarr
from tessarr.cli import advise_measure
from tessarr.cli.advise_layouts import Access, Layout, suggest_chunk_shapes, suggest_shard_shape
from tessarr.cli.advise_measure import Link, measure_layout, take_sample
from tessarr.store import LocalStore
from tessarr.store.wrappers.instrumented import CountingStore

if TYPE_CHECKING:
    from cli.conftest import Run

LINK_OPTIONS = ("--latency", "20", "--bandwidth", "50M")
LINK = Link(0.01, 1e6, 4)


def field(*shape: int) -> Any:
    values = sum(np.sin(np.arange(n) / 9).reshape(-1, *[1] * i) for i, n in enumerate(shape[::-1]))
    return np.round(values + np.random.default_rng(0).normal(0, 0.01, shape), 2).astype("f4")


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make each timed action take a millisecond, so that results do not depend on the machine."""
    monkeypatch.setattr(advise_measure, "perf_counter", map((0.001).__mul__, count()).__next__)


@pytest.fixture
def data(here: Path) -> Path:
    tessarr.create_group("data.zarr").create_array(
        "cube", data=field(60, 32, 32), chunks=(1, 32, 32)
    )
    return here


def advised(run: Run, *arguments: Any) -> Any:
    code, out, err = run("advise", *arguments, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


def test_advise_prints_table_and_command(data: Path, run: Run) -> None:
    """The table has the best layout first and includes the current one; a command follows."""
    code, out, err = run(
        "advise", "data.zarr/cube", "--read", "[:, 5, 5]", "--sample", "64K", *LINK_OPTIONS
    )
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "Array(/cube, (60, 32, 32), float32, chunks=(1, 32, 32), order=C)"
    assert "read 1: [:, 5, 5]" in lines
    assert sum(line.startswith("now  1,32,32 ") for line in lines) == 1
    assert lines[-1].startswith("    tessarr copy data.zarr/cube NEW --chunks ")
    assert "instead of" in lines[-3]


def test_advise_recommends_better_layout(data: Path, run: Run) -> None:
    """For column reads of an array of planes, the advice needs far fewer requests and bytes."""
    advice = advised(
        run, "data.zarr/cube", "--read", "[:, 5, 5]", "--sample", "256K", *LINK_OPTIONS
    )
    (now,) = (layout for layout in advice["layouts"] if layout["current"])
    best = advice["layouts"][0]
    assert now["chunks"] == [1, 32, 32]
    assert (now["reads"][0]["requests"], now["objects"]) == (60, 60)
    assert best["reads"][0]["requests"] < 10
    assert best["reads"][0]["seconds"] < now["reads"][0]["seconds"] / 5
    assert advice["reads"] == ["[:, 5, 5]"]
    assert f"--chunks {','.join(map(str, best['chunks']))}" in advice["command"]


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_advised_command_creates_layout(here: Path, run: Run, zarr_format: Any) -> None:
    """The copy has the measured chunks, shards and codecs, and equal values."""
    tessarr.create_array("a b", data=field(40, 32, 32), chunks=(40, 8, 8), zarr_format=zarr_format)
    advice = advised(
        run, "a b", "--read", "[0]", "--target", "b", *LINK_OPTIONS, "--prefer", "size"
    )
    best = advice["layouts"][0]
    assert run(*shlex.split(advice["command"])[1:])[0] == 0
    b = tessarr.open_array("b")
    assert list(b.chunks) == best["chunks"]
    assert (list(b.shards) if b.shards else None) == best["shards"]
    assert [codec.to_json(zarr_format) for codec in b.compressors] == best["compressors"]
    assert run("diff", "a b", "b", "--ignore", "storage")[0] == 0


def test_advise_default_reads_are_planes(data: Path, run: Run) -> None:
    """The default reads are one plane across each axis."""
    advice = advised(run, "data.zarr/cube", "--sample", "64K")
    assert advice["reads"] == ["[0, :, :]", "[:, 0, :]", "[:, :, 0]"]
    tessarr.create_array("line", data=np.arange(5000))
    assert advised(run, "line")["reads"] == ["[:]", "[:1000]"]


def test_advise_sample_size_is_bounded(data: Path) -> None:
    """The sample never exceeds the limit; a small array is its own sample."""
    a = tessarr.open_array("data.zarr/cube")
    assert 0.4 * 65536 <= take_sample(a, 65536).values.nbytes <= 65536
    whole = take_sample(a, 1 << 20)
    assert (whole.starts, whole.values.shape) == ((0, 0, 0), (60, 32, 32))
    assert take_sample(a, 1).values.shape == (1, 1, 1)


@pytest.mark.parametrize("settings", [{}, {"shards": (32, 64, 64)}, {"zarr_format": 2}])
@pytest.mark.parametrize("text", ["0, :, :", ":, 5, 5", "10:30, ::2, 60"])
def test_advise_measures_stored_bytes(here: Path, settings: dict[str, Any], text: str) -> None:
    """With the whole array as sample, the numbers equal those of the real store."""
    data = field(64, 64, 64)
    store = CountingStore(LocalStore("a"))
    a = tessarr.create_array(store, data=data, chunks=(8, 16, 32), **settings)
    sample = take_sample(a, data.nbytes)
    key: Any = tuple(
        slice(*(int(n) if n else None for n in part.split(":")))
        if ":" in part
        else slice(int(part), int(part) + 1)
        for part in text.split(", ")
    )
    access = Access(text, tuple(range(64)[part] for part in key))
    layout = Layout((8, 16, 32), settings.get("shards"), tuple(a.compressors))
    measured = measure_layout(sample, layout, [access], LINK)
    before = store.counts()
    tessarr.open_array(store)[key]
    after = store.counts()
    (cost,) = measured.reads
    opened = 1 if settings.get("zarr_format") != 2 else 2  # the metadata documents
    assert cost.requests == pytest.approx(after["reads"] - before["reads"] - opened, abs=2)
    assert cost.size_bytes == pytest.approx(after["read_bytes"] - before["read_bytes"], rel=0.2)
    assert measured.stored_bytes == pytest.approx(a.nbytes_stored, rel=0.05)
    whole = settings.get("shards") or (8, 16, 32)
    assert measured.objects == 64**3 // np.prod(whole)
    waited = LINK.seconds(cost.requests, cost.size_bytes)
    assert cost.seconds == pytest.approx(cost.decoding_s + waited)


def test_advise_extrapolates_from_sample(here: Path) -> None:
    """The estimate from an eighth of the data matches the whole array."""
    data = field(64, 64, 64)
    a = tessarr.create_array("a", data=data, chunks=(16, 16, 16))
    access = Access("", (range(64), range(5, 6), range(5, 6)))
    layout = Layout((8, 16, 16), None, tuple(a.compressors))
    part, whole = (
        measure_layout(take_sample(a, size), layout, [access], LINK)
        for size in (data.nbytes // 8, data.nbytes)
    )
    assert part.objects == whole.objects
    assert part.stored_bytes == pytest.approx(whole.stored_bytes, rel=0.2)
    assert part.reads[0].requests == whole.reads[0].requests == 8
    assert part.reads[0].size_bytes == pytest.approx(whole.reads[0].size_bytes, rel=0.3)


def test_advise_samples_stored_chunks(here: Path, run: Run) -> None:
    """The sample of a mostly empty array consists of stored chunks."""
    a = tessarr.create_array("a", shape=(1 << 30,), chunks=(1 << 12,), dtype="f8")
    a[5 << 20 : (5 << 20) + 8192] = np.random.default_rng(0).random(8192)
    sample = take_sample(a, 1 << 15)
    assert sample.starts[0] in range(5 << 20, (5 << 20) + 8192)
    assert sample.values.all()
    assert sample.share == pytest.approx(2 / (1 << 18))
    advice = advised(run, "a", "--read", "[0:1000]", "--sample", "32K")
    (now,) = (layout for layout in advice["layouts"] if layout["current"])
    assert now["objects"] == 2
    assert now["stored_bytes"] < 200_000


@pytest.mark.parametrize(
    ("dtype", "zarr_format"), [("i2", 2), ("c8", 3), ([("x", "i4"), ("y", "f4")], 3)]
)
def test_other_data_types(here: Path, run: Run, dtype: Any, zarr_format: Any) -> None:
    """Measurements omit settings that format 2 lacks."""
    tessarr.create_array("a", data=np.ones((90, 90), dtype), zarr_format=zarr_format)
    advice = advised(run, "a")
    shards = {layout["shards"] is None for layout in advice["layouts"]}
    assert shards == {True} if zarr_format == 2 else True in shards
    assert {"id", "name"} & set(advice["layouts"][0]["compressors"][0]) == {
        "id" if zarr_format == 2 else "name"
    }


def test_text(here: Path, run: Run) -> None:
    """Elements have variable length."""
    words = np.array([f"word {i}" for i in range(3000)], object)
    tessarr.create_array("a", data=words, dtype=str, chunks=100)
    assert advised(run, "a")["layouts"][0]["stored_bytes"] > 1000


def test_advise_keeps_filters(here: Path) -> None:
    """The measured codecs decode to equal values."""
    filters = [{"id": "fixedscaleoffset", "offset": 0, "scale": 10, "dtype": "<f4", "astype": "i2"}]
    a = tessarr.create_array("a", data=field(40, 40), filters=filters, zarr_format=2)
    layout = Layout((20, 20), None, tuple(a.compressors))
    access = Access("", (range(40), range(40)))
    measured = measure_layout(take_sample(a, 1 << 20), layout, [access], LINK)
    assert measured.stored_bytes < 40 * 40 * 4


def test_preferences(data: Path, run: Run) -> None:
    """A preference for size leads to a smaller array than a preference for write speed."""
    best = {
        preference: advised(run, "data.zarr/cube", "--sample", "64K", "--prefer", preference)[
            "layouts"
        ][0]
        for preference in ("size", "writing")
    }
    assert best["size"]["stored_bytes"] < best["writing"]["stored_bytes"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--read", "[0, 0, 0, 0]"], 1, "too many indices"),
        (["--read", "[[1, 2]]"], 1, "only integers, slices"),
        (["--read", "[60]"], 1, "index 60 is out of bounds for axis 0"),
        (["--read", "x"], 1, "is not understood"),
        (["--read", "[5:5]"], 1, "selects nothing"),
        (["--sample", "x"], 2, "is not a size"),
        (["--sample", "0"], 2, "is not a size"),
    ],
)
def test_advise_invalid_selection_raises(
    data: Path, run: Run, arguments: list[str], code: int, words: str
) -> None:
    """The error precedes all measurements."""
    status, out, err = run("advise", "data.zarr/cube", *arguments)
    assert (status, out) == (code, "")
    assert words in err


def test_advise_unsuitable_array_raises(here: Path, run: Run) -> None:
    """An array without elements or without axes raises an error."""
    tessarr.create_array("empty", shape=(10,), dtype="i4")
    assert "no stored chunks" in run("advise", "empty")[2]
    tessarr.create_array("point", data=1)
    assert "too few elements" in run("advise", "point")[2]


@pytest.mark.parametrize("shape", [(1,), (7,), (10**6,), (3, 10**5), (50, 60, 70), (1, 1, 10**7)])
@pytest.mark.parametrize("item_bytes", [1, 8, 10**6])
def test_chunk_shapes_fit(shape: tuple[int, ...], item_bytes: int) -> None:
    """No chunk is longer than its axis or too large, and shards consist of whole chunks."""
    accesses = [
        Access("", tuple(range(1) if k == axis else range(n) for k, n in enumerate(shape)))
        for axis in range(len(shape))
    ]
    shapes = suggest_chunk_shapes(shape, item_bytes, accesses)
    assert len(set(shapes)) == len(shapes) > 0
    for chunks in shapes:
        assert all(1 <= length <= size for length, size in zip(chunks, shape, strict=True))
        assert np.prod(chunks) * item_bytes <= max(16 << 20, item_bytes)
        shards = suggest_shard_shape(chunks, shape, item_bytes)
        if shards is not None:
            assert all(a % b == 0 for a, b in zip(shards, chunks, strict=True))
            assert np.prod(shards) >= 4 * np.prod(chunks)


def test_access_counts_chunks() -> None:
    """Selections have steps, run backwards, and cross chunk borders."""
    for axis in (range(5, 6), range(100), range(7, 95, 3), range(50, 3, -7), range(0, 90, 30)):
        for length in (1, 7, 10, 33, 100):
            expected = len({index // length for index in axis})
            assert Access("", (axis,)).count_chunks((length,)) == expected
