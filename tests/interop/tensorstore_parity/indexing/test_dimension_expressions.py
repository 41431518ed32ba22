"""Indexing matches TensorStore: the same domain and maps, or an error.

Omitted, because TensorStore crashes or contradicts its documentation: empty views of views with
index arrays (a segmentation fault), an ellipsis after another operation of an expression (another
result), negative steps from or to one bound if the other is implicit, and bytes as names of
dimensions in `d`, which count as numbers. For two mistakes in one expression, TensorStore may
report the other mistake.
"""

from __future__ import annotations

import itertools
import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tessarr import index_space
from tessarr.index_space import IndexTransform

theirs = pytest.importorskip("tensorstore", reason="the package tensorstore is absent")

ours = SimpleNamespace(
    Dim=index_space.Dim,
    IndexDomain=index_space.IndexDomain,
    IndexTransform=index_space.IndexTransform,
    d=index_space.d,
    newaxis=None,
)


class Cases:
    """Draws views and index operations as text, which both packages evaluate."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.marked = False
        """Whether the drawn expression changes implicit bounds."""

    def view(self) -> str:
        dims = ", ".join(self._dim(k) for k in range(self.draw.randint(1, 4)))
        return f"ts.IndexTransform(ts.IndexDomain([{dims}]))"

    def _dim(self, k: int) -> str:
        lower, size = self.draw.choice([0, 0, 0, -3, 5, -10]), self.draw.choice([1, 2, 3, 5, 9])
        label = self.draw.choice(["", "", "abcd"[k]])
        flags = [self.draw.random() < chance for chance in (0.25, 0.3)]
        return (
            f"ts.Dim(inclusive_min={lower}, size={size}, label={label!r}, "
            f"implicit_lower={flags[0]}, implicit_upper={flags[1]})"
        )

    def act(self, view: IndexTransform) -> str:
        dims = list(view.domain)
        self.marked = False
        if not dims:
            return "[None]"
        plain = [
            lambda: f"[{self._key(dims)}]",
            lambda: f".oindex[{self._key(dims)}]",
            lambda: f".vindex[{self._key(dims)}]",
            lambda: ".T",
            lambda: f".transpose({self.draw.sample(range(len(dims)), len(dims))})",
            lambda: f".{self._translation()}[{self._numbers(len(dims), none=True)}]",
            lambda: f".mark_bounds_implicit[{self._flags()}]",
            lambda: self._expression(dims),
            lambda: self._expression(dims),
            lambda: self._expression(dims),
        ]
        return self.draw.choice(plain)()

    def _translation(self) -> str:
        return self.draw.choice(["translate_to", "translate_by", "translate_backward_by"])

    def _flags(self) -> str:
        return self.draw.choice(["True", "False", "True:False", "False:True", ":True", "False:"])

    def _numbers(self, count: int, *, none: bool = False) -> str:
        least = -5 if not none else -7
        drawn = (self.draw.randint(least, 5) for _ in range(count))
        return ", ".join("None" if number < -5 else str(number) for number in drawn)

    def _index(self, dim: Any) -> int:
        slip = self.draw.random() < 0.06
        lower, upper = dim.inclusive_min, dim.exclusive_max - 1
        return self.draw.randint(lower - slip, max(lower, upper) + slip)

    def _slice(self, dim: Any) -> str:
        start = None if self.draw.random() < 0.4 else self._index(dim)
        stop = None if self.draw.random() < 0.4 else self._index(dim) + self.draw.randint(0, 1)
        step = self.draw.choice([None, None, None, 1, 2, 3, -1, -2, -3])
        implicit = self.marked or dim.implicit_lower or dim.implicit_upper
        if (step or 1) < 0 and implicit and (start is None) != (stop is None):
            step = None
        if start is not None and stop is not None and (start > stop) == ((step or 1) > 0):
            start, stop = stop, start
        ends = ":".join("" if end is None else str(end) for end in (start, stop))
        return ends if step is None else f"{ends}:{step}"

    def _array(self, dim: Any, shape: tuple[int, ...]) -> str:
        if self.draw.random() < 0.1 and dim.exclusive_max > 1:
            places = [self.draw.random() < 0.5 for _ in range(min(9, dim.exclusive_max))]
            return f"np.array({places}, dtype=bool)"
        items = [self._index(dim) for _ in range(int(np.prod(shape)))]
        return f"np.array({np.array(items).reshape(shape).tolist()}, dtype=np.int64)"

    def _key(self, dims: list[Any], *, whole: bool = False) -> str:
        shape = self.draw.choice([(2,), (3,), (2, 2), (), (2, 1)])
        parts = []
        for dim in dims[: len(dims) if whole else self.draw.randint(0, len(dims))]:
            form = self.draw.random()
            if form < 0.25:
                parts.append(str(self._index(dim)))
            elif form < 0.65:
                parts.append(self._slice(dim))
            else:
                parts.append(self._array(dim, shape))
            if not whole and self.draw.random() < 0.1:
                parts.insert(self.draw.randint(0, len(parts)), "None")
        if not parts or (not whole and self.draw.random() < 0.2):
            parts.append("...")
        return ", ".join(parts)

    def _expression(self, dims: list[Any]) -> str:
        rank = len(dims)
        chosen = self.draw.sample(range(rank), self.draw.randint(1, rank))
        names = [
            repr(dims[k].label)
            if dims[k].label and self.draw.random() < 0.5
            else str(self.draw.choice([k, k - rank]))
            for k in chosen
        ]
        text = f"ts.d[{', '.join(names)}]"
        for _ in range(self.draw.randint(1, 2)):
            count = len(chosen)
            form = self.draw.randint(0, 7)
            if form == 0 and dims[0] is not None:
                mode = self.draw.choice(["", ".oindex", ".vindex"])
                self.marked = "mark_bounds_implicit" in text
                text += f"{mode}[{self._key([dims[k] for k in chosen], whole=True)}]"
                break
            text += self._act_on(count, rank, form)
            if form == 5:
                chosen, rank = [0], rank - count + 1
                dims = [None] * rank
        return f"[{text}]"

    def _act_on(self, count: int, rank: int, form: int) -> str:
        if form == 1:
            return f".{self._translation()}[{self._numbers(count)}]"
        if form == 2:
            labels = (self.draw.choice(["", "stuvwxyz"[i]]) for i in range(count))
            return f".label[{', '.join(map(repr, labels))}]"
        if form == 3:
            strides = (self.draw.choice([1, 2, 3, -1, -2]) for _ in range(count))
            return f".stride[{', '.join(map(str, strides))}]"
        if form == 4:
            return f".transpose[{', '.join(map(str, self.draw.sample(range(rank), count)))}]"
        if form == 6:
            return f".transpose[{self.draw.randint(-rank, rank - 1)}]"
        return ".diagonal" if form == 5 else f".mark_bounds_implicit[{self._flags()}]"


def evaluated(text: str, library: Any, view: Any = None) -> Any:
    try:
        return eval(text, {"ts": library, "np": np, "view": view})
    except (IndexError, ValueError, TypeError) as error:
        return error


def plain(view: Any) -> dict[str, Any]:
    """Return the JSON of a view, with index arrays reduced along constant axes."""
    result = dict(view.to_json())
    for item in result.get("output", []):
        if "index_array" not in item:
            continue
        items = np.array(item["index_array"])
        for axis in range(items.ndim):
            first = items.take([0], axis)
            items = first if np.array_equal(items, np.broadcast_to(first, items.shape)) else items
        item["index_array"] = items.tolist()
    return result


@pytest.mark.parametrize("seed", range(0, 2400, 300))
def test_operations_match_tensorstore(seed: int) -> None:
    """Up to five index operations produce the same views, or both packages refuse them."""
    compared = 0
    for case in range(seed, seed + 300):
        cases = Cases(case)
        text = cases.view()
        mine, other = evaluated(text, ours), evaluated(text, theirs)
        for _ in range(5):
            act = cases.act(mine)
            new = evaluated(f"view{act}", ours, mine)
            if isinstance(new, IndexTransform) and any(dim.empty for dim in new.domain):
                break  # TensorStore may crash
            expected = evaluated(f"view{act}", theirs, other)
            text += f"\n    {act}"
            if isinstance(expected, Exception) or isinstance(new, Exception):
                same = isinstance(expected, Exception) and isinstance(new, Exception)
                assert same, f"{text}\n ours: {new}\n theirs: {expected}"
                continue
            assert plain(new) == plain(expected), text
            mine, other = new, expected
            compared += 1
    assert compared > 700


LISTED = "ts.IndexTransform(input_shape=[5, 4])"
PIECES = [
    f"{LISTED}[np.array([[3, 2], [1, 0]])][0:1]",
    f"{LISTED}[np.array([[3, 2], [1, 0]])][::2]",
    f"{LISTED}[np.array([[3, 2], [1, 0]])][ts.d[0].stride[2]]",
    f"{LISTED}[np.array([[3, 2]])]",
    f"{LISTED}.oindex[[3, 2], [1, 0], None][ts.d[0, 2].diagonal]",
    f"{LISTED}.oindex[[3, 2], :1][ts.d[0, 1].diagonal]",
    f"{LISTED}.oindex[[3], :1][ts.d[0, 1].diagonal]",
]


@pytest.mark.parametrize("piece", PIECES)
@pytest.mark.parametrize(
    "act",
    [
        *(
            "[:]",
            "[0:1]",
            "[0]",
            "[[0, 0]]",
            "[np.array([[0, 0]])]",
            "[[0, 0]][:1]",
            ".T[..., [0, 0]]",
        ),
        *(".translate_by[3][[3, 3]]", "[None][0, [0, 0]]", "[[0, 0]].mark_bounds_implicit[True]"),
        *(".mark_bounds_implicit[True]", "[ts.d[0].stride[2]][[0, 0]]", ".label['x'][[0, 0]]"),
    ],
)
def test_single_item_index_array_broadcasts(piece: str, act: str) -> None:
    mine, other = (
        evaluated(f"{piece}.translate_to[0]{act}", library) for library in (ours, theirs)
    )
    if isinstance(other, Exception):
        assert isinstance(mine, Exception), mine
    else:
        assert mine.to_json() == other.to_json()


ENDS = [None, *range(-4, 5)]
RANGES = [slice(start, stop, step) for start in ENDS for stop in ENDS for step in (None, 2, -1, -2)]


def in_brackets(range_: slice) -> str:
    """Return a range of dimensions as source text."""
    ends = (range_.start, range_.stop, range_.step)
    text = ":".join("" if end is None else str(end) for end in ends)
    return text.removesuffix(":") if range_.step is None else text


@pytest.mark.parametrize(
    "act",
    [
        *("ts.d[R].translate_by[5]", "ts.d[R].transpose[0]", "ts.d[0,R].transpose[-1]"),
        *("ts.d[:].transpose[R]", "ts.d[:0].transpose[R]", "ts.d[0].transpose[R]"),
        *("ts.d[R][ts.newaxis]", "ts.d[R][ts.newaxis,]", "ts.d[R][ts.newaxis,...]"),
        *("ts.d[R][1,ts.newaxis]", "ts.d[R][...,ts.newaxis,ts.newaxis]", "ts.d[R,0][ts.newaxis]"),
    ],
)
@pytest.mark.parametrize("rank", range(4))
def test_ranges_of_dimensions_equal_tensorstore(rank: int, act: str) -> None:
    views = [library.IndexTransform(input_shape=range(3, 3 + rank)) for library in (ours, theirs)]
    for item in RANGES:
        text = f"view[{act.replace('R', in_brackets(item))}]"
        mine, other = (
            evaluated(text, library, view)
            for library, view in zip((ours, theirs), views, strict=True)
        )
        if isinstance(other, Exception):
            assert isinstance(mine, IndexError), text
        else:
            assert plain(mine) == plain(other), text


@pytest.mark.parametrize(
    "act",
    [
        *("view[range(2)]", "view[memoryview(b'ab')]", "view[range(0)]", "view[np.zeros(0)]"),
        *(
            "view[range(2):3]",
            "view[(0, 1):range(2, 4)]",
            "view[{0, 1}]",
            "view[{0: 1}]",
            "view[1.0]",
        ),
        *("view[ts.d[0, 1][np.array(1)]]", "view[ts.d[0, 1].vindex[np.array(1)]]"),
        *(
            "view[ts.d[0].label[b'q']]",
            "view[ts.d[0, 1].label['p', b'q']]",
            "view[ts.d[0].label[1]]",
        ),
        *("view[ts.d[0].mark_bounds_implicit[1.5]]", "view[ts.d[0].mark_bounds_implicit['x']]"),
        *("view[ts.d[0].mark_bounds_implicit[[]]]", "view.mark_bounds_implicit[0.0]"),
        *("view.mark_bounds_implicit[np.ones(2)]", "view.mark_bounds_implicit[:np.ones(2)]"),
        *("view[b'ab':(3, 4)]", "view['ab':(3, 4)]", "view[(0, 0):b'ab']", "view[:b'ab']"),
        *("view.translate_by[b'ab']", "view.translate_by[np.array([1, 2], np.int8)]"),
        *("view.translate_to[np.array([1, 2])]", "view[ts.d[:].stride[np.array([1, 2])]]"),
        *("view.translate_to[np.array([1, None])]", "view.translate_to[np.ones(2)]"),
        *("view[ts.d[:].translate_to[np.ones(1, int)]]", "view.translate_by[np.ones((1, 2), int)]"),
        *("view[ts.d[0, 1].transpose[[0]]]", "view[ts.d[()].transpose[[5]]]", "view.domain[b'y']"),
        *("ts.IndexTransform(1)[::-2]", "ts.IndexTransform(1)[:3:-2]", "ts.IndexTransform(1)[::2]"),
        *("ts.IndexTransform(1)[3::2]", "ts.IndexTransform(1)[::-1]"),
    ],
)
def test_bracket_keys_match_tensorstore(act: str) -> None:
    mine, other = (
        evaluated(act, library, library.IndexTransform(input_shape=[4, 5], input_labels=["x", "y"]))
        for library in (ours, theirs)
    )
    if isinstance(other, Exception):
        assert isinstance(mine, type(other))
    else:
        assert repr(mine) == repr(other)


@pytest.mark.parametrize(
    "dims", [None, *itertools.permutations(range(3), 2), *itertools.permutations(range(3))]
)
def test_index_array_axes_match_tensorstore(dims: tuple[int, ...] | None) -> None:
    """The axes come first if anything separates the arrays, even an empty ellipsis."""
    views = [library.IndexTransform(input_shape=[2, 3, 2]) for library in (ours, theirs)]
    array, compared = np.array([1]), 0
    for terms in itertools.product([array, 0, True, ..., slice(None), None], repeat=4):
        mine, other = (
            _taken(library, view, dims, terms)
            for library, view in zip((ours, theirs), views, strict=True)
        )
        if other is None or mine is None:
            assert other is mine, terms
        elif any(term is array for term in terms):
            assert repr(mine) == repr(other), terms
            compared += 1
    assert compared > 30


def _taken(library: Any, view: Any, dims: Any, terms: Any) -> Any:
    try:
        return view[terms if dims is None else library.d[dims][terms]]
    except IndexError:
        return None


@pytest.mark.parametrize("items", ["[5]", "[[5]]", "[5, 6]", "5", "[]"])
@pytest.mark.parametrize("key", ["array", "..., array", "..., array, 0", "0:0, array, array"])
def test_index_arrays_of_constant_dimensions_match_tensorstore(items: str, key: str) -> None:
    """A position outside a dimension is reported if another dimension follows it."""
    outputs = [[], ["offset"], ["offset", 0], ["offset", 1]]
    for output, by in itertools.product(outputs, ["", ".oindex", ".vindex"]):
        maps = [{"offset": 4} if item == "offset" else {"input_dimension": item} for item in output]
        json = {"input_shape": [2, 3, 4], "output": maps}
        text = f"view{by}[{key}]".replace("array", f"np.array({items}, int)")
        mine, other = (
            evaluated(text, library, library.IndexTransform(json=json))
            for library in (ours, theirs)
        )
        if isinstance(other, Exception):
            assert isinstance(mine, type(other)), (text, json)
        else:
            assert repr(mine) == repr(other), (text, json)
