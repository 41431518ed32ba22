"""Types of command-line options: lists of choices, JSON values and sizes."""

from __future__ import annotations

import json
import re
from argparse import ArgumentTypeError
from typing import TYPE_CHECKING, Any

from tessarr.format.hints import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["ChoiceList", "format_options", "parse_json_or_text", "parse_size"]


class ChoiceList:
    """The type of an option whose value is a comma-separated list of choices.

    Parameters
    ----------
    choices
        The words.

    Examples
    --------
    >>> ChoiceList(["values", "storage"])("values,storage")
    ['values', 'storage']
    """

    def __init__(self, choices: Iterable[str]) -> None:
        self.choices = tuple(choices)

    def __call__(self, text: str) -> list[str]:
        words = [word.strip() for word in text.split(",") if word.strip()]
        for word in words:
            if word not in self.choices:
                hint = did_you_mean(word, self.choices) or f"; {', '.join(self.choices)}"
                raise ArgumentTypeError(f"there is no {word!r}{hint}")
        return words


def format_options(text: str, options: Iterable[str]) -> str:
    """Return a message with Python keywords replaced by shell options.

    Parameters
    ----------
    text
        The message of an error.
    options
        The options of the command.

    Examples
    --------
    >>> format_options("give move_chunks=True, or mode='r'", ["--move-chunks"])
    "give --move-chunks, or mode='r'"
    """
    known = set(options)

    def replace_keyword(match: re.Match[str]) -> str:
        name = "--" + match[1].replace("_", "-")
        return name if name in known else match[0]

    return re.sub(r"\b([a-z_]+)=True\b", replace_keyword, text)


def parse_json_or_text(text: str) -> Any:
    """Return the value of JSON, or other text unchanged.

    Examples
    --------
    >>> parse_json_or_text("true"), parse_json_or_text('"12"'), parse_json_or_text("K")
    (True, '12', 'K')
    """
    try:
        return json.loads(text)
    except ValueError:
        return text


def parse_size(text: str) -> int:
    """Parse a number of bytes with an optional unit.

    Examples
    --------
    >>> parse_size("512K"), parse_size("1.5 GiB"), parse_size("64mb"), parse_size("1000")
    (524288, 1610612736, 67108864, 1000)
    """
    number = text.strip().lower().removesuffix("b").removesuffix("i").rstrip()
    unit = number[-1:] if number[-1:] in "kmgt" else ""
    try:
        size = int(float(number.removesuffix(unit)) * 1024 ** " kmgt".index(unit or " "))
    except (ValueError, OverflowError):
        size = 0
    if size < 1:
        raise ArgumentTypeError(f"{text!r} is not a size such as 512K, 64M or 2G")
    return size
