"""Groups: members of a hierarchy, their creation, and changes of the hierarchy below."""

from tessarr.group.group import Group, bind_node

__all__ = ["Group", "bind_node"]
