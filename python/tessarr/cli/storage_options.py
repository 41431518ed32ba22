"""Options of the command line that become ``storage_options`` of a URL.

All options append pairs of a name and a value to one list. A verb with two locations has a list
for both URLs, and one for each of them.
"""

from __future__ import annotations

import json
from argparse import ArgumentTypeError
from typing import TYPE_CHECKING, Any, TypeAlias

from tessarr.cli.option_types import parse_json_or_text
from tessarr.errors import ArgumentError
from tessarr.store.resolve import is_url

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

__all__ = ["add_storage_options", "format_storage_options", "get_storage_options"]

_Pairs: TypeAlias = "list[tuple[str, Any]]"


def add_storage_options(parser: argparse.ArgumentParser, **locations: str) -> None:
    """Add the options --anon, --profile and --storage-option.

    Parameters
    ----------
    parser
        The parser of a verb.
    **locations
        For a verb with several locations: the names of their arguments, and their names in the
        help. Each location also has options that begin with the name of its argument, such as
        ``--source-anon``.
    """
    group = parser.add_argument_group(
        "storage options",
        "Options of a URL, such as s3://bucket/data.zarr."
        + (" Those without a prefix are for all URLs." if locations else ""),
    )
    _add_options(group, "", "")
    for name, metavar in locations.items():
        _add_options(group, f"{name}-", f"only for {metavar}: ")


def _add_options(group: argparse._ArgumentGroup, prefix: str, where: str) -> None:
    dest = f"{prefix.replace('-', '_')}storage_options"
    group.add_argument(
        f"--{prefix}anon",
        dest=dest,
        action="append_const",
        const=("anon", True),
        help=f"{where}send requests without credentials, as for public buckets",
    )
    group.add_argument(
        f"--{prefix}profile",
        dest=dest,
        action="append",
        type=lambda name: ("profile", name),
        metavar="NAME",
        help=f"{where}use this AWS profile",
    )
    group.add_argument(
        f"--{prefix}storage-option",
        dest=dest,
        action="append",
        type=_parse_pair,
        metavar="KEY=VALUE",
        help=f"{where}an option of the store, such as endpoint_url=http://host:9000; the value is "
        "true, false, a number, other JSON, or text; you can repeat the option",
    )


def _parse_pair(text: str) -> tuple[str, Any]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    parsed = parse_json_or_text(value)
    if isinstance(parsed, str) and value[:1] in {"{", "["}:
        raise ArgumentTypeError(f"the value of {name!r} is not JSON: {_find_json_error(value)}")
    return name, parsed


def _find_json_error(text: str) -> str:
    try:
        json.loads(text)
    except ValueError as error:
        return str(error)
    return ""


def get_storage_options(
    arguments: argparse.Namespace, locations: Mapping[str, str]
) -> dict[str, dict[str, Any]]:
    """Return the storage options of each location.

    Parameters
    ----------
    arguments
        The parsed arguments.
    locations
        The locations by the names of their arguments.

    Raises
    ------
    ArgumentError
        If an option occurs twice with different values, or its location is not a URL.
    """
    common = _collect(arguments.storage_options or [])
    urls = [text for text in locations.values() if is_url(text)]
    if common and not urls:
        raise _build_path_error(next(iter(common)), *locations.values())
    options = {}
    for name, text in locations.items():
        own = _collect(getattr(arguments, f"{name}_storage_options", None) or [])
        if own and text not in urls:
            raise _build_path_error(next(iter(own)), text)
        options[name] = {**common, **own} if text in urls else {}
    return options


def _collect(pairs: _Pairs) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for name, value in pairs:
        if options.setdefault(name, value) != value:
            raise ArgumentError(f"the storage option {name!r} occurs twice with different values")
    return options


def _build_path_error(name: str, *texts: str) -> ArgumentError:
    return ArgumentError(
        f"the storage option {name!r} is for a URL, such as s3://bucket/data.zarr, and "
        f"{' and '.join(map(repr, texts))} {'is a path' if len(texts) == 1 else 'are paths'}"
    )


def format_storage_options(arguments: argparse.Namespace, location: str) -> list[str]:
    """Return words of a command for the storage options of one of its locations.

    Examples
    --------
    >>> from tessarr.cli import build_parser
    >>> words = ["info", "s3://bucket", "--anon", "--storage-option", "timeout=5"]
    >>> format_storage_options(build_parser().parse_args(words), "source")
    ['--source-storage-option', 'anon=true', '--source-storage-option', 'timeout=5']
    """
    words = []
    for name, value in arguments.storage_options or []:
        is_text = isinstance(value, str) and parse_json_or_text(value) == value
        text = value if is_text else json.dumps(value)
        words += [f"--{location}-storage-option", f"{name}={text}"]
    return words
