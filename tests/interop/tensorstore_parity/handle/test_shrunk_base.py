"""Views of a shrunk base: both packages refuse positions outside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tessarr.tensorstore as ours
from interop.tensorstore_parity.random_views import plain_outcome

theirs = pytest.importorskip("tensorstore", reason="the package tensorstore is absent")

METHODS = ["stride", "mean", "max"]


def halve(ts: Any, base: Any, method: str = "stride") -> Any:
    return ts.downsample(base, [2], method)


VIEWS: dict[str, Callable[[Any, Any, str], Any]] = {
    "all": halve,
    "of explicit bounds": lambda ts, a, how: halve(ts, a[0:6], how),
    "of a part": lambda ts, a, how: halve(ts, a[2:6], how),
    "begins inside of a block": lambda ts, a, how: halve(ts, a[1:6], how),
    "blocks that are there": lambda ts, a, how: halve(ts, a[0:6], how)[0:2],
    "a block that is there": lambda ts, a, how: halve(ts, a[0:6], how)[0],
    "no blocks": lambda ts, a, how: halve(ts, a[0:6], how)[1:1],
    "of a cast": lambda ts, a, how: halve(ts, ts.cast(a[0:6], ts.float32), how),
    "cast": lambda ts, a, how: ts.cast(halve(ts, a[0:6], how), ts.float32),
    "twice": lambda ts, a, how: halve(ts, halve(ts, a[0:6], how), how),
    "of positions that are there": lambda ts, a, how: halve(ts, a[0:6:2], how),
    "of all, strided": lambda ts, a, how: halve(ts, a[::2], how),
}


def shrink(ts: Any, name: str, method: str, length: int) -> Any:
    """Return a view of an array of six elements that is later shrunk to `length`."""
    layout = ts.ChunkLayout(chunk_shape=[2])
    spec = {"driver": "zarr3", "kvstore": "memory://"}
    built = ts.open(spec, create=True, dtype=ts.int32, shape=[6], chunk_layout=layout).result()
    built.write(np.arange(6, dtype="i4")).result()
    view = VIEWS[name](ts, built, method)
    built.resize(exclusive_max=[length]).result()
    return view


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("length", [5, 4])
def test_downsampled(name: str, method: str, length: int) -> None:
    def describe(ts: Any) -> list[Any]:
        def resolved(*, fix: bool) -> Any:
            return shrink(ts, name, method, length).resolve(fix_resizable_bounds=fix).result()

        return [
            plain_outcome(lambda: shrink(ts, name, method, length).read().result()),
            *(plain_outcome(lambda fix=fix: resolved(fix=fix).domain) for fix in (False, True)),
            plain_outcome(lambda: resolved(fix=False).read().result()),
        ]

    assert describe(ours) == describe(theirs)


def test_wrong_arguments_are_reported() -> None:
    with pytest.raises(ValueError, match=r"the view does not fit.* 5 is outside of \[0, 5"):
        shrink(ours, "of explicit bounds", "stride", 5).read().result()
