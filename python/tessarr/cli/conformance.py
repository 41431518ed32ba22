"""``tessarr-conformance --array_path=DIR``: print all elements of an array for test suites.

The conformance suite of the Zarr developers runs each implementation as a command with this
option and compares the output. The output is a JSON list of all elements in C order. Each element
has format 3's JSON form of fill values.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from tessarr.api.open import open_array
from tessarr.errors import TessarrError, TessarrWarning

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tessarr.array import Array

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Parameters
    ----------
    arguments
        The arguments after the name of the command; by default those of `sys.argv`.

    Returns
    -------
    int
        The exit code: 0, or 1 if the array cannot be read; stderr then has the error.

    Examples
    --------
    >>> import tessarr
    >>> _ = tessarr.create_array("memory://all", shape=(2, 2), data=[[0, 1.5], [-0.0, np.nan]])
    >>> main(["--array_path=memory://all"])
    [0.0, 1.5, -0.0, "NaN"]
    0
    """
    parser = argparse.ArgumentParser(
        prog="tessarr-conformance",
        description="Print the elements of a Zarr array in C order as a JSON list, each in the "
        "form that format 3 has for a fill value of the type.",
    )
    parser.add_argument("--array_path", metavar="DIR", required=True, help="a folder or a URL")
    path: str = parser.parse_args(arguments).array_path
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TessarrWarning)
            array = open_array(path, "r")
        separator = "["
        for element in _iterate_elements(array):
            sys.stdout.write(separator + json.dumps(element))
            separator = ", "
        sys.stdout.write("[]\n" if separator == "[" else "]\n")
    except (TessarrError, OSError) as error:
        sys.stderr.write(f"tessarr-conformance: {error}\n")
        return 1
    return 0


def _iterate_elements(array: Array) -> Iterator[Any]:
    """Yield the elements as JSON; read one row of chunks at a time."""
    data_type = array.metadata.data_type
    step = array.chunks[0] if array.ndim else 1
    for start in range(0, len(array) if array.ndim else 1, step):
        values = np.asarray(array[start : start + step] if array.ndim else array[()])
        if values.dtype.kind in "OT":
            items = (data_type.cast_fill(item) for item in values.ravel())
        else:
            data, size = values.tobytes(), values.itemsize
            items = (
                data[start_byte : start_byte + size] for start_byte in range(0, len(data), size)
            )
        for item in items:
            yield data_type.fill_to_json(item, 3)
