"""`Driver`, the interface between a handle and its array.

A handle is a driver, a view of the driver's domain, and an open mode. Indexing a handle does not
call the driver; only `Driver.read` and similar methods receive the composed view.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, NoReturn, TypeVar

from tessarr.errors import ArgumentError, UnsupportedError
from tessarr.index_space import INFINITE, IndexDomain, IndexTransform
from tessarr.tensorstore.future.future import Future, failed, finished
from tessarr.tensorstore.schema.propagate import propagate_bounds
from tessarr.tensorstore.schema.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from tessarr.array import Array
    from tessarr.tensorstore.batch import Batch, ExpectedRead, ReadGroup, SharedReads
    from tessarr.tensorstore.future.write_futures import WriteFutures
    from tessarr.tensorstore.schema.data_type import dtype as DataType  # noqa: N812
    from tessarr.tensorstore.transaction.transaction import Transaction
    from tessarr.types import Shape

__all__ = ["NO_SCOPE", "Driver", "OperationScope", "ResizeRequest", "StorageQuery"]

T = TypeVar("T")


class OperationScope(NamedTuple):
    """The transaction, batch and read group of one read or write.

    Parameters
    ----------
    transaction
        Stages writes; reads return staged values.
    batch
        Collects reads until the user submits it.
    read_group
        Collects reads that start together.
    rechecks_bounds
        Whether a read refreshes stale bounds first.
    sharing
        Shares metadata reads with operations that start together.
    """

    transaction: Transaction | None = None
    batch: Batch | None = None
    read_group: ReadGroup | None = None
    rechecks_bounds: bool = True
    sharing: SharedReads | None = None

    def start(
        self,
        operation: Callable[[OperationScope], Future[T]],
        expected: Sequence[ExpectedRead] = (),
        *,
        reads: bool = False,
    ) -> Future[T]:
        """Start an operation in this scope; with a batch, when the user submits the batch.

        The operation then belongs to the batch's read group, and holds no reference to the batch.

        Parameters
        ----------
        operation
            Starts the operation.
        expected, reads
            As for `Batch._defer`.
        """
        if self.batch is None:
            return operation(self)
        scope = self._replace(batch=None)

        def begin(read_group: ReadGroup, sharing: SharedReads) -> Future[T]:
            return operation(scope._replace(read_group=read_group, sharing=sharing))

        return self.batch._defer(begin, expected, reads=reads)


NO_SCOPE = OperationScope()
"""The scope without a transaction and a batch."""


class StorageQuery(NamedTuple):
    """The requested storage statistics: whether no chunk is stored, and whether all are."""

    not_stored: bool
    fully_stored: bool


@dataclass(frozen=True, slots=True)
class ResizeRequest:
    """A request to change bounds.

    Parameters
    ----------
    lower, upper : sequence of (int or None)
        The new bounds of the driver's domain; None leaves a bound unchanged.
    metadata_only : bool
        Whether chunks outside the new bounds stay stored.
    expand_only, shrink_only : bool
        Whether shrinking, or growing, is an error.
    limits : sequence of (interval or None)
        An interval ``(lower, upper)`` for each dimension: the bounds of the view. Unless
        `resizes_tied` is true, elements outside them must not appear or disappear.
    resizes_tied : bool
        Whether a resize may affect elements outside the view.
    """

    lower: Sequence[int | None]
    upper: Sequence[int | None]
    metadata_only: bool = False
    expand_only: bool = False
    shrink_only: bool = False
    limits: Sequence[tuple[int, int] | None] = ()
    resizes_tied: bool = False

    def resize_shape(self, shape: Shape) -> Shape:
        """Return the new shape of an array whose bounds start at 0.

        Raises
        ------
        ArgumentError
            If the request does not permit the new shape.
        """
        rank = len(shape)
        for k, low in enumerate(self.lower[:rank]):
            if low not in {None, 0}:
                raise ArgumentError(f"dimension {k} starts at 0: it cannot start at {low}")
        new = tuple(
            size if high is None else high for size, high in zip(shape, self.upper, strict=False)
        )
        for k, (before, after) in enumerate(zip(shape, new, strict=True)):
            if after < 0:
                raise ArgumentError(f"dimension {k} cannot have the length {after}")
            if (self.expand_only and after < before) or (self.shrink_only and after > before):
                option = "expand_only" if self.expand_only else "shrink_only"
                raise ArgumentError(
                    f"dimension {k} would be resized from {before} to {after}, which {option} "
                    "refuses",
                    kind="mismatch",
                )
        if any(high is not None for high in self.upper):
            for k, (size, within) in enumerate(zip(shape, self.limits, strict=False)):
                if within is not None and (within[0] > 0 or within[1] not in {size, INFINITE + 1}):
                    raise ArgumentError(
                        f"the resize would affect elements of dimension {k}, which is [0, {size}), "
                        f"outside [{within[0]}, {within[1]}), or the dimension is shorter: pass "
                        "resize_tied_bounds=True to allow it"
                    )
        return new


class Driver:
    """Reads and writes elements of an array in a store, or of a view over other handles.

    Operations that a driver does not support raise `UnsupportedError`, as here.
    """

    __slots__ = ("dtype",)

    name: ClassVar[str] = ""
    """The driver's name in specs."""

    dtype: DataType
    """The data type of the elements."""

    @property
    def domain(self) -> IndexDomain:
        """The domain with labels; bounds that can be resized are implicit."""
        raise NotImplementedError

    @property
    def full_view(self) -> IndexTransform:
        """The view of the whole domain."""
        return IndexTransform._whole(self.domain)

    @property
    def readable(self) -> bool:
        """Whether the driver can read."""
        return True

    @property
    def writable(self) -> bool:
        """Whether the driver can write."""
        return True

    def refresh_bounds(
        self, view: IndexTransform, scope: OperationScope
    ) -> tuple[Driver, IndexTransform]:
        """Return the driver and view to read, with the current bounds.

        Parameters
        ----------
        view
            A view of `domain`, or of the domain at the time when the handle was created.
        scope
            The transaction and batch.

        Raises
        ------
        ArgumentError
            If an explicit bound of the view is outside the current domain.
        """
        return self, propagate_bounds(view, self.domain) if view._has_implicit_bounds else view

    def stale_documents(self, scope: OperationScope) -> list[ExpectedRead]:
        """Return the stale documents to read before `refresh_bounds`."""
        return []

    def with_staged_bounds(self, transaction: Transaction) -> Driver:
        """Return the driver with the bounds that a transaction has staged, for specs.

        This sends no request.
        """
        return self

    @property
    def resizable(self) -> bool:
        """Whether bounds can be resized."""
        return False

    def read(
        self, view: IndexTransform, out: npt.NDArray[Any] | None, scope: OperationScope
    ) -> Future[npt.NDArray[Any]]:
        """Start to read.

        Parameters
        ----------
        view
            A finite view of `domain`.
        out
            The output array of the view's shape and the NumPy data type; None for a new array.
        scope
            The transaction and batch.

        Returns
        -------
        Future
            An array of the view's shape: `out`, if it is not None. All errors come from the
            future.
        """
        self._raise_unsupported("read")

    @property
    def memory(self) -> npt.NDArray[Any] | None:
        """An array in memory with the driver's elements at the same indices, or None."""
        return None

    @property
    def stored_array(self) -> Array | None:
        """An array that the engine can read directly, with its known bounds, or None."""
        return None

    def write(
        self, view: IndexTransform, values: npt.NDArray[Any], scope: OperationScope
    ) -> WriteFutures:
        """Start to write.

        Parameters
        ----------
        view
            A finite view of `domain`.
        values
            An array of the view's shape and the NumPy data type; strides may be 0. The write may
            use it until ``copy`` is done.
        scope
            The transaction and batch.
        """
        self._raise_unsupported("write")

    def resolve(self, scope: OperationScope) -> Future[Driver]:
        """Read the current bounds; return this driver or one with the new bounds."""
        return finished(self)

    def resize(self, request: ResizeRequest, scope: OperationScope) -> Future[Driver]:
        """Change the bounds; return this driver or one with the new bounds."""
        self._raise_unsupported("resize")

    def storage_statistics(
        self, view: IndexTransform, query: StorageQuery, scope: OperationScope
    ) -> Future[tuple[bool, bool]]:
        """Return whether no chunk of a view is stored, and whether all chunks are stored.

        A value that the query does not request has no meaning.
        """
        return failed(UnsupportedError(f"driver {self.name!r} has no storage statistics"))

    def storage_ids(self) -> frozenset[Any]:
        """Return identifiers of the memory or store locations of the elements."""
        return frozenset([id(self)])

    @property
    def write_chunk_shape(self) -> Sequence[int]:
        """The shape of the parts, counted from 0, that are best written completely."""
        return (1,) * self.domain.rank

    @property
    def url(self) -> str:
        """The URL that opens the array again."""
        self._raise_unsupported("be represented by a URL")

    @property
    def chunk_layout(self) -> Any:
        """The `ChunkLayout` of `domain`, or None."""
        return None

    @property
    def codec(self) -> Any:
        """The `CodecSpec`, or None."""
        return None

    @property
    def fill_value(self) -> npt.NDArray[Any] | None:
        """The value of elements that are not stored, broadcast to `domain`; None if unknown."""
        return None

    @property
    def dimension_units(self) -> tuple[Any, ...]:
        """The `Unit`, or None, of each dimension of `domain`."""
        return (None,) * self.domain.rank

    @property
    def schema(self) -> Schema:
        """The schema of `domain`."""
        return Schema(
            dtype=self.dtype,
            domain=self.domain,
            chunk_layout=self.chunk_layout,
            codec=self.codec,
            fill_value=self.fill_value,
            dimension_units=self.dimension_units,
        )

    @property
    def kvstore(self) -> Any:
        """The `KvStore` of the array, or None; do not modify it."""
        return None

    def base_of(self, view: IndexTransform) -> Any:
        """Return the handle that a view of this driver is based on, or None."""
        return None

    def _raise_unsupported(self, act: str) -> NoReturn:
        raise UnsupportedError(f"driver {self.name!r} cannot {act}")
