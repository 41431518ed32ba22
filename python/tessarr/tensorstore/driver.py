"""What stands behind a handle: the protocol of drivers, and what a spec says of one.

A handle is a driver, a view of the driver's domain, and how it was opened. Views are made
without the driver; only `Driver.read` and what is alike get the composed view.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, NoReturn

from tessarr.errors import ArgumentError, UnsupportedError
from tessarr.index_space import INFINITE, IndexTransform
from tessarr.tensorstore.schema.domain_bounds import propagated
from tessarr.tensorstore.schema.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from tessarr.array import Array
    from tessarr.index_space import IndexDomain
    from tessarr.tensorstore.batch.read_group import Together
    from tessarr.tensorstore.batch.shared_reads import Expected, Sharing
    from tessarr.tensorstore.future.future import Future
    from tessarr.tensorstore.future.write_futures import WriteFutures
    from tessarr.tensorstore.schema.data_type import dtype as DataType  # noqa: N812
    from tessarr.types import Shape

__all__ = ["NO_SCOPE", "Driver", "OperationScope", "ResizeRequest"]


class OperationScope(NamedTuple):
    """What a read or a write takes part in.

    Parameters
    ----------
    transaction : Transaction, optional
        What writes are staged in, and reads see.
    batch : Batch, optional
        What collects reads until it is submitted.
    together : Together, optional
        What collects reads that begin with this one.
    looks : bool
        Whether bounds are looked at that may be too old.
    sharing : Sharing, optional
        What it shares with others that begin at the same time.
    """

    transaction: Any = None
    batch: Any = None
    read_group: Together | None = None
    rechecks_bounds: bool = True
    sharing: Sharing | None = None

    def for_read_group(self, read_group: Together, sharing: Sharing) -> OperationScope:
        """Return the same for what begins with others, and keeps no batch."""
        return self._replace(batch=None, read_group=read_group, sharing=sharing)


NO_SCOPE = OperationScope()
"""Neither a transaction nor a batch."""


@dataclass(frozen=True, slots=True)
class ResizeRequest:
    """How bounds are changed.

    Parameters
    ----------
    lower, upper : sequence of (int or None)
        The new bounds of the driver's domain; None leaves one.
    metadata_only : bool
        Whether what is outside stays stored.
    expand_only, shrink_only : bool
        Whether a bound that moves the other way is an error.
    within : sequence of (interval or None)
        Per dimension ``(lower, upper)``, beyond which nothing may be lost or added: those of the
        view, where tied bounds must not be resized.
    tied
        Whether bounds may be resized of what the view is no view of.
    """

    lower: Sequence[int | None]
    upper: Sequence[int | None]
    metadata_only: bool = False
    expand_only: bool = False
    shrink_only: bool = False
    limits: Sequence[tuple[int, int] | None] = ()
    resizes_tied: bool = False

    def resize_shape(self, shape: Shape) -> Shape:
        """Return the new shape of an array, all of whose bounds begin at 0.

        Raises
        ------
        ArgumentError
            If it must not have it.
        """
        rank = len(shape)
        for k, low in enumerate(self.lower[:rank]):
            if low not in {None, 0}:
                raise ArgumentError(f"dimension {k} begins at 0: it cannot begin at {low}")
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
                        f"also elements of dimension {k}, which is [0, {size}), would be affected "
                        f"that are not in [{within[0]}, {within[1]}), or there are fewer: give "
                        "resize_tied_bounds, if that is meant"
                    )
        return new


class Driver:
    """What reads and writes elements: an array in a store, or a view over other handles.

    What a driver cannot do is an `UnsupportedError`, as here.
    """

    __slots__ = ("dtype",)

    name: ClassVar[str] = ""
    """What specs call it; `driver_spec` knows who makes the spec of it."""

    dtype: DataType
    """The data type of the elements."""

    @property
    def domain(self) -> IndexDomain:
        """Where there are elements, with labels; bounds that may be resized are implicit."""
        raise NotImplementedError

    @property
    def full_view(self) -> IndexTransform:
        """The view of the whole domain."""
        return IndexTransform._whole(self.domain)

    @property
    def readable(self) -> bool:
        """Whether elements can be read."""
        return True

    @property
    def writable(self) -> bool:
        """Whether elements can be written."""
        return True

    def refresh_bounds(
        self, view: IndexTransform, scope: OperationScope
    ) -> tuple[Driver, IndexTransform]:
        """Return what a view is read of, and the view, with the bounds of now.

        Parameters
        ----------
        view
            A view of `domain`, or of what that was when a handle was made.
        using
            Transaction and batch.

        Raises
        ------
        ArgumentError
            If an explicit bound of the view is no longer inside.
        """
        return self, propagated(view, self.domain) if view._has_implicit_bounds else view

    def stale_documents(self, scope: OperationScope) -> list[Expected]:
        """Return what has to be looked at before a view is settled, as what is known is too old."""
        return []

    def with_staged_bounds(self, scope: OperationScope) -> Driver:
        """Return the driver as a transaction has changed its bounds, to be told of in specs.

        Nobody is asked what has become of them.
        """
        return self

    @property
    def resizable(self) -> bool:
        """Whether there are bounds that can be changed."""
        return False

    def read(
        self, view: IndexTransform, out: npt.NDArray[Any] | None, scope: OperationScope
    ) -> Future[npt.NDArray[Any]]:
        """Start to read.

        Parameters
        ----------
        view
            A view of `domain`, finite.
        out
            Where the elements go: of the view's shape and the NumPy data type. None for a new
            array.
        using
            Transaction and batch.

        Returns
        -------
        Future
            Of an array of the view's shape: `out`, if it was given. Of what is wrong the future
            tells, too.
        """
        self._raise_unsupported("read")

    @property
    def memory(self) -> npt.NDArray[Any] | None:
        """The array whose elements are those of the driver, at the same indices; else None."""
        return None

    @property
    def stored_array(self) -> Array | None:
        """The same, of what the engine reads as it is, with the bounds that are known of it."""
        return None

    def write(
        self, view: IndexTransform, values: npt.NDArray[Any], scope: OperationScope
    ) -> WriteFutures:
        """Start to write.

        Parameters
        ----------
        view
            A view of `domain`, finite.
        values
            Of the view's shape and the NumPy data type; strides may be 0. They may be used
            until ``copy`` is done.
        using
            Transaction and batch.
        """
        self._raise_unsupported("write")

    def resolve(self, scope: OperationScope) -> Future[Driver]:
        """Look up what the bounds are now; the driver that has them may be the same."""
        from tessarr.tensorstore.future.future import Future

        return Future(self)

    def resize(self, request: ResizeRequest, scope: OperationScope) -> Future[Driver]:
        """Change the bounds; the driver that has the new ones may be the same."""
        self._raise_unsupported("resize")

    def storage_statistics(
        self, view: IndexTransform, *, not_stored: bool, fully_stored: bool, scope: OperationScope
    ) -> Future[tuple[bool | None, bool | None]]:
        """Tell whether nothing is stored of a view, and whether all is.

        None for what is not asked.
        """
        from tessarr.tensorstore.future.spawn import start

        return start(lambda: self._raise_unsupported("tell what is stored"), here=True)

    def storage_ids(self) -> frozenset[Any]:
        """Tell where elements are, by anything that is equal only for what is the same place."""
        return frozenset([id(self)])

    @property
    def write_chunk_shape(self) -> Sequence[int]:
        """How long the parts are that are best written as a whole, from 0 on; 1 where any is."""
        return (1,) * self.domain.rank

    @property
    def url(self) -> str:
        """The URL that opens it again."""
        self._raise_unsupported("be told as a URL")

    @property
    def chunk_layout(self) -> Any:
        """The `ChunkLayout` of `domain`; None where there is nothing to say."""
        return None

    @property
    def codec(self) -> Any:
        """The `CodecSpec`, or None."""
        return None

    @property
    def fill_value(self) -> npt.NDArray[Any] | None:
        """What elements are that are not stored: broadcast to `domain`; None if nobody knows."""
        return None

    @property
    def dimension_units(self) -> tuple[Any, ...]:
        """The `Unit`, or None, of each dimension of `domain`."""
        return (None,) * self.domain.rank

    @property
    def schema(self) -> Schema:
        """All that is known of it, of the dimensions of `domain`."""
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
        """The `KvStore` where it is, or None; not to be modified."""
        return None

    def base_of(self, view: IndexTransform) -> Any:
        """Return the handle that a view of this is one of; None if it is one of no other."""
        return None

    def _raise_unsupported(self, act: str) -> NoReturn:
        raise UnsupportedError(f"driver {self.name!r} cannot {act}")
