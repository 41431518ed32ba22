"""Names for annotations: what functions take."""

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
"""Since when what is remembered is fresh; a number is seconds since 1970."""

DimSelectionLike: TypeAlias = Union[  # noqa: UP007 (it names itself)
    DimSelection, SupportsIndex, str, bytes, slice, Sequence["DimSelectionLike"]
]
"""Which dimensions are meant: what ``ts.d[...]`` takes."""

NumpyIndexTerm: TypeAlias = SupportsIndex | slice | EllipsisType | npt.ArrayLike | None
"""One item of an index."""

NumpyIndexingSpec: TypeAlias = NumpyIndexTerm | tuple[NumpyIndexTerm, ...]
"""What brackets take."""
