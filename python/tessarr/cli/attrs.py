"""``tessarr attrs PATH [NAME | NAME=VALUE …]``: print, set and delete attributes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tessarr.cli.node_argument import add_json, add_node, node_at
from tessarr.cli.output import as_json, table
from tessarr.errors import ArgumentError, NotFoundError
from tessarr.format.suggestions import did_you_mean

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from tessarr.node.attributes import Attributes

__all__ = ["add_to"]


def add_to(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb to the command."""
    parser = verbs.add_parser(
        "attrs",
        help="print, set and delete attributes",
        description="Print the attributes of an array or a group, all or those that are named; or "
        "set some, with NAME=VALUE; or delete some. All changes are stored at once or not at all.",
        epilog="example: tessarr attrs data.zarr/temperature units=K valid_range='[0, 400]'",
    )
    add_node(parser)
    parser.add_argument(
        "attributes",
        metavar="NAME[=VALUE]",
        nargs="*",
        help="what to print, or to set: a value that is JSON is taken as that, all else as text",
    )
    parser.add_argument("--text", action="store_true", help="take values as text, even '1'")
    parser.add_argument(
        "--delete", metavar="NAME", nargs="+", action="extend", default=[], help="delete these"
    )
    parser.add_argument(
        "-n", "--dry-run", action="store_true", help="only say what would be changed"
    )
    add_json(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    pairs = [text.partition("=") for text in arguments.attributes]
    new = {name: value for name, sign, value in pairs if sign}
    asked = [name for name, sign, _ in pairs if not sign]
    if "" in new:
        raise ArgumentError("'=' has no name before it")
    if sum(map(bool, (new, asked, arguments.delete))) > 1:
        raise ArgumentError("print, set or delete: one of them at a time")
    change = bool(new or arguments.delete)
    node = node_at(arguments.path, arguments.node, "r+" if change else "r")
    if new:
        values = {name: text if arguments.text else _value(text) for name, text in new.items()}
        if not arguments.dry_run:
            node.attrs.update(values)
        _print(values, arguments, "would set")
    elif arguments.delete:
        _check(node.attrs, arguments.delete)
        gone = {name: node.attrs[name] for name in arguments.delete}
        if not arguments.dry_run:
            node.attrs.remove(*arguments.delete)
        _print(gone, arguments, "would delete")
    elif len(asked) == 1 and not arguments.json:
        _check(node.attrs, asked)
        value = node.attrs[asked[0]]
        print(value if isinstance(value, str) else as_json(value))
    else:
        _check(node.attrs, asked)
        every = node.attrs.asdict()
        _print({name: every[name] for name in asked or every}, arguments)
    return 0


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _check(attributes: Attributes, names: Iterable[str]) -> None:
    for name in names:
        if name not in attributes:
            hint = did_you_mean(name, attributes) or f"; it has {list(attributes)}"
            message = f"there is no attribute {name!r}{hint}"
            raise NotFoundError(message, kind="attribute_not_found")


def _print(attributes: dict[str, Any], arguments: argparse.Namespace, would: str = "") -> None:
    if arguments.json:
        print(as_json(attributes))
        return
    rows = [(name, json.dumps(value, ensure_ascii=False)) for name, value in attributes.items()]
    for line in table(rows).splitlines() if rows else ():
        print(f"{would} {line}" if arguments.dry_run else line)
