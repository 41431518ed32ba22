"""Base class of the stores on S3, GCS, Azure and web servers."""

from __future__ import annotations

from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from tessarr import _engine
from tessarr.errors import ArgumentError
from tessarr.store.object.connection import ConnectionSettings
from tessarr.store.object.options import interpret_options
from tessarr.store.object.urls import hide_query, parse_object_url
from tessarr.store.repr_mixin import DescribedStore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tessarr.store.object.engine_arguments import EngineArguments
    from tessarr.store.object.options import OptionTable
    from tessarr.store.object.urls import ObjectURL, StoreKind

__all__ = ["ObjectStore"]

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
    __signature__: ClassVar[Signature]

    def __init_subclass__(cls, *, keywords: type[ConnectionSettings] | None = None) -> None:
        """Show the names of `keywords` in the signature; `Unpack` is for type checkers alone."""
        if keywords is not None:
            location = [*signature(cls.__new__).parameters.values()][1:-1]
            is_common = ConnectionSettings.__annotations__.__contains__
            names = sorted(keywords.__annotations__, key=is_common)
            shown = [Parameter(name, Parameter.KEYWORD_ONLY, default=None) for name in names]
            cls.__signature__ = Signature([*location, *shown])

    @classmethod
    def _create(cls, location: Mapping[str, str], options: Mapping[str, Any]) -> Self:
        settings = interpret_options(cls._table, options, cls.__name__)
        arguments = cls._resolve(*location.values(), settings)
        settings["read_only"] = arguments.read_only
        keywords: dict[str, Any] = arguments._asdict()
        keywords["options"] = [*arguments.options.items()]
        return cls._build({**location, **settings}, _engine.ObjectStore(**keywords))

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
