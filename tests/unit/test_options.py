"""Options: each has its documented effect."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import tessarr
from tessarr import _engine
from tessarr.codecs import Zstd
from tessarr.errors import ArgumentError
from tessarr.options import Options, configure, current, options


def _set(values: Options) -> None:
    configure(**{name: getattr(values, name) for name in Options.__dataclass_fields__})


@pytest.fixture(autouse=True)
def _defaults() -> Any:
    """Start each test with the defaults, and restore the previous options after it."""
    before, threads = current(), _engine.threads()
    _set(Options())
    yield
    _set(before)
    _engine.set_threads(threads)


def test_block_changes_and_restores() -> None:
    with options(zarr_format=2, write_empty_chunks=True) as inner:
        assert current() == inner == Options(zarr_format=2, write_empty_chunks=True)
        with options(write_empty_chunks=False):
            assert current() == Options(zarr_format=2)
    assert current() == Options()


def test_options_block_restores_after_error() -> None:
    with pytest.raises(KeyError), options(zarr_format=2):
        raise KeyError
    assert current() == Options()


def test_block_overrides_process_options() -> None:
    configure(zarr_format=2)
    with options(zarr_format=3):
        assert current().zarr_format == 3
    assert current().zarr_format == 2


def test_configure_within_block() -> None:
    """`configure` applies inside a block and after it; the block's own options end with it."""
    before = current().copy_bytes
    try:
        with options(zarr_format=2), options(durable=True):
            configure(copy_bytes=12345)
            assert (current().copy_bytes, current().zarr_format, current().durable) == (
                12345,
                2,
                True,
            )
        assert (current().copy_bytes, current().zarr_format, current().durable) == (12345, 3, False)
    finally:
        configure(copy_bytes=before)


def test_block_holds_in_its_thread_only() -> None:
    seen: list[int] = []
    with options(zarr_format=2):
        thread = threading.Thread(target=lambda: seen.append(current().zarr_format))
        thread.start()
        thread.join()
    assert seen == [3]


@pytest.mark.parametrize(
    "changes",
    [{"threads": 0}, {"threads": 1.5}, {"threads": True}, {"zarr_format": 1}, {"durable": "yes"}],
)
def test_invalid_option_values_raise(changes: Any) -> None:
    for change in (options, configure):
        with pytest.raises(ArgumentError, match=next(iter(changes))):
            change(**changes)


def test_unknown_option_names_raise() -> None:
    for change in (options, configure):
        with pytest.raises(TypeError, match="thread_count"):
            change(thread_count=3)


def test_options_cannot_be_entered_twice() -> None:
    block = options(zarr_format=2)
    with block, pytest.raises(RuntimeError):
        block.__enter__()
    assert current() == Options()


def test_threads_reach_engine() -> None:
    before = _engine.threads()
    with options(threads=3):
        assert _engine.threads() == 3
        with options(threads=1):
            assert _engine.threads() == 1
            assert tessarr.full(1000, 1, chunks=10)[:].sum() == 1000
        assert _engine.threads() == 3
    assert _engine.threads() == before


def test_zarr_format_of_new_nodes() -> None:
    with options(zarr_format=2):
        assert tessarr.zeros(3).zarr_format == 2
        assert tessarr.create_group().zarr_format == 2
        assert tessarr.zeros(3, zarr_format=3).zarr_format == 3
    assert tessarr.zeros(3).zarr_format == 3


def test_write_empty_chunks_holds_from_opening_on() -> None:
    with options(write_empty_chunks=True):
        a = tessarr.zeros(4, chunks=2)
        b = tessarr.zeros(4, chunks=2, write_empty_chunks=False)
    a[:] = 0
    b[:] = 0
    assert (a.nchunks_initialized, b.nchunks_initialized) == (2, 0)


def test_durable_holds_for_folders(tmp_path: Path) -> None:
    with options(durable=True):
        a = tessarr.create_array(tmp_path / "a", shape=1)
    assert a.store.durable  # type: ignore[attr-defined]
    assert not tessarr.open_array(tmp_path / "a").store.durable  # type: ignore[attr-defined]
    a[:] = 1
    assert a[0] == 1


def test_compressor_of_new_arrays(zarr_format: Any) -> None:
    with options(compressor=Zstd(7), zarr_format=zarr_format):
        assert tessarr.zeros(3).compressors == (Zstd(7),)
        assert [c.name for c in tessarr.zeros(3, compressors="gzip").compressors] == ["gzip"]
    with options(compressor=None):
        assert tessarr.zeros(3).compressors == ()


COUNT = """
import os, tessarr
from tessarr.options import threads
if {pinned}:
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
first = threads()
tessarr.configure(threads=5)
tessarr.configure(threads=None)
print(first, threads())
"""


def _counts(*, pinned: bool, before: Callable[[], None] | None = None) -> tuple[int, int]:
    """Return a new process's thread counts: by default, and after ``configure(threads=None)``."""
    done = subprocess.run(
        [sys.executable, "-c", COUNT.format(pinned=pinned)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        preexec_fn=before,
    )
    first, configured = map(int, done.stdout.split())
    return first, configured


@pytest.mark.slow
def test_threads_none_means_default() -> None:
    """The default is one thread per processor that the process may use."""
    first, configured = _counts(pinned=False)
    assert first == configured >= 1
    assert _counts(pinned=True) == (1, 1)


@pytest.fixture
def quota() -> Iterator[Path]:
    """A control group with a quota of one processor; yield the file that adds processes to it."""
    new = Path("/sys/fs/cgroup/cgroup.controllers").exists()
    root = Path("/sys/fs/cgroup") if new else Path("/sys/fs/cgroup/cpu")
    group = root / f"tessarr-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error.strerror}")
    try:
        if new:
            (group / "cpu.max").write_text("100000 100000")
        else:
            (group / "cpu.cfs_period_us").write_text("100000")
            (group / "cpu.cfs_quota_us").write_text("100000")
        yield group / "cgroup.procs"
    except OSError as error:
        pytest.skip(f"no quota can be set here: {error.strerror}")
    finally:
        with suppress(OSError):
            group.rmdir()


@pytest.mark.slow
def test_threads_none_obeys_control_group_quota(quota: Path) -> None:
    """A container with one processor has one thread, as by default."""

    def enter() -> None:
        quota.write_text("0")

    assert _counts(pinned=False, before=enter) == (1, 1)
