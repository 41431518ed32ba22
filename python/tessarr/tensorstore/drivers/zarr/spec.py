"""Specs of the drivers ``zarr3`` and ``zarr``: how arrays of Zarr are opened and created."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from tessarr import drive
from tessarr.array import bind
from tessarr.drive import Seen, create_document, seen_document
from tessarr.errors import (
    ArgumentError,
    ConflictError,
    ExistsError,
    MetadataError,
    NotFoundError,
)
from tessarr.flow import open as open_flow
from tessarr.flow.create import commit
from tessarr.metadata.node import ArrayMeta
from tessarr.space import IndexTransform
from tessarr.store import MemoryStore
from tessarr.store.kept import StagedStore
from tessarr.tensorstore.context.caching import Known, bound_of, memory_of, over, pool_of
from tessarr.tensorstore.context.references import Naming, References
from tessarr.tensorstore.drivers.zarr import resolve
from tessarr.tensorstore.drivers.zarr.driver import ZarrDriver
from tessarr.tensorstore.drivers.zarr.facts import facts_of
from tessarr.tensorstore.futures.future import Future
from tessarr.tensorstore.futures.start import start
from tessarr.tensorstore.kvstore import KvStore
from tessarr.tensorstore.kvstore.careful import copied
from tessarr.tensorstore.kvstore.spec import Spec as Place
from tessarr.tensorstore.kvstore.url import folder
from tessarr.tensorstore.notation.reading import members_of, take, text
from tessarr.tensorstore.schema.bounds import propagated
from tessarr.tensorstore.schema.element import WHOLE, Field
from tessarr.tensorstore.schema.schema import Schema
from tessarr.tensorstore.spec.driver_spec import Opened, Opening, Options
from tessarr.tensorstore.spec.open_mode import OpenMode
from tessarr.tensorstore.spec.placed_spec import PlacedSpec
from tessarr.tensorstore.spec.recheck import Recheck, recheck_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tessarr.array import Array
    from tessarr.store import Store
    from tessarr.tensorstore.context.caching import Memory
    from tessarr.tensorstore.driver import Driver
    from tessarr.tensorstore.schema.codec_spec import CodecSpec
    from tessarr.types import JSONObject, ZarrFormat

__all__ = ["Zarr3Spec", "ZarrSpec"]

_RESOURCES: Final = {
    "cache_pool": "cache_pool",
    "data_copy_concurrency": "data_copy_concurrency",
    "metadata_cache_pool": "cache_pool",
}
_OPTIONAL: Final = frozenset(["metadata_cache_pool"])


class ZarrSpec(PlacedSpec):
    """What a spec says of an array of Zarr."""

    zarr_format: ClassVar[ZarrFormat]
    _nothing: ClassVar[Any]
    _marker: ClassVar[str]
    """The key of the document in stores of Tessarr."""

    _wanted: Any
    _known: dict[str, Any]
    _alike: resolve.Alikes
    _field: Field
    _recheck_metadata: Recheck
    _recheck_data: Recheck
    _fill_missing: bool
    _store_fill: bool

    @classmethod
    def parse(cls, members: dict[str, Any], schema: Schema) -> Self:
        """Return the spec that JSON states; take its members out of `members`."""
        made = cls(schema)
        made._known, made._alike = {}, resolve.Alikes()
        made._mode = OpenMode.take(members)
        made._take_place(members)
        made._references = References.parse(_RESOURCES, members, _OPTIONAL)
        made._recheck_metadata = _recheck(members, "recheck_cached_metadata", "open")
        made._recheck_data = _recheck(members, "recheck_cached_data", default=True)
        made._fill_missing = _flag(members, "fill_missing_data_reads", default=True)
        made._store_fill = _flag(members, "store_data_equal_to_fill_value", default=False)
        name = take(members, "field", text)
        made._field = Field.of(name or None, as_void=_flag(members, "open_as_void", default=False))
        made._read_more(members)
        if made._field.as_void and made.schema.rank == 0:
            raise ArgumentError("open_as_void: the bytes of an element are a dimension, not rank 0")
        made._check_parts()
        return made

    def _read_more(self, members: dict[str, Any]) -> None:
        """Read the members that only one format has."""
        if "metadata" in members:
            self._wanted = resolve.read_constraints(
                self.name, members_of(members.pop("metadata"), "metadata")
            )
        else:
            self._wanted = self._nothing

    def _forget(self) -> None:
        known = self.outline()
        self.schema = self.schema.merged(Schema(rank=known.rank, dtype=known.dtype))
        self._wanted, self._known, self._alike = self._nothing, {}, resolve.Alikes()

    def _constrain(self, options: Options) -> None:
        """Add constraints."""
        before, self._known = self.schema, {}
        if options.stored_shape is not None:
            self._wanted = self._wanted.shaped(options.stored_shape)
        if options.schema is not None:
            self.schema = before.merged(options.schema)
            if not self.schema.is_like(before):
                self._alike = resolve.Alikes()
        self._check_parts()

    def _check_parts(self) -> None:
        """Raise an error if schema and metadata, or the origin that arrays have, do not agree."""
        if self._field != WHOLE:
            return
        if self._wanted is self._nothing:
            domain = self.schema.domain
            if domain is not None and any(domain.origin):
                self.outline()
            return
        shape = self._wanted.shape if self.schema.domain is None else None
        if shape is None or len(shape) not in self._alike.ranks:
            self.outline()
        if shape is not None:
            self._alike.ranks.add(len(shape))

    @classmethod
    def split(cls, json: JSONObject) -> tuple[JSONObject, Options | None]:
        """Return JSON without place and shape, and these."""
        kept, given = super().split(json)
        metadata = kept.get("metadata")
        if isinstance(metadata, dict) and metadata.get("shape") is not None:
            members = metadata.copy()
            given = given or Options()
            given.stored_shape = members.pop("shape")
            kept = {**kept, "metadata": members}
        return kept, given

    @classmethod
    def of(
        cls, driver: Driver, view: IndexTransform, *, minimal: bool
    ) -> tuple[Self, IndexTransform]:
        """Return the spec of an open array."""
        assert isinstance(driver, ZarrDriver)
        meta = driver._array._meta
        kept: tuple[Any, ...] = driver.specs.get(minimal, (None, None, None, None))
        of, made, seen, told = kept
        if of is meta and seen is view:
            return made, told
        if of is not meta:
            made = cls._of(driver, minimal=minimal)
        # Of format 2 TensorStore tells the view of the handle, whatever its bounds are now.
        told = view if cls.zarr_format == 2 else propagated(view, driver.domain).simplified()
        driver.specs[minimal] = meta, made, view, told
        return made, told

    @classmethod
    def _of(cls, driver: ZarrDriver, *, minimal: bool) -> Self:
        opened: Self = driver.opened_by
        facts = driver.facts
        assert opened._place is not None
        made = opened._with(opened._references.distinct(), opened._place._settled())
        made._mode = OpenMode(open=True, assume_metadata=opened._mode.assume_metadata)
        made.schema = facts.kind.element
        names = driver._array._meta.data_type.numpy.names
        if names and made._field == WHOLE:
            made._field = Field(names[0])  # the only one: else one was chosen
        made._wanted, made._known, made._alike = cls._nothing, {}, resolve.Alikes()
        if not minimal:
            made._wanted, made._known = facts.constraints, facts.known
        return made

    def members(self, naming: Naming, *, include_defaults: bool) -> JSONObject:
        """Return the members of its JSON."""
        found: JSONObject = self._mode.to_json(include_defaults=include_defaults)
        if self._place is not None:
            found["kvstore"] = self._place._json(naming, include_defaults=include_defaults)
        found.update(self._references.json(naming, include_defaults=include_defaults))
        for name, value, default in (
            ("recheck_cached_metadata", self._recheck_metadata, "open"),
            ("recheck_cached_data", self._recheck_data, True),
            ("fill_missing_data_reads", self._fill_missing, True),
            ("store_data_equal_to_fill_value", self._store_fill, False),
        ):
            if include_defaults or (type(value), value) != (type(default), default):
                found[name] = value
        if self._field.name is not None:
            found["field"] = self._field.name
        if self._field.as_void:
            found["open_as_void"] = True
        metadata: JSONObject = self._recalled("json", self._wanted.to_json)
        if metadata or include_defaults:
            found["metadata"] = {**metadata, **self._always}
        if include_defaults:
            found["metadata"].update(self._wanted.told_always())
        return found

    _always: ClassVar[JSONObject] = {}

    @property
    def document(self) -> str:
        """The key of the document."""
        return self._marker

    def _at(self, store: Store, at: str) -> Store:
        """Return a store that has the document where Zarr has it."""
        return store

    def effective(self) -> Schema:
        """Return all that is known of the array without looking, but for its codec."""
        found: Schema = self._recalled(
            "effective", lambda: self._wanted.effective(self.schema, self._field)
        )
        return found

    def codec(self) -> CodecSpec | None:
        """Return what is known of the encoding."""
        found: CodecSpec = self._recalled("codec", lambda: self._wanted.codec_with(self.schema))
        return found

    def outline(self) -> Schema:
        """Return what is known of the rank, the data type and the domain."""
        given = self.schema
        if self._wanted is self._nothing and given.domain is None and given.rank != 0:
            return given
        found: Schema = self._recalled("outline", lambda: self._wanted.outline(given, self._field))
        return found

    def _metadata(self) -> ArrayMeta:
        """Return the metadata of a new array."""
        found: ArrayMeta = self._recalled(
            "metadata",
            lambda: self._alike.metadata(self._wanted, self.schema, self._field),
        )
        return found

    def _recalled(self, what: str, find: Callable[[], Any]) -> Any:
        """Return what follows from schema and metadata: with other resources it is the same."""
        found = self._known.get(what)
        if found is None:
            found = self._known[what] = find()
        return found

    @staticmethod
    def _put_at(place: Place) -> Place:
        return _folder(place)

    def _take_rechecks(self, options: Options) -> None:
        if options.recheck_metadata is not None:
            self._recheck_metadata = options.recheck_metadata
        if options.recheck_data is not None:
            self._recheck_data = options.recheck_data

    def _suffix(self) -> str:
        if self._field != WHOLE:
            raise ArgumentError("the spec is of a part of each element: there is no URL")
        return f"{self._scheme}:"

    _scheme: ClassVar[str]

    # Opening

    def open(self, view: IndexTransform | None, opening: Opening) -> Future[Opened]:
        """Start to open."""
        if self._place is None:
            raise ArgumentError("the spec has no kvstore: where the array is has to be said")
        self._mode.check()
        if self._mode.create and not opening.write:
            raise ArgumentError("it cannot be created without being opened for writing")
        place = self._place._open()
        at = place.key(self._place.path).removesuffix("/")
        store = self._at(place.store, at)
        at_once = self._place._driver.at_once
        collects = opening.batch is not None and at_once != inf and self._mode.looks
        begin = opening.batch._open if opening.batch is not None and collects else start
        return begin(self._opened, view, store, at, opening.transaction, here=at_once > 0)

    def _opened(
        self, view: IndexTransform | None, store: Store, at: str, transaction: Any
    ) -> Opened:
        now, key = time.time(), open_flow.prefix_of(at) + self.document
        fresh, lasting, memory = self._remembering(store, now, staged=transaction is not None)
        if transaction is not None:
            fresh = transaction._staging.store(fresh)
        known = memory.find((store, key)) if memory is not None else None
        # What others know may lack attributes.
        knows = known is not None and self._mode.open and not self.wants_attributes
        is_fresh = known and known.looked_s >= bound_of(self._recheck_metadata, now)
        if known and knows and is_fresh and self._may_recall(fresh, at, known):
            meta, now, seen = known.meta, known.looked_s, known.seen
            self._check(meta)
        else:
            meta, seen = self._found(fresh, at)
        if transaction is not None and memory is not None and not self._mode.open:
            transaction._staging.after(partial(_tell, memory, (store, key), meta))
        # Without a fill value nothing is known of chunks that are not stored.
        store_fill = self._store_fill or meta.fill_value is None
        if self._references.says("data_copy_concurrency"):
            lasting = copied(lasting, self._references.resource("data_copy_concurrency"))
        array = bind(
            meta,
            lasting,
            at,
            read_only=False,
            write_empty_chunks=store_fill,
            missing="fill" if self._fill_missing else "refuse",
        )
        if transaction is None and known:  # others are told of a transaction when all is done
            known.learn(meta, now)
            known.seen.last, seen = seen.last, known.seen
        elif transaction is None and memory is not None:
            known = Known(meta, now, seen)
            memory.add((store, key), known)
        driver = ZarrDriver(
            array, self._field, self, store=store, looked_s=now, known=known, seen=seen
        )
        return Opened(driver, self._labelled(view, array))

    def _remembering(
        self, store: Store, now: float, *, staged: bool
    ) -> tuple[Store, Store, Memory | None]:
        """Return what is read to open, what is read later, and what remembers open arrays."""
        references, recheck = self._references, self._recheck_metadata
        once = recheck == "open" or recheck is False  # after it was opened, any time will do
        near = isinstance(store, MemoryStore)
        if references.alone and (once or near):
            return store, store, None  # there is nothing to wait for, and nobody shares it
        own = references.has("metadata_cache_pool")
        resource = references.resource("metadata_cache_pool" if own else "cache_pool")
        remembered = memory_of(resource)
        memory = None if self._mode.assumes else remembered
        if near:
            return store, store, memory
        data = pool_of(references.resource("cache_pool")) if own else remembered.pool
        since = -inf if data is None else bound_of(self._recheck_data, now)
        later = inf  # where there is no room, what is remembered is compared each time
        if remembered.pool is not None:
            later = -inf if once else bound_of(recheck, now)
        pool = None if self._mode.create else remembered.pool
        new = pool is not None and not pool.knows(store)  # what is not remembered yet is fresh
        lasting = over(store, remembered, data, (later, since), now)
        if later == inf or ((new or recheck != "open") and not staged):
            return lasting, lasting, memory
        # Documents are compared with the store, those for transactions in any case.
        return over(store, remembered, data, (inf, since), now), lasting, memory

    def _labelled(self, view: IndexTransform | None, array: Array) -> IndexTransform | None:
        """Return the view, with the labels that the schema has where the array has none."""
        given = self.schema.domain
        if view is not None or given is None or not any(given.labels):
            return view
        domain = facts_of(array._meta, self._field).domain
        labels = [
            dim.label or asked.label for dim, asked in zip(domain.dims, given.dims, strict=True)
        ]
        return IndexTransform(domain.label[labels] if labels else domain)

    def open_kvstore(self) -> KvStore:
        """Return the store of keys in which the array is; the spec is bound."""
        assert self._place is not None
        return KvStore(self._place, self._place._open(), self._place.path, None)

    @property
    def fixes_metadata(self) -> bool:
        """Whether metadata are those of the spec for good."""
        return self._mode.assume_metadata

    @property
    def recheck_metadata(self) -> Recheck:
        """Since when metadata are fresh."""
        return self._recheck_metadata

    @property
    def rechecks(self) -> bool:
        """Whether metadata may have to be looked at again before they are used."""
        bound = self._recheck_metadata
        return not self._mode.assume_metadata and (bound is True or isinstance(bound, float))

    @property
    def wants_attributes(self) -> bool:
        """Whether attributes are looked at that are in a document of their own."""
        return False

    def _found(self, store: Store, at: str) -> tuple[ArrayMeta, Seen]:
        """Return the metadata of the array, which is created where that is wanted."""
        mode = self._mode
        if mode.assumes:
            return self._metadata(), Seen()
        if mode.open:
            existing = self._existing(store, at)
            if existing is not None:
                self._check(existing[0])
                return existing
            if not mode.create:
                raise NotFoundError(
                    f"there is no array: {self._key(at)!r} is absent in {store}",
                    kind="array_not_found",
                    path=at,
                    key=self._key(at),
                )
        return self._created(store, at)

    def _check(self, meta: ArrayMeta) -> None:
        """Raise an error if metadata are not as they have to be; what is found is recalled."""
        if self._known.get("checked") is not meta:
            resolve.check(meta, self._wanted, self.schema, self._field)
            self._known["checked"] = meta

    def _key(self, at: str) -> str:
        return open_flow.prefix_of(at) + self.document

    def _existing(self, store: Store, at: str) -> tuple[ArrayMeta, Seen] | None:
        there = seen_document(store, open_flow.prefix_of(at) + self._marker)
        if there is None:
            return None
        document, seen = there
        found = self._parsed(document, store, at)
        if isinstance(found, ArrayMeta):
            if isinstance(store, StagedStore):
                self._rely(store, at, found, seen.last or (document, None))
            return found, seen
        raise MetadataError(
            f"there is a group, and no array, at {at!r} of {store}",
            kind="invalid_value",
            path=at,
            key=self._key(at),
        )

    def _parsed(self, document: bytes, store: Store | None, at: str) -> open_flow.Node:
        """Return what a document says, and one of attributes, if there is such a one in a store."""
        return open_flow.parse_v3(document, at)

    def _may_recall(self, store: Store, at: str, known: Known) -> bool:
        """Return whether what others know holds; in a transaction that is compared in the end."""
        if not isinstance(store, StagedStore):
            return True
        last, stored = known.seen.last, known.seen.stored
        seen = last or (None if stored is None else (stored, None))
        return seen is not None and self._rely(store, at, known.meta, seen)

    def _rely(
        self, store: StagedStore, at: str, meta: ArrayMeta, seen: tuple[bytes, bytes | None]
    ) -> bool:
        """Have a transaction fail if it ends when the array is another one.

        False: the document is compared anyway, or was changed in the transaction.
        """
        key = open_flow.prefix_of(at) + self._marker

        def check(document: bytes | None) -> bytes | None:
            found = None if document is None else self._parsed(document, None, at)
            if isinstance(found, ArrayMeta):
                found = replace(found, attributes=meta.attributes)
            if found == meta:
                return document
            raise ConflictError(
                f'ABORTED: Error writing "{self._key(at)}": Metadata is inconsistent: others '
                "changed it after the array was opened in this transaction; do everything again",
                key=self._key(at),
            )

        relies: bool = store.owner._staging.rely(store, key, seen, check)
        return relies

    def _created(self, store: Store, at: str) -> tuple[ArrayMeta, Seen]:
        meta = self._metadata()
        if self._mode.delete_existing:
            store.clear_prefix(open_flow.prefix_of(at))
        documents, seen = facts_of(meta, self._field).documents, Seen()
        if _stored(store, open_flow.prefix_of(at), documents, seen):
            if isinstance(store, StagedStore):
                document = open_flow.prefix_of(at) + self._marker
                store.owner._staging.arrays.make(store, document, meta)
            return meta, seen
        if self._mode.open:  # somebody else created it in the meantime
            existing = self._existing(store, at)
            if existing is not None:
                self._check(existing[0])
                return existing
        raise ExistsError(
            f"there is a node already: {self._key(at)!r} is present in {store}; to open it "
            "give open=True, to replace it delete_existing=True",
            kind="node_exists",
            path=at,
            key=self._key(at),
        )


class Zarr3Spec(ZarrSpec):
    """What a spec says of an array of format 3."""

    name = "zarr3"
    zarr_format = 3
    _nothing = resolve.read_constraints("zarr3")
    _marker = "zarr.json"
    _scheme = "zarr3"
    _always: ClassVar[JSONObject] = {"node_type": "array"}


def _folder(place: Place) -> Place:
    """Return the place with a slash at the end of its path."""
    path = folder(place._driver.name, place.path)
    if path != place.path:
        place = place.copy()
        place.path = path
    return place


def _stored(store: Store, prefix: str, documents: dict[str, bytes], seen: Seen) -> bool:
    """Store the documents of an array unless it is there; only several take a flow."""
    (name, document), *others = documents.items()
    if others:
        return drive.run(commit(prefix, documents, seen), store)
    return create_document(store, prefix + name, document, seen)


def _tell(memory: Memory, key: tuple[Store, str], meta: ArrayMeta) -> None:
    """Tell open arrays that they were created anew."""
    known = memory.find(key)
    if known is not None:
        known.learn(meta, time.time())
        known.seen.last = None


def _flag(members: dict[str, Any], name: str, *, default: bool) -> bool:
    value = members.pop(name, default)
    if not isinstance(value, bool):
        raise ArgumentError(f'"{name}": {value!r} is not a boolean')
    return value


def _recheck(members: dict[str, Any], name: str, default: Recheck) -> Recheck:
    return recheck_of(members.pop(name, default), name)
