"""The handle of an array: `TensorStore`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import numpy as np

from tessarr.errors import ArgumentError, ReadOnlyError
from tessarr.space import Bracket, Indexable, IndexDomain, IndexTransform
from tessarr.tensorstore.copying import copy
from tessarr.tensorstore.driver import NOTHING, Using
from tessarr.tensorstore.future import Future, WriteFutures, failed
from tessarr.tensorstore.values import placed

if TYPE_CHECKING:
    import numpy.typing as npt

    from tessarr.space import Box, Step
    from tessarr.space.brackets import Mode
    from tessarr.tensorstore.data_type import dtype as DataType  # noqa: N812
    from tessarr.tensorstore.driver import Driver
    from tessarr.types import Shape

__all__ = ["TensorStore", "handle"]


class _Assignable(Bracket["TensorStore"]):
    """Brackets that are also assigned to: ``store.oindex[...] = values``."""

    __slots__ = ()

    def __setitem__(self, key: Any, source: Any) -> None:
        self[key].write(source).result()


class TensorStore(Indexable):
    """An array, or a view of one, that is read and written asynchronously.

    Made by `open`, and by indexing another one.

    Notes
    -----
    Nothing that is indexed reads or copies. Positions are those of the domain: there is no
    counting from the end, and ``store[2:5]`` begins at 2. Handles may be used by several threads.
    """

    __slots__ = ("__weakref__", "_driver", "_mode", "_transaction", "_view")

    _driver: Driver
    _view: IndexTransform
    _mode: str
    _transaction: Any

    def __init__(self) -> None:
        raise TypeError("a TensorStore is made by open")

    def _with(self, view: IndexTransform) -> TensorStore:
        return handle(self._driver, view, self._mode, self._transaction)

    # Indexing

    def _dims(self) -> Box:
        return self._view.domain.dims

    def _under(self, step: Step) -> TensorStore:
        return self._with(self._view._under(step))

    def _at(self, key: Any, mode: Mode) -> TensorStore | None:
        made = self._view._at(key, mode)
        return None if made is None else self._with(made)

    def __setitem__(self, key: Any, source: Any) -> None:
        self[key].write(source).result()

    @property
    def oindex(self) -> _Assignable:
        """Index by arrays of which each is for itself: the outer product."""
        return _Assignable(partial(self._by, "oindex"))

    @property
    def vindex(self) -> _Assignable:
        """Index by arrays that are taken together; their dimensions come first."""
        return _Assignable(partial(self._by, "vindex"))

    def _by(self, mode: Mode, key: Any) -> TensorStore:
        return self._indexed(key, mode)

    __iter__ = None

    # What it is

    @property
    def domain(self) -> IndexDomain:
        """The positions, with labels; bounds that `resize` can change are implicit."""
        return self._view.domain

    @property
    def dtype(self) -> DataType:
        """The data type of the elements."""
        return self._driver.dtype

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self._view.domain.dims)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self._view.domain.dims)

    @property
    def shape(self) -> Shape:
        """The size of each dimension."""
        return self._view.domain.shape

    @property
    def origin(self) -> Shape:
        """The least index of each dimension."""
        return self._view.domain.origin

    @property
    def size(self) -> int:
        """The number of elements."""
        return self._view.domain.size

    @property
    def mode(self) -> str:
        """What the handle may do: ``"r"``, ``"w"`` or ``"rw"``."""
        return self._mode

    @property
    def readable(self) -> bool:
        """Whether the handle may read."""
        return "r" in self._mode

    @property
    def writable(self) -> bool:
        """Whether the handle may write."""
        return "w" in self._mode

    @property
    def transaction(self) -> Any:
        """The transaction that reads and writes take part in, or None."""
        return self._transaction

    @property
    def kvstore(self) -> Any:
        """Where the array is stored, or None."""
        return self._driver.kvstore

    @property
    def base(self) -> TensorStore | None:
        """What this is a view of, with other elements: of a cast, what is cast. Else None."""
        found = self._driver.base
        return None if found is None else found[self._view]

    # Reading and writing

    def _using(self, batch: Any) -> Using:
        if self._transaction is None and batch is None:
            return NOTHING
        return Using(self._transaction, batch)

    def read(
        self,
        *,
        order: Literal["C", "F"] = "C",
        batch: Any = None,
        out: npt.NDArray[Any] | None = None,
    ) -> Future[npt.NDArray[Any]]:
        """Start to read all elements.

        Parameters
        ----------
        order
            How the new array is laid out.
        batch
            What collects reads until it is submitted; the future waits for that.
        out
            Where the elements go, of the same shape and data type; by default a new array.

        Returns
        -------
        Future
            Of the array, whose first element is that of the origin.
        """
        if "r" not in self._mode:
            return failed(ReadOnlyError("this was opened for writing only: reading is refused"))
        if out is not None:
            if out.shape != self.shape or out.dtype != self.dtype.dtype:
                raise ArgumentError(
                    f"out has shape {out.shape} and data type {out.dtype}, what is read "
                    f"{self.shape} and {self.dtype.name}",
                    kind="shape_mismatch",
                )
        elif order == "F":
            out = np.empty(self.shape, self.dtype.dtype, order="F")
        elif order != "C":
            raise ArgumentError(f"order {order!r} is not 'C' or 'F'")
        return self._driver.read(self._view, out, self._using(batch))

    def write(
        self,
        source: Any,
        *,
        batch: Any = None,
        can_reference_source_data_indefinitely: bool | None = None,
    ) -> WriteFutures:
        """Start to write all elements.

        Parameters
        ----------
        source
            Values that are broadcast to the domain, or another `TensorStore`, whose dimensions
            are aligned with those of this one; it is copied part by part. Arrays have to be of
            a type that NumPy casts safely.
        batch
            What collects reads, also those that writing parts of chunks takes.
        can_reference_source_data_indefinitely
            Whether the source never changes; then it may be used as it is until all is stored.

        Returns
        -------
        WriteFutures
            Of the source having been read, and of everything being stored.
        """
        if "w" not in self._mode:
            raise ReadOnlyError("this was opened for reading only: writing is refused")
        if isinstance(source, TensorStore):
            return copy(source, self)
        values = placed(source, self.dtype, self.domain)
        return self._driver.write(self._view, values, self._using(batch))

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None, context: Any = None
    ) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("the elements are read: they cannot be had without a copy")
        return np.asarray(self.read().result(), dtype=dtype)

    def with_transaction(self, transaction: Any) -> TensorStore:
        """Return the same with another transaction, or with none."""
        return handle(self._driver, self._view, self._mode, transaction)

    def __copy__(self) -> TensorStore:
        return self

    def __deepcopy__(self, memo: Any) -> TensorStore:
        return self

    def __len__(self) -> NoReturn:
        raise TypeError("a TensorStore has no length: see shape and size")

    def __bool__(self) -> bool:
        return True


def handle(
    driver: Driver,
    view: IndexTransform | None = None,
    mode: str | None = None,
    transaction: Any = None,
) -> TensorStore:
    """Return a handle.

    Parameters
    ----------
    driver
        What reads and writes.
    view
        A view of its domain; by default all of it.
    mode
        ``"r"``, ``"w"``, ``"rw"`` or ``""``; by default what the driver can do.
    transaction
        What reads and writes take part in.
    """
    if view is None:
        view = IndexTransform(driver.domain)
    if mode is None:
        mode = "r" * driver.readable + "w" * driver.writable
    made: TensorStore = object.__new__(TensorStore)
    made._driver = driver
    made._view = view
    made._mode = mode
    made._transaction = transaction
    return made
