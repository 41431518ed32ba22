"""A slow reader and writer of Zarr arrays in plain Python and NumPy: the oracle for the engine.

It has separate readers of metadata documents and separate codecs, so that it shares only the
specification with the engine.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, MutableMapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tessarr.testing.plain_codecs import Layout, decode, encode
from tessarr.testing.plain_metadata import PlainArray, parse_v2, parse_v3

__all__ = ["ReferenceArray"]


class ReferenceArray:
    """An existing array in a store.

    Parameters
    ----------
    store : mutable mapping
        The keys and values of the array, such as a dict or a store.
    scramble : int, optional
        A seed for random order and gaps of subchunks in shards.

    Examples
    --------
    >>> import numpy as np
    >>> store = {".zarray": b'{"shape": [5], "chunks": [2], "dtype": "<u2", "fill_value": 7, '
    ...                     b'"order": "C", "compressor": null, "filters": null}'}
    >>> a = ReferenceArray(store)
    >>> a.write(slice(1, 2), 1)
    >>> a.read(), sorted(store)
    (array([7, 1, 7, 7, 7], dtype=uint16), ['.zarray', '0'])
    """

    def __init__(self, store: MutableMapping[str, bytes], *, scramble: int | None = None) -> None:
        self._store = store
        document = store.get("zarr.json")
        if document is None:
            document = store.get(".zarray")
            if document is None:
                raise KeyError("the store has no array at its root")
            self.meta: PlainArray = parse_v2(bytes(document))
        else:
            self.meta = parse_v3(bytes(document))
        meta = self.meta
        self._layout = Layout((), meta.dtype, meta.fill, scramble, meta.is_text)

    def read(self, key: Any = ...) -> Any:
        """Read a NumPy selection.

        Parameters
        ----------
        key : optional
            Any key of NumPy; by default the whole array.

        Returns
        -------
        numpy.ndarray or numpy.generic
            NumPy's result for indexing the whole array with `key`.
        """
        whole = np.empty(self.meta.shape, self.meta.dtype)
        for cell, window, inside in self._cells():
            whole[window] = self._chunk(cell)[inside]
        return whole[key]

    def write(self, key: Any, value: Any) -> None:
        """Write to a NumPy selection; store only the chunks that it touches.

        Parameters
        ----------
        key
            Any key of NumPy.
        value : array_like
            The value to assign.
        """
        whole: npt.NDArray[Any] = self.read()
        touched = np.zeros(self.meta.shape, np.bool_)
        whole[key] = value
        touched[key] = True
        for cell, window, inside in self._cells():
            if touched[window].any():
                chunk = self._chunk(cell)
                chunk[inside] = whole[window]
                self._put(cell, chunk)

    def chunks(self) -> Iterator[tuple[str, npt.NDArray[Any]]]:
        """Yield the key of each chunk with its elements inside of the array."""
        for cell, _, inside in self._cells():
            yield self.meta.key(cell), self._chunk(cell)[inside]

    def _cells(self) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...], tuple[slice, ...]]]:
        """Yield each cell of the grid, its region of the array, and its part inside."""
        shape, chunks = self.meta.shape, self.meta.chunks
        for cell in itertools.product(*(range(len(lengths)) for lengths in chunks)):
            starts = [sum(lengths[:n]) for n, lengths in zip(cell, chunks, strict=True)]
            whole = self._layout_of(cell).shape
            counts = [min(b, a - s) for a, b, s in zip(shape, whole, starts, strict=True)]
            window = tuple(slice(s, s + c) for s, c in zip(starts, counts, strict=True))
            yield cell, window, tuple(slice(0, c) for c in counts)

    def _chunk(self, cell: tuple[int, ...]) -> npt.NDArray[Any]:
        data = self._store.get(self.meta.key(cell))
        layout = self._layout_of(cell)
        if data is None:
            return layout.filled()
        return decode(bytes(data), self.meta.codecs, layout).copy()

    def _layout_of(self, cell: tuple[int, ...]) -> Layout:
        pairs = zip(self.meta.chunks, cell, strict=True)
        return self._layout.with_shape(tuple(lengths[n] for lengths, n in pairs))

    def _put(self, cell: tuple[int, ...], chunk: npt.NDArray[Any]) -> None:
        key = self.meta.key(cell)
        if self._layout.is_fill(chunk):
            self._store.pop(key, None)
        else:
            self._store[key] = encode(chunk, self.meta.codecs, self._layout_of(cell))
