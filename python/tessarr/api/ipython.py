"""The extension of IPython: ``%load_ext tessarr``."""

from __future__ import annotations

from typing import Any

from tessarr._safe_repr import safe_repr
from tessarr.array import Array
from tessarr.errors import ArgumentError
from tessarr.group import Group

__all__ = ["load_ipython_extension"]


def load_ipython_extension(ipython: Any) -> None:
    """Let IPython evaluate attributes of arrays and groups for completion: ``%load_ext tessarr``.

    By default, the tab key completes ``g["`` and the keywords of functions, but nothing after an
    attribute, because IPython evaluates properties only of classes that it trusts. The extension
    adds ``a.attrs["``.

    Parameters
    ----------
    ipython
        The shell, which IPython passes.

    Raises
    ------
    ArgumentError
        If it is no shell of IPython.
    """
    completer = getattr(ipython, "Completer", None)
    if completer is None:
        raise ArgumentError(f"{safe_repr(ipython)} is no shell of IPython: use %load_ext tessarr")
    from IPython.core.guarded_eval import (  # pyright: ignore[reportMissingImports]
        EVALUATION_POLICIES,
    )

    policy = EVALUATION_POLICIES.get(completer.evaluation)
    trusted = getattr(policy, "allowed_getattr", None)
    if trusted is not None:
        overrides = {**completer.policy_overrides, "allowed_getattr": {*trusted, Array, Group}}
        completer.policy_overrides = overrides
