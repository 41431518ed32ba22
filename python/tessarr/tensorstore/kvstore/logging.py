"""Logging of requests, controlled by the flags of TensorStore."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tessarr.store import Store
    from tessarr.tensorstore.kvstore.values import StoreLocation

__all__ = ["experimental_update_verbose_logging", "log_requests", "parse_tensorstore_flags"]

_FLAG: Final = "--tensorstore_verbose_logging"
_ONE: Final = re.compile(r"([^=]+)(?:=(-?\d+))?")
_levels: Final[dict[str, int]] = {}


def experimental_update_verbose_logging(
    flags: str = "",
    overwrite: bool = False,  # noqa: FBT002 (as TensorStore has it)
) -> None:
    """Say of which kinds of key-value stores it is told what they are asked.

    Parameters
    ----------
    flags
        Names of kinds, such as ``"file,s3"``, or ``all``; ``file=-1`` ends it.
    overwrite
        Whether what was said before is forgotten.

    Notes
    -----
    It holds for what is opened from then on, and goes to the standard error stream. In the
    beginning the environment variable ``TENSORSTORE_VERBOSE_LOGGING`` says it.

    Examples
    --------
    >>> import tessarr.tensorstore as ts
    >>> ts.experimental_update_verbose_logging("memory")
    >>> ts.KvStore.open("memory://").result().read("a").result().state
    'missing'
    >>> ts.experimental_update_verbose_logging(overwrite=True)
    """
    if overwrite:
        _levels.clear()
    for part in str(flags).split(","):
        result = _ONE.fullmatch(part.strip())
        if result is not None:
            _levels[result[1]] = int(result[2] or 0)


def parse_tensorstore_flags(argv: Sequence[str]) -> None:
    """Take the flags of a command line; others are left alone.

    Parameters
    ----------
    argv
        The command line, such as ``sys.argv``. ``--tensorstore_verbose_logging=file`` is as
        `experimental_update_verbose_logging`.

    Examples
    --------
    >>> import tessarr.tensorstore as ts
    >>> ts.parse_tensorstore_flags(["program", "--tensorstore_verbose_logging=file"])
    >>> ts.experimental_update_verbose_logging(overwrite=True)
    """
    given = [str(argument) for argument in argv]
    for argument, following in zip(given, [*given[1:], ""], strict=True):
        name, equals, value = argument.partition("=")
        if name in {_FLAG, _FLAG[1:]}:
            experimental_update_verbose_logging(value if equals else following)


def log_requests(place: StoreLocation, kind: str) -> StoreLocation:
    """Return a place that tells what it is asked, if flags say so of its kind; else it itself."""
    if not _levels or _levels.get(kind, _levels.get("all", -1)) < 0:
        return place
    return place.with_store(_wrap_logging(place.store, kind))


@lru_cache(maxsize=64)
def _wrap_logging(store: Any, kind: str) -> Store:
    import logging

    from tessarr.stores import LoggingStore

    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(f"{kind}: %(message)s"))
    new: Store = LoggingStore(store, log_level="INFO", log_handler=handler)
    return new


experimental_update_verbose_logging(os.environ.get("TENSORSTORE_VERBOSE_LOGGING", ""))
