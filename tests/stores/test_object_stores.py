"""Classes of object stores: creation from arguments and URLs, representation, equality, pickles."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from inspect import signature
from typing import Any

import pytest

from tessarr.errors import ArgumentError, ReadOnlyError
from tessarr.store.object.open import open_object_url
from tessarr.store.states import describe_location
from tessarr.stores import AzureStore, ConnectionSettings, GCSStore, HTTPStore, S3Store, Store

pytestmark = pytest.mark.usefixtures("empty_environment")


def get_keys() -> dict[str, str]:
    return {"access_key_id": "k", "secret_access_key": "s"}


STORES: dict[str, Callable[[], Store]] = {
    "S3Store('bucket')": lambda: S3Store("bucket"),
    "S3Store('bucket', prefix='a', region='x', access_key_id=…, secret_access_key=…)": lambda: (
        S3Store("bucket", "a", region="x", access_key_id="hush", secret_access_key="hush")
    ),
    "S3Store('bucket', credentials=…, headers=…)": lambda: S3Store(
        "bucket", credentials=get_keys, headers={"authorization": "hush"}
    ),
    "S3Store('bucket', endpoint='http://host', virtual_hosted=False)": lambda: S3Store(
        "bucket", endpoint="http://host", virtual_hosted=False
    ),
    "GCSStore('bucket', prefix='a', bearer_token=…)": lambda: GCSStore(
        "bucket", "a", bearer_token="hush"
    ),
    "AzureStore('box', account_name='a', account_key=…, read_only=True)": lambda: AzureStore(
        "box", account_name="a", account_key="aHVzaA==", read_only=True
    ),
    "AzureStore('box', account_name='a', sas_token=…)": lambda: AzureStore(
        "box", connection_string="AccountName=a;SharedAccessSignature=hush=1"
    ),
    "HTTPStore('https://host/x?…', params=…, verify=False, read_only=True)": lambda: HTTPStore(
        "https://me:hush@host/x?sig=hush", params={"a": "hush"}, verify=False
    ),
}


@pytest.mark.parametrize("text", STORES)
def test_store_hides_secrets_and_equals_its_pickle(text: str) -> None:
    store, same = STORES[text](), STORES[text]()
    assert repr(store) == text
    assert store == same == pickle.loads(pickle.dumps(store))
    assert hash(store) == hash(same)
    assert all(store != create() for other, create in STORES.items() if other != text)


@pytest.mark.parametrize(
    ("url", "options", "text"),
    [
        ("s3://bucket/a/", {}, "S3Store('bucket', prefix='a')"),
        (
            "https://bucket.s3.eu-west-1.amazonaws.com/a%20b",
            {"anon": True},
            "S3Store('bucket', prefix='a b', region='eu-west-1', anonymous=True)",
        ),
        ("gcs://bucket/a", {"token": "anon"}, "GCSStore('bucket', prefix='a', anonymous=True)"),
        (
            "abfs://box@acct.dfs.core.windows.net/a",
            {},
            "AzureStore('box', prefix='a', account_name='acct')",
        ),
        (
            "https://host/a",
            {"timeout": 5},
            "HTTPStore('https://host/a', timeout_s=5.0, read_only=True)",
        ),
        (
            "https://bucket.s3.amazonaws.com/a?sig=hush",
            {},
            "HTTPStore('https://bucket.s3.amazonaws.com/a?…', read_only=True)",
        ),
    ],
)
def test_url_opens_store_of_its_kind(url: str, options: dict[str, Any], text: str) -> None:
    store = open_object_url(url, options)
    assert isinstance(store, Store)
    assert repr(store) == text
    assert type(store).from_url(url, options) == store


def test_options_of_user_beat_those_of_url() -> None:
    store = S3Store.from_url("https://s3.eu-west-1.amazonaws.com/bucket", {"region": "x"})
    assert store == S3Store("bucket", region="x")


def test_url_of_other_kind_is_argument_error() -> None:
    with pytest.raises(ArgumentError, match="cannot open 'gs://b' as S3Store"):
        S3Store.from_url("gs://b")
    with pytest.raises(ArgumentError, match="HTTPStore needs a URL"):
        HTTPStore.from_url("s3://b")
    store = HTTPStore.from_url("https://s3.amazonaws.com/bucket")
    assert store == HTTPStore.from_url("https://s3.amazonaws.com/bucket", read_only=True)
    assert repr(store) == "HTTPStore('https://s3.amazonaws.com/bucket', read_only=True)"


def test_unknown_keyword_is_argument_error_with_suggestion() -> None:
    with pytest.raises(ArgumentError, match="S3Store has no option regoin; did you mean 'region'"):
        S3Store("bucket", regoin="x")  # type: ignore[call-arg]
    with pytest.raises(ArgumentError, match="AzureStore has no option acount_name"):
        AzureStore.from_url("az://box", {"acount_name": "x"})


@pytest.mark.parametrize("cls", [S3Store, GCSStore, AzureStore, HTTPStore])
def test_signature_has_documented_keywords(cls: Any) -> None:
    """Editors and ``help`` show each keyword, those of connections included."""
    names = [*signature(cls).parameters]
    assert names[: len(cls._location)] == [*cls._location]
    assert {"timeout_s", "retries", "headers"} <= set(names)
    assert names[-1] == "read_only"  # those of connections are the last
    keywords = set(names[len(cls._location) :])
    assert keywords <= set(cls._table)
    documented = cls.__doc__ + ConnectionSettings.__doc__
    assert all(name in documented for name in keywords)


def test_order_of_keywords_does_not_matter() -> None:
    stores = [
        S3Store("b", region="x", profile=None, timeout_s=1),
        S3Store("b", timeout_s=1, region="x"),
    ]
    assert stores[0] == stores[1]
    assert describe_location(stores[0]) == describe_location(stores[1])


def test_read_only_store_refuses_changes() -> None:
    for store in (
        S3Store.from_url("s3://bucket", read_only=True),
        GCSStore("bucket", read_only=True),
        HTTPStore("https://host"),
    ):
        with pytest.raises(ReadOnlyError):
            store.put("a", b"1")
