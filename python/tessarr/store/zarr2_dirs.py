"""Folder stores with zarr-python 2's names: `DirectoryStore` and its subclasses."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self

from tessarr.errors import ArgumentError
from tessarr.format.registry import set_public_module
from tessarr.store import at_exit
from tessarr.store.local import LocalStore

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["DirectoryStore", "NestedDirectoryStore", "TempStore"]


class DirectoryStore(LocalStore):
    """A store in a folder, with zarr-python 2's name and arguments.

    Parameters
    ----------
    path : str or os.PathLike
        The folder; the first write creates it.
    dimension_separator : {".", "/"}, optional
        The separator in chunk keys of format 2, if the metadata of the array has none: "." for
        one folder of chunks, "/" for nested folders.
    read_only, durable
        As for `LocalStore`.

    Examples
    --------
    >>> import tempfile
    >>> store = DirectoryStore(tempfile.mkdtemp())
    >>> store["a/b/c"] = b"xxx"
    >>> store["a/b/c"], store.listdir("a/b")
    (b'xxx', ['c'])
    >>> store.rmdir("a")
    >>> list(store)
    []
    """

    dimension_separator: Literal[".", "/"] | None

    def __new__(
        cls,
        path: str | os.PathLike[str],
        *,
        dimension_separator: Literal[".", "/"] | None = None,
        read_only: bool = False,
        durable: bool = False,
    ) -> Self:
        if dimension_separator not in (None, ".", "/"):
            raise ArgumentError(
                f"dimension_separator must be '.' or '/', not {dimension_separator!r}"
            )
        store = super().__new__(cls, path, read_only=read_only, durable=durable)
        store.dimension_separator = dimension_separator
        return store


class NestedDirectoryStore(DirectoryStore):
    """A store in a folder, with the chunks of format 2 in nested folders.

    This is a `DirectoryStore` with ``dimension_separator="/"``: chunk (1, 2) is the file
    ``1/2``. It also reads arrays of older programs whose metadata lacks the separator.

    Parameters
    ----------
    path : str or os.PathLike
        The folder; the first write creates it.
    dimension_separator : {"/"}, default "/"
        The only accepted value.
    read_only, durable
        As for `LocalStore`.

    Examples
    --------
    >>> import tempfile, tessarr
    >>> store = NestedDirectoryStore(tempfile.mkdtemp())
    >>> a = tessarr.create_array(store, data=[[1, 2], [3, 4]], chunks=1, zarr_format=2)
    >>> store.listdir(), store.listdir("0")
    (['.zarray', '.zattrs', '0', '1'], ['0', '1'])
    """

    def __new__(
        cls,
        path: str | os.PathLike[str],
        *,
        dimension_separator: Literal[".", "/"] | None = "/",
        read_only: bool = False,
        durable: bool = False,
    ) -> Self:
        if dimension_separator == ".":
            raise ArgumentError("NestedDirectoryStore has the dimension_separator '/', not '.'")
        return super().__new__(
            cls, path, dimension_separator="/", read_only=read_only, durable=durable
        )


class TempStore(DirectoryStore):
    """A store in a new temporary folder, which the end of Python removes.

    Parameters
    ----------
    suffix, prefix : str
        The end and the beginning of the folder's name.
    dir : str or os.PathLike, optional
        The parent folder; by default the system's folder for temporary files.
    dimension_separator : {".", "/"}, optional
        As for `DirectoryStore`.

    Notes
    -----
    `close`, or the end of a ``with`` block, removes the folder immediately. Only the process that
    created the store removes it. A pickle restores a `DirectoryStore` of the folder.

    Examples
    --------
    >>> with TempStore() as store:
    ...     store["a"] = b"1"
    ...     list(store)
    ['a']
    """

    _remove: Callable[[], object]

    def __new__(
        cls,
        suffix: str = "",
        prefix: str = "tessarr",
        dir: str | os.PathLike[str] | None = None,  # noqa: A002 (as users know it)
        *,
        dimension_separator: Literal[".", "/"] | None = None,
    ) -> Self:
        import tempfile

        path = tempfile.mkdtemp(suffix, prefix, dir)
        store = super().__new__(cls, path, dimension_separator=dimension_separator)
        store._remove = _Removal(path)
        at_exit.add(store._remove)
        return store

    def close(self) -> None:
        """Remove the folder."""
        at_exit.remove(self._remove)
        self._remove()

    def __reduce__(self) -> tuple[Any, ...]:
        separator = self.dimension_separator
        return partial(DirectoryStore, self.path, dimension_separator=separator), ()


class _Removal:
    """Removes a folder, in the process that created it."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._process = os.getpid()

    def __call__(self) -> None:
        import shutil

        if os.getpid() == self._process:
            shutil.rmtree(self._path, ignore_errors=True)


set_public_module("tessarr.stores", DirectoryStore, NestedDirectoryStore, TempStore)
