"""The handle of an array: `TensorStore`."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, Unpack

import numpy as np

from tessarr.brief import brief
from tessarr.errors import (
    ArgumentError,
    ReadOnlyError,
    TessarrError,
    UnsupportedError,
)
from tessarr.space import Bracket, IndexTransform, View
from tessarr.space.names import integer
from tessarr.tensorstore.batch import Batch
from tessarr.tensorstore.driver import NOTHING, Resizing, Using
from tessarr.tensorstore.futures.after import converted
from tessarr.tensorstore.futures.future import Future, failed
from tessarr.tensorstore.futures.writes import WriteFutures
from tessarr.tensorstore.handle.aligning import broadcast
from tessarr.tensorstore.handle.copying import copy
from tessarr.tensorstore.handle.facts import Facts, StorageStatistics
from tessarr.tensorstore.handle.values import taken
from tessarr.tensorstore.notation.reading import as_flag, of_class
from tessarr.tensorstore.notation.show import shown
from tessarr.tensorstore.schema.bounds import explicit, propagated
from tessarr.tensorstore.spec.driver_spec import Opening, OpenKeywords, driver_spec
from tessarr.tensorstore.spec.spec import Spec
from tessarr.tensorstore.spec.telling import pickled, told
from tessarr.tensorstore.transaction.transaction import Transaction, during, rebound

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from tessarr.tensorstore.driver import Driver
    from tessarr.tensorstore.schema.data_type import DTypeLike

__all__ = ["TensorStore", "handle"]


_new: Final = object.__new__
_spec: Final = Spec._of  # found once: whatever binds a class is looked up slowly


def _statistics(found: tuple[bool | None, bool | None]) -> StorageStatistics:
    return StorageStatistics(not_stored=found[0], fully_stored=found[1])


class _Assignable(Bracket["TensorStore"]):
    """Brackets that are also assigned to: ``store.oindex[...] = values``."""

    __slots__ = ()

    def __setitem__(self, key: Any, source: Any) -> None:
        self[key].write(source).result()


class TensorStore(Facts):
    """An array, or a view of one, that is read and written asynchronously.

    Made by `open`, and by indexing another one.

    Notes
    -----
    Nothing that is indexed reads or copies. Positions are those of the domain: there is no
    counting from the end, and ``store[2:5]`` begins at 2. Handles may be used by several threads.
    """

    __slots__ = ("__weakref__",)

    def __init__(self) -> None:
        raise TypeError("a TensorStore is made by open")

    # Indexing

    def _as_view(self) -> View:
        return self._view._view

    def _after(self, view: View) -> TensorStore:
        return handle(self._driver, self._view._after(view), self._mode, self._transaction)

    def __setitem__(self, key: Any, source: Any) -> None:
        self[key].write(source).result()

    @property
    def oindex(self) -> _Assignable:
        """Index by arrays of which each is for itself: the outer product."""
        return _Assignable(self, "oindex")

    @property
    def vindex(self) -> _Assignable:
        """Index by arrays that are taken together; their dimensions come first."""
        return _Assignable(self, "vindex")

    # What it is of

    @property
    def kvstore(self) -> Any:
        """Where the array is stored, or None."""
        found = self._driver.kept_kvstore
        if found is None:
            found = self._driver.kvstore
            if found is None:
                return None
        if self._transaction is None:
            return found.copy()
        return found.with_transaction(self._transaction)

    @property
    def base(self) -> TensorStore | None:
        """What this is a view of, with other elements: of a cast, what is cast. Else None."""
        found: TensorStore | None = self._driver.base_of(self._view)
        if found is None:
            return None
        return handle(found._driver, found._view, self._mode, self._transaction)

    # Reading and writing

    def _using(self, batch: Any) -> Using:
        if self._transaction is None and batch is None:
            return NOTHING
        collecting = of_class(batch, Batch, "batch")
        if collecting is not None:
            collecting._check()
        return Using(self._transaction, collecting)

    def _now(self, using: Using) -> TensorStore:
        """Return the same with the bounds of now, as far as these are known."""
        driver, view = self._driver.settled(self._view, using)
        if view is self._view and driver is self._driver:
            return self
        return handle(driver, view, self._mode, self._transaction)

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
        if order not in {"C", "F"}:
            raise TypeError(f"order {brief(order)} is not 'C' or 'F'")
        using = self._using(batch)
        try:
            now = self._now(using)
        except TessarrError as error:
            return failed(error)
        if out is not None:
            if out.shape != now.shape or out.dtype != now.dtype.dtype:
                raise ArgumentError(
                    f"out has shape {out.shape} and data type {out.dtype}, what is read "
                    f"{now.shape} and {now.dtype.name}",
                    kind="shape_mismatch",
                )
        elif order == "F":
            out = np.empty(now.shape, now.dtype.dtype, order="F")
        if self._transaction is None:
            return now._driver.read(now._view, out, using)
        return during(self._transaction, partial(now._driver.read, now._view, out, using))

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
            What collects the reads of another `TensorStore`.
        can_reference_source_data_indefinitely
            Whether the source never changes; then it may be used as it is until all is stored.

        Returns
        -------
        WriteFutures
            Of the source having been read, and of everything being stored.
        """
        if batch is not None and not isinstance(source, TensorStore):
            raise ArgumentError(
                "batch: only reads are collected, and nothing is read from the source"
            )
        stored = isinstance(source, TensorStore)
        values = None if stored else taken(source, self._driver.dtype, self.rank)
        using = self._using(None)
        try:
            now = self._now(using)
            origin = source._now(source._using(batch)) if stored else None
        except TessarrError as error:
            return WriteFutures._of(failed(error), failed(error))
        if values is not None:
            values = broadcast(values, now.domain)
        if "w" not in self._mode:
            raise ReadOnlyError("this was opened for reading only: writing is refused")
        if values is None:
            begin = partial(copy, origin, now)
            return during(self._transaction, partial(during, source._transaction, begin))
        if self._transaction is None:
            return now._driver.write(now._view, values, using)
        return during(self._transaction, partial(now._driver.write, now._view, values, using))

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None, context: Any = None
    ) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("the elements are read: they cannot be had without a copy")
        return np.asarray(self.read().result(), dtype=dtype)

    # Bounds

    def resolve(
        self,
        fix_resizable_bounds: bool = False,  # noqa: FBT002
        batch: Any = None,
    ) -> Future[TensorStore]:
        """Look up the bounds that can be resized, if what is known of them is too old.

        Parameters
        ----------
        fix_resizable_bounds
            Whether the bounds become explicit.
        batch
            What collects reads until it is submitted.

        Returns
        -------
        Future
            Of a handle with the bounds of now.
        """
        begin = partial(self._driver.resolve, self._using(batch))
        fix = as_flag(fix_resizable_bounds, "fix_resizable_bounds")
        future = during(self._transaction, begin)
        return converted(future, lambda driver: self._settled(driver, fix=fix))

    def _settled(self, driver: Driver, *, fix: bool = False) -> TensorStore:
        view = propagated(self._view, driver.domain)
        found = explicit(view, driver.domain) if fix else view
        return handle(driver, found, self._mode, self._transaction)

    def resize(  # noqa: PLR0917 (as TensorStore has them)
        self,
        inclusive_min: Iterable[int | None] | None = None,
        exclusive_max: Iterable[int | None] | None = None,
        resize_metadata_only: bool = False,  # noqa: FBT002
        resize_tied_bounds: bool = False,  # noqa: FBT002
        expand_only: bool = False,  # noqa: FBT002
        shrink_only: bool = False,  # noqa: FBT002
    ) -> Future[TensorStore]:
        """Change bounds, for everybody and as stored.

        Parameters
        ----------
        inclusive_min, exclusive_max
            The new bounds; None leaves one. Only implicit bounds can be changed.
        resize_metadata_only
            Whether chunks that are then outside stay stored.
        resize_tied_bounds
            Whether elements outside of this view may be added or lost, too.
        expand_only, shrink_only
            Refuse to make a dimension smaller, or larger.

        Returns
        -------
        Future
            Of a handle with the new bounds. This one keeps its own.
        """
        bounds = _bounds(inclusive_min), _bounds(exclusive_max)
        metadata_only = as_flag(resize_metadata_only, "resize_metadata_only")
        tied = as_flag(resize_tied_bounds, "resize_tied_bounds")
        expands = as_flag(expand_only, "expand_only")
        shrinks = as_flag(shrink_only, "shrink_only")
        try:
            for given in bounds:
                if given is not None and len(given) != self.rank:
                    raise ArgumentError(f"{len(given)} bounds for {self.rank} dimensions")
            if "w" not in self._mode:
                raise ReadOnlyError("this was opened for reading only: resizing is refused")
            if not self._driver.resizable:
                raise UnsupportedError(f"driver {self._driver.name!r} cannot resize")
            lower, upper, within = self._as_view().moved(*bounds, tied)
        except TessarrError as error:
            return failed(error)
        how = Resizing(lower, upper, metadata_only, expands, shrinks, within)
        begin = partial(self._driver.resize, how, self._using(None))
        return converted(during(self._transaction, begin), self._settled)

    def storage_statistics(
        self, *, query_not_stored: bool = False, query_fully_stored: bool = False
    ) -> Future[StorageStatistics]:
        """Tell whether nothing, or everything, of the domain is stored.

        Parameters
        ----------
        query_not_stored, query_fully_stored
            What to find out.
        """
        begin = partial(
            self._driver.storage_statistics,
            self._view,
            not_stored=as_flag(query_not_stored, "query_not_stored"),
            fully_stored=as_flag(query_fully_stored, "query_fully_stored"),
            using=self._using(None),
        )
        return converted(during(self._transaction, begin), _statistics)

    StorageStatistics = StorageStatistics

    def astype(self, dtype: DTypeLike) -> TensorStore:
        """Return a view with another data type; see `cast`.

        Parameters
        ----------
        dtype
            The data type of the view.
        """
        # What makes views is made of handles.
        found: TensorStore = import_module("tessarr.tensorstore.views").cast(self, dtype)
        return found

    # As a spec

    def spec(
        self,
        *,
        minimal_spec: bool | None = None,
        retain_context: bool | None = None,
        unbind_context: bool | None = None,
        **keywords: Unpack[OpenKeywords],
    ) -> Spec:
        """Return the spec that opens, or creates, the same again.

        Parameters
        ----------
        minimal_spec
            Whether metadata are left out that are found where the array is.
        retain_context
            Mean the very resources that this handle has.
        unbind_context
            Say in JSON which resources are shared.
        **keywords
            How it is to be opened, as for `open`.

        Raises
        ------
        ArgumentError
            If it takes part in a transaction that is no longer open.
        """
        self._check_open()
        retains = as_flag(retain_context, "retain_context")
        unbinds = as_flag(unbind_context, "unbind_context")
        minimal = as_flag(minimal_spec, "minimal_spec")
        made = self._spec(minimal=minimal, bound=retains or unbinds)
        if keywords:
            made.update(**keywords)
        return made._unbound() if unbinds else made

    def _spec(self, *, minimal: bool = False, bound: bool = True) -> Spec:
        """Return the spec; `bound` is with the resources of this handle."""
        driver = self._driver
        if self._transaction is not None:
            driver = driver.changed_in(self._using(None))
        spec, view = driver_spec(driver.name).of(driver, self._view, minimal=minimal)
        return _spec(spec if bound else spec.strip(), view, None)

    def __repr__(self) -> str:
        spec = self._spec()
        try:
            return shown("TensorStore", told(spec))
        except UnsupportedError:  # functions and bytes are no JSON
            return "TensorStore(...)"

    def __reduce__(self) -> tuple[Any, ...]:
        self._check_alone()
        spec, view = self._reopening()
        plain = view._as_view().plain()
        try:
            json, beside = pickled(spec)
        except UnsupportedError:  # functions and bytes are no JSON
            return _restored, (spec, None, self._mode, *plain)
        return _restored, (json, beside, self._mode, *plain)

    def _check_alone(self) -> None:
        if self._transaction is not None:
            raise ArgumentError("a handle with a transaction cannot be pickled")

    def _reopening(self) -> tuple[Spec, IndexTransform]:
        """Return the spec that opens the same again, and its view."""
        spec, view = driver_spec(self._driver.name).of(self._driver, self._view, minimal=False)
        # As with TensorStore, nothing is read for it.
        return Spec._of(spec.assuming(), None), view

    def with_transaction(self, transaction: Transaction | None) -> TensorStore:
        """Return the same in a transaction.

        Raises
        ------
        ArgumentError
            If it takes part in one that is not committed.
        """
        using = rebound(self._transaction, transaction)
        return handle(self._driver, self._view, self._mode, using)

    def _taking_part(self, using: Using) -> TensorStore:
        """Return the same in the transaction of what is made of this."""
        return handle(self._driver, self._view, self._mode, using.transaction)

    def __copy__(self) -> TensorStore:
        return self

    def __deepcopy__(self, memo: Any) -> TensorStore:
        self._check_alone()
        spec, view = self._reopening()
        return _again(spec._apart(memo), None, view, self._mode)  # with resources of its own

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
        view = driver.whole
    if mode is None:
        mode = "r" * driver.readable + "w" * driver.writable
    made: TensorStore = _new(TensorStore)
    made._driver = driver
    made._view = view
    made._mode = mode
    made._transaction = transaction
    made._layout = None
    return made


def _bounds(given: Iterable[int | None] | None) -> tuple[int | None, ...] | None:
    return None if given is None else tuple(one if one is None else integer(one) for one in given)


def _restored(given: Any, beside: Any, mode: str, dims: Any, maps: Any) -> TensorStore:
    return _again(given, beside, IndexTransform.of_view(View.restored(dims, maps)), mode)


def _again(given: Any, beside: Any, seen: IndexTransform, mode: str) -> TensorStore:
    """Open what was pickled: a spec, or its JSON, with the resources of a context beside it."""
    opening = Opening("r" in mode, "w" in mode)
    opened = Spec(given)._bound_driver(beside).open(seen, opening).result()
    view = None if opened.view is None else propagated(opened.view, opened.driver.domain)
    return handle(opened.driver, view, mode)
