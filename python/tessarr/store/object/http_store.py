"""`HTTPStore`: a read-only store on a web server."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Self, Unpack

from tessarr.format.registry import set_public_module
from tessarr.store.object.connection import ConnectionSettings
from tessarr.store.object.http_options import HTTP_OPTIONS, resolve_http
from tessarr.store.object.object_store import ObjectStore
from tessarr.store.object.urls import ObjectURL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tessarr.store.object.options import OptionTable
    from tessarr.store.object.urls import StoreKind

__all__ = ["HTTPSettings", "HTTPStore"]


class HTTPSettings(ConnectionSettings, total=False):
    """Keywords of `HTTPStore`, which describes them."""

    params: Mapping[str, str] | None


class HTTPStore(ObjectStore, keywords=HTTPSettings):
    """A read-only store on a web server.

    Parameters
    ----------
    url : str
        The URL of the root, percent-encoded. Requests for all keys have its query, such as the
        signature of a signed URL. A name and a password before the host become a header.
    params : mapping of str to str, optional
        Further parameters of the query.
    **settings
        The settings of `ConnectionSettings`, and any other name of ``storage_options``: arguments
        of fsspec's HTTP file system, such as ``client_kwargs``, and ``auth``.

    Raises
    ------
    ArgumentError
        If the URL is malformed, or an option is unknown, invalid or not supported.

    Notes
    -----
    The class also opens addresses of clouds as those of a web server. `tessarr.open` recognizes
    them by their host and opens them as `S3Store`, `GCSStore` or `AzureStore`. Pickles contain the
    arguments, with their secrets; the representation does not show these.

    Examples
    --------
    >>> HTTPStore("https://example.org/data.zarr?signature=secret", timeout_s=10)
    HTTPStore('https://example.org/data.zarr?…', timeout_s=10.0, read_only=True)
    """

    _kind: ClassVar[StoreKind] = "http"
    _table: ClassVar[OptionTable] = HTTP_OPTIONS
    _location: ClassVar[tuple[str, ...]] = ("url",)
    _resolve = staticmethod(resolve_http)

    def __new__(cls, url: str, **settings: Unpack[HTTPSettings]) -> Self:
        return cls._create({"url": url}, settings)

    @classmethod
    def _locate(cls, url: str) -> ObjectURL:
        return ObjectURL("http", url)


set_public_module("tessarr.stores", HTTPStore)
