"""``tessarr advise``: recommend chunks and codecs by measuring."""

from __future__ import annotations

import json
import math
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal

from tessarr.cli.advise_layouts import (
    Access,
    Layout,
    list_compressors,
    suggest_chunk_shapes,
    suggest_shard_shape,
)
from tessarr.cli.advise_measure import Link, measure_layout, take_sample
from tessarr.cli.node_argument import add_node_verb, get_node_argument
from tessarr.cli.option_types import parse_size
from tessarr.cli.output import format_duration, format_json, track_progress
from tessarr.cli.selection import parse_selection, to_ranges
from tessarr.cli.storage_options import format_storage_options
from tessarr.cli.tables import format_columns, wrap_text
from tessarr.errors import ArgumentError, SelectionError, TessarrError
from tessarr.node.info import format_size
from tessarr.store import LocalStore

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

    from tessarr.array import Array
    from tessarr.cli.advise_measure import Measurement, Sample
    from tessarr.codec import Codec
    from tessarr.types import JSONObject, Shape

__all__ = ["add_to"]

_LOCAL_LINK: Final = Link(latency_s=0.0001, bytes_per_s=5e8, concurrency=4)
_REMOTE_LINK: Final = Link(latency_s=0.03, bytes_per_s=1e8, concurrency=8)

_WEIGHTS: Final = {"reading": 1.0, "size": 1.0, "writing": 0.1}
_OBJECT_WEIGHT: Final = 0.02
"""The weight of the object count, which decides between layouts of nearly equal cost."""
_PREFERRED_FACTOR: Final = 4.0
_MAX_ROWS: Final = 10


def add_to(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb to the command."""
    parser = add_node_verb(
        verbs,
        "advise",
        _run,
        help="recommend chunks and codecs by measuring",
        description="Store a sample of an array temporarily with different chunks, shards and "
        "codecs, read the selections, and estimate for the whole array: size, time to write, and "
        "requests, bytes and time of each read. The array stays unchanged; the output includes "
        "the command for a copy.",
        epilog="example: tessarr advise data.zarr/t --read '[0, :, :]' --read '[:, 5, 5]'",
    )
    parser.add_argument(
        "--read",
        metavar="SELECTION",
        action="append",
        default=[],
        help="a typical read; repeat the option for several, or to weight one; by default a plane "
        "across each axis",
    )
    parser.add_argument(
        "--sample",
        type=parse_size,
        default="32M",
        metavar="BYTES",
        help="the size of the sample (32M)",
    )
    parser.add_argument("--prefer", choices=tuple(_WEIGHTS), help="the cost with more weight")
    parser.add_argument(
        "--latency",
        type=float,
        metavar="MS",
        help="the latency of a request: 0.1 for folders, else 30",
    )
    parser.add_argument(
        "--bandwidth",
        type=parse_size,
        metavar="BYTES",
        help="bytes per second: 500M for folders, else 100M",
    )
    parser.add_argument("--target", metavar="DST", help="the target in the printed command")
    parser.add_argument("--all", action="store_true", help="print all measurements")


def _run(arguments: argparse.Namespace) -> int:
    array = get_node_argument(arguments).open_array()
    if not array.size or not array.ndim:
        raise ArgumentError(f"array {array.name!r} has too few elements to be divided")
    accesses = [_parse_access(array, text) for text in arguments.read or _list_planes(array.ndim)]
    link = _LOCAL_LINK if isinstance(array._store, LocalStore) else _REMOTE_LINK
    if arguments.latency is not None:
        link = replace(link, latency_s=arguments.latency / 1000)
    if arguments.bandwidth is not None:
        link = replace(link, bytes_per_s=arguments.bandwidth)
    weights = {
        name: weight * (_PREFERRED_FACTOR if name == arguments.prefer else 1)
        for name, weight in _WEIGHTS.items()
    }
    sample = take_sample(array, arguments.sample)
    meta = array.metadata
    shards = next(meta.chunk_grid.shapes()) if meta.is_sharded else None
    current_layout = Layout(meta.chunk_shape, shards, tuple(array.compressors))
    measurements = _measure_layouts(sample, current_layout, accesses, link, weights)
    best = measurements[0]
    command = _build_command(arguments, array, best.layout)
    if arguments.json:
        document = {
            "sample": {"starts": list(sample.starts), "shape": list(sample.values.shape)},
            "link": {
                "latency_s": link.latency_s,
                "bytes_per_s": link.bytes_per_s,
                "at_once": link.concurrency,
            },
            "reads": [access.text for access in accesses],
            "layouts": [
                _to_document(measurement, array, current_layout) for measurement in measurements
            ],
            "command": None if best.layout == current_layout else command,
        }
        print(format_json(document))
        return 0
    _print_head(array, sample, accesses, link)
    by_layout = {measurement.layout: measurement for measurement in measurements}
    current = by_layout[current_layout]
    shown = measurements if arguments.all else measurements[:_MAX_ROWS]
    _print_table(shown if current in shown else [*shown, current], current_layout, accesses)
    if best.layout == current_layout:
        print("\nIt is stored best as it is, of all that was measured.")
        return 0
    gain = wrap_text(_describe_gain(best, current, accesses))
    print(f"\n{gain}\n\n    {command}")  # the terminal wraps it, so that it can be copied
    return 0


def _parse_access(array: Array, text: str) -> Access:
    try:
        access = Access(text, tuple(to_ranges(parse_selection(text, array), array.shape)))
    except SelectionError as error:
        raise ArgumentError(f"--read {text!r}: {error}") from error
    if not all(access.ranges):
        raise ArgumentError(f"--read {text!r} selects nothing")
    return access


def _list_planes(rank: int) -> list[str]:
    if rank == 1:
        return ["[:]", "[:1000]"]
    return [
        f"[{', '.join('0' if position == axis else ':' for position in range(rank))}]"
        for axis in range(rank)
    ]


def _get_format(array: Array) -> Literal[2, 3]:
    return 3 if array.zarr_format == 3 else 2


def _measure_layouts(
    sample: Sample,
    current_layout: Layout,
    accesses: Sequence[Access],
    link: Link,
    weights: dict[str, float],
) -> list[Measurement]:
    """Measure codecs with one chunk shape, then chunk shapes with the best codecs; best first."""
    array = sample.array
    measurements: dict[Layout, Measurement] = {}

    def measure_all(layouts: Iterable[Layout], label: str) -> list[Measurement]:
        new = [layout for layout in dict.fromkeys(layouts) if layout not in measurements]
        for layout in track_progress(label, new, len(new)):
            try:
                measurements[layout] = measure_layout(sample, layout, accesses, link)
            except TessarrError:
                if layout == current_layout:
                    raise
        return _rank_measurements(measurements.values(), weights)

    measure_all([current_layout], "as it is now")
    candidates = list_compressors(array.dtype, _get_format(array))
    ranked = measure_all(
        (replace(current_layout, compressors=codecs) for codecs in candidates), "codecs"
    )
    codecs = [measurement.layout.compressors for measurement in ranked]
    shapes = suggest_chunk_shapes(array.shape, max(array.itemsize, 1), accesses)
    shards: list[Shape | None] = [None] * len(shapes)
    if array.zarr_format == 3:
        shards = [
            suggest_shard_shape(chunks, array.shape, max(array.itemsize, 1)) for chunks in shapes
        ]
    # If no compression is best with the current chunks, also try the best compressor.
    tried_with = [codecs[0], *[codec for codec in codecs if codec != ()][: codecs[0] == ()]]
    layouts = [
        Layout(chunks, shard, codec)
        for codec in tried_with
        for chunks, full_shard in zip(shapes, shards, strict=True)
        for shard in dict.fromkeys((None, full_shard))
    ]
    ranked = measure_all(layouts, "chunks")
    best = [measurement.layout for measurement in ranked[:3]]
    return measure_all(
        (replace(measurement, compressors=codec) for measurement in best for codec in codecs),
        "both",
    )


def _rank_measurements(
    measurements: Iterable[Measurement], weights: dict[str, float]
) -> list[Measurement]:
    """Return the measurements by the weighted product of their costs, best first."""

    def get_score(measurement: Measurement) -> float:
        reading = sum(math.log(max(cost.seconds, 1e-9)) for cost in measurement.reads) / len(
            measurement.reads
        )
        return (
            weights["reading"] * reading
            + weights["size"] * math.log(max(measurement.stored_bytes, 1))
            + weights["writing"] * math.log(max(measurement.writing_s, 1e-9))
            + _OBJECT_WEIGHT * math.log(max(measurement.objects, 1))
        )

    return sorted(measurements, key=get_score)


def _print_head(array: Array, sample: Sample, accesses: Sequence[Access], link: Link) -> None:
    extent = " × ".join(map(str, sample.values.shape))
    size, rate = format_size(sample.values.nbytes), format_size(round(link.bytes_per_s))
    print(wrap_text(repr(array), "    "))
    print(wrap_text(f"measured with a sample of {extent} ({size}), scaled to the whole array"))
    print(f"a request takes {_format_time(link.latency_s)}, bytes come at {rate}/s\n")
    for number, access in enumerate(accesses, 1):
        print(f"read {number}: {access.text}")


def _print_table(
    measurements: Sequence[Measurement],
    current_layout: Layout,
    accesses: Sequence[Access],
) -> None:
    numbers = range(1, len(accesses) + 1)
    heads = [f">{word}" for number in numbers for word in (f"read {number}:", "bytes", "time")]
    rows = [["", "chunks", "shards", "codec", ">objects", ">stored", ">write", *heads]]
    for measurement in measurements:
        layout = measurement.layout
        rows.append(
            [
                "now" if layout == current_layout else "",
                _format_lengths(layout.chunks),
                _format_lengths(layout.shards) if layout.shards else "–",
                " ".join(map(_format_codec, layout.compressors)) or "none",
                f">{measurement.objects:,}",
                f">{format_size(measurement.stored_bytes)}",
                f">{_format_time(measurement.writing_s)}",
            ]
        )
        for cost in measurement.reads:
            words = (
                f"{cost.requests:,} req",
                format_size(cost.size_bytes),
                _format_time(cost.seconds),
            )
            rows[-1] += [f">{word}" for word in words]
    print(f"\n{format_columns(rows)}")


def _format_lengths(lengths: Shape) -> str:
    return ",".join(map(str, lengths))


def _format_time(seconds: float) -> str:
    return format_duration(seconds) if seconds >= 1 else f"{1000 * seconds:.3g} ms"


def _format_codec(codec: Codec) -> str:
    """Return a short text for a codec."""
    try:
        settings: JSONObject = {"id": "", **codec.to_json(2)}
        name = settings["id"]
    except TessarrError:  # it has no name in format 2
        form = codec.to_json(3)
        name, settings = form["name"], form.get("configuration", {})
    if name == "blosc":
        shuffle = ("", "+shuffle", "+bitshuffle")[max(settings["shuffle"], 0)]
        return f"blosc-{settings['cname']}-{settings['clevel']}{shuffle}"
    return f"{name}-{settings['level']}" if "level" in settings else str(name)


def _describe_gain(best: Measurement, current: Measurement, accesses: Sequence[Access]) -> str:
    words = [
        f"{access.text} in {_format_time(new.seconds)} instead of {_format_time(old.seconds)}"
        for access, old, new in zip(accesses, current.reads, best.reads, strict=True)
    ]
    size = best.stored_bytes / max(current.stored_bytes, 1)
    return f"The first is best: {'; '.join(words)}; {100 * size:.0f} % of the size. To have it:"


def _to_document(measurement: Measurement, array: Array, current_layout: Layout) -> JSONObject:
    layout = measurement.layout
    return {
        "current": layout == current_layout,
        "chunks": list(layout.chunks),
        "shards": list(layout.shards) if layout.shards else None,
        "compressors": [codec.to_json(_get_format(array)) for codec in layout.compressors],
        "objects": measurement.objects,
        "stored_bytes": measurement.stored_bytes,
        "writing_s": measurement.writing_s,
        "reads": [cost.asdict() for cost in measurement.reads],
    }


def _build_command(arguments: argparse.Namespace, array: Array, layout: Layout) -> str:
    """Return the command that copies the array to a new layout."""
    words: list[str] = ["tessarr", "copy", arguments.path, arguments.target or "NEW"]
    if arguments.node:
        words += ["--node", arguments.node]
    words += format_storage_options(arguments, "source")
    words += ["--chunks", _format_lengths(layout.chunks)]
    if layout.shards is not None:
        words += ["--shards", _format_lengths(layout.shards)]
    elif array.shards is not None:
        words += ["--shards", "none"]
    if layout.compressors != tuple(array.compressors):
        codecs = [json.dumps(codec.to_json(_get_format(array))) for codec in layout.compressors]
        for text in codecs or ["none"]:
            words += ["--compressors", text]
    return shlex.join(words)
