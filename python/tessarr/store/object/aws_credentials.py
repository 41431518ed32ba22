"""Credentials of AWS: static keys, processes, web identities, containers, botocore's session.

The engine itself obtains credentials from web identities, containers and instance metadata. The
callables of this module serve what it lacks: the engine calls them when it needs credentials, and
again before these expire.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from threading import Lock
from typing import TYPE_CHECKING, Any, Final
from urllib.request import ProxyHandler, Request, build_opener

from tessarr.errors import ArgumentError, StoreError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tessarr.store.object.aws_profile import Profile

__all__ = [
    "BotocoreCredentials",
    "ContainerCredentials",
    "ProcessCredentials",
    "get_profile_credentials",
]

_PROCESS_TIMEOUT_S: Final = 60.0
_CONTAINER_TIMEOUT_S: Final = 5.0

_BOTOCORE_VALIDITY: Final = timedelta(minutes=10)
"""botocore renews temporary credentials when they are valid for less than this."""

_BOTOCORE_SIGNS: Final = {
    "sso_session": "single sign-on",
    "sso_start_url": "single sign-on",
    "login_session": "a sign-in of the console",
    "role_arn": "another role",
}
"""Names of profiles whose credentials come from botocore, and what they mean."""


def get_profile_credentials(profile: Profile) -> dict[str, Any]:
    """Return the settings for the credentials of a profile; an empty dict if it has none.

    Raises
    ------
    ArgumentError
        If a key lacks its secret.
    UnsupportedError
        ``missing_package``, if the profile needs botocore, which is not installed.
    """
    values = profile.values
    if "role_arn" in values and "web_identity_token_file" in values:
        names = ("role_arn", "web_identity_token_file", "role_session_name")
        return {f"aws_{name}": values[name] for name in names if values.get(name)}
    for name, meaning in _BOTOCORE_SIGNS.items():
        if name in values:
            return {"credentials": _require_botocore(profile, meaning)}
    if "aws_access_key_id" in values:
        if not values.get("aws_secret_access_key"):
            raise ArgumentError(f"the AWS profile {profile.name!r} lacks aws_secret_access_key")
        names = ("access_key_id", "secret_access_key", "session_token")
        return {name: values[f"aws_{name}"] for name in names if values.get(f"aws_{name}")}
    if command := values.get("credential_process"):
        return {"credentials": ProcessCredentials(command, profile.name)}
    return {}


def _require_botocore(profile: Profile, meaning: str) -> BotocoreCredentials:
    if find_spec("botocore") is None:
        raise UnsupportedError(
            f"the AWS profile {profile.name!r} uses {meaning}, which needs the package botocore: "
            'pip install "tessarr[aws]"',
            kind="missing_package",
            extension="botocore",
        )
    return BotocoreCredentials(profile.name, profile.files)


@dataclass(frozen=True, slots=True)
class ProcessCredentials:
    """A callable that runs the ``credential_process`` of a profile.

    Parameters
    ----------
    command
        The command line.
    profile
        The name of the profile for messages.
    """

    command: str
    profile: str

    def __call__(self) -> dict[str, Any]:
        try:
            arguments = shlex.split(self.command)
            done = subprocess.run(  # noqa: S603 (the user's configuration names the program)
                arguments,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_PROCESS_TIMEOUT_S,
                check=False,
            )
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            raise self._build_error(str(error)) from error
        if done.returncode:
            reason = done.stderr.decode(errors="replace").strip()
            raise self._build_error(f"exit status {done.returncode}: {reason}")
        try:
            return _read_answer(json.loads(done.stdout), "SessionToken")
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise self._build_error("its output has no credentials of version 1") from error

    def _build_error(self, reason: str) -> StoreError:
        return StoreError(
            f"the credential_process of the AWS profile {self.profile!r} failed: {reason}"
        )


@dataclass(frozen=True, slots=True)
class ContainerCredentials:
    """A callable that requests the credentials of a container.

    The request has the token of the variable ``AWS_CONTAINER_AUTHORIZATION_TOKEN``, if it is set.

    Parameters
    ----------
    url
        The URL that the variable ``AWS_CONTAINER_CREDENTIALS_FULL_URI`` names.
    """

    url: str

    def __call__(self) -> dict[str, Any]:
        token = os.environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN")
        opener = build_opener(ProxyHandler({}))  # the address is local
        try:
            request = Request(self.url, headers={"Authorization": token} if token else {})  # noqa: S310 (the user's configuration names the URL)
            with opener.open(request, timeout=_CONTAINER_TIMEOUT_S) as response:
                return _read_answer(json.load(response), "Token")
        except (AttributeError, KeyError, OSError, TypeError, ValueError) as error:
            raise StoreError(
                f"cannot read the credentials of the container from {self.url!r}: {error!r}"
            ) from error


def _read_answer(answer: Any, token_name: str) -> dict[str, Any]:
    """Return the credentials in a JSON document of AWS, which may name its version."""
    if answer.get("Version", 1) != 1:
        raise ValueError(answer["Version"])
    credentials: dict[str, Any] = {
        "access_key_id": answer["AccessKeyId"],
        "secret_access_key": answer["SecretAccessKey"],
    }
    if answer.get(token_name):
        credentials["session_token"] = answer[token_name]
    if answer.get("Expiration"):
        credentials["expires_at"] = datetime.fromisoformat(answer["Expiration"])
    return credentials


@dataclass(slots=True)
class BotocoreCredentials:
    """A callable that returns the credentials of a profile by botocore.

    Parameters
    ----------
    profile
        The name of the profile.
    files
        The paths of the files of profiles, by botocore's names.

    Notes
    -----
    botocore renews the credentials itself and does not tell when they expire. The callable
    therefore reports ten minutes, after which the engine calls it again.
    """

    profile: str
    files: Mapping[str, str]
    _source: Any = field(default=None, compare=False, repr=False)
    _lock: Any = field(default_factory=Lock, compare=False, repr=False)

    def __call__(self) -> dict[str, Any]:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            with self._lock:
                if self._source is None:
                    self._source = self._open_source()
            frozen = self._source.get_frozen_credentials()
        except (BotoCoreError, ClientError) as error:
            raise StoreError(
                f"the AWS profile {self.profile!r} has no valid credentials: {error}"
            ) from error
        credentials = {"access_key_id": frozen.access_key, "secret_access_key": frozen.secret_key}
        if frozen.token:
            credentials["session_token"] = frozen.token
        return {**credentials, "expires_at": datetime.now(UTC) + _BOTOCORE_VALIDITY}

    def _open_source(self) -> Any:
        from botocore.session import Session

        session = Session(profile=self.profile)
        for name, path in self.files.items():
            session.set_config_variable(name, path)
        source = session.get_credentials()
        if source is None:
            raise StoreError(
                f"the AWS profile {self.profile!r} has no credentials that botocore finds"
            )
        return source

    def __reduce__(self) -> Any:
        return type(self), (self.profile, self.files)
