"""Alignment of a source's dimensions with a target's in copies matches TensorStore's."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

import tessarr.tensorstore as ours

theirs = pytest.importorskip("tensorstore", reason="compared with TensorStore's own")


def _dims(draw: Random) -> tuple[list[str], list[int], list[int]]:
    """Draw labels, lengths and origins; dimensions of length 1 broadcast."""
    rank = draw.randint(1, 4)
    labels = [label if draw.random() < 0.6 else "" for label in draw.sample("xyzw", rank)]
    lengths = [draw.choice([1, 2, 2, 3]) for _ in range(rank)]
    return labels, lengths, [draw.randint(-2, 2) for _ in range(rank)]


def _view(ts: Any, values: Any, labels: list[str], origin: list[int]) -> Any:
    every = ts.d[:]
    return ts.array(values)[every.label[tuple(labels)].translate_to[tuple(origin)]]


def _copied(ts: Any, source: Any, target: Any) -> Any:
    labels, lengths, origin = source
    values = np.arange(np.prod(lengths)).reshape(lengths)
    into = np.full(target[1], -1)
    try:
        _view(ts, into, target[0], target[2]).write(_view(ts, values, labels, origin)).result()
    except ValueError:
        return ValueError
    return into.tolist()


def test_dimensions_match_by_label_or_from_end() -> None:
    draw = Random(17)
    copied = 0
    for _ in range(1200):
        source, target = _dims(draw), _dims(draw)
        if draw.random() < 0.8:  # lengths fit where labels are equal
            for k, label in enumerate(source[0]):
                if label in target[0] and label:
                    source[1][k] = target[1][target[0].index(label)]
        mine = _copied(ours, source, target)
        assert mine == _copied(theirs, source, target), (source, target)
        copied += mine is not ValueError
    assert copied > 200
