"""Every exception of a public call is a `TessarrError`, or Python's TypeError for a wrong class."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr
from tessarr.array import keywords
from tessarr.errors import TessarrError


class Hostile:
    """An object that no function accepts, and whose text raises an error."""

    def __repr__(self) -> str:
        return "Hostile()"


def bad_values() -> dict[str, Any]:
    """Return values that no parameter, or only a few, of Tessarr accepts."""
    nested: list[Any] = []
    for _ in range(100):
        nested = [nested]
    return {
        "None": None,
        "False": False,
        "minus one": -1,
        "large": 2**70,
        "huge": 10**400,
        "float": 1e20,
        "nan": float("nan"),
        "complex": 1j,
        "empty text": "",
        "text": "no such thing",
        "surrogate": "\ud800",
        "NUL": "a\0b",
        "dots": "../..",
        "bytes": b"\xff",
        "list": [1, "x", None],
        "nested": nested,
        "mapping": {"a": 1},
        "mapping of objects": {1: Hostile()},
        "tuple": (-5, 2**64),
        "slice": slice("a", None, 0),
        "ellipsis": ...,
        "array": np.array([1.5, np.nan]),
        "objects": np.array([None, Hostile()], object),
        "records": np.zeros(2, [("a", "i4")]),
        "times": np.array(["NaT"], "M8[s]"),
        "masked": np.ma.array([1, 2], mask=[0, 1]),
        "class": Hostile,
        "object": Hostile(),
        "function": len,
    }


ARRAY = {"shape": (4, 6), "dtype": "i4", "chunks": (2, 3)}


def an_array(**settings: Any) -> tessarr.Array:
    return tessarr.create_array(tessarr.stores.MemoryStore(), **{**ARRAY, **settings})


def a_group() -> tessarr.Group:
    group = tessarr.create_group(tessarr.stores.MemoryStore())
    group.create_array("x", **ARRAY)
    group.create_group("g")
    return group


def a_view() -> Any:
    return an_array().lazy


GOOD: dict[str, Any] = {
    "shape": (4, 6),
    "data": lambda: np.ones((4, 6), "i4"),
    "a": an_array,
    "arr": lambda: np.ones((4, 6), "i4"),
    "name": "x",
    "path": None,
    "value": 1,
    "selection": (0, 0),
    "fill_value": 1,
    "source": "x",
    "dest": "y",
    "axis": 0,
    "mask": lambda: np.ones((4, 6), bool),
    "names": "a",
    "dtype": "i4",
}
"""Values of required arguments that are not under test; functions create new values."""

SKIPPED = {
    "blosc",  # modules
    "codecs",
    "errors",
    "storage",
    "stores",
    "tensorstore",
    "testing",
    "configure",  # changes the process
    "Array",
    "Group",
    "AsyncArray",
}


def calls_of(function: Callable[..., Any], first: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield each parameter's name, and a call with that parameter and the required parameters."""
    parameters = inspect.signature(function).parameters
    plain = [p for p in parameters.values() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    others = {n for p in parameters.values() if p.kind is p.VAR_KEYWORD for n in SETTINGS}
    for name in [p.name for p in plain] + sorted(others - {p.name for p in plain}):

        def call(value: Any, name: str = name) -> Any:
            keywords = {k: v() if callable(v) else v for k, v in first.items() if k in parameters}
            for p in plain:
                if p.default is p.empty and p.name not in keywords and p.name != name:
                    good = GOOD.get(p.name)
                    keywords[p.name] = good() if callable(good) else good
            return function(**{**keywords, name: value})

        yield name, call


SETTINGS = sorted(keywords.SETTING_NAMES)
STORE = {"store": tessarr.stores.MemoryStore, "shape": (4, 6)}


def functions() -> list[Any]:
    result = []
    for name in tessarr.__all__:
        public = getattr(tessarr, name)
        if name not in SKIPPED and inspect.isfunction(public):
            result.append(pytest.param(lambda public=public: public, STORE, id=name))
    for make, kind in ((an_array, "Array"), (a_group, "Group"), (a_view, "LazyArray")):
        owner = type(make())
        for name in dir(owner):
            if name.startswith("_") or not inspect.isfunction(getattr(owner, name)):
                continue
            result.append(
                pytest.param(lambda m=make, n=name: getattr(m(), n), {}, id=f"{kind}.{name}")
            )
    return result


def is_of_python(error: Exception) -> bool:
    """Return whether the error is Python's or NumPy's own for an invalid argument."""
    return isinstance(error, TypeError) or "truth value of an array" in str(error)


OF_OTHERS = {"synchronizer", "dest", "dest_sel", "source_sel", "NumPyProtocol.write_direct.source"}
"""Parameters whose objects Tessarr calls: their errors pass unchanged."""


def drain(result: Any) -> None:
    """Wait for the result of a future, or exhaust a generator."""
    if hasattr(result, "result"):
        result.result()
    elif inspect.isgenerator(result):
        list(result)


@pytest.mark.slow
@pytest.mark.parametrize(("bound", "first"), functions())
def test_bad_argument_raises_error_of_tessarr(
    bound: Callable[[], Callable[..., Any]],
    first: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each parameter in turn has an invalid value; the error is Tessarr's own or a TypeError."""
    folder = tmp_path / "a" / "b" / "c"  # some values are paths of nodes that the call replaces
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    wrong = []
    owner = bound().__qualname__
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, _ in list(calls_of(bound(), first)):
            for label, value in bad_values().items():
                call = dict(calls_of(bound(), first))[name]
                try:
                    drain(call(value))
                except TessarrError:
                    pass
                except Exception as error:
                    if OF_OTHERS & {name, f"{owner}.{name}"} or is_of_python(error):
                        continue
                    wrong.append(f"{name}={label}: {type(error).__name__}: {error}"[:200])
    assert wrong == []


OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "getitem": lambda v: an_array()[v],
    "setitem key": lambda v: an_array().__setitem__(v, 1),
    "setitem value": lambda v: an_array().__setitem__((slice(2), 0), v),
    "oindex": lambda v: an_array().oindex[v],
    "oindex pair": lambda v: an_array().oindex[v, 0],
    "vindex": lambda v: an_array().vindex[v],
    "blocks": lambda v: an_array().blocks[v],
    "set oindex": lambda v: an_array().oindex.__setitem__(([0, 1], 0), v),
    "set vindex": lambda v: an_array().vindex.__setitem__(([0, 1], 0), v),
    "set blocks": lambda v: an_array().blocks.__setitem__((0, 0), v),
    "lazy key": lambda v: an_array().lazy[v],
    "lazy value": lambda v: an_array().lazy.__setitem__(0, v),
    "fill value": lambda v: setattr(an_array(), "fill_value", v),
    "float value": lambda v: an_array(dtype="f4").__setitem__(..., v),
    "boolean value": lambda v: an_array(dtype="?").__setitem__(..., v),
    "complex value": lambda v: an_array(dtype="c8").__setitem__(..., v),
    "time value": lambda v: an_array(dtype="M8[s]").__setitem__(..., v),
    "text value": lambda v: an_array(dtype=str).__setitem__(0, v),
    "bytes value": lambda v: an_array(dtype=bytes).__setitem__(0, v),
    "short text value": lambda v: an_array(dtype="U3").__setitem__(0, v),
    "short bytes value": lambda v: an_array(dtype="S3").__setitem__(0, v),
    "record value": lambda v: an_array(dtype=[("a", "i4"), ("b", "U2")]).__setitem__(0, v),
    "field value": lambda v: an_array(dtype=[("a", "i4"), ("b", "U2")]).__setitem__("a", v),
    "json value": lambda v: an_array(
        dtype=object, object_codec=tessarr.codecs.JSON(), zarr_format=2
    ).__setitem__((0, 0), v),
    "ragged value": lambda v: an_array(dtype="array:<i4", zarr_format=2).__setitem__((0, 0), v),
    "attribute name": lambda v: an_array().attrs.__setitem__(v, 1),
    "attribute value": lambda v: an_array().attrs.__setitem__("a", v),
    "attributes": an_array().attrs.update,
    "attribute": lambda v: an_array().attrs[v],
    "member": lambda v: a_group()[v],
    "membership": lambda v: v in a_group(),
    "member value": lambda v: a_group().__setitem__("y", v),
    "member name": lambda v: a_group().__setitem__(v, [1, 2]),
    "del member": lambda v: a_group().__delitem__(v),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_bad_operand_raises_error_of_tessarr(name: str) -> None:
    """Brackets and assignments follow the rules of arguments."""
    wrong = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for label, value in bad_values().items():
            try:
                OPERATIONS[name](value)
            except TessarrError:
                pass
            except Exception as error:
                if is_of_python(error):
                    continue
                wrong.append(f"{label}: {type(error).__name__}: {error}"[:200])
    assert wrong == []
