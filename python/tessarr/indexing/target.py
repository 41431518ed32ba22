"""Where a selection is read to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tessarr.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from tessarr.indexing.selection import Selection
    from tessarr.types import Shape

__all__ = ["read_target"]


def read_target(
    selection: Selection, dtype: np.dtype[Any], out: npt.NDArray[Any] | None
) -> tuple[npt.NDArray[Any], Callable[[npt.NDArray[Any]], Any]]:
    """Return the buffer that the engine is to fill, and what makes the result of it.

    Parameters
    ----------
    selection
        What is read.
    dtype
        The data type of the array.
    out
        Where the user wants it: a writable array of the selection's shape and of
        `dtype`, with any strides. None for a new array.

    Raises
    ------
    ArgumentError
        If `out` does not fit.

    Examples
    --------
    >>> from tessarr.indexing import default
    >>> buffer, finish = read_target(default((1, None), (2, 3)), np.dtype("u1"), None)
    >>> buffer.shape, finish(buffer).shape
    ((3,), (1, 3))
    """
    if out is None:
        return np.empty(selection.buffer_shape, dtype), selection.result
    _check(out, selection.shape, dtype)
    buffer = out.reshape(selection.buffer_shape)
    if buffer.size == 0 or np.may_share_memory(buffer, out):
        return buffer, lambda _: out

    # Joint axes that the user has apart, and not contiguous.
    def copy(filled: npt.NDArray[Any]) -> npt.NDArray[Any]:
        out[...] = filled.reshape(out.shape)
        return out

    return buffer, copy


def _check(out: object, shape: Shape, dtype: np.dtype[Any]) -> None:
    if not isinstance(out, np.ndarray):
        raise ArgumentError(f"out is not a NumPy array but of type {type(out).__name__}")
    if out.shape != shape or out.dtype != dtype:
        raise ArgumentError(
            f"out has shape {out.shape} and data type {out.dtype}, "
            f"but the selection has shape {shape} and data type {dtype}",
            kind="shape_mismatch" if out.shape != shape else "cannot_cast",
        )
    if not out.flags.writeable:
        raise ArgumentError("out is not writable")
