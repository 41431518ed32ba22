"""Layers of key-value stores: JSON, keys and base keys match TensorStore's."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path
from random import Random
from typing import Any

import pytest

import tessarr.tensorstore as ours

theirs = pytest.importorskip("tensorstore", reason="what is told of layers is compared with it")

KEYS = ["", "a", "a/", "a/b", "a/b/c", "b", "ab", "abc", "abd", "d/", "z", "é", "a\0", "zz"]


def _layer(dice: Random, number: int) -> dict[str, Any]:
    """Return a layer with a random range, whose keys may lack the strip prefix."""
    members = dice.choice(
        [
            [],
            ["prefix"],
            ["exact"],
            ["inclusive_min"],
            ["exclusive_max"],
            ["inclusive_min", "exclusive_max"],
        ]
    )
    layer: dict[str, Any] = {name: dice.choice(KEYS) for name in members}
    layer["base"] = dice.choice([f"memory://{number}/", "memory://m/", "memory://m"])
    if dice.random() < 0.3:
        layer["strip_prefix"] = dice.randrange(4)
    return layer


def _array(ts: Any, spec: Any, context: Any) -> Any:
    return ts.open(
        {
            "driver": "zarr3",
            "kvstore": spec,
            "metadata": {"data_type": "int8", "shape": [2]},
            "assume_metadata": True,
        },
        context=context,
    ).result()


def _describe(ts: Any, spec: Any) -> list[object]:
    """Return the JSON of an open store and the location of its keys, or the class of the error."""
    context = ts.Context()
    try:
        store = ts.KvStore.open(spec, context=context).result()
    except (ValueError, NotImplementedError) as error:
        return ["ValueError" if isinstance(error, ValueError) else "NotImplementedError"]
    results = [
        store.spec().to_json(),
        store.spec(retain_context=True).to_json(include_defaults=True),
        store.spec(unbind_context=True).to_json(),
        ts.KvStore.open(store.spec()).result().spec().to_json(),
        pickle.loads(pickle.dumps(store)).spec().to_json(),
        _array(ts, spec, context).spec().kvstore.to_json(),
        _array(ts, spec, context).kvstore.spec().to_json(),
        ts.KvStore.Spec(spec).to_json(),
    ]
    for key in KEYS:
        store[key] = b"of " + key.encode()
    memory = ts.KvStore.open("memory://", context=context).result()
    results.append({key: memory[key] for key in memory.list().result()})
    results.append([store.read(key).result().value for key in KEYS])
    results.append(sorted(store.list().result()))
    store.delete_range(ts.KvStore.KeyRange("a/b", "abd")).result()
    results.append(sorted(memory.list().result()))
    return results


@pytest.mark.parametrize("number", range(200))
def test_layers_over_whole_store_list_their_own_keys(number: int) -> None:
    dice = Random(number)
    layers = [{"base": "memory://whole/"}]
    layers += [_layer(dice, which) for which in range(dice.randrange(1, 5))]
    spec = {"driver": "kvstack", "layers": layers}
    assert _describe(ours, spec) == _describe(theirs, spec)


@pytest.mark.parametrize("over", ["zip", "kvstack"])
def test_nested_layers_are_listed(over: str) -> None:
    layers = [{"base": "memory://a/"}, {"prefix": "b", "base": "memory://b/"}]
    stack = {"driver": "kvstack", "layers": layers, "path": "bz"}
    spec = (
        {"driver": over, "base": stack}
        if over == "zip"
        else {"driver": over, "layers": [{"base": stack}]}
    )

    def describe(ts: Any) -> object:
        return ts.KvStore.open(spec).result().spec().to_json()

    assert describe(ours) == describe(theirs)


def test_zip_file_changes_of_other_writers_are_visible(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"

    def describe(ts: Any) -> list[Any]:
        store = ts.KvStore.open(f"file://{path}|zip:").result()
        listings = [store.list().result()]
        for mode, name in (("w", "a"), ("a", "b"), ("w", "a"), ("w", "c")):
            with zipfile.ZipFile(path, mode) as file:
                file.writestr(name, mode + name)
            listings += [store.list().result(), store.read("a").result().value]
        path.unlink()
        return [*listings, store.list().result(), store.read("c").result().state]

    assert describe(ours) == describe(theirs)


def test_keys_of_zip_file_are_removed_without_end() -> None:
    """TensorStore removes a part of a range only if it has an upper bound."""

    def left(ts: Any, *bounds: str) -> list[bytes]:
        store = ts.KvStore.open("memory://a.zip|zip:").result()
        store["a"], store["b"] = b"1", b"2"
        store.delete_range(ts.KvStore.KeyRange(*bounds)).result()
        return store.list().result()

    assert left(ours, "a", "b") == left(theirs, "a", "b") == [b"b"]
    assert (left(ours, "b", ""), left(theirs, "b", "")) == ([b"a"], [b"a", b"b"])
    assert (left(ours), left(theirs)) == ([], [b"a", b"b"])


def test_kvstack_range_without_common_prefix_keeps_keys() -> None:
    """TensorStore removes "b" from all keys of this range, so that some keys collide."""
    layer = {"inclusive_min": "b", "exclusive_max": "c/", "base": "memory://"}
    store = ours.KvStore.open({"driver": "kvstack", "layers": [layer]}).result()
    store["b"], store["c"] = b"1", b"2"
    assert store.list().result() == [b"b", b"c"]


def test_keys_of_no_layer_are_absent() -> None:
    layers = [
        {"exclusive_max": "b", "base": "memory://a/"},
        {"inclusive_min": "x", "base": "memory://x/"},
    ]
    store = ours.KvStore.open({"driver": "kvstack", "layers": layers}).result()
    own = [layer.get("exclusive_max") for layer in store.spec().to_json()["layers"]]
    assert own == ["b", None]


def test_end_of_prefix_is_text_whatever_its_last_character_is() -> None:
    layers = [{"base": "memory://a/"}, {"prefix": "\x7f", "base": "memory://b/"}]
    store = ours.KvStore.open({"driver": "kvstack", "layers": layers}).result()
    assert [layer.get("inclusive_min") for layer in store.spec().to_json()["layers"]] == [
        None,
        None,
        "\x80",
    ]


def test_kvstack_strip_prefix_inside_character_is_refused() -> None:
    layers = [{"prefix": "é", "strip_prefix": 1, "base": "memory://"}]
    with pytest.raises(ValueError, match="Invalid strip_prefix of 1"):
        ours.KvStore.Spec({"driver": "kvstack", "layers": layers})
