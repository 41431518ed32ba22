"""The command ``tessarr``: ``info``, ``tree``, ``consolidate``, ``convert`` and ``demo``.

Exit codes: 0 success, 1 the command failed (its reason is on stderr, in one
line), 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from typing import TYPE_CHECKING

from tessarr.cli import consolidate, convert, demo, info, tree
from tessarr.errors import TessarrError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]

_VERBS = (info, tree, consolidate, convert, demo)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Parameters
    ----------
    arguments
        What follows the command's name; by default `sys.argv`.

    Returns
    -------
    int
        The exit code.

    Examples
    --------
    >>> import tessarr
    >>> _ = tessarr.create_array("memory://cli", path="a/b", shape=(3,), dtype="i4")
    >>> main(["tree", "memory://cli"])
    /
    └── a
        └── b (3,) int32
    0
    """
    parsed = _parser().parse_args(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal that lacks a character shows another one; that is no failure.
        sys.stdout.reconfigure(errors="replace")
    try:
        code: int = parsed.run(parsed)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of a pipe, such as `head`, has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (TessarrError, OSError) as error:
        sys.stderr.write(f"tessarr: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\ntessarr: interrupted\n")
        return 130
    return code


class _Version(argparse.Action):
    """Prints the version, which is looked up only then."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        import tessarr

        print(f"tessarr {tessarr.__version__}")
        parser.exit()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tessarr",
        description="Look at Zarr arrays and groups of formats 2 and 3.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    verbs = parser.add_subparsers(required=True, metavar="COMMAND")
    for verb in _VERBS:
        verb.add_to(verbs)
    return parser
