"""The command ``tessarr``; a module adds one verb or two related ones.

Exit codes:

- 0: success;
- 1: the command failed with a one-line message on stderr, or `verify`, `diff` or
  ``consolidate --check`` reported findings;
- 2: wrong usage; `verify` and `diff` also return 2 if they cannot finish;
- 130: interrupted.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import sys
import warnings
from typing import TYPE_CHECKING, Any, NoReturn

from tessarr.cli import (
    advise,
    attrs,
    cat,
    completion,
    consolidate,
    convert,
    copy,
    demo,
    diff,
    info,
    ls,
    rm,
    serve,
    stats,
    verify,
    view,
)
from tessarr.cli.option_types import format_options
from tessarr.errors import TessarrError, TessarrWarning
from tessarr.format.hints import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["build_parser", "main"]

_VERBS = (
    info,
    ls,
    cat,
    stats,
    view,
    serve,
    attrs,
    verify,
    diff,
    convert,
    copy,
    consolidate,
    rm,
    advise,
    demo,
    completion,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Parameters
    ----------
    arguments
        The arguments after the name of the command; by default those of `sys.argv`.

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
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Replace characters that the terminal cannot show.
        sys.stdout.reconfigure(errors="replace")
    parser = build_parser()
    if not (sys.argv[1:] if arguments is None else arguments):
        parser.print_help(sys.stderr)
        return 2
    parsed, rest = parser.parse_known_args(arguments)
    if rest:
        parsed.own.error(f"unrecognized arguments: {' '.join(rest)}")
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _print_warning
            warnings.simplefilter("once", TessarrWarning)
            code: int = parsed.run(parsed)
        sys.stdout.flush()
    except BrokenPipeError:
        # The process that reads the pipe, such as `head`, has ended.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        sys.stderr.write("\ntessarr: interrupted\n")
        return 130
    except Exception as error:
        if parsed.traceback:
            raise
        sys.stderr.write(f"tessarr: {parsed.own.format_options(_describe_error(error))}\n")
        failure: int = parsed.failure
        return failure
    return code


def _describe_error(error: Exception) -> str:
    """Return one line that describes an error; user code may raise any exception."""
    is_known = isinstance(error, TessarrError | OSError)
    text = str(error) if is_known else f"{type(error).__name__}: {error}"
    notes: list[str] = getattr(error, "__notes__", [])
    return "; ".join([text, *notes]) if not is_known else text


def _print_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    prefix = "" if issubclass(category, TessarrWarning) else f"{category.__name__}: "
    sys.stderr.write(f"tessarr: warning: {prefix}{message}\n")


class _VersionAction(argparse.Action):
    """Print the version; look it up only if the user passes this option."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        import tessarr

        print(f"tessarr {tessarr.__version__}")
        parser.exit()


class _Parser(argparse.ArgumentParser):
    """A parser that accepts options anywhere and suggests similar words for unknown ones."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._parses_intermixed = False
        # A list of lengths may start with a dash: -1,100.
        self._negative_number_matcher = re.compile(r"-\.?\d")

    def parse_known_args(  # pyright: ignore[reportIncompatibleMethodOverride] # overloaded
        self, args: Any = None, namespace: Any = None
    ) -> Any:
        """Parse words; options may stand between positional arguments."""
        if self._parses_intermixed or self._subparsers is not None:
            return super().parse_known_args(args, namespace)
        # parse_known_intermixed_args calls this method again.
        self._parses_intermixed = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._parses_intermixed = False

    def format_options(self, text: str) -> str:
        """Return a message with Python keywords replaced by the options of this command."""
        return format_options(text, self._option_string_actions)

    def error(self, message: str) -> NoReturn:
        match = re.search(r"invalid choice: '?([^' ]+)'? \(choose from (.*)\)$", message)
        if match is not None:
            names = re.findall(r"[\w-]+", match[2])
            if hint := did_you_mean(match[1], names):
                message = f"{message[: match.start()]}there is no {match[1]!r}{hint}"
        unknown_option = re.match(r"unrecognized arguments: (--[\w-]+)", message)
        if unknown_option is not None:
            message += did_you_mean(unknown_option[1], self._option_string_actions)
        super().error(message)


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line.

    Examples
    --------
    >>> build_parser().parse_args(["ls", "data.zarr", "-l"]).long
    True
    """
    parser = _Parser(
        prog="tessarr",
        description="Inspect, compare, check, copy and change Zarr arrays and groups.",
        epilog="Exit codes: 0 success; 1 failure, an incomplete copy, or findings of verify, diff "
        "or consolidate --check; 2 wrong usage, or failure of verify or diff; 130 interrupted.",
    )
    parser.add_argument(
        "--version", action=_VersionAction, nargs=0, help="print the version and exit"
    )
    parser.add_argument("--traceback", action="store_true", help="print tracebacks of errors")
    parser.set_defaults(failure=1)
    verbs = parser.add_subparsers(required=True, metavar="COMMAND")
    for verb in _VERBS:
        verb.add_to(verbs)
    for verb_parser in verbs.choices.values():
        verb_parser.set_defaults(own=verb_parser)
    return parser
