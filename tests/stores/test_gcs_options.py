"""Options of GCS stores: names, arguments of the engine, and environment variables."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from stores.option_tables import interpret
from tessarr.errors import ArgumentError
from tessarr.store.object.gcs_options import GCS_OPTIONS, resolve_gcs

pytestmark = pytest.mark.usefixtures("empty_environment")


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ({"token": "anon"}, {"anonymous": True}),
        ({"token": "google_default"}, {}),
        ({"token": "cloud"}, {}),
        ({"token": "ya29.text"}, {"bearer_token": "ya29.text"}),
        ({"token": "/keys/a.json"}, {"application_credentials": "/keys/a.json"}),
        ({"token": {"private_key": "k"}}, {"service_account": '{"private_key": "k"}'}),
        ({"service_account_key": "{}"}, {"service_account": "{}"}),
        ({"google_service_account": "/a.json"}, {"service_account": "/a.json"}),
        ({"service_account": {"a": 1}}, {"service_account": '{"a": 1}'}),
        ({"application_credentials": "/a.json"}, {"application_credentials": "/a.json"}),
        ({"bearer_token": "t"}, {"bearer_token": "t"}),
        ({"google_skip_signature": "true"}, {"anonymous": True}),
        ({"endpoint_url": "http://h:1/"}, {"endpoint": "http://h:1"}),
        ({"base_url": "http://h:1"}, {"endpoint": "http://h:1"}),
        ({"project": "p", "requester_pays": True}, {"project": "p", "requester_pays": True}),
        ({"requester_pays": "p"}, {"project": "p", "requester_pays": True}),
        ({"access": "read_only"}, {"read_only": True}),
        ({"access": "full_control"}, {}),
        ({"timeout": 5, "requests_timeout": (3, 5)}, {"timeout_s": 5.0}),
        (
            {"session_kwargs": {"trust_env": True, "headers": {"X-A": "1"}}},
            {"headers": {"x-a": "1"}},
        ),
        ({"consistency": "md5", "check_connection": True, "default_location": "EU"}, {}),
    ],
)
def test_gcs_option_has_setting(options: dict[str, Any], settings: dict[str, Any]) -> None:
    assert interpret(GCS_OPTIONS, options) == settings


def test_google_credentials_object_is_renewed_before_expiry() -> None:
    pytest.importorskip("google.auth", reason="google-auth is not installed")

    class Credentials:
        token: str | None = None
        expiry: datetime | None = None
        calls = 0

        def refresh(self, request: Any) -> None:
            assert callable(request)
            self.calls += 1
            self.token = f"t{self.calls}"
            lifetime = timedelta(minutes=5 if self.calls == 1 else 60)
            self.expiry = datetime.now(UTC).replace(tzinfo=None) + lifetime

    source = Credentials()
    credentials = interpret(GCS_OPTIONS, {"token": source})["credentials"]
    assert [credentials()["token"] for _ in range(3)] == ["t1", "t2", "t2"]
    assert credentials()["expires_at"] > datetime.now(UTC) + timedelta(minutes=50)


def test_gcs_requester_pays_sends_project(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ArgumentError, match="requester_pays needs the project"):
        resolve_gcs("bucket", "", {"requester_pays": True})
    arguments = resolve_gcs("bucket", "", {"requester_pays": True, "project": "p"})
    assert arguments.headers == (("x-goog-user-project", "p"),)
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "q")
    arguments = resolve_gcs("bucket", "", {"requester_pays": True, "headers": {"a": "1"}})
    assert arguments.headers == (("a", "1"), ("x-goog-user-project", "q"))
    assert resolve_gcs("bucket", "", {}).headers == ()


def test_gcs_credential_files_go_to_engine_or_google_auth(tmp_path: Any) -> None:
    path = tmp_path / "key.json"
    settings = {"application_credentials": str(path)}
    for kind in ("service_account", "authorized_user"):
        path.write_text(f'{{"type": "{kind}"}}')
        options = resolve_gcs("bucket", "", settings).options
        assert options == {"google_application_credentials": str(path)}
    path.write_text('{"type": "unheard-of"}')
    with pytest.raises(ArgumentError, match="unknown type 'unheard-of'"):
        resolve_gcs("bucket", "", settings)
    path.write_text("[]")
    with pytest.raises(ArgumentError, match="member 'type'"):
        resolve_gcs("bucket", "", settings)
    with pytest.raises(ArgumentError, match="cannot read the Google credentials"):
        resolve_gcs("bucket", "", {"application_credentials": f"{path}x"})
    options = resolve_gcs("bucket", "", {"service_account": "~/a.json"}).options
    assert options == {"google_service_account": str(tmp_path / "a.json")}
    options = resolve_gcs("bucket", "", {"service_account": '{"a": 1}'}).options
    assert options == {"google_service_account_key": '{"a": 1}'}


def test_gcs_user_credentials_become_callable(tmp_path: Any) -> None:
    pytest.importorskip("google.oauth2", reason="google-auth is not installed")
    token = {"client_id": "i", "client_secret": "s", "refresh_token": "r"}
    credentials = interpret(GCS_OPTIONS, {"token": token})["credentials"]
    assert credentials.source.refresh_token == "r"
    with pytest.raises(ArgumentError, match="malformed"):
        interpret(GCS_OPTIONS, {"token": {"refresh_token": "r"}})
    path = tmp_path / "key.json"
    path.write_text(
        '{"type": "external_account", "audience": "a", "subject_token_type": "t", "token_url": '
        '"https://sts.googleapis.com/v1/token", "credential_source": {"file": "/f"}}'
    )
    arguments = resolve_gcs("bucket", "", {"application_credentials": str(path)})
    assert arguments.options == {}
    assert arguments.credentials is not None


@pytest.mark.parametrize(
    ("environment", "explicit", "options"),
    [
        (
            {"STORAGE_EMULATOR_HOST": "localhost:9023"},
            {},
            {"google_base_url": "http://localhost:9023", "google_skip_signature": "true"},
        ),
        ({"STORAGE_EMULATOR_HOST": "default"}, {}, {}),
        (
            {"STORAGE_EMULATOR_HOST": "http://h/"},
            {"endpoint": "http://other"},
            {"google_base_url": "http://other"},
        ),
        ({"GOOGLE_SERVICE_ACCOUNT": "/a.json"}, {}, {"google_service_account": "/a.json"}),
        ({"SERVICE_ACCOUNT": "/a.json"}, {}, {"google_service_account": "/a.json"}),
        (
            {"GOOGLE_SERVICE_ACCOUNT": "/a.json"},
            {"bearer_token": "t"},
            {"google_bearer_token": "t"},
        ),
    ],
)
def test_gcs_environment_has_options(
    environment: dict[str, str],
    explicit: dict[str, Any],
    options: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert resolve_gcs("bucket", "", explicit).options == options


def test_gcs_default_credentials_come_from_environment_then_home(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [
        tmp_path / ".config" / "gcloud" / "application_default_credentials.json",
        tmp_path / "sdk" / "application_default_credentials.json",
        tmp_path / "key.json",
    ]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('{"type": "authorized_user"}')

    def find() -> str:
        return resolve_gcs("bucket", "", {}).options["google_application_credentials"]

    assert find() == str(paths[0])
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "sdk"))
    assert find() == str(paths[1])
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(paths[2]))
    assert find() == str(paths[2])
