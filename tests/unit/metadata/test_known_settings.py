"""The memo of metadata of new arrays: equal settings share metadata, and others do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tessarr
from tessarr.errors import ArgumentError
from tessarr.format import chunk_key_encoding
from tessarr.metadata import known_settings
from tessarr.metadata.build import build_array_meta
from tessarr.metadata.known_settings import build_known_meta


@pytest.fixture(autouse=True)
def _empty_memo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_settings, "_built", {})


def test_arrays_with_equal_settings_are_built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop over names builds the metadata once per shape, whatever the attributes."""
    built: list[Any] = []

    def build(**settings: Any) -> Any:
        built.append(settings)
        return build_array_meta(**settings)

    monkeypatch.setattr(known_settings, "build_array_meta", build)
    group = tessarr.create_group(None)
    for number in range(20):
        attributes = {"number": number} if number % 2 else None
        array = group.create_array(f"a{number}", shape=(3, 4), dtype="f4", attributes=attributes)
        array[0] = number
        assert dict(array.attrs) == (attributes or {})
    group.create_array("other", shape=(4, 4), dtype="f4")
    assert len(built) == 2
    assert [group.get_array(f"a{number}")[0, 0] for number in range(20)] == [*range(20)]
    group.get_array("a0").attrs["new"] = 1
    assert dict(group.get_array("a2").attrs) == {}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"fill_value": 0.0}, {"fill_value": -0.0}),
        ({"fill_value": 1}, {"fill_value": float("nan")}),
        ({"dtype": "i4"}, {"dtype": "u4"}),
        ({"dtype": "<i4", "zarr_format": 2}, {"dtype": ">i4", "zarr_format": 2}),
        (
            {"dtype": np.dtype("<i4"), "zarr_format": 2},
            {"dtype": np.dtype(">i4"), "zarr_format": 2},
        ),
        ({"dimension_names": ["x"]}, {"dimension_names": [None]}),
        ({"chunks": 2}, {"chunks": [3]}),
        ({"chunks": [[1, 2]]}, {"chunks": [[2, 1]]}),
        ({"compressors": None}, {"compressors": "auto"}),
        ({"order": "C"}, {"order": "F"}),
    ],
)
def test_different_settings_give_different_metadata(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    for settings in (first, second, first, second):
        expected = build_array_meta(shape=3, **settings)
        assert repr(build_known_meta({"shape": 3, **settings})) == repr(expected)


@pytest.mark.parametrize(
    ("valid", "invalid"),
    [
        ({"shape": 1}, {"shape": True}),
        ({"shape": 1}, {"shape": 1.0}),
        ({"shape": 1, "chunks": 1}, {"shape": 1, "chunks": 1.0}),
        ({"shape": 1}, {"shape": 1, "attributes": {"a": object()}}),
    ],
)
def test_invalid_settings_raise_after_equal_valid_ones(
    valid: dict[str, Any], invalid: dict[str, Any]
) -> None:
    try:
        build_array_meta(**invalid)
    except Exception as error:  # without the memo
        expected: Exception | None = error
    else:
        expected = None
    build_known_meta(valid)
    if expected is None:
        build_known_meta(invalid)
        return
    with pytest.raises(type(expected)) as caught:
        build_known_meta(invalid)
    assert str(caught.value) == str(expected)
    assert isinstance(caught.value, (ArgumentError, TypeError))


def test_memo_is_bounded() -> None:
    for length in range(1000):
        build_known_meta({"shape": length})
    assert len(known_settings._built) <= 128


@pytest.mark.parametrize(
    "settings",
    [
        {"compressors": "zstd"},
        {"dtype": "bfloat16"},
        {"fill_value": np.float64(1)},
        {"shape": np.int64(3)},
        {"chunk_key_encoding": "v2"},
        {"chunk_key_encoding": ("default", ".")},
    ],
)
def test_names_that_programs_register_and_objects_are_built_each_time(
    settings: dict[str, Any],
) -> None:
    build_known_meta({"shape": 3, **settings})
    assert not known_settings._built


def test_setting_changed_by_registration_is_not_taken_from_memo(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A program may register its own class for the name of an encoding or a transformer."""

    class OwnKeys(chunk_key_encoding.V2Keys):
        pass

    build_known_meta({"shape": 3, "chunk_key_encoding": "v2"})
    monkeypatch.setitem(chunk_key_encoding._encodings, "v2", OwnKeys)
    meta = build_known_meta({"shape": 3, "chunk_key_encoding": "v2"})
    assert type(meta.chunk_key_encoding) is OwnKeys


@pytest.mark.parametrize("attributes", [None, {"a": [1]}])
def test_changed_metadata_dictionaries_affect_no_other_node(
    attributes: Any, zarr_format: Any
) -> None:
    """Nodes with equal metadata share the values of memos, and dictionaries are mutable."""
    group: Any = tessarr.create_group(None, zarr_format=zarr_format, attributes=attributes)
    for name in "ab":
        group.create_array(name, shape=3, attributes=attributes)
    for node in (group, group["a"], tessarr.open_array(group.store, path="a")):
        copied = node.metadata
        copied.attributes.setdefault("a", []).append(2)
        copied.attributes["new"] = 1
        copied.extra["new"] = 1
    group.create_array("c", shape=3, attributes=attributes)
    opened: Any = tessarr.open_group(group.store)
    for node in (group, opened, *(parent[name] for parent in (group, opened) for name in "abc")):
        assert dict(node.attrs) == (attributes or {})
        assert node.metadata.extra == {}
