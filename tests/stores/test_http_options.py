"""Options of web servers: names and arguments of the engine."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from stores.option_tables import interpret
from tessarr.errors import ArgumentError
from tessarr.store.object.http_options import HTTP_OPTIONS, resolve_http

pytestmark = pytest.mark.usefixtures("empty_environment")


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ({"headers": {"Authorization": "Bearer x"}}, {"headers": {"authorization": "Bearer x"}}),
        ({"headers": [("A", "1")]}, {"headers": {"a": "1"}}),
        ({"params": {"v": 1}}, {"params": {"v": "1"}}),
        ({"ssl": False}, {"verify": False}),
        ({"ssl": True}, {"verify": True}),
        ({"auth": ("me", "pw")}, {"headers": {"authorization": "Basic bWU6cHc="}}),
        ({"cookies": {"a": "1", "b": "2"}}, {"headers": {"cookie": "a=1; b=2"}}),
        (
            {
                "client_kwargs": {"headers": {"B": "2"}, "timeout": 5, "auth": ("me", "pw")},
                "headers": {"A": "1"},
            },
            {"headers": {"b": "2", "authorization": "Basic bWU6cHc=", "a": "1"}, "timeout_s": 5.0},
        ),
        (
            {"client_kwargs": {"timeout": SimpleNamespace(total=7, sock_read=None)}},
            {"timeout_s": 7.0},
        ),
        ({"client_kwargs": {"timeout": SimpleNamespace(total=7, sock_read=2)}}, {"timeout_s": 2.0}),
        ({"simple_links": False, "same_scheme": False, "size_policy": "get"}, {}),
    ],
)
def test_http_option_has_setting(options: dict[str, Any], settings: dict[str, Any]) -> None:
    assert interpret(HTTP_OPTIONS, options) == settings


def test_http_arguments_keep_query_and_hide_password() -> None:
    settings = interpret(HTTP_OPTIONS, {"params": {"v": "1 2"}, "headers": {"A": "1"}})
    arguments = resolve_http("https://me:p%40@host:1/a%20b/?sig=x%2B", settings)
    assert arguments.url == "https://host:1/a%20b?sig=x%2B&v=1+2"
    assert dict(arguments.headers) == {"authorization": "Basic bWU6cEA=", "a": "1"}
    assert arguments.read_only
    for url in ("ftp://host/x", "https:///x", "https://host/x#y"):
        with pytest.raises(ArgumentError, match="HTTPStore needs a URL"):
            resolve_http(url, {})
