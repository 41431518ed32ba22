"""The driver ``cast``: a view with another data type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tessarr.errors import ArgumentError, TessarrError
from tessarr.tensorstore.driver import Driver
from tessarr.tensorstore.drivers.cast.conversion import find_conversion
from tessarr.tensorstore.future.combine import convert_result
from tessarr.tensorstore.future.future import NOTHING, failed
from tessarr.tensorstore.future.write_futures import WriteFutures
from tessarr.tensorstore.handle.handle import TensorStore, build_handle
from tessarr.tensorstore.ndarray_views import (
    find_memory,
    overlaps_itself,
    select_elements,
    start_view,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from tessarr.index_space import IndexDomain, IndexTransform
    from tessarr.tensorstore.batch.shared_reads import ExpectedRead
    from tessarr.tensorstore.driver import OperationScope, ResizeRequest
    from tessarr.tensorstore.future.future import Future
    from tessarr.tensorstore.schema.data_type import dtype as DataType  # noqa: N812

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

    @property
    def domain(self) -> IndexDomain:
        """The domain of the base."""
        return self.of.domain

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

    def stale_documents(self, scope: OperationScope) -> list[ExpectedRead]:
        """Return the stale documents of the base."""
        return self.of.stale_documents(scope)

    def with_staged_bounds(self, scope: OperationScope) -> Driver:
        """Return a view of the base with the bounds that a transaction has staged."""
        return self._rebase(self.of.with_staged_bounds(scope))

    @property
    def resizable(self) -> bool:
        """Whether the bounds of the base can be resized."""
        return self.of.resizable

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
        done: Future[None]
        try:
            unique = _unbroadcast(values)  # converts repeated elements once
            target = None
            if unique.shape == values.shape and not view._as_view().has_index_arrays:
                memory = find_memory(self.of, scope, write=True)
                target = None if memory is None else select_elements(memory, view._as_view())
            if target is not None:
                if overlaps_itself(target):  # the last of several writes to one element wins
                    target = None
                elif np.may_share_memory(unique, target):
                    unique = unique.copy()
            items = backward(unique, target)
            if target is None:
                return self.of.write(view, np.broadcast_to(items, values.shape), scope)
            done = NOTHING
        except TessarrError as error:
            done = failed(error)
        return WriteFutures._of(done, done)

    def unsupported_error(self, *, back: bool = False) -> ArgumentError:
        """Return the error for a missing conversion."""
        names = [self.of.dtype.name, self.dtype.name]
        source, target = reversed(names) if back else names
        return ArgumentError(f"elements of {source} do not convert to {target}", kind="cannot_cast")

    def storage_ids(self) -> frozenset[Any]:
        """Return the storage identifiers of the base."""
        return self.of.storage_ids()

    @property
    def write_chunk_shape(self) -> Sequence[int]:
        """The shape of the parts that are best written completely."""
        return self.of.write_chunk_shape

    def resolve(self, scope: OperationScope) -> Future[Driver]:
        """Read the current bounds of the base."""
        return convert_result(self.of.resolve(scope), self._rebase)

    def resize(self, request: ResizeRequest, scope: OperationScope) -> Future[Driver]:
        """Change the bounds of the base."""
        return convert_result(self.of.resize(request, scope), self._rebase)

    def _rebase(self, of: Driver) -> Driver:
        return self if of is self.of else CastDriver(of, self.dtype)

    def storage_statistics(
        self, view: IndexTransform, *, not_stored: bool, fully_stored: bool, scope: OperationScope
    ) -> Future[tuple[bool | None, bool | None]]:
        """Return the storage statistics of the base."""
        return self.of.storage_statistics(
            view, not_stored=not_stored, fully_stored=fully_stored, scope=scope
        )

    @property
    def url(self) -> str:
        """The URL that opens the view again."""
        return f"{self.of.url}|cast:{self.dtype.name}"

    @property
    def chunk_layout(self) -> Any:
        """The chunk layout of the base."""
        return self.of.chunk_layout

    @property
    def codec(self) -> Any:
        """The codec of the base."""
        return self.of.codec

    @property
    def fill_value(self) -> npt.NDArray[Any] | None:
        """The fill value of the base, converted."""
        fill = self.of.fill_value
        return None if fill is None or self._forward is None else self._forward(np.asarray(fill))

    @property
    def dimension_units(self) -> tuple[Any, ...]:
        """The units of the base."""
        return self.of.dimension_units

    @property
    def kvstore(self) -> Any:
        """The key-value store of the base."""
        return self.of.kvstore

    def base_of(self, view: IndexTransform) -> TensorStore:
        """Return the same view of the base."""
        return build_handle(self.of, view)


def _unbroadcast(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    key = tuple(
        slice(0, 1) if stride == 0 and size > 1 else slice(None)
        for stride, size in zip(values.strides, values.shape, strict=True)
    )
    return values[(*key, ...)]
