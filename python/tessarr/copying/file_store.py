"""HDF5, netCDF and NumPy files as read-only stores, without a copy.

The metadata documents are those that `copy_to` writes, except that nothing is compressed. A read
of a chunk's key reads that part of the file.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tessarr.array import bind_array
from tessarr.array.regions import get_chunk_region
from tessarr.copying.plan import plan_steps
from tessarr.copying.source import open_source
from tessarr.flow import create
from tessarr.flow.run import run_flow
from tessarr.format.node_path import join
from tessarr.metadata.node import ArrayMeta
from tessarr.store import MemoryStore, file_signatures
from tessarr.transfer.endpoints import read_part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tessarr.copying.report import Skipped
    from tessarr.types import Shape

__all__ = ["FileStore"]

_SETTINGS: Final = {"compressors": (), "filters": ()}


class FileStore:
    """A read-only store with the arrays and groups of a file of another format.

    Parameters
    ----------
    path
        The path of a file of HDF5, of netCDF, or of NumPy (``.npy``).

    Raises
    ------
    UnsupportedError
        If the package that reads the format is missing, or Zarr cannot represent the only array.
    DataError
        If the file is damaged.
    StoreError
        If the operating system cannot open the file.

    Notes
    -----
    The package of the file's format does the reading: h5py, netCDF4 or SciPy, or NumPy. `skipped`
    lists the nodes and attributes without an equivalent.

    Examples
    --------
    >>> import numpy as np, tempfile, tessarr
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/a.npy", np.arange(6).reshape(2, 3))
    ...     tessarr.open(FileStore(f"{folder}/a.npy"), "r")[:, 1]
    array([1, 4])
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.format: Final = file_signatures.detect_format(path)
        self._source = open_source(path, None)
        self._documents = MemoryStore()
        steps = plan_steps(self._source, self._documents, ..., _SETTINGS, zarr_format=3)
        self._arrays: dict[str, _FileArray] = {}
        for step in steps:
            run_flow(create.create_node(step.name, step.new), self._documents)
            if isinstance(step.new, ArrayMeta):
                values = self._source.array(step.name, step.old)
                self._arrays[step.name] = _FileArray(step.new, values)
        self.skipped: tuple[Skipped, ...] = tuple(self._source.skipped)

    def get(self, key: str) -> bytes | None:
        """Return a document or a chunk."""
        document = self._documents.get(key)
        if document is not None:
            return document
        found = self._find_chunk(key)
        return None if found is None else found[0].read_chunk(*found[1:])

    def list(self, prefix: str) -> Iterator[str]:
        """Yield the keys of all documents and chunks."""
        yield from self._documents.list(prefix)
        for path, array in self._arrays.items():
            base = f"{path}/" if path else ""
            if base.startswith(prefix) or prefix.startswith(base):
                keys = (base + key for key in array.chunk_keys())
                yield from (key for key in keys if key.startswith(prefix))

    def list_dir(self, prefix: str) -> tuple[Sequence[str], Sequence[str]]:
        """Return the keys and the prefixes one level below a prefix."""
        path = prefix.rstrip("/")
        if path not in self._arrays and self._documents.get(join(path, "zarr.json")) is not None:
            return self._documents.list_dir(prefix)
        names = {key[len(prefix) :].partition("/")[::2] for key in self.list(prefix)}
        keys = sorted(prefix + name for name, rest in names if not rest)
        return keys, sorted({f"{prefix}{name}/" for name, rest in names if rest})

    def open_value(self, key: str) -> _Value | None:
        """Open a document or a chunk, whose elements are read at the first use."""
        document = self._documents.get(key)
        if document is not None:
            return _Value(len(document), lambda: document)
        found = self._find_chunk(key)
        if found is None:
            return None
        array, cell, rest = found
        size = array.chunk_bytes
        if size is None:
            data = array.read_chunk(cell, rest)
            return _Value(len(data), lambda: data)
        return _Value(size, lambda: array.read_chunk(cell, rest))

    def close(self) -> None:
        """Close the file."""
        self._source.close()

    def _find_chunk(self, key: str) -> tuple[_FileArray, Shape, str] | None:
        """Return the array, the grid cell and the key below the array of a chunk."""
        parts = key.split("/")
        for count in range(len(parts)):
            array = self._arrays.get("/".join(parts[:count]))
            rest = "/".join(parts[count:])
            cell = None if array is None else array.find_cell(rest)
            if array is not None and cell is not None:
                return array, cell, rest
        return None

    def __repr__(self) -> str:
        return f"FileStore({self.path!r})"


@dataclass(frozen=True, slots=True)
class _FileArray:
    """An array of the file, with the metadata of its copy."""

    meta: ArrayMeta
    values: Any

    @property
    def chunk_bytes(self) -> int | None:
        """The size of an encoded chunk; None if it depends on the elements."""
        if self.meta.data_type.elements is not None:
            return None
        return prod(self.meta.chunk_shape) * self.meta.data_type.item_bytes

    def chunk_keys(self) -> Iterator[str]:
        """Yield the keys of all chunks."""
        return map(self.meta.chunk_key_encoding.encode, np.ndindex(self.meta.grid_shape))

    def find_cell(self, key: str) -> Shape | None:
        """Return the grid cell of a key; None if the array has no such chunk."""
        cell = self.meta.chunk_key_encoding.decode(key, self.meta.rank)
        if cell is None:
            return None
        pairs = zip(cell, self.meta.grid_shape, strict=True)
        return cell if all(index < length for index, length in pairs) else None

    def read_chunk(self, cell: Shape, key: str) -> bytes:
        """Return an encoded chunk."""
        region = get_chunk_region(self.meta, cell)
        encoded = MemoryStore()
        array = bind_array(self.meta, encoded, "", read_only=False, write_empty_chunks=True)
        array[region] = read_part(self.values, region)
        value = encoded.get(key)
        assert value is not None
        return value


class _Value:
    """A value that is read at its first use."""

    def __init__(self, size: int, load: Callable[[], bytes]) -> None:
        self.size = size
        self._load = load
        self._data: bytes | None = None

    def read(self, offset: int, count: int) -> bytes:
        """Return a part of the value."""
        data = self._load() if self._data is None else self._data
        self._data = data
        return data if count == len(data) and not offset else data[offset : offset + count]
