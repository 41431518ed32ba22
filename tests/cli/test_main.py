"""Output, JSON and exit codes of the command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr
from tessarr.cli import main
from tessarr.cli.tables import format_table


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    g = tessarr.create_group(path, attributes={"title": "x"})
    a = g.create_array(
        "deep/image", shape=(40, 60), dtype="u2", chunks=(10, 10), shards=(20, 20),
        compressors="zstd", dimension_names=["y", "x"], fill_value=3, attributes={"unit": "m"},
    )  # fmt: skip
    a[:20] = np.arange(1200).reshape(20, 60)
    g.create_array("small", shape=(), dtype="f8")
    tessarr.create_array(tmp_path / "old", shape=4, dtype=">i2", zarr_format=2, order="F")
    return path


def test_info_of_array(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(folder / "deep/image")]) == 0
    lines = dict(line.split("  ", 1) for line in capsys.readouterr().out.splitlines())
    fields = {name: value.strip() for name, value in lines.items()}
    assert fields["type"] == "array, format 3"
    assert fields["shape"] == "40 × 60"
    assert fields["data type"] == "uint16"
    assert fields["chunks"] == "10 × 10"
    assert fields["shards"] == "20 × 20"
    assert fields["dimensions"] == "y, x"
    assert fields["fill value"] == "3"
    assert fields["compressor"].startswith("Zstd(")
    assert fields["attributes"] == "unit"
    assert fields["initialised"] == "12 of 24 chunks (50 %)"
    assert fields["size"] == "4.7K (4,800 bytes)"
    assert float(fields["ratio"]) > 0


def test_info_of_node_inside(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(folder), "--node", "small"]) == 0
    assert "a single element" in capsys.readouterr().out


def test_info_of_group(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", folder.as_uri()]) == 0
    out = capsys.readouterr().out
    assert "arrays      1: small" in out
    assert "groups      1: deep" in out
    assert "title" in out


def test_info_of_format_2(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(folder.parent / "old")]) == 0
    out = capsys.readouterr().out
    assert "array, format 2" in out
    assert "Blosc(cname='lz4'" in out
    assert main(["info", "--json", str(folder.parent / "old")]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["data_type"], document["order"]) == (">i2", "F")
    assert [codec["id"] for codec in document["codecs"]] == ["blosc"]


def test_info_as_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "--json", str(folder / "deep/image")]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["kind"] == "array"
    assert (document["shape"], document["chunks"], document["shards"]) == (
        [40, 60],
        [10, 10],
        [20, 20],
    )
    assert (document["chunk_count"], document["stored_chunk_count"]) == (24, 12)
    assert document["codecs"][0]["name"] == "sharding_indexed"
    assert document["attributes"] == {"unit": "m"}
    assert main(["info", "--json", str(folder)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["kind"], document["arrays"], document["groups"]) == (
        "group",
        ["small"],
        ["deep"],
    )


def test_tree(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tree", str(folder)]) == 0
    assert capsys.readouterr().out == (
        "/\n├── deep\n│   └── image (y: 40, x: 60) uint16\n└── small () float64\n"
    )
    assert main(["tree", str(folder), "--level", "1"]) == 0
    assert capsys.readouterr().out == "/\n├── deep\n└── small () float64\n"
    assert main(["tree", "--json", str(folder)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert list(document) == ["deep", "deep/image", "small"]
    assert document["deep/image"]["shape"] == [40, 60]


def test_tree_of_array(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tree", str(folder / "small")]) == 0
    assert capsys.readouterr().out.startswith("Array(/small, (), float64")


@pytest.mark.parametrize("verb", ["info", "tree"])
def test_absent_node_is_one_line_error(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([verb, str(tmp_path / "nowhere")]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("tessarr: there is no array or group")
    assert "nowhere" in err
    assert len(err.splitlines()) == 1
    assert not (tmp_path / "nowhere").exists()


def test_broken_metadata_error_names_location(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = folder / "deep/image/zarr.json"
    document.write_text(document.read_text().replace("uint16", "uint17"))
    assert main(["info", str(folder / "deep/image")]) == 1
    assert "/data_type" in capsys.readouterr().err
    assert main(["tree", str(folder)]) == 0
    out, err = capsys.readouterr()
    assert "└── image – unreadable: " in out
    assert "small () float64" in out
    assert err == "tessarr: 1 of 3 nodes cannot be read\n"
    assert main(["info", str(folder / "deep")]) == 0
    assert "unreadable  1: image" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["info"], ["nonsense"], ["tree", ".", "--level", "x"]])
def test_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage: tessarr" in capsys.readouterr().err


def test_command_without_verb_prints_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    out, err = capsys.readouterr()
    assert not out
    assert "rechunk" in err


def test_demo_in_small(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--size", "200", "--folder", str(tmp_path)]) == 0
    out, err = capsys.readouterr()
    assert "Array((200, 200), int32, chunks=(20, 20), order=C)" in out
    assert "Array((200, 200), int32, chunks=(20, 20), shards=(40, 40), order=C)" in out
    assert out.count("100 of 100 initialised") == 2
    assert out.count("ratio") == 2
    assert "MB/s" in out
    assert "everything that was read back is what was written" in out
    assert "\r" not in err
    a = tessarr.open_array(tmp_path / "format-3-in-shards.zarr")
    np.testing.assert_array_equal(a[:], np.arange(40000).reshape(200, 200))
    assert main(["demo", "--size", "200", "--folder", str(tmp_path)]) == 1


def test_demo_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--size", "200", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [item["size_bytes"] for item in document] == [160_000, 160_000]
    assert {timing["what"] for timing in document[0]["timings"]} >= {"write", "read all"}


@pytest.mark.parametrize("size", ["0", "30", "-20"])
def test_demo_invalid_size_raises(size: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--size", size]) == 1
    assert "--size" in capsys.readouterr().err


@pytest.mark.slow
def test_module_runs_as_program(folder: Path) -> None:
    def call(*arguments: str) -> Any:
        return subprocess.run(
            [sys.executable, "-m", "tessarr", *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "PYTHONIOENCODING": "utf-8"},
            check=False,
        )

    done = call("tree", str(folder))
    assert (done.returncode, done.stdout.splitlines()[0], done.stderr) == (0, "/", "")
    done = call("info", "nowhere")
    assert (done.returncode, done.stdout) == (1, "")
    assert "Traceback" not in done.stderr
    assert call("--help").returncode == 0


def test_table_aligns() -> None:
    assert format_table([("a", "1"), ("long", "2"), ("long", "3")]) == "a     1\nlong  2\n      3"


@pytest.mark.slow
def test_tree_on_ascii_terminal_replaces_characters(folder: Path) -> None:
    """Drawings replace characters that the terminal lacks, and JSON escapes them."""
    tessarr.open_group(folder).create_group("é")
    for form in ([], ["--json"]):
        done = subprocess.run(
            [sys.executable, "-m", "tessarr", "tree", str(folder), *form],
            capture_output=True,
            timeout=60,
            env={**os.environ, "PYTHONIOENCODING": "ascii"},
            check=False,
        )
        assert done.returncode == 0, done.stderr
        if form:
            assert "é" in json.loads(done.stdout)
        else:
            assert b"?" in done.stdout


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    """The option prints the version without a verb."""
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"tessarr {tessarr.__version__}\n"


def test_convert(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "s")
    tessarr.create_group(path, zarr_format=2).create_array("a/b", data=[1, 2, 3])
    assert main(["convert", path, "--to", "3", "--dry-run"]) == 0
    assert "/a/b: array, format 2 → 3" in capsys.readouterr().out
    assert tessarr.open(path).zarr_format == 2
    assert main(["convert", path, "--to", "3", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["to"], document["done"], document["possible"]) == (3, True, True)
    assert [node["path"] for node in document["nodes"]] == ["", "a", "a/b"]
    group = tessarr.open_group(path)
    assert group.zarr_format == 3
    assert tessarr.open_array(path, path="a/b")[...].tolist() == [1, 2, 3]
    assert main(["convert", path, str(tmp_path / "t"), "--to", "2"]) == 0
    assert tessarr.open_array(tmp_path / "t", path="a/b")[...].tolist() == [1, 2, 3]
    assert main(["convert", path, str(tmp_path / "t"), "--to", "2"]) == 1
    assert "overwrite" in capsys.readouterr().err


def test_convert_lists_problems(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "s")
    tessarr.create_array(path, shape=(8, 8), shards=(4, 4), chunks=(2, 2), dtype="u1")
    before = (tmp_path / "s/zarr.json").read_bytes()
    for options in ([], ["--dry-run"], ["--json"]):
        assert main(["convert", path, "--to", "2", *options]) == 1
        out, err = capsys.readouterr()
        assert "format 2 has no shards" in out
        assert "no equivalent in format 2" in err
        assert len(err.splitlines()) == 1
        assert (tmp_path / "s/zarr.json").read_bytes() == before
    target = str(tmp_path / "t")
    assert main(["convert", path, target, "--to", "2", "--recode"]) == 0
    assert "re-encoded" in capsys.readouterr().out


def test_consolidate(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["consolidate", str(folder), "--check"]) == 1
    assert "has no consolidated metadata: without --check" in capsys.readouterr().err
    assert main(["consolidate", str(folder), "-n"]) == 0
    assert capsys.readouterr().out == "would make copies of 3 nodes\n"
    assert main(["consolidate", str(folder), "--remove", "-n"]) == 0
    assert capsys.readouterr().out == "there are none\n"
    assert main(["consolidate", str(folder)]) == 0
    assert capsys.readouterr().out == "copies of 3 nodes\n"
    assert main(["info", str(folder)]) == 0
    assert "consolidated" in capsys.readouterr().out
    assert main(["consolidate", str(folder), "--check"]) == 0
    assert capsys.readouterr().out == "0 differences\n"
    document = folder / "small/zarr.json"
    document.write_text(document.read_text().replace("float64", "int64"))
    assert main(["consolidate", str(folder), "--check", "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == {"small": "changed"}
    assert main(["consolidate", str(folder), "--node", "deep", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"nodes": 1, "done": True}
    assert main(["consolidate", str(folder), "--remove", "--dry-run"]) == 0
    assert capsys.readouterr().out == "would remove them\n"
    assert main(["consolidate", str(folder), "--remove"]) == 0
    assert capsys.readouterr().out == "removed\n"
    assert main(["consolidate", str(folder), "--remove"]) == 0
    assert capsys.readouterr().out == "there was none\n"
    assert main(["consolidate", str(folder), "--node", "deep/image"]) == 1
    assert "is an array, and a group is needed" in capsys.readouterr().err
