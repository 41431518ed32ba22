"""The module `tessarr.blosc`: zarr-python 2's names and threads."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import tessarr
from tessarr import blosc
from tessarr.errors import ArgumentError
from tessarr.options import threads


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = threads()
    yield
    blosc.use_threads = None
    tessarr.configure(threads=before)
    tessarr.configure(threads=None)


def test_nthreads_equals_pool_threads() -> None:
    old = blosc.set_nthreads(3)
    assert threads() == blosc.get_nthreads() == 3
    assert blosc.set_nthreads(old) == 3
    with pytest.raises(ArgumentError, match="positive"):
        blosc.set_nthreads(0)


def test_use_threads_false_means_one_thread() -> None:
    blosc.set_nthreads(3)
    assert blosc.use_threads is None
    blosc.use_threads = False
    assert (blosc.use_threads, threads(), blosc.get_nthreads()) == (False, 1, 3)
    assert blosc.set_nthreads(4) == 3
    assert threads() == 1
    blosc.use_threads = True
    assert (blosc.use_threads, threads(), blosc.get_nthreads()) == (True, 4, 4)
    with pytest.raises(ArgumentError, match="use_threads"):
        blosc.use_threads = "yes"  # type: ignore[assignment]


@pytest.mark.parametrize("cname", blosc.list_compressors())
def test_compress_decompress_round_trips(cname: str) -> None:
    values = np.arange(1000, dtype="i4")
    stored = blosc.compress(values, cname.encode(), 5, blosc.SHUFFLE)
    assert len(stored) < values.nbytes / 2  # shuffled as integers of four bytes
    out = np.empty_like(values)
    assert blosc.decompress(stored, out) is out
    assert np.array_equal(out, values)
    assert bytes(blosc.decompress(stored)) == values.tobytes()
