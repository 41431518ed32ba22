"""The driver ``json``: a value in a JSON document, as an array of rank 0.

A JSON pointer (RFC 6901) selects the value. A write replaces the value in the document and creates
missing objects on its path. Concurrent changes of other values in the document stay.
"""

from __future__ import annotations

import json
import time
from _thread import allocate_lock
from copy import copy
from math import inf
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from tessarr._safe_repr import safe_repr
from tessarr.errors import (
    ArgumentError,
    DataError,
    MetadataError,
    NotFoundError,
)
from tessarr.format.json import load
from tessarr.index_space import IndexDomain, IndexTransform
from tessarr.tensorstore.batch import ExpectedRead, SharedReads
from tessarr.tensorstore.context.caching import caches_of, staleness_bound
from tessarr.tensorstore.context.references import Naming, References
from tessarr.tensorstore.driver import Driver, OperationScope
from tessarr.tensorstore.future.future import Future, spawn
from tessarr.tensorstore.future.write_futures import WriteFutures
from tessarr.tensorstore.json.parse import text
from tessarr.tensorstore.kvstore import KvStore
from tessarr.tensorstore.kvstore.kvstore_driver import quote_path
from tessarr.tensorstore.kvstore.kvstore_spec import describe_place
from tessarr.tensorstore.kvstore.values import ReadResult, TimestampedStorageGeneration
from tessarr.tensorstore.ndarray_views import check_finite, empty
from tessarr.tensorstore.schema.chunk_layout import ChunkLayout
from tessarr.tensorstore.schema.data_type import dtype, json_value
from tessarr.tensorstore.schema.schema import Schema
from tessarr.tensorstore.spec.driver_spec import OpenRequest, OpenResult, SpecChanges
from tessarr.tensorstore.spec.open_mode import OpenMode, Recheck, recheck_of
from tessarr.tensorstore.spec.resource_spec import DATA_RESOURCES, KvStoreDriverSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from tessarr.tensorstore.transaction.transaction import Transaction
    from tessarr.types import JSONObject

__all__ = ["JsonDriver", "JsonSpec"]

_JSON: Final = dtype("json")


class CachedDocument:
    """A document whose content all handles of one context share.

    Parameters
    ----------
    kvstore
        The document, as a key-value store with the single key "".
    """

    __slots__ = ("__weakref__", "_last_read", "_lock", "kvstore")

    def __init__(self, kvstore: KvStore) -> None:
        self.kvstore = kvstore
        self._lock = allocate_lock()
        self._last_read = _empty_result()

    def read(
        self, since: float, transaction: Transaction | None, sharing: SharedReads | None = None
    ) -> bytes | None:
        """Return the document, or None if it is missing.

        Parameters
        ----------
        since
            The time from which cached content counts as fresh, in seconds since 1970; infinity
            reads again.
        transaction
            A transaction reads the document again, with its staged changes.
        sharing
            Shares reads with operations that start together.
        """
        if transaction is not None:
            # A document that the transaction changed keeps it open, as in TensorStore.
            result = self.kvstore.with_transaction(transaction)._look("", None, sharing)
            return result.value if result.state == "value" else None
        previous = result = self._last_read
        if not _is_fresh(previous, since):
            result = self.kvstore._look("", previous.stamp.generation or None, sharing)
            if result.state == "unspecified":
                result = ReadResult(previous.state, previous.value, result.stamp)
            with self._lock:
                if self._last_read is previous:  # otherwise a concurrent change replaced it
                    self._last_read = result
        return result.value if result.state == "value" else None

    @property
    def expected(self) -> ExpectedRead:
        """The read that `read` sends."""
        return ExpectedRead(self.kvstore._location.store, self.kvstore._key(""))

    def is_known(self, since: float) -> bool:
        """Return whether the cached content is fresh."""
        return _is_fresh(self._last_read, since)

    def change(
        self, change: Callable[[bytes | None], bytes], transaction: Transaction | None
    ) -> None:
        """Replace the document by a function of the stored one."""
        if transaction is not None:
            transaction._staging.after(self._forget, in_any_case=True)
            self.kvstore.with_transaction(transaction)._change("", change)
            return
        previous, result = self._last_read, _empty_result()
        now, content = time.time(), b""

        def changed(current: bytes | None) -> bytes:
            nonlocal content
            content = change(current)
            return content

        try:
            self.kvstore._change("", changed)
            result = ReadResult("value", content, TimestampedStorageGeneration(b"", now))
        finally:
            with self._lock:  # the order of two simultaneous changes is unknown
                self._last_read = result if self._last_read is previous else _empty_result()

    def _forget(self) -> None:
        with self._lock:
            self._last_read = _empty_result()


def _empty_result() -> ReadResult:
    """Return a new unknown state; its identity shows later changes."""
    return ReadResult("unspecified", b"", TimestampedStorageGeneration(b"", -inf))


def _is_fresh(result: ReadResult, since: float) -> bool:
    return result.state != "unspecified" and result.stamp.time >= since


class JsonDriver(Driver):
    """A value in a document.

    Parameters
    ----------
    document
        The document.
    since
        The time from which cached content counts as fresh, in seconds since 1970.
    pointer
        The location of the value, as a JSON pointer.
    opened_by
        The spec that opened it.
    """

    __slots__ = ("_document", "_place", "_since", "_steps", "opened_by", "pointer")

    name = "json"

    def __init__(
        self, document: CachedDocument, since: float, pointer: str, opened_by: JsonSpec
    ) -> None:
        self._document = document
        self.dtype = _JSON
        self._place = document.kvstore
        self._since = since
        self.pointer = pointer
        self._steps = split_pointer(pointer)
        self.opened_by = opened_by

    @property
    def domain(self) -> IndexDomain:
        """The domain of one element."""
        return IndexDomain._of(())

    def storage_ids(self) -> frozenset[Any]:
        """Return the location of the document."""
        return frozenset([("json", self._place._location.store, self._place._key(""))])

    @property
    def _label(self) -> str:
        """The document's name in errors."""
        return describe_place(self._place)

    @property
    def kvstore(self) -> Any:
        """The document as a key-value store."""
        return self.opened_by.open_kvstore()

    @property
    def url(self) -> str:
        """The URL that opens the value again."""
        return self.opened_by.url

    def read(
        self, view: IndexTransform, out: npt.NDArray[Any] | None, scope: OperationScope
    ) -> Future[npt.NDArray[Any]]:
        """Read the document, and find the value in it."""
        transaction = scope.transaction  # a read that waits for a batch holds no reference to it

        def work(sharing: SharedReads | None) -> npt.NDArray[Any]:
            content = self._document.read(self._since, transaction, sharing)
            if content is None:
                raise NotFoundError(f"the document {self._label} does not exist")
            value = self._find_value(self._parse_document(content))
            check_finite(view)
            result = empty(view.domain.shape, np.dtype("O")) if out is None else out
            for position in np.ndindex(result.shape):
                result[position] = value
            return result

        def start(scope: OperationScope) -> Future[npt.NDArray[Any]]:
            return spawn(work, scope.sharing)

        if transaction is None and self._document.is_known(self._since):
            return start(scope)
        return scope.start(start, [self._document.expected])

    def write(
        self, view: IndexTransform, values: npt.NDArray[Any], scope: OperationScope
    ) -> WriteFutures:
        """Replace the value in the document."""
        value = json_value(values.reshape(-1)[-1]) if values.size else None

        def changed(current: bytes | None) -> bytes:
            if not self._steps:
                return _dump_document(value)
            if current is None:
                return _dump_document(self._replace_value({}, value))
            content = self._parse_document(current)
            before = _dump_document(content)
            after = _dump_document(self._replace_value(content, value))
            return current if after == before else after

        if not values.size:
            return WriteFutures._of(Future(None), Future(None))
        done = spawn(self._document.change, changed, scope.transaction)
        return WriteFutures._of(done, done)

    def _parse_document(self, document: bytes) -> Any:
        try:
            return load(document, what=f"document {self._label}")[0]
        except MetadataError as error:
            raise DataError(str(error), key=self._place.path) from error

    def _find_value(self, content: Any) -> Any:
        for k, step in enumerate(self._steps):
            if isinstance(content, dict):
                if step not in content:
                    raise NotFoundError(
                        f"{self._label} has no member {safe_repr(step)} at {self._prefix(k)}"
                    )
                content = content[step]
            elif isinstance(content, list):
                content = content[self._list_index(step, k, len(content))]
            else:
                raise self._leaf_error(content, k)
        return content

    def _replace_value(self, content: Any, value: Any) -> Any:
        inner, last = content, len(self._steps) - 1
        for k, step in enumerate(self._steps):
            if isinstance(inner, dict):
                if k == last:
                    inner[step] = value
                else:
                    inner.setdefault(step, {})
                inner = inner[step]
            elif isinstance(inner, list):
                if step == "-":
                    inner.append(value if k == last else {})
                    index = len(inner) - 1
                else:
                    index = self._list_index(step, k, len(inner))
                    if k == last:
                        inner[index] = value
                inner = inner[index]
            else:
                raise self._leaf_error(inner, k)
        return content

    def _list_index(self, step: str, k: int, length: int) -> int:
        plain = step.isascii() and step.isdigit() and (step == "0" or step[0] != "0")
        if not plain or len(step) > 18:
            raise ArgumentError(
                f"{safe_repr(step)} at {self._prefix(k)} of {self._label} is no index"
            )
        if int(step) >= length:
            raise ArgumentError(
                f"{self._prefix(k)} of {self._label} has {length} items, none is {step}",
                kind="out_of_bounds",
            )
        return int(step)

    def _leaf_error(self, content: Any, k: int) -> ArgumentError:
        return ArgumentError(
            f"{self._prefix(k)} of {self._label} is {safe_repr(content)}, which has no members"
        )

    def _prefix(self, k: int) -> str:
        return repr("/".join(self.pointer.split("/")[: k + 1]))


def _dump_document(value: Any, *, ascii_alone: bool = False) -> bytes:
    try:
        text = json.dumps(
            value, separators=(",", ":"), sort_keys=True, ensure_ascii=ascii_alone, allow_nan=False
        )
    except ValueError as error:
        raise ArgumentError(f"{safe_repr(value)}: JSON has neither NaN nor infinity") from error
    try:
        return text.encode()
    except UnicodeEncodeError:  # half of a pair of surrogates, which JSON can escape
        return _dump_document(value, ascii_alone=True)


def split_pointer(pointer: str) -> tuple[str, ...]:
    """Return the names on the path of a JSON pointer.

    Raises
    ------
    ArgumentError
        If the pointer is malformed.

    Examples
    --------
    >>> split_pointer("/a~1b/0")
    ('a/b', '0')
    """
    if not pointer:
        return ()
    if not pointer.startswith("/"):
        raise ArgumentError(f'"json_pointer": {safe_repr(pointer)} does not begin with /')
    unescaped = pointer.replace("~0", "").replace("~1", "")
    if "~" in unescaped:
        raise ArgumentError(f'"json_pointer": {safe_repr(pointer)} has a ~ without 0 or 1')
    steps = pointer[1:].split("/")
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in steps)


class JsonSpec(KvStoreDriverSpec):
    """The spec of a value in a document."""

    name = "json"

    _pointer: str
    _recheck: Recheck

    @classmethod
    def parse(cls, members: dict[str, Any], schema: Schema) -> Self:
        """Return the spec of JSON members."""
        spec = cls(Schema(dtype=_JSON, rank=0)._merge_with(schema))
        spec._check_parts()
        spec._read_kvstore(members)
        spec._pointer = text(members.pop("json_pointer", ""), "json_pointer")
        split_pointer(spec._pointer)
        spec._mode = OpenMode(open=True)
        spec._references = References.parse(DATA_RESOURCES, members)
        spec._recheck = recheck_of(
            members.pop("recheck_cached_data", "open"), "recheck_cached_data"
        )
        return spec

    def _constrain(self, options: SpecChanges) -> None:
        """Check constraints; they add nothing to the schema."""
        before = self.schema
        super()._constrain(options)
        self.schema = before

    def _check_parts(self) -> None:
        if self.schema.fill_value is not None:
            raise ArgumentError("a value in a document has no fill value")
        if self.schema.codec is not None:
            raise ArgumentError("a value in a document has no codec")

    @classmethod
    def of(
        cls, driver: Driver, view: IndexTransform, *, minimal: bool
    ) -> tuple[Self, IndexTransform]:
        """Return the spec of an open value."""
        assert isinstance(driver, JsonDriver)
        spec = copy(driver.opened_by)
        assert isinstance(spec, cls)
        assert spec._place is not None
        spec._place = spec._place._with_resolved_drivers()
        return spec, view

    def members(self, naming: Naming, *, include_defaults: bool) -> JSONObject:
        """Return the members of its JSON."""
        members_json: JSONObject = {}
        if self._place is not None:
            members_json["kvstore"] = self._place._json(naming, include_defaults=include_defaults)
        members_json.update(self._references.json(naming, include_defaults=include_defaults))
        if self._pointer or include_defaults:
            members_json["json_pointer"] = self._pointer
        if self._recheck != "open" or include_defaults:
            members_json["recheck_cached_data"] = self._recheck
        return members_json

    def effective(self) -> Schema:
        """Return the complete schema."""
        return self.schema._merge_with(
            Schema(domain=IndexDomain._of(()), chunk_layout=ChunkLayout(rank=0))
        )

    @property
    def open_mode(self) -> OpenMode:
        """The open mode: opening sends no request."""
        return OpenMode(open=True)

    def _set_rechecks(self, options: SpecChanges) -> None:
        bounds = (options.recheck_metadata, options.recheck_data)
        requested = [bound for bound in bounds if bound is not None]
        if requested:  # the document is both metadata and data: the later bound applies
            self._recheck = max(requested, key=lambda bound: staleness_bound(bound, time.time()))

    def _suffix(self) -> str:
        return f"json:{quote_path(self._pointer)}"

    def open(self, view: IndexTransform | None, opening: OpenRequest) -> Future[OpenResult]:
        """Return a handle without a request; the document need not exist."""
        if self._place is None:
            raise ArgumentError("the spec has no kvstore: give the location of the document")

        def opened() -> OpenResult:
            kvstore = self.open_kvstore()
            memory = caches_of(self._references.resource("cache_pool"))
            cache_key = CachedDocument, kvstore._location.store, kvstore._key("")
            document = memory.find(cache_key)
            if document is None:
                document = CachedDocument(kvstore)
                memory.add(cache_key, document)
            since = staleness_bound(self._recheck, time.time())
            return OpenResult(JsonDriver(document, since, self._pointer, self), view)

        return spawn(opened, here=True)
