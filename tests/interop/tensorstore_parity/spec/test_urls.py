"""URLs of arrays and key-value stores, and paths with any slashes, match TensorStore's."""

from __future__ import annotations

from typing import Any

import pytest

import tessarr.tensorstore as ours
from interop.tensorstore_parity.random_views import outcome

theirs = pytest.importorskip("tensorstore", reason="what URLs mean is compared with it")

PATHS = ["", "/", "//", "a", "/a", "a/", "/a/", "//a", "a//", "a//b", "///", "a%20b", "%2Fa"]
STORES = [
    *("memory://a?", "memory://a#", "memory://a?b", "memory://a#b", "memory:a", "memory://%zz"),
    *("memory://%ff", "memory://%41", "file:///a?", "file:////a", "file:///a//b", "file:///a/./b"),
    *("file:///a/../b", "file:///..", "file:///a/.", "file:///a/b/..", "file:///a%2F..%2Fb"),
    *("file:///a/...", "file://localhost/a", "file://host/a", "file:a", "s3://bucket?"),
    *("s3://bucket/a#", "gs://bucket/a?", "http://h/", "http://h?q", "http://h/?q", "http://h/a#"),
    *("http://h/a#b", "http://h//a", "memory://a|zip:b?", "memory://a|zip:b#c", "memory://a|zip:"),
    *("memory://a|zip://b", "memory://a|zip:%zz", "memory://a|zip:/b", "memory://a|"),
]
PARTS = [
    *("zarr3", "zarr3:?", "zarr3:#", "zarr3:a?b", "zarr3:%zz", "zarr3:a%20b", "auto://", "auto:a"),
    *("cast:int32?", "cast://int32", "cast:/int32", "zarr3:a|cast:int8", "zarr3:|auto:", "ZARR3:"),
]


def _expand(ts: Any, source: Any) -> Any:
    """Return the JSON of a spec, and the location of the array that it creates."""
    spec = ts.Spec(source)
    again = ts.Spec(spec.to_json())
    results = [spec.to_json(), repr(spec), spec.url, spec == again, repr(spec.kvstore)]
    if "zarr" in results[0]["driver"] and results[0]["kvstore"]["driver"] == "memory":
        context = ts.Context()
        array = ts.open(source, context=context, create=True, dtype="int8", shape=[2]).result()
        results += [array.url, array.spec().to_json()["kvstore"], array.kvstore.path]
        results.append(
            sorted(ts.KvStore.open("memory://", context=context).result().list().result())
        )
    return results


def _compare(source: Any) -> None:
    assert outcome(lambda: _expand(ours, source)) == outcome(lambda: _expand(theirs, source)), (
        source
    )


@pytest.mark.parametrize("within", PATHS)
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("driver", ["zarr3", "zarr2", "auto"])
def test_paths_with_slashes_anywhere(driver: str, path: str, within: str) -> None:
    kvstore = {"driver": "memory", "path": path}
    for source in (
        f"memory://{path}",
        f"memory://{path}|{driver}:{within}",
        {"driver": driver, "kvstore": f"memory://{path}", "path": within},
        {"driver": driver, "kvstore": kvstore, "path": within},
    ):
        _compare(source)


@pytest.mark.parametrize("url", STORES)
def test_places(url: str) -> None:
    def expand(ts: Any) -> Any:
        spec = ts.KvStore.Spec(url)
        return spec.to_json(), spec.path, spec.url

    assert outcome(lambda: expand(ours)) == outcome(lambda: expand(theirs))
    _compare(url)


@pytest.mark.parametrize("part", PARTS)
def test_url_suffixes_match_tensorstore(part: str) -> None:
    for prefix in ("memory://a", "file:///a/"):
        _compare(f"{prefix}|{part}")


@pytest.mark.parametrize("character", sorted({*map(chr, range(32, 127)), "é"} - {"\\"}))
def test_characters_of_paths(character: str) -> None:
    """Except backslashes, which TensorStore converts to slashes in file paths."""
    path = f"/a{character}b"

    def expand(ts: Any) -> list[str]:
        places = [
            *({"driver": driver, "path": path} for driver in ("memory", "file")),
            *({"driver": driver, "bucket": "bucket", "path": path[1:]} for driver in ("s3", "gcs")),
            {"driver": "http", "base_url": "http://h", "path": path},
            {"driver": "zip", "base": "memory://a.zip", "path": path[1:]},
        ]
        document = {"driver": "json", "kvstore": "memory://a", "json_pointer": path}
        urls = [ts.KvStore.Spec(location).url for location in places]
        return [*urls, outcome(lambda: ts.Spec(document).url)]

    assert expand(ours) == expand(theirs)


def test_endpoints_have_no_url() -> None:
    for bucket in ({"bucket": "bucket"}, {}):
        spec = {"driver": "s3", "endpoint": "http://localhost", "path": "a", **bucket}
        for ts in (ours, theirs):
            with pytest.raises(NotImplementedError):
                _ = ts.KvStore.Spec(spec).url


@pytest.mark.parametrize("path", ["", "/", "q", "/q", "q r"])
@pytest.mark.parametrize("number", [*range(0x20, 0x7F), 0xC3, 0xE9])
def test_encoded_characters_of_web_addresses(number: int, path: str) -> None:
    """Characters with a meaning in URLs stay encoded; all other characters belong to the path."""

    def expand(ts: Any, base: str) -> Any:
        spec = ts.KvStore.Spec({"driver": "http", "base_url": base, "path": path})
        return spec.to_json(), spec.url, ts.KvStore.Spec(base).to_json(), (spec / "z").url

    for base in (f"http://h/a%{number:02x}b", f"http://h/a%20/b%{number:02X}%25/@c?x=%20"):
        mine, other = (outcome(lambda ts=ts, base=base: expand(ts, base)) for ts in (ours, theirs))
        assert mine == other, base


@pytest.mark.parametrize("pointer", ["", "/", "//", "//a", "///a", "/a", "a", "?", "#", "/a?b"])
def test_pointers_into_documents(pointer: str) -> None:
    def expand(ts: Any) -> Any:
        spec = ts.Spec(f"memory://a|json:{pointer}")
        return spec.url, spec.to_json().get("json_pointer")

    assert outcome(lambda: expand(ours)) == outcome(lambda: expand(theirs))


@pytest.mark.parametrize(
    "url", ["file:///a|zarr3:/b", "file:///|zarr3:a//b", "file:///a/c/..|zarr3:b"]
)
def test_paths_of_files_have_no_empty_names(url: str) -> None:
    """TensorStore serialises some paths that it refuses."""
    spec = ours.Spec(url)
    assert spec.kvstore.path == "/a/b/"
    assert ours.Spec(spec.url) == ours.Spec(spec.to_json()) == spec
