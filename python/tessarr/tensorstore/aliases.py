"""Type aliases for annotations of the TensorStore interface."""

from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType
from typing import Literal, SupportsIndex, TypeAlias, Union

import numpy.typing as npt

from tessarr.index_space import DimSelection
from tessarr.tensorstore.future.future import FutureLike, T
from tessarr.tensorstore.schema.data_type import DTypeLike
from tessarr.tensorstore.views import DownsampleMethod

__all__ = [
    "DTypeLike",
    "DimSelectionLike",
    "DownsampleMethod",
    "FutureLike",
    "NumpyIndexTerm",
    "NumpyIndexingSpec",
    "RecheckCacheOption",
    "T",
]

RecheckCacheOption: TypeAlias = bool | Literal["open"] | float
"""The condition for fresh cached metadata or chunks; a number is seconds since 1970."""

DimSelectionLike: TypeAlias = Union[  # noqa: UP007 (the alias is recursive)
    DimSelection, SupportsIndex, str, bytes, slice, Sequence["DimSelectionLike"]
]
"""A selection of dimensions: an argument of ``ts.d[...]``."""

NumpyIndexTerm: TypeAlias = SupportsIndex | slice | EllipsisType | npt.ArrayLike | None
"""One item of an index."""

NumpyIndexingSpec: TypeAlias = NumpyIndexTerm | tuple[NumpyIndexTerm, ...]
"""An argument of brackets."""
