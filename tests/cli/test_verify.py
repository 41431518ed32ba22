"""``tessarr verify``: every fault is reported, and no valid data."""

from __future__ import annotations

import fcntl
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tessarr
from interop.corpus import ROOT, needs_corpus, table
from tessarr.cli import verify_checks

if TYPE_CHECKING:
    from cli.conftest import Run

VALUES = np.arange(256, dtype="i4").reshape(16, 16)


@pytest.fixture
def data(here: Path) -> Path:
    g = tessarr.create_group("data.zarr")
    g.create_array("plain", data=VALUES, chunks=(8, 8))
    g.create_array("deep/shards", data=VALUES, shards=(8, 8), chunks=(4, 4))
    tessarr.create_group("old", zarr_format=2).create_array("a", data=VALUES, chunks=(8, 8))
    return here


def findings(run: Run, *arguments: Any) -> list[tuple[str, str | None]]:
    code, out, _ = run("verify", *arguments, "--json")
    listed = json.loads(out)["findings"]
    assert code == (1 if listed else 0)
    return [(finding["kind"], finding["key"]) for finding in listed]


def damage(path: Path, change: Callable[[bytes], bytes]) -> None:
    path.write_bytes(change(path.read_bytes()))


def test_verify_of_valid_hierarchy_finds_nothing(data: Path, run: Run) -> None:
    """The output is only a summary on stderr."""
    code, out, err = run("verify", "data.zarr")
    assert (code, out) == (0, "")
    assert err.startswith("4 nodes, 8 stored objects (2.0K decoded) in ")
    assert err.endswith(": nothing is wrong\n")
    assert findings(run, "data.zarr/deep/shards") == []
    assert findings(run, "old") == []
    code, out, _ = run("verify", "data.zarr", "--json", "--no-data")
    assert json.loads(out) == {
        "findings": [],
        "nodes": 4,
        "objects": 0,
        "decoded_bytes": 0,
        "chunks": 8,
        "stored_chunks": 8,
    }


@pytest.mark.parametrize(
    "change",
    [lambda b: b[:-1], lambda b: b"", lambda b: b[:20], lambda b: bytes(20)],
    ids=["short", "empty", "half", "zeros"],
)
@pytest.mark.parametrize("key", ["plain/c/1/0", "deep/shards/c/0/1"])
def test_verify_finds_damaged_objects(
    data: Path, run: Run, key: str, change: Callable[[bytes], bytes]
) -> None:
    """Chunks and shards have several kinds of damage."""
    damage(data / "data.zarr" / key, change)
    assert findings(run, "data.zarr") == [("damaged", key)]
    assert findings(run, "data.zarr", "--no-data") == []
    code, out, err = run("verify", "data.zarr")
    assert code == 1
    assert out.startswith(f"damaged: {key}: cannot decode chunk")
    assert err.endswith("1 finding\n")


def test_verify_counts_lost_subchunks(data: Path, run: Run) -> None:
    """The report counts the lost subchunks."""
    path = data / "data.zarr/deep/shards/c/0/0"
    tessarr.create_array(
        "data.zarr/deep/shards",
        data=VALUES,
        shards=(8, 8),
        chunks=(4, 4),
        compressors=["crc32c"],
        overwrite=True,
    )
    damage(path, lambda b: b"\xff" + b[1:])
    _, out, _ = run("verify", "data.zarr")
    assert "checksum mismatch" in out
    assert "(1 of 4 subchunks are lost)" in out


def test_large_shards_are_read_in_parts(
    data: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each shard has one report with all its losses; memory is bounded."""
    monkeypatch.setattr(verify_checks, "_READ_BYTES", 4 * 4 * 4)
    assert findings(run, "data.zarr") == []
    damage(data / "data.zarr/deep/shards/c/0/0", lambda b: b[:-30])
    assert findings(run, "data.zarr") == [("damaged", "deep/shards/c/0/0")]
    assert "(4 of 4 subchunks are lost)" in run("verify", "data.zarr")[1]


def test_verify_finds_stray_keys(data: Path, run: Run) -> None:
    """Stray keys are in an array, in a group, and in a folder without a node."""
    root = data / "data.zarr"
    for key in ("plain/readme", "plain/c/01/0", "deep/x", "loose/y/z", "plain/c/0/0.5"):
        (root / key).parent.mkdir(parents=True, exist_ok=True)
        (root / key).write_text("?")
    expected = {"plain/readme", "plain/c/01/0", "deep/x", "loose/y/z", "plain/c/0/0.5"}
    assert set(findings(run, "data.zarr")) == {("stray", key) for key in expected}
    assert findings(run, "--ignore", "stale,stray", "data.zarr") == []


def test_verify_finds_chunks_outside(data: Path, run: Run) -> None:
    """Other tools leave such chunks when an array shrinks."""
    document = data / "data.zarr/plain/zarr.json"
    written = json.loads(document.read_text())
    document.write_text(json.dumps({**written, "shape": [16, 8]}))
    keys = ["plain/c/0/1", "plain/c/1/1"]
    assert findings(run, "data.zarr") == [("outside", key) for key in keys]


def test_verify_finds_leftovers_of_stopped_writers(data: Path, run: Run) -> None:
    """Leftovers are temporary files of other libraries and lock files without a holder."""
    folder = data / "data.zarr/plain/c/0"
    (folder / "0.1234567890abcdef.partial").write_bytes(b"half")
    (folder / "1.__lock").write_bytes(b"half")
    assert findings(run, "data.zarr") == [
        ("leftover", "plain/c/0/0.1234567890abcdef.partial"),
        ("leftover", "plain/c/0/1.__lock"),
    ]


def test_stopped_deletions_and_replacements_are_leftovers(data: Path, run: Run) -> None:
    """Hidden folders of killed programs are reported, and the next deletion removes them."""
    root = data / "data.zarr"
    for name in ("plain.__deleted.__lock", "plain.__new.__lock"):
        (root / name / "node" / "c").mkdir(parents=True)
        (root / name / "node" / "zarr.json").write_text("{}")
    assert findings(run, "data.zarr") == [
        ("leftover", "plain.__deleted.__lock"),
        ("leftover", "plain.__new.__lock"),
    ]
    tessarr.open_group(root)["plain"] = [1, 2]
    del tessarr.open_group(root)["plain"]
    assert not list(root.glob("plain*"))


@pytest.mark.skipif(not hasattr(fcntl, "F_OFD_SETLK"), reason="no locks of open files here")
def test_verify_ignores_active_writer(data: Path, run: Run) -> None:
    """The lock file has a holder."""
    path = data / "data.zarr/plain/c/0/0.__lock"
    with path.open("wb") as file:
        lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0)
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, lock)
        assert findings(run, "data.zarr") == []
    assert len(findings(run, "data.zarr")) == 1


def test_verify_finds_broken_metadata(data: Path, run: Run) -> None:
    """The report lists all problems, and covers the other nodes."""
    path = data / "data.zarr/plain/zarr.json"
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "shape": [-1, 16], "data_type": "int33"}))
    (data / "data.zarr/deep/shards/c/0/0").write_bytes(b"")
    _, out, _ = run("verify", "data.zarr")
    assert "metadata: plain/zarr.json: /shape/0: " in out
    assert "/data_type" in out
    assert "damaged: deep/shards/c/0/0" in out
    path.write_text("{")
    assert ("metadata", "plain/zarr.json") in findings(run, "data.zarr")
    (data / "data.zarr/zarr.json").write_text("{")
    assert findings(run, "data.zarr") == [("metadata", "zarr.json")]


def test_verify_finds_defects(here: Path, run: Run) -> None:
    """The report repeats a defect, although reading warns only once."""
    tessarr.create_array("a", shape=(2,), dtype="f4", fill_value=np.nan, zarr_format=2)
    document = json.loads((here / "a/.zarray").read_text())
    document["filters"] = []
    (here / "a/.zarray").write_text(json.dumps(document))
    for _ in range(2):
        assert findings(run, "a") == [("defect", ".zarray")]


def test_verify_finds_unreachable_groups(data: Path, run: Run) -> None:
    """A folder without metadata has nodes below it."""
    (data / "data.zarr/deep/zarr.json").unlink()
    assert findings(run, "data.zarr") == [("missing", "deep/")]
    _, out, _ = run("verify", "data.zarr")
    assert "which hides 'deep/shards'" in out


def test_verify_reports_absent_chunks_with_option(data: Path, run: Run) -> None:
    """Absent chunks are a fault only with an option."""
    (data / "data.zarr/plain/c/0/1").unlink()
    code, _, err = run("verify", "data.zarr")
    assert code == 0
    assert "1 of 8 chunks are not stored" in err
    assert findings(run, "data.zarr", "--complete") == [("missing", "plain/c/0/1")]


@pytest.mark.parametrize("name", ["data.zarr", "old"])
def test_verify_finds_stale_consolidated_metadata(data: Path, run: Run, name: str) -> None:
    """Stale copies are a fault in both formats; current copies are not."""
    tessarr.consolidate_metadata(name)
    assert findings(run, name) == []
    key = "zarr.json" if name == "data.zarr" else ".zmetadata"
    for path in list((data / name).glob("**/c")) + list((data / name).glob("**/0.0")):
        document = path.parent / ("zarr.json" if name == "data.zarr" else ".zarray")
        document.write_text(document.read_text().replace("16", "15", 1))
    assert {finding for finding in findings(run, name) if finding[0] == "stale"} == {("stale", key)}
    damage(data / name / key, lambda b: b.replace(b'"metadata"', b'"metadato"'))
    assert ("stale", key) in findings(run, name) or ("metadata", key) in findings(run, name)


def test_verify_output_is_bounded(data: Path, run: Run) -> None:
    """Each kind has at most twenty lines, and the summary counts all findings."""
    for i in range(30):
        (data / f"data.zarr/plain/x{i:02}").write_text("")
    code, out, err = run("verify", "data.zarr")
    assert code == 1
    assert len(out.splitlines()) == 21
    assert out.splitlines()[-1] == "… and 10 more: --all prints them"
    assert err.endswith("30 findings\n")
    assert len(run("verify", "data.zarr", "--all")[1].splitlines()) == 30


def test_verify_of_absent_node_exits_2(data: Path, run: Run) -> None:
    """The exit code equals that of diff and grep."""
    code, out, err = run("verify", "data.zar")
    assert (code, out) == (2, "")
    assert "did you mean 'data.zarr'?" in err
    assert run("verify", "data.zarr/deep/shard")[0] == 2


def test_format_1(old: Path, run: Run) -> None:
    """Documents of format 1 are no stray keys, and its chunks are read."""
    assert findings(run, "old") == []
    (old / "0").write_bytes(b"1")
    assert findings(run, "old") == [("damaged", "0")]


@needs_corpus
def test_verify_of_foreign_stores_finds_nothing(run: Run) -> None:
    """Data of other writers have no damaged, outside or left-over keys."""
    checked = 0
    for row in table("real/MANIFEST.tsv")[::3]:
        code, out, _ = run("verify", ROOT / "real" / row["path"], "--json")
        if code == 2:  # no store
            continue
        kinds = {finding["kind"] for finding in json.loads(out)["findings"]}
        assert not kinds & {"damaged", "outside", "leftover"}, (row, out)
        checked += 1
    assert checked > 10


def test_verify_text_arrays_of_zarr_python_2_has_no_finding(here: Path, run: Run) -> None:
    """That writer's default fill value of 0 is valid for text arrays."""
    array = tessarr.create_array(
        "old.zarr", data=["a", "b"], dtype=str, zarr_format=2, fill_value=""
    )
    document = json.loads(array.store.get(".zarray") or b"")
    array.store.put(".zarray", json.dumps({**document, "fill_value": 0}).encode())
    assert run("verify", "old.zarr")[0] == 0
    for verb in ("ls", "info", "cat", "tree"):
        code, _, err = run(verb, "old.zarr")
        assert (code, err) == (0, "")
    assert tessarr.open_array("old.zarr", "r")[:].tolist() == ["a", "b"]
