"""Credentials of Google: tokens of gcsfs, credential files, and objects of google-auth.

The engine itself reads keys of service accounts and files of users. Other files, such as those of
workload identities, need the package google-auth.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from tessarr.errors import ArgumentError, StoreError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["GoogleCredentials", "find_default_file", "read_token", "resolve_credential_file"]

_SCOPES: Final = ("https://www.googleapis.com/auth/cloud-platform",)
_ENGINE_TYPES: Final = frozenset({"service_account", "authorized_user"})
_DEFAULT_FILE: Final = "application_default_credentials.json"

_LOADERS: Final = {
    "authorized_user": ("google.oauth2.credentials", "from_authorized_user_info"),
    "impersonated_service_account": (
        "google.auth.impersonated_credentials",
        "from_impersonated_service_account_info",
    ),
    "external_account_authorized_user": (
        "google.auth.external_account_authorized_user",
        "from_info",
    ),
    "external_account": ("google.auth.identity_pool", "from_info"),
    "external_account/aws": ("google.auth.aws", "from_info"),
    "external_account/executable": ("google.auth.pluggable", "from_info"),
}
"""The module and the class method of google-auth for each type of credentials."""


def read_token(token: Any) -> dict[str, Any]:
    """Return the settings that gcsfs's option ``token`` means.

    Parameters
    ----------
    token
        A method such as "anon", the path of a file, the content of a file, an access token, or a
        credentials object with the attribute ``token`` and the method ``refresh``.
    """
    if token == "anon":  # noqa: S105 (a method of gcsfs)
        return {"anonymous": True}
    if token in ("google_default", "cloud"):
        return {}
    if token in ("cache", "browser"):
        raise ValueError(
            f"does not support {token!r}: run 'gcloud auth application-default login', and pass "
            "no token"
        )
    if hasattr(token, "items"):
        return _read_token_content(dict(token))
    if hasattr(token, "token") and callable(getattr(token, "refresh", None)):
        return {"credentials": GoogleCredentials(token)}
    if not isinstance(token, str):
        raise ValueError(
            f"must be a method, a path, a mapping or a credentials object, not "
            f"{type(token).__name__}"
        )
    if "/" in token or token.endswith(".json") or Path(token).is_file():
        return {"application_credentials": token}
    return {"bearer_token": token}


def _read_token_content(content: dict[str, Any]) -> dict[str, Any]:
    if "private_key" in content:
        return {"service_account": json.dumps(content)}
    if "type" not in content and "refresh_token" in content:
        content["type"] = "authorized_user"
    return {"credentials": _build_credentials(content, "the option token")}


def find_default_file(environ: Mapping[str, str]) -> str | None:
    """Return the path of the application default credentials, or None."""
    folder = environ.get("CLOUDSDK_CONFIG") or "~/.config/gcloud"
    try:
        path = Path(folder).expanduser() / _DEFAULT_FILE
    except RuntimeError:  # no home folder
        return None
    return str(path) if path.is_file() else None


def resolve_credential_file(path: str) -> dict[str, Any]:
    """Return the engine's settings for a credential file.

    Raises
    ------
    ArgumentError
        If the file is absent or malformed.
    UnsupportedError
        ``missing_package``, if the file needs google-auth, which is not installed.
    """
    try:
        full_path = Path(path).expanduser()
        content = json.loads(full_path.read_text("utf-8"))
        kind = content["type"]
    except (OSError, RuntimeError) as error:
        raise ArgumentError(f"cannot read the Google credentials in {path!r}: {error}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise ArgumentError(
            f"{path!r} has no Google credentials: a JSON object with the member 'type'"
        ) from error
    if kind in _ENGINE_TYPES:
        return {"google_application_credentials": str(full_path)}
    return {"credentials": _build_credentials(content, repr(path))}


def _build_credentials(content: dict[str, Any], origin: str) -> GoogleCredentials:
    kind = str(content.get("type"))
    source = content.get("credential_source")
    if kind == "external_account" and isinstance(source, dict):
        if "executable" in source:
            kind = f"{kind}/executable"
        elif str(source.get("environment_id", "")).startswith("aws"):
            kind = f"{kind}/aws"
    if kind not in _LOADERS:
        raise ArgumentError(f"{origin} has Google credentials of the unknown type {kind!r}")
    _require_google_auth(f"credentials of the type {kind!r}")
    module, method = _LOADERS[kind]
    try:
        credentials = getattr(import_module(module).Credentials, method)(content, scopes=_SCOPES)
    except (KeyError, TypeError, ValueError) as error:
        raise ArgumentError(f"{origin} has malformed Google credentials: {error}") from error
    return GoogleCredentials(credentials)


def _require_google_auth(user: str) -> None:
    if find_spec("google") is None or find_spec("google.auth") is None:
        raise UnsupportedError(
            f"{user} need the package google-auth: pip install google-auth requests",
            kind="missing_package",
            extension="google-auth",
        )


_RENEWAL: Final = timedelta(minutes=6)
"""A token that expires sooner is renewed; the engine calls five minutes before it expires."""


@dataclass(slots=True)
class GoogleCredentials:
    """A callable that returns tokens of a credentials object of google-auth.

    Parameters
    ----------
    source
        An object with the attributes ``token`` and ``expiry`` (UTC without a zone, or None) and
        the method ``refresh(request)``.
    """

    source: Any
    _lock: Any = field(default_factory=Lock, compare=False, repr=False)

    def __call__(self) -> dict[str, Any]:
        with self._lock:
            if not self.source.token or self._is_expiring():
                self._refresh()
            credentials = {"token": self.source.token}
            expiry = self._get_expiry()
            return credentials if expiry is None else {**credentials, "expires_at": expiry}

    def _get_expiry(self) -> datetime | None:
        expiry = getattr(self.source, "expiry", None)
        return None if expiry is None else expiry.replace(tzinfo=UTC)

    def _is_expiring(self) -> bool:
        expiry = self._get_expiry()
        return expiry is not None and expiry - datetime.now(UTC) < _RENEWAL

    def _refresh(self) -> None:
        _require_google_auth("credentials objects")
        from google.auth.exceptions import GoogleAuthError

        try:
            self.source.refresh(_build_request())
        except GoogleAuthError as error:
            raise StoreError(f"cannot renew the token of Google: {error}") from error

    def __reduce__(self) -> Any:
        return type(self), (self.source,)


def _build_request() -> Any:
    """Return google-auth's request function, over the client that is installed."""
    for package in ("requests", "urllib3"):
        if find_spec(package) is not None:
            return import_module(f"google.auth.transport.{package}").Request()
    raise UnsupportedError(
        "google-auth needs the package requests: pip install requests",
        kind="missing_package",
        extension="requests",
    )
