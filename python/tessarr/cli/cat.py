"""``tessarr cat PATH [SELECTION]``: print the values of an array."""

from __future__ import annotations

import csv
import json
import sys
from base64 import b64encode
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tessarr import dtype as dtypes
from tessarr.cli.node_argument import add_node_verb, get_node_argument
from tessarr.cli.selection import SELECTION_HELP, parse_selection, split_selection
from tessarr.dtype.element_text import format_elements
from tessarr.errors import ArgumentError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from tessarr.types import Shape

__all__ = ["add_to"]

_PART_BYTES: Final = 64 << 20
_RUN_ELEMENTS: Final = 1 << 16
"""The number of elements that are formatted together."""


def add_to(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb to the command."""
    parser = add_node_verb(
        verbs,
        "cat",
        _run,
        reads_files=True,
        help="print values of an array",
        description="Print the values of an array or of a selection. Each line holds one row of "
        "the last axis, and empty lines separate planes. Large arrays are read in parts.",
        epilog="example: tessarr cat data.zarr/temperature '[0:10, ::2]'",
    )
    parser.add_argument(
        "selection",
        metavar="SELECTION",
        nargs="?",
        default="",
        help=SELECTION_HELP,
    )
    parser.add_argument(
        "--format",
        choices=_FORMATS,
        default="text",
        help="text, comma-separated values, JSON, the NumPy file format, or raw bytes",
    )


def _run(arguments: argparse.Namespace) -> int:
    array = get_node_argument(arguments).open_array()
    key = parse_selection(arguments.selection, array)
    form = "json" if arguments.json else arguments.format
    if form in {"npy", "raw"} and sys.stdout.isatty():
        raise ArgumentError(f"--format {form} is no text for a terminal: send it to a file with >")
    max_elements = max(_PART_BYTES // max(array.itemsize, 1), 1)
    parts = (np.asarray(array[part]) for part in split_selection(array, key, max_elements))
    first = next(parts)
    values = _Values(first.dtype, _shape(array.shape, key, first), chain([first], parts))
    _FORMATS[form](values)
    return 0


@dataclass(frozen=True, slots=True)
class _Values:
    """The selected values, part by part in C order."""

    dtype: np.dtype[Any]
    shape: Shape
    parts: Iterator[npt.NDArray[Any]]

    def runs(self) -> Iterator[npt.NDArray[Any]]:
        """Yield runs of consecutive elements."""
        for part in self.parts:
            flat = part.reshape(-1)
            for start in range(0, flat.size, _RUN_ELEMENTS):
                yield flat[start : start + _RUN_ELEMENTS]

    def lines(self) -> Iterator[list[str]]:
        """Yield the words of each line: one line for each row of the last axis."""
        length = self.shape[-1] if len(self.shape) > 1 else 1
        line: list[str] = []
        for run in self.runs():
            words = format_elements(run)
            for word in words:
                line.append(word)
                if len(line) == length:
                    yield line
                    line = []


def _shape(shape: Shape, key: tuple[Any, ...], first: npt.NDArray[Any]) -> Shape:
    """Return the shape of the selection of `key`; `first` is its first part."""
    rest = tuple(part for part in key if not isinstance(part, str))
    if any(isinstance(part, list) for part in rest):
        return first.shape  # a selection with lists has one part
    whole = np.broadcast_to(np.zeros((), "u1"), shape)
    return np.shape(whole[rest])


def _print_text(values: _Values) -> None:
    rows = values.shape[-2] if len(values.shape) > 2 else 0
    for number, line in enumerate(values.lines()):
        if rows and number and number % rows == 0:
            print()
        print(" ".join(line))


def _print_csv(values: _Values) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    if values.dtype.names is None:
        writer.writerows(values.lines())
        return
    writer.writerow(values.dtype.names)
    for run in values.runs():
        columns = [format_elements(run[name]) for name in values.dtype.names]
        writer.writerows(zip(*columns, strict=True))


def _print_json(values: _Values) -> None:
    """Print nested lists; elements have format 3's JSON form of fill values."""
    ends: list[int] = []
    size = 1
    for length in reversed(values.shape):
        size *= length
        ends.append(size)
    if size == 0:
        print(json.dumps(np.zeros(values.shape).tolist()))
        return
    row = ends[0] if ends else 1
    done = 0
    for words in _iterate_json(values):
        position = 0
        while position < len(words):
            brackets = sum(done % end == 0 for end in ends)
            if done:
                indent = ",\n " + " " * (len(ends) - brackets - 1)
                sys.stdout.write("]" * brackets + indent if brackets else ", ")
            count = min(row - done % row, len(words) - position)
            sys.stdout.write("[" * brackets + ", ".join(words[position : position + count]))
            done += count
            position += count
    sys.stdout.write("]" * len(ends) + "\n")


def _iterate_json(values: _Values) -> Iterator[list[str]]:
    """Yield runs of elements as JSON."""
    data_type = None
    for run in values.runs():
        is_number = run.dtype.kind in "iub" or (
            run.dtype.kind == "f" and run.dtype.isbuiltin == 1 and np.isfinite(run).all()
        )
        if is_number:
            yield json.dumps(run.tolist())[1:-1].split(", ")
        elif run.dtype.kind in "OT":
            texts = (str(item) if isinstance(item, str) else _to_json(item) for item in run)
            yield [json.dumps(item) for item in texts]
        else:
            data_type = data_type or dtypes.to_data_type(run.dtype)
            data, size = run.tobytes(), run.itemsize
            items = (data[start : start + size] for start in range(0, len(data), size))
            yield [json.dumps(data_type.fill_to_json(item, 3)) for item in items]


def _to_json(item: Any) -> Any:
    """Return an arbitrary object as JSON."""
    if isinstance(item, bytes | bytearray):
        return b64encode(item).decode()
    if isinstance(item, np.ndarray | np.generic):
        return item.tolist()
    return item


def _write_npy(values: _Values) -> None:
    if values.dtype.hasobject:
        raise ArgumentError(f"--format npy has no elements of data type {values.dtype}")
    header = np.lib.format.header_data_from_array_1_0(np.zeros((), values.dtype))
    out = sys.stdout.buffer
    np.lib.format.write_array_header_2_0(out, {**header, "shape": values.shape})
    _write_raw(values)


def _write_raw(values: _Values) -> None:
    if values.dtype.hasobject:
        raise ArgumentError(f"--format raw has no elements of data type {values.dtype}")
    sys.stdout.flush()
    for part in values.parts:
        sys.stdout.buffer.write(np.ascontiguousarray(part).tobytes())


_FORMATS: Final[dict[str, Callable[[_Values], None]]] = {
    "text": _print_text,
    "csv": _print_csv,
    "json": _print_json,
    "npy": _write_npy,
    "raw": _write_raw,
}
