"""Public facade: the Blosc compressor with the module functions of zarr-python 2.

Tessarr encodes and decodes chunks on one pool of threads, each chunk on one thread. The functions
of this module that set the number of threads set the size of that pool.

``use_threads``
    False keeps all work on one thread; True and None (the default) use as many as
    `set_nthreads` said, else one per processor.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from tessarr.codec.blosc import (
    AUTOSHUFFLE,
    BITSHUFFLE,
    COMPRESSORS,
    NOSHUFFLE,
    SHUFFLE,
    Blosc,
)
from tessarr.errors import ArgumentError
from tessarr.options import configure, threads

if TYPE_CHECKING:
    from tessarr.types import BytesLike

    use_threads: bool | None

__all__ = [
    "AUTOBLOCKS",
    "AUTOSHUFFLE",
    "BITSHUFFLE",
    "NOSHUFFLE",
    "SHUFFLE",
    "Blosc",
    "compress",
    "decompress",
    "get_nthreads",
    "list_compressors",
    "set_nthreads",
    "use_threads",
]

AUTOBLOCKS: Final = 0
"""The block size that leaves the choice to Blosc."""


def list_compressors() -> list[str]:
    """Return the names that `tessarr.Blosc` takes as ``cname``.

    Examples
    --------
    >>> list_compressors()
    ['blosclz', 'lz4', 'lz4hc', 'snappy', 'zlib', 'zstd']
    """
    return list(COMPRESSORS)


def get_nthreads() -> int:
    """Return the number of threads that encode and decode chunks."""
    return _threads.saved or threads()


def set_nthreads(nthreads: int) -> int:
    """Set the number of threads that encode and decode chunks, and return the previous number.

    The same as ``tessarr.configure(threads=nthreads)``.

    Parameters
    ----------
    nthreads
        At least 1.

    Examples
    --------
    >>> old = set_nthreads(2)
    >>> set_nthreads(old)
    2
    """
    old = get_nthreads()
    if _threads.use is False:
        _threads.saved = nthreads
    else:
        configure(threads=nthreads)
    return old


def compress(
    source: BytesLike,
    cname: str | bytes = "lz4",
    clevel: int = 5,
    shuffle: int = SHUFFLE,
    blocksize: int = AUTOBLOCKS,
) -> bytes:
    """Return a buffer as a Blosc container; the shuffle applies to the elements of an array.

    Parameters
    ----------
    source, cname, clevel, shuffle, blocksize
        As for `tessarr.Blosc`.

    Examples
    --------
    >>> decompress(compress(b"abc" * 100, "zstd")) == b"abc" * 100
    True
    """
    name = cname.decode("ascii") if isinstance(cname, bytes) else cname
    return Blosc(name, clevel, shuffle, blocksize).encode(source)


def decompress(source: BytesLike, dest: BytesLike | None = None) -> BytesLike:
    """Return the content of a Blosc container, or write it into the buffer `dest`."""
    return Blosc().decode(source, dest)


class _Threads:
    """The value of `use_threads`, and the number of threads to restore."""

    use: bool | None = None
    saved: int | None = None


_threads = _Threads()


class _Module(ModuleType):
    """A module whose variable `use_threads` takes effect on assignment."""

    @property
    def use_threads(self) -> bool | None:
        return _threads.use

    @use_threads.setter
    def use_threads(self, use: Any) -> None:
        if use not in (None, True, False):
            raise ArgumentError(f"use_threads is None, True or False, not {use!r}")
        before, _threads.use = _threads.use, use
        if use is False and before is not False:
            _threads.saved = threads()
            configure(threads=1)
        elif use is not False and before is False:
            configure(threads=_threads.saved)
            _threads.saved = None


sys.modules[__name__].__class__ = _Module
