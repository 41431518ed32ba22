"""Alignment of the dimensions of a source with those of a target.

The rules are TensorStore's (index domain alignment). If either side has no labels at all,
dimensions match from the last one on. Otherwise equal labels match, and unlabelled dimensions match
from the last one on. Matching dimensions have the same size; the source is translated to the
target's indices. A source dimension of size 1 is broadcast and needs no match.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tessarr.errors import ArgumentError
from tessarr.index_space import IndexDomain, IndexTransform, OutputIndexMap

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt


__all__ = ["align_domain", "broadcast_values", "match_dimensions"]


def match_dimensions(source: Sequence[str], target: Sequence[str]) -> list[int | None]:
    """Return the matching target dimension of each source dimension, by labels.

    Examples
    --------
    >>> match_dimensions(["", ""], ["x", "y", "z"])
    [1, 2]
    >>> match_dimensions(["z", "x", "w"], ["x", "y", "z"])
    [2, 0, None]
    """
    if not any(source) or not any(target):
        first = len(target) - len(source)
        return [k + first if k + first >= 0 else None for k in range(len(source))]
    positions = {label: k for k, label in enumerate(target) if label}
    unlabelled = [k for k, label in enumerate(target) if not label]
    matches = [
        positions.get(label) if label else unlabelled.pop() if unlabelled else None
        for label in reversed(source)
    ]
    return matches[::-1]


def align_domain(source: IndexDomain, target: IndexDomain) -> IndexTransform:
    """Return the view of a source that has the domain of the target.

    Parameters
    ----------
    source, target
        The finite domains.

    Raises
    ------
    ArgumentError
        If the domains do not match.
    """
    maps = []
    matches = match_dimensions(source.labels, target.labels)
    for k, (match, dim) in enumerate(zip(matches, source._dims, strict=True)):
        if match is not None and target._dims[match].size == dim.size:
            offset = dim.inclusive_min - target._dims[match].inclusive_min
            maps.append(OutputIndexMap._along(match, offset))
        elif dim.size == 1:
            maps.append(OutputIndexMap._constant(dim.inclusive_min))
        else:
            counterpart = (
                "none of" if match is None else f"dimension {match} {target._dims[match]} of"
            )
            raise ArgumentError(
                f"dimension {k} {dim} of the source matches {counterpart} the target",
                kind="shape_mismatch",
            )
    return IndexTransform._of(target, tuple(maps))


def broadcast_values(values: npt.NDArray[Any], target: IndexDomain) -> npt.NDArray[Any]:
    """Return the values, broadcast to the shape of a domain without a copy.

    Raises
    ------
    ArgumentError
        If the values do not broadcast to the domain.
    """
    shape = target.shape
    if values.shape == shape:
        return values
    try:
        return np.broadcast_to(values, shape)
    except ValueError:
        finite = all(dim.finite for dim in target._dims)
        destination = f"a domain of shape {shape}" if finite else f"{target}, which is not finite"
        raise ArgumentError(
            f"values of shape {values.shape} cannot be written to {destination}",
            kind="shape_mismatch",
        ) from None
