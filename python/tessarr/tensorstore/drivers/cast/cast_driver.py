"""The driver ``cast``: a view with another data type."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from tessarr import _engine
from tessarr.errors import ArgumentError, TessarrError
from tessarr.tensorstore.driver import Driver, OperationScope, ResizeRequest
from tessarr.tensorstore.drivers.cast.conversion import find_conversion
from tessarr.tensorstore.future.combine import convert_result
from tessarr.tensorstore.future.future import NOTHING, Future, failed
from tessarr.tensorstore.future.write_futures import WriteFutures
from tessarr.tensorstore.handle.handle import TensorStore, build_handle
from tessarr.tensorstore.ndarray_views import (
    find_memory,
    select_elements,
    start_view,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from tessarr.index_space import IndexTransform
    from tessarr.tensorstore.schema.data_type import dtype as DataType  # noqa: N812
    from tessarr.tensorstore.transaction.transaction import Transaction

__all__ = ["CastDriver", "cast_handle"]


def cast_handle(base: TensorStore, data_type: DataType) -> TensorStore:
    """Return a view of a handle with another data type.

    Raises
    ------
    ArgumentError
        If neither conversion exists.
    """
    driver = CastDriver(base._driver, data_type)
    mode = "".join(
        letter
        for letter, is_possible in (("r", driver.readable), ("w", driver.writable))
        if is_possible and letter in base.mode
    )
    if base.mode and not mode:
        raise driver.unsupported_error()
    return build_handle(driver, base._view, mode, base.transaction)


class CastDriver(Driver):
    """Converts the elements of another driver.

    Parameters
    ----------
    of
        The base.
    data_type
        The data type of the view.
    """

    __slots__ = ("_backward", "_forward", "of")

    name = "cast"

    def __init__(self, of: Driver, data_type: DataType) -> None:
        self.of = of
        self.dtype = data_type
        self._forward = find_conversion(of.dtype, data_type)
        self._backward = find_conversion(data_type, of.dtype)
        if self._forward is None and self._backward is None:
            raise self.unsupported_error()

    domain: Any = property(attrgetter("of.domain"))
    stale_documents: Any = property(attrgetter("of.stale_documents"))
    storage_ids: Any = property(attrgetter("of.storage_ids"))
    storage_statistics: Any = property(attrgetter("of.storage_statistics"))
    resizable: Any = property(attrgetter("of.resizable"))
    write_chunk_shape: Any = property(attrgetter("of.write_chunk_shape"))
    chunk_layout: Any = property(attrgetter("of.chunk_layout"))
    codec: Any = property(attrgetter("of.codec"))
    dimension_units: Any = property(attrgetter("of.dimension_units"))
    kvstore: Any = property(attrgetter("of.kvstore"))

    @property
    def readable(self) -> bool:
        """Whether the base's elements convert to the view's data type."""
        return self._forward is not None and self.of.readable

    @property
    def writable(self) -> bool:
        """Whether the view's elements convert to the base's data type."""
        return self._backward is not None and self.of.writable

    def refresh_bounds(
        self, view: IndexTransform, scope: OperationScope
    ) -> tuple[Driver, IndexTransform]:
        """Return a view with the current bounds of the base."""
        of, base_view = self.of.refresh_bounds(view, scope)
        return self._rebase(of), base_view

    def with_staged_bounds(self, transaction: Transaction) -> Driver:
        """Return a view of the base with the bounds that a transaction has staged."""
        return self._rebase(self.of.with_staged_bounds(transaction))

    def read(
        self, view: IndexTransform, out: npt.NDArray[Any] | None, scope: OperationScope
    ) -> Future[npt.NDArray[Any]]:
        """Read elements of the base, and convert them."""
        forward = self._forward
        if forward is None:
            return failed(self.unsupported_error())
        if self.of.dtype == self.dtype:
            return self.of.read(view, out, scope)

        return convert_result(start_view(self.of, view, scope), lambda values: forward(values, out))

    def write(
        self, view: IndexTransform, values: npt.NDArray[Any], scope: OperationScope
    ) -> WriteFutures:
        """Convert elements, and write them to the base."""
        backward = self._backward
        if backward is None:
            raise self.unsupported_error(back=True)
        try:
            unique = _unbroadcast(values)  # converts repeated elements once
            target = self._find_target(view, unique, values, scope)
            items = backward(unique, target)
            if target is None:
                return self.of.write(view, np.broadcast_to(items, values.shape), scope)
            return WriteFutures._of(NOTHING, NOTHING)
        except TessarrError as error:
            return WriteFutures._of(failed(error), failed(error))

    def _find_target(
        self,
        view: IndexTransform,
        unique: npt.NDArray[Any],
        values: npt.NDArray[Any],
        scope: OperationScope,
    ) -> npt.NDArray[Any] | None:
        """Return the elements in memory that a write may convert in place, without a copy."""
        if unique.shape != values.shape or view._as_view().has_index_arrays:
            return None
        memory = find_memory(self.of, scope, write=True)
        if memory is None:
            return None
        target = select_elements(memory, view._as_view())
        # The last of several writes to one element wins, and the values may be the same memory.
        if _engine.overlaps_itself(target) or np.may_share_memory(unique, target):
            return None
        return target

    def unsupported_error(self, *, back: bool = False) -> ArgumentError:
        """Return the error for a missing conversion."""
        names = [self.of.dtype.name, self.dtype.name]
        source, target = reversed(names) if back else names
        return ArgumentError(f"elements of {source} do not convert to {target}", kind="cannot_cast")

    def resolve(self, scope: OperationScope) -> Future[Driver]:
        """Read the current bounds of the base."""
        return convert_result(self.of.resolve(scope), self._rebase)

    def resize(self, request: ResizeRequest, scope: OperationScope) -> Future[Driver]:
        """Change the bounds of the base."""
        return convert_result(self.of.resize(request, scope), self._rebase)

    def _rebase(self, of: Driver) -> Driver:
        return self if of is self.of else CastDriver(of, self.dtype)

    @property
    def url(self) -> str:
        """The URL that opens the view again."""
        return f"{self.of.url}|cast:{self.dtype.name}"

    @property
    def fill_value(self) -> npt.NDArray[Any] | None:
        """The fill value of the base, converted."""
        fill = self.of.fill_value
        return None if fill is None or self._forward is None else self._forward(np.asarray(fill))

    def base_of(self, view: IndexTransform) -> TensorStore:
        """Return the same view of the base."""
        return build_handle(self.of, view)


def _unbroadcast(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    key = tuple(
        slice(0, 1) if stride == 0 and size > 1 else slice(None)
        for stride, size in zip(values.strides, values.shape, strict=True)
    )
    return values[(*key, ...)]
