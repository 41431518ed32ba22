"""Users' subclasses of the public classes."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import tessarr.tensorstore as ts

Stamp = ts.KvStore.TimestampedStorageGeneration


class Domain(ts.IndexDomain):
    """A subclass whose constructor has other parameters than its base class."""

    def __init__(self, length: int, note: str = "") -> None:
        super().__init__(shape=[length, length])
        self.note = [note]


class Transform(ts.IndexTransform):
    def __init__(self, *arguments: Any, note: str = "", **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.note = [note]


class Dim(ts.Dim):
    def __init__(self, end: int, note: str = "") -> None:
        super().__init__(1, end, label="x", implicit_upper=True)
        self.note = [note]


class Map(ts.OutputIndexMap):
    def __init__(self, items: Any, note: str = "") -> None:
        super().__init__(items, 5, index_range=ts.Dim(10))
        self.note = [note]


class Unit(ts.Unit):
    def __init__(self, note: str = "") -> None:
        super().__init__(4, "nm")
        self.note = [note]


class Generation(Stamp):
    def __init__(self, note: str = "") -> None:
        super().__init__("x", 5)
        self.note = [note]


class Result(ts.KvStore.ReadResult):
    def __init__(self, note: str = "") -> None:
        super().__init__("value", "a", Stamp("x", 5))
        self.note = [note]


class Range(ts.KvStore.KeyRange):
    def __init__(self, note: str = "") -> None:
        super().__init__("a", "b")
        self.note = [note]


class Layout(ts.ChunkLayout):
    def __init__(self, *, note: str = "") -> None:
        super().__init__(chunk_shape=[3, 4])
        self.note = [note]


class Grid(ts.ChunkLayout.Grid):
    def __init__(self, note: str = "") -> None:
        super().__init__(shape=[3, None], rank=2)
        self.note = [note]


class Schema(ts.Schema):
    def __init__(self, note: str = "") -> None:
        super().__init__(shape=[3, 4], dtype="int8")
        self.note = [note]


class Resources(ts.Context.Spec):
    def __init__(self, note: str = "") -> None:
        super().__init__({"cache_pool": {"total_bytes_limit": 5}})
        self.note = [note]


class Context(ts.Context):
    def __init__(self, note: str = "") -> None:
        super().__init__(Resources(), parent=ts.Context({"file_io_sync": False}))
        self.note = [note]


class Mode(ts.OpenMode):
    def __init__(self, note: str = "") -> None:
        super().__init__(create=True)
        self.note = [note]


class Named(ts.dtype):
    def __init__(self) -> None:
        super().__init__("int8")


class Codec(ts.CodecSpec):
    def __init__(self) -> None:
        super().__init__({"driver": "zarr3", "codecs": ["gzip"]})


DERIVED: list[tuple[Any, Any]] = [
    (Domain(3, note="n"), ts.IndexDomain(shape=[3, 3])),
    (Transform(input_shape=[3], note="n"), ts.IndexTransform(input_shape=[3])),
    (Dim(4, note="n"), ts.Dim(1, 4, label="x", implicit_upper=True)),
    (Map([[1, 2]], note="n"), ts.OutputIndexMap([[1, 2]], 5, index_range=ts.Dim(10))),
    (Unit(note="n"), ts.Unit("4 nm")),
    (Generation(note="n"), Stamp("x", 5)),
    (Result(note="n"), ts.KvStore.ReadResult("value", "a", Stamp("x", 5))),
    (Range(note="n"), ts.KvStore.KeyRange("a", "b")),
    (Layout(note="n"), ts.ChunkLayout(chunk_shape=[3, 4])),
    (Grid(note="n"), ts.ChunkLayout.Grid(shape=[3, None], rank=2)),
    (Schema(note="n"), ts.Schema(shape=[3, 4], dtype="int8")),
    (Resources(note="n"), ts.Context.Spec({"cache_pool": {"total_bytes_limit": 5}})),
    (Context(note="n"), ts.Context({"cache_pool": {"total_bytes_limit": 5}})),
    (Mode(note="n"), ts.OpenMode(create=True)),
]
IDS = [type(one).__name__ for one, _ in DERIVED]


@pytest.mark.parametrize(("derived", "plain"), DERIVED, ids=IDS)
def test_subclass_constructor_arguments_survive(derived: Any, plain: Any) -> None:
    assert derived.note == ["n"]
    assert repr(derived) == repr(plain)


@pytest.mark.parametrize(("derived", "plain"), DERIVED, ids=IDS)
def test_copies_keep_subclass_and_content(derived: Any, plain: Any) -> None:
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        restored = pickle.loads(pickle.dumps(derived, protocol))
        assert (type(restored), restored.note) == (type(derived), ["n"])
        assert repr(restored) == repr(plain)
    shallow, deep = copy.copy(derived), copy.deepcopy(derived)
    assert type(shallow) is type(deep) is type(derived)
    assert shallow.note is derived.note
    assert deep.note == ["n"]
    assert deep.note is not derived.note
    assert repr(shallow) == repr(deep) == repr(plain)


@pytest.mark.parametrize(("derived", "plain"), DERIVED, ids=IDS)
def test_plain_ones_are_copied_and_pickled(derived: Any, plain: Any) -> None:
    for other in (copy.copy(plain), copy.deepcopy(plain), pickle.loads(pickle.dumps(plain))):
        assert type(other) is type(plain)
        assert repr(other) == repr(plain)
        assert other is not plain


@pytest.mark.parametrize(
    ("derived", "plain"),
    [(Named(), ts.int8), (Codec(), ts.CodecSpec({"driver": "zarr3", "codecs": ["gzip"]}))],
)
def test_copies_of_immutable_objects_keep_class(derived: Any, plain: Any) -> None:
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        for instance in (derived, plain):
            restored = pickle.loads(pickle.dumps(instance, protocol))
            assert type(restored) is type(instance)
            assert restored == plain
    assert type(copy.copy(derived)) is type(copy.deepcopy(derived)) is type(derived)


def test_context_keeps_its_resources_in_pickle() -> None:
    """The pickle keeps its parent, and resources that it shares with other objects."""
    context = Context()
    originals = [context, context.parent, context["cache_pool"]]
    again, parent, shared = pickle.loads(pickle.dumps(originals))
    assert again.parent is parent
    assert again["cache_pool"].to_json() == shared.to_json() == {"total_bytes_limit": 5}
    assert again["cache_pool"] is shared


def test_copies_are_independent() -> None:
    dim = ts.Dim(3, label="x")
    copy.copy(dim).label = "y"
    assert dim.label == "x"
    items = pickle.loads(pickle.dumps(ts.OutputIndexMap([1, 2]))).index_array
    assert not items.flags.writeable
    assert items.dtype == np.int64


def test_uninitialised_domain_raises() -> None:
    class Forgetful(ts.IndexDomain):
        def __init__(self) -> None:
            pass

    with pytest.raises(TypeError, match=r"super\(\).__init__\(\) has to be called"):
        Forgetful().shape  # noqa: B018
    with pytest.raises(TypeError, match=r"super\(\).__init__\(\) has to be called"):
        Forgetful().translate_by[1]


def test_second_constructor_call_keeps_domain() -> None:
    """A domain is hashable, and other objects use it: a second constructor call has no effect."""
    domain = ts.IndexDomain(shape=[3])
    domain.__init__(shape=[4])  # type: ignore[misc]
    assert domain.shape == (3,)


class ReadingObject:
    """A number, a boolean or text that inspects an object during its own conversion."""

    def __init__(self, look: Callable[[], Any]) -> None:
        self.look = look

    def __index__(self) -> int:
        self.look()
        return 7

    def __float__(self) -> float:
        self.look()
        return 7.0

    def __bool__(self) -> bool:
        self.look()
        return True


class ReadingText(str):
    __slots__ = ("look",)
    look: Callable[[], Any]

    def encode(self, *_: Any) -> bytes:
        self.look()
        return b"y"


def begin(plain: Any) -> None:
    plain.__init__()


def compare(plain: Any) -> None:
    assert plain == plain


def set_again(plain: Any) -> None:
    reduced = plain.__reduce_ex__(4)
    if len(reduced) == 2:
        plain.__init__(*reduced[1])
    else:
        plain.__setstate__(reduced[2])


READS = [copy.copy, copy.deepcopy, pickle.dumps, repr, compare, begin, set_again]


@pytest.mark.parametrize("look", READS)
def test_argument_may_read_uninitialised_object(look: Callable[[Any], Any]) -> None:
    begun: list[tuple[Any, Any]] = [
        (ts.Dim(3), ts.Dim(7)),
        (ts.OutputIndexMap(3), ts.OutputIndexMap(7)),
        (ts.Unit(3), ts.Unit(7)),
    ]
    for plain, expected in begun:
        plain.__init__(ReadingObject(partial(look, plain)))
        assert plain == expected
    stamp, result = Stamp("x", 5), ts.KvStore.ReadResult("value", "x", Stamp("x", 5))
    text = ReadingText("x")
    text.look = lambda: look(stamp)
    stamp.__init__(text, ReadingObject(lambda: look(stamp)))  # type: ignore[misc]
    assert stamp == Stamp("y", 7)
    text.look = lambda: look(result)
    result.__init__("value", text)  # type: ignore[misc]
    assert result.value == b"y"


@pytest.mark.parametrize("look", READS)
def test_setter_value_reads_object(look: Callable[[Any], Any]) -> None:
    dim: Any = ts.Dim(0, 3)
    dim.implicit_lower = ReadingObject(lambda: look(dim))
    assert dim.implicit_lower
    dim.implicit_upper = ReadingObject(lambda: look(dim))
    assert dim.implicit_upper
    stamp: Any = Stamp("x", 5)
    stamp.time = ReadingObject(lambda: look(stamp))
    assert stamp.time == 7


@pytest.mark.parametrize("look", READS)
def test_operand_reads_object(look: Callable[[Any], Any]) -> None:
    dim, unit = ts.Dim(9), ts.Unit("4nm")
    assert ReadingObject(lambda: look(dim)) in dim
    factor: Any = ReadingObject(lambda: look(unit))
    assert isinstance(unit * factor, ts.Unit)
    assert isinstance(unit / factor, ts.Unit)


def test_released_value_reads_object() -> None:
    class Last(Stamp):
        def __del__(self) -> None:
            seen.append(repr(result))

    seen: list[str] = []
    result = ts.KvStore.ReadResult("value", "a", Last("x", 5))
    result.stamp = Stamp("y", 6)
    result.stamp = Last("z", 7)
    result.__init__()  # type: ignore[misc]
    assert len(seen) == 2
    assert "b'y'" in seen[0]
    assert "unspecified" in seen[1]
