"""`Attributes` of the drop-in: Tessarr's attributes with the errors of a dictionary."""

from __future__ import annotations

from tessarr.node import attributes as own

__all__ = ["Attributes"]


class Attributes(own.Attributes):
    """The attributes of a node of the drop-in; see `tessarr.node.attributes.Attributes`."""

    __slots__ = ()

    def _missing_error(self, name: str) -> KeyError:
        return KeyError(name)
