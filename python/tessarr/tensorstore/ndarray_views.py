"""Elements of NumPy arrays at the positions of a view; and those that drivers have in memory."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from tessarr import _engine
from tessarr._engine import empty
from tessarr.errors import ArgumentError, OutOfMemoryError, SelectionError
from tessarr.index_space.indexable import uncoded
from tessarr.tensorstore.future.spawn import start

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from tessarr.index_space import IndexTransform, View
    from tessarr.tensorstore.driver import Driver, Using
    from tessarr.tensorstore.future.future import Future

__all__ = [
    "assign",
    "check_finite",
    "checked",
    "copied",
    "covers",
    "empty",
    "look",
    "near",
    "outside",
    "overlaps_itself",
    "selected",
    "unmade",
]

T = TypeVar("T")


def near(driver: Driver, using: Using, *, write: bool = False) -> npt.NDArray[Any] | None:
    """Return the array that elements may be read from, or written to; None: there is none.

    Memory takes part in no transaction, and objects are checked before they are stored: the driver
    does either.
    """
    found = None if using.transaction is not None else driver.memory
    if write and found is not None and not (found.flags.writeable and found.dtype.kind != "O"):
        return None
    return found


def look(driver: Driver, view: IndexTransform, using: Using) -> Future[npt.NDArray[Any]]:
    """Start to read elements that are only looked at: they may stay where they are."""
    values = near(driver, using)
    if values is None:
        return driver.read(view, None, using)
    return start(selected, values, view._as_view(), here=True)


def selected(values: npt.NDArray[Any], view: View) -> npt.NDArray[Any]:
    """Return the elements of a view: where they are, or copied if it has index arrays.

    Parameters
    ----------
    values
        What is viewed; its indices begin at 0.
    view
        A view of the axes of `values`.

    Raises
    ------
    ArgumentError
        If a position is outside, or a bound is infinite.

    Examples
    --------
    >>> import numpy as np
    >>> from tessarr.index_space import IndexDomain, IndexTransform
    >>> view = IndexTransform(IndexDomain(shape=[2, 3]))[:, ::-1].T
    >>> selected(np.arange(6).reshape(2, 3), view._as_view()).tolist()
    [[2, 5], [1, 4], [0, 3]]
    """
    return checked(_engine.look, values, view)


def copied(values: npt.NDArray[Any], view: View, out: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
    """Return a copy of the elements of a view: `out`, if it is given."""
    return checked(_engine.take, values, view, out)


def assign(values: npt.NDArray[Any], view: View, items: npt.NDArray[Any]) -> None:
    """Store elements, of the shape of a view, at its positions."""
    checked(_engine.put, values, view, items)


def covers(view: View, domain: View) -> bool:
    """Return whether a view of a chunk, at its own origin, has all elements of the chunk."""
    if view.covers(domain):
        return True
    if prod(view.shape) < prod(domain.shape):
        return False
    found = np.zeros(domain.shape, bool)
    assign(found, view, np.broadcast_to(np.True_, view.shape))
    return bool(found.all())


def overlaps_itself(values: npt.NDArray[Any]) -> bool:
    """Return whether two elements of an array may share bytes."""
    return _engine.overlaps_itself(values)


def checked(work: Callable[..., T], *arguments: Any) -> T:
    """Do something with the elements at positions, which may be none.

    Raises
    ------
    ArgumentError
        If one is none.
    """
    try:
        return work(*arguments)
    except SelectionError as error:
        raise outside(error) from error


def outside(error: SelectionError) -> ArgumentError:
    """Return the error that a view has positions which are none."""
    return ArgumentError(f"cannot read or write: {uncoded(error)}", kind="out_of_bounds")


def check_finite(view: IndexTransform) -> None:
    """Raise an error if a bound of the domain is infinite."""
    if not all(dim.finite for dim in view.domain._dims):
        raise _endless(view)


def unmade(error: Exception, view: IndexTransform) -> Exception:
    """Return the error that is told where the elements of a view were to become an array."""
    endless = not all(dim.finite for dim in view.domain._dims)
    return _endless(view) if endless and isinstance(error, OutOfMemoryError) else error


def _endless(view: IndexTransform) -> ArgumentError:
    return ArgumentError(f"the domain {view.domain} is not finite")
