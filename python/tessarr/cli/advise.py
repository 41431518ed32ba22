"""``tessarr advise PATH --read '[0, :, :]'``: how an array had better be stored, measured."""

from __future__ import annotations

import json
import math
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal

from tessarr.cli.advise_layouts import (
    Access,
    Layout,
    chunk_shapes,
    compressors,
    shard_shape,
)
from tessarr.cli.advise_measure import Link, measured, take_sample
from tessarr.cli.node_argument import add_json, add_node, array_at
from tessarr.cli.option_types import size_of_text
from tessarr.cli.output import as_json, columns, duration, progress
from tessarr.cli.selection import parse_selection, ranges_of
from tessarr.errors import ArgumentError, TessarrError
from tessarr.node.info import format_size
from tessarr.store import LocalStore

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

    from tessarr.array import Array
    from tessarr.cli.advise_measure import Measured, Sample
    from tessarr.codec import Codec
    from tessarr.types import JSONObject, Shape

__all__ = ["add_to"]

_NEAR: Final = Link(latency_s=0.0001, bytes_per_s=5e8, at_once=4)
_FAR: Final = Link(latency_s=0.03, bytes_per_s=1e8, at_once=8)

_WEIGHTS: Final = {"reading": 1.0, "size": 1.0, "writing": 0.1}
_OBJECTS: Final = 0.02
"""Of two that are as good, the one of fewer objects."""
_PREFERRED: Final = 4.0
_SHOWN: Final = 10


def add_to(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb to the command."""
    parser = verbs.add_parser(
        "advise",
        help="measure how an array had better be stored",
        description="Take a sample of an array, store it for a moment with other chunks, shards "
        "and codecs, read it in the ways that you name, and say what each would cost for the "
        "whole: size, time to write, and requests, bytes and time of each way of reading. "
        "Nothing is changed; the command that would is printed.",
        epilog="example: tessarr advise data.zarr/t --read '[0, :, :]' --read '[:, 5, 5]'",
    )
    add_node(parser)
    parser.add_argument(
        "--read",
        metavar="SELECTION",
        action="append",
        default=[],
        help="how it is read; may be given several times, twice the same counts double; by "
        "default a plane across each axis",
    )
    parser.add_argument(
        "--sample", type=size_of_text, default="32M", metavar="BYTES", help="of the sample (32M)"
    )
    parser.add_argument(
        "--prefer", choices=tuple(_WEIGHTS), help="what counts more than it does by default"
    )
    parser.add_argument(
        "--latency", type=float, metavar="MS", help="of a request: 0.1 for folders, else 30"
    )
    parser.add_argument(
        "--bandwidth",
        type=size_of_text,
        metavar="BYTES",
        help="a second: 500M for folders, else 100M",
    )
    parser.add_argument("--target", metavar="DST", help="what the printed command copies to")
    parser.add_argument("--all", action="store_true", help="print all that was measured")
    add_json(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    array = array_at(arguments.path, arguments.node)
    if not array.size or not array.ndim:
        raise ArgumentError(f"array {array.name!r} has too few elements to be divided")
    accesses = [_access(array, text) for text in arguments.read or _planes(array.ndim)]
    link = _NEAR if isinstance(array._store, LocalStore) else _FAR
    if arguments.latency is not None:
        link = replace(link, latency_s=arguments.latency / 1000)
    if arguments.bandwidth is not None:
        link = replace(link, bytes_per_s=arguments.bandwidth)
    weights = {
        name: weight * (_PREFERRED if name == arguments.prefer else 1)
        for name, weight in _WEIGHTS.items()
    }
    sample = take_sample(array, arguments.sample)
    now = Layout(_longest(array), _shards(array))
    found = _measure(sample, now, accesses, link, weights)
    best = found[0]
    command = _command(arguments, array, best.layout)
    if arguments.json:
        document = {
            "sample": {"starts": list(sample.starts), "shape": list(sample.values.shape)},
            "link": {
                "latency_s": link.latency_s,
                "bytes_per_s": link.bytes_per_s,
                "at_once": link.at_once,
            },
            "reads": [access.text for access in accesses],
            "layouts": [_document(one, array, now) for one in found],
            "command": None if best.layout == now else command,
        }
        print(as_json(document))
        return 0
    _print_head(array, sample, accesses, link)
    _print_table(array, found if arguments.all else _shown(found, now), now, accesses)
    current = next((one for one in found if one.layout == now), None)
    if best.layout == now:
        print("\nIt is stored best as it is, of all that was measured.")
        return 0
    print(f"\n{_gain(best, current, accesses)}\n\n    {command}")
    return 0


def _access(array: Array, text: str) -> Access:
    ranges = ranges_of(array, parse_selection(text))
    if ranges is None:
        raise ArgumentError(f"--read {text!r}: integers, slices and '...' only")
    # Whatever it selects is checked as the array does.
    for axis, (part, length) in enumerate(zip(ranges, array.shape, strict=True)):
        if isinstance(part, int) and not -length <= part < length:
            raise ArgumentError(f"--read {text!r}: axis {axis} has no index {part}")
        if not isinstance(part, int) and not part:
            raise ArgumentError(f"--read {text!r} selects nothing along axis {axis}")
    return Access(
        text,
        tuple(
            range(part % length, part % length + 1) if isinstance(part, int) else part
            for part, length in zip(ranges, array.shape, strict=True)
        ),
    )


def _planes(rank: int) -> list[str]:
    if rank == 1:
        return ["[:]", "[:1000]"]
    return [
        f"[{', '.join('0' if at == axis else ':' for at in range(rank))}]" for axis in range(rank)
    ]


def _format(array: Array) -> Literal[2, 3]:
    return 3 if array.zarr_format == 3 else 2


def _longest(array: Array) -> Shape:
    return array.metadata.chunk_shape


def _shards(array: Array) -> Shape | None:
    return next(array.metadata.chunk_grid.shapes()) if array.metadata.is_sharded else None


# What is measured


def _measure(
    sample: Sample,
    now: Layout,
    accesses: Sequence[Access],
    link: Link,
    weights: dict[str, float],
) -> list[Measured]:
    """Measure codecs with one chunk shape, chunk shapes with the best codecs; the best first."""
    array = sample.array
    done: dict[Layout, Measured] = {}

    def add(layouts: Iterable[Layout], label: str) -> list[Measured]:
        new = [layout for layout in dict.fromkeys(layouts) if layout not in done]
        for layout in progress(label, new, len(new)):
            try:
                done[layout] = measured(sample, layout, accesses, link)
            except TessarrError:
                if layout == now:
                    raise
        return _ranked(done.values(), weights)

    add([now], "as it is now")
    # Of those that the array has, only one is tried: those that it has.
    every = compressors(array.dtype, _format(array))
    tried = [codecs for codecs in every if codecs != tuple(array.compressors)]
    codecs: list[tuple[Codec, ...] | None] = [
        one.layout.compressors
        for one in add((replace(now, compressors=codec) for codec in tried), "codecs")
    ]
    shapes = chunk_shapes(array.shape, max(array.itemsize, 1), accesses)
    shards: list[Shape | None] = [None] * len(shapes)
    if array.zarr_format == 3:
        shards = [shard_shape(chunks, array.shape, max(array.itemsize, 1)) for chunks in shapes]
    # Where storing plainly is best with the chunks of now, others may be better compressed.
    tried_with = [codecs[0], *[codec for codec in codecs if codec != ()][: codecs[0] == ()]]
    layouts = [
        Layout(chunks, shard, codec)
        for codec in tried_with
        for chunks, whole in zip(shapes, shards, strict=True)
        for shard in dict.fromkeys((None, whole))
    ]
    ranked = add(layouts, "chunks")
    best = [one.layout for one in ranked[:3]]
    return add((replace(one, compressors=codec) for one in best for codec in codecs), "both")


def _ranked(found: Iterable[Measured], weights: dict[str, float]) -> list[Measured]:
    """Return what was measured, the best first: by the weighted product of what it costs."""

    def score(one: Measured) -> float:
        reading = sum(math.log(max(cost.seconds, 1e-9)) for cost in one.reads) / len(one.reads)
        return (
            weights["reading"] * reading
            + weights["size"] * math.log(max(one.stored_bytes, 1))
            + weights["writing"] * math.log(max(one.writing_s, 1e-9))
            + _OBJECTS * math.log(max(one.objects, 1))
        )

    return sorted(found, key=score)


# What is printed


def _print_head(array: Array, sample: Sample, accesses: Sequence[Access], link: Link) -> None:
    extent = " × ".join(map(str, sample.values.shape))
    size, rate = format_size(sample.values.nbytes), format_size(round(link.bytes_per_s))
    print(f"{array!r}\nmeasured with a sample of {extent} ({size}), told for the whole array")
    print(f"a request takes {_time(link.latency_s)}, bytes come at {rate}/s\n")
    for number, access in enumerate(accesses, 1):
        print(f"read {number}: {access.text}")


def _print_table(
    array: Array, found: Sequence[Measured], now: Layout, accesses: Sequence[Access]
) -> None:
    numbers = range(1, len(accesses) + 1)
    heads = [f">{word}" for number in numbers for word in (f"read {number}:", "bytes", "time")]
    rows = [["", "chunks", "shards", "codec", ">objects", ">stored", ">write", *heads]]
    for one in found:
        layout = one.layout
        rows.append(
            [
                "now" if layout == now else "",
                _lengths(layout.chunks),
                _lengths(layout.shards) if layout.shards else "–",
                _codec_words(array, layout),
                f">{one.objects:,}",
                f">{format_size(one.stored_bytes)}",
                f">{_time(one.writing_s)}",
            ]
        )
        for cost in one.reads:
            words = f"{cost.requests:,} req", format_size(cost.size_bytes), _time(cost.seconds)
            rows[-1] += [f">{word}" for word in words]
    print(f"\n{columns(rows)}")


def _shown(found: Sequence[Measured], now: Layout) -> list[Measured]:
    """Return the best, and how the array is stored now."""
    current = [one for one in found[_SHOWN:] if one.layout == now]
    return [*found[:_SHOWN], *current]


def _lengths(lengths: Shape) -> str:
    return ",".join(map(str, lengths))


def _time(seconds: float) -> str:
    return duration(seconds) if seconds >= 1 else f"{1000 * seconds:.3g} ms"


def _codec_words(array: Array, layout: Layout) -> str:
    codecs = array.compressors if layout.compressors is None else layout.compressors
    return " ".join(map(_word, codecs)) or "none"


def _word(codec: Codec) -> str:
    """Return a codec in short."""
    try:
        stated: JSONObject = {"id": "", **codec.to_json(2)}
        name = stated["id"]
    except TessarrError:  # it has no name in format 2
        form = codec.to_json(3)
        name, stated = form["name"], form.get("configuration", {})
    if name == "blosc":
        shuffle = ("", "+shuffle", "+bitshuffle")[max(stated["shuffle"], 0)]
        return f"blosc-{stated['cname']}-{stated['clevel']}{shuffle}"
    return f"{name}-{stated['level']}" if "level" in stated else str(name)


def _gain(best: Measured, current: Measured | None, accesses: Sequence[Access]) -> str:
    if current is None:
        return "To store it so:"
    words = [
        f"{access.text} in {_time(new.seconds)} instead of {_time(old.seconds)}"
        for access, old, new in zip(accesses, current.reads, best.reads, strict=True)
    ]
    size = best.stored_bytes / max(current.stored_bytes, 1)
    return f"The first is best: {'; '.join(words)}; {100 * size:.0f} % of the size. To have it:"


def _document(one: Measured, array: Array, now: Layout) -> JSONObject:
    layout = one.layout
    codecs = array.compressors if layout.compressors is None else layout.compressors
    return {
        "current": layout == now,
        "chunks": list(layout.chunks),
        "shards": list(layout.shards) if layout.shards else None,
        "compressors": [codec.to_json(_format(array)) for codec in codecs],
        "objects": one.objects,
        "stored_bytes": one.stored_bytes,
        "writing_s": one.writing_s,
        "reads": [cost.asdict() for cost in one.reads],
    }


def _command(arguments: argparse.Namespace, array: Array, layout: Layout) -> str:
    """Return the command that copies the array to a layout."""
    words: list[str] = ["tessarr", "copy", arguments.path, arguments.target or "NEW"]
    if arguments.node:
        words += ["--node", arguments.node]
    words += ["--chunks", _lengths(layout.chunks)]
    if layout.shards is not None:
        words += ["--shards", _lengths(layout.shards)]
    elif array.shards is not None:
        words += ["--shards", "none"]
    if layout.compressors is not None:
        stated = [json.dumps(codec.to_json(_format(array))) for codec in layout.compressors]
        for text in stated or ["none"]:
            words += ["--compressors", text]
    return shlex.join(words)
