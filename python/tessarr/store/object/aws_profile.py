"""Profiles of AWS: the files ``~/.aws/config`` and ``~/.aws/credentials``."""

from __future__ import annotations

import shlex
from configparser import Error as ConfigError
from configparser import RawConfigParser
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tessarr.errors import ArgumentError
from tessarr.format.hints import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Profile", "read_profile"]

_DEFAULT: Final = "default"
_CONFIG: Final = ("AWS_CONFIG_FILE", "~/.aws/config")
_CREDENTIALS: Final = ("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials")


@dataclass(frozen=True, slots=True)
class Profile:
    """The values of one profile.

    Parameters
    ----------
    name
        The name of the profile.
    values
        The values of both files; those of the credentials file have precedence.
    service
        The values of the section ``services`` for S3.
    files
        The paths of the two files: "config_file" and "credentials_file".
    """

    name: str
    values: Mapping[str, str]
    service: Mapping[str, str]
    files: Mapping[str, str]

    def get_settings(self) -> dict[str, Any]:
        """Return the region, the endpoint, the address style and the certificates."""
        settings: dict[str, Any] = {}
        if region := self.values.get("region"):
            settings["region"] = region
        if bundle := self.values.get("ca_bundle"):
            settings["ca_bundle"] = bundle
        endpoint = self.service.get("endpoint_url") or self.values.get("endpoint_url")
        if endpoint and self.values.get("ignore_configured_endpoint_urls", "").lower() != "true":
            settings["endpoint"] = endpoint.rstrip("/")
        style = _parse_nested(self.values.get("s3", "")).get("addressing_style")
        if style in {"path", "virtual"}:
            settings["virtual_hosted"] = style == "virtual"
        return settings


def read_profile(name: str | None, environ: Mapping[str, str]) -> Profile | None:
    """Return a profile; None if no name is passed and no profile ``default`` exists.

    Parameters
    ----------
    name
        The name of the profile.
    environ
        The environment, which may name the two files.

    Raises
    ------
    ArgumentError
        If no file has a profile of this name, or a file is malformed.
    """
    config, config_path = _read_file(_CONFIG, environ)
    credentials, credentials_path = _read_file(_CREDENTIALS, environ)
    profiles: dict[str, Mapping[str, str]] = {}
    for section, values in config.items():
        kind, _, suffix = section.partition(" ")
        if section == _DEFAULT or kind == "profile":
            profiles[_unquote(suffix) or _DEFAULT] = values
    for section, values in credentials.items():
        profiles[section] = {**profiles.get(section, {}), **values}
    chosen = profiles.get(name or _DEFAULT)
    if chosen is None:
        if name is None or name == _DEFAULT:
            return None
        raise ArgumentError(
            f"neither {config_path!r} nor {credentials_path!r} has the AWS profile {name!r}"
            f"{did_you_mean(name, profiles, count=3)}"
        )
    services = config.get(f"services {chosen.get('services', '')}", {})
    files = {"config_file": config_path, "credentials_file": credentials_path}
    return Profile(name or _DEFAULT, chosen, _parse_nested(services.get("s3", "")), files)


def _read_file(
    location: tuple[str, str], environ: Mapping[str, str]
) -> tuple[Mapping[str, Mapping[str, str]], str]:
    """Return the sections of a file, and its path; an absent file has no sections."""
    variable, default = location
    path = _expand(environ.get(variable) or default)
    try:
        return _parse_sections(path.read_text("utf-8")), str(path)
    except (FileNotFoundError, NotADirectoryError):
        return {}, str(path)
    except (ConfigError, OSError, UnicodeDecodeError) as error:
        raise ArgumentError(f"cannot read the AWS profiles in {str(path)!r}: {error}") from error


@lru_cache(4)  # a program that opens many stores parses the files once
def _parse_sections(text: str) -> Mapping[str, Mapping[str, str]]:
    # No section may be the default section of configparser, which all sections inherit.
    parser = RawConfigParser(default_section="\0", strict=False, allow_no_value=True)
    parser.read_string(text)
    return {
        section: {key: value or "" for key, value in parser.items(section)}
        for section in parser.sections()
    }


def _expand(path: str) -> Path:
    """Return a path with the home folder for "~"; a user without a home folder has no files."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def _unquote(text: str) -> str:
    """Return the name of a profile, which may be quoted."""
    try:
        return " ".join(shlex.split(text))
    except ValueError:
        return text.strip()


def _parse_nested(text: str) -> dict[str, str]:
    """Return the values of indented lines below a name such as ``s3 =``."""
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {key.strip(): value.strip() for key, _, value in pairs}
