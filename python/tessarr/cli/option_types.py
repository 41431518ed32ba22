"""What options take: some of a few words, and sizes."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from typing import TYPE_CHECKING

from tessarr.format.suggestions import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Words", "as_options", "size_of_text"]


class Words:
    """The type of an option that takes some of a few words, with commas between.

    Parameters
    ----------
    choices
        The words.

    Examples
    --------
    >>> Words(["values", "storage"])("values,storage")
    ['values', 'storage']
    """

    def __init__(self, choices: Iterable[str]) -> None:
        self.choices = tuple(choices)

    def __call__(self, text: str) -> list[str]:
        found = [word.strip() for word in text.split(",") if word.strip()]
        for word in found:
            if word not in self.choices:
                hint = did_you_mean(word, self.choices) or f"; {', '.join(self.choices)}"
                raise ArgumentTypeError(f"there is no {word!r}{hint}")
        return found


def as_options(text: str, options: Iterable[str]) -> str:
    """Return a message with keywords of Python as the options that they are in a shell.

    Parameters
    ----------
    text
        What an error says.
    options
        Those of the command.

    Examples
    --------
    >>> as_options("give move_chunks=True, or mode='r'", ["--move-chunks"])
    "give --move-chunks, or mode='r'"
    """
    known = set(options)

    def option(found: re.Match[str]) -> str:
        name = "--" + found[1].replace("_", "-")
        return name if name in known else found[0]

    return re.sub(r"\b([a-z_]+)=True\b", option, text)


def size_of_text(text: str) -> int:
    """Return a number of bytes, as an option takes it.

    Examples
    --------
    >>> size_of_text("512K"), size_of_text("1.5 GiB"), size_of_text("64mb"), size_of_text("1000")
    (524288, 1610612736, 67108864, 1000)
    """
    bare = text.strip().lower().removesuffix("b").removesuffix("i").rstrip()
    unit = bare[-1:] if bare[-1:] in "kmgt" else ""
    try:
        size = int(float(bare.removesuffix(unit)) * 1024 ** " kmgt".index(unit or " "))
    except (ValueError, OverflowError):
        size = 0
    if size < 1:
        raise ArgumentTypeError(f"{text!r} is not a size such as 512K, 64M or 2G")
    return size
