"""Open the object store that a URL names, or a Zip file in one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from tessarr.store.object.azure_store import AzureStore
from tessarr.store.object.gcs_store import GCSStore
from tessarr.store.object.http_store import HTTPStore
from tessarr.store.object.s3_store import S3Store
from tessarr.store.object.urls import SCHEMES, parse_object_url

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tessarr.store.object.object_store import ObjectStore
    from tessarr.store.object.urls import StoreKind
    from tessarr.store.zip.nested import ZipValueStore

__all__ = ["open_object_url", "open_object_zip"]

_CLASSES: Final[Mapping[StoreKind, type[ObjectStore]]] = {
    "s3": S3Store,
    "gcs": GCSStore,
    "azure": AzureStore,
    "http": HTTPStore,
}


def open_object_url(
    url: str, storage_options: Mapping[str, Any] | None = None, *, read_only: bool = False
) -> ObjectStore:
    """Return the store that a URL names.

    Parameters
    ----------
    url, storage_options, read_only
        As for `S3Store.from_url`. Addresses of clouds are recognized by their host.

    Raises
    ------
    ArgumentError
        If the URL is malformed, or an option is unknown, invalid or not supported.
    """
    location = parse_object_url(url)
    assert location is not None, "the caller knows the scheme"
    return _CLASSES[location.kind].from_url(url, storage_options, read_only=read_only)


def open_object_zip(
    url: str, storage_options: Mapping[str, Any] | None = None
) -> tuple[ZipValueStore, str] | None:
    """Return the store in the Zip file that a URL names, and the only folder in it.

    The result is None if the URL does not end in the suffix of a Zip file. The store is read-only.

    Parameters
    ----------
    url, storage_options
        As for `open_object_url`. The URL of a web server may have a query.
    """
    from tessarr.store.single_file import ZIP_SUFFIXES

    is_web = SCHEMES[url.partition("://")[0].lower()] == "http"
    path, mark, query = url.partition("?") if is_web else (url, "", "")
    if not path.lower().endswith(ZIP_SUFFIXES):
        return None
    from tessarr.store.zip import find_only_folder
    from tessarr.store.zip.nested import ZipValueStore

    folder, _, name = path.rpartition("/")
    outer = open_object_url(f"{folder}{mark}{query}", storage_options, read_only=True)
    store = ZipValueStore(outer, unquote(name) if is_web else name)
    return store, find_only_folder(store)
