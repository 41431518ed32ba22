"""The kinds of resources, with their JSON and defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tessarr.errors import ArgumentError
from tessarr.tensorstore.json.durations import format_duration
from tessarr.tensorstore.json.parse import (
    as_json,
    boolean,
    expected_error,
    missing_member,
    number,
    one_of,
    read_members,
    text,
    unsigned,
)

__all__ = ["KINDS", "Kind", "kind_of"]

_UNSIGNED = unsigned(0, "64-bit unsigned integer")
_COUNT = unsigned(0, "integer in the range [0, 9223372036854775807]", 2**63 - 1)
_POSITIVE = unsigned(1, "integer in the range [1, 18446744073709551615]")


def _limit(value: Any) -> Any:
    return value if value == "shared" and isinstance(value, str) else _POSITIVE(value)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of resource.

    Parameters
    ----------
    name : str
        The name of the kind, and of its default resource.
    read : callable
        Validates JSON and returns it.
    defaults : JSON
        All members with their defaults, or the single default value.
    hidden : mapping
        Members to omit from JSON if they have this value.
    plain : bool
        Whether the resource is only its JSON, without an object to share.
    """

    name: str
    read: Callable[[Any], Any]
    defaults: Any
    hidden: Mapping[str, Any]
    plain: bool = False

    def canonical(self, value: Any) -> Any:
        """Return the JSON of a resource without defaults; None means the default resource.

        Raises
        ------
        ArgumentError
            If `value` is not valid for this kind.
        """
        result = self.defaults if value is None else self.read(value)
        if not isinstance(result, dict):
            return result
        return {
            name: item
            for name, item in sorted(result.items())
            if name not in self.hidden or self.hidden[name] != item
        }

    def full(self, value: Any) -> Any:
        """Return the JSON of a resource with all defaults."""
        if not isinstance(value, dict):
            return value
        whole = {**self.defaults, **value}
        return dict(sorted(whole.items())) if len(whole) > 1 else whole


_RETRIES = {"max_retries": _COUNT, "initial_delay": format_duration, "max_delay": format_duration}
_RATES = {"read_rate": number, "write_rate": number, "doubling_time": format_duration}


def _object(known: Mapping[str, Callable[[Any], Any]]) -> Callable[[Any], Any]:
    return lambda value: read_members(value, known)


def _credentials(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise expected_error("object", value)
    if "type" not in value:
        raise missing_member("type", "string")
    form = one_of(*_CREDENTIALS)
    return read_members(
        value, {"type": form, **dict.fromkeys(_CREDENTIALS[form(value["type"])], text)}
    )


_CREDENTIALS: Final[Mapping[str, tuple[str, ...]]] = {
    "default": ("profile", "filename", "metadata_endpoint"),
    "anonymous": (),
    "environment": (),
    "imds": (),
    "ecs": ("endpoint", "auth_token_file"),
    "profile": ("profile", "credentials_file", "config_file"),
}
_LOCKING = {
    "mode": one_of("os", "lockfile", "none", "non_atomic"),
    "acquire_timeout": format_duration,
}
_MODE = {"mode": one_of("default", "memmap", "direct")}


def _with_defaults(
    name: str, known: Mapping[str, Callable[[Any], Any]], *, plain: bool = False, **defaults: Any
) -> Kind:
    return Kind(name, _object(known), defaults, defaults, plain)


def _concurrency(name: str) -> Kind:
    return _with_defaults(name, {"limit": _limit}, limit="shared")


def _retries(name: str, most: int) -> Kind:
    return _with_defaults(
        name, _RETRIES, plain=True, max_retries=most, initial_delay="1s", max_delay="32s"
    )


def _kinds() -> tuple[Kind, ...]:
    return (
        _with_defaults("cache_pool", {"total_bytes_limit": _UNSIGNED}, total_bytes_limit=0),
        _concurrency("data_copy_concurrency"),
        _concurrency("file_io_concurrency"),
        Kind(
            "file_io_locking",
            _object(_LOCKING),
            {},
            {"mode": "os", "acquire_timeout": "1m"},
            plain=True,
        ),
        Kind("file_io_mode", _object(_MODE), {}, {"mode": "default"}, plain=True),
        _retries("file_io_retries", 0),
        Kind("file_io_sync", boolean, True, {}, plain=True),
        _with_defaults("memory_key_value_store", {}),
        _concurrency("gcs_request_concurrency"),
        _retries("gcs_request_retries", 32),
        _with_defaults("gcs_user_project", {"project_id": text}, plain=True),
        _with_defaults("experimental_gcs_rate_limiter", _RATES),
        _concurrency("s3_request_concurrency"),
        _retries("s3_request_retries", 32),
        _with_defaults("experimental_s3_rate_limiter", _RATES),
        Kind("aws_credentials", _credentials, {"type": "default"}, {}, plain=True),
        _concurrency("http_request_concurrency"),
        _retries("http_request_retries", 32),
        _with_defaults("ocdbt_coordinator", {"address": text, "lease_duration": format_duration}),
        _with_defaults("grpc_client_credentials", {}),
        _with_defaults("experimental_gcs_grpc_credentials", {"type": text, "access_token": text}),
        _retries("tsgrpc_request_retries", 32),
    )


KINDS: Final[Mapping[str, Kind]] = {kind.name: kind for kind in _kinds()}
"""All kinds by name."""


def kind_of(key: str) -> Kind:
    """Return the kind of a resource name, ``kind`` or ``kind#id``.

    Raises
    ------
    ArgumentError
        If the kind does not exist.
    """
    kind = KINDS.get(key.partition("#")[0])
    if kind is None:
        raise ArgumentError(f"Invalid context resource identifier: {as_json(key)}")
    return kind
