"""``tessarr copy`` and ``tessarr rechunk``."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest

import tessarr
from tessarr.cli import main

VALUES = np.arange(6000, dtype="f4").reshape(60, 100)


@pytest.fixture
def source(tmp_path: Path) -> str:
    group = tessarr.create_group(tmp_path / "old")
    group.create_array(
        "a/v", data=VALUES, chunks=(1, 100), dimension_names=["time", "x"], attributes={"u": "m"}
    )
    group.create_array("a/time", data=np.arange(60), dimension_names=["time"])
    return str(tmp_path / "old")


def test_copy_copies_hierarchy_and_prints_summary(
    source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = str(tmp_path / "new")
    assert main(["copy", source, target, "--chunks", "time=60,x=10", "--format", "2"]) == 0
    assert capsys.readouterr().out == "copied 2 arrays of 23.9K\n"
    new = tessarr.open_group(target, "r")
    assert new["a/v"].chunks == (60, 10)
    assert new.zarr_format == 2
    np.testing.assert_array_equal(new["a/v"][...], VALUES)


def test_copy_options_set_array_properties(source: str, tmp_path: Path) -> None:
    target = str(tmp_path / "new")
    options = ["--chunks", "10,10", "--shards", "30,50", "--dtype", "f8", "--fill-value", "-1"]
    options += ["--compressors", "zstd", "--select", "[0:30, ::2]", "--memory", "1MB"]
    assert main(["copy", f"{source}/a/v", target, *options]) == 0
    new = tessarr.open_array(target, "r")
    assert (new.chunks, new.shards) == ((10, 10), (30, 50))
    assert (str(new.dtype), new.fill_value) == ("float64", -1)
    assert isinstance(new.compressors[0], tessarr.Zstd)
    np.testing.assert_array_equal(new[...], VALUES[:30, ::2])
    plain = str(tmp_path / "plain")
    assert main(["copy", target, plain, "--shards", "none", "--compressors", "none"]) == 0
    assert tessarr.open_array(plain).shards is None
    assert tessarr.open_array(plain).compressors == ()


def test_rechunk_needs_chunks_or_shards(
    source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["rechunk", f"{source}/a/v", f"{source}/a/w"]) == 1
    assert "--chunks" in capsys.readouterr().err
    assert main(["rechunk", f"{source}/a/v", f"{source}/a/w", "--chunks", "60,1"]) == 0
    group = tessarr.open_group(source, "r")
    np.testing.assert_array_equal(group["a/w"][...], VALUES)


def test_copy_dry_run_prints_plan(
    source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = str(tmp_path / "new")
    assert main(["copy", source, target, "--dry-run"]) == 0
    assert "/a/v: array, 24,000 bytes, chunks (1, 100), as they are" in capsys.readouterr().out
    assert main(["copy", source, target, "-n", "--json", "--chunks", "auto"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert not plan["done"]
    assert plan["size_bytes"] == 24480
    assert not Path(target).exists()


def test_copy_with_little_memory_suggests_scratch(
    source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["rechunk", f"{source}/a/v", str(tmp_path / "new"), "--chunks", "60,1"]
    arguments += ["--memory", "4KB"]
    assert main([*arguments, "--dry-run"]) == 0
    output = capsys.readouterr()
    assert re.search(r"read \d+\.\d times and re-encoded", output.out)
    assert "--scratch" in output.err
    assert main([*arguments, "--scratch", str(tmp_path)]) == 0
    assert capsys.readouterr().err == ""
    np.testing.assert_array_equal(tessarr.open_array(tmp_path / "new")[...], VALUES)


@pytest.mark.parametrize(
    "wrong",
    [
        ["--chunks", "a,b"],
        ["--chunks", "1,2,3"],
        ["--fill-value", "{"],
        ["--compressors", "{"],
        ["--compressors", "nonesuch"],
        ["--compressors", "zstd:much"],
        ["--select", "0:3"],
    ],
)
def test_copy_invalid_option_changes_nothing(
    source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], wrong: list[str]
) -> None:
    assert main(["copy", source, str(tmp_path / "new"), *wrong]) == 1
    error = capsys.readouterr().err
    assert error.startswith("tessarr: ")
    assert error.count("\n") <= 2
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("size", ["much", "0", "-1M", "1X", "inf", "nan", ""])
def test_invalid_size_raises(source: str, tmp_path: Path, size: str) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["copy", source, str(tmp_path / "new"), f"--memory={size}"])
    assert caught.value.code == 2
    assert not (tmp_path / "new").exists()


def test_copy_needs_overwrite_for_existing_target(
    source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = str(tmp_path / "new")
    assert main(["copy", source, target]) == 0
    assert main(["copy", source, target]) == 1
    assert "overwrite" in capsys.readouterr().err
    assert main(["copy", source, target, "--overwrite", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["done"]


def test_copy_takes_names_of_dimensions_and_levels_of_codecs(tmp_path: Path) -> None:
    source, target = str(tmp_path / "a"), str(tmp_path / "b")
    tessarr.create_array(source, data=VALUES, dimension_names=["x", "y"], zarr_format=3)
    assert main(["copy", source, target, "--select", "y=2:4", "--compressors", "zstd:7"]) == 0
    copied = tessarr.open_array(target)
    np.testing.assert_array_equal(copied[...], VALUES[:, 2:4])
    assert copied.compressors == (tessarr.Zstd(7),)


def test_hdf5_file_is_copied_whole_or_by_node(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file.create_dataset("g/v", data=VALUES, chunks=(7, 9))
    assert main(["copy", str(tmp_path / "f.h5"), str(tmp_path / "a")]) == 0
    np.testing.assert_array_equal(tessarr.open_array(tmp_path / "a", path="g/v")[...], VALUES)
    arguments = ["copy", str(tmp_path / "f.h5"), str(tmp_path / "b"), "--node", "g/v"]
    assert main(arguments) == 0
    np.testing.assert_array_equal(tessarr.open_array(tmp_path / "b")[...], VALUES)


def test_copy_command_resumes_complete_copy_with_success(
    source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = str(tmp_path / "new")
    assert main(["copy", source, target]) == 0
    capsys.readouterr()
    assert main(["copy", source, target, "--resume"]) == 0
    shown = capsys.readouterr()
    assert shown.out == "nothing was left to do: the copy is complete, 2 arrays of 23.9K\n"
    assert not shown.err
    assert main(["copy", source, target, "--resume", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["was_complete"] is True
    assert main(["copy", source, target, "--resume", "--chunks", "time=2"]) == 1


def test_copy_to_foreign_suffix_raises(
    tmp_path: Path, source: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("new.h5", "new.NC", "new.npy"):
        assert main(["copy", source, str(tmp_path / name)]) == 1
        assert "copies are stores of Zarr" in capsys.readouterr().err
        assert not (tmp_path / name).exists()


@pytest.mark.slow
@pytest.mark.parametrize("signal_", [signal.SIGINT, signal.SIGKILL])
def test_killed_copy_is_resumed(
    tmp_path: Path, signal_: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    values = np.random.default_rng(0).integers(0, 9, (3000, 2000))
    tessarr.create_array(tmp_path / "old", data=values, chunks=(10, 2000))
    target = tmp_path / "new"
    arguments = ["copy", str(tmp_path / "old"), str(target), "--chunks", "50,50"]
    arguments += ["--memory", "2MB"]
    process = subprocess.Popen(
        [sys.executable, "-m", "tessarr", *arguments],
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    deadline = time.monotonic() + 60
    while not (target / "c" / "4").exists() and time.monotonic() < deadline:
        time.sleep(0.002)
    process.send_signal(signal_)
    _, error = process.communicate(timeout=60)
    if signal_ == signal.SIGINT:
        assert process.returncode == 130, error
        assert b"--resume" in error
    assert process.returncode != 0
    assert not (target / "zarr.json").exists()
    assert main([*arguments]) == 1
    assert "resume" in capsys.readouterr().err
    assert main([*arguments, "--resume"]) == 0
    np.testing.assert_array_equal(tessarr.open_array(target, "r")[...], values)
    assert not list(target.glob(".tessarr*"))


def without_directory(path: Path) -> None:
    """Truncate a Zip file as after the kill of its writer."""
    with zipfile.ZipFile(path) as file:
        end = file.start_dir
    os.truncate(path, end)


@pytest.mark.parametrize("option", ["--resume", "--overwrite"])
def test_killed_copy_to_zip_file(
    source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    """An option continues or restarts the copy; without one, the file remains unchanged."""
    target = tmp_path / "new.zip"

    def stop(done: int, total: int) -> None:
        if done > total // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tessarr.copy_to(source, target, chunks={"x": 7}, progress=stop)
    without_directory(target)
    left = target.read_bytes()
    arguments = ["copy", source, str(target), "--chunks", "x=7"]
    for others in ([], ["--dry-run", option]):
        assert main([*arguments, *others]) == 1
        assert "--resume" in capsys.readouterr().err
        assert target.read_bytes() == left
    assert main([*arguments, option]) == 0
    np.testing.assert_array_equal(tessarr.open_array(target, path="a/v", mode="r")[...], VALUES)
    assert zipfile.ZipFile(target).testzip() is None


@pytest.mark.slow
def test_interrupted_copy_prints_resume_hint(
    source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "new"

    def stop(done: int, total: int) -> None:
        if done > total // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tessarr.copy_to(source, target, chunks={"x": 7}, progress=stop)
    assert main(["copy", source, str(target), "--chunks", "x=7"]) == 1
    err = capsys.readouterr().err
    assert "was interrupted" in err
    assert "--resume" in err


def test_copy_absent_scratch_folder_raises(
    source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "new"
    assert main(["copy", source, str(target), "--scratch", str(tmp_path / "absent")]) == 1
    assert "is not an existing folder" in capsys.readouterr().err
    assert not target.exists()
