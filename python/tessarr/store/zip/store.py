"""`ZipStore`: a store in a Zip file."""

from __future__ import annotations

import os
from functools import partial
from threading import Lock
from typing import IO, TYPE_CHECKING, Any, Final, Literal, Self, TypeAlias
from weakref import WeakValueDictionary

from tessarr._engine import ForeignStore
from tessarr.errors import ArgumentError, ReadOnlyError
from tessarr.format.registry import set_public_module
from tessarr.store import at_exit
from tessarr.store.paths import check_path, expand_user
from tessarr.store.repr_mixin import DescribedStore
from tessarr.store.zip import format as zip_format
from tessarr.store.zip.archive import Archive, ArchiveStore
from tessarr.store.zip.rewrite import repair

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ZipStore", "find_only_folder", "open_shared_zip", "open_zip"]

ZipMode: TypeAlias = Literal["r", "r+", "a", "w", "x", "w-"]

_MODES: Final = ("r", "r+", "a", "w", "x", "w-")


def _make_absolute(path: str | os.PathLike[str]) -> str:
    return os.path.abspath(expand_user(path))  # noqa: PTH100 (keeps the type of text)


class ZipStore(DescribedStore):
    """A store in a Zip file.

    Parameters
    ----------
    path : str, os.PathLike or file object
        The path of the file, or a binary file object. The object must be readable and seekable,
        and writable unless the mode is "r".
    compression : int, default 0
        The compression of new values, in addition to the codecs of arrays: the constants
        ZIP_STORED (0: none), ZIP_DEFLATED, ZIP_BZIP2 and ZIP_LZMA of `zipfile`, 93 (Zstandard)
        or 95 (xz). Only uncompressed values allow ranged reads, such as of chunks in a shard.
    allowZip64 : bool, default True
        Whether the file may exceed 2 GiB or 65 535 values, which not all programs can read.
    mode : {"r", "r+", "a", "w", "x"}, default "a"
        Read only; change an existing file; change or create a file at the first write; create
        an empty file; create a file that must not exist (also "w-").
    dimension_separator : {".", "/"}, optional
        As for `DirectoryStore`.
    durable : bool, default False
        Whether `flush` and `close` wait until the disk has all changes.
    read_only : bool, default False
        The same as ``mode="r"``.

    Notes
    -----
    The file is complete only after `close` or `flush`. A ``with`` statement closes the store; so do
    `Group.close` and `Array.close`, the end of the last reference, and the end of Python.
    One store in one process may write to a file; a second one raises a `StoreError`. Any number
    of stores may read; they see the file at the time of opening.

    Replaced and deleted values leave garbage in the file. `close` removes it if it exceeds a fifth
    of the file, and always from files under 16 MiB. A killed process leaves a file without a
    directory, which raises an error on opening; `repair` writes a new directory.

    Pickling calls `flush`. A pickle restores the store in mode "r".

    Examples
    --------
    >>> import tempfile, tessarr
    >>> path = tempfile.mkdtemp() + "/example.zip"
    >>> with ZipStore(path, mode="w") as store:
    ...     a = tessarr.create_array(store, path="a", data=[1, 2, 3])
    ...     a[0] = 7
    >>> tessarr.open(path, "r")["a"][:]
    array([7, 2, 3])
    """

    dimension_separator: Literal[".", "/"] | None
    root_folder: str
    """The only folder at the root of a file that was opened by its path; else ""."""
    _archive: Archive

    def __new__(
        cls,
        path: str | os.PathLike[str] | IO[bytes],
        compression: int = zip_format.STORED,
        allowZip64: bool = True,  # noqa: N803, FBT002 (as users know it)
        mode: ZipMode = "a",
        *,
        dimension_separator: Literal[".", "/"] | None = None,
        durable: bool = False,
        read_only: bool = False,
    ) -> Self:
        if mode not in _MODES:
            raise ArgumentError(f"mode {mode!r} is not one of {', '.join(map(repr, _MODES))}")
        if compression not in zip_format.METHODS:
            zip_format.compress(b"", compression)  # raises the error
        mode = "r" if read_only else mode
        source = _make_absolute(path) if isinstance(path, (str, os.PathLike)) else path
        if isinstance(source, str):
            check_path(source)
        archive = Archive(source, mode, compression, large=allowZip64, durable=durable)
        store = cls._build_over(archive, source, compression, mode)
        store.dimension_separator = dimension_separator
        return store

    @classmethod
    def _build_over(
        cls, archive: Archive, source: str | IO[bytes], compression: int, mode: ZipMode
    ) -> Self:
        arguments: dict[str, Any] = {"path": source}
        if compression:
            arguments["compression"] = compression
        arguments["mode"] = mode
        keys = ArchiveStore(archive)
        store = cls._build(arguments, ForeignStore(keys, read_only=mode == "r"))
        store.dimension_separator = None
        store.root_folder = ""
        store._archive = archive
        # Each user of the keys, such as an array, keeps the file open.
        at_exit.add_until_deleted(keys, archive.close)
        if archive.is_usable and isinstance(source, str):
            _open_stores[os.path.realpath(source)] = store
        return store

    @property
    def path(self) -> Any:
        """The absolute path of the file, or the file object."""
        return self._arguments["path"]

    @property
    def mode(self) -> str:
        """The mode of opening."""
        mode: str = self._arguments["mode"]
        return mode

    @property
    def closed(self) -> bool:
        """Whether the store is closed."""
        return self._archive.closed

    def list_states(self, prefix: str) -> dict[str, bytes]:
        """Return the checksums and positions of all values below a prefix, by key without it."""
        opened = ((key, self._archive.open(key)) for key in self.list(prefix))
        return {key[len(prefix) :]: value.state for key, value in opened if value is not None}

    def flush(self) -> None:
        """Write the directory, so that other stores can read the current values."""
        self._archive.flush()

    def close(self) -> None:
        """Write buffered chunks and the directory, and close the file and the store."""
        if not self.closed:
            self.store_buffered_chunks("")
        self._archive.close()

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        if not isinstance(self.path, str):
            raise TypeError(f"{self!r} cannot be pickled: it has a file object, not a path")
        if not self.closed:
            self.flush()
        separator = self.dimension_separator
        return partial(type(self), self.path, mode="r", dimension_separator=separator), ()

    @staticmethod
    def repair(path: str | os.PathLike[str]) -> int:
        """Repair the file of a killed process, and recover all complete values.

        Parameters
        ----------
        path
            The file, which must have no other writer.

        Returns
        -------
        int
            The number of values in the repaired file.

        Raises
        ------
        DataError
            If the file does not start like a Zip file of Tessarr.

        Notes
        -----
        The repair reads the whole file once. Deleted and replaced values stay deleted, except for
        deletions after the last write.

        Examples
        --------
        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/broken.zip"
        >>> with ZipStore(path, mode="w") as store:
        ...     store["a"] = b"1"
        >>> with open(path, "r+b") as file:
        ...     size = file.truncate(40)
        >>> ZipStore.repair(path)
        1
        >>> ZipStore(path, mode="r")["a"]
        b'1'
        """
        return repair(os.fspath(expand_user(path)))


_open_stores: WeakValueDictionary[str, ZipStore] = WeakValueDictionary()
_open_stores_lock: Final = Lock()
_DOCUMENTS: Final = ("zarr.json", ".zgroup", ".zarray")


def open_zip(path: str, *, mode: str, durable: bool) -> tuple[ZipStore, str]:
    """Open a Zip file by its path; return the store and the path in it.

    If a store of this process is writing to the file, mode "r" first flushes that store. Other
    modes return it, so that the program can write several arrays.

    Parameters
    ----------
    path
        The path of the file.
    mode
        "r" to read, "r+" to change an existing file; other modes may create the file.
    durable
        Whether `flush` waits for the disk, if this call opens the file.

    Returns
    -------
    store
    path
        The only folder at the root of the file, or "".
    """
    real_path = os.path.realpath(path)
    with _open_stores_lock:
        store = _open_stores.get(real_path)
        if store is None or not store._archive.is_usable:
            own_mode: ZipMode = "r" if mode == "r" else "r+" if mode == "r+" else "a"
            store = _open_writable(path, own_mode, durable=durable)
        elif mode == "r":
            if store._archive.is_writing:
                store.flush()
            store = ZipStore(path, mode="r")
    has_root_node = any(name in store._archive.entries for name in _DOCUMENTS)
    store.root_folder = "" if has_root_node else find_only_folder(store)
    return store, store.root_folder


def _open_writable(path: str, mode: ZipMode, *, durable: bool) -> ZipStore:
    """Open a file; mode "a" opens a file that is not writable in mode "r"."""
    try:
        return ZipStore(path, mode=mode, durable=durable)
    except ReadOnlyError:
        if mode != "a":
            raise
        return ZipStore(path, mode="r", durable=durable)


def open_shared_zip(path: str, compression: int, *, durable: bool) -> ZipStore:
    """Return the open store of a Zip file in this process, or open the file.

    The store is writable and creates the file at the first write. Until then other processes may
    write to the file, and the store sees their changes. The first opener sets the compression.
    """
    with _open_stores_lock:
        store = _open_stores.get(os.path.realpath(path))
        if store is None or not store._archive.is_usable:
            absolute = os.path.abspath(path)  # noqa: PTH100 (text)
            archive = Archive(absolute, "shared", compression, large=True, durable=durable)
            store = ZipStore._build_over(archive, absolute, compression, "a")
        return store


def find_only_folder(store: DescribedStore) -> str:
    """Return the only folder at the root of a file if it is a node, else ""."""
    keys, prefixes = store.list_dir("")
    folders = [prefix for prefix in prefixes if prefix != "__MACOSX/"]
    if len(folders) != 1 or any(name in keys for name in _DOCUMENTS):
        return ""
    inside = any(folders[0] + name in store for name in _DOCUMENTS)
    return folders[0][:-1] if inside and not keys else ""


set_public_module("tessarr.stores", ZipStore)
