"""What specs that use resources of a context have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from tessarr.tensorstore.spec.driver_spec import DriverSpec

if TYPE_CHECKING:
    from tessarr.tensorstore.context.context import Context
    from tessarr.tensorstore.context.references import Naming, References

__all__ = ["ReferringSpec"]


class ReferringSpec(DriverSpec):
    """A spec with resources of a context."""

    _references: References
    _stripped: Self | None = None
    _assuming: Self | None = None

    def see(self, naming: Naming) -> None:
        """Tell which bound resources are used."""
        self._references.see(naming)

    def same(self, other: DriverSpec) -> bool:
        """Return whether bound resources are the very same."""
        assert isinstance(other, ReferringSpec)
        return self._references.same(other._references)

    def bind(self, context: Context) -> Self:
        """Return the spec with the resources of a context."""
        return self._referring(self._references.bind(context))

    def strip(self) -> Self:
        """Return the spec without resources."""
        if self._stripped is None:
            self._stripped = self._without()
        return self._stripped

    def _without(self) -> Self:
        """Return the spec without resources, made anew."""
        return self._referring(self._references.strip())

    def assuming(self) -> Self:
        """Return the spec that opens the same again, and reads no metadata for it."""
        if self._assuming is None:
            self._assuming = super().assuming()
            self._assuming.told = {}
        return self._assuming

    def unbind(self, naming: Naming) -> Self:
        """Return the spec with the names of its resources."""
        return self._referring(self._references.unbind(naming))

    def _referring(self, references: References) -> Self:
        made = object.__new__(type(self))
        made.__dict__ = self.__dict__.copy()  # as copy() would, but all members at once
        made._references = references
        made._stripped = made._assuming = made.told = None
        return made
