"""Opening by a spec (existing arrays of Zarr, for now)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tessarr import drive
from tessarr.array import bind
from tessarr.errors import ArgumentError
from tessarr.flow import open as open_flow
from tessarr.store import open_store
from tessarr.tensorstore.future import Future, start
from tessarr.tensorstore.store import TensorStore, handle
from tessarr.tensorstore.zarr import ZarrDriver

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tessarr.types import ZarrFormat

__all__ = ["open"]

_FORMATS: Mapping[str, ZarrFormat] = {"zarr3": 3, "zarr": 2, "zarr2": 2}


def open(spec: Any) -> Future[TensorStore]:
    """Open an array.

    Parameters
    ----------
    spec
        ``driver`` and ``kvstore``: JSON, a URL, or a store of Tessarr.
    """
    driver = spec.get("driver")
    if driver not in _FORMATS:
        raise ArgumentError(f"{driver!r} is not a driver")

    def work() -> TensorStore:
        place = spec["kvstore"]
        if isinstance(place, dict):
            place = {"file": "file://", "memory": "memory://"}[place["driver"]] + place["path"]
        store, path = open_store(place)
        meta = drive.run(open_flow.array(path, zarr_format=_FORMATS[driver]), store)
        return handle(ZarrDriver(bind(meta, store, path, read_only=False)))

    return start(work, here=True)
