"""HTML for notebooks: complete, safe, without scripts, and without expensive requests."""

from __future__ import annotations

import html.parser
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tessarr
from tessarr.errors import StoreError
from tessarr.store.wrappers.instrumented import CountingStore
from tessarr.stores import MemoryStore, S3Store, ZipStore

HOSTILE = '<script>alert("1")</script>\'&'


class Parser(html.parser.HTMLParser):
    """A parser that collects the text, and checks that every element is closed and harmless."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.count: dict[str, int] = {}
        self.text = ""
        self.feed(source)
        self.close()
        assert not self.open
        assert "script" not in self.count
        source.encode()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)
        self.handle_startendtag(tag, attrs)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        assert not any(name.startswith("on") or name in {"href", "src"} for name, _ in attrs)
        self.count[tag] = self.count.get(tag, 0) + 1

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data + "|"


def show(value: Any) -> Parser:
    return Parser(value._repr_html_())


def test_array_html_has_sizes_counts_and_names_without_requests() -> None:
    created = tessarr.create_array(
        MemoryStore(),
        path="a<b",
        shape=(5, 20, 30),
        chunks=(1, 5, 10),
        shards=(1, 20, 30),
        dtype="i4",
        dimension_names=["time", None, "x"],
    )
    store = CountingStore(created.store)
    a = tessarr.Array(store, "a<b", cache_metadata=False)
    before = store.counts()
    shown = show(a)
    assert store.counts() == before
    assert "/a<b|" in shown.text
    assert "Shape|(time: 5, 20, x: 30)|(1, 20, 30)|(1, 5, 10)|" in shown.text
    assert "Size|11.7 KiB|2.3 KiB|200 B|" in shown.text
    assert "Count|3,000 elements|5 (5 × 1 × 1)|60 (5 × 4 × 3)|" in shown.text
    assert "Data type|int32|" in shown.text
    assert f"Store|{store!r}|" in shown.text
    assert ("time 5|" in shown.text, "x 30|" in shown.text) == (True, True)
    assert "Attributes" not in shown.text


def test_array_html_folds_attributes() -> None:
    attributes = {"units": "K", "range": [1, 2], "levels": [*range(99)], HOSTILE: HOSTILE}
    shown = show(tessarr.zeros(3, attributes=attributes))
    assert "Attributes (4)|units|K|range|[1, 2]|levels|99 items|" in shown.text
    assert shown.text.count(HOSTILE) == 2
    assert shown.count["details"] == 2


def test_array_html_of_version_2_has_names_of_xarray() -> None:
    a = tessarr.zeros((3, 4), zarr_format=2, attributes={"_ARRAY_DIMENSIONS": ["y", "x"]})
    assert "(y: 3, x: 4)|" in show(a).text
    assert repr(a) == "Array((y: 3, x: 4), float64, chunks=(3, 4), order=C)"
    assert "Dimension names|y, x|" in show(a.info).text
    assert a.dimension_names is None


@pytest.mark.parametrize(
    "names", [["y"], "yx", ["y", 1], [], None, {"y": 1, "x": 2}, [["y"], ["x"]]]
)
def test_wrong_names_of_xarray_are_ignored(names: Any) -> None:
    a = tessarr.zeros((3, 4), zarr_format=2, attributes={"_ARRAY_DIMENSIONS": names})
    assert repr(a) == "Array((3, 4), float64, chunks=(3, 4), order=C)"
    show(a)


def test_hostile_names_of_axes_are_escaped_and_truncated() -> None:
    names = [HOSTILE, "a\nb\ud800", "x" * 10_000]
    a = tessarr.zeros((2, 3, 4), dimension_names=names)
    shown = show(a)
    assert len(repr(a)) < 300
    assert "\n" not in repr(a)
    repr(a).encode()
    assert "'a\\nb\\ud800': 3" in shown.text


@pytest.mark.parametrize(
    ("settings", "lines"),
    [
        ({"shape": (), "chunks": ()}, None),
        ({"shape": (0, 3), "chunks": (1, 1)}, None),
        ({"shape": 10, "chunks": 5}, 1),
        ({"shape": 1000, "chunks": 1}, 20),
        ({"shape": 10**9, "chunks": 5}, 20),
        ({"shape": (20, 30), "chunks": (5, 10)}, 3 + 2),
        ({"shape": (5, 20, 30), "chunks": (1, 5, 10)}, 2 * (4 + 3 + 2)),
        ({"shape": (7, 9, 2, 4, 4), "chunks": (1, 1, 1, 2, 4)}, 2 * (1 + 1)),
        ({"shape": (8, 8), "chunks": (2, 2), "shards": (4, 4)}, 6 + 2),
        ({"shape": (10,), "chunks": [[2, 3, 5]]}, 2),
        ({"shape": (1, 10**12, 1), "chunks": (1, 10**6, 1)}, 2 * 20),
    ],
)
def test_picture_has_lines_between_chunks(settings: Any, lines: int | None) -> None:
    a = tessarr.create_array(dtype="u1", **settings)
    shown = show(a)
    assert shown.count.get("svg", 0) == (lines is not None)
    assert shown.count.get("line", 0) == (lines or 0)
    faces = 0 if lines is None else 3 if a.ndim > 2 else 1
    assert shown.count.get("polygon", 0) == faces


def test_picture_of_many_axes_says_which_it_shows() -> None:
    assert "the last 3 of 4 axes|" in show(tessarr.zeros((2, 2, 2, 2))).text


@pytest.mark.parametrize(
    "settings",
    [
        {"shape": 2, "dtype": str},
        {"shape": 2, "dtype": [("a", "i4"), ("b", "f8")]},
        {"shape": 2, "dtype": "S100000", "fill_value": b"x" * 100_000},
        {"shape": 2, "dtype": "M8[ns]"},
        {"shape": 2, "zarr_format": 2, "fill_value": None, "order": "F"},
        {"shape": (3, 3), "filters": [], "compressors": ["zstd", "crc32c"]},
    ],
)
def test_html_of_all_data_types_is_short(settings: Any) -> None:
    assert len(tessarr.create_array(**settings)._repr_html_()) < 10_000


def test_large_attributes_are_truncated() -> None:
    deep: Any = 0
    for _ in range(190):
        deep = [deep]
    attributes = {f"a{i}": "x" * 100_000 for i in range(300)} | {"deep": deep}
    a = tessarr.zeros(3, attributes=attributes)
    shown = show(a.attrs)
    assert "… and 101 more|" in shown.text
    assert len(shown.text) < 200 * 5100


def test_attributes_have_html() -> None:
    g = tessarr.create_group(None, path="a/b", attributes={"k": {"x": "y" * 99}, "n": None})
    shown = show(g.attrs)
    assert "Attributes of group| |/a/b|k|1 member|" in shown.text
    assert "n|null|" in shown.text
    assert "none|" in show(tessarr.zeros(3).attrs).text


def test_lazy_array_has_html() -> None:
    a = tessarr.zeros((4, 6), dtype="i2")
    assert (
        "Shape|(3, 6)|Data type|int16|Size|36 B, 18 elements|View of|Array((4, 6)"
        in show(a.lazy[1:]).text
    )


def test_future_html_shows_state_without_waiting() -> None:
    future: tessarr.Future[Any] = tessarr.Future()
    assert "State|running|" in show(future).text
    future.set_result(HOSTILE)
    assert f"State|finished|Result|{HOSTILE!r}|" in show(future).text
    failed: tessarr.Future[Any] = tessarr.Future()
    failed.set_exception(ValueError("bad\ud800" * 1000))
    assert "State|failed|Error|ValueError: bad" in show(failed).text
    read = tessarr.zeros((3, 4)).read(...)
    read.result()
    assert "Result|ndarray (3, 4) float64|" in show(read).text


def test_group_html_shows_members_attributes_and_store() -> None:
    g = tessarr.create_group(None, attributes={"title": HOSTILE})
    g.create_array("foo", shape=3, dtype="u1", dimension_names=["time"])
    g.create_array("sub/bar", shape=3)
    shown = show(g)
    assert "tessarr.Group| |/|Format|Zarr 3|Store|MemoryStore()|" in shown.text
    assert f"Attributes (1)|title|{HOSTILE}|" in shown.text
    assert "foo| (time: 3) uint8|sub|" in shown.text
    assert "bar" not in shown.text


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_group_html_reads_limited_number_of_documents(zarr_format: Any) -> None:
    g = tessarr.create_group(None, zarr_format=zarr_format)
    nodes: dict[str, Any] = {f"n{i:04}": None for i in range(300)}
    list(g.create_hierarchy(nodes))
    store = CountingStore(g.store)
    opened = tessarr.open_group(store, "r", use_consolidated=False)
    before = sum(store.counts().values())
    shown = show(opened)
    assert "n0099|" in shown.text
    assert "n0100|" not in shown.text
    assert "… and 200 more: see tree()|" in shown.text
    assert sum(store.counts().values()) - before <= 1 + 3 * 100


def test_html_of_consolidated_group_needs_no_request() -> None:
    g = tessarr.create_group(MemoryStore())
    list(g.create_hierarchy({f"n{i:04}": None for i in range(150)} | {"a/b": {"shape": 3}}))
    tessarr.consolidate_metadata(g.store)
    store = CountingStore(g.store)
    opened = tessarr.open_group(store, "r")
    before = store.counts()
    shown = show(opened)
    assert store.counts() == before
    assert "Zarr 3, consolidated, read-only|" in shown.text
    assert "… and 51 more" in shown.text
    assert "b| (3,) float64" in show(opened["a"]).text


def test_group_html_shows_broken_members_and_folders_without_nodes() -> None:
    items = {"bad/zarr.json": b"{", "folder/file": b"", "plain": b""}
    g = tessarr.create_group(items)
    shown = show(g)
    assert "bad| – unreadable: invalid metadata" in shown.text
    assert "folder" not in shown.text
    assert "more" not in shown.text


def test_group_html_of_closed_store_shows_error(tmp_path: Path) -> None:
    store = ZipStore(tmp_path / "a.zip", mode="w")
    g = tessarr.create_group(store)
    a = g.create_array("a", shape=3)
    a[:] = 1
    store.close()
    assert "Members|cannot be listed: " in show(g).text
    show(a)
    show(g.attrs)
    assert repr(g) == "Group(/, zarr_format=3)"
    for view in (g.keys(), g.values(), g.items()):
        assert "(cannot be listed: " in repr(view)


def test_group_html_of_store_without_listings_shows_error() -> None:
    class Refuses(dict[str, bytes]):
        def list_dir(self, prefix: str) -> Any:
            raise StoreError(f"listing of {prefix!r} is refused {HOSTILE}")

        def __iter__(self) -> Any:
            raise StoreError("refused")

    g = tessarr.create_group(Refuses())
    assert "cannot be listed" in show(g).text


def test_html_contains_no_secrets() -> None:
    store = S3Store(
        "bucket",
        access_key_id="id",
        secret_access_key="hush",
        endpoint="http://127.0.0.1:9?sig=hush",
    )
    from tessarr.flow.open import parse_documents

    documents = {"zarr.json": tessarr.zeros(3).store.get("zarr.json")}
    meta: Any = parse_documents(documents, "")
    from tessarr.array import bind_array

    a = bind_array(meta, store, "", read_only=True)
    source = a._repr_html_()
    assert "S3Store(" in source
    assert "bucket" in source
    assert "hush" not in source


def test_html_has_colours_of_the_page() -> None:
    """Light and dark notebooks: text and lines have the colour of the text around them."""
    source = tessarr.zeros((3, 4, 5))._repr_html_()
    assert "currentColor" in source
    assert "color:#" not in source.replace(" ", "")


def test_html_is_the_same_in_threads() -> None:
    a = tessarr.zeros((3, 4), attributes={"a": 1})
    results: list[str] = []
    action: Callable[[], None] = lambda: results.append(a._repr_html_())  # noqa: E731
    threads = [threading.Thread(target=action) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(results) == {a._repr_html_()}
