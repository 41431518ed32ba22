"""Opening in a batch: operations that wait for the submission, and operations that do not."""

from __future__ import annotations

from pathlib import Path
from time import sleep
from typing import Any

import pytest

import tessarr.tensorstore as ours

theirs = pytest.importorskip("tensorstore", reason="what waits is compared with TensorStore")

BOTH = pytest.mark.parametrize("ts", [ours, theirs], ids=["ours", "theirs"])
DRIVERS = pytest.mark.parametrize("driver", ["zarr3", "zarr", "auto"])


def _spec(driver: str, folder: Path) -> Any:
    return {"driver": driver, "kvstore": f"file://{folder}/a/"}


def _created(ts: Any, driver: str, folder: Path) -> None:
    form = "zarr3" if driver == "auto" else driver
    ts.open(_spec(form, folder), create=True, dtype="int8", shape=[4]).result()


@BOTH
@DRIVERS
def test_open_in_submitted_batch_starts_at_once(ts: Any, driver: str, tmp_path: Path) -> None:
    _created(ts, driver, tmp_path)
    batch = ts.Batch()
    batch.submit()
    assert ts.open(_spec(driver, tmp_path), batch=batch).result().shape == (4,)


@BOTH
@DRIVERS
def test_open_in_batch_waits_for_end_of_batch(ts: Any, driver: str, tmp_path: Path) -> None:
    _created(ts, driver, tmp_path)
    batch = ts.Batch()
    future = ts.open(_spec(driver, tmp_path), batch=batch)
    sleep(0.1)
    assert not future.done()
    del batch  # which submits the batch
    while not future.done():  # a call of result() would start it
        sleep(0.01)
    assert future.result().shape == (4,)


@BOTH
@pytest.mark.parametrize("replaces", [False, True])
@pytest.mark.parametrize("driver", ["zarr3", "zarr"])
def test_create_in_batch_does_not_wait(
    ts: Any, driver: str, tmp_path: Path, *, replaces: bool
) -> None:
    if replaces:
        _created(ts, driver, tmp_path)
    batch, options = ts.Batch(), {"create": True, "delete_existing": replaces, "dtype": "int8"}
    future = ts.open(_spec(driver, tmp_path), shape=[5], batch=batch, **options)
    while not future.done():  # the batch still exists
        sleep(0.01)
    assert future.result().shape == (5,)
    batch.submit()
