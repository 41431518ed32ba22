"""What Tessarr does at the exit of the interpreter: it stores buffered writes, then closes stores.

One function is registered with `atexit` for all blocks and stores, because `atexit` keeps an entry
for each function that it was ever given, also after `atexit.unregister`, and compares all of them.
"""

from __future__ import annotations

import atexit
from contextlib import ExitStack
from functools import cache
from typing import TYPE_CHECKING
from weakref import finalize

from tessarr._engine import end_buffer_scopes

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["add", "add_until_deleted", "prepare", "remove"]

_functions: dict[Callable[[], object], None] = {}  # in the order of their registration


@cache
def prepare() -> None:
    """Let the exit store buffered writes. Only the first call has an effect."""
    atexit.register(_run)


def add(function: Callable[[], object]) -> None:
    """Call a function at exit, after buffered writes are stored and before earlier functions."""
    prepare()
    _functions[function] = None


def remove(function: Callable[[], object]) -> None:
    """Do not call a function at exit."""
    _functions.pop(function, None)


def add_until_deleted(owner: object, function: Callable[[], object]) -> None:
    """Call a function when `owner` is deleted, or at exit (see `add`) if that comes first."""
    add(function)
    finalize(owner, _remove_and_call, function).atexit = False


def _remove_and_call(function: Callable[[], object]) -> None:
    remove(function)
    function()


def _run() -> None:
    with ExitStack() as stack:  # an error does not prevent later functions
        for function in list(_functions):
            stack.callback(function)
        end_buffer_scopes()
