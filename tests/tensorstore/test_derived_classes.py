"""Classes that users derive from those of the index space, and of keys and values."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import tessarr.tensorstore as ts

Stamp = ts.KvStore.TimestampedStorageGeneration


class Domain(ts.IndexDomain):
    """Is given something else than what it derives from."""

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


DERIVED: list[tuple[Any, Any]] = [
    (Domain(3, note="n"), ts.IndexDomain(shape=[3, 3])),
    (Transform(input_shape=[3], note="n"), ts.IndexTransform(input_shape=[3])),
    (Dim(4, note="n"), ts.Dim(1, 4, label="x", implicit_upper=True)),
    (Map([[1, 2]], note="n"), ts.OutputIndexMap([[1, 2]], 5, index_range=ts.Dim(10))),
    (Unit(note="n"), ts.Unit("4 nm")),
    (Generation(note="n"), Stamp("x", 5)),
    (Result(note="n"), ts.KvStore.ReadResult("value", "a", Stamp("x", 5))),
]
IDS = [type(one).__name__ for one, _ in DERIVED]


@pytest.mark.parametrize(("derived", "plain"), DERIVED, ids=IDS)
def test_they_call_the_constructor_with_arguments_of_their_own(derived: Any, plain: Any) -> None:
    assert derived.note == ["n"]
    assert repr(derived) == repr(plain)


@pytest.mark.parametrize(("derived", "plain"), DERIVED, ids=IDS)
def test_copies_are_of_the_class_and_keep_what_is_in_them(derived: Any, plain: Any) -> None:
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


def test_copies_change_alone() -> None:
    dim = ts.Dim(3, label="x")
    copy.copy(dim).label = "y"
    assert dim.label == "x"
    items = pickle.loads(pickle.dumps(ts.OutputIndexMap([1, 2]))).index_array
    assert not items.flags.writeable
    assert items.dtype == np.int64


def test_a_domain_that_is_not_begun_is_told() -> None:
    class Forgetful(ts.IndexDomain):
        def __init__(self) -> None:
            pass

    with pytest.raises(TypeError, match=r"super\(\).__init__\(\) has to be called"):
        Forgetful().shape  # noqa: B018
    with pytest.raises(TypeError, match=r"super\(\).__init__\(\) has to be called"):
        Forgetful().translate_by[1]


def test_a_domain_stays_what_it_is() -> None:
    """It is hashed, and others refer to it: to call its constructor again does nothing."""
    domain = ts.IndexDomain(shape=[3])
    domain.__init__(shape=[4])  # type: ignore[misc]
    assert domain.shape == (3,)
