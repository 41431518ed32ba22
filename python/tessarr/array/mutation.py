"""Methods that change an array: resize, append, fill value, read-only state, refresh."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from tessarr._engine import ArrayBase
from tessarr.array.description import describe_array, resolve_separator, use_text_type
from tessarr.array.numpy_protocol import NumPyProtocol
from tessarr.errors import ArgumentError, ReadOnlyError
from tessarr.flow import open as open_flow
from tessarr.flow.run import run_flow
from tessarr.options import current

if TYPE_CHECKING:
    from tessarr.metadata.node import ArrayMeta
    from tessarr.node.buffered_writes import BufferedWrites
    from tessarr.store import Store
    from tessarr.types import ArrayLike, Shape, ShapeLike

__all__ = ["ArrayMutation"]


class ArrayMutation(ArrayBase, NumPyProtocol):
    """Changes of an array, and refreshing of its metadata."""

    __slots__ = ()

    def resize(
        self,
        *shape: int | tuple[int, ...],
        trim: bool = True,
        new_shape: ShapeLike | None = None,
        delete_outside_chunks: bool = True,
    ) -> None:
        """Change the shape: ``a.resize(20, 30)`` or ``a.resize((20, 30))``.

        Parameters
        ----------
        *shape
            The new length of each axis.
        new_shape
            The new shape under zarr-python 3's name.
        trim
            Whether to set elements of edge chunks outside of the array to the fill value. Shrinking
            clears elements beyond the new shape; growing clears elements that become part of the
            array. False leaves them unchanged, as other libraries do.
        delete_outside_chunks
            Whether to delete stored chunks outside of the array. Shrinking deletes chunks beyond
            the new shape; growing deletes chunks that become part of the array. False leaves these
            chunks and the edge chunks unchanged: shrinking and growing with False restores all
            elements.

        Raises
        ------
        ArgumentError
            If the number of axes differs or a length is negative.
        StoreError
            If another program resizes the array concurrently, or the store fails. If the store
            rejects the new shape, the array is unchanged.

        Notes
        -----
        Shrinking first stores the shape, in one atomic step. Then it deletes chunks outside of the
        array and trims edge chunks. Growing first removes stored elements that would become part of
        the array, which a killed program or another library may have left. It deletes or lists the
        chunks in the new region, and reads the edge chunks of the old shape.

        Examples
        --------
        >>> import tessarr
        >>> a = tessarr.create_array(None, shape=(4,), dtype="u1", chunks=(4,))
        >>> a[:] = 1
        >>> a.resize(2)
        >>> a.resize(4)
        >>> a[:]
        array([1, 1, 0, 0], dtype=uint8)
        """
        self._check_no_view()
        self._check_writable()
        from tessarr.array import resize as resizing

        lengths = shape if new_shape is None else (*shape, new_shape)
        new = resizing.parse_shape(lengths, self.ndim)
        if any(after < before for after, before in zip(new, self.shape, strict=True)):
            self._store_buffered_chunks()  # otherwise they would be stored outside of the shape
        delete = delete_outside_chunks
        resizing.resize(
            self,
            lambda _: new,
            trim=trim and delete,
            accept=self._set_meta,
            delete=delete,
            clear=delete,
        )

    def append(self, data: ArrayLike, axis: int = 0) -> Shape:
        """Add data at the end of an axis.

        Parameters
        ----------
        data
            The data, with the array's length along every other axis. Data outside of memory, such
            as an array of h5py or Dask, is read in parts of at most the option ``copy_bytes``.
        axis
            The axis that grows.

        Returns
        -------
        tuple of int
            The new shape.

        Raises
        ------
        ArgumentError
            If the shape of the data does not fit.
        StoreError
            If the store fails, or another program resizes the array concurrently. The array then
            keeps its old shape and contents.

        Notes
        -----
        The method stores the data first and the shape last, in one atomic step, so that readers see
        all of the data or none. The data follows the stored elements, even if another program has
        appended since this array was opened. A lock serializes appends and resizes of one array
        between threads, and in a folder between processes.

        Examples
        --------
        >>> import tessarr
        >>> a = tessarr.create_array(None, shape=(0, 2), dtype="i4", chunks=(8, 2))
        >>> a.append([[1, 2], [3, 4]])
        (2, 2)
        """
        self._check_no_view()
        self._check_writable()
        from tessarr.array import resize as resizing

        part_bytes = None
        if hasattr(data, "shape"):
            from tessarr import transfer

            if transfer.is_lazy(data, self.dtype):
                part_bytes = current().copy_bytes
        return resizing.append(self, data, axis, part_bytes=part_bytes, accept=self._set_meta)

    def buffered(self, *, max_bytes: int = 1 << 28) -> BufferedWrites[Self]:
        """Collect writes to parts of chunks in memory, and store each chunk once.

        Without it, each write to a part of a chunk or shard reads, changes and stores the whole
        chunk. In the block, it only copies the elements, so loops over rows cost as little as in
        h5py. `tessarr.buffered` does the same for all arrays below a group.

        Parameters
        ----------
        max_bytes
            The memory limit in bytes, by default 256 MiB. When a write needs more, the block first
            stores chunks with all elements, then those whose last write is oldest. Each thread may
            exceed the limit by one chunk.

        Returns
        -------
        BufferedWrites
            A context manager for a ``with`` statement, whose result is the array. Its method
            ``flush()`` stores all chunks in memory earlier, or tries again after an error;
            ``discard()`` drops them; its property ``nbytes`` is the number of bytes in memory.

        Raises
        ------
        ArgumentError
            If `max_bytes` is not an integer of at least 0.
        ReadOnlyError
            If the array is open for reading only.

        Notes
        -----
        *Reads.* All array objects of this process see each write at once, by whatever store object
        they are opened. A view with another data type (`view`, `astype`) and an array of another
        store object store the chunks in memory before they read or write, as do copies, listings,
        transactions and a shrinking resize. Stores for one bucket with different options, or from
        different libraries, count as different locations. Other processes, and direct reads of
        keys, see stored chunks only.

        *Writes.* A write that covers a whole chunk goes to the store at once. `append` and `resize`
        store the new shape at once: until the block stores the new elements, other processes read
        the fill value. Arrays with a synchronizer, and arrays of another store object, store every
        write at once.

        *Concurrent writers.* The block stores only the elements that it wrote: it reads the chunk
        again, and keeps what other threads and processes have written to the rest of it. If another
        process writes the same elements during the block, those of the block replace them when the
        block stores the chunk. Writes and deletions of chunks by their keys count as those of
        another process, except in a transaction. Several blocks on one array share their memory, in
        nested statements and in threads; the end of each stores all of it.

        *Deleted and replaced arrays.* A deletion or replacement by this process, or by the commit
        of a transaction, discards the elements in memory. Before the block stores chunks, it
        compares the metadata document: if another process has deleted the array, or replaced it by
        one with other chunks, the block discards the elements and raises an error.

        *Errors.* An exception in the block stores what was written before it and then propagates,
        as for a file of h5py or of Python, and as without the block. A chunk that cannot be stored
        does not prevent others: the block tries all chunks and raises the first error, whose notes
        name the others. The failed chunks stay in memory, and reads see them. ``flush()``, the end
        of any later block of the array, and the exit of the interpreter try again; a write to such
        a chunk stores it first. If Ctrl-C interrupts the end, the rest stays in memory likewise.

        *Exit.* ``close`` of the array or of its store stores the elements in memory. A block that
        is never left is stored when its object is deleted (with a `ResourceWarning`) or when the
        interpreter exits. If the garbage collector ends a block, another thread stores it. A killed
        process loses the elements in memory. In all cases each chunk has its old or its new
        content, never a mixture. A child process that is forked in the block does not have the
        elements in memory, and stores its own writes at once.

        Examples
        --------
        >>> import numpy as np
        >>> import tessarr
        >>> a = tessarr.create_array(None, shape=(6, 4), dtype="i4", chunks=(3, 4))
        >>> with a.buffered():
        ...     for i in range(6):
        ...         a[i] = np.arange(4) + i  # stores two chunks in all, not six
        ...     a[4]
        array([4, 5, 6, 7], dtype=int32)
        >>> a[5]
        array([5, 6, 7, 8], dtype=int32)
        """
        from tessarr.node.buffered_writes import BufferedWrites

        self._check_writable()
        return BufferedWrites(self, self._start_buffer, max_bytes)

    def _set_fill_value(self, value: Any) -> None:
        self._check_no_view()
        self._check_writable()
        self._store_buffered_chunks()  # the rest of each chunk has the old fill value
        from tessarr.array import resize as resizing

        resizing.set_fill_value(self, value, accept=self._set_meta)

    def _set_read_only(self, read_only: bool) -> None:
        if not read_only and (self._store.read_only or self._meta.is_v1):
            reason = "format 1 is" if self._meta.is_v1 else "its store was opened"
            raise ReadOnlyError(
                f"array {self.name!r} cannot be made writable: {reason} for reading only",
                path=self._path,
            )
        self._read_only = read_only
        self._configure(read_only, direct=self._synchronizer is None and self._cache_metadata)

    # Changes by other programs

    def refresh(self) -> None:
        """Read the metadata again, including attributes, to see the changes of other programs.

        Views of the array do not change.

        Raises
        ------
        NotFoundError
            If the array no longer exists.
        ArgumentError
            If the path now holds an array with another number of axes or another data type.
        """
        self._update_meta()

    def _update_meta(self, *, attributes: bool = True, store: Store | None = None) -> None:
        """Read the metadata again, optionally without attributes in a separate document.

        `store` is another handle of the same store.
        """
        if self._view_origin is not None:
            return
        old, new = self._meta, self._read_stored_meta(attributes=attributes, store=store)
        if new == old:
            return
        if (new.rank, new.data_type) != (old.rank, old.data_type):
            raise ArgumentError(
                f"array {self.name!r} was replaced by another: open it again", path=self._path
            )
        self._replace_description(describe_array(new, self._write_empty_chunks, self._missing))
        self._meta = new

    def _read_stored_meta(self, *, attributes: bool, store: Store | None = None) -> ArrayMeta:
        """Read the stored metadata."""
        old, store = self._meta, self._store if store is None else store
        form = None if old.is_v1 else old.zarr_format
        flow = open_flow.open_array(self._path, zarr_format=form, attributes=attributes)
        stored = run_flow(flow, store)
        new = resolve_separator(stored, store)
        if new.data_type.elements == old.data_type.elements == "text":
            new = use_text_type(new, "object" if old.data_type.numpy.kind == "O" else "string")
        return new

    # Internal state

    def _check_no_view(self) -> None:
        if self._view_origin is not None:
            error = ReadOnlyError("not permitted for views", path=self._path)
            error.add_note(f"change array {self.name!r} itself, which this is a view of")
            raise error

    def _set_meta(self, meta: ArrayMeta) -> None:
        self._replace_description(describe_array(meta, self._write_empty_chunks, self._missing))
        self._meta = meta
        self._note_change()
