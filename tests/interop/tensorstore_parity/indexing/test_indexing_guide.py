"""TensorStore's page on indexing, section by section, with other expressions.

An expression returns a view of an array or of the index space. Both packages must return the same
domain, maps and elements, or the same class of error.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tessarr.tensorstore as ours

theirs: Any = pytest.importorskip("tensorstore", reason="the package tensorstore is absent")

EXPRESSIONS = {
    "one position": [
        "row[3]",
        "table[2]",
        "table[2, 1]",
        "table[np.int8(1), np.uint64(3)]",
        "below[-4]",
        "row[-1]",
        "row[7]",
        "table[0, 0, 0]",
        "space[-5]",
        "space[6]",
        "row[1.5]",
    ],
    "an interval": [
        "row[2:6]",
        "row[2:6][3]",
        "row[2:6][0]",
        "row[:4]",
        "row[4:]",
        "row[2:7:3]",
        "row[6:1:-2]",
        "row[::-1]",
        "row[5:5]",
        "row[3:9]",
        "row[-1:]",
        "row[::0]",
        "space[-7:3]",
        "space[:2].domain",
        "below[-5:-2]",
        "table[(1, 0):(3, 2)]",
        "table[1:(3, 4)]",
        "table[(0, 1):3:(2, 1)]",
        "table[[0, None]:[2, None]]",
        "table[(1, 1):(2, 3, 4)]",
        "row[np.int64(1):np.int16(4)]",
    ],
    "one more dimension": [
        "wide[ts.newaxis]",
        "wide[..., None]",
        "wide[:, None, 4, None]",
        "wide[None][2:9]",
        "table[None, 1].domain",
        "table[1, None, :2]",
    ],
    "what is left out": [
        "cube[..., 0]",
        "cube[1, ..., 0]",
        "cube[...]",
        "cube[()]",
        "cube[1, 0, 1, ...]",
        "cube[..., 1, ...]",
    ],
    "arrays of positions": [
        "row[[6, 0, 0]]",
        "row[np.array([[1, 2], [3, 4]], 'u1')]",
        "row[[]]",
        "row[[1, 99]]",
        "table[[2, 0, 1], [1, 1, 3]]",
        "table[[[2], [0]], [1, 2, 3]]",
        "table[[0, 1], [0, 1, 2]]",
        "cube[:, [0, 2], [1, 0]]",
        "cube[[0, 1], :, [1, 0]]",
        "cube[[0, 1], None, [2, 0]]",
        "cube[:, [0, 2], 1]",
        "cube[[0, 1], 1, [1, 0]]",
        "table[[1, 2]][[0, 0]]",
        "table[[1, 2], 1:3]",
    ],
    "arrays of truth": [
        "row[[True, False, False, True, False, False, True, False]]",
        "table[[[True] * 4, [False] * 4, [False, True, True, False]]]",
        "table[[True, False, True], [3, 0]]",
        "table[:, [False, True, True, False]]",
        "table[[True, False]]",
        "wide[:, True]",
        "wide[False]",
        "wide[:, True, [0, 2]]",
        "wide[:, False, []]",
        "row[np.zeros(8, bool)]",
    ],
    "vectorized": [
        "cube.vindex[:, [0, 2], [1, 0]]",
        "cube.vindex[0, :, [1, 0]]",
        "cube.vindex[[[0], [1]], :, [1, 0]]",
        "cube.vindex[[True, False], :, [1, 0]]",
    ],
    "outer": [
        "table.oindex[[2, 0], [1, 1, 3]]",
        "table.oindex[[[0, 1], [2, 2]], 1]",
        "cube.oindex[[1, 0], [False, True, True], [0]]",
        "table.oindex[[True, False, True], [1, 3]]",
        "wide.oindex[:, True]",
    ],
    "labels": [
        "named[ts.d['x'][1]]",
        "table[ts.d[:].label['y', 'x']]",
        "table[ts.d[0].label['y']][ts.d['y'][1:]].domain",
        "named.label['a', 'b', 'c']",
        "named[ts.d['x', 'z'].label['p', 'q']]",
        "named[ts.d[0, 1].label['a']]",
        "named[ts.d['nobody'][0]]",
    ],
    "diagonal": [
        "named[ts.d['x', 'z'].diagonal]",
        "table[ts.d[0, 1].diagonal]",
        "table[1:, 1:][ts.d[:].diagonal].domain",
    ],
    "moves": [
        "table[ts.d[:].translate_to[5, -2]]",
        "table.translate_to[3]",
        "table[ts.d[1].translate_by[-10]]",
        "table.translate_by[1, None]",
        "table[ts.d[0].translate_backward_by[4]]",
        "table.translate_backward_by[1, 2]",
        "wide[ts.d[0].translate_to[1]]",
        "table[ts.d[:].translate_by[1, 2, 3]]",
    ],
    "strides": [
        "row[ts.d[0].stride[3]]",
        "row[1:][ts.d[0].stride[2]]",
        "row[ts.d[0].stride[-2]]",
        "table[ts.d[:].stride[2, None]]",
        "row[ts.d[0].stride[0]]",
    ],
    "order of dimensions": [
        "named[ts.d['z', 'x'].transpose[0, 1]]",
        "named[ts.d['y'].transpose[-1]]",
        "named[ts.d[:].transpose[::-1]]",
        "named.T",
        "named.transpose([2, 0, 1])",
        "named.transpose(['z', 'x', 'y'])",
        "named[ts.d['x'].transpose[5]]",
        "named[ts.d['x', 'y'].transpose[1, 1]]",
    ],
    "implicit bounds": [
        "wide[ts.d[0].mark_bounds_implicit[False]]",
        "wide.mark_bounds_implicit[False].mark_bounds_implicit[True:]",
        "wide[ts.d[1].mark_bounds_implicit[False:True]]",
        "row.mark_bounds_implicit[True].domain",
        "space.mark_bounds_implicit[:True]",
    ],
    "brackets of expressions": [
        "table[ts.d[:].oindex[[2, 0], [3, 3, 1]]]",
        "table[ts.d[1, 0].vindex[[3, 1], [0, 2]]]",
        "cube[ts.d[0, 2][[1, 0], [0, 1]]]",
        "table[ts.d[:][1]]",
        "table[ts.d[:][1:3]]",
        "table[ts.d[0, -1][ts.newaxis]]",
        "table[ts.d[:][1, 2]]",
        "table[ts.d[:][1,]]",
        "table[ts.d[:][..., 1]]",
        "wide[ts.d[0, 2][ts.newaxis, 3]]",
        "wide[ts.d[1, 2][ts.newaxis, 0]]",
        "wide[ts.d['x'][ts.newaxis]]",
        "wide[ts.d[0][ts.newaxis][2:5].label['n']]",
        "wide[ts.d[0].label['n'][ts.newaxis]]",
        "wide[ts.d[:].oindex[True]]",
    ],
    "composed": [
        "named[ts.d['x', 'y'].diagonal.label['d'].transpose[-1]]",
        "named[ts.d['z', 'x'].oindex[1, [1, 0]].label['a']]",
        "named[ts.d['x', 'z'].transpose[2, 0].translate_to[9, 9].stride[1, 2]]",
    ],
    "dimensions": [
        "ts.d[2, 0]",
        "ts.d[1:, 'x']",
        "ts.d[[0, 'y'], ts.d[:2]]",
        "ts.d[0, 1] == ts.d[[0], 1]",
        "named[ts.d[-1][0]]",
        "named[ts.d[1:][0]]",
        "named[ts.d[[0, 'z']][0]]",
        "named[ts.d[0, 'x'][0, 0]]",
        "named[ts.d[3][0]]",
        "named[ts.d[-2:][ts.newaxis, ts.newaxis]].domain",
    ],
}


def names(ts: Any) -> dict[str, Any]:
    """Return the objects that expressions use."""
    cube = ts.array(np.arange(12, dtype="int32").reshape(2, 3, 2))
    return {
        "ts": ts,
        "np": np,
        "row": ts.array(np.arange(8, dtype="int32") * 10),
        "below": ts.array(np.arange(6, dtype="int32")).translate_to[-6],
        "table": ts.array(np.arange(12, dtype="int32").reshape(3, 4)),
        "cube": cube,
        "named": cube[ts.d[:].label["x", "y", "z"]],
        "space": ts.IndexTransform(input_shape=[6], implicit_lower_bounds=[True]),
        "wide": ts.IndexTransform(input_labels=["x", "y"]),
    }


def describe(ts: Any, text: str) -> tuple[Any, ...]:
    """Return a comparable description of an expression's result."""
    result = eval(text, names(ts))
    if not isinstance(result, ts.TensorStore):
        return (repr(result),)
    try:
        values = result.read().result()
    except (ValueError, IndexError) as error:  # an index array is checked on use
        return (str(result.domain), "ValueError" if isinstance(error, ValueError) else "IndexError")
    return (str(result.domain), values.dtype, values.tolist())


@pytest.mark.parametrize(
    "text", [text for part in EXPRESSIONS.values() for text in part], ids=lambda text: text
)
def test_expressions_match_tensorstore(text: str) -> None:
    try:
        expected = describe(theirs, text)
    except (ValueError, IndexError, TypeError) as error:
        with pytest.raises(type(error)):
            describe(ours, text)
    else:
        assert describe(ours, text) == expected


def test_assignments() -> None:
    """Assignment to any view changes the array."""
    for text in (
        "row[...] = 7",
        "row[2:5] = [1, 2, 3]",
        "row[::-2] = 4",
        "row[[0, 3]] = [5, 6]",
        "table[1] = table[0].read().result()",
        "table.vindex[[0, 2], [1, 1]] = 9",
        "table.oindex[[0, 2], [1, 3]] = [[1, 2], [3, 4]]",
        "named[ts.d['x', 'z'].diagonal] = 8",
        "table.T[0, :2] = 3",
        "table[1:, 1:] = table[0, 1:]",
    ):
        result = []
        for ts in (ours, theirs):
            these = names(ts)
            exec(text, these)
            array = these[text.split("[")[0].split(".")[0]]
            result.append(array.read().result().tolist())
        assert result[0] == result[1], text
