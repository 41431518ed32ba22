"""Errors name the location, the problem and the solution in few words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr.tensorstore as ts
from tessarr.errors import (
    ArgumentError,
    ExistsError,
    NotFoundError,
    SelectionError,
    StoreError,
    TessarrError,
    TooLargeError,
)

TOO_LARGE: dict[str, tuple[str, Callable[[int], Any]]] = {
    "timeout": ("timeout", lambda n: ts.Promise.new()[1].result(timeout=n)),
    "deadline": ("deadline", lambda n: ts.Promise.new()[1].exception(deadline=n)),
    "staleness": ("staleness_bound", lambda n: _keys().read("a", staleness_bound=n).result()),
    "end": ("byte_range", lambda n: _keys().read("a", byte_range=slice(0, n)).result()),
    "start": ("byte_range", lambda n: _keys().read("a", byte_range=slice(n, None)).result()),
    "ratio": ("aspect_ratio", lambda n: ts.ChunkLayout(read_chunk_aspect_ratio=[n])),
    "JSON": ("64 bits", lambda n: ts.json([n])),
    "write": ("int8", lambda n: ts.array(np.zeros(3, "i1")).write(n).result()),
    "item": ("int8", lambda n: ts.array(np.zeros(3, "i1"))[1:2].write([n]).result()),
    "array": ("int8", lambda n: ts.array([n], dtype="int8")),
}


@pytest.mark.parametrize("number", [10**400, 10**5000], ids=["floats", "digits"])
@pytest.mark.parametrize("name", TOO_LARGE)
def test_too_large_number_error_names_member(name: str, number: int) -> None:
    """The error names the member; it is also an OverflowError."""
    where, act = TOO_LARGE[name]
    with pytest.raises(TooLargeError, match=where):
        act(number)


def _keys() -> Any:
    return ts.KvStore.open("memory://").result()


@pytest.mark.parametrize("path", ["/metadata/shape/1", "/schema/fill_value", "/context/a/b"])
def test_json_integer_errors_have_path(path: str) -> None:
    """The error names the first number that TensorStore's JSON cannot contain."""
    json: Any = 10**5000
    for name in reversed(path.split("/")[1:]):
        json = [1, json] if name == "1" else {name: json}
    with pytest.raises(TooLargeError, match=f"^{path}: Expected integers of at most 64 bits"):
        ts.Spec({"driver": "zarr3", **json})


def test_open_of_group_is_refused() -> None:
    """The error contains NumPy's reason."""
    with pytest.raises(ArgumentError, match="cannot convert the value to an array"):
        ts.array([[1, 2], [3]])


def test_deleting_without_creating() -> None:
    """The error names the missing constraint only."""
    spec = {"driver": "zarr3", "kvstore": "memory://"}
    with pytest.raises(ArgumentError, match="delete_existing without create"):
        ts.open(spec, delete_existing=True).result()
    with pytest.raises(ArgumentError, match="delete_existing with open"):
        ts.open(spec, open=True, create=True, delete_existing=True).result()


def test_codecs_without_shards() -> None:
    """The error explains why chunks cannot be read in parts."""
    spec = {"driver": "zarr3", "kvstore": "memory://", "metadata": {"codecs": [{"name": "blosc"}]}}
    layout = ts.ChunkLayout(read_chunk_shape=[16], write_chunk_shape=[64])
    with pytest.raises(ArgumentError, match=r"16 .* 64: sharding_indexed is not among the codecs"):
        ts.open(spec, create=True, dtype="int32", shape=[64], chunk_layout=layout).result()


@pytest.mark.parametrize("driver", ["zarr3", "zarr", "auto"])
def test_missing_array_error_has_url(driver: str, tmp_path: Path) -> None:
    """The error has the URL of the missing array."""
    for url in ("memory://a%20b/c/", f"file://{tmp_path}/c/"):
        with pytest.raises(NotFoundError, match=f"at '{url}': .*zarr") as caught:
            ts.open({"driver": driver, "kvstore": url}).result()
        assert "Store(" not in str(caught.value)


def test_location_without_url() -> None:
    """The error has the path."""
    layers = {"driver": "kvstack", "layers": [{"base": "memory://"}], "path": "x/"}
    with pytest.raises(NotFoundError, match="no array at 'x/'"):
        ts.open({"driver": "zarr3", "kvstore": layers}).result()


def test_existing_array_error_has_url(tmp_path: Path) -> None:
    """The error has the URL of the existing array."""
    spec = {"driver": "zarr3", "kvstore": f"file://{tmp_path}/a/"}
    ts.open(spec, create=True, dtype="int8", shape=[3]).result()
    with pytest.raises(ExistsError, match=f"at 'file://{tmp_path}/a/': 'zarr.json' is present"):
        ts.open(spec, create=True, open=False, dtype="int8", shape=[3]).result()


@pytest.mark.parametrize("name", ["driver", "open", "rank", "dtype", "path"])
def test_members_are_named(name: str) -> None:
    """The error names a member with a wrong type."""
    with pytest.raises(TessarrError, match=f'^(Error parsing object member )?"?{name}"?: '):
        ts.Spec({"driver": "zarr3", "kvstore": "memory://", name: []})


def test_invalid_dimension_names_give_no_labels() -> None:
    """A stored array opens without labels; a spec raises an error."""
    spec = {"driver": "zarr3", "kvstore": "memory://a/"}
    context = ts.Context()
    ts.open(spec, context=context, create=True, dtype="int8", shape=[3]).result()
    keys = ts.KvStore.open("memory://a/", context=context).result()
    document = keys.read("zarr.json").result().value
    named = document.replace(b'"codecs"', b'"dimension_names": ["\\ud800"], "codecs"')
    keys.write("zarr.json", named).result()
    assert ts.open(spec, context=context).result().domain.labels == ("",)
    with pytest.raises(ArgumentError, match=r"dimension_names/0.*UTF-8"):
        ts.Spec({**spec, "metadata": {"dimension_names": ["\ud800"]}})


STORE = ts.array(np.zeros((3, 4)))[ts.d[1].label["y"]]
OUTSIDE: dict[str, tuple[Callable[[], Any], str]] = {
    "index": (
        lambda: STORE[-1],
        "dimension 0: index -1 is outside of [0, 3); {}: the last one is 2",
    ),
    "labelled": (
        lambda: STORE[0, -2],
        "dimension 1 ('y'): index -2 is outside of [0, 4); {}: the last one is 3",
    ),
    "by label": (
        lambda: STORE[ts.d["y"][-1]],
        "dimension 1 ('y'): index -1 is outside of [0, 4); {}: the last one is 3",
    ),
    "above": (lambda: STORE[3], "dimension 0: index 3 is outside of [0, 3)"),
    "slice": (
        lambda: STORE[:, -2:],
        "dimension 1 ('y'): the slice -2: is outside of [0, 4); {}: the last one is 3",
    ),
    "end": (
        lambda: STORE[:-1],
        "dimension 0: the slice :-1 ends before it begins; {}: the last one is 2",
    ),
    "backwards": (lambda: STORE[2:1], "dimension 0: the slice 2:1 ends before it begins"),
    "array": (
        lambda: STORE[:, [1, -1]].read().result(),
        "dimension 1: index -1 is outside of [0, 4); {}: the last one is 3",
    ),
    "of an array": (
        lambda: STORE[[0, 1]].label["x", "y"][-1],
        "dimension 0 ('x'): index -1 is outside of [0, 2); {}: the last one is 1",
    ),
    "domain": (
        lambda: STORE[ts.IndexDomain(inclusive_min=[-1, 0], shape=[2, 2])],
        "dimension 0: [-1, 1) is outside of [0, 3)",
    ),
    "of bounds below 0": (
        lambda: STORE.translate_to[-2, 0][-3],
        "dimension 0: index -3 is outside of [-2, 1)",
    ),
    "of a store": (
        lambda: ts.open(
            {"driver": "zarr3", "kvstore": "memory://"}, create=True, dtype=ts.int8, shape=[5]
        ).result()[-1],
        "dimension 0: index -1 is outside of [0, 5*); {}: the last one is 4",
    ),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_outside_position_error_names_dimension(name: str) -> None:
    """The error explains that negative positions do not count from the end."""
    act, expected = OUTSIDE[name]
    with pytest.raises((ArgumentError, SelectionError)) as raised:
        act()
    text = str(raised.value).removeprefix("OUT_OF_RANGE: ").removeprefix("cannot read or write: ")
    assert text == expected.format("positions do not count from the end")


class AbsentError(NotFoundError):
    """A user's error, with its own constructor and a member."""

    def __init__(self, name: str, count: int) -> None:
        super().__init__(f"{name} is absent", key=name)
        self.count = count


def _describe(own: Exception) -> Any:
    def read(*_: Any) -> None:
        raise own

    return ts.virtual_chunked(read, dtype=ts.int8, shape=[3]).read().exception()


def test_errors_of_user_are_not_changed() -> None:
    """The error with TensorStore's code is a new one with the same text."""
    own = AbsentError("a", 3)
    own.add_note("looked for in vain")
    own.__cause__ = KeyError("a")
    text = _describe(own)
    assert type(text) is AbsentError
    assert (text.count, text.key, text.kind, text.errno) == (3, "a", "not_found", own.errno)
    assert (str(text), text.args) == ("NOT_FOUND: a is absent", ("NOT_FOUND: a is absent",))
    assert text.__cause__ is own.__cause__
    text.add_note("here")
    assert (str(own), own.args) == ("a is absent", ("a is absent",))
    assert own.__notes__ == ["looked for in vain"]


def test_store_error_has_errno() -> None:
    own = StoreError("no", errno=13, retryable=True)
    text = _describe(own)
    assert (str(text), text.errno, text.retryable) == ("PERMISSION_DENIED: no", 13, True)
    assert str(own) == "no"
