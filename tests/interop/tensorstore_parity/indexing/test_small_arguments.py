"""All small arguments, in turn: values and errors match TensorStore's.

Random programs rarely combine two mistakes or unusual values, whereas these tests try all small
arguments. Omitted are the guide's differences: 0-d arrays in place of lists, empty lists, and
expressions that crash TensorStore.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import tessarr.tensorstore as ours
from interop.tensorstore_parity.random_views import outcome

theirs = pytest.importorskip("tensorstore", reason="the package tensorstore is absent")

_INTEGERS = ["0", "-1", "(0,)", "[0]", "[0, 1]", "None", "[None]", "np.array([1])", "np.int8(1)"]
_SLICES = [":", "1:", "0:2", "::-1", "::1", "slice([0], [1])", "slice(None, None, [1])", "..."]
_ACTS = {
    "": [*_INTEGERS[:-2], *_SLICES, "(...,)", "(0, ...)", "(slice(0, 2),)"],
    ".vindex": [*_SLICES, "(...,)", "(0, ...)", "(slice(0, 2),)"],
    ".translate_to": _INTEGERS,
    ".translate_by": _INTEGERS,
    ".stride": _INTEGERS,
    ".label": ["'a'", "['a']", "('a',)", "b'a'", "np.array(['a'])", "'a', 'b'", "''", "0", "None"],
    ".transpose": ["0", "(0,)", "[0]", ":", "::-1", "'a'", "0, 1"],
    ".mark_bounds_implicit": [
        *("True", "False", "None", "True:True", "False:False", "True:False", ":", "True:", ":True"),
        *("1", "0", "1:1", "np.True_", "True:True:True", "'a'"),
    ],
}


def _differing(texts: Iterable[str]) -> Iterator[tuple[str, Any, Any]]:
    """Return the expressions with different results in the two packages."""
    for text in texts:
        mine, other = (outcome(partial(_describe_value, text, ts)) for ts in (ours, theirs))
        if mine != other:
            yield text, mine, other


def _describe_value(text: str, ts: Any) -> str:
    return repr(eval(text, {"ts": ts, "np": np}))


def _called(name: str, keywords: dict[str, list[str]], most: int) -> Iterator[str]:
    """Return the calls with up to `most` keywords, for all their values."""
    for count in range(most + 1):
        for names in itertools.combinations(keywords, count):
            for values in itertools.product(*(keywords[item] for item in names)):
                arguments = (f"{item}={value}" for item, value in zip(names, values, strict=True))
                yield f"{name}({', '.join(arguments)})"


@pytest.mark.parametrize("act", _ACTS)
def test_expression_equality_and_repr(act: str) -> None:
    all_ = [f"ts.d[0]{act}[{key}]" for key in _ACTS[act]]
    assert not list(_differing(all_))
    assert not list(_differing(f"{item} == {other}" for item in all_ for other in all_))


_NAMES = ["0", "-1", "1, 0", "'a'", "'b', 0", ":", "::-1", "[0]", "[]", "()", "0, 0", "3", "''"]


@pytest.mark.parametrize("of", ["", ", labels=['a', 'b']"])
def test_domains_have_parts(of: str) -> None:
    domain = f"ts.IndexDomain(shape=[2, 3]{of})"
    keys = [
        *_NAMES,
        *(f"ts.d[{item}]" for item in _NAMES),
        *(f"ts.d[{item}][0]" for item in _NAMES),
    ]
    assert not list(_differing(f"{domain}[{key}]" for key in keys))


@pytest.mark.parametrize("names", ["", "()", "0", ":"])
def test_vector_slice_length_sets_rank(names: str) -> None:
    ends = ["None", "0", "1", "[0]", "[1]", "[0, 0]", "(1,)"]
    views = [f"ts.IndexTransform(input_shape={[2, 3, 4][:rank]})" for rank in range(4)]
    keys = [f"slice({', '.join(key)})" for key in itertools.product(ends, repeat=3)]
    if names:
        keys = [f"ts.d[{names}][{key}]" for key in keys]
    assert not list(_differing(f"{view}[{key}]" for view in views for key in keys))


@pytest.mark.parametrize("by", ["oindex", "vindex"])
@pytest.mark.parametrize("key", ["ts.d[0][0]", "ts.IndexTransform(1)", "ts.IndexDomain(1)"])
def test_index_arrays_are_not_expressions(by: str, key: str) -> None:
    assert not list(_differing([f"ts.IndexTransform(1).{by}[{key}]"]))


@pytest.mark.parametrize("value", ["0", "1", "None", "1.5", "'a'", "[]", "np.True_", "()"])
def test_mark_bounds_implicit_uses_truth_value(value: str) -> None:
    change = "(setattr(dim, 'implicit_{0}', {1}), dim)[1]"
    texts = [
        f"(lambda dim: {change.format(side, value)})(ts.Dim(3, implicit_lower={before}))"
        for side in ("lower", "upper")
        for before in (True, False)
    ]
    assert not list(_differing(texts))


def test_transform_json_is_parsed() -> None:
    members = {
        "input_rank": ["0", "1", "None"],
        "input_inclusive_min": ["[0]", "['-inf']", "[[0]]", "0", "None", "[None]"],
        "input_exclusive_max": ["[3]", "['+inf']", "[['+inf']]", "None"],
        "input_shape": ["[]", "[3]", "[[3]]", "[-1]", "None"],
        "input_labels": ["['a']", "['']", "[1]", "'a'", "None"],
        "output": ["[]", "[{}]", "[{'input_dimension': 0}]", "[{'stride': 2}]", "{}", "None"],
    }
    texts = list(_called("dict", members, 3))
    assert not list(_differing(f"ts.IndexTransform(json={text})" for text in texts))
    domains = (text.replace("input_", "") for text in texts if "output" not in text)
    assert not list(_differing(f"ts.IndexDomain(json={text})" for text in domains))


def test_domain_intersections() -> None:
    dims = ["3", "0", "2, label='a'", "inclusive_min=-1, label='b'", "1, 4, implicit_lower=True"]
    lists = [[], *([dim] for dim in dims), *itertools.product(dims, repeat=2)]
    domains = [f"ts.IndexDomain([{', '.join(f'ts.Dim({dim})' for dim in item)}])" for item in lists]
    for item, other in itertools.product(domains, repeat=2):
        texts = [f"{item}.hull({other})", f"{item}.intersect({other})", f"{item}[{other}]"]
        assert not list(_differing(texts))


def test_output_index_maps() -> None:
    keywords = {
        "offset": ["None", "0", "-1", "'a'", "1.0"],
        "stride": ["None", "0", "-2", "2**63"],
        "input_dimension": ["None", "0", "-1", "2", "'a'"],
        "index_array": ["None", "[0, 1]", "[]", "5", "[[0], [1]]", "[1.0]", "[True]"],
        "index_range": ["None", "ts.Dim(1, 2)", "5"],
    }
    assert not list(_differing(_called("ts.OutputIndexMap", keywords, 4)))


def test_key_ranges() -> None:
    keys = ["b''", "b'a'", "'b'", "b'a\\xff'", "b'\\xff'", "None", "5", "b'a\\x00'"]
    ranges = [f"ts.KvStore.KeyRange({item}, {other})" for item in keys for other in keys]
    members = ["inclusive_min", "exclusive_max", "empty", "copy()"]
    assert not list(_differing(f"{item}.{member}" for item in ranges for member in members))
    assert not list(_differing(f"{item} == {other}" for item in ranges for other in ranges[::5]))


def test_grid_ranks() -> None:
    keywords = {
        "rank": ["None", "-1", "0", "2", "33"],
        "shape": ["[2]", "[2, -1]", "[0, None]"],
        "elements": ["0", "7", "-1"],
    }
    grids = _called("ts.ChunkLayout.Grid", keywords, 3)
    assert not list(_differing(f"{grid}.rank" for grid in grids))


@pytest.mark.parametrize("scheme", ["memory://", "file:///", "memory://a.zip|zip:"])
def test_percent_encoding(scheme: str) -> None:
    texts = itertools.product(["", "a", "%", "4", "1", "z"], repeat=3)
    urls = {f"{scheme}{''.join(text)}" for text in texts}
    assert not list(_differing(f"ts.KvStore.Spec({url!r})" for url in sorted(urls)))


def _describe(text: str, ts: Any) -> str | Exception:
    try:
        return _describe_value(text, ts)
    except (TypeError, ValueError, OverflowError) as error:
        return error


_FILLS = [
    *("0", "True", "-1", "1.5", "1j", "2 + 0j", "300", "2**70", "float('nan')", "{}", "[None]"),
    *("[1, 2]", "[1j, 2]", "[True, 2]", "'a'", "'7'", "'NaN'", "['a']", "b'a'", "[b'a']"),
    *("np.True_", "np.int8(3)", "np.array([1, 2])", "np.array([1.5])"),
    *("np.array(1)", "np.array(True)", "np.array('a')", "np.array(1, object)"),
]
_DTYPES = ["bool", "int4", "int8", "uint8", "int64", "float32", "bfloat16", "complex64"]


@pytest.mark.parametrize("dtype", [None, *_DTYPES, "string", "ustring", "json"])
def test_fill_value_conversion(dtype: str | None) -> None:
    """Except values that TensorStore truncates, and bytes, which have no JSON form."""
    ways = [
        "ts.Schema(dtype={0!r}, fill_value={1})",
        "ts.Schema(dtype={0!r}, schema=ts.Schema(fill_value={1}))",
        "ts.Schema(schema=ts.Schema(dtype={0!r}), fill_value={1})",
        "(lambda it: it.update(fill_value={1}) or it)(ts.Schema(dtype={0!r}))",
        "(lambda it: it.update(dtype={0!r}) or it)(ts.Schema(fill_value={1}))",
        "(lambda it: it.update(dtype={0!r}, fill_value={1}) or it)(ts.Spec({{'driver': 'zarr'}}))",
    ]
    texts = [way.format(dtype, fill) for way in ways for fill in _FILLS]
    odd = ("True_", "b'a'") if dtype == "json" else ()
    for text in texts:
        mine, other = (_describe(text, ts) for ts in (ours, theirs))
        if other in {"Schema(...)", "Spec(...)"} or any(
            item in text for item in odd
        ):  # it has no JSON
            continue
        if isinstance(other, Exception):
            assert isinstance(mine, type(other)), (text, mine, other)
        elif isinstance(mine, Exception):
            assert "does not fit" in str(mine), (text, mine, other)
        else:
            assert mine.replace("nan", "null") == other, text


def test_json_and_keywords_are_exclusive() -> None:
    """``None`` is JSON except as a schema; a keyword of None is a missing one."""
    names = ["Schema", "ChunkLayout", "ChunkLayout.Grid", "Unit", "IndexDomain", "IndexTransform"]
    keywords = {"Unit": "multiplier=3", "IndexTransform": "input_rank=1"}
    for name in names:
        keyword = keywords.get(name, "rank=1")
        forms = ["", "None", "json=None", keyword, f"json=None, {keyword}", f"json={{}}, {keyword}"]
        if name == "IndexTransform":
            forms += ["domain=None", f"domain=None, {keyword}", "json={'input_rank': 0}"]
        if name == "IndexDomain":
            forms += ["dimensions=None", f"dimensions=None, {keyword}", "json={'rank': 1}"]
        shown = ".to_json()" if name.endswith("Grid") else ""
        assert not list(_differing(f"ts.{name}({form}){shown}" for form in forms)), name


def test_dim_constructor() -> None:
    first = ["", "2", "None", "'a'", "''", "2, 3", "2, None", "None, 2", "None, None", "2, 'a'"]
    keywords = {
        "label": ["None", "''", "'x'", "5"],
        "size": ["None", "3"],
        "inclusive_min": ["None", "1"],
        "exclusive_max": ["None", "6"],
        "implicit_upper": ["True"],
    }
    arguments = [call.removeprefix("(") for call in _called("", keywords, 3)]
    texts = [
        f"ts.Dim({item}{', ' if item and rest != ')' else ''}{rest}"
        for item in first
        for rest in arguments
    ]
    assert not list(_differing(texts))


@pytest.mark.parametrize(
    "implicit", ["", ", implicit_upper_bounds=[1]", ", implicit_lower_bounds=[1]"]
)
def test_reversed_empty_views(implicit: str) -> None:
    """A step of -1 raises an error with an implicit upper bound, a step of -2 does not."""
    steps = ["::-1", "::-2", "::-3", "::2"]
    views = [
        f"ts.IndexTransform(input_inclusive_min=[{origin}], input_shape=[0]{implicit})"
        for origin in (-5, -1, 0, 1, 4)
    ]
    assert not list(_differing(f"{view}[{step}]" for view in views for step in steps))


def test_index_arrays_do_not_run_along_infinite_bounds() -> None:
    bounds = ["input_inclusive_min=[-2**62 + 1]", "input_inclusive_min=[0]"]
    ends = ["input_shape=[3]", "input_shape=[1]", "input_exclusive_max=[2**62]"]
    texts = [
        f"ts.IndexTransform({low}, {high}, output=[ts.OutputIndexMap(index_array={array})])"
        for low, high in itertools.product(bounds, ends)
        for array in ("[1]", "[1, 2, 3]", "[]")
    ]
    assert not list(_differing(texts))


def test_shapes_and_units_of_schemas_are_lists() -> None:
    values = ["'a'", "b'a'", "{}", "{1: 2}", "{1, 2}", "5", "['a']", "[1.0]", "[True]", "[None]"]
    values += ["np.array([1, 2])", "np.array([1.0])", "np.array(2)", "[2**63]", "[[1]]"]
    texts = [f"ts.Schema(shape={value})" for value in values]
    texts += [f"ts.Schema(dimension_units={value})" for value in ("'a'", "5", "{}", "['m']")]
    assert not list(_differing(texts))


def test_empty_filters_are_serialised() -> None:
    members = {"filters": ["[]", "None"], "compressor": ["None", "{'id': 'zlib'}"]}
    codecs = [call.replace("dict(", "dict(driver='zarr', ") for call in _called("dict", members, 2)]
    texts = [f"ts.CodecSpec({codec})" for codec in codecs]
    texts += [f"ts.Spec(dict(driver='zarr', schema=dict(codec={codec}))).codec" for codec in codecs]
    texts += [
        f"ts.Spec(dict(driver='zarr', metadata={call})).codec"
        for call in _called("dict", members, 2)
    ]
    assert not list(_differing(texts))


@pytest.mark.parametrize(
    "said", ["", "dtype='int8', fill_value=3", "chunk_layout=ts.ChunkLayout(chunk_elements=5)"]
)
@pytest.mark.parametrize("turned", ["T", "transpose()", "transpose(None)"])
def test_transpose_without_rank(said: str, turned: str) -> None:
    assert not [*_differing([f"ts.Schema({said}).{turned}"])]


@pytest.mark.parametrize("include_defaults", [False, True])
def test_empty_constraints_are_not_serialised(include_defaults: bool) -> None:
    layouts = ["{}", "{'rank': 1}", "{'write_chunk': {}}", "{'grid_origin': [None]}"]
    schemas = [f"{{'chunk_layout': {layout}, 'dtype': 'int8'}}" for layout in layouts]
    metadata = ["{'node_type': 'array'}", "{'zarr_format': 3}", "{'attributes': {}}", "{}"]
    specs = [f"{{'driver': 'zarr3', 'metadata': {item}}}" for item in metadata]
    built = [f"ts.Schema({json})" for json in schemas] + [f"ts.Spec({json})" for json in specs]

    def describe(ts: Any) -> list[Any]:
        return [eval(item, {"ts": ts}).to_json(include_defaults) for item in built]

    assert describe(ours) == describe(theirs)
