"""Driver specs, and the registry of drivers."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Self, TypedDict

from tessarr._safe_repr import safe_repr
from tessarr.errors import ArgumentError, SelectionError, UnsupportedError
from tessarr.tensorstore.json.parse import as_bool, check_class
from tessarr.tensorstore.schema.schema import Schema, SchemaKeywords
from tessarr.tensorstore.spec.open_mode import OPEN_FLAGS, OpenMode, read_recheck

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tessarr.index_space import IndexTransform
    from tessarr.tensorstore.batch import Batch, SharedReads
    from tessarr.tensorstore.context.references import Naming, References, ResourceChange
    from tessarr.tensorstore.driver import Driver
    from tessarr.tensorstore.future.future import Future
    from tessarr.tensorstore.schema.codec_spec import CodecSpec
    from tessarr.tensorstore.transaction.transaction import Transaction
    from tessarr.types import JSONObject

__all__ = [
    "DRIVERS",
    "OF_SCHEMA",
    "DriverSpec",
    "OpenKeywords",
    "OpenRequest",
    "OpenResult",
    "SpecChanges",
    "SpecKeywords",
    "driver_spec",
]

DRIVERS: Final[dict[str, str]] = {
    "zarr3": "tessarr.tensorstore.drivers.zarr.formats:Zarr3Spec",
    "zarr": "tessarr.tensorstore.drivers.zarr.formats:Zarr2Spec",
    "zarr2": "tessarr.tensorstore.drivers.zarr.formats:Zarr2Spec",
    "auto": "tessarr.tensorstore.drivers.auto:AutoSpec",
    "array": "tessarr.tensorstore.drivers.array.array_spec:MemorySpec",
    "cast": "tessarr.tensorstore.drivers.cast.cast_spec:CastSpec",
    "downsample": "tessarr.tensorstore.drivers.downsample.downsample_spec:DownsampleSpec",
    "json": "tessarr.tensorstore.drivers.json:JsonSpec",
    "stack": "tessarr.tensorstore.drivers.stack.stack_spec:StackSpec",
    "virtual_chunked": "tessarr.tensorstore.drivers.virtual_chunked.virtual_spec:VirtualSpec",
}
"""The `DriverSpec` class of each driver, by the driver's name in specs."""


def driver_spec(name: str) -> type[DriverSpec]:
    """Return the spec class of a driver.

    Raises
    ------
    ArgumentError
        If the driver does not exist.
    """
    where = DRIVERS.get(name)
    if where is None:
        raise ArgumentError(
            f'"driver": there is no driver {safe_repr(name)}, only {", ".join(DRIVERS)}'
        )
    module, _, member = where.partition(":")
    result: type[DriverSpec] = getattr(import_module(module), member)
    return result


class OpenKeywords(TypedDict, total=False):
    """Keywords that control opening: see `tessarr.tensorstore.open`."""

    open_mode: OpenMode | None
    open: bool | None
    create: bool | None
    delete_existing: bool | None
    assume_metadata: bool | None
    assume_cached_metadata: bool | None
    recheck_cached_metadata: bool | float | str | None
    recheck_cached_data: bool | float | str | None
    recheck_cached: bool | float | str | None


class SpecKeywords(OpenKeywords, SchemaKeywords, total=False):
    """Keywords of specs: see `tessarr.tensorstore.open`."""

    kvstore: Any


_RECHECKS: Final = ("recheck_cached", "recheck_cached_metadata", "recheck_cached_data")

OF_SCHEMA: Final = frozenset(SchemaKeywords.__annotations__)
"""The keywords of schemas."""


@dataclass(slots=True)
class SpecChanges:
    """Changes of a spec, except those of its view.

    Parameters
    ----------
    mode, flags
        Changes of the open mode; see `OpenMode.apply_changes`.
    schema
        Constraints to add, on the driver's dimensions.
    kvstore
        The kvstore, if the spec has none.
    recheck_metadata, recheck_data
        Staleness bounds of cached values; None keeps the current bound.
    minimal
        Whether to remove metadata that the array's metadata document contains.
    """

    mode: OpenMode | None = None
    flags: dict[str, bool] = field(default_factory=dict)
    schema: Schema | None = None
    kvstore: Any = None
    recheck_metadata: Any = None
    recheck_data: Any = None
    minimal: bool = False

    @classmethod
    def of(cls, keywords: dict[str, Any]) -> SpecChanges:
        """Remove all keywords except those of schemas from `keywords`, and return the changes."""
        flags = {name: as_bool(keywords.pop(name), name) for name in OPEN_FLAGS if name in keywords}
        bounds = ((keywords.pop(name, None), name) for name in _RECHECKS)
        both, metadata, data = (
            None if bound is None else read_recheck(bound, name) for bound, name in bounds
        )
        return cls(
            mode=check_class(keywords.pop("open_mode", None), OpenMode, "open_mode"),
            kvstore=keywords.pop("kvstore", None),
            recheck_metadata=metadata if both is None else both,
            recheck_data=data if both is None else both,
            flags=flags,
        )


class OpenRequest(NamedTuple):
    """The arguments of opening a spec.

    Parameters
    ----------
    read, write
        Whether to open for reading and for writing. If both are true, `both` distinguishes a
        requirement from a preference.
    transaction, batch
        The transaction and the batch of the open operation.
    both
        Whether the user requires both reading and writing.
    sharing
        The read group of the open operation.
    """

    read: bool = True
    write: bool = True
    transaction: Transaction | None = None
    batch: Batch | None = None
    both: bool = False
    sharing: SharedReads | None = None


class OpenResult(NamedTuple):
    """The result of opening a spec.

    Parameters
    ----------
    driver
        The driver that reads and writes.
    view
        The spec's view of the driver; its implicit bounds do not yet match the driver's domain.
    """

    driver: Driver
    view: IndexTransform | None


class DriverSpec:
    """The driver's part of a spec, as an immutable value.

    Parameters
    ----------
    schema
        The constraints on the array, on the driver's dimensions.
    """

    name: ClassVar[str]

    schema: Schema
    ranked: bool = True
    """Whether the JSON states the driver's rank, instead of only the rank of the base."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    @classmethod
    def parse(cls, members: dict[str, Any], schema: Schema) -> Self:
        """Return the spec from JSON; remove the driver's members from `members`."""
        raise NotImplementedError

    @classmethod
    def of(
        cls, driver: Driver, view: IndexTransform, *, minimal: bool
    ) -> tuple[Self, IndexTransform]:
        """Return the spec of an open driver, with bound resources, and the view of the spec."""
        raise NotImplementedError

    def members(self, naming: Naming, *, include_defaults: bool) -> JSONObject:
        """Return the JSON members of the driver, without ``driver``, ``schema`` and the view."""
        raise NotImplementedError

    def effective(self) -> Schema:
        """Return all constraints that need no I/O, on the driver's dimensions, without the codec.

        Raises
        ------
        ArgumentError
            If constraints contradict each other.
        """
        return self.schema

    def codec(self) -> CodecSpec | None:
        """Return the constraints on the encoding, or None.

        Raises
        ------
        ArgumentError
            If constraints on the encoding contradict each other.
        """
        return self.effective().codec

    def outline(self) -> Schema:
        """Return the constraints on the rank, the data type and the domain.

        Raises
        ------
        ArgumentError
            If these constraints contradict each other.
        """
        return self.effective()

    def apply_changes(self, options: SpecChanges) -> Self:
        """Return the spec with changes.

        Raises
        ------
        ArgumentError
            If the driver does not support a change.
        """
        raise NotImplementedError

    def with_assumed_metadata(self) -> Self:
        """Return the spec that opens the same array again without a request for metadata."""
        return self.apply_changes(SpecChanges(flags={"assume_cached_metadata": True}))

    def references(self) -> Iterator[References]:
        """Return the references to resources, in the order of their names."""
        return iter(())

    def change_resources(self, change: ResourceChange) -> Self:
        """Return the spec with other resources."""
        return self

    def open(self, view: IndexTransform | None, opening: OpenRequest) -> Future[OpenResult]:
        """Start to open the spec, which must be bound.

        Parameters
        ----------
        view
            The view of the spec, or None.
        opening
            The arguments of opening.
        """
        raise NotImplementedError

    @property
    def open_mode(self) -> OpenMode:
        """The open mode of the spec."""
        return OpenMode(open=True)

    @property
    def kvstore(self) -> Any:
        """The spec of the kvstore, or None."""
        return None

    @property
    def base(self) -> Any:
        """The spec of the base if this spec is a view of a single array, else None."""
        return None

    def base_of(self, view: IndexTransform) -> Any:
        """Return the base of a view of this spec, or None if this spec has no base."""
        base = self.base
        try:
            return None if base is None else base[view]
        except SelectionError as error:
            raise ArgumentError(f"the base has no such view: {error}") from error

    @property
    def url(self) -> str:
        """The URL of the spec.

        Raises
        ------
        UnsupportedError
            If no URL can represent the spec.
        """
        raise UnsupportedError(f"a spec of the driver {self.name!r} cannot be represented by a URL")
