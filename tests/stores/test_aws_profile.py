"""Profiles of AWS: regions, endpoints, and the sources of credentials."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tessarr.errors import ArgumentError, StoreError, UnsupportedError
from tessarr.store.object import aws_credentials
from tessarr.store.object.aws_credentials import (
    BotocoreCredentials,
    ContainerCredentials,
    ProcessCredentials,
)
from tessarr.store.object.aws_profile import read_profile
from tessarr.store.object.engine_arguments import EngineArguments
from tessarr.store.object.options import interpret_options
from tessarr.store.object.s3_options import S3_OPTIONS, resolve_s3
from tessarr.stores import S3Store

CONFIG = """
[default]
region = eu-west-1

[profile lab]
region = eu-north-1
endpoint_url = http://general
services = local
ca_bundle = {folder}/ca.pem
s3 =
    addressing_style = virtual
    max_concurrent_requests = 20

[profile "two words"]
region = a

[profile quiet]
endpoint_url = http://general
ignore_configured_endpoint_urls = true

[profile static]
aws_access_key_id = config
aws_secret_access_key = secret

[profile token]
role_arn = arn:aws:iam::1:role/r
web_identity_token_file = /token
role_session_name = me

[profile process]
credential_process = {python} {folder}/keys.py 100%

[profile sso]
sso_session = s

[profile other-role]
role_arn = arn:aws:iam::1:role/r
source_profile = static

[profile half]
aws_access_key_id = k

[services local]
s3 =
    endpoint_url = http://special/
dynamodb =
    endpoint_url = http://dynamodb
"""

CREDENTIALS = """
[default]
aws_access_key_id = k
aws_secret_access_key = s
aws_session_token = t

[static]
aws_access_key_id = credentials
aws_secret_access_key = secret2

[only-here]
aws_access_key_id = k2
aws_secret_access_key = s2
"""


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Write the two files into the home folder, and return the folder of the files."""
    for name in list(os.environ):
        if name.startswith("AWS_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / ".aws"
    folder.mkdir()
    text = CONFIG.format(folder=folder, python=sys.executable)
    (folder / "config").write_text(text, "utf-8")
    (folder / "credentials").write_text(CREDENTIALS, "utf-8")
    (folder / "ca.pem").write_bytes(b"-----BEGIN CERTIFICATE-----\n")
    return folder


def resolve(**settings: Any) -> EngineArguments:
    return resolve_s3("bucket", "", settings)


def test_default_profile_applies() -> None:
    assert resolve().options == {
        "aws_region": "eu-west-1",
        "aws_access_key_id": "k",
        "aws_secret_access_key": "s",
        "aws_session_token": "t",
    }


def test_services_and_address_style_of_profile_apply() -> None:
    arguments = resolve(profile="lab")
    assert arguments.options == {
        "aws_region": "eu-north-1",
        "aws_endpoint": "http://bucket.special",
        "aws_virtual_hosted_style_request": "true",
    }
    assert arguments.connection == {"ca_certificates": b"-----BEGIN CERTIFICATE-----\n"}


def test_profile_can_ignore_endpoints() -> None:
    assert resolve(profile="quiet").options == {}


def test_profile_names_may_be_quoted() -> None:
    profile = read_profile("two words", os.environ)
    assert profile is not None
    assert profile.get_settings() == {"region": "a"}


def test_credentials_file_has_precedence() -> None:
    options = resolve(profile="static").options
    assert options["aws_access_key_id"] == "credentials"
    assert options["aws_secret_access_key"] == "secret2"
    assert resolve(profile="only-here").options["aws_access_key_id"] == "k2"


def test_explicit_settings_beat_environment_and_environment_beats_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "env")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "env")
    monkeypatch.setenv("AWS_PROFILE", "lab")
    options = resolve(region="x").options
    assert (options["aws_access_key_id"], options["aws_region"]) == ("env", "x")
    assert options["aws_endpoint"] == "http://bucket.special"
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://env")
    assert resolve().options["aws_endpoint"] == "http://bucket.env"
    assert resolve(profile="static").options["aws_access_key_id"] == "credentials"
    explicit = resolve(access_key_id="k", secret_access_key="s").options
    assert explicit["aws_region"] == "eu-north-1"
    assert "aws_session_token" not in explicit


def test_variables_name_the_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    config, credentials = tmp_path / "a", tmp_path / "b"
    config.write_text("[default]\nregion = z\n", "utf-8")
    credentials.write_text("[default]\naws_access_key_id=1\naws_secret_access_key=2\n", "utf-8")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(credentials))
    options = resolve().options
    assert (options["aws_region"], options["aws_access_key_id"]) == ("z", "1")


def test_absent_files_have_no_profiles(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()
    assert resolve().options == {}
    with pytest.raises(ArgumentError, match="has the AWS profile 'lab'"):
        resolve(profile="lab")


def test_absent_profile_is_argument_error_with_suggestion() -> None:
    with pytest.raises(ArgumentError, match=r"has the AWS profile 'labb'; did you mean 'lab'"):
        resolve(profile="labb")


def test_malformed_file_is_argument_error(folder: Path) -> None:
    (folder / "config").write_text("region = x\n", "utf-8")
    with pytest.raises(ArgumentError, match=r"cannot read the AWS profiles in '.*config'"):
        resolve()


def test_key_without_secret_is_argument_error() -> None:
    with pytest.raises(ArgumentError, match="'half' lacks aws_secret_access_key"):
        resolve(profile="half")


def test_web_identity_goes_to_engine() -> None:
    assert resolve(profile="token").options == {
        "aws_role_arn": "arn:aws:iam::1:role/r",
        "aws_web_identity_token_file": "/token",
        "aws_role_session_name": "me",
    }


def run_process(folder: Path, program: str) -> dict[str, Any]:
    (folder / "keys.py").write_text(program, "utf-8")
    credentials = resolve(profile="process").credentials
    assert isinstance(credentials, ProcessCredentials)
    return credentials()


def test_process_returns_credentials(folder: Path) -> None:
    answer = """{"Version": 1, "AccessKeyId": sys.argv[1], "SecretAccessKey": "s",
        "SessionToken": "t", "Expiration": "2030-01-01T00:00:00Z"}"""
    program = f"import json, sys\nprint(json.dumps({answer}))"
    assert run_process(folder, program) == {
        "access_key_id": "100%",
        "secret_access_key": "s",
        "session_token": "t",
        "expires_at": datetime(2030, 1, 1, tzinfo=UTC),
    }


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("raise SystemExit('no card')", "exit status 1: no card"),
        ("print('x')", "no credentials of version 1"),
        ("print('[]')", "no credentials of version 1"),
        ("print('{\"Version\": 2}')", "no credentials of version 1"),
        ("print('{\"Version\": 1}')", "no credentials of version 1"),
    ],
)
def test_process_failure_is_store_error(folder: Path, program: str, reason: str) -> None:
    with pytest.raises(StoreError, match=f"the AWS profile 'process' failed: .*{reason}"):
        run_process(folder, program)


def test_absent_process_is_store_error() -> None:
    with pytest.raises(StoreError, match="failed"):
        ProcessCredentials("/absent/program", "p")()
    with pytest.raises(StoreError, match="failed"):
        ProcessCredentials("'", "p")()


def test_sign_ins_need_botocore(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aws_credentials, "find_spec", lambda _: None)
    for name in ("sso", "other-role"):
        with pytest.raises(UnsupportedError, match=r'pip install "tessarr\[aws\]"') as error:
            resolve(profile=name)
        assert error.value.kind == "missing_package"


def test_container_credentials_need_no_token_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://h")
    assert resolve(profile="quiet").credentials == ContainerCredentials("http://h")
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "/token")
    assert resolve(profile="quiet").credentials is None


def test_credential_source_excludes_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "environment")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/x")
    key, uri = "aws_access_key_id", "aws_container_credentials_relative_uri"

    def sources(source: str, **options: str) -> dict[str, str | None]:
        resolved = resolve(credential_source=source, **options).options
        names = (key, uri, "aws_skip_signature")
        return {name: resolved[name] for name in names if name in resolved}

    assert sources("environment") == {key: "environment"}
    assert sources("ecs") == {uri: "/x"}
    assert sources("profile", profile="static") == {key: "credentials"}
    assert sources("profile", profile="quiet") == {"aws_skip_signature": "true"}
    assert sources("imds", profile="static") == {}
    with pytest.raises(ArgumentError, match="must be one of 'environment', 'profile'"):
        S3Store.from_url("s3://bucket", {"credential_source": "other"})


def test_files_of_profiles_are_options(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("[mine]\naws_access_key_id = other\naws_secret_access_key = secret\n")
    names = {"shared_credentials_file": file, "config_file": "/absent", "profile": "mine"}
    options = resolve(**interpret_options(S3_OPTIONS, names, "S3Store")).options
    assert options == {"aws_access_key_id": "other", "aws_secret_access_key": "secret"}


def test_botocore_returns_credentials_with_expiry(folder: Path) -> None:
    pytest.importorskip("botocore", reason="botocore is not installed")
    files = {f"{name}_file": str(folder / name) for name in ("config", "credentials")}
    assert resolve(profile="sso").credentials == BotocoreCredentials("sso", files)
    credentials = BotocoreCredentials("static", {})()
    expiry = credentials.pop("expires_at") - datetime.now(UTC)
    assert timedelta(minutes=9) < expiry <= timedelta(minutes=10)
    assert credentials == {"access_key_id": "credentials", "secret_access_key": "secret2"}
    with pytest.raises(StoreError, match="the AWS profile 'sso' has no credentials"):
        BotocoreCredentials("sso", {})()
    with pytest.raises(StoreError, match="no valid credentials"):
        BotocoreCredentials("absent", {})()
