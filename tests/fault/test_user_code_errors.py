"""Exceptions of user-written codecs and stores propagate with a note on the location."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

import tessarr
from tessarr.codec import BytesBytesCodec, register_codec
from tessarr.errors import ArgumentError, DataError


class OddError(Exception):
    """An exception class that Tessarr does not know."""


@register_codec
@dataclass(frozen=True, slots=True)
class FailingCodec(BytesBytesCodec):
    """Codec that changes nothing or raises an error."""

    name: ClassVar[str] = "test.moody"
    raises: ClassVar[dict[str, BaseException]] = {}

    def encode(self, data: Any, /) -> bytes:
        if "encode" in self.raises:
            raise self.raises["encode"]
        return bytes(data)

    def decode(self, data: Any, /, out: Any = None) -> bytes:
        del out
        if "decode" in self.raises:
            raise self.raises["decode"]
        return bytes(data)


@pytest.fixture(autouse=True)
def _calm() -> Iterator[None]:
    FailingCodec.raises.clear()
    yield
    FailingCodec.raises.clear()


def array(**settings: Any) -> tessarr.Array:
    """Return an array of ones with two chunks, at the path g/a."""
    created = tessarr.create_array(
        None,
        path="g/a",
        shape=4,
        chunks=2,
        dtype="i4",
        **{"compressors": FailingCodec(), **settings},
    )
    created[:] = 1
    return created


ACTIONS: dict[str, tuple[str, Callable[[tessarr.Array], Any]]] = {
    "read": ("decode", lambda a: a[3]),
    "read by a future": ("decode", lambda a: a.read(slice(2, None)).result(30)),
    "points": ("decode", lambda a: a[[3, 2]]),
    "outer": ("decode", lambda a: a.oindex[[3]]),
    "conversion": ("decode", np.asarray),
    "write of a part": ("decode", lambda a: a.__setitem__(3, 2)),
    "write": ("encode", lambda a: a.__setitem__(slice(2, 4), 2)),
    "write by a future": ("encode", lambda a: a.write(slice(2, 4), 2).result(30)),
    "append": ("encode", lambda a: a.append([7, 8, 9])),
    "shrinking": ("decode", lambda a: a.resize(3)),
}


@pytest.mark.parametrize("error", [OddError("x"), ValueError("x"), KeyError("x"), MemoryError("x")])
@pytest.mark.parametrize("action", ACTIONS)
def test_codec_error_reaches_caller(action: str, error: BaseException) -> None:
    """The same exception object has a note with codec, chunk and key; stored values remain."""
    a = array(compressors=["zstd", FailingCodec()])
    when, act = ACTIONS[action]
    error.__notes__ = []
    FailingCodec.raises[when] = error
    with pytest.raises(type(error)) as caught:
        act(a)
    assert caught.value is error
    number = {"append": 2, "conversion": 0}.get(action, 1)
    expected = f'raised in test.moody, codec 2 of 2, for chunk ({number},) (key "g/a/c/{number}")'
    assert error.__notes__ == [expected]
    FailingCodec.raises.clear()
    assert a[:3].tolist() == [1, 1, 1]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
def test_codec_system_exit_ends_program(error: BaseException) -> None:
    """Exceptions that are no `Exception` propagate, too."""
    a = array()
    FailingCodec.raises["decode"] = error
    with pytest.raises(type(error)) as caught:
        a[:]
    assert caught.value is error


def test_codec_data_error_names_chunk() -> None:
    """The raised DataError has key, chunk and codec, and the codec's error as its cause."""
    a = array()
    damage = DataError("the sum is wrong", kind="checksum_mismatch")
    FailingCodec.raises["decode"] = damage
    with pytest.raises(DataError) as caught:
        a[3]
    error = caught.value
    assert (error.kind, error.key, error.chunk) == ("checksum_mismatch", "g/a/c/1", (1,))
    assert (error.codec, error.__cause__) == ("test.moody", damage)
    assert str(error).startswith('cannot decode chunk (1,) (key "g/a/c/1"): test.moody, codec 1 of')


def test_errors_inside_shards_name_shard() -> None:
    """Key and chunk in the error are those of the shard."""
    a = array(shards=4)
    FailingCodec.raises["decode"] = OddError("x")
    with pytest.raises(OddError) as caught:
        a[3]
    assert any('for chunk (0,) (key "g/a/c/0")' in note for note in caught.value.__notes__)


class Flaky(MutableMapping[str, bytes]):
    """Mapping that raises an error for keys with a certain suffix."""

    def __init__(self) -> None:
        self.values_: dict[str, bytes] = {}
        self.bad: str | None = None
        self.error: BaseException = OddError("x")

    def _look(self, key: str) -> str:
        if self.bad is not None and key.endswith(self.bad):
            raise self.error
        return key

    def __getitem__(self, key: str) -> bytes:
        return self.values_[self._look(key)]

    def __setitem__(self, key: str, value: bytes) -> None:
        self.values_[self._look(key)] = value

    def __delitem__(self, key: str) -> None:
        del self.values_[self._look(key)]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_)

    def __len__(self) -> int:
        return len(self.values_)


REQUESTS: dict[str, tuple[str, Callable[[tessarr.Array], Any]]] = {
    "read": ("c/1", lambda a: a[:]),
    "read by a future": ("c/1", lambda a: a.read(...).result(30)),
    "write": ("c/1", lambda a: a.__setitem__(slice(2, 4), 2)),
    "write of a part": ("c/1", lambda a: a.__setitem__(3, 2)),
    "write of fill, which deletes": ("c/1", lambda a: a.__setitem__(slice(2, 4), 0)),
    "open": ("zarr.json", lambda a: tessarr.open(a.store, "r", path="g/a")),
    "attributes": ("a/zarr.json", lambda a: a.attrs.update(x=1)),
    "resize": ("a/zarr.json", lambda a: a.resize(9)),
    "members": ("a/zarr.json", lambda a: list(tessarr.open_group(a.store, path="g").arrays())),
}


@pytest.mark.parametrize("error", [OddError("x"), TimeoutError("x"), PermissionError("x")])
@pytest.mark.parametrize("request_", REQUESTS)
def test_store_error_reaches_caller(request_: str, error: BaseException) -> None:
    """The same object propagates, with a note that names the key; only KeyError means absent."""
    flaky = Flaky()
    a = tessarr.create_array(flaky, path="g/a", shape=4, chunks=2, dtype="i4")
    a[:] = 1
    flaky.bad, act = REQUESTS[request_]
    flaky.error = error
    error.__notes__ = []
    with pytest.raises(type(error)) as caught:
        act(a)
    assert caught.value is error
    assert any(f'{flaky.bad}"' in note for note in error.__notes__), error.__notes__
    assert error.__notes__[0].startswith("raised for ")
    flaky.bad = None
    assert a[:].tolist() == [1, 1, 1, 1]


def test_store_key_error_means_absent() -> None:
    """A KeyError of the store means an absent chunk, which reads as the fill value."""
    flaky = Flaky()
    a = tessarr.create_array(flaky, path="g/a", shape=4, chunks=2, dtype="i4", fill_value=7)
    a[:] = 1
    flaky.bad = "c/1"
    for error in (KeyError("gone"), FileNotFoundError("gone")):
        flaky.error = error
        assert a[:].tolist() == [1, 1, 7, 7]


class UnpicklableObject:
    """Object whose pickling can fail."""

    raises: ClassVar[Exception | None] = None

    def __reduce__(self) -> Any:
        if self.raises is not None:
            raise self.raises
        return _create_reluctant, ()

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise OddError("no array")


def _create_reluctant() -> UnpicklableObject:
    if UnpicklableObject.raises is not None:
        raise UnpicklableObject.raises
    return UnpicklableObject()


def objects(codec: Any) -> tessarr.Array:
    """Return an array of objects, two in each chunk."""
    return tessarr.create_array(
        None, shape=4, chunks=2, dtype=object, zarr_format=2, filters=[codec]
    )


def test_object_error_while_encoding_reaches_caller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same exception propagates, and nothing is stored."""
    with tessarr.options(allow_pickle=True):
        a = objects({"id": "pickle"})
        a[:] = [1, 2, 3, 4]
        monkeypatch.setattr(UnpicklableObject, "raises", OddError("not today"))
        with pytest.raises(OddError, match="not today"):
            a[:] = [5, 6, 7, UnpicklableObject()]
        assert a[:].tolist() == [1, 2, 3, 4]


def test_pickle_error_while_decoding_is_data_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the chunk, and the exception is in its chain of causes."""
    with tessarr.options(allow_pickle=True):
        a = objects({"id": "pickle"})
        a[:] = [1, 2, 3, UnpicklableObject()]
        monkeypatch.setattr(UnpicklableObject, "raises", OddError("not today"))
        with pytest.raises(DataError, match="not today") as caught:
            a[:]
        assert (caught.value.chunk, caught.value.codec) == ((1,), "pickle")
        assert a[:2].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("codec", "value", "error"),
    [
        ({"id": "json2"}, object(), TypeError),
        ({"id": "msgpack2"}, object(), TypeError),
        ({"id": "vlen-utf8"}, 5, ArgumentError),
        ({"id": "vlen-array", "dtype": "<i4"}, [[1]], ValueError),
        ({"id": "vlen-array", "dtype": "<i4"}, UnpicklableObject(), OddError),
    ],
)
def test_unencodable_object_stores_nothing(codec: Any, value: Any, error: type[Exception]) -> None:
    """The elements before the invalid one are not stored either."""
    if codec["id"] == "msgpack2":
        pytest.importorskip("msgpack")
    a = objects(codec)
    before = a.store.list()
    values = np.empty(4, object)
    values[:] = [None] * 4
    values[3] = value
    with pytest.raises(error):
        a[:] = values
    assert a.store.list() == before
