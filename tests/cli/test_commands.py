"""The commands ls, cat, attrs, rm and migrate."""

from __future__ import annotations

import io
import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pytest

import tessarr
from tessarr.cli import cat, main
from tessarr.cli.selection import parse_selection, split_selection

if TYPE_CHECKING:
    from cli.conftest import Run

VALUES = np.arange(24).reshape(2, 3, 4)


@pytest.fixture
def data(here: Path) -> Path:
    g = tessarr.create_group("data.zarr", attributes={"title": "test"})
    a = g.create_array("cube", data=VALUES, chunks=(1, 2, 2), attributes={"units": "K", "n": 1})
    assert a.shape == (2, 3, 4)
    g.create_array("deep/line", data=[0.1, np.nan, -0.0, np.inf], dtype="f4", chunks=(2,))
    return here


# ls


def test_ls(data: Path, run: Run) -> None:
    """The command prints one name on each line, for other programs."""
    assert run("ls", "data.zarr") == (0, "cube\ndeep\n", "")
    assert run("ls", "data.zarr", "-R") == (0, "cube\ndeep\ndeep/line\n", "")
    assert run("ls", "data.zarr/cube") == (0, "cube\n", "")
    assert run("ls", "data.zarr/deep") == (0, "line\n", "")


def test_ls_long(data: Path, run: Run) -> None:
    """The long form shows kinds, data types, shapes and sizes."""
    _, out, _ = run("ls", "data.zarr", "-lR")
    rows = [line.split() for line in out.splitlines()]
    assert rows[0] == ["array", "int64", "2", "×", "3", "×", "4", "[1", "×", "2", "×", "2]", "cube"]
    assert rows[1] == ["group", "deep"]
    _, out, _ = run("ls", "data.zarr", "-s")
    assert [line.split()[1] for line in out.splitlines()] == ["cube", "deep"]
    _, out, _ = run("ls", "data.zarr", "-Rs", "--json")
    cube, deep, line = json.loads(out)
    assert (cube["kind"], cube["shape"], cube["size_bytes"]) == ("array", [2, 3, 4], 192)
    assert cube["stored_bytes"] == tessarr.open_array("data.zarr/cube").nbytes_stored
    assert deep["stored_bytes"] > line["stored_bytes"] > 0


def test_ls_keys(data: Path, run: Run) -> None:
    """The option lists the keys of the store."""
    _, out, _ = run("ls", "data.zarr/deep/line", "--keys")
    assert out.splitlines() == ["c/0", "c/1", "zarr.json"]
    _, out, _ = run("ls", "data.zarr/deep/line", "--keys", "-s", "--json")
    assert json.loads(out)["zarr.json"] == (data / "data.zarr/deep/line/zarr.json").stat().st_size
    code, _, err = run("ls", "data.zarr/nothing", "--keys")
    assert code == 1
    assert "there is no array or group" in err


def test_ls_and_tree_mark_unreadable_array(here: Path, run: Run) -> None:
    """Listing commands exit with 0, and print the number of unreadable nodes."""
    group = tessarr.create_group("old.zarr", zarr_format=2)
    group.create_array("a", data=[1, 2])
    with tessarr.options(allow_pickle=True):
        pickled = np.array(["x", None], object)
        group.create_array("b", data=pickled, object_codec=tessarr.codecs.Pickle())
    for options in ([], ["-l"], ["-R"]):
        code, out, err = run("ls", "old.zarr", *options)
        assert (code, err) == (0, "tessarr: 1 of 2 nodes cannot be read\n")
        assert [line.split()[-1] for line in out.splitlines()] == ["a", "b"]
    for verb in ("ls", "tree"):
        code, out, err = run(verb, "old.zarr", "--json")
        assert (code, err) == (0, "tessarr: 1 of 2 nodes cannot be read\n")
        assert out.count('"unreadable"') == out.count("is pickled") == 1
    code, out, err = run("tree", "old.zarr")
    assert (code, err) == (0, "tessarr: 1 of 2 nodes cannot be read\n")
    assert "├── a (2,) int64" in out
    assert "└── b – unreadable: array 'b' is pickled" in out
    code, out, err = run("info", "old.zarr")
    assert (code, err) == (0, "")
    assert "unreadable  1: b" in out


def test_ls_lists_unreadable_nodes(data: Path, run: Run) -> None:
    """The listing includes the node, and a message counts it."""
    (data / "data.zarr/cube/zarr.json").write_text("{")
    for options in ([], ["-l"], ["-ls"]):
        code, out, err = run("ls", "data.zarr", *options)
        assert code == 0
        assert "cube" in out
        assert err == "tessarr: 1 of 2 nodes cannot be read\n"


# cat


def test_cat(data: Path, run: Run) -> None:
    """The last axis runs along the line, and blank lines separate planes."""
    _, out, _ = run("cat", "data.zarr/cube")
    assert out == ("0 1 2 3\n4 5 6 7\n8 9 10 11\n\n12 13 14 15\n16 17 18 19\n20 21 22 23\n")
    assert run("cat", "data.zarr/cube", "[0:2, -1, ::2]")[1] == "8 10\n20 22\n"
    assert run("cat", "data.zarr/cube", "1, [0, 2], 3")[1] == "15\n23\n"
    assert run("cat", "data.zarr/cube", "[1, 2, 3]")[1] == "23\n"
    assert run("cat", "data.zarr/deep/line")[1] == "0.1\nnan\n-0.0\ninf\n"
    assert run("cat", "data.zarr/cube", "[5:]")[1] == ""


def test_cat_json_prints_nested_lists(data: Path, run: Run) -> None:
    """Arrays are nested lists; numbers that JSON lacks are strings."""
    assert json.loads(run("cat", "data.zarr/cube", "--json")[1]) == VALUES.tolist()
    assert json.loads(run("cat", "data.zarr/cube", "[..., 0, 1]", "--json")[1]) == [1, 13]
    assert json.loads(run("cat", "data.zarr/cube", "[0, 0, 1]", "--json")[1]) == 1
    assert json.loads(run("cat", "data.zarr/cube", "[:, 5:]", "--json")[1]) == [[], []]
    document = json.loads(run("cat", "data.zarr/deep/line", "--json")[1])
    assert document == [pytest.approx(0.1), "NaN", -0.0, "Infinity"]


def test_cat_of_records(here: Path, run: Run) -> None:
    """Each field has a column."""
    records = np.array([(1, 0.5), (2, 1.5)], [("x", "i4"), ("y", "f8")])
    tessarr.create_array("r", data=records)
    assert run("cat", "r", "--format", "csv")[1] == "x,y\n1,0.5\n2,1.5\n"
    assert run("cat", "r", "['y', 1:]")[1] == "1.5\n"
    assert run("cat", "r", "['x']", "--format", "csv")[1] == "1\n2\n"


def test_cat_of_text(here: Path, run: Run) -> None:
    """Text is printed verbatim, and quoted if the format requires it."""
    tessarr.create_array("t", data=np.array([["a", 'b,"c'], ["é", ""]], object), dtype=str)
    assert run("cat", "t")[1] == 'a b,"c\né \n'
    assert run("cat", "t", "--format", "csv")[1] == 'a,"b,""c"\né,\n'
    assert json.loads(run("cat", "t", "--json")[1]) == [["a", 'b,"c'], ["é", ""]]


def test_cat_part_by_part(data: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large arrays print like small ones."""
    whole = {form: run("cat", "data.zarr/cube", "--format", form)[1] for form in ("text", "json")}
    monkeypatch.setattr(cat, "_PART_BYTES", 3 * 8)
    monkeypatch.setattr(cat, "_RUN_ELEMENTS", 2)
    for form, expected in whole.items():
        assert run("cat", "data.zarr/cube", "--format", form)[1] == expected


@pytest.mark.slow
def test_cat_to_file(
    data: Path, program: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """NumPy reads the file, also of parts and scalars; raw bytes have no header."""
    out, err = program("cat", "data.zarr/cube", "--format", "npy").communicate()
    assert err == b""
    np.testing.assert_array_equal(np.load(io.BytesIO(out)), VALUES)
    for selection in ("[:, ::-2]", "[0, 1, 2]"):
        for form in ("npy", "raw"):
            file = io.BytesIO()
            monkeypatch.setattr("sys.stdout", io.TextIOWrapper(file))
            assert main(["cat", "data.zarr/cube", selection, "--format", form]) == 0
            expected = VALUES[parse_selection(selection)]
            if form == "raw":
                assert file.getvalue() == expected.tobytes()
            else:
                np.testing.assert_array_equal(np.load(io.BytesIO(file.getvalue())), expected)


@pytest.mark.slow
def test_cat_into_closed_pipe_is_quiet(here: Path, program: Callable[..., Any]) -> None:
    """If `head` closes the pipe, the command stops early and prints no error."""
    tessarr.create_array("big", shape=(1 << 40,), chunks=(1 << 20,), dtype="u1")
    process = program("cat", "big")
    assert process.stdout.readline() == b"0\n"
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(60) == 0
    process.stderr.close()


@pytest.mark.slow
def test_interrupt_prints_one_line(here: Path, program: Callable[..., Any]) -> None:
    """Ctrl-C ends the command with the shell's exit code for an interrupt."""
    tessarr.create_array("big", shape=(1 << 40,), chunks=(1 << 20,), dtype="u1")
    process = program("cat", "big")
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert (process.returncode, err) == (130, b"\ntessarr: interrupted\n")


@pytest.mark.parametrize(
    "text",
    [
        "[0:x]",
        "__import__('os')",
        "[",
        "1.5",
        "None",
        "[1:2:3:4]",
        "f(1)",
        "[[1.5]]",
        "{1}",
        "[" * 10_000,
    ],
)
def test_invalid_selection_raises(data: Path, run: Run, text: str) -> None:
    """The command rejects the selection before any read, and never evaluates it."""
    code, out, err = run("cat", "data.zarr/cube", text)
    assert (code, out) == (1, "")
    assert "is not understood" in err


@pytest.mark.parametrize("text", ["[5]", "[0, 0, 0, 0]", "[..., ...]", "[::0]", "['x']"])
def test_selection_out_of_bounds_raises(data: Path, run: Run, text: str) -> None:
    """The message is the error of the array."""
    code, out, err = run("cat", "data.zarr/cube", text)
    assert (code, out, len(err.splitlines())) == (1, "", 1)


@pytest.mark.parametrize("most", [1, 2, 5, 7, 12, 100])
def test_split_selection_covers_selection_in_order(most: int) -> None:
    """The parts cover any selection in order, for any size limit."""
    values = np.arange(7 * 5 * 6).reshape(7, 5, 6)
    a = tessarr.create_array(None, data=values, chunks=(3, 2, 4))
    for text in ("", "1:6, ::2", "::-1, 2, ::-2", "..., 3", "0, 0, 0", "2:2", "-3:, ..., 1:"):
        key = parse_selection(text)
        parts = list(split_selection(a, key, most))
        assert max(values[part].size for part in parts) <= max(most, 1)
        joined = np.concatenate([values[part].ravel() for part in parts])
        np.testing.assert_array_equal(joined, values[key].ravel())


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_cat_selects_dimensions_by_name(here: Path, run: Run, zarr_format: Literal[2, 3]) -> None:
    """Names are those of format 3, or those of xarray in format 2; the rest is whole."""
    values = np.arange(24).reshape(2, 3, 4)
    names = ["time", "lat", "sea level"]
    settings: dict[str, Any] = {"dimension_names": names}
    if zarr_format == 2:
        settings = {"attributes": {"_ARRAY_DIMENSIONS": names}}
    tessarr.create_array("a", data=values, zarr_format=zarr_format, **settings)
    keys: list[tuple[str, Any]] = [
        ("time=0,lat=1:", np.s_[0, 1:]),
        ("[lat = [0, 2], time = -1]", np.s_[-1, [0, 2]]),
        ("sea level=::-2", np.s_[..., ::-2]),
    ]
    for text, key in keys:
        assert json.loads(run("cat", "a", text, "--json")[1]) == values[key].tolist()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tim=0", "there is no dimension 'tim': its dimensions are 'time', 'x', 'x'; did you mean"),
        ("time=0, 1", "by name, or all of them by position"),
        ("time=0, time=1", "is not unique"),
        ("x=0", "is not unique"),
        ("time=", "is not understood"),
        ("time=f()", "is not understood"),
        ("time=5", "out of bounds"),
    ],
)
def test_wrong_names_in_selection_are_errors(here: Path, run: Run, text: str, message: str) -> None:
    """The message names the dimensions."""
    tessarr.create_array(
        "a", shape=(2, 3, 4), dtype="u1", dimension_names=["time", "x", "x"], zarr_format=3
    )
    code, out, err = run("cat", "a", text)
    assert (code, out) == (1, "")
    assert message in err


def test_names_in_selection_of_array_without_names_are_an_error(here: Path, run: Run) -> None:
    """The message says that no names exist."""
    tessarr.create_array("a", shape=(2,), dtype="u1")
    assert "there is no dimension 'a': it has no names" in run("cat", "a", "a=1")[2]


def test_info_recursive_prints_all_attributes(here: Path, run: Run) -> None:
    """Each node has its properties and attributes; an unreadable node has the reason."""
    root = tessarr.open_group("g", mode="w", zarr_format=3, attributes={"title": "é"})
    root.create_array(
        "site/t", shape=(4, 6), dtype="f4", dimension_names=["time", None], chunks=(2, 6),
        compressors="zstd:3", attributes={"units": "K", "range": [0, 1]},
    )  # fmt: skip
    (here / "g/bad").mkdir()
    (here / "g/bad/zarr.json").write_text("{")
    code, out, err = run("info", "-r", "g")
    assert code == 0
    assert err == "tessarr: 1 of 4 nodes cannot be read\n"
    blocks = out.split("\n\n")
    assert blocks[0] == '/  group, format 3\n    :title = "é"'
    assert blocks[1].startswith("/bad  unreadable: ")
    assert blocks[3].splitlines() == [
        "/site/t  float32 (time: 4, 6)",
        "    chunks 2 × 6, Zstd(level=3, checksum=False), fill value 0.0",
        '    :units = "K"',
        "    :range = [0, 1]",
    ]
    listed = json.loads(run("info", "-r", "g", "--json")[1])
    assert listed["/site/t"]["attributes"] == {"units": "K", "range": [0, 1]}
    assert listed["/site/t"]["dimension_names"] == ["time", None]
    assert listed["/bad"]["kind"] == "unreadable"
    assert list(json.loads(run("info", "-r", "g/site/t", "--json")[1])) == ["/site/t"]


# attrs


def test_attrs(data: Path, run: Run) -> None:
    """The command prints all attributes, one, or some."""
    assert run("attrs", "data.zarr/cube") == (0, 'units  "K"\nn      1\n', "")
    assert run("attrs", "data.zarr/cube", "units") == (0, "K\n", "")
    assert json.loads(run("attrs", "data.zarr/cube", "n", "--json")[1]) == {"n": 1}
    assert json.loads(run("attrs", "data.zarr", "--json")[1]) == {"title": "test"}
    assert run("attrs", "data.zarr/deep") == (0, "", "")
    code, _, err = run("attrs", "data.zarr/cube", "unit")
    assert code == 1
    assert "did you mean 'units'?" in err


def test_attrs_are_set(data: Path, run: Run) -> None:
    """A value is JSON if it parses as JSON, else a string."""
    code, _, _ = run("attrs", "data.zarr/cube", "x=1", "y=[1, 2]", "units=°C = Celsius", "z=")
    assert code == 0
    expected = {"units": "°C = Celsius", "n": 1, "x": 1, "y": [1, 2], "z": ""}
    assert tessarr.open("data.zarr/cube").attrs.asdict() == expected
    assert run("attrs", "data.zarr/cube", "x=2", "--text")[0] == 0
    assert tessarr.open("data.zarr/cube").attrs["x"] == "2"
    assert run("attrs", "data.zarr/cube", "x=3", "--dry-run") == (0, "would set x  3\n", "")
    assert tessarr.open("data.zarr/cube").attrs["x"] == "2"
    code, _, err = run("attrs", "data.zarr/cube", "good=1", f"bad={'[' * 250}{']' * 250}")
    assert code == 1
    assert "bad" in err
    assert "good" not in tessarr.open("data.zarr/cube").attrs
    code, _, err = run("attrs", "data.zarr/cube", "missing=NaN")
    assert code == 0
    assert "'missing'" in err
    assert str(tessarr.open("data.zarr/cube").attrs["missing"]) == "nan"


def test_attrs_are_deleted(data: Path, run: Run) -> None:
    """The command deletes all named attributes, or none after an error."""
    code, _, err = run("attrs", "data.zarr/cube", "--delete", "n", "unit")
    assert code == 1
    assert "'unit'" in err
    assert run("attrs", "data.zarr/cube", "--delete", "n", "-n") == (0, "would delete n  1\n", "")
    assert len(tessarr.open("data.zarr/cube").attrs) == 2
    assert run("attrs", "data.zarr/cube", "--delete", "n", "units")[0] == 0
    assert len(tessarr.open("data.zarr/cube").attrs) == 0


@pytest.mark.parametrize(
    "words",
    [
        ["attrs", "data.zarr/cube", "--json", "n", "units"],
        ["attrs", "data.zarr/cube", "--text", "x=1"],
        ["cat", "data.zarr/cube", "--format", "csv", "-1,0"],
        ["convert", "data.zarr", "--to", "2", "new.zarr", "--dry-run", "--recode"],
        ["rechunk", "data.zarr/cube", "--chunks", "-1,1,1", "new.zarr"],
        ["diff", "data.zarr", "--only", "values", "data.zarr"],
    ],
)
def test_options_between_arguments(data: Path, run: Run, words: list[str]) -> None:
    """Options may follow arguments; an argument like -1 is no option."""
    code, _, err = run(*words)
    assert (code, err) == (0, "")


@pytest.mark.parametrize("words", [["=1"], ["x", "y=1"], ["x", "--delete", "y"]])
def test_attrs_ambiguous_arguments_raise(data: Path, run: Run, words: list[str]) -> None:
    """Ambiguous arguments raise an error and change nothing."""
    assert run("attrs", "data.zarr/cube", *words)[0] == 1
    assert len(tessarr.open("data.zarr/cube").attrs) == 2


# rm


def test_rm(data: Path, run: Run) -> None:
    """The command removes an array with its remaining folder."""
    assert "would delete 3 objects" in run("rm", "data.zarr/deep/line", "-n")[1]
    assert (data / "data.zarr/deep/line").exists()
    code, out, _ = run("rm", "data.zarr/deep/line", "--json")
    assert code == 0
    assert json.loads(out)["objects"] == 3
    assert "deep/line" not in tessarr.open_group("data.zarr")
    assert not (data / "data.zarr/deep/line").exists()


def test_rm_of_group(data: Path, run: Run) -> None:
    """Removal of a group needs the option -r."""
    code, _, err = run("rm", "data.zarr/deep")
    assert code == 1
    assert "is a group of 1 member: give -r" in err
    assert run("rm", "-r", "data.zarr/deep")[0] == 0
    assert list(tessarr.open_group("data.zarr")) == ["cube"]
    assert run("rm", "-r", "data.zarr")[0] == 0
    assert not (data / "data.zarr").exists()


def test_rm_of_absent_node_raises(data: Path, run: Run) -> None:
    """The command does not remove folders that hold no node."""
    (data / "mine").mkdir()
    (data / "mine/letter").write_text("dear")
    for name in ("mine", "data.zarr/cube/c", "nothing"):
        assert run("rm", "-r", name)[0] == 1
        assert run("rm", "-rf", name)[:2] == (0, "there is nothing to delete\n")
    assert (data / "mine/letter").read_text() == "dear"
    assert tessarr.open_array("data.zarr/cube")[0, 0, 1] == 1


def test_rm_of_unreadable_node_needs_force(data: Path, run: Run) -> None:
    """The option -f removes the node."""
    (data / "data.zarr/cube/zarr.json").write_text("{")
    assert run("rm", "data.zarr/cube")[0] == 1
    assert run("rm", "-f", "data.zarr/cube")[0] == 0
    assert not (data / "data.zarr/cube").exists()


# migrate


def test_migrate(old: Path, run: Run) -> None:
    """Format 1 becomes format 2; other keys remain unchanged."""
    assert "would be of format 2" in run("migrate", "old", "-n")[1]
    assert (old / "meta").exists()
    assert json.loads(run("migrate", "old", "--json")[1]) == {"from": 1, "to": 2, "done": True}
    assert tessarr.open_array("old")[:].tolist() == [1, 2, 3]
    code, _, err = run("migrate", "old")
    assert code == 1
    assert "is of format 2: only format 1 is migrated" in err


@pytest.mark.slow
def test_warnings_are_one_line(here: Path, run: Run) -> None:
    """A warning is one line on stderr, without a source location, and the command succeeds."""
    tessarr.create_array("a", data=[1.0, 2.0], zarr_format=2, fill_value=-1)
    document = json.loads((here / "a/.zarray").read_text())
    (here / "a/.zarray").write_text(json.dumps({**document, "filters": []}))
    code, out, err = run("cat", "a")
    assert (code, out) == (0, "1.0\n2.0\n")
    assert err.startswith("tessarr: warning: ")
    assert len(err.splitlines()) == 1
