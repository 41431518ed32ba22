"""Turns of an event loop between awaited futures that are done already.

Such an ``await`` does not suspend its coroutine. A coroutine that awaits only small reads would
block all other tasks of its event loop.
"""

from __future__ import annotations

import threading
from time import monotonic
from typing import Final

__all__ = ["is_turn_due"]

_MAX_S: Final = 0.002
"""The maximum time between two turns of an event loop."""


class _NextTurn(threading.local):
    """The time of the next turn of the thread's event loop."""

    s = 0.0


_next_turn: Final = _NextTurn()


def is_turn_due() -> bool:
    """Tell whether a done future must yield to the event loop of this thread before its result."""
    now = monotonic()
    if now < _next_turn.s:
        return False
    _next_turn.s = now + _MAX_S
    from asyncio import _get_running_loop

    return _get_running_loop() is not None
