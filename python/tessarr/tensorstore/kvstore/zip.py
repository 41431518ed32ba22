"""The driver ``zip``: a Zip file inside another key-value store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tessarr.store import LocalStore
from tessarr.tensorstore.json.object_members import one_of
from tessarr.tensorstore.kvstore.kvstore_driver import (
    BaseMembers,
    Driver,
    missing_member,
    quote_path,
)
from tessarr.tensorstore.kvstore.values import StoreLocation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tessarr.tensorstore.context.references import References

__all__ = ["ZIP"]

_METHODS: Final = {"store": 0, "deflate": 8, "zstd": 93, "xz": 95}


def _take(json: dict[str, Any]) -> list[Any]:
    if "base" not in json:
        raise missing_member("base", "object")
    return [json.pop("base")]


def _give(json: dict[str, Any], bases: list[Any]) -> None:
    (json["base"],) = bases


def _open_zip(
    _: References, given: Mapping[str, Any], bases: tuple[StoreLocation, ...], __: str
) -> StoreLocation:
    from tessarr.store.zip.nested import ZipValueStore
    from tessarr.store.zip.store import open_shared_zip

    (base,) = bases
    key = base.key("")
    method = _METHODS[given.get("compression", "deflate")]
    if isinstance(base.store, LocalStore):
        file = f"{base.store.path.rstrip('/')}/{key}"
        return StoreLocation(open_shared_zip(file, method, durable=base.store.durable))
    return StoreLocation(ZipValueStore(base.store, key, method))


ZIP: Final = Driver(
    name="zip",
    open=_open_zip,
    members={"compression": one_of(*_METHODS)},
    defaults={"compression": "deflate"},
    kinds={"cache_pool": "cache_pool", "data_copy_concurrency": "data_copy_concurrency"},
    url=lambda _, path: f"zip:{quote_path(path)}",
    based=BaseMembers(_take, _give),
)
