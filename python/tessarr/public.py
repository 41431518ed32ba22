"""Public names: what is imported by them is called by them, and pickled by them.

A pickle holds the names of classes and functions. Those of the modules where these happen to be
written would make every stored pickle break when one moves.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any, TypeVar

__all__ = ["call_public"]


def call_public(module: str, *given: Any) -> None:
    """Say that classes, with those inside of them, and functions are of a module.

    Parameters
    ----------
    module
        The name by which it is imported.
    *given
        What has its own name there; what is neither class nor function is left as it is.

    Examples
    --------
    >>> class Shown:
    ...     class Inner: ...
    >>> call_public("tessarr", Shown)
    >>> Shown, Shown.Inner
    (<class 'tessarr.Shown'>, <class 'tessarr.Shown.Inner'>)
    """
    for one in given:
        if isinstance(one, FunctionType | TypeVar):
            one.__module__ = module
        elif isinstance(one, type):
            _call(one, module, one.__name__)


def _call(one: type, module: str, name: str) -> None:
    one.__module__, one.__qualname__ = module, name
    for inner, found in vars(one).items():
        if isinstance(found, type) and found.__module__.startswith("tessarr."):
            _call(found, module, f"{name}.{inner}")
