"""`CodecPipeline`: the engine as the codec pipeline of zarr-python 3."""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
from zarr.abc.codec import CodecPipeline as AbstractPipeline
from zarr.core.array import create_codec_pipeline
from zarr.core.codec_pipeline import BatchedCodecPipeline

from tessarr.array.array import Array, bind_array
from tessarr.errors import TessarrError
from tessarr.format.registry import set_public_module
from tessarr.metadata.from_user import read_user_metadata
from tessarr.metadata.node import ArrayMeta
from tessarr.store.adapt import adapt_store
from tessarr.store.local import LocalStore
from tessarr.zarr.regions import Region, find_regions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

__all__ = ["CodecPipeline"]

_INLINE_BYTES: Final = 1 << 18
"""Up to this size, the event loop waits for an operation on local files."""


class CodecPipeline(AbstractPipeline):  # type: ignore[misc] # untyped
    """The codec pipeline that reads and writes chunks of zarr-python's arrays with the engine.

    ``zarr.config.set({"codec_pipeline.path": "tessarr.zarr.CodecPipeline"})`` or the environment
    variable ``ZARR_CODEC_PIPELINE__PATH`` selects it for a program. Arrays with codecs, data types
    or chunk grids that Tessarr does not have use zarr-python's own pipeline.

    Notes
    -----
    Writes replace each chunk or shard atomically. Concurrent writers of parts of one chunk lose no
    change: threads of one process in any store, processes in local folders and object stores.

    Examples
    --------
    >>> import zarr
    >>> with zarr.config.set({"codec_pipeline.path": "tessarr.zarr.CodecPipeline"}):
    ...     a = zarr.create_array("data.zarr", shape=(100,), dtype="f4", fill_value=1)
    >>> float(a[:].sum())
    100.0
    """

    def __init__(self, metadata: Any, store: Any) -> None:
        self._metadata = metadata
        self._store = store
        self._layout = _Layout(metadata)
        self._document = _build_document(metadata)
        self._arrays: dict[tuple[str, bool], Array] = {}
        self._own: Any = None
        self._array("", write_empty=False, shape=metadata.shape)  # Tessarr reads such arrays

    @classmethod
    def from_array_metadata_and_store(cls, array_metadata: Any, store: Any) -> Self:
        """Return the pipeline of an array; `NotImplementedError` selects zarr-python's own."""
        try:
            return cls(array_metadata, store)
        except (TessarrError, TypeError) as error:
            raise NotImplementedError(str(error)) from error

    @classmethod
    def from_codecs(cls, codecs: Iterable[Any]) -> Any:
        """Return zarr-python's own pipeline of some codecs, such as those inside a shard."""
        return BatchedCodecPipeline.from_codecs(codecs)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._metadata, self._store)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CodecPipeline) and self._metadata == other._metadata

    __hash__ = None  # type: ignore[assignment]

    @property
    def _fallback(self) -> Any:
        """The pipeline of zarr-python for the same array."""
        if self._own is None:
            self._own = create_codec_pipeline(self._metadata)
        return self._own

    def evolve_from_array_spec(self, array_spec: Any) -> Self:
        """Return this pipeline, which already has the metadata of its array."""
        del array_spec
        return self

    @property
    def supports_partial_decode(self) -> bool:
        """Whether zarr-python may read parts of chunks."""
        return bool(self._fallback.supports_partial_decode)

    @property
    def supports_partial_encode(self) -> bool:
        """Whether zarr-python may write parts of chunks."""
        return bool(self._fallback.supports_partial_encode)

    def __iter__(self) -> Any:
        return iter(self._fallback)

    def validate(self, *, shape: tuple[int, ...], dtype: Any, chunk_grid: Any) -> None:
        """Check the codecs against the metadata of an array."""
        self._fallback.validate(shape=shape, dtype=dtype, chunk_grid=chunk_grid)

    def compute_encoded_size(self, byte_length: int, array_spec: Any) -> int:
        """Return the size in bytes of an encoded chunk."""
        return int(self._fallback.compute_encoded_size(byte_length, array_spec))

    async def decode(self, chunk_bytes_and_specs: Iterable[Any]) -> Iterable[Any]:
        """Decode chunks with zarr-python's pipeline."""
        decoded: Iterable[Any] = await self._fallback.decode(chunk_bytes_and_specs)
        return decoded

    async def encode(self, chunk_arrays_and_specs: Iterable[Any]) -> Iterable[Any]:
        """Encode chunks with zarr-python's pipeline."""
        encoded: Iterable[Any] = await self._fallback.encode(chunk_arrays_and_specs)
        return encoded

    async def read(  # pyright: ignore[reportIncompatibleMethodOverride] # new in zarr-python 3.2
        self, batch_info: Iterable[Any], out: Any, drop_axes: tuple[int, ...] = ()
    ) -> tuple[Any, ...]:
        """Read parts of chunks into `out`."""
        batch = list(batch_info)
        target = out.as_ndarray_like()
        if not batch:
            return ()
        if not self._serves(batch[0], target):
            return tuple(await self._fallback.read(batch, out, drop_axes))
        array, regions = self._plan(batch, drop_axes)
        await self._run(
            partial(_run_each, [partial(region.read, array, target) for region in regions]),
            array,
            target,
        )
        return ({"status": "present"},) * len(batch)

    async def write(
        self, batch_info: Iterable[Any], value: Any, drop_axes: tuple[int, ...] = ()
    ) -> None:
        """Write `value` to parts of chunks, each chunk or shard atomically."""
        batch = list(batch_info)
        source = value.as_ndarray_like()
        if not batch:
            return
        if not self._serves(batch[0], source):
            await self._fallback.write(batch, value, drop_axes)
            return
        array, regions = self._plan(batch, drop_axes)
        await self._run(
            partial(_run_each, [partial(region.write, array, source) for region in regions]),
            array,
            source,
        )

    def _serves(self, first: Any, values: Any) -> bool:
        """Return whether the engine can perform an operation."""
        location, spec = first[0], first[1]
        return (
            isinstance(values, np.ndarray)
            and getattr(spec.config, "read_missing_chunks", True)
            and getattr(location, "store", None) is not None
            and self._layout.split_key(location.path) is not None
        )

    def _plan(self, batch: list[Any], drop_axes: tuple[int, ...]) -> tuple[Array, list[Region]]:
        path, coordinates = self._layout.split_keys([entry[0].path for entry in batch])
        regions = find_regions(
            coordinates,
            self._layout.chunks,
            [entry[2] for entry in batch],
            [entry[3] for entry in batch],
            drop_axes,
        )
        ends = (coordinates.max(axis=0) + 1) * self._layout.chunks if self._layout.chunks else ()
        write_empty = bool(getattr(batch[0][1].config, "write_empty_chunks", False))
        return self._array(path, write_empty=write_empty, shape=tuple(map(int, ends))), regions

    def _array(self, path: str, *, write_empty: bool, shape: tuple[int, ...]) -> Array:
        """Return Tessarr's array at a path, which contains a shape.

        Its shape is a number of whole chunks: zarr-python changes the shape of an array without a
        new pipeline, and a write to the last chunk must keep the elements beyond a former shape.
        """
        array = self._arrays.get((path, write_empty))
        if array is None or any(a < b for a, b in zip(array.shape, shape, strict=True)):
            known = shape if array is None else tuple(map(max, shape, array.shape))
            padded = [
                -(-length // chunk) * chunk
                for length, chunk in zip(known, self._layout.chunks, strict=True)
            ]
            meta = read_user_metadata(self._document | {"shape": padded}, path)
            assert isinstance(meta, ArrayMeta)
            store = adapt_store(self._store)
            array = bind_array(meta, store, path, read_only=False, write_empty_chunks=write_empty)
            self._arrays[path, write_empty] = array
        return array

    async def _run(self, work: Callable[[], Any], array: Array, values: NDArray[Any]) -> None:
        """Run an operation, in a thread if the event loop has to remain available."""
        if isinstance(array._store, LocalStore) and values.nbytes <= _INLINE_BYTES:
            work()
        else:
            await asyncio.to_thread(work)


def _run_each(tasks: list[Callable[[], None]]) -> None:
    for task in tasks:
        task()


class _Layout:
    """The chunk shape and the chunk keys of an array of zarr-python."""

    def __init__(self, metadata: Any) -> None:
        self.chunks: tuple[int, ...]
        if metadata.zarr_format == 2:
            self.chunks = tuple(metadata.chunks)
            self._separator, prefix = metadata.dimension_separator, False
        else:
            grid = metadata.chunk_grid.to_dict()
            encoding = metadata.chunk_key_encoding.to_dict()
            if grid["name"] != "regular" or encoding["name"] not in {"default", "v2"}:
                raise TypeError("only regular chunk grids and the usual keys")
            self.chunks = tuple(metadata.chunk_grid.chunk_shape)
            self._separator = metadata.chunk_key_encoding.separator
            prefix = encoding["name"] == "default"
        if not all(self.chunks):
            raise TypeError("chunks without elements")
        self._prefix = ["c"] if prefix else []
        self._has_number = bool(self.chunks) or not prefix

    def split_key(self, key: str) -> tuple[str, tuple[int, ...]] | None:
        """Return the path of an array and the coordinates of a chunk; None for other keys."""
        count = len(self.chunks) or int(self._has_number)
        if self._separator == "/":
            segments = key.split("/")
            names = segments[len(segments) - count - len(self._prefix) :]
            path = "/".join(segments[: len(segments) - len(names)])
        else:
            path, _, name = key.rpartition("/")
            names = name.split(self._separator)
        numbers = names[len(self._prefix) :]
        if names[: len(self._prefix)] != self._prefix or len(numbers) != count:
            return None
        if not all(number.isdecimal() for number in numbers):
            return None
        return path, tuple(map(int, numbers[: len(self.chunks)]))

    def join_keys(self, path: str, ranges: list[range]) -> list[str]:
        """Return the keys of the chunks in a box of the chunk grid."""
        start = "/".join([path] * bool(path) + self._prefix)
        separator = self._separator if self._prefix else "/"
        numbers = map(self._separator.join, product(*(map(str, each) for each in ranges)))
        return [f"{start}{separator}{text}" if start else text for text in numbers]

    def split_keys(self, keys: list[str]) -> tuple[str, NDArray[np.int64]]:
        """Return the path of an array and the coordinates of its chunks: (chunks, dimensions)."""
        first, last = self.split_key(keys[0]), self.split_key(keys[-1])
        if first is not None and last is not None and first[1]:
            ranges = [range(a, b + 1) for a, b in zip(first[1], last[1], strict=True)]
            if keys == self.join_keys(first[0], ranges):
                grid = np.meshgrid(*ranges, indexing="ij")
                return first[0], np.stack([axis.ravel() for axis in grid], axis=1)
        parsed = [self.split_key(key) for key in keys]
        paths = {entry[0] for entry in parsed if entry is not None}
        if None in parsed or len(paths) != 1:
            raise ValueError(f"{keys!r} are not chunks of one array")
        coordinates = [entry[1] for entry in parsed if entry is not None]
        shape = len(keys), len(self.chunks)
        return paths.pop(), np.array(coordinates, dtype=np.int64).reshape(shape)


def _build_document(metadata: Any) -> dict[str, Any]:
    """Return the metadata document of an array without attributes."""
    document: dict[str, Any] = metadata.to_dict()
    return document | {"attributes": {}}


set_public_module("tessarr.zarr", CodecPipeline)
