"""Public facade: base classes of extensions, and decorators that register them.

``docs/extending.md`` shows each extension point with an example. A package can declare its
extensions as entry points; then users need not import it:

==============================  ============================  ===================================
extension point                 decorator                     group of entry points
==============================  ============================  ===================================
codec                           `register_codec`              ``tessarr.codecs``
data type                       `register_data_type`          ``tessarr.data_types``
chunk grid                      `register_chunk_grid`         ``tessarr.chunk_grids``
chunk key encoding              `register_key_encoding`       ``tessarr.chunk_key_encodings``
storage transformer             `register_transformer`        ``tessarr.storage_transformers``
store                           `register_store`              ``tessarr.stores``
==============================  ============================  ===================================
"""

from __future__ import annotations

from tessarr.codec import (
    ArrayArrayCodec,
    ArrayBytesCodec,
    ArraySpec,
    BytesBytesCodec,
    Codec,
    deliver,
    register_codec,
)
from tessarr.dtype import DataType
from tessarr.dtype import register as register_data_type
from tessarr.format.chunk_grid import ChunkGrid, Cuts
from tessarr.format.chunk_grid import register as register_chunk_grid
from tessarr.format.chunk_key_encoding import ChunkKeyEncoding
from tessarr.format.chunk_key_encoding import register as register_key_encoding
from tessarr.format.storage_transformer import ChunkStore, StorageTransformer
from tessarr.format.storage_transformer import register as register_transformer
from tessarr.format.validation import Members, Problems
from tessarr.store import register_store
from tessarr.store.protocol import OpenedValue, StoreProtocol

__all__ = [
    "ArrayArrayCodec",
    "ArrayBytesCodec",
    "ArraySpec",
    "BytesBytesCodec",
    "ChunkGrid",
    "ChunkKeyEncoding",
    "ChunkStore",
    "Codec",
    "Cuts",
    "DataType",
    "Members",
    "OpenedValue",
    "Problems",
    "StorageTransformer",
    "StoreProtocol",
    "deliver",
    "register_chunk_grid",
    "register_codec",
    "register_data_type",
    "register_key_encoding",
    "register_store",
    "register_transformer",
]
