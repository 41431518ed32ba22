"""TensorStore's interface on Tessarr's engine: ``import tessarr.tensorstore as ts``.

Names, signatures, JSON and index conventions are those of the package `tensorstore` for its
drivers of Zarr arrays. For example, ``TensorStore.read`` works as in TensorStore. The guide lists
the differences. ``import tessarr`` does not load this package.

Functions raise the errors of `tessarr.errors`, each with a ``kind``. Unless the documentation
names another kind, an `ArgumentError` is an ``invalid_argument`` and a `SelectionError` is an
``invalid_selection``. The text of an error from a future starts with TensorStore's status code if
it has one, such as ``NOT_FOUND``; for positions outside the domain, ``OUT_OF_RANGE``.

Examples
--------
>>> import tessarr.tensorstore as ts
>>> new = {"create": True, "dtype": ts.uint16, "shape": [100, 200]}
>>> store = ts.open("memory://|zarr3:", **new).result()
>>> store[10:12, 50] = 7
>>> store[9:13, 50].read().result()
array([0, 7, 7, 0], dtype=uint16)
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Final

from tessarr.format.registry import set_public_module
from tessarr.index_space import (
    INFINITE,
    Dim,
    DimExpression,
    DimSelection,
    Indexable,
    IndexDomain,
    IndexTransform,
    OutputIndexMap,
    OutputIndexMaps,
    OutputIndexMethod,
    d,
)
from tessarr.tensorstore.schema.data_type import (
    bfloat16,
    bool,
    byte,
    char,
    complex64,
    complex128,
    dtype,
    float4_e2m1fn,
    float8_e3m4,
    float8_e4m3b11fnuz,
    float8_e4m3fn,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
    float8_e8m0fnu,
    float16,
    float32,
    float64,
    int2,
    int4,
    int8,
    int16,
    int32,
    int64,
    json,
    string,
    uint8,
    uint16,
    uint32,
    uint64,
    ustring,
)

if TYPE_CHECKING:
    from tessarr.tensorstore.aliases import (
        DimSelectionLike,
        DownsampleMethod,
        DTypeLike,
        FutureLike,
        NumpyIndexingSpec,
        NumpyIndexTerm,
        RecheckCacheOption,
        T,
    )
    from tessarr.tensorstore.batch import Batch
    from tessarr.tensorstore.context.context import Context
    from tessarr.tensorstore.drivers.array.array_driver import array
    from tessarr.tensorstore.drivers.stack.combine import concat, overlay, stack
    from tessarr.tensorstore.drivers.virtual_chunked.create import (
        VirtualChunkedReadParameters,
        VirtualChunkedWriteParameters,
        virtual_chunked,
    )
    from tessarr.tensorstore.future.future import Future
    from tessarr.tensorstore.future.promise import Promise
    from tessarr.tensorstore.future.write_futures import WriteFutures
    from tessarr.tensorstore.handle.handle import TensorStore
    from tessarr.tensorstore.kvstore import KvStore
    from tessarr.tensorstore.kvstore.logging import (
        experimental_update_verbose_logging,
        parse_tensorstore_flags,
    )
    from tessarr.tensorstore.metrics import (
        experimental_collect_matching_metrics,
        experimental_collect_prometheus_format_metrics,
    )
    from tessarr.tensorstore.opening import open
    from tessarr.tensorstore.schema.chunk_layout import ChunkLayout
    from tessarr.tensorstore.schema.codec_spec import CodecSpec
    from tessarr.tensorstore.schema.schema import Schema
    from tessarr.tensorstore.schema.units import Unit
    from tessarr.tensorstore.spec.open_mode import OpenMode
    from tessarr.tensorstore.spec.spec import Spec
    from tessarr.tensorstore.transaction.transaction import Transaction
    from tessarr.tensorstore.views import cast, downsample

__all__ = [
    "Batch",
    "ChunkLayout",
    "CodecSpec",
    "Context",
    "DTypeLike",
    "Dim",
    "DimExpression",
    "DimSelection",
    "DimSelectionLike",
    "DownsampleMethod",
    "Future",
    "FutureLike",
    "IndexDomain",
    "IndexTransform",
    "Indexable",
    "KvStore",
    "NumpyIndexTerm",
    "NumpyIndexingSpec",
    "OpenMode",
    "OutputIndexMap",
    "OutputIndexMaps",
    "OutputIndexMethod",
    "Promise",
    "RecheckCacheOption",
    "Schema",
    "Spec",
    "T",
    "TensorStore",
    "Transaction",
    "Unit",
    "VirtualChunkedReadParameters",
    "VirtualChunkedWriteParameters",
    "WriteFutures",
    "array",
    "bfloat16",
    "bool",
    "byte",
    "cast",
    "char",
    "complex64",
    "complex128",
    "concat",
    "d",
    "downsample",
    "dtype",
    "experimental_collect_matching_metrics",
    "experimental_collect_prometheus_format_metrics",
    "experimental_update_verbose_logging",
    "float4_e2m1fn",
    "float8_e3m4",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "float16",
    "float32",
    "float64",
    "inf",
    "int2",
    "int4",
    "int8",
    "int16",
    "int32",
    "int64",
    "json",
    "newaxis",
    "open",
    "overlay",
    "parse_tensorstore_flags",
    "stack",
    "string",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "ustring",
    "virtual_chunked",
]

inf: Final = INFINITE
"""The infinite bound: ``-inf`` as a lower bound, ``inf`` as an upper bound."""

newaxis: Final = None
"""Adds a dimension of size 1 with implicit bounds at its position in an index."""

set_public_module(__name__, *map(globals().get, __all__))

_LAZY_NAMES: Final = {
    "Batch": "batch",
    "ChunkLayout": "schema.chunk_layout",
    "CodecSpec": "schema.codec_spec",
    "Context": "context.context",
    "DTypeLike": "aliases",
    "DimSelectionLike": "aliases",
    "DownsampleMethod": "aliases",
    "Future": "future.future",
    "FutureLike": "aliases",
    "KvStore": "kvstore",
    "NumpyIndexTerm": "aliases",
    "NumpyIndexingSpec": "aliases",
    "OpenMode": "spec.open_mode",
    "Promise": "future.promise",
    "RecheckCacheOption": "aliases",
    "Schema": "schema.schema",
    "Spec": "spec.spec",
    "T": "aliases",
    "TensorStore": "handle.handle",
    "Transaction": "transaction.transaction",
    "Unit": "schema.units",
    "VirtualChunkedReadParameters": "drivers.virtual_chunked.create",
    "VirtualChunkedWriteParameters": "drivers.virtual_chunked.create",
    "WriteFutures": "future.write_futures",
    "array": "drivers.array.array_driver",
    "cast": "views",
    "concat": "drivers.stack.combine",
    "downsample": "views",
    "experimental_collect_matching_metrics": "metrics",
    "experimental_collect_prometheus_format_metrics": "metrics",
    "experimental_update_verbose_logging": "kvstore.logging",
    "open": "opening",
    "overlay": "drivers.stack.combine",
    "parse_tensorstore_flags": "kvstore.logging",
    "stack": "drivers.stack.combine",
    "virtual_chunked": "drivers.virtual_chunked.create",
}
"""The modules of the names that are loaded at their first use: the import itself is fast."""


def __dir__() -> list[str]:
    return [*__all__]


if not TYPE_CHECKING:  # a checker knows all names

    def __getattr__(name: str) -> object:
        if name not in _LAZY_NAMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = _import_module(f"{__name__}.{_LAZY_NAMES[name]}")
        value = globals()[name] = getattr(module, name)
        return value
