"""Any object as an argument has a result or one short error."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import tessarr.tensorstore as ts
from tessarr.errors import TessarrError

DEPTH = 100_000


class SilentError(Exception):
    """Raised by ``__repr__``."""


class OwnError(Exception):
    """Raised by methods of conversion."""


class Mute:
    """An object whose representation raises an error."""

    def __repr__(self) -> str:
        raise SilentError

    __str__ = __repr__


class Torn(Mute):
    """An object whose text has lone surrogates."""

    def __repr__(self) -> str:
        return "\ud800"

    __str__ = __repr__


class Refusing(Mute):
    """An object whose conversion methods all fail."""

    def __index__(self) -> int:
        raise OwnError

    __len__ = __float__ = __bool__ = __int__ = __index__

    def __iter__(self) -> Any:
        raise OwnError

    def __getitem__(self, key: Any) -> Any:
        raise OwnError


class MuteText(str):
    """Text whose representation raises an error."""

    __slots__ = ()
    __repr__ = __str__ = Mute.__repr__


class MuteNumber(int):
    """A number whose representation raises an error."""

    __repr__ = __str__ = Mute.__repr__


def _deep(wrap: Callable[[Any], Any]) -> Any:
    value: Any = 0
    for _ in range(DEPTH):
        value = wrap(value)
    return value


HUGE = 10**5000

POOL: dict[str, Any] = {
    "deep list": _deep(lambda inner: [inner]),
    "deep tuple": _deep(lambda inner: (inner,)),
    "deep dict": _deep(lambda inner: {"a": inner}),
    "huge": HUGE,
    "hugely negative": -HUGE,
    "many digits": MuteNumber(2**63),
    "surrogate": "\ud800",
    "surrogates of bytes": b"\xff".decode("utf-8", "surrogateescape"),
    "not UTF-8": b"\xff",
    "mute": Mute(),
    "torn": Torn(),
    "refusing": Refusing(),
    "mute text": MuteText("x"),
    "mute class": type("\ud7ffm", (), {"__repr__": Mute.__repr__}),
    "long text": "x" * 10**5,
    "long list": [0] * 300,
    "nul": "a\0b",
    "nan": float("nan"),
    "infinite": float("inf"),
    "complex": 1j,
    "objects": np.array([HUGE, "\ud800", Mute()], object),
    "itself": [],
    "nothing": (),
    "ellipsis": ...,
    "slice": slice(HUGE, Mute(), "\ud800"),
}
POOL["itself"].append(POOL["itself"])
WITHIN: list[Callable[[Any], Any]] = [
    lambda value: value,
    lambda value: [value],
    lambda value: [0, value],
    lambda value: (value, value),
    lambda value: {"rank": value},
]

DOMAIN = ts.IndexDomain(shape=[3, 4], labels=["x", "y"])
VIEW = ts.IndexTransform(DOMAIN)
STORE = ts.array(np.zeros((3, 4), "i4"))
KEYS = ts.KvStore.open("memory://").result()
SPEC: dict[str, Any] = {"driver": "zarr3", "kvstore": "memory://"}
DOCUMENT = ts.open({"driver": "json", "kvstore": "memory://a"}).result()


ACTS = "label translate_to translate_by translate_backward_by oindex vindex mark_bounds_implicit"
ACTS_OF_SOME = f"{ACTS} stride transpose"
KEYWORDS: dict[Callable[..., Any], str] = {
    ts.IndexDomain: """
        rank inclusive_min exclusive_max inclusive_max shape labels implicit_lower_bounds
        implicit_upper_bounds dimensions json""",
    ts.IndexTransform: """
        input_rank output domain input_inclusive_min input_exclusive_max input_inclusive_max
        input_shape input_labels implicit_lower_bounds implicit_upper_bounds json""",
    ts.Dim: """
        inclusive_min exclusive_max inclusive_max size label implicit_lower implicit_upper""",
    ts.OutputIndexMap: "offset input_dimension index_array",
    ts.Unit: "unit multiplier json",
    ts.ChunkLayout: """
        json rank inner_order grid_origin chunk_shape read_chunk_shape write_chunk_elements""",
    ts.Schema: """
        json rank dtype domain shape chunk_layout codec fill_value dimension_units schema""",
    ts.OpenMode: "open create delete_existing assume_metadata",
    ts.Transaction: "atomic repeatable_read",
    ts.KvStore.KeyRange: "inclusive_min exclusive_max",
    ts.KvStore.TimestampedStorageGeneration: "generation time",
    ts.KvStore.ReadResult: "state value stamp",
    partial(ts.Spec, SPEC): """
        open_mode open create delete_existing assume_metadata rank dtype domain shape chunk_layout
        codec fill_value dimension_units schema kvstore path context recheck_cached
        recheck_cached_data minimal_spec""",
    partial(ts.array, [1]): "dtype copy write context",
    partial(ts.concat, [STORE]): "axis",
    partial(ts.stack, [STORE]): "axis",
    partial(ts.downsample, STORE, [1, 1]): "method",
    partial(KEYS.read, "a"): "byte_range if_equal if_not_equal staleness_bound",
    STORE.read: "order",
    STORE.spec: "open_mode minimal_spec",
    STORE.resize: "inclusive_min exclusive_max",
    STORE.storage_statistics: "query_not_stored",
}
MEMBERS = """
    rank inclusive_min exclusive_max inclusive_max shape labels dtype domain chunk_layout codec
    fill_value dimension_units driver kvstore metadata schema transform context create
    recheck_cached_data chunk read_chunk grid_origin inner_order output input_rank path base"""
OF_JSON = (ts.IndexDomain, ts.Schema, ts.Spec, ts.ChunkLayout, ts.Context, ts.CodecSpec)


def _by_keyword(make: Callable[..., Any], name: str) -> Callable[[Any], Any]:
    return lambda value: make(**{name: value})


def _by_member(make: Callable[..., Any], name: str) -> Callable[[Any], Any]:
    return lambda value: make({name: value})


def _by_act(of: Any, name: str) -> Callable[[Any], Any]:
    return lambda value: getattr(of, name)[value]


def _by_expression(name: str) -> Callable[[Any], Any]:
    return lambda value: VIEW[getattr(ts.d[0], name)[value]]


def _in_map(name: str) -> Callable[[Any], Any]:
    members = {"index_array": [0, 1]}
    return lambda value: ts.IndexTransform(
        json={"input_shape": [2], "output": [{**members, name: value}]}
    )


def _name(make: Any) -> str:
    make = getattr(make, "func", make)
    return str(getattr(make, "__qualname__", make))


CALLS: dict[str, Callable[[Any], Any]] = {
    **{
        f"{_name(make)} {one}": _by_keyword(make, one)
        for make, names in KEYWORDS.items()
        for one in names.split()
    },
    **{
        f"{_name(make)} {{{one}}}": _by_member(make, one)
        for make in OF_JSON
        for one in MEMBERS.split()
    },
    **{
        f"{one} of JSON": _in_map(one)
        for one in ("offset", "stride", "index_array", "index_array_bounds", "input_dimension")
    },
    "labels of JSON": lambda value: ts.IndexDomain(json={"labels": value, "rank": 2}),
    "maps of JSON": lambda value: ts.IndexTransform(json={"input_rank": 1, "output": value}),
    "map of JSON": lambda value: ts.IndexTransform(json={"input_rank": 1, "output": [value]}),
    "Dim": ts.Dim,
    "Dim, second": lambda value: ts.Dim(1, value),
    "Dim.label": lambda value: setattr(ts.Dim(3), "label", value),
    "Dim.implicit_lower": lambda value: setattr(ts.Dim(3), "implicit_lower", value),
    "Dim.hull": ts.Dim(3).hull,
    "in Dim": lambda value: value in ts.Dim(3),
    "Dim ==": lambda value: ts.Dim(3) == value,
    "OutputIndexMap": ts.OutputIndexMap,
    "index_range": lambda value: ts.OutputIndexMap([0, 1], index_range=value),
    "Unit, second": lambda value: ts.Unit(1, value),
    "Unit *": lambda value: ts.Unit("nm") * value,
    "Unit /": lambda value: ts.Unit("nm") / value,
    "Unit ==": lambda value: ts.Unit("nm") == value,
    "d": lambda value: ts.d[value],
    "d applied": lambda value: DOMAIN[ts.d[value].label["a"]],
    "d[]": lambda value: ts.d[0][value],
    **{f"d.{one}": _by_act(ts.d[0], one) for one in ACTS_OF_SOME.split()},
    **{f"d.{one} applied": _by_expression(one) for one in ACTS_OF_SOME.split()},
    **{f"domain.{one}": _by_act(DOMAIN, one) for one in ACTS.split()},
    **{f"transform.{one}": _by_act(VIEW, one) for one in ACTS.split()},
    **{f"store.{one}": _by_act(STORE, one) for one in ACTS.split()},
    "domain[]": lambda value: DOMAIN[value],
    "transform[]": lambda value: VIEW[value],
    "transform()": VIEW,
    "store[]": lambda value: STORE[value],
    "store[] =": lambda value: STORE.__setitem__(value, 1),
    "transpose": DOMAIN.transpose,
    "hull": DOMAIN.hull,
    "intersect": DOMAIN.intersect,
    "maps[]": lambda value: VIEW.output[value],
    "dtype": ts.dtype,
    "CodecSpec": ts.CodecSpec,
    "Context": ts.Context,
    "Context.Spec": ts.Context.Spec,
    "Context[]": lambda value: ts.Context()[value],
    "Spec": ts.Spec,
    "Schema": ts.Schema,
    "ChunkLayout": ts.ChunkLayout,
    "ChunkLayout.Grid": ts.ChunkLayout.Grid,
    "attributes": lambda value: ts.Spec({**SPEC, "metadata": {"attributes": {"a": value}}}),
    "names of attributes": lambda value: ts.Spec({**SPEC, "metadata": {"attributes": {value: 1}}}),
    "document": lambda value: DOCUMENT.write(value).result(),
    "array of JSON": lambda value: ts.array(value, dtype=ts.json),
    "open": ts.open,
    "open context": lambda value: ts.open(SPEC, context=value),
    "cast": lambda value: ts.cast(STORE, value),
    "downsample": lambda value: ts.downsample(STORE, value, "mean"),
    "stack": ts.stack,
    "overlay": ts.overlay,
    "KvStore.open": ts.KvStore.open,
    "KvStore.Spec": ts.KvStore.Spec,
    "KeyRange, second": lambda value: ts.KvStore.KeyRange("a", value),
    "read": KEYS.read,
    "write": lambda value: KEYS.write("a", value),
    "write key": lambda value: KEYS.write(value, b""),
    "list": KEYS.list,
    "delete_range": KEYS.delete_range,
    "keys[]": lambda value: KEYS[value],
    "in keys": lambda value: value in KEYS,
    "keys /": lambda value: KEYS / value,
    "keys +": lambda value: KEYS + value,
    "with_transaction": KEYS.with_transaction,
    "store.with_transaction": STORE.with_transaction,
    "store.astype": STORE.astype,
}


@pytest.mark.parametrize("name", CALLS)
def test_invalid_argument_has_single_short_error(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    unraised: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", unraised.append)
    faults = []
    for kind, value in POOL.items():
        for index, within in enumerate(WITHIN):
            fault = _fault(CALLS[name], within(value))
            if fault:
                faults.append(f"{kind}, {index}: {fault}")
    assert faults == []
    assert unraised == []


def _fault(make: Callable[[Any], Any], value: Any) -> str:
    """Return the problem with an outcome; "" if the outcome is correct."""
    try:
        built = make(value)
        if isinstance(built, ts.Future | ts.WriteFutures):
            built = built.result()
    except OwnError:  # the object's own
        return ""
    except Exception as error:
        if type(error) is not TypeError and not isinstance(error, TessarrError):
            return f"{type(error).__name__}"
        if isinstance(error, RecursionError | UnicodeError):
            return f"{type(error).__name__}"
        try:
            text = str(error)
            text.encode()
        except Exception as other:
            return f"{type(error).__name__} is not told: {type(other).__name__}"
        return f"{len(text)} letters" if len(text) > 1500 else "" if text else "no letters"
    try:
        repr(built)
    except SilentError:  # the object is in it
        return ""
    except Exception as error:
        description = f"a {type(built).__name__} that is not shown: {type(error).__name__}"
        return "" if built is value else description
    return ""
