"""`S3Store`: a store in a bucket of S3, or of a service with its protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, Unpack

from tessarr.format.registry import set_public_module
from tessarr.store.object.object_store import ConnectionSettings, ObjectStore
from tessarr.store.object.s3_options import S3_OPTIONS, resolve_s3

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tessarr.store.object.options import OptionTable
    from tessarr.store.object.urls import StoreKind

__all__ = ["S3Store"]


class S3Store(ObjectStore):
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
    **connection
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

    def __new__(
        cls,
        bucket: str,
        prefix: str = "",
        *,
        region: str | None = None,
        endpoint: str | None = None,
        access_key_id: str | None = None,
        secret_access_key: str | None = None,
        session_token: str | None = None,
        profile: str | None = None,
        anonymous: bool | None = None,
        requester_pays: bool | None = None,
        virtual_hosted: bool | None = None,
        server_side_encryption: Literal["AES256", "aws:kms", "aws:kms:dsse", "sse-c"] | None = None,
        kms_key_id: str | None = None,
        credentials: Callable[[], Mapping[str, Any]] | None = None,
        read_only: bool = False,
        **connection: Unpack[ConnectionSettings],
    ) -> Self:
        options = {
            "region": region,
            "endpoint": endpoint,
            "access_key_id": access_key_id,
            "secret_access_key": secret_access_key,
            "session_token": session_token,
            "profile": profile,
            "anonymous": anonymous,
            "requester_pays": requester_pays,
            "virtual_hosted": virtual_hosted,
            "server_side_encryption": server_side_encryption,
            "kms_key_id": kms_key_id,
            "credentials": credentials,
            "read_only": read_only,
        }
        return cls._create({"bucket": bucket, "prefix": prefix}, {**options, **connection})


set_public_module("tessarr.stores", S3Store)
