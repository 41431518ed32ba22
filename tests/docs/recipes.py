"""Servers and environments for the recipes of the page on object stores."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr
from stores.clouds import AZURE_ACCOUNT, AZURE_KEY, KEYS, WebServer, make_storage_options

__all__ = ["Recipe", "clear_environment", "prepare_azure", "prepare_gcs", "prepare_s3"]
__all__ += ["prepare_tls", "prepare_web"]

VALUES = np.arange(10)
_AMBIENT = ("AWS_", "AZURE_", "GOOGLE_", "STORAGE_", "SERVICE_", "IDENTITY_", "CLOUDSDK_")


@dataclass(frozen=True)
class Recipe:
    """What a recipe needs.

    Parameters
    ----------
    environment
        Variables of the environment.
    addresses
        Names in the recipe, and those of the server that take their place.
    """

    environment: dict[str, str] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)

    def replace_addresses(self, text: str) -> str:
        """Return the recipe with the names of the server."""
        for name, address in self.addresses.items():
            text = text.replace(name, address)
        return text


def clear_environment(patch: pytest.MonkeyPatch, home: Path) -> None:
    """Remove all variables and files that settings may come from."""
    for name in list(os.environ):
        if name.startswith(_AMBIENT) or name.lower().endswith("_proxy"):
            patch.delenv(name)
    patch.setenv("HOME", str(home))


def _make_bucket(kind: str, port: int, name: str) -> Any:
    """Return a file system of fsspec, on which the bucket exists."""
    fsspec = pytest.importorskip("fsspec")
    pytest.importorskip({"s3": "s3fs", "gs": "gcsfs", "az": "adlfs"}[kind])
    options = make_storage_options(kind, f"http://127.0.0.1:{port}")
    fs = fsspec.filesystem(kind, **options, skip_instance_cache=True, use_listings_cache=False)
    if not fs.exists(name):
        fs.mkdir(name)
    return fs


def prepare_s3(port: int, folder: Path) -> Recipe:
    """Fill ``my-bucket`` and ``public-bucket``, and write the profile ``lab``."""
    url = f"http://127.0.0.1:{port}"
    options = make_storage_options("s3", url)
    for bucket in ("my-bucket", "public-bucket"):
        fs = _make_bucket("s3", port, bucket)
        root = f"s3://{bucket}"
        tessarr.save_array(f"{root}/data.zarr", VALUES, storage_options=options)
        tessarr.save_group(f"{root}/group.zarr", temperature=VALUES, storage_options=options)
        climate = tessarr.open_group(f"{root}/climate.zarr", "w", storage_options=options)
        climate.create_array("temperature", data=VALUES, dimension_names=["time"])
        fs.pipe_file(f"{bucket}/data.bin", VALUES.tobytes())
    resources = [f"arn:aws:s3:::public-bucket{suffix}" for suffix in ("", "/*")]
    statement = {"Effect": "Allow", "Principal": "*", "Resource": resources}
    statement["Action"] = ["s3:GetObject", "s3:ListBucket"]
    policy = {"Version": "2012-10-17", "Statement": [statement]}
    fs.call_s3("put_bucket_policy", Bucket="public-bucket", Policy=json.dumps(policy))
    config = folder / ".aws" / "config"
    config.parent.mkdir()
    keys = f"aws_access_key_id = {KEYS['key']}\naws_secret_access_key = {KEYS['secret']}\n"
    config.write_text(f"[profile lab]\nendpoint_url = {url}\n{keys}")
    variables = {"AWS_ENDPOINT_URL": url, "AWS_REGION": "us-east-1"}
    variables |= {"LAB_KEY": KEYS["key"], "LAB_SECRET": KEYS["secret"]}
    return Recipe(variables, {"http://localhost:9000": url})


def prepare_gcs(port: int, folder: Path) -> Recipe:
    """Fill ``my-bucket``, and write a key of a service account where Google's tools do."""
    rsa = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.rsa")
    from cryptography.hazmat.primitives import serialization

    url = f"http://127.0.0.1:{port}"
    _make_bucket("gs", port, "my-bucket")
    options = make_storage_options("gs", url)
    tessarr.save_array("gs://my-bucket/data.zarr", VALUES, storage_options=options)
    key = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    content = {"type": "service_account", "client_email": "me@lab", "private_key_id": "1"}
    content |= {"private_key": key.decode(), "token_uri": "https://oauth2.googleapis.com/token"}
    default = folder / ".config" / "gcloud" / "application_default_credentials.json"
    default.parent.mkdir(parents=True)
    for path in (default, folder / "key.json"):
        path.write_text(json.dumps(content))
    return Recipe({"GOOGLE_BASE_URL": url})


def prepare_azure(port: int, _folder: Path) -> Recipe:
    """Fill ``my-container``, and sign access to it."""
    blob = pytest.importorskip("azure.storage.blob")
    url = f"http://127.0.0.1:{port}/{AZURE_ACCOUNT}"
    _make_bucket("az", port, "my-container")
    options = make_storage_options("az", f"http://127.0.0.1:{port}")
    tessarr.save_array("az://my-container/data.zarr", VALUES, storage_options=options)
    token = blob.generate_container_sas(
        AZURE_ACCOUNT,
        "my-container",
        account_key=AZURE_KEY,
        permission="rl",
        expiry=datetime.now(UTC) + timedelta(hours=1),
    )
    variables = {"AZURE_STORAGE_ACCOUNT": AZURE_ACCOUNT, "AZURE_STORAGE_ENDPOINT": url}
    variables |= {"SAS_TOKEN": token, "LAB_CONNECTION": options["connection_string"]}
    names = {"https://myaccount.blob.core.windows.net": url, "myaccount": AZURE_ACCOUNT}
    return Recipe(variables, names)


def prepare_tls(addresses: tuple[str, str], folder: Path) -> Recipe:
    """Write the files of a web server with TLS; `addresses` are those of the server and a proxy."""
    tessarr.save_array(folder / "data.zarr", VALUES)
    names = ("https://data.example.org", "http://proxy.example.org:3128")
    return Recipe({}, dict(zip(names, addresses, strict=True)))


def prepare_web(server: WebServer, _folder: Path) -> Recipe:
    """Write the files of a web server that lists no folders."""
    tessarr.save_array(server.folder / "data.zarr", VALUES)
    for name in ("group.zarr", "plain.zarr"):
        tessarr.save_group(server.folder / name, temperature=VALUES)
    tessarr.consolidate_metadata(server.folder / "group.zarr")
    return Recipe({}, {"https://data.example.org": f"http://127.0.0.1:{server.ports['ranges']}"})
