"""Elements of NumPy arrays at the positions of a view, and drivers' arrays in memory."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from tessarr import _engine
from tessarr._engine import empty
from tessarr.errors import ArgumentError, OutOfMemoryError, SelectionError
from tessarr.index_space.indexable import strip_status_code
from tessarr.tensorstore.future.future import Future, spawn

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from tessarr.index_space import IndexTransform, View
    from tessarr.tensorstore.driver import Driver, OperationScope

__all__ = [
    "allocation_error",
    "assign_elements",
    "call_checked",
    "check_finite",
    "covers_chunk",
    "empty",
    "find_memory",
    "out_of_bounds_error",
    "select_elements",
    "start_view",
    "take_elements",
]

T = TypeVar("T")


def find_memory(
    driver: Driver, scope: OperationScope, *, write: bool = False
) -> npt.NDArray[Any] | None:
    """Return the driver's array in memory if it can be read, or written, directly; else None.

    Transactions do not cover memory, and objects are checked before a write: the driver does both.
    """
    memory = None if scope.transaction is not None else driver.memory
    if write and memory is not None and not (memory.flags.writeable and memory.dtype.kind != "O"):
        return None
    return memory


def start_view(
    driver: Driver, view: IndexTransform, scope: OperationScope
) -> Future[npt.NDArray[Any]]:
    """Start to read elements without a copy if they are in memory."""
    values = find_memory(driver, scope)
    if values is None:
        return driver.read(view, None, scope)
    return spawn(select_elements, values, view._as_view(), here=True)


def select_elements(values: npt.NDArray[Any], view: View) -> npt.NDArray[Any]:
    """Return the elements of a view: a NumPy view, or a copy if the view has index arrays.

    Parameters
    ----------
    values
        The base array; its indices start at 0.
    view
        A view of the axes of `values`.

    Raises
    ------
    ArgumentError
        If a position is outside the array, or a bound is infinite.

    Examples
    --------
    >>> import numpy as np
    >>> from tessarr.index_space import IndexDomain, IndexTransform
    >>> view = IndexTransform(IndexDomain(shape=[2, 3]))[:, ::-1].T
    >>> select_elements(np.arange(6).reshape(2, 3), view._as_view()).tolist()
    [[2, 5], [1, 4], [0, 3]]
    """
    return call_checked(_engine.apply_view, values, view)


def take_elements(
    values: npt.NDArray[Any], view: View, out: npt.NDArray[Any] | None
) -> npt.NDArray[Any]:
    """Return a copy of the elements of a view, in `out` if it is not None."""
    return call_checked(_engine.take, values, view, out)


def assign_elements(values: npt.NDArray[Any], view: View, items: npt.NDArray[Any]) -> None:
    """Store elements, of the shape of a view, at its positions."""
    call_checked(_engine.put, values, view, items)


def covers_chunk(view: View, domain: View) -> bool:
    """Return whether a view of a chunk, at its own origin, has all elements of the chunk."""
    if view.covers(domain):
        return True
    if prod(view.shape) < prod(domain.shape):
        return False
    mask = np.zeros(domain.shape, bool)
    assign_elements(mask, view, np.broadcast_to(np.True_, view.shape))
    return bool(mask.all())


def call_checked(work: Callable[..., T], *arguments: Any) -> T:
    """Call a function of elements, and convert errors of positions outside the domain.

    Raises
    ------
    ArgumentError
        If a position is outside the domain.
    """
    try:
        return work(*arguments)
    except SelectionError as error:
        raise out_of_bounds_error(error) from error


def out_of_bounds_error(error: SelectionError) -> ArgumentError:
    """Return the error for a view with positions outside the domain."""
    return ArgumentError(f"cannot read or write: {strip_status_code(error)}", kind="out_of_bounds")


def check_finite(view: IndexTransform) -> None:
    """Raise an error if a bound of the domain is infinite."""
    if not all(dim.finite for dim in view.domain._dims):
        raise _infinite_domain_error(view)


def allocation_error(error: Exception, view: IndexTransform) -> Exception:
    """Return the error for a view whose array cannot be allocated."""
    endless = not all(dim.finite for dim in view.domain._dims)
    return (
        _infinite_domain_error(view) if endless and isinstance(error, OutOfMemoryError) else error
    )


def _infinite_domain_error(view: IndexTransform) -> ArgumentError:
    return ArgumentError(f"the domain {view.domain} is not finite")
