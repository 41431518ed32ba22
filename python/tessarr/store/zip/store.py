"""The store in a Zip file, as users have it."""

from __future__ import annotations

import os
import weakref
from threading import Lock
from typing import IO, TYPE_CHECKING, Any, Final, Literal, Self, TypeAlias
from weakref import WeakValueDictionary

from tessarr._engine import ForeignStore
from tessarr.errors import ArgumentError, ReadOnlyError
from tessarr.format.registry import set_public_module
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
        The file; or a binary file that can be read and sought, and written unless
        the mode is "r".
    compression : int, default 0
        How new values are compressed, beside what the codecs of arrays do: the constants
        ZIP_STORED (0: not at all), ZIP_DEFLATED, ZIP_BZIP2 and ZIP_LZMA of `zipfile`,
        93 (Zstandard) or 95 (xz). Parts of values, such as the chunks in a shard, are read by
        themselves only if it is 0.
    allowZip64 : bool, default True
        Whether the file may become larger than 2 GiB, or a value in it, or have more than
        65 535 values: that not all programs can read.
    mode : {"r", "r+", "a", "w", "x"}, default "a"
        Read only; change what exists; change or create, as soon as something is written;
        create, empty; create what must not exist (also "w-").
    dimension_separator : {".", "/"}, optional
        As for `DirectoryStore`.
    durable : bool, default False
        `flush` and `close` return when everything has reached the disk.
    read_only : bool, default False
        The same as ``mode="r"``.

    Notes
    -----
    The file is complete only after `close` or `flush`. A ``with`` statement closes; so do
    `Group.close` and `Array.close`, the last use of the store, and the end of Python.
    One store at a time writes to a file, in this process or any other: a second one gets a
    `StoreError`. Any number may read; they see what was there when they opened it.

    Values may be replaced and deleted; `close` removes what is left over of them, if it is
    more than a fifth of a file of more than 16 MiB, and from a smaller file always. A
    process that is killed leaves a file without directory, which is an error to open: `repair`
    writes a new one.

    A pickle is the store open for reading only, with what was there at the last `flush`,
    which pickling does.

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
    """The folder in which all is that the file has, where it was opened by its path."""
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
            zip_format.compress(b"", compression)  # which refuses it
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
        # Whoever uses the keys, an array on its own too, keeps the file open.
        weakref.finalize(keys, archive.close)
        if archive.is_usable and isinstance(source, str):
            _open_stores[os.path.realpath(source)] = store
        return store

    @property
    def path(self) -> Any:
        """The file, as an absolute path; or the file object."""
        return self._arguments["path"]

    @property
    def mode(self) -> str:
        """As which it was opened."""
        mode: str = self._arguments["mode"]
        return mode

    @property
    def closed(self) -> bool:
        """Whether it was closed, and can no longer be used."""
        return self._archive.closed

    def flush(self) -> None:
        """Complete the file, so that others can read what it has now."""
        self._archive.flush()

    def close(self) -> None:
        """Complete the file and close it; the store cannot be used any more."""
        self._archive.close()

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._arguments == other._arguments

    def __hash__(self) -> int:
        return super().__hash__()

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        if not isinstance(self.path, str):
            raise TypeError(f"{self!r} cannot be pickled: it has a file object, not a path")
        if not self.closed:
            self.flush()
        return type(self)._unpickle, (self.path, self.dimension_separator)

    @classmethod
    def _unpickle(cls, path: str, separator: Literal[".", "/"] | None) -> Self:
        return cls(path, mode="r", dimension_separator=separator)

    @staticmethod
    def repair(path: str | os.PathLike[str]) -> int:
        """Complete a file that a killed process left, with all values that are whole.

        Parameters
        ----------
        path
            The file. Nobody else may be writing to it.

        Returns
        -------
        int
            How many values it has now.

        Raises
        ------
        DataError
            If it does not begin as a Zip file that Tessarr has written.

        Notes
        -----
        Costs one read of the file. What was deleted or replaced is so in the repaired file, but for
        deletions after the last value that was written.

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
    """Return the store in a Zip file that is opened by its path, and the path in it.

    Where somebody in this process is writing to the file, that store is returned, so that
    several arrays can be written; or completed, so that it can be read.

    Parameters
    ----------
    path
        Of the file.
    mode
        "r" to read, "r+" to change what exists, else to create it where it does not exist.
    durable
        Whether flushing waits for the disk, if it is opened here.

    Returns
    -------
    store
    path
        "", or, where everything is in one folder, this folder.
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
    store.root_folder = find_only_folder(store)
    return store, store.root_folder


def _open_writable(path: str, mode: ZipMode, *, durable: bool) -> ZipStore:
    """Open a file, and one that exists but may not be written for reading where "a" allows that."""
    try:
        return ZipStore(path, mode=mode, durable=durable)
    except ReadOnlyError:
        if mode != "a":
            raise
        return ZipStore(path, mode="r", durable=durable)


def open_shared_zip(path: str, compression: int, *, durable: bool) -> ZipStore:
    """Return the store in a Zip file that is open in this process, or open it.

    It can be written, and is created where it does not exist; what others write to is read. Other
    processes may write to it, and what they do is seen, until something is written here.
    Values are compressed as whoever opened it said.
    """
    with _open_stores_lock:
        store = _open_stores.get(os.path.realpath(path))
        if store is None or not store._archive.is_usable:
            absolute = os.path.abspath(path)  # noqa: PTH100 (text)
            archive = Archive(absolute, "shared", compression, large=True, durable=durable)
            store = ZipStore._build_over(archive, absolute, compression, "a")
        return store


def find_only_folder(store: DescribedStore) -> str:
    """Return the folder that somebody has packed, where a file has one node, in a folder."""
    keys, prefixes = store.list_dir("")
    folders = [prefix for prefix in prefixes if prefix != "__MACOSX/"]
    if len(folders) != 1 or any(name in keys for name in _DOCUMENTS):
        return ""
    inside = any(folders[0] + name in store for name in _DOCUMENTS)
    return folders[0][:-1] if inside and not keys else ""


set_public_module("tessarr.stores", ZipStore)
