"""Tables of the options of object stores, by the names of the classes."""

from __future__ import annotations

from typing import Any, Final

from tessarr.store.object.azure_options import AZURE_OPTIONS
from tessarr.store.object.gcs_options import GCS_OPTIONS
from tessarr.store.object.http_options import HTTP_OPTIONS
from tessarr.store.object.options import OptionTable, interpret_options
from tessarr.store.object.s3_options import S3_OPTIONS

__all__ = ["TABLES", "interpret"]

TABLES: Final[dict[str, OptionTable]] = {
    "S3Store": S3_OPTIONS,
    "GCSStore": GCS_OPTIONS,
    "AzureStore": AZURE_OPTIONS,
    "HTTPStore": HTTP_OPTIONS,
}


def interpret(table: OptionTable, options: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that options mean."""
    return interpret_options(table, options, "Store")
