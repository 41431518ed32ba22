"""Assumed metadata are as fresh as metadata that the array reads when it opens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tessarr.tensorstore as ours

theirs = pytest.importorskip("tensorstore", reason="compared with TensorStore's own")

RECHECKS: list[Any] = [None, True, False, "open", 0]


def _seen(ts: Any, folder: Path, assumed: str, recheck: Any, *, exists: bool) -> list[Any]:
    """Return the bounds with assumed metadata after another handle resizes the array."""
    spec = {"driver": "zarr3", "kvstore": f"file://{folder}/a/"}
    options = {"dtype": "uint8", "shape": [10]}
    if exists:
        other = ts.open(spec, create=True, **options).result()
        other.resize(exclusive_max=[13]).result()
    recheck_options = {} if recheck is None else {"recheck_cached_metadata": recheck}
    handle = ts.open(spec, open=True, **{assumed: True}, **options, **recheck_options).result()
    results: list[Any] = [repr(handle.domain)]
    for act in (
        lambda: repr(handle.resolve().result().domain),
        lambda: repr(handle.resolve(fix_resizable_bounds=True).result().domain),
        lambda: handle.read().result().shape,
        lambda: handle[11].write(1).result(),
        lambda: repr(handle.with_transaction(ts.Transaction()).resolve().result().domain),
        lambda: repr(handle.resize(exclusive_max=[12]).result().resolve().result().domain),
    ):
        try:
            results.append(act())
        except ValueError:
            results.append(ValueError)
    return results


@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize("recheck", RECHECKS)
@pytest.mark.parametrize("assumed", ["assume_metadata", "assume_cached_metadata"])
def test_assumed_metadata(tmp_path: Path, assumed: str, recheck: Any, exists: bool) -> None:
    mine = _seen(ours, tmp_path / "ours", assumed, recheck, exists=exists)
    assert mine == _seen(theirs, tmp_path / "theirs", assumed, recheck, exists=exists)
