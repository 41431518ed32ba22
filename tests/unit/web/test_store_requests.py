"""Byte ranges, preconditions and keys of requests for values, without a server."""

from __future__ import annotations

import pytest

from tessarr.errors import ArgumentError
from tessarr.web.store.keys import parse_key
from tessarr.web.store.requests import Selection, ValueRequest

MIB = 1 << 20
TAG = '"a"'


def select(size: int = 10, tag: str | None = TAG, method: str = "GET", **headers: str) -> Selection:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return ValueRequest.parse(method, named).select(size, tag)


@pytest.mark.parametrize(
    ("header", "start", "stop"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=2-5", 2, 6),
        ("bytes=2-", 2, 10),
        ("bytes=2-99999999999999999999999", 2, 10),
        ("bytes=-3", 7, 10),
        ("bytes=-30", 0, 10),
        ("bytes=-99999999999999999999999", 0, 10),
        ("Bytes = 0002 - 0005", 2, 6),
    ],
)
def test_range_selects_bytes(header: str, start: int, stop: int) -> None:
    assert select(range=header) == Selection(206, start, stop)


@pytest.mark.parametrize(
    "header",
    [
        "bytes=10-",
        "bytes=10-12",
        "bytes=99999999999999999999999-",
        "bytes=-0",
        "bytes=5-2",
        "bytes=-",
        "bytes=",
        "bytes=a-b",
        "bytes=1",
        "bytes=١-٢",
        "bytes=--3",
        "bytes=0x1-2",
    ],
)
def test_range_without_bytes_is_unsatisfiable(header: str) -> None:
    assert select(range=header).status == 416


def test_range_of_empty_value_is_unsatisfiable() -> None:
    assert [select(0, range=f"bytes={text}").status for text in ("0-", "0-0", "-5")] == [416] * 3


@pytest.mark.parametrize("header", ["", "items=0-1", "bytes=0-1,3-4", "bytes", "0-1"])
def test_several_ranges_and_unknown_units_are_ignored(header: str) -> None:
    assert select(range=header) == Selection(200, 0, 10)


def test_head_ignores_range() -> None:
    assert select(method="HEAD", range="bytes=0-1") == Selection(200, 0, 10)


@pytest.mark.parametrize(
    ("header", "tag", "status"),
    [
        ('"a"', TAG, 304),
        ('W/"a"', TAG, 304),
        ('"b", "a"', TAG, 304),
        ("*", TAG, 304),
        ("*", None, 304),
        ('"b"', TAG, 200),
        ('"b,a"', TAG, 200),
        ("a", TAG, 200),
        ('"a"', None, 200),
    ],
)
def test_if_none_match_compares_weakly(header: str, tag: str | None, status: int) -> None:
    assert select(tag=tag, if_none_match=header).status == status


@pytest.mark.parametrize(
    ("header", "tag", "status"),
    [
        ('"a"', TAG, 200),
        ('"b", "a"', TAG, 200),
        ("*", None, 200),
        ('"b"', TAG, 412),
        ('W/"a"', TAG, 412),
        ('"a"', None, 412),
    ],
)
def test_if_match_compares_strongly(header: str, tag: str | None, status: int) -> None:
    assert select(tag=tag, if_match=header).status == status


@pytest.mark.parametrize(
    ("header", "tag", "status"),
    [
        ('"a"', TAG, 206),
        ('"b"', TAG, 200),
        ('W/"a"', TAG, 200),
        ('"a"', None, 200),
        ("Wed, 21 Oct 2015 07:28:00 GMT", TAG, 200),
    ],
)
def test_if_range_compares_strongly(header: str, tag: str | None, status: int) -> None:
    assert select(tag=tag, if_range=header, range="bytes=0-1").status == status


def test_preconditions_precede_ranges() -> None:
    assert select(range="bytes=99-", if_none_match=TAG).status == 304
    assert select(range="bytes=0-1", if_match='"b"', if_none_match=TAG).status == 412


@pytest.mark.parametrize(
    ("method", "headers", "expected"),
    [
        ("GET", {}, (0, MIB)),
        ("GET", {"range": "bytes=5-9"}, (5, 10)),
        ("GET", {"range": "bytes=5-"}, (5, 5 + MIB)),
        ("GET", {"range": "bytes=5-99999999"}, (5, 5 + MIB)),
        ("GET", {"range": "bytes=-100"}, (-100, None)),
        ("GET", {"range": "bytes=-2000000"}, (0, 1)),
        ("GET", {"range": "bytes=5-9", "if-none-match": TAG}, (0, 1)),
        ("GET", {"range": "bytes=5-9", "if-match": TAG}, (0, 1)),
        ("GET", {"range": "bytes=x"}, (0, 1)),
        ("HEAD", {}, (0, 1)),
    ],
)
def test_first_read_has_needed_bytes_only(
    method: str, headers: dict[str, str], expected: tuple[int, int | None]
) -> None:
    assert ValueRequest.parse(method, headers).choose_first_range(MIB) == expected


@pytest.mark.parametrize(
    ("path", "key"),
    [
        (b"/t/zarr.json", "zarr.json"),
        (b"/t/a/c/0/0", "a/c/0/0"),
        (b"/t/", ""),
        (b"/t", ""),
        (b"/t/a/", "a/"),
        (b"/t/%E6%B8%A9/c%200", "温/c 0"),
        (b"/t/zarr%2Ejson", "zarr.json"),
        (b"/t/...", "..."),
        (b"/t/a%25", "a%"),
        (b"/t/a+b", "a+b"),
    ],
)
def test_path_names_key(path: bytes, key: str) -> None:
    assert parse_key(path, 1) == key


@pytest.mark.parametrize(
    "path",
    [
        b"/t/..",
        b"/t/../secret",
        b"/t/a/../../secret",
        b"/t/%2e%2e/secret",
        b"/t/.%2E/secret",
        b"/t/./a",
        b"/t/%2e",
        b"/t//etc/passwd",
        b"/t/%2fetc/passwd",
        b"/t/a%2Fb",
        b"/t/a//b",
        b"/t/a\\b",
        b"/t/..%5csecret",
        b"/t/a%00",
        b"/t/%ff",
        b"/t/%c0%ae%c0%ae/secret",
    ],
)
def test_path_that_may_leave_root_is_refused(path: bytes) -> None:
    with pytest.raises(ArgumentError):
        parse_key(path, 1)
