"""Base class of driver specs that use resources of a context."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from tessarr.tensorstore.spec.driver_spec import DriverSpec

if TYPE_CHECKING:
    from tessarr.tensorstore.context.context import Context
    from tessarr.tensorstore.context.references import Naming, References

__all__ = ["ResourceSpec"]


class ResourceSpec(DriverSpec):
    """A driver spec that uses resources of a context."""

    _references: References

    def collect_resources(self, naming: Naming) -> None:
        """Add the bound resources to `naming`."""
        self._references.collect_resources(naming)

    def has_same_resources(self, other: DriverSpec) -> bool:
        """Return whether both specs use the same bound resources."""
        assert isinstance(other, ResourceSpec)
        return self._references.has_same_resources(other._references)

    def bind(self, context: Context) -> Self:
        """Return the spec with resources from a context."""
        return self._referring(self._references.bind(context))

    def strip(self) -> Self:
        """Return the spec without resources."""
        return self._referring(self._references.strip())

    def unbind(self, naming: Naming) -> Self:
        """Return the spec with names instead of resources."""
        return self._referring(self._references.unbind(naming))

    def _referring(self, references: References) -> Self:
        new = object.__new__(type(self))
        new.__dict__ = self.__dict__.copy()  # faster than copy()
        new._references = references
        return new
