"""Base class of the stores on S3, GCS, Azure and web servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, TypedDict

from tessarr import _engine
from tessarr.errors import ArgumentError
from tessarr.format.registry import set_public_module
from tessarr.store.object.options import interpret_options
from tessarr.store.object.urls import hide_query, parse_object_url
from tessarr.store.repr_mixin import DescribedStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from os import PathLike

    from tessarr.store.object.engine_arguments import EngineArguments
    from tessarr.store.object.options import OptionTable
    from tessarr.store.object.urls import ObjectURL, StoreKind

__all__ = ["ConnectionSettings", "ObjectStore"]

_SHOWN: Final = frozenset(
    {
        "account_name",
        "anonymous",
        "bucket",
        "ca_bundle",
        "concurrency",
        "conditional_writes",
        "connect_timeout_s",
        "container",
        "kms_key_id",
        "missing_status",
        "prefix",
        "profile",
        "project",
        "read_only",
        "region",
        "requester_pays",
        "retries",
        "server_side_encryption",
        "timeout_s",
        "verify",
        "virtual_hosted",
    }
)
"""Settings whose values `repr` shows; others may contain secrets."""

_DEFAULTS: Final = (("prefix", ""), ("read_only", False))
"""Arguments that a representation omits."""

_URLS: Final = frozenset({"endpoint", "url"})
"""Settings that `repr` shows without the values of their queries."""


class ConnectionSettings(TypedDict, total=False):
    """Settings of connections and requests, which all object stores have.

    Attributes
    ----------
    concurrency : int, default 64
        The maximum number of concurrent requests of an operation.
    timeout_s : float, default 60
        The maximum time without an answer, or between two parts of an answer.
    connect_timeout_s : float, default 10
        The maximum time to connect.
    retries : int or bool, default 10
        The maximum number of repetitions of a request after transient errors. None starts later
        than 180 s after the first attempt.
    proxy : str
        The URL of a proxy; "" means none. By default, the variables ``HTTPS_PROXY``,
        ``HTTP_PROXY`` and ``NO_PROXY`` apply.
    no_proxy : str
        Hosts that need no `proxy`, with commas between them.
    ca_bundle : str or os.PathLike
        A file in PEM format with certificates of authorities that TLS trusts, beside those of the
        system.
    verify : bool, default True
        Whether TLS verifies certificates.
    headers : mapping of str to str
        Headers of each request.
    conditional_writes : bool, default True
        Whether changes have a precondition on the version of the value. Without it, concurrent
        writers of one chunk lose changes.
    missing_status : tuple of int, default (404,)
        The status codes that mean an absent key: add 403 for servers that report absent keys as
        forbidden.
    """

    concurrency: int
    timeout_s: float
    connect_timeout_s: float
    retries: int | bool
    proxy: str
    no_proxy: str
    ca_bundle: str | PathLike[str]
    verify: bool
    headers: Mapping[str, str]
    conditional_writes: bool
    missing_status: Iterable[int]


class ObjectStore(DescribedStore):
    """A store on an object store, with credentials from its arguments and the environment.

    A subclass defines the kind, the table of options, `_resolve` and `_locate`. Its arguments are
    the location and settings, so that they also create an equal store in another process.
    """

    _kind: ClassVar[StoreKind]
    _table: ClassVar[OptionTable]
    _resolve: ClassVar[Callable[..., EngineArguments]]
    """Returns the arguments of the engine for a location and settings."""
    _location: ClassVar[tuple[str, ...]] = ("bucket", "prefix")
    """The arguments that are the location."""

    @classmethod
    def _create(cls, location: Mapping[str, str], options: Mapping[str, Any]) -> Self:
        settings = interpret_options(cls._table, options, cls.__name__)
        arguments = cls._resolve(*location.values(), settings)
        engine = _engine.ObjectStore(
            arguments.kind,
            arguments.url,
            arguments.bucket,
            arguments.prefix,
            list(arguments.options.items()),
            connection=dict(arguments.connection),
            headers=list(arguments.headers),
            credentials=arguments.credentials,
            read_only=arguments.read_only,
            concurrency=arguments.concurrency,
            retries=arguments.retries,
            timeout_s=arguments.timeout_s,
            conditional_writes=arguments.conditional_writes,
            may_be_anonymous=arguments.may_be_anonymous,
            forbidden_is_absent=arguments.forbidden_is_absent,
        )
        settings["read_only"] = arguments.read_only
        return cls._build({**location, **settings}, engine)

    @classmethod
    def _locate(cls, url: str) -> ObjectURL:
        """Return the location that a URL names."""
        location = parse_object_url(url)
        if location is None or location.kind != cls._kind:
            raise ArgumentError(
                f"cannot open {hide_query(url)!r} as {cls.__name__}: the URL names another store"
            )
        return location

    @classmethod
    def from_url(
        cls,
        url: str,
        storage_options: Mapping[str, Any] | None = None,
        *,
        read_only: bool = False,
    ) -> Self:
        """Create the store of a URL.

        Parameters
        ----------
        url : str
            The URL of the store's root.
        storage_options : mapping, optional
            Keywords of the class, arguments of fsspec's file system, or options of the
            ``object_store`` crate.
        read_only : bool, default False
            Refuse every change.

        Raises
        ------
        ArgumentError
            If the URL is malformed or names a store of another kind, or if an option is unknown,
            invalid or not supported.
        """
        location = cls._locate(url)
        options = interpret_options(cls._table, storage_options or {}, cls.__name__)
        settings = {**location.settings, **options}
        if read_only:
            settings["read_only"] = True
        names = zip(cls._location, (location.bucket, location.prefix), strict=False)
        return cls._create(dict(names), settings)

    def __repr__(self) -> str:
        shown = [
            _show(name, value) if position else repr(hide_query(value))
            for position, (name, value) in enumerate(self._arguments.items())
            if (name, value) not in _DEFAULTS
        ]
        return f"{type(self).__name__}({', '.join(shown)})"


def _show(name: str, value: Any) -> str:
    if name in _URLS:
        return f"{name}={hide_query(value)!r}"
    return f"{name}={value!r}" if name in _SHOWN else f"{name}=…"


set_public_module("tessarr.stores", ConnectionSettings)
