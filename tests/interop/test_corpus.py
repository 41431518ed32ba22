"""Real and generated stores of many writers are read exactly, damaged ones refused."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from typing import Any

import numpy as np
import pytest

import tessarr
from interop.corpus import (
    DOCUMENTS,
    contents,
    digest,
    located,
    needs_corpus,
    stores,
    table,
    undefined,
)
from tessarr.codec.read import read_v2
from tessarr.errors import (
    DataError,
    MetadataError,
    NotFoundError,
    TessarrWarning,
    UnsupportedError,
)
from tessarr.problems import Problems
from tessarr.stores import MemoryStore, Store

pytestmark = needs_corpus

ARRAYS = stores()
HIERARCHIES = stores(hierarchies=True)
VECTORS = [
    pytest.param(row, id=row["id"])
    for row in table("real/MANIFEST.tsv")
    if row["kind"] == "codec-vector"
]

# The damage would be found in the data, but a member of a draft is refused before (V3-EXT-11).
REFUSED_AT_OPENING = {"R0117": "crc32c with the member 'check_crc'"}

# Written in order C whatever the metadata says, which nobody can know: V1-ORDER-02.
ORDER_C = {"R0521"}

# Members of hierarchies that drafts of format 3 wrote, which can be read in more than one way.
BROKEN = {
    "R0116": {"ar": "'check_crc'"},
    "R0225": {"3d.chunked.mixed.i2.F": "'F' is not a list of axes"},
    "R0496": dict.fromkeys("ab", "'index_codecs' is missing"),
}


def opened(place: str) -> Any:
    store, path = located(place)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TessarrWarning)
        return tessarr.open(store, mode="r", path=path, use_consolidated=False)


def in_order_c(place: str) -> Any:
    """Migrate a copy of an array, told how its elements are laid out."""
    store, path = located(place)
    copy = MemoryStore({key: store.get(key) or b"" for key in store.list(path)})
    return tessarr.migrate_1to2(copy, path=path, order="C")


def skip_pending(error: UnsupportedError) -> None:
    pytest.skip(f"not there yet: {error.extension}")


@pytest.mark.parametrize(("place", "row"), ARRAYS)
def test_array_reads_as_recorded(place: str, row: dict[str, str]) -> None:
    """The contents equal the digest."""
    try:
        array = in_order_c(place) if row["id"] in ORDER_C else opened(place)
    except UnsupportedError as error:
        skip_pending(error)
    except MetadataError:
        assert row.get("expect") == "reject" or row["id"] in REFUSED_AT_OPENING
        return
    if row.get("expect") == "reject-data":
        with pytest.raises(DataError):
            array[...]
        return
    try:
        values = np.array(array[...])
    except UnsupportedError as error:
        assert (row.get("expect"), error.kind) == ("optional", "missing_package")
        pytest.skip(str(error))
    assert values.shape == array.shape
    if not row["sha256"]:
        return  # read leniently, with a warning at opening; there is nothing to compare with
    holes = undefined(row)
    if holes is not None:
        values[holes] = contents(row)[holes]
    assert digest(values, row["canon"]) == row["sha256"]


def test_most_arrays_are_read() -> None:
    """The test above cannot shrink to nothing."""
    outcomes: Counter[str] = Counter()
    for parameters in ARRAYS:
        place, row = parameters.values
        try:
            array = opened(place)
            assert isinstance(array, tessarr.Array), place
        except UnsupportedError:
            outcomes["unsupported"] += 1
        except MetadataError:
            outcomes["refused"] += 1
        else:
            outcomes["compared" if row["sha256"] else "lenient"] += 1
    assert outcomes["compared"] >= 700, outcomes
    assert outcomes["refused"] <= 15, outcomes


def nodes(store: Store, root: str) -> dict[str, Any]:
    """Find all documents below a path: shape, None for a group, and attributes."""
    prefix = f"{root.strip('/')}/".lstrip("/")
    found: dict[str, Any] = {}
    for key in store.list(prefix):
        path, _, name = key.removeprefix(prefix).rpartition("/")
        if name in DOCUMENTS and (path not in found or name == "zarr.json"):
            document = json.loads(store.get(key) or b"")
            zattrs = json.loads(store.get(key.removesuffix(name) + ".zattrs") or b"{}")
            attributes = document.get("attributes", {}) if name == "zarr.json" else zattrs
            found[path] = (document.get("shape"), attributes)
    return found


def described(node: Any) -> Any:
    return (list(node.shape) if isinstance(node, tessarr.Array) else None, node.attrs.asdict())


@pytest.mark.parametrize(("place", "row"), HIERARCHIES)
def test_hierarchy_has_the_nodes_that_its_documents_make(place: str, row: dict[str, str]) -> None:
    """Names, kinds, attributes and shapes are those of a plain walk over all keys."""
    store, root = located(place)
    expected = nodes(store, root)
    if row["id"] == "G3-T6":  # nothing at the root, so that only the node itself is one
        assert list(expected) == ["a/b/c"]
        assert described(opened(f"{place}/a/b/c")) == expected["a/b/c"]
        with pytest.raises(NotFoundError):
            opened(place)
        return
    group = opened(place)
    assert described(group) == expected.pop("")
    for path, reason in BROKEN.get(row["id"], {}).items():
        with pytest.raises(MetadataError, match=reason) as caught:
            group[path]
        assert caught.value.path == f"{root}/{path}".strip("/")
        del expected[path]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TessarrWarning)
        try:
            found = (
                {path: group[path] for path in expected}
                if row["id"] in BROKEN
                else dict(group.members(None))
            )
            assert {path: described(node) for path, node in found.items()} == expected
        except UnsupportedError as error:
            skip_pending(error)


@pytest.mark.parametrize("row", VECTORS)
def test_codec_decodes_as_recorded(row: dict[str, str]) -> None:
    """What numcodecs encoded is decoded to the same bytes."""
    config = json.loads(row["codecs"])
    folder, _, key = f"real/{row['path']}".rpartition("/")
    problems = Problems()
    codec: Any = read_v2(config, "/compressor", problems, first=True)
    if codec is None:
        assert config["id"] == "json"
        pytest.skip("not there yet")
    values = codec.decode(located(folder)[0].get(key))
    assert digest(np.frombuffer(values, "u1")) == row["sha256"]


@pytest.mark.parametrize(
    "row", [pytest.param(row, id=row["id"]) for row in table("generated/CORRUPT.tsv")]
)
def test_damage_is_an_error_that_says_where(row: dict[str, str]) -> None:
    """Damaged chunks raise DataError with key and grid position."""
    array = opened(f"generated/{row['path']}")
    with pytest.raises(DataError) as caught:
        array[...]
    assert caught.value.key
    assert caught.value.chunk is not None
