"""The registry of key-value store drivers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tessarr.errors import ArgumentError
from tessarr.tensorstore.json.object_members import as_json, expected_error
from tessarr.tensorstore.kvstore.kvstack import KVSTACK
from tessarr.tensorstore.kvstore.local import FILE, MEMORY, TESSARR
from tessarr.tensorstore.kvstore.remote import GCS, HTTP, S3
from tessarr.tensorstore.kvstore.zip import ZIP

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tessarr.tensorstore.kvstore.kvstore_driver import Driver

__all__ = ["DRIVERS", "driver_of"]

DRIVERS: Final[Mapping[str, Driver]] = {
    driver.name: driver for driver in (FILE, MEMORY, S3, GCS, HTTP, ZIP, KVSTACK, TESSARR)
}
"""All drivers, by their names in JSON."""


def driver_of(name: Any) -> Driver:
    """Return the driver with this name.

    Raises
    ------
    ArgumentError
        If no driver has this name.
    """
    if isinstance(name, str) and name in DRIVERS:
        return DRIVERS[name]
    why = (
        f"{as_json(name)} is not a registered KvStore driver"
        if isinstance(name, str)
        else str(expected_error("string", name))
    )
    raise ArgumentError(f'Error parsing object member "driver": {why}')
