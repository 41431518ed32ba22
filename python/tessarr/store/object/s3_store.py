"""`S3Store`: a store in a bucket of S3, or of a service with its protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, Unpack

from tessarr.format.registry import set_public_module
from tessarr.store.object.connection import ConnectionSettings
from tessarr.store.object.object_store import ObjectStore
from tessarr.store.object.s3_options import S3_OPTIONS, resolve_s3

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tessarr.store.object.options import OptionTable
    from tessarr.store.object.urls import StoreKind

__all__ = ["S3Settings", "S3Store"]


class S3Settings(ConnectionSettings, total=False):
    """Keywords of `S3Store`, which describes them."""

    region: str | None
    endpoint: str | None
    access_key_id: str | None
    secret_access_key: str | None
    session_token: str | None
    profile: str | None
    anonymous: bool | None
    requester_pays: bool | None
    virtual_hosted: bool | None
    server_side_encryption: Literal["AES256", "aws:kms", "aws:kms:dsse", "sse-c"] | None
    kms_key_id: str | None
    credentials: Callable[[], Mapping[str, Any]] | None


class S3Store(ObjectStore, keywords=S3Settings):
    """A store in a bucket of S3, or of a service with its protocol such as MinIO and R2.

    Parameters
    ----------
    bucket : str
        The bucket.
    prefix : str, default ""
        The prefix of all keys.
    region : str, optional
        The region of the bucket.
    endpoint : str, optional
        The URL of another service than AWS, such as ``http://localhost:9000``.
    access_key_id, secret_access_key, session_token : str, optional
        The key that signs requests.
    profile : str, optional
        A profile of ``~/.aws/config`` and ``~/.aws/credentials``.
    anonymous : bool, optional
        Whether requests are not signed, as for public buckets.
    requester_pays : bool, optional
        Whether you pay for requests to a bucket of others.
    virtual_hosted : bool, optional
        Whether URLs have the bucket in their host rather than in their path.
    server_side_encryption : {"AES256", "aws:kms", "aws:kms:dsse", "sse-c"}, optional
        How the service encrypts new values.
    kms_key_id : str, optional
        The key of the key management service.
    credentials : callable, optional
        A function without parameters that returns a mapping with ``access_key_id``,
        ``secret_access_key``, and optionally ``session_token`` (or ``token``) and ``expires_at``
        (a `datetime` with a zone). The store calls it in any thread, and again before the
        credentials expire.
    read_only : bool, default False
        Refuse every change (`ReadOnlyError`).
    **settings
        The settings of `ConnectionSettings`, and any other name of ``storage_options``: arguments
        of s3fs, such as ``config_kwargs``, and options of the ``object_store`` crate.

    Raises
    ------
    ArgumentError
        If an option is unknown, invalid or not supported.
    UnsupportedError
        ``missing_package``, if the profile needs botocore: ``pip install "tessarr[aws]"``.

    Notes
    -----
    Arguments have precedence over the environment (``AWS_ACCESS_KEY_ID``, ``AWS_REGION``,
    ``AWS_ENDPOINT_URL`` and the like), and the environment over profiles. Without credentials,
    the store asks the container or the instance for them, and else sends requests anonymously.
    The option ``credential_source`` excludes all sources but one: "environment", "profile", "ecs"
    (the container) or "imds" (the instance).
    Pickles contain the arguments, with their secrets; the representation does not show these.

    Examples
    --------
    >>> S3Store("bucket", "a/b", endpoint="http://localhost:9000", anonymous=True)
    S3Store('bucket', prefix='a/b', endpoint='http://localhost:9000', anonymous=True)
    """

    _kind: ClassVar[StoreKind] = "s3"
    _table: ClassVar[OptionTable] = S3_OPTIONS
    _resolve = staticmethod(resolve_s3)

    def __new__(cls, bucket: str, prefix: str = "", **settings: Unpack[S3Settings]) -> Self:
        return cls._create({"bucket": bucket, "prefix": prefix}, settings)


set_public_module("tessarr.stores", S3Store)
