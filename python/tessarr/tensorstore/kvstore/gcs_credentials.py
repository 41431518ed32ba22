"""Credentials for Google Cloud Storage."""

from __future__ import annotations

from functools import cache
from typing import Any

from tessarr.errors import UnsupportedError
from tessarr.format.install_hints import scheme_hint

__all__ = ["find_credentials"]


@cache
def find_credentials() -> Any:
    """Return a placeholder for the credentials that gcsfs finds before the first request.

    Raises
    ------
    UnsupportedError
        If gcsfs is not installed.
    """
    try:
        import gcsfs
        from google.auth.credentials import Credentials
    except ImportError as error:
        raise UnsupportedError(
            f"the driver 'gcs' needs the package gcsfs{scheme_hint('gs')}",
            kind="missing_package",
            extension="gs",
        ) from error
    del gcsfs

    class Sought(Credentials):
        """A placeholder for credentials; see `tessarr.store.fsspec.store`."""

        sought = True

        def refresh(self, request: Any) -> None:
            raise AssertionError("requests are sent with those that were found")

        def __reduce__(self) -> Any:
            return find_credentials, ()

        def __repr__(self) -> str:
            return "find_credentials"

    new: Any = Sought
    return new()
