"""`GCSStore`: a store in a bucket of Google Cloud Storage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self, Unpack

from tessarr.format.registry import set_public_module
from tessarr.store.object.connection import ConnectionSettings
from tessarr.store.object.gcs_options import GCS_OPTIONS, resolve_gcs
from tessarr.store.object.object_store import ObjectStore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from os import PathLike

    from tessarr.store.object.options import OptionTable
    from tessarr.store.object.urls import StoreKind

__all__ = ["GCSSettings", "GCSStore"]


class GCSSettings(ConnectionSettings, total=False):
    """Keywords of `GCSStore`, which describes them."""

    endpoint: str | None
    service_account: str | PathLike[str] | Mapping[str, Any] | None
    application_credentials: str | PathLike[str] | None
    bearer_token: str | None
    anonymous: bool | None
    project: str | None
    requester_pays: bool | None
    credentials: Callable[[], Mapping[str, Any]] | None


class GCSStore(ObjectStore, keywords=GCSSettings):
    """A store in a bucket of Google Cloud Storage.

    Parameters
    ----------
    bucket : str
        The bucket.
    prefix : str, default ""
        The prefix of all keys.
    endpoint : str, optional
        The URL of another server, such as an emulator.
    service_account : str, os.PathLike or mapping, optional
        The key of a service account: the path of a file, or its content.
    application_credentials : str or os.PathLike, optional
        The path of a credential file of any type.
    bearer_token : str, optional
        An access token, which the store does not renew.
    anonymous : bool, optional
        Whether requests have no token, as for public buckets.
    project : str, optional
        The project that pays for requests.
    requester_pays : bool, optional
        Whether `project` pays for requests to a bucket of others.
    credentials : callable, optional
        A function without parameters that returns a mapping with ``token``, and optionally
        ``expires_at`` (a `datetime` with a zone). The store calls it in any thread, and again
        before the token expires.
    read_only : bool, default False
        Refuse every change (`ReadOnlyError`).
    **settings
        The settings of `ConnectionSettings`, and any other name of ``storage_options``: arguments
        of gcsfs, such as ``token``, and options of the ``object_store`` crate.

    Raises
    ------
    ArgumentError
        If an option is unknown, invalid or not supported, or a credential file is malformed.
    UnsupportedError
        ``missing_package``, if the credentials need google-auth.

    Notes
    -----
    Arguments have precedence over the environment (``GOOGLE_APPLICATION_CREDENTIALS``,
    ``STORAGE_EMULATOR_HOST`` and the like). Without credentials, the store uses the application
    default credentials of ``gcloud`` or the metadata of the machine, and else sends requests
    anonymously. Pickles contain the arguments, with their secrets; the representation does not
    show these.

    Examples
    --------
    >>> GCSStore("bucket", "a/b", anonymous=True)
    GCSStore('bucket', prefix='a/b', anonymous=True)
    """

    _kind: ClassVar[StoreKind] = "gcs"
    _table: ClassVar[OptionTable] = GCS_OPTIONS
    _resolve = staticmethod(resolve_gcs)

    def __new__(cls, bucket: str, prefix: str = "", **settings: Unpack[GCSSettings]) -> Self:
        return cls._create({"bucket": bucket, "prefix": prefix}, settings)


set_public_module("tessarr.stores", GCSStore)
