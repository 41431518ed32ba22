"""Spec updates and open modes: each keyword, with each driver, matches TensorStore.

Omitted are the differences of the guide, and the errors of specs with two problems.
"""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import pytest

import tessarr.tensorstore as ours

theirs = pytest.importorskip("tensorstore", reason="the package tensorstore is absent")

_BASE: dict[str, Any] = {"driver": "zarr3", "kvstore": "memory://"}
_KNOWN = {"driver": "zarr3", "schema": {"dtype": "int16", "domain": {"shape": [4, 6]}}}
_SPECS: dict[str, dict[str, Any]] = {
    "zarr3": _BASE,
    "known": _KNOWN,
    "zarr": {"driver": "zarr", "metadata": {"dtype": "<i2"}},
    "auto": {"driver": "auto", "kvstore": "memory://"},
    "cast": {"driver": "cast", "base": _BASE},
    "ranked cast": {"driver": "cast", "rank": 1, "base": _BASE},
    "known cast": {"driver": "cast", "dtype": "int32", "base": _KNOWN},
    "downsample": {
        "driver": "downsample",
        "downsample_factors": [2],
        "downsample_method": "mean",
        "base": _BASE,
    },
    "array": {"driver": "array", "dtype": "int32", "array": [[1, 2], [3, 4]]},
    "json": {"driver": "json", "kvstore": "memory://a"},
}
_UPDATES = [
    *("dtype=ts.int16", "rank=1", "rank=2", "rank=-1", "shape=[4]", "shape=[4, 6]"),
    *("domain=ts.IndexDomain(1)", "domain=ts.IndexDomain(inclusive_min=[1], shape=[2])"),
    *("chunk_layout=ts.ChunkLayout(chunk_shape=[2])", "chunk_layout=ts.ChunkLayout(rank=2)"),
    *("chunk_layout=ts.ChunkLayout(chunk_elements=10)", "chunk_layout=ts.ChunkLayout()"),
    *("codec=ts.CodecSpec({'driver': 'zarr3', 'codecs': ['bytes']})", "fill_value=7"),
    *("fill_value=[1, 2]", "dimension_units=['nm']", "dimension_units=['nm', None]"),
    *("schema=ts.Schema(rank=1)", "schema=ts.Schema(dtype='int16', fill_value=3)", "open=True"),
    *("create=True", "delete_existing=True", "assume_metadata=True", "recheck_cached=5"),
    *("recheck_cached_metadata=5", "recheck_cached_metadata=False", "recheck_cached_data='open'"),
    *("recheck_cached_metadata=5, recheck_cached_data=7", "minimal_spec=True"),
    *("context=ts.Context()", "strip_context=True", "kvstore=ts.KvStore.Spec('memory://b/')"),
]
_PROPERTIES = [
    "to_json()",
    "rank",
    "dtype",
    "domain",
    "transform",
    "codec",
    "dimension_units",
    "open_mode",
]


def _answers(ts: Any, spec: dict[str, Any], updates: tuple[str, ...]) -> Any:
    """Return the JSON of a spec after updates, or the error of an update."""
    created_spec = ts.Spec(spec)
    try:
        for update in updates:
            eval(f"spec.update({update})", {"ts": ts, "spec": created_spec})
        return [repr(eval(f"spec.{member}", {"spec": created_spec})) for member in _PROPERTIES]
    except (TypeError, ValueError, NotImplementedError) as error:
        return TypeError if isinstance(error, TypeError) else ValueError


@pytest.mark.parametrize("name", _SPECS)
def test_spec_updates_match_tensorstore(name: str) -> None:
    """Updates match for all combinations of earlier and later arguments."""
    twice = itertools.product(_UPDATES[::3], _UPDATES[::2])
    for updates in [(), *((update,) for update in _UPDATES), *twice]:
        of_array = name == "array" and any(update.startswith("schema") for update in updates)
        if of_array or (len(updates) > 1 and "IndexDomain(1)" in updates[0]):
            continue  # the guide lists these
        mine, other = (_answers(ts, _SPECS[name], updates) for ts in (ours, theirs))
        assert mine == other, updates


_MODES = ["open", "create", "delete_existing", "assume_metadata", "assume_cached_metadata"]


def _opened(ts: Any, spec: dict[str, Any], keywords: dict[str, Any], *, exists: bool) -> Any:
    """Return the opened array or the error, with or without an existing array, and the keys."""
    context = ts.Context()
    kvstore = {"driver": spec["driver"], "kvstore": "memory://a/"}
    if exists:
        stored = ts.open(kvstore, create=True, shape=[4], dtype="int8", context=context).result()
        stored[...] = [1, 2, 3, 4]
    error: Any = ValueError
    try:
        array = ts.open({**kvstore, **spec}, context=context, **keywords).result()
        error = array.dtype.name, array.shape, array.chunk_layout.read_chunk.shape
        error = *error, array.read().result().tolist()
    except (ValueError, NotImplementedError):
        pass
    return error, sorted(ts.KvStore.open("memory://", context=context).result().list().result())


@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize("driver", ["zarr", "zarr3"])
def test_open_modes_match_tensorstore(driver: str, *, exists: bool) -> None:
    """The test uses all pairs of modes, in JSON and as keywords."""
    modes = [{}, *({flags: True} for flags in _MODES)]
    schemas = [
        {"dtype": "int8", "shape": [4]},
        {"dtype": "int16", "shape": [4]},
        {"shape": [5]},
        {},
    ]
    for said, mode, parts in itertools.product(modes, [*modes, {"open": False}], schemas):
        if "dtype" not in parts and "delete_existing" in {**said, **mode}:
            continue  # Tessarr deletes no keys if it cannot create the array
        answers = (
            _opened(ts, {"driver": driver, **said}, {**mode, **parts}, exists=exists)
            for ts in (ours, theirs)
        )
        mine, other = answers
        assert mine == other, (said, mode, parts)


_KEYS = ["a", "a/b", "", "/", "a/", "/a", "a//b", ".", "..", "a/../b", "a\0b", ".zarray", "é"]
_LAYERS: list[list[dict[str, Any]]] = [
    [{"base": "memory://"}],
    [{"base": "memory://x/"}],
    [{"base": "memory://", "prefix": "a"}],
    [{"base": "memory://q/", "prefix": "a/"}, {"base": "memory://", "exact": "zz"}],
]


@pytest.mark.parametrize("layers", _LAYERS)
def test_kvstack_has_keys_of_layers(layers: list[dict[str, Any]]) -> None:
    def answer(ts: Any, key: str) -> Any:
        context = ts.Context()
        spec = {"driver": "kvstack", "layers": layers}
        stack = ts.KvStore.open(spec, context=context).result()
        try:
            stack.write(key, b"1").result()
        except ValueError:
            return ValueError
        base = ts.KvStore.open("memory://", context=context).result()
        results = stack.read(key).result().value, stack.list().result(), base.list().result()
        stack.delete_range(ts.KvStore.KeyRange(key, f"{key}x")).result()
        return *results, base.list().result()

    for key in _KEYS:
        assert answer(ours, key) == answer(theirs, key), key


@pytest.mark.parametrize("path", ["/", "", "a", "/a", "//", "a//b/"])
@pytest.mark.parametrize("driver", ["zarr", "zarr3"])
def test_memory_array_paths_match_tensorstore(driver: str, path: str) -> None:
    """A single slash is the empty path."""

    def answer(ts: Any) -> Any:
        spec = {"driver": driver, "kvstore": {"driver": "memory", "path": path}}
        array = ts.open(spec, create=True, dtype="int8", shape=[2]).result()
        array[...] = 1
        kvstore = array.kvstore
        return kvstore.path, kvstore.url, kvstore.list().result(), array.spec().url, array.url

    assert answer(ours) == answer(theirs)


_ALSO = [
    also
    for n in range(4)
    for also in itertools.combinations(["create", "delete_existing", "assume_metadata"], n)
]


@pytest.mark.parametrize("method", ["keywords", "mode", "open"])
@pytest.mark.parametrize("also", _ALSO)
def test_detected_format_opens_existing_array(method: str, also: tuple[str, ...]) -> None:
    flags = {"open": True, **dict.fromkeys(also, True)}

    def answer(ts: Any) -> Any:
        context = ts.Context()
        ts.open(_BASE, context=context, create=True, dtype="int8", shape=[3]).result()[...] = 5
        spec = ts.Spec("memory://")
        spec.update(**({"open_mode": ts.OpenMode(**flags)} if method == "mode" else flags))
        arguments = flags if method == "open" else {}
        opened = ts.open("memory://" if arguments else spec, context=context, **arguments).result()
        said = (
            repr(spec.open_mode),
            spec.to_json(),
            repr(pickle.loads(pickle.dumps(spec)).open_mode),
        )
        return *said, repr(opened.spec().open_mode), opened.read().result().tolist()

    assert answer(ours) == answer(theirs)


@pytest.mark.parametrize("mode", ["open", 5, {}, True])
def test_open_mode_argument_of_other_type_is_refused(mode: Any) -> None:
    opened = ours.open(_BASE, create=True, dtype="int8", shape=[3]).result()
    for act in (ours.Spec(_BASE).update, opened.spec):
        with pytest.raises(TypeError, match="open_mode"):
            act(open_mode=mode)
    with pytest.raises(TypeError, match="open_mode"):
        ours.open(_BASE, open_mode=mode)
