"""Options of GCS stores: names of gcsfs and object_store, and environment variables."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tessarr.errors import ArgumentError
from tessarr.store.object.common_options import (
    COMMON_OPTIONS,
    SESSION_OPTIONS,
    TIMEOUT,
    USE_FSSPEC,
)
from tessarr.store.object.engine_arguments import build_bucket_arguments
from tessarr.store.object.google_credentials import (
    find_default_file,
    read_token,
    resolve_credential_file,
)
from tessarr.store.object.option_values import one_of, to_bool, to_path, to_text, to_url
from tessarr.store.object.options import (
    IGNORED,
    Accept,
    Nest,
    Refuse,
    Rule,
    Set,
    Settings,
    Split,
    add_prefixes,
    merge_settings,
    read_environment,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tessarr.store.object.engine_arguments import EngineArguments

__all__ = ["GCS_ENVIRONMENT", "GCS_OPTIONS", "resolve_gcs"]


def _to_service_account(value: Any) -> str:
    """Return the path of a key, or its JSON text."""
    return json.dumps(dict(value)) if hasattr(value, "items") else to_path(value)


def _to_requester(value: Any) -> Settings:
    """Return the settings of ``requester_pays``: a truth value, or the project that pays."""
    try:
        return {"requester_pays": to_bool(value)}
    except ValueError:
        return {"requester_pays": True, "project": to_text(value)}


_to_mode: Final = one_of("read_only", "read_write", "full_control")


def _to_access(value: Any) -> Settings:
    return {"read_only": True} if _to_mode(value) == "read_only" else {}


_BUCKET: Final = Refuse("the URL names the bucket")

_ENGINE_OPTIONS: Final[dict[str, Rule]] = {
    "service_account": Set("service_account", _to_service_account),
    "service_account_path": Set("service_account", _to_service_account),
    "service_account_key": Set("service_account", _to_service_account),
    "bucket": _BUCKET,
    "bucket_name": _BUCKET,
    "base_url": Set("endpoint", to_url),
    "application_credentials": Set("application_credentials", to_path),
    "bearer_token": Set("bearer_token"),
    "skip_signature": Set("anonymous", to_bool),
    # Names of environment variables.
    "cloud_project": Set("project"),
}

_FILE_SYSTEM_OPTIONS: Final[dict[str, Rule]] = {
    "access": Split(_to_access),
    "cache_timeout": IGNORED,
    "check_connection": IGNORED,
    "consistency": IGNORED,  # the engine checks the length of each answer
    "default_location": IGNORED,  # stores do not create buckets
    "endpoint_url": Set("endpoint", to_url),
    "finalize_on_close": IGNORED,
    "max_mrd_pool_cache_queue_size": IGNORED,
    "mrd_pool_cache_size": IGNORED,
    "project": Set("project"),
    "requester_pays": Split(_to_requester),
    "requests_timeout": TIMEOUT,
    "secure_serialize": Accept((True,), "pickles of stores contain their arguments"),
    "session_kwargs": Nest(SESSION_OPTIONS),
    "token": Split(read_token),
}

_OWN_OPTIONS: Final[dict[str, Rule]] = {
    "anonymous": Set("anonymous", to_bool),
    "anon": Set("anonymous", to_bool),
    "endpoint": Set("endpoint", to_url),
    "session": Refuse(USE_FSSPEC),
}

GCS_OPTIONS: Final[dict[str, Rule]] = {
    **add_prefixes(COMMON_OPTIONS | _ENGINE_OPTIONS, "google_"),
    **_FILE_SYSTEM_OPTIONS,
    **_OWN_OPTIONS,
}
"""The rule for each name of `storage_options` of GCS stores."""

GCS_ENVIRONMENT: Final = (
    "GOOGLE_SERVICE_ACCOUNT",
    "GOOGLE_SERVICE_ACCOUNT_PATH",
    "SERVICE_ACCOUNT",
    "GOOGLE_SERVICE_ACCOUNT_KEY",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_BEARER_TOKEN",
    "GOOGLE_SKIP_SIGNATURE",
    "GOOGLE_BASE_URL",
    "GOOGLE_CLOUD_PROJECT",
)
"""Environment variables; an earlier one has precedence over a later one of the same meaning."""

_EMULATOR: Final = "STORAGE_EMULATOR_HOST"

_NAMES: Final = {
    "anonymous": "google_skip_signature",
    "bearer_token": "google_bearer_token",
    "endpoint": "google_base_url",
}

_CREDENTIALS: Final = frozenset(
    {"anonymous", "application_credentials", "bearer_token", "credentials", "service_account"}
)


def resolve_gcs(bucket: str, prefix: str, explicit: Mapping[str, Any]) -> EngineArguments:
    """Return the arguments of the engine for a bucket.

    Parameters
    ----------
    bucket, prefix
        The location.
    explicit
        Settings of the user, which have precedence over the environment.

    Raises
    ------
    ArgumentError
        If a credential file is absent or malformed, or a project is missing.
    UnsupportedError
        ``missing_package``, if the credentials need google-auth, which is not installed.
    """
    environment = read_environment(GCS_OPTIONS, GCS_ENVIRONMENT, os.environ, "GCSStore")
    emulator = os.environ.get(_EMULATOR)
    if emulator and emulator != "default":
        url = emulator if "://" in emulator else f"http://{emulator}"
        environment["endpoint"] = url.rstrip("/")
        if not explicit.get("endpoint"):
            environment["anonymous"] = True
    settings = merge_settings(explicit, environment, _CREDENTIALS)
    _complete_credentials(settings)
    project = settings.pop("project", None)
    if settings.pop("requester_pays", False):
        if not project:
            raise ArgumentError(
                "GCSStore: requester_pays needs the project that pays; pass the option project, "
                "or set GOOGLE_CLOUD_PROJECT"
            )
        settings["headers"] = {**settings.get("headers", {}), "x-goog-user-project": project}
    return build_bucket_arguments("gcs", f"gs://{bucket}", prefix, settings, _NAMES)


def _complete_credentials(settings: Settings) -> None:
    """Choose one source of credentials, and replace files that the engine does not read."""
    account = settings.pop("service_account", None)
    path = settings.pop("application_credentials", None)
    if any(settings.get(name) for name in ("anonymous", "credentials", "bearer_token")):
        return
    if account is not None:
        is_json = account.lstrip().startswith("{")
        name = "google_service_account_key" if is_json else "google_service_account"
        settings[name] = account if is_json else str(Path(account).expanduser())
    elif path := path or find_default_file(os.environ):
        settings.update(resolve_credential_file(path))
