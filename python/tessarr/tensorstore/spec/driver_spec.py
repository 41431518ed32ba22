"""Driver specs, and the registry of drivers."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Self, TypedDict

from tessarr._safe_repr import safe_repr
from tessarr.errors import ArgumentError, SelectionError, UnsupportedError
from tessarr.tensorstore.json.parse import as_bool, check_class
from tessarr.tensorstore.schema.schema import Schema, SchemaKeywords
from tessarr.tensorstore.spec.open_mode import OpenMode
from tessarr.tensorstore.spec.staleness_bounds import read_recheck

if TYPE_CHECKING:
    from tessarr.index_space import IndexTransform
    from tessarr.tensorstore.batch.shared_reads import SharedReads
    from tessarr.tensorstore.context.context import Context
    from tessarr.tensorstore.context.references import Naming
    from tessarr.tensorstore.driver import Driver
    from tessarr.tensorstore.future.future import Future
    from tessarr.tensorstore.schema.codec_spec import CodecSpec
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
    "zarr3": "tessarr.tensorstore.drivers.zarr.zarr3_spec:Zarr3Spec",
    "zarr": "tessarr.tensorstore.drivers.zarr.zarr2_spec:Zarr2Spec",
    "zarr2": "tessarr.tensorstore.drivers.zarr.zarr2_spec:Zarr2Spec",
    "auto": "tessarr.tensorstore.drivers.auto:AutoSpec",
    "array": "tessarr.tensorstore.drivers.array.array_spec:MemorySpec",
    "cast": "tessarr.tensorstore.drivers.cast.cast_spec:CastSpec",
    "downsample": "tessarr.tensorstore.drivers.downsample.downsample_spec:DownsampleSpec",
    "json": "tessarr.tensorstore.drivers.json:JsonSpec",
    "stack": "tessarr.tensorstore.drivers.stack.stack_spec:StackSpec",
    "virtual_chunked": "tessarr.tensorstore.drivers.virtual_chunked.virtual_spec:VirtualSpec",
}
"""The `DriverSpec` of each driver, by its name in specs."""


@cache
def driver_spec(name: str) -> type[DriverSpec]:
    """Return the spec class of a driver.

    Raises
    ------
    ArgumentError
        If there is no such driver.
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
    """Keywords of opening: see `tessarr.tensorstore.open`."""

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
    """Changes of a spec, without those of its view.

    Parameters
    ----------
    mode, flags
        How it is opened; see `OpenMode.apply_changes`.
    schema
        Constraints to be added, of the driver's own dimensions.
    kvstore
        Where it is, if that is not said yet.
    recheck_metadata, recheck_data
        Since when what is remembered is fresh; None leaves it.
    minimal
        Whether metadata are forgotten that are found where the array is.
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
        """Return the options that keywords state, but for those of schemas; they are taken out."""
        flags = {n: as_bool(keywords.pop(n), n) for n in OpenMode._names() if n in keywords}
        given = ((name, keywords.pop(name, None)) for name in _RECHECKS)
        both, metadata, data = (
            None if one is None else read_recheck(one, name) for name, one in given
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
        Whether it shall be read and written; if neither is said, whatever is possible.
    transaction, batch
        What opening takes part in.
    both
        Whether reading and writing were both asked for, and not only what is possible.
    sharing
        What it shares with others that begin at the same time.
    """

    read: bool = True
    write: bool = True
    transaction: Any = None
    batch: Any = None
    both: bool = False
    sharing: SharedReads | None = None


class OpenResult(NamedTuple):
    """The result of opening a spec.

    Parameters
    ----------
    driver
        What reads and writes.
    view
        The spec's view of it; its implicit bounds are yet to become those of the driver.
    """

    driver: Driver
    view: IndexTransform | None


class DriverSpec:
    """The driver's part of a spec: an immutable value.

    Parameters
    ----------
    schema
        The constraints on the array, of the driver's own dimensions.
    """

    name: ClassVar[str]

    schema: Schema
    ranked: bool = True
    """Whether its rank is its own, and not only that of what it is a view of."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    @classmethod
    def parse(cls, members: dict[str, Any], schema: Schema) -> Self:
        """Return the spec that JSON states; take its members out of `members`."""
        raise NotImplementedError

    @classmethod
    def of(
        cls, driver: Driver, view: IndexTransform, *, minimal: bool
    ) -> tuple[Self, IndexTransform]:
        """Return the spec of an open driver, with bound resources, and the view as it tells it."""
        raise NotImplementedError

    def members(self, naming: Naming, *, include_defaults: bool) -> JSONObject:
        """Return the members of its JSON; not ``driver`` and ``schema`` and those of views."""
        raise NotImplementedError

    def effective(self) -> Schema:
        """Return all that is known without looking, of the driver's dimensions, but for the codec.

        Raises
        ------
        ArgumentError
            If constraints contradict each other.
        """
        return self.schema

    def codec(self) -> CodecSpec | None:
        """Return what is known of the encoding, or None.

        Raises
        ------
        ArgumentError
            If constraints on it contradict each other.
        """
        return self.effective().codec

    def outline(self) -> Schema:
        """Return what is known of the rank, the data type and the domain.

        Raises
        ------
        ArgumentError
            If constraints on these contradict each other.
        """
        return self.effective()

    def apply_changes(self, options: SpecChanges) -> Self:
        """Return the spec with options.

        Raises
        ------
        ArgumentError
            If it cannot have one of them.
        """
        raise NotImplementedError

    def with_assumed_metadata(self) -> Self:
        """Return the spec that opens the same again, and reads no metadata for it."""
        return self.apply_changes(SpecChanges(flags={"assume_cached_metadata": True}))

    def collect_resources(self, naming: Naming) -> None:
        """Tell which bound resources of contexts are used, each as often as it is."""

    def has_same_resources(self, other: DriverSpec) -> bool:
        """Return whether bound resources are the very same; all else is told by the JSON."""
        return True

    def bind(self, context: Context) -> Self:
        """Return the spec with the resources of a context; those that are bound stay."""
        return self

    def strip(self) -> Self:
        """Return the spec without resources, which are then those it is opened with."""
        return self

    def unbind(self, naming: Naming) -> Self:
        """Return the spec with the names of its resources."""
        return self

    def open(self, view: IndexTransform | None, opening: OpenRequest) -> Future[OpenResult]:
        """Start to open; the spec is bound.

        Parameters
        ----------
        view
            The spec's view, or None.
        opening
            How.
        """
        raise NotImplementedError

    @property
    def open_mode(self) -> OpenMode:
        """What opening may do."""
        return OpenMode(open=True)

    @property
    def kvstore(self) -> Any:
        """Where it is, or None."""
        return None

    @property
    def base(self) -> Any:
        """The spec of what this is a view of, if it is one of a single array; else None."""
        return None

    def base_of(self, view: IndexTransform) -> Any:
        """Return the spec of what a view of this is one of; None if it is one of no other."""
        base = self.base
        try:
            return None if base is None else base[view]
        except SelectionError as error:
            raise ArgumentError(f"the base has no such view: {error}") from error

    @property
    def url(self) -> str:
        """The URL that says the same.

        Raises
        ------
        UnsupportedError
            If there is none.
        """
        raise UnsupportedError(f"a spec of the driver {self.name!r} cannot be told as a URL")
