"""Credentials of Azure: connection strings, and objects of azure-core and azure-identity."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from inspect import iscoroutinefunction
from typing import Any, Final
from urllib.parse import urlsplit

__all__ = ["TokenCredentials", "parse_connection_string", "read_credential"]

_SCOPE: Final = "https://storage.azure.com/.default"

_EMULATOR_ACCOUNT: Final = "devstoreaccount1"
_EMULATOR_KEY: Final = (  # public: https://learn.microsoft.com/azure/storage/common/storage-use-azurite
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
_EMULATOR_URL: Final = "http://127.0.0.1:10000"


def parse_connection_string(text: Any) -> dict[str, Any]:
    """Return the settings that a connection string means.

    Examples
    --------
    >>> text = "BlobEndpoint=http://127.0.0.1:10000/devstoreaccount1;SharedAccessSignature=sv=1"
    >>> for name, value in parse_connection_string(text).items():
    ...     print(name, value)
    account_name devstoreaccount1
    sas_token sv=1
    endpoint http://127.0.0.1:10000/devstoreaccount1
    """
    if not isinstance(text, str):
        raise ValueError(f"must be a str, not {type(text).__name__}")
    values: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(";"))):
        name, separator, value = part.partition("=")
        if not separator:
            raise ValueError("must consist of parts NAME=VALUE with ';' between them")
        values[name.strip().lower()] = value.strip()
    if values.get("usedevelopmentstorage", "").lower() == "true":
        server = values.get("developmentstorageproxyuri", _EMULATOR_URL).rstrip("/")
        values = {
            "accountname": _EMULATOR_ACCOUNT,
            "accountkey": _EMULATOR_KEY,
            "blobendpoint": f"{server}/{_EMULATOR_ACCOUNT}",
        }
    endpoint = _find_endpoint(values)
    account = values.get("accountname") or _find_account(endpoint)
    if not account:
        raise ValueError("must have the part AccountName or BlobEndpoint")
    settings = {
        "account_name": account,
        "account_key": values.get("accountkey"),
        "sas_token": values.get("sharedaccesssignature"),
        "endpoint": endpoint,
    }
    return {name: value for name, value in settings.items() if value}


def _find_endpoint(values: dict[str, str]) -> str | None:
    """Return the address of an account; None for the usual one."""
    if endpoint := values.get("blobendpoint"):
        return endpoint.rstrip("/")
    scheme = values.get("defaultendpointsprotocol", "https")
    suffix = values.get("endpointsuffix", "core.windows.net")
    account = values.get("accountname")
    if account is None or (scheme, suffix) == ("https", "core.windows.net"):
        return None
    return f"{scheme}://{account}.blob.{suffix}"


def _find_account(endpoint: str | None) -> str | None:
    """Return the account of an address: the first segment of its path, or of its host."""
    parts = urlsplit(endpoint or "")
    return parts.path.strip("/").partition("/")[0] or (parts.hostname or "").partition(".")[0]


def read_credential(value: Any) -> dict[str, Any]:
    """Return the settings that adlfs's option ``credential`` means.

    Parameters
    ----------
    value
        An account key, a SAS token, or a credential of azure-core or azure-identity.
    """
    if isinstance(value, str):
        return {"sas_token" if "sig=" in value else "account_key": value}
    if key := getattr(value, "named_key", None):
        return {"account_name": key.name, "account_key": key.key}
    if signature := getattr(value, "signature", None):
        return {"sas_token": signature}
    get_token = getattr(value, "get_token", None)
    if not callable(get_token):
        raise ValueError(
            "must be a key, a SAS token or a credential with the method get_token, not "
            f"{type(value).__name__}"
        )
    if iscoroutinefunction(get_token):
        raise ValueError(
            "is an asynchronous credential: pass one of azure.identity, not of azure.identity.aio"
        )
    return {"credentials": TokenCredentials(value)}


@dataclass(frozen=True, slots=True)
class TokenCredentials:
    """A callable that returns tokens of a credential of azure-identity.

    Parameters
    ----------
    source
        An object with the method ``get_token(scope)``, which renews the token when necessary.
    """

    source: Any

    def __call__(self) -> dict[str, Any]:
        token = self.source.get_token(_SCOPE)
        expires_at = datetime.fromtimestamp(token.expires_on, UTC)
        return {"token": token.token, "expires_at": expires_at}
