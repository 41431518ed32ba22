"""`virtual_chunked`: create handles whose chunks user functions read and write."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tessarr._safe_repr import safe_repr
from tessarr.errors import ArgumentError
from tessarr.format.registry import set_public_module
from tessarr.tensorstore.context.context import Context
from tessarr.tensorstore.context.references import References
from tessarr.tensorstore.drivers.virtual_chunked.functions import (
    Function,
    Functions,
    VirtualChunkedReadParameters,
    VirtualChunkedWriteParameters,
    running_loop,
)
from tessarr.tensorstore.drivers.virtual_chunked.virtual_driver import VirtualDriver
from tessarr.tensorstore.handle.handle import TensorStore, build_handle
from tessarr.tensorstore.json.parse import check_class
from tessarr.tensorstore.schema.chunk_layout import ChunkLayout
from tessarr.tensorstore.schema.data_type import DTypeLike
from tessarr.tensorstore.schema.schema import Schema
from tessarr.tensorstore.spec.resource_spec import DATA_RESOURCES
from tessarr.tensorstore.transaction.transaction import Transaction

if TYPE_CHECKING:
    import asyncio

    from tessarr.index_space import IndexDomain
    from tessarr.tensorstore.schema.units import UnitLike

__all__ = ["VirtualChunkedReadParameters", "VirtualChunkedWriteParameters", "virtual_chunked"]


def virtual_chunked(
    read_function: Function | None = None,
    write_function: Function | None = None,
    *,
    loop: asyncio.AbstractEventLoop | None = None,
    rank: int | None = None,
    dtype: DTypeLike | None = None,
    domain: IndexDomain | None = None,
    shape: Iterable[int] | None = None,
    chunk_layout: ChunkLayout | None = None,
    dimension_units: Iterable[UnitLike] | None = None,
    schema: Schema | None = None,
    context: Context | None = None,
    transaction: Transaction | None = None,
) -> TensorStore:
    """Return a handle whose chunks user functions read and write.

    Parameters
    ----------
    read_function
        Called with the domain of a chunk, an array to fill, and `VirtualChunkedReadParameters`. It
        can return a coroutine, and a `KvStore.TimestampedStorageGeneration`, which limits the time
        in the cache.
    write_function
        Called with the domain of a chunk, a read-only array, and `VirtualChunkedWriteParameters`,
        with the same results. Writing parts of chunks needs a `read_function`.
    loop
        The event loop of coroutines; by default the running one.
    rank, dtype, domain, shape, chunk_layout, dimension_units, schema
        The schema of the handle, as for `open`. Chunk shapes are chosen as for a new array.
    context
        A ``cache_pool`` with a limit caches chunks.
    transaction
        The transaction of reads.

    Raises
    ------
    ArgumentError
        If a function, the data type or the rank is missing, or a constraint does not apply.

    Notes
    -----
    Threads of Tessarr call the functions. Within one read or write, they call plain functions one
    after another and coroutines concurrently.

    Examples
    --------
    >>> import numpy as np
    >>> import tessarr.tensorstore as ts
    >>> def squares(domain, chunk, parameters):
    ...     chunk[...] = np.array(list(domain[0])) ** 2
    >>> store = ts.virtual_chunked(squares, dtype=ts.int64, shape=[1000])
    >>> store[3:6].read().result()
    array([ 9, 16, 25])
    """
    if read_function is None and write_function is None:
        raise ArgumentError("give read_function, write_function, or both")
    for function in (read_function, write_function):
        if function is not None and not callable(function):
            raise TypeError(f"{safe_repr(function)} is not a function")
    constraints = Schema()
    constraints.update(
        schema=schema,
        rank=rank,
        dtype=dtype,
        domain=domain,
        shape=shape,
        chunk_layout=chunk_layout,
        dimension_units=dimension_units,
    )
    if constraints.dtype is None:
        raise ArgumentError("the data type is missing: give dtype")
    if constraints.rank is None:
        raise ArgumentError("the rank is missing: give rank, shape or domain")
    if constraints.fill_value is not None:
        raise ArgumentError("a virtual_chunked has no fill value")
    if constraints.codec is not None:
        raise ArgumentError("a virtual_chunked has no codec")
    if loop is None:
        loop = running_loop()
    functions = Functions(read_function, write_function, loop)
    context = check_class(context, Context, "context") or Context()
    references = References(DATA_RESOURCES, {}).bind(context)
    driver = VirtualDriver(functions, constraints, references)
    return build_handle(driver, None, None, check_class(transaction, Transaction, "transaction"))


set_public_module(
    "tessarr.tensorstore",
    VirtualChunkedReadParameters,
    VirtualChunkedWriteParameters,
    virtual_chunked,
)
