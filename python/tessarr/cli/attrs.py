"""``tessarr attrs PATH [NAME | NAME=VALUE …]``: print, set and delete attributes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tessarr.cli.node_argument import add_node_verb, get_node_argument
from tessarr.cli.option_types import parse_json_or_text
from tessarr.cli.output import format_json
from tessarr.cli.tables import format_table
from tessarr.errors import ArgumentError, NotFoundError
from tessarr.format.hints import did_you_mean

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from tessarr.node.attributes import Attributes

__all__ = ["add_to"]


def add_to(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb to the command."""
    parser = add_node_verb(
        verbs,
        "attrs",
        _run,
        help="print, set and delete attributes",
        description="Print all or some attributes of an array or a group, set some with "
        "NAME=VALUE, or delete some. The command stores all changes together or none.",
        epilog="example: tessarr attrs data.zarr/temperature units=K valid_range='[0, 400]'",
    )
    parser.add_argument(
        "attributes",
        metavar="NAME[=VALUE]",
        nargs="*",
        help="attributes to print or to set; a value that is not JSON is text",
    )
    parser.add_argument("--text", action="store_true", help="treat all values as text")
    parser.add_argument(
        "--delete",
        metavar="NAME",
        nargs="+",
        action="extend",
        default=[],
        help="delete these attributes",
    )
    parser.add_argument("-n", "--dry-run", action="store_true", help="only say what would be done")


def _run(arguments: argparse.Namespace) -> int:
    pairs = [text.partition("=") for text in arguments.attributes]
    values_by_name = {name: value for name, sign, value in pairs if sign}
    names = [name for name, sign, _ in pairs if not sign]
    if "" in values_by_name:
        raise ArgumentError("'=' has no name before it")
    if sum(map(bool, (values_by_name, names, arguments.delete))) > 1:
        raise ArgumentError("print, set or delete: one of them at a time")
    changes = bool(values_by_name or arguments.delete)
    node = get_node_argument(arguments).open("r+" if changes else "r")
    if values_by_name:
        values = {
            name: text if arguments.text else parse_json_or_text(text)
            for name, text in values_by_name.items()
        }
        if not arguments.dry_run:
            node.attrs.update(values)
        _print_attributes(values, arguments, "would set")
    elif arguments.delete:
        _check_names(node.attrs, arguments.delete)
        deleted = {name: node.attrs[name] for name in arguments.delete}
        if not arguments.dry_run:
            node.attrs.remove(*arguments.delete)
        _print_attributes(deleted, arguments, "would delete")
    elif len(names) == 1 and not arguments.json:
        _check_names(node.attrs, names)
        value = node.attrs[names[0]]
        print(value if isinstance(value, str) else format_json(value))
    else:
        _check_names(node.attrs, names)
        attributes = node.attrs.asdict()
        _print_attributes({name: attributes[name] for name in names or attributes}, arguments)
    return 0


def _check_names(attributes: Attributes, names: Iterable[str]) -> None:
    for name in names:
        if name not in attributes:
            hint = did_you_mean(name, attributes) or f"; it has {list(attributes)}"
            message = f"there is no attribute {name!r}{hint}"
            raise NotFoundError(message, kind="attribute_not_found")


def _print_attributes(
    attributes: dict[str, Any], arguments: argparse.Namespace, would: str = ""
) -> None:
    if arguments.json:
        print(format_json(attributes))
        return
    rows = [(name, json.dumps(value, ensure_ascii=False)) for name, value in attributes.items()]
    for line in format_table(rows).splitlines() if rows else ():
        print(f"{would} {line}" if arguments.dry_run else line)
