"""`open`: open and create arrays from specs."""

from __future__ import annotations

from functools import partial
from typing import Any, Unpack

from tessarr.errors import ArgumentError
from tessarr.format.registry import set_public_module, with_keywords
from tessarr.tensorstore.batch import Batch
from tessarr.tensorstore.context.context import Context
from tessarr.tensorstore.future.combine import convert_result
from tessarr.tensorstore.future.future import Future, failed
from tessarr.tensorstore.handle.handle import TensorStore, build_handle
from tessarr.tensorstore.json.parse import as_bool, check_class, check_known
from tessarr.tensorstore.kvstore import KvStore
from tessarr.tensorstore.schema.propagate import propagate_bounds
from tessarr.tensorstore.spec.driver_spec import OpenRequest, OpenResult, SpecKeywords
from tessarr.tensorstore.spec.spec import Spec, spec_of
from tessarr.tensorstore.transaction.transaction import Transaction, run_in_transaction

__all__ = ["open", "open_spec"]


@with_keywords(__name__)
def open(
    spec: Any,
    *,
    read: bool | None = None,
    write: bool | None = None,
    context: Context | None = None,
    transaction: Transaction | None = None,
    batch: Batch | None = None,
    **keywords: Unpack[SpecKeywords],
) -> Future[TensorStore]:
    """Open an array, or create it.

    Parameters
    ----------
    spec : Spec, dict, str, KvStore or Store
        A spec, its JSON, a URL such as ``file:///path|zarr3:``, or the location of an array whose
        format is detected.
    read, write
        Whether to read and write; by default both, as far as possible.
    context
        Provides the resources that the spec names; by default a new context for each call.
    transaction
        The transaction of opening, reading and writing.
    batch
        Collects reads until it is submitted.
    **keywords
        Keywords of these groups:

        ``open``, ``create``, ``delete_existing`` : bool
            The open mode, with ``assume_metadata``, ``assume_cached_metadata``, or all as
            ``open_mode``: see `OpenMode`. By default an existing array is opened.
        ``dtype``, ``shape``, ``chunk_layout``, ``codec``, ``fill_value``
            Conditions on an existing array and properties of a new one; with ``rank``, ``domain``,
            ``dimension_units``, or all as ``schema``: see `Schema`.
        ``kvstore`` : KvStore, KvStore.Spec, JSON or str
            The location of the array, if the spec has none.
        ``recheck_cached_metadata``, ``recheck_cached_data``, ``recheck_cached``
            The condition for fresh metadata, fresh chunks, or both: True (revalidate each time),
            False, ``"open"``, or seconds since 1970.

    Returns
    -------
    Future
        The future of a `TensorStore`.

    Raises
    ------
    ArgumentError, TypeError
        From the call, if the spec is invalid or its constraints contradict each other. From the
        future, if an existing array does not meet the constraints, or a new array has no data
        type.
    NotFoundError, ExistsError
        From the future: ``array_not_found``, ``node_exists``.
    MetadataError, UnsupportedError
        From the future, if the stored node is not an array, or not a supported one.

    Notes
    -----
    Opening costs one request if the spec names the format, and none if the context has fresh
    metadata.

    Examples
    --------
    >>> import tessarr.tensorstore as ts
    >>> store = ts.open("memory://|zarr3:", create=True, dtype="int16", shape=[4, 6]).result()
    >>> store[1:3, 2:4] = [[1, 2], [3, 4]]
    >>> store[2].read().result()
    array([0, 0, 3, 4, 0, 0], dtype=int16)
    """
    # The order of the checks matches TensorStore's error precedence.
    check_known(keywords, SpecKeywords.__annotations__)
    parsed = spec_of(spec)
    check_class(context, Context, "context")
    check_class(transaction, Transaction, "transaction")
    check_class(batch, Batch, "batch")
    transaction = _choose_transaction(transaction, spec, keywords.get("kvstore"))
    read, write = as_bool(read, "read"), as_bool(write, "write")
    if keywords:
        parsed = parsed._with(keywords)
    unspecified = not read and not write
    opening = OpenRequest(
        read or unspecified, write or unspecified, transaction, batch, read and write
    )
    return open_spec(parsed, opening, context)


def _choose_transaction(transaction: Transaction | None, *places: Any) -> Transaction | None:
    """Return the transaction argument, or the transaction of the key-value store."""
    for source in places:
        if isinstance(source, KvStore) and source.transaction is not None:
            if transaction not in {None, source.transaction}:
                raise ArgumentError(
                    "the key-value store is in a different transaction than the argument"
                )
            transaction = source.transaction
    return transaction


def open_spec(
    spec: Spec, opening: OpenRequest, context: Context | None = None
) -> Future[TensorStore]:
    """Open a spec; all errors come from the future.

    Parameters
    ----------
    spec
        The spec.
    opening
        The mode, transaction and batch of the open.
    context
        Provides resources that are not bound yet.
    """
    try:
        start = partial(spec._bound(context)._driver.open, spec._view, opening)
        future = run_in_transaction(opening.transaction, start)
    except Exception as error:  # noqa: BLE001 (the future reports it)
        return failed(error)
    # A pending open does not reference the batch: an unreferenced batch is submitted.
    return convert_result(
        future, partial(_build_handle, opening.read, opening.write, opening.transaction)
    )


def _build_handle(read: bool, write: bool, transaction: Any, opened: OpenResult) -> TensorStore:
    driver, view = opened.driver, opened.view
    if view is not None:
        if view.output_rank != driver.domain.rank:
            raise ArgumentError(
                f"the transform is to rank {view.output_rank}, the array has rank "
                f"{driver.domain.rank}"
            )
        view = propagate_bounds(view, driver.domain)
    mode = "r" * (read and driver.readable) + "w" * (write and driver.writable)
    return build_handle(driver, view, mode, transaction)


set_public_module("tessarr.tensorstore", open)
