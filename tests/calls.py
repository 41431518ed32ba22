"""Counts of calls: what costs do not depend on the machine."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any, NamedTuple


class Call(NamedTuple):
    """A call of a function of Python; one that was made by a class decorator has no file."""

    module: str
    name: str
    file: str


class Calls(NamedTuple):
    """What was called, in Python and of C."""

    python: list[Call]
    native: list[str]

    @property
    def names(self) -> Counter[str]:
        """How often each function of Python was called."""
        return Counter(call.name for call in self.python)


def calls_of(act: Callable[[], object]) -> Calls:
    """Return what an act calls, on this thread."""
    python: list[Call] = []
    native: list[str] = []

    def watch(frame: FrameType, event: str, what: Any) -> None:
        if event == "call":
            code = frame.f_code
            module = frame.f_globals.get("__name__", "")
            python.append(Call(module, code.co_qualname, code.co_filename))
        elif event == "c_call" and what is not sys.setprofile:
            native.append(what.__qualname__)

    gc.disable()  # what is thrown away meanwhile is not the act's
    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        act()
    finally:
        sys.setprofile(before)
        gc.enable()
    return Calls(python, native)
