"""``tessarr copy SRC DST`` and ``tessarr rechunk SRC DST --chunks …``: see `tessarr.copy_to`."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tessarr._safe_repr import to_printable
from tessarr.cli.node_argument import LOCATION_HELP, add_json_option, get_node_arguments
from tessarr.cli.option_types import parse_size
from tessarr.cli.output import Progress, format_json
from tessarr.cli.selection import parse_selection
from tessarr.cli.storage_options import add_storage_options
from tessarr.copying import NOT_COPIED, copy_to
from tessarr.copying.distributed import connect
from tessarr.errors import ArgumentError, TessarrWarning
from tessarr.node.info import format_size

if TYPE_CHECKING:
    import argparse

    from tessarr.cli.node_argument import NodeArgument
    from tessarr.copying import Copy

__all__ = ["add_to"]

_LENGTHS = "lengths for all axes, 100,200, or for some by name, time=10,lat=50; -1 is a whole axis"

_FOREIGN_SUFFIXES: Final = (".h5", ".hdf5", ".nc", ".nc4", ".npy", ".npz")
"""Suffixes of other file formats: a copy rejects a destination with one of them."""


def add_to(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verbs to the command."""
    copy = verbs.add_parser(
        "copy",
        help="copy to any store, with other chunks, codecs or format",
        description="Copy an array, a group with all nodes below it, or an HDF5, netCDF or NumPy "
        "(.npy) file. Properties without an option stay unchanged, and unchanged chunks are not "
        "decoded. --resume continues an interrupted copy.",
    )
    _add_arguments(copy)
    copy.add_argument("--format", type=int, choices=(2, 3), help="the format of the copy")
    copy.add_argument(
        "--select", metavar="SLICES", help="copy a part of an array: '0:10, ::2', or lat=10:20"
    )
    copy.add_argument("--dtype", help="the data type of the new array")
    copy.add_argument("--fill-value", metavar="JSON", help="the fill value of new arrays")
    copy.set_defaults(run=_run)
    rechunk = verbs.add_parser(
        "rechunk",
        help="copy with other chunks, in bounded memory",
        description="Copy an array, or a group with all nodes below it, with other chunks. The "
        "copy reads each chunk as few times as the memory limit allows, and writes each chunk "
        "once. --resume continues an interrupted copy.",
    )
    _add_arguments(rechunk)
    rechunk.set_defaults(run=_run_rechunk, format=None, select=None, dtype=None, fill_value=None)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="SRC", help=LOCATION_HELP)
    parser.add_argument("target", metavar="DST", help="the target, as for SRC")
    parser.add_argument("--node", metavar="NAME", help="the path of a node in SRC")
    for option, purpose in (("--include", "copy only these"), ("--exclude", "omit these")):
        parser.add_argument(
            option,
            metavar="GLOB",
            action="append",
            help=f"{purpose}: the path of an array, or of a group with all nodes below it, such as "
            "'run*/raw'; you can repeat the option",
        )
    parser.add_argument("--chunks", metavar="LENGTHS", help=f"{_LENGTHS}; auto: automatic lengths")
    parser.add_argument("--shards", metavar="LENGTHS", help=f"{_LENGTHS}; none: no shards")
    parser.add_argument(
        "--compressors",
        metavar="CODEC",
        action="append",
        help="a codec: zstd, zstd:5, blosc:cname=lz4,clevel=5 or JSON; none: no compression; "
        "repeat the option for several codecs, in their order",
    )
    parser.add_argument("--filters", metavar="CODEC", action="append", help="as for --compressors")
    parser.add_argument("--overwrite", action="store_true", help="replace an existing node at DST")
    parser.add_argument("--resume", action="store_true", help="continue an interrupted copy")
    parser.add_argument("-n", "--dry-run", action="store_true", help="only say what would be done")
    parser.add_argument(
        "--memory",
        type=parse_size,
        metavar="SIZE",
        help="the memory limit, such as 256M",
    )
    parser.add_argument(
        "--scratch",
        metavar="DIR",
        help="a folder with space for the largest uncompressed array; the copy uses it if the "
        "memory limit prevents reading each chunk once (see --dry-run)",
    )
    parser.add_argument(
        "--dask",
        metavar="ADDRESS",
        help="copy on the workers of the Dask cluster whose scheduler has this address, such as "
        "tcp://host:8786, each within the memory limit; they need access to SRC and DST",
    )
    add_json_option(parser)
    add_storage_options(parser, source="SRC", target="DST")


def _run_rechunk(arguments: argparse.Namespace) -> int:
    if arguments.chunks is None and arguments.shards is None:
        raise ArgumentError("rechunk needs --chunks, --shards or both")
    return _run(arguments)


def _run(arguments: argparse.Namespace) -> int:
    source_argument, target_argument = get_node_arguments(arguments, "source", "target")
    if Path(arguments.target).suffix.lower() in _FOREIGN_SUFFIXES:
        raise ArgumentError(
            f"cannot write {arguments.target!r}: copies are stores of Zarr, which are folders, or "
            "files named .zip or .sqlite"
        )
    source, path = source_argument.resolve()
    target, target_path = target_argument.resolve("a", search_above=True)
    settings = _get_settings(arguments)
    try:
        with (
            connect(arguments.dask) as client,
            Progress("copying", unit="bytes") as bar,
            warnings.catch_warnings(),
        ):
            # The summary lists what the copy omits.
            warnings.filterwarnings("ignore", NOT_COPIED, TessarrWarning)
            result = copy_to(
                source,
                target,
                path=path,
                target_path=target_path,
                select=_parse_select(arguments.select, source_argument),
                include=arguments.include,
                exclude=arguments.exclude,
                zarr_format=arguments.format,
                overwrite=arguments.overwrite,
                resume=arguments.resume,
                dry_run=arguments.dry_run,
                memory_bytes=arguments.memory,
                scratch=arguments.scratch,
                progress=bar,
                client=client,
                **settings,
            )
    except BaseException as error:
        _print_resume_hint(error, arguments)
        raise
    _print_summary(result, arguments)
    return 1 if result.skipped else 0


def _get_settings(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the settings of new arrays that differ from the source."""
    is_auto = arguments.chunks == "auto"
    settings = {
        "chunks": True if is_auto else _parse_lengths(arguments.chunks, "chunks"),
        "shards": _parse_lengths(arguments.shards, "shards"),
        "compressors": _parse_codecs(arguments.compressors, "compressors"),
        "filters": _parse_codecs(arguments.filters, "filters"),
        "dtype": arguments.dtype,
        "fill_value": _parse_json(arguments.fill_value, "--fill-value"),
    }
    return {name: value for name, value in settings.items() if value is not None}


def _parse_select(text: str | None, source: NodeArgument) -> Any:
    if text is None:
        return ...
    # Only names of axes require the metadata of the source.
    return parse_selection(text, source.open_array() if "=" in text else None)


def _print_resume_hint(error: BaseException, arguments: argparse.Namespace) -> None:
    """Print the hint in an error's note with options of the command instead of keywords."""
    for note in getattr(error, "__notes__", ()):
        hint = arguments.own.format_options(note)
        if "--resume" in hint:
            sys.stderr.write(f"tessarr: {hint}\n")


def _print_summary(result: Copy, arguments: argparse.Namespace) -> None:
    max_reads = max((node.decodes for node in result.nodes), default=1.0)
    if max_reads > 2 and arguments.scratch is None and not result.was_complete:
        verb = "would be" if arguments.dry_run else "was"
        sys.stderr.write(
            f"tessarr: each chunk {verb} read {max_reads:.0f} times; more --memory, or --scratch "
            "DIR, saves that\n"
        )
    if arguments.json:
        print(format_json(result.asdict()))
    elif arguments.dry_run:
        print(result)
    else:
        count = sum(node.kind == "array" for node in result.nodes)
        size = f"{count:,} array{'s' * (count != 1)} of {format_size(result.size_bytes)}"
        complete = f"nothing was left to do: the copy is complete, {size}"
        print(complete if result.was_complete else f"copied {size}")
        for link in result.links:
            print(f"link {to_printable(str(link))}")
        for skipped in result.skipped:
            print(f"skipped {to_printable(str(skipped))}")


def _parse_lengths(text: str | None, name: str) -> Any:
    """Return chunk lengths in the form that `tessarr.copy_to` accepts.

    Examples
    --------
    >>> _parse_lengths("10,-1", "chunks"), _parse_lengths("time=5", "chunks")
    ((10, -1), {'time': 5})
    """
    if text is None:
        return None
    if name == "shards" and text == "none":
        return False
    parts = [part.strip() for part in text.strip("()[] ").split(",") if part.strip()]
    try:
        if parts and all("=" in part for part in parts):
            pairs = (part.split("=") for part in parts)
            return {axis.strip(): int(length) for axis, length in pairs}
        return tuple(map(int, parts))
    except ValueError as error:
        raise ArgumentError(f"--{name} {text!r} is not understood: {_LENGTHS}") from error


def _parse_codecs(texts: list[str] | None, name: str) -> Any:
    """Return codecs from names or JSON."""
    if texts is None:
        return None
    if texts == ["none"]:
        return ()
    return [_parse_json(text, f"--{name}") if text.lstrip()[:1] == "{" else text for text in texts]


def _parse_json(text: str | None, name: str) -> Any:
    if text is None:
        return None
    try:
        return json.loads(text)
    except ValueError as error:
        raise ArgumentError(f"{name} {text!r} is not JSON: {error}") from error
