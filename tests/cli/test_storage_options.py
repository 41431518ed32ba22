"""Storage options of URLs on the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tessarr
from stores.clouds import KEYS, Cloud, open_cloud
from stores.servers import file_server
from tessarr.cli import build_parser
from tessarr.cli.node_argument import get_node_arguments

if TYPE_CHECKING:
    from cli.conftest import Run
    from stores.proxy import Proxy

KEY = ("--storage-option", 'headers={"x-key": "1"}')


@pytest.fixture
def site(here: Path) -> Iterator[Proxy]:
    """Yield the proxy of a web server with the group ``data.zarr``."""
    tessarr.create_group("data.zarr").create_array("a/x", data=[1, 2])
    tessarr.consolidate_metadata("data.zarr")
    with file_server(here) as proxy:
        yield proxy


def read_options(*words: str) -> list[dict[str, Any]]:
    """Return the storage options of each location of a command."""
    arguments = build_parser().parse_args(words)
    two = {"copy": ("source", "target"), "rechunk": ("source", "target")}
    two |= {"convert": ("source", "target"), "diff": ("first", "second")}
    locations = get_node_arguments(arguments, *two.get(words[0], ("path",)))
    return [dict(location.storage_options) for location in locations]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("30", 30),
        ("0.5", 0.5),
        ("30s", "30s"),
        ('"30"', "30"),
        ("a=b", "a=b"),
        ("", ""),
        ('{"region_name": "x"}', {"region_name": "x"}),
        ("[403, 404]", [403, 404]),
    ],
)
def test_storage_option_value_is_json_or_text(text: str, value: Any) -> None:
    words = ("info", "s3://bucket", "--storage-option", f"name={text}")
    assert read_options(*words) == [{"name": value}]


def test_anon_and_profile_are_storage_options() -> None:
    words = ("--anon", "--profile", "me", "--storage-option", "region=x", "--anon")
    expected = {"anon": True, "profile": "me", "region": "x"}
    assert read_options("tree", "s3://bucket", *words) == [expected]


@pytest.mark.parametrize(
    ("verb", "first", "second", "rest"),
    [
        ("copy", "source", "target", ()),
        ("rechunk", "source", "target", ("--chunks", "1")),
        ("convert", "source", "target", ("--to", "3")),
        ("diff", "first", "second", ()),
    ],
)
def test_prefix_names_one_of_two_locations(
    verb: str, first: str, second: str, rest: tuple[str, ...]
) -> None:
    """Options without a prefix are for both URLs; those with one take precedence."""
    urls = (verb, "s3://a", "s3://b", *rest)
    words = (f"--{first}-anon", f"--{second}-profile", "me", "--profile", "all")
    expected = [{"profile": "all", "anon": True}, {"profile": "me"}]
    assert read_options(*urls, *words) == expected
    assert read_options(verb, "folder", "s3://b", *rest, "--anon") == [{}, {"anon": True}]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("info", "s3://b", "--storage-option", "anon"), 2, "'anon' is not KEY=VALUE"),
        (("info", "s3://b", "--storage-option", "=x"), 2, "'=x' is not KEY=VALUE"),
        (
            ("info", "s3://b", "--storage-option", "client_kwargs={a: 1}"),
            2,
            "the value of 'client_kwargs' is not JSON: Expecting property name",
        ),
        (
            ("info", "s3://b", "--profile", "a", "--storage-option", "profile=b"),
            1,
            "the storage option 'profile' occurs twice with different values",
        ),
        (
            ("info", "a.zarr", "--anon"),
            1,
            "'anon' is for a URL, such as s3://bucket/data.zarr",
        ),
        (("copy", "a", "b", "--anon"), 1, "and 'a' and 'b' are paths"),
        (("copy", "s3://a", "b", "--target-anon"), 1, "and 'b' is a path"),
        (("info", "memory://a", "--anon"), 1, "'memory://a' has no storage options"),
        (("info", "s3://b", "--storage-option", "regoin=x"), 1, "did you mean 'region'"),
        (("info", "gs://b", "--profile", "me"), 1, "GCSStore has no option profile"),
    ],
)
def test_wrong_storage_option_is_error(
    run: Run, here: Path, words: tuple[str, ...], code: int, message: str
) -> None:
    result, out, err = run(*words)
    assert (result, out) == (code, "")
    assert message in err


def test_target_options_of_conversion_in_place_are_error(run: Run, here: Path) -> None:
    code, _, err = run("convert", "s3://bucket", "--to", "3", "--target-anon")
    assert (code, "--target-… need DST" in err) == (1, True)


def test_reading_verbs_send_storage_options(run: Run, here: Path, site: Proxy) -> None:
    """Every request of every verb has the header of the option."""
    url = f"{site.url}/data.zarr"
    for words in (
        ("info", url),
        ("tree", url),
        ("ls", "-R", url),
        ("cat", f"{url}/a/x"),
        ("attrs", url),
        ("diff", url, "data.zarr"),
        ("copy", f"{url}/a/x", "copy.zarr"),
        ("convert", f"{url}/a/x", "old.zarr", "--to", "2"),
    ):
        site.reset()
        code, _, err = run(*words, *KEY)
        assert code == 0, (words, err)
        assert site.headers
        assert all(headers.get("x-key") == "1" for headers in site.headers), words


def test_suggestion_sends_storage_options(run: Run, site: Proxy) -> None:
    """The hint of an absent node opens the groups above it with the same options."""
    code, _, err = run("info", f"{site.url}/data.zarr/a/y", *KEY)
    assert (code, "it has 'x'" in err) == (1, True)
    assert all(headers.get("x-key") == "1" for headers in site.headers)


def test_advised_command_has_storage_options(run: Run, here: Path, site: Proxy) -> None:
    """The printed command reads from the same URL."""
    data = np.arange(20000.0).reshape(100, 200)
    tessarr.create_array("big.zarr", data=data, chunks=(1, 200), compressors=None)
    code, out, err = run("advise", f"{site.url}/big.zarr", *KEY, "--read", "[:, 0]", "--json")
    assert code == 0, err
    assert """--source-storage-option 'headers={"x-key": "1"}'""" in json.loads(out)["command"]


@pytest.fixture
def bucket(versitygw: int) -> Iterator[Cloud]:
    """Yield a bucket of S3."""
    with open_cloud("s3", versitygw) as cloud:
        yield cloud


@pytest.fixture
def profile(bucket: Cloud, here: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Write an AWS profile with the endpoint and the keys of the server, and return its name."""
    (here / "config").write_text(
        f"[profile me]\nendpoint_url = {bucket.proxy.url}\nregion = us-east-1\n"
        f"aws_access_key_id = {KEYS['key']}\naws_secret_access_key = {KEYS['secret']}\n"
    )
    monkeypatch.setenv("AWS_CONFIG_FILE", str(here / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(here / "none"))
    return "me"


def test_every_verb_uses_profile(run: Run, here: Path, bucket: Cloud, profile: str) -> None:
    """The verbs from writing to deleting work in a bucket, with the profile of the user."""
    tessarr.create_group("local.zarr").create_array("a/x", data=np.arange(6), chunks=(3,))
    url = bucket.url("data.zarr")

    def done(*words: str, option: str = "--profile") -> str:
        code, out, err = run(*words, option, profile)
        assert code == 0, (words, err)
        return out

    done("copy", "local.zarr", url, option="--target-profile")
    done("copy", url, bucket.url("again.zarr"))
    assert "└── x" in done("tree", url)
    assert done("cat", f"{url}/a/x", "[1:3]") == "1\n2\n"
    done("attrs", f"{url}/a/x", "n=1")
    done("consolidate", url)
    assert done("consolidate", url, "--check") == "0 differences\n"
    done("verify", url)
    done("convert", f"{url}/a/x", bucket.url("old.zarr"), "--to", "2")
    assert "/a/x" in run("diff", url, "local.zarr", "--first-profile", profile)[1]
    assert len(json.loads(done("ls", "--keys", "--json", url))) == 5
    done("rm", "-r", url)
    assert bucket.list("data.zarr") == []
    assert bucket.list("old.zarr")


def test_anon_sends_no_signature(run: Run, bucket: Cloud, profile: str) -> None:
    """The server refuses the request, and the error names the option for credentials."""
    endpoint = ("--storage-option", f"endpoint_url={bucket.proxy.url}")
    code, _, err = run("info", bucket.url("a"), "--anon", *endpoint)
    assert (code, bucket.bucket in err) == (1, True)
    assert not any("authorization" in headers for headers in bucket.proxy.headers)
