"""Logging of requests, controlled by the flags of TensorStore."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from tessarr.format.registry import set_public_module

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
    overwrite: bool = False,  # noqa: FBT002 (TensorStore's signature)
) -> None:
    """Select the key-value store drivers that log their requests.

    Parameters
    ----------
    flags
        Names of drivers, such as ``"file,s3"``, or ``all``; ``file=-1`` disables a driver.
    overwrite
        Whether to discard earlier flags.

    Notes
    -----
    The flags apply to stores that are opened later. The log goes to the standard error stream.
    The environment variable ``TENSORSTORE_VERBOSE_LOGGING`` sets the initial flags.

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
    """Apply the TensorStore flags of a command line and ignore all others.

    Parameters
    ----------
    argv
        The command line, such as ``sys.argv``. ``--tensorstore_verbose_logging=file`` calls
        `experimental_update_verbose_logging` with ``"file"``.

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
    """Return a location that logs its requests if the flags select `kind`; else `place`."""
    if not _levels or _levels.get(kind, _levels.get("all", -1)) < 0:
        return place
    return replace(place, store=_wrap_logging(place.store, kind))


@lru_cache(maxsize=64)
def _wrap_logging(store: Any, kind: str) -> Store:
    import logging

    from tessarr.stores import LoggingStore

    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(f"{kind}: %(message)s"))
    new: Store = LoggingStore(store, log_level="INFO", log_handler=handler)
    return new


experimental_update_verbose_logging(os.environ.get("TENSORSTORE_VERBOSE_LOGGING", ""))


set_public_module(
    "tessarr.tensorstore",
    experimental_update_verbose_logging,
    parse_tensorstore_flags,
)
