"""What is said of an array when it is opened, and not stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["ArrayConfig"]


@dataclass(frozen=True, slots=True)
class ArrayConfig:
    """What is said of an array when it is opened, and not stored with it.

    Parameters
    ----------
    write_empty_chunks
        Whether chunks that hold nothing but the fill value are stored.
    order
        The layout of what is read: always C.
    """

    write_empty_chunks: bool = False
    order: Literal["C"] = "C"
