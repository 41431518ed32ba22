"""Views over a handle, or over a spec: `cast` and `downsample`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias, overload

from tessarr._safe_repr import safe_repr
from tessarr.format.registry import set_public_module
from tessarr.index_space.dimension_names import as_integer
from tessarr.tensorstore.drivers.cast.cast_driver import cast_handle
from tessarr.tensorstore.drivers.cast.cast_spec import CastSpec
from tessarr.tensorstore.drivers.downsample.downsample_driver import downsample_handle
from tessarr.tensorstore.drivers.downsample.downsample_spec import DownsampleSpec
from tessarr.tensorstore.handle.handle import TensorStore
from tessarr.tensorstore.schema.data_type import DTypeLike, dtype
from tessarr.tensorstore.spec.spec import Spec

__all__ = ["DownsampleMethod", "cast", "downsample"]

DataType = dtype

DownsampleMethod: TypeAlias = Literal["stride", "median", "mode", "mean", "min", "max"]
"""The reduction of a block to one element."""


@overload
def cast(base: TensorStore, dtype: DTypeLike) -> TensorStore: ...
@overload
def cast(base: Spec, dtype: DTypeLike) -> Spec: ...


def cast(base: TensorStore | Spec, dtype: DTypeLike) -> TensorStore | Spec:
    """Return a view with another data type, which can read and write.

    Parameters
    ----------
    base : TensorStore or Spec
        A handle, or a spec.
    dtype
        The data type of the view.

    Returns
    -------
    TensorStore or Spec
        The view reads if the base's elements convert to `dtype`, and writes if `dtype` converts
        back. Numbers convert as in C, without an error for values that do not fit.

    Raises
    ------
    ArgumentError
        If neither conversion exists.

    Examples
    --------
    >>> import tessarr.tensorstore as ts
    >>> view = ts.cast(ts.array([1.5, 2.5]), ts.int32)
    >>> view.read().result()
    array([1, 2], dtype=int32)
    """
    if isinstance(base, Spec):
        return CastSpec.from_base(base, DataType(dtype))
    if not isinstance(base, TensorStore):
        raise TypeError(f"cast takes a TensorStore or a Spec, not {type(base).__name__}")
    return cast_handle(base, DataType(dtype))


@overload
def downsample(
    base: TensorStore, downsample_factors: Iterable[int], method: DownsampleMethod
) -> TensorStore: ...
@overload
def downsample(base: Spec, downsample_factors: Iterable[int], method: DownsampleMethod) -> Spec: ...


def downsample(
    base: TensorStore | Spec, downsample_factors: Iterable[int], method: DownsampleMethod
) -> TensorStore | Spec:
    """Return a read-only view with one element for each block of elements.

    Parameters
    ----------
    base : TensorStore or Spec
        A handle, or a spec.
    downsample_factors
        The length of blocks along each dimension. Blocks start at multiples of this length.
    method
        The reduction of a block: its first element ("stride"), the mean, the median (the lower
        one), the mode (the most frequent element, and the least of several), the minimum or the
        maximum.

    Raises
    ------
    ArgumentError
        If the factors do not fit, or the data type does not support the method.

    Notes
    -----
    Blocks at the edges have fewer elements. Means of integers are rounded to the nearest integer,
    halves to the even one.

    Examples
    --------
    >>> import tessarr.tensorstore as ts
    >>> ts.downsample(ts.array([1, 2, 3, 6, 9]), [2], "mean").read().result()
    array([2, 4, 9])
    """
    if not isinstance(base, TensorStore | Spec):
        raise TypeError(f"downsample takes a TensorStore or a Spec, not {type(base).__name__}")
    if not isinstance(method, str):
        raise TypeError(f"a method is a string, not {safe_repr(method)}")
    factors = tuple(map(as_integer, downsample_factors))
    if isinstance(base, Spec):
        return DownsampleSpec.from_base(base, factors, method)
    return downsample_handle(base, factors, method)


set_public_module("tessarr.tensorstore", cast, downsample)
