"""Recorder of function calls, whose number is a cost that does not depend on the machine."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any, NamedTuple


class Call(NamedTuple):
    """Call of a Python function; a function that a class decorator creates has no file."""

    module: str
    name: str
    file: str


class Calls(NamedTuple):
    """Calls of Python functions, and names of called C functions."""

    python: list[Call]
    native: list[str]

    @property
    def names(self) -> Counter[str]:
        """The number of calls of each Python function."""
        return Counter(call.name for call in self.python)


def record_calls(function: Callable[[], object]) -> Calls:
    """Return the calls of a function on this thread."""
    python: list[Call] = []
    native: list[str] = []

    def watch(frame: FrameType, event: str, target: Any) -> None:
        if event == "call":
            code = frame.f_code
            module = frame.f_globals.get("__name__", "")
            python.append(Call(module, code.co_qualname, code.co_filename))
        elif event == "c_call" and target is not sys.setprofile:
            native.append(target.__qualname__)

    gc.disable()  # finalizers are no calls of the function
    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        function()
    finally:
        sys.setprofile(before)
        gc.enable()
    return Calls(python, native)
