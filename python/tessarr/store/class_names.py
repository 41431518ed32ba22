"""Classes of other libraries, recognised by their names, without imports."""

from __future__ import annotations

__all__ = ["is_instance_of"]


def is_instance_of(value: object, module: str, name: str = "") -> bool:
    """Return whether a class of an object comes from a module, without an import of the module.

    Parameters
    ----------
    value
        The object.
    module
        The name of the module or of a package that contains it.
    name
        The name of the class; by default any class of the module.

    Examples
    --------
    >>> from collections import OrderedDict
    >>> is_instance_of(OrderedDict(), "collections"), is_instance_of({}, "collections")
    (True, False)
    """
    return any(
        f"{cls.__module__}.".startswith(f"{module}.") and name in {"", cls.__name__}
        for cls in type(value).__mro__
    )
