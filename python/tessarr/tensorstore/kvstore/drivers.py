"""The kinds of places for keys and values: how JSON and URLs name them, and how they open."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tessarr.errors import ArgumentError, UnsupportedError
from tessarr.store import LocalStore, MemoryStore, open_store
from tessarr.tensorstore.resources import expected, members

if TYPE_CHECKING:
    from tessarr.store import Store
    from tessarr.tensorstore.context import References

__all__ = ["DRIVERS", "Driver", "Opening", "Place", "check_path", "driver_of"]


class Place(NamedTuple):
    """Where keys are: a store, and what stands before each key in it.

    Where it is rooted, a slash at the beginning of what results is no part of the key.
    """

    store: Store
    prefix: str
    rooted: bool = False

    def key(self, path: str) -> str:
        """Return the key in the store."""
        whole = self.prefix + path
        return whole.removeprefix("/") if self.rooted else whole


class Opening(NamedTuple):
    """What a place is opened with.

    Its checked members, the resources, the place that it stands on, and the path of the
    key-value store, which will follow the prefix.
    """

    given: Mapping[str, Any]
    resources: References
    base: Place | None
    path: str


def _none(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """A kind of place.

    Parameters
    ----------
    name
        What JSON calls it.
    open
        Gives the place of the keys.
    members
        Its members in JSON beside path and resources, with what reads each.
    needs
        The members that must be there.
    kinds
        The members that name resources, and their kinds.
    optional
        Those of them that mean nothing where they are absent.
    defaults
        The members that are left out where they have this value.
    url
        From members and path to a URL, or to the part of a pipeline; None: there is none.
    path
        Checks a path, and gives it as it is kept.
    at_once
        Of how many bytes reading takes less time than beginning it in another thread; where it
        is infinite, so does everything else.
    based
        Whether it stands on another one.
    """

    name: str
    open: Callable[[Opening], Place]
    members: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    kinds: Mapping[str, str] = field(default_factory=dict)
    optional: frozenset[str] = frozenset()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    url: Callable[[Mapping[str, Any], str], str] | None = None
    path: Callable[[str], str] = _none
    check: Callable[[dict[str, Any], str], tuple[dict[str, Any], str]] | None = None
    at_once: float = 0
    based: bool = False

    def parse(self, json: dict[str, Any], path: str) -> tuple[dict[str, Any], str]:
        """Return the checked members and the path.

        Raises
        ------
        ArgumentError
            If something is missing, too much, or wrong.
        """
        for name in self.needs:
            if name not in json:
                raise ArgumentError(
                    f'Error parsing object member "{name}": Expected string, but member is missing'
                )
        found = {
            name: value
            for name, value in members(json, self.members).items()
            if name not in self.defaults or self.defaults[name] != value
        }
        return (found, self.path(path)) if self.check is None else self.check(found, path)


# Members


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise expected("string", value)
    return value


def _boolean(value: Any) -> bool:
    if type(value) is not bool:
        raise expected("boolean", value)
    return value


def _texts(value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise expected("array of strings", value)
    return [*value]


def _quoted(path: str) -> str:
    from urllib.parse import quote

    return quote(path, safe="/!$&'()*+,;=:@-._~", errors="surrogateescape")


def check_path(path: str, what: str) -> None:
    """Refuse a path that has an empty name, "." or ".." in it.

    Raises
    ------
    ArgumentError
        If it has.
    """
    names = path.removeprefix("/").removesuffix("/").split("/")
    bad = "\0" in path or any(name in {"", ".", ".."} or name.endswith(".__lock") for name in names)
    if bad and path not in {"", "/"}:
        raise ArgumentError(f'Invalid {what} path: "{path}"')


# Files


def _file_path(path: str) -> str:
    check_path(path, "file")
    return path


def _open_file(at: Opening) -> Place:
    here = "" if at.path.startswith("/") else f"{Path.cwd().as_posix().rstrip('/')}/"
    return Place(_root() if at.resources.plain else _files(at), here, rooted=True)


@cache
def _root() -> Store:
    return LocalStore("/", durable=True)


def _files(at: Opening) -> Store:
    locking = at.resources.resource("file_io_locking").to_json()
    if locking.get("mode", "os") == "lockfile":
        raise UnsupportedError(
            "file_io_locking: the mode 'lockfile' is not supported; 'os' locks the same file "
            "by the operating system, so that nothing stays behind"
        )
    durable = bool(at.resources.resource("file_io_sync").to_json())
    return LocalStore("/", durable=durable)


def _file_url(_: Mapping[str, Any], path: str) -> str:
    if not path.startswith("/"):
        raise ArgumentError(f'file: URIs do not support relative paths: "{path}"')
    return f"file://{_quoted(path)}"


# Memory


def _open_memory(at: Opening) -> Place:
    return Place(at.resources.resource("memory_key_value_store")._made(_new_memory), "")


def _new_memory(_: Any) -> Store:
    return MemoryStore()


# Object stores and web servers, by fsspec

_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]")


def _bucket(kind: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        name = _text(value)
        if not _BUCKET.fullmatch(name) or ".." in name:
            raise ArgumentError(f'Invalid {kind} bucket name: "{name}"')
        return name

    return read


def _check_s3(found: dict[str, Any], path: str) -> tuple[dict[str, Any], str]:
    if "bucket" not in found and "endpoint" not in found:
        raise ArgumentError('"bucket" must be specified when "endpoint" is not set')
    return found, path


def _open_s3(at: Opening) -> Place:
    options: dict[str, Any] = {"anon": _credentials(at.resources) == "anonymous"}
    client: dict[str, Any] = {}
    if "endpoint" in at.given:
        client["endpoint_url"] = at.given["endpoint"]
    if at.given.get("aws_region"):
        client["region_name"] = at.given["aws_region"]
    if client:
        options["client_kwargs"] = client
    if at.given.get("requester_pays"):
        options["requester_pays"] = True
    store, inside = open_store(f"s3://{at.given.get('bucket', '')}", storage_options=options)
    return Place(store, f"{inside}/" if inside else "")


def _credentials(resources: References) -> str:
    found = resources.resource("aws_credentials").to_json(include_defaults=True)
    form: str = found["type"]
    if form not in {"default", "anonymous"}:
        raise UnsupportedError(
            f"aws_credentials: the type {form!r} is not supported; 'default' finds what the "
            "environment and the files of AWS hold"
        )
    return form


def _open_gcs(at: Opening) -> Place:
    project = at.resources.resource("gcs_user_project").to_json().get("project_id")
    options = {"requester_pays": project} if project else {}
    store, inside = open_store(f"gs://{at.given['bucket']}", storage_options=options)
    return Place(store, f"{inside}/" if inside else "")


def _check_http(found: dict[str, Any], path: str) -> tuple[dict[str, Any], str]:
    from urllib.parse import urlsplit

    base = found["base_url"]
    try:
        parts = urlsplit(base)
        host = parts.hostname
    except ValueError as error:
        raise ArgumentError(f'Error parsing object member "base_url": {error}') from None
    if parts.scheme not in {"http", "https"} or not host or parts.fragment:
        raise ArgumentError(f'Error parsing object member "base_url": Invalid URL: "{base}"')
    query = f"?{parts.query}" if parts.query else ""
    joined = parts.path
    if path:
        joined = f"{joined.removesuffix('/')}/{path.removeprefix('/')}"
    return {**found, "base_url": f"{parts.scheme}://{parts.netloc}{query}"}, joined


def _open_http(at: Opening) -> Place:
    url, mark, query = at.given["base_url"].partition("?")
    if query:
        raise UnsupportedError(
            f"the URL {url + mark + query!r} has a query, which is not supported"
        )
    options: dict[str, Any] = {}
    if at.given.get("headers"):
        pairs = (line.partition(":") for line in at.given["headers"])
        options["client_kwargs"] = {
            "headers": {name.strip(): value.strip() for name, _, value in pairs}
        }
    store, inside = open_store(url, mode="r", storage_options=options)
    return Place(store, f"{inside}/" if inside else "", rooted=True)


def _http_url(given: Mapping[str, Any], path: str) -> str:
    origin, mark, query = given["base_url"].partition("?")
    return f"{origin}{_quoted(path)}{mark}{query}"


# Zip files


def _open_zip(at: Opening) -> Place:
    if at.base is None or not isinstance(at.base.store, LocalStore):
        raise UnsupportedError(
            "a Zip file has to be one of this machine: its base is a kvstore with driver 'file'"
        )
    from tessarr.store.zip.store import shared_zip

    file = f"{at.base.store.path.rstrip('/')}/{at.base.key('')}"
    return Place(shared_zip(file, durable=at.base.store.durable), "")


# Any store of Tessarr's


def _open_tessarr(at: Opening) -> Place:
    store, inside = open_store(at.given["store"])
    return Place(store, f"{inside}/" if inside else "")


def _drivers() -> tuple[Driver, ...]:
    own = {
        name: name
        for name in (
            "file_io_concurrency",
            "file_io_locking",
            "file_io_mode",
            "file_io_retries",
            "file_io_sync",
        )
    }
    copying = {"data_copy_concurrency": "data_copy_concurrency"}
    return (
        Driver(
            name="file",
            open=_open_file,
            kinds=own,
            url=_file_url,
            path=_file_path,
            at_once=1 << 16,
        ),
        Driver(
            name="memory",
            open=_open_memory,
            members={"atomic": _boolean},
            defaults={"atomic": True},
            kinds={"memory_key_value_store": "memory_key_value_store"},
            url=lambda _, path: f"memory://{_quoted(path)}",
            at_once=inf,
        ),
        Driver(
            name="s3",
            open=_open_s3,
            members={
                "bucket": _bucket("S3"),
                "endpoint": _text,
                "host_header": _text,
                "aws_region": _text,
                "requester_pays": _boolean,
                "use_conditional_write": _boolean,
            },
            defaults={"aws_region": "", "requester_pays": False},
            kinds={
                "aws_credentials": "aws_credentials",
                **copying,
                "experimental_s3_rate_limiter": "experimental_s3_rate_limiter",
                "s3_request_concurrency": "s3_request_concurrency",
                "s3_request_retries": "s3_request_retries",
            },
            optional=frozenset({"experimental_s3_rate_limiter"}),
            check=_check_s3,
            url=lambda given, path: f"s3://{given['bucket']}/{_quoted(path)}",
        ),
        Driver(
            name="gcs",
            open=_open_gcs,
            members={"bucket": _bucket("GCS")},
            needs=("bucket",),
            kinds={
                **copying,
                "experimental_gcs_rate_limiter": "experimental_gcs_rate_limiter",
                "gcs_request_concurrency": "gcs_request_concurrency",
                "gcs_request_retries": "gcs_request_retries",
                "gcs_user_project": "gcs_user_project",
            },
            optional=frozenset({"experimental_gcs_rate_limiter"}),
            url=lambda given, path: f"gs://{given['bucket']}/{_quoted(path)}",
        ),
        Driver(
            name="http",
            open=_open_http,
            members={"base_url": _text, "headers": _texts},
            needs=("base_url",),
            defaults={"headers": []},
            kinds={
                **copying,
                "http_request_concurrency": "http_request_concurrency",
                "http_request_retries": "http_request_retries",
            },
            check=_check_http,
            url=_http_url,
        ),
        Driver(
            name="zip",
            open=_open_zip,
            members={"compression": _text},
            defaults={"compression": "deflate"},
            kinds={"cache_pool": "cache_pool", **copying},
            url=lambda _, path: f"zip:{_quoted(path)}",
            based=True,
        ),
        Driver(name="tessarr", open=_open_tessarr, members={"store": _none}, needs=("store",)),
    )


DRIVERS: Final[Mapping[str, Driver]] = {driver.name: driver for driver in _drivers()}
"""Every kind, by its name in JSON."""


def driver_of(name: Any) -> Driver:
    """Return the driver of a name.

    Raises
    ------
    ArgumentError
        If there is none.
    """
    if isinstance(name, str) and name in DRIVERS:
        return DRIVERS[name]
    why = (
        f'"{name}" is not a registered KvStore driver'
        if isinstance(name, str)
        else str(expected("string", name))
    )
    raise ArgumentError(f'Error parsing object member "driver": {why}')
