"""Metrics of file requests equal TensorStore's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tessarr.tensorstore as ours

theirs = pytest.importorskip("tensorstore", reason="compared with TensorStore's own")

FILES = "/tensorstore/kvstore/file/"
NAMES = (
    *("batch_read", "bytes_read", "bytes_written", "delete_range"),
    *("list", "open_read", "read", "write"),
)


def counted(ts: Any) -> dict[str, int]:
    metrics = ts.experimental_collect_matching_metrics(FILES, include_zero_metrics=True)
    numbers = {metric["name"]: metric["values"][0].get("value") for metric in metrics}
    return {name: numbers[FILES + name] for name in NAMES}


def of_calls(ts: Any, folder: Path) -> dict[str, int]:
    """Return the increase of the counts after a number of calls."""
    store = ts.KvStore.open({"driver": "file", "path": f"{folder}/"}).result()
    before = counted(ts)
    store["a"] = b"0123456789"
    store["b/c"] = b"01"
    assert store["a"] == b"0123456789"
    assert store.read("b/c").result().value == b"01"
    assert store.read("none").result().state == "missing"
    assert store.list().result()
    store.write("a", None).result()
    store.write("none", None).result()
    store.delete_range(ts.KvStore.KeyRange("", "")).result()
    after = counted(ts)
    return {name: after[name] - before[name] for name in NAMES}


def test_counts_of_calls(tmp_path: Path) -> None:
    mine, real = of_calls(ours, tmp_path / "ours"), of_calls(theirs, tmp_path / "theirs")
    assert mine == real


@pytest.mark.parametrize("ts", [ours, theirs], ids=["ours", "theirs"])
def test_metrics_are_selected_by_prefix(ts: Any, tmp_path: Path) -> None:
    of_calls(ts, tmp_path)
    metrics = ts.experimental_collect_matching_metrics(f"{FILES}bytes_")
    assert [metric["name"] for metric in metrics] == [f"{FILES}bytes_read", f"{FILES}bytes_written"]
    assert all(metric["values"][0]["value"] > 0 for metric in metrics)
    assert ts.experimental_collect_matching_metrics("kvstore") == []
    with pytest.raises(TypeError):
        ts.experimental_collect_matching_metrics(5)


@pytest.mark.parametrize("ts", [ours, theirs], ids=["ours", "theirs"])
def test_lines_for_prometheus(ts: Any, tmp_path: Path) -> None:
    of_calls(ts, tmp_path)
    lines = ts.experimental_collect_prometheus_format_metrics(f"{FILES}bytes_read")
    assert lines[0].startswith("# HELP tensorstore_kvstore_file_bytes_read ")
    assert lines[1] == "# UNIT tensorstore_kvstore_file_bytes_read bytes"
    name, number = lines[2].split()
    assert (name, int(number) > 0) == ("tensorstore_kvstore_file_bytes_read", True)
