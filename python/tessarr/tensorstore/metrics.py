"""Metrics of file requests in this process, under TensorStore's names."""

from __future__ import annotations

from typing import Any, Final

from tessarr._engine import as_bool, count_local_requests
from tessarr._safe_repr import safe_repr
from tessarr.format.registry import set_public_module

__all__ = [
    "experimental_collect_matching_metrics",
    "experimental_collect_prometheus_format_metrics",
]

_PREFIX: Final = "/tensorstore/kvstore/file/"
# By TensorStore's name: the counter of the store, and its description.
_FILE_METRICS: Final = {
    "batch_read": ("reads", "reads of files that are open"),
    "bytes_read": ("read_bytes", "bytes read"),
    "bytes_written": ("written_bytes", "bytes written"),
    "delete_range": ("delete_prefixes", "folders deleted"),
    "list": ("lists", "folders listed"),
    "open_read": ("opens", "files opened for reading, or found absent"),
    "read": ("opens", "values looked up"),
    "write": ("updates", "values written or deleted"),
}


def experimental_collect_matching_metrics(
    metric_prefix: str = "",
    include_zero_metrics: bool = False,  # noqa: FBT002 (TensorStore's signature)
) -> list[dict[str, Any]]:
    """Return counts of the file requests of this process.

    Parameters
    ----------
    metric_prefix
        The prefix of the metrics to return.
    include_zero_metrics
        Whether to include metrics without requests.

    Notes
    -----
    The eight counts cover all file stores of the process together.
    `tessarr.store.wrappers.instrumented.CountingStore` counts the requests of a single store.

    Examples
    --------
    >>> import tessarr.tensorstore as ts
    >>> ts.experimental_collect_matching_metrics("/tensorstore/kvstore/file/none")
    []
    """
    with_zeros = as_bool(include_zero_metrics, "include_zero_metrics")
    return [
        {"name": name, "values": [{"value": count}]}
        for name, _, count in _read_metrics(metric_prefix)
        if count or with_zeros
    ]


def experimental_collect_prometheus_format_metrics(metric_prefix: str = "") -> list[str]:
    """Return counts of the file requests of this process, as lines in Prometheus's text format.

    Parameters
    ----------
    metric_prefix
        The prefix of the metrics to return.

    Examples
    --------
    >>> import tessarr.tensorstore as ts
    >>> lines = ts.experimental_collect_prometheus_format_metrics("/tensorstore/kvstore/file/list")
    >>> lines[0]
    '# HELP tensorstore_kvstore_file_list folders listed'
    """
    lines: list[str] = []
    for name, meaning, count in _read_metrics(metric_prefix):
        plain = name[1:].replace("/", "_")
        lines.append(f"# HELP {plain} {meaning}")
        if meaning.startswith("bytes"):
            lines.append(f"# UNIT {plain} bytes")
        lines.append(f"{plain} {count}")
    return lines


def _read_metrics(prefix: str) -> list[tuple[str, str, int]]:
    """Return the name, description and count of each metric with a prefix."""
    if not isinstance(prefix, str):
        raise TypeError(f"metric_prefix {safe_repr(prefix)} is not a string")
    counts = count_local_requests()
    return [
        (_PREFIX + name, meaning, counts[counted])
        for name, (counted, meaning) in _FILE_METRICS.items()
        if (_PREFIX + name).startswith(prefix)
    ]


set_public_module(
    "tessarr.tensorstore",
    experimental_collect_matching_metrics,
    experimental_collect_prometheus_format_metrics,
)
