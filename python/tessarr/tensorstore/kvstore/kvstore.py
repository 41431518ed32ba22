"""Key-value stores: read, write, list and delete values."""

from __future__ import annotations

from functools import partial
from math import inf
from operator import index
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVarTuple

from tessarr._safe_repr import safe_repr
from tessarr.errors import ArgumentError, ConflictError, TooLargeError, UnsupportedError
from tessarr.index_space.dimension_names import MAX_INT64, MIN_INT64
from tessarr.store.wrappers.cache import PooledCacheStore
from tessarr.tensorstore.batch.batch import Batch
from tessarr.tensorstore.batch.shared_reads import ExpectedRead
from tessarr.tensorstore.context.context import Context
from tessarr.tensorstore.context.references import Naming
from tessarr.tensorstore.future.future import Future, T, failed, finished
from tessarr.tensorstore.future.spawn import spawn
from tessarr.tensorstore.json.format_json import format_repr
from tessarr.tensorstore.json.parse import as_bool, as_float, check_class
from tessarr.tensorstore.kvstore import kvstore_spec as specs
from tessarr.tensorstore.kvstore import values
from tessarr.tensorstore.kvstore.kvstore_spec import Spec
from tessarr.tensorstore.kvstore.local import is_fast_to_write
from tessarr.tensorstore.kvstore.values import (
    KeyRange,
    KvStoreBase,
    ReadResult,
    TimestampedStorageGeneration,
    as_bytes,
)
from tessarr.tensorstore.transaction.transaction import Transaction, run_in_transaction

if TYPE_CHECKING:
    from collections.abc import Callable

    from tessarr.store import Store
    from tessarr.tensorstore.batch.read_group import ReadGroup
    from tessarr.tensorstore.batch.shared_reads import SharedReads
    from tessarr.tensorstore.transaction.participant import Change

__all__ = ["KvStore"]

Given = TypeVarTuple("Given")

Keys: TypeAlias = list[bytes]  # in the class, `list` is a method


class KvStore(KvStoreBase):
    """A mapping of keys to bytes, in the order of the keys.

    Notes
    -----
    Keys are UTF-8 text. The memory driver accepts any text. Other drivers accept names joined by
    ``/``; no name may be empty, ``.`` or ``..``.

    Examples
    --------
    >>> import tessarr.tensorstore as ts
    >>> store = ts.KvStore.open({"driver": "memory"}).result()
    >>> store[b"a"] = b"value"
    >>> store["a"], "b" in store, store.list().result()
    (b'value', False, [b'a'])
    >>> store.read("b").result().state
    'missing'

    Read part of a value with a slice of its bytes, and delete a range of keys:

    >>> store.read("a", byte_range=slice(1, 3)).result().value
    b'al'
    >>> store.delete_range(ts.KvStore.KeyRange("a", "b")).result()
    >>> store.list().result()
    []

    Read a value only if its generation differs, or write it only if its generation is equal:

    >>> stamp = store.write("c", b"1").result()
    >>> store.read("c", if_not_equal=stamp.generation).result().state
    'unspecified'
    >>> store["c"] = b"2"
    >>> store.write("c", b"3", if_equal=stamp.generation).result().generation, store["c"]
    (b'', b'2')
    """

    __slots__ = ("__weakref__",)
    __iter__ = None

    KeyRange: TypeAlias = values.KeyRange
    ReadResult: TypeAlias = values.ReadResult
    Spec: TypeAlias = specs.Spec
    TimestampedStorageGeneration: TypeAlias = values.TimestampedStorageGeneration

    if TYPE_CHECKING:

        @property
        def _spec(self) -> Spec: ...
        @property
        def _transaction(self) -> Transaction | None: ...
        @_transaction.setter
        def _transaction(self, transaction: Transaction | None) -> None: ...
        def read(
            self,
            key: str | bytes,
            *,
            if_not_equal: str | bytes | None = None,
            staleness_bound: float | None = None,
            batch: Batch | None = None,
            byte_range: slice | None = None,
        ) -> Future[ReadResult]: ...
        def write(
            self,
            key: str | bytes,
            value: str | bytes | None,
            *,
            if_equal: str | bytes | None = None,
        ) -> Future[TimestampedStorageGeneration]: ...
        def delete_range(self, range: KeyRange) -> Future[None]: ...  # noqa: A002

    @staticmethod
    def open(
        spec: Any,
        *,
        context: Context | None = None,
        transaction: Transaction | None = None,
    ) -> Future[KvStore]:
        """Open a key-value store.

        Parameters
        ----------
        spec : KvStore.Spec, JSON, str or Store
            The spec, its JSON, a URL, or a Tessarr store.
        context
            The context of the resources that `spec` names; by default a new one for each call.
        transaction
            The transaction that stages changes.

        Returns
        -------
        Future
            The future of a `KvStore`.

        Raises
        ------
        ArgumentError
            If `spec` is invalid; the call itself raises this error.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> store = ts.KvStore.open("memory://data/").result()
        >>> store.path, ts.KvStore.open({"driver": "memory"}).result().url
        ('data/', 'memory://')
        """
        check_class(transaction, Transaction, "transaction")
        if isinstance(spec, KvStore):
            new = spec.copy()
            if transaction is not None:
                new.transaction = transaction
            return Future(new)
        result = Spec._of(spec)
        own = result._bound(check_class(context, Context, "context") or Context())
        try:
            return finished(KvStore(own, own._open(), result._path, transaction))
        except Exception as error:  # noqa: BLE001 (the future reports it)
            return failed(error)

    # Properties

    @property
    def path(self) -> str:
        """The prefix of each key in the underlying store.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> store = ts.KvStore.open("memory://data/").result()
        >>> store["a"] = b"1"
        >>> store.path = "da"
        >>> store.list().result()
        [b'ta/a']
        """
        return self._path

    @path.setter
    def path(self, path: str | bytes) -> None:
        self._path = path

    @property
    def transaction(self) -> Transaction | None:
        """The transaction that stages changes, or None.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> store, transaction = ts.KvStore.open("memory://").result(), ts.Transaction()
        >>> store.with_transaction(transaction).transaction is transaction, store.transaction
        (True, None)
        >>> transaction.abort()
        """
        return self._transaction

    @transaction.setter
    def transaction(self, transaction: Transaction | None) -> None:
        self._transaction = check_class(transaction, Transaction, "transaction")

    @property
    def base(self) -> KvStore | None:
        """The key-value store below this one; None for most drivers.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.KvStore.open("memory://").result().base is None
        True
        """
        below = self._spec.base
        if below is None:
            return None
        return KvStore(below, below._open(), below.path, self._transaction)

    @property
    def url(self) -> str:
        """The URL; a store without a URL raises an `UnsupportedError`.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> (ts.KvStore.open("memory://data/").result() / "part").url
        'memory://data/part'
        """
        return self._full_spec().url

    def _full_spec(self) -> Spec:
        new = self._spec._with_resolved_drivers().copy()
        new._path = self._path
        return new

    def spec(
        self, *, retain_context: bool | None = None, unbind_context: bool | None = None
    ) -> Spec:
        """Return the spec that opens this store again.

        Parameters
        ----------
        retain_context
            Keep the resources of this store in the spec.
        unbind_context
            Describe shared resources in the JSON of the spec.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.KvStore.open("memory://data/").result().spec()
        KvStore.Spec({'driver': 'memory', 'path': 'data/'})
        """
        own = self._full_spec()
        retains = as_bool(retain_context, "retain_context")
        if as_bool(unbind_context, "unbind_context"):
            return own._unbind()
        return own if retains else own._strip()

    def __copy__(self) -> KvStore:
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        if self._transaction is not None:
            raise ArgumentError("a key-value store with a transaction cannot be pickled")
        return KvStore._restored, (self._full_spec(),)

    @classmethod
    def _restored(cls, spec: Spec) -> KvStore:
        return cls.open(spec).result()

    def __deepcopy__(self, memo: dict[int, Any]) -> KvStore:
        restored, (spec,) = self.__reduce__()
        opened: KvStore = restored(spec._copy_resources(memo))  # with copied resources
        return opened

    def __repr__(self) -> str:
        naming = Naming()
        own = self._full_spec()
        own._see(naming)
        return format_repr("KvStore", own._whole(naming))

    # Staging

    def _staging_store(self, key: str, writes: bool) -> Store:
        """Return the store that stages changes of `key`."""
        assert self._transaction is not None
        return self._transaction._staging.key(self._location.store, key, writes=writes)

    def _staging_range(self, start: str, first: bytes, last: bytes, writes: bool) -> Store:
        """Return the store that stages changes of the keys from `first` to before `last`.

        Without `last`, the range ends after the last key with the prefix `start`.
        """
        assert self._transaction is not None
        end = last or KeyRange._below(start).exclusive_max
        return self._transaction._staging.keys(self._location.store, first, end, writes=writes)

    def _unsupported(self, what: str) -> UnsupportedError:
        """Return the error for a write to a read-only driver."""
        return UnsupportedError(f"keys of {self._spec._driver.name} cannot be {what}")

    def _do(self, work: Callable[[*Given], T], *given: *Given, whole: bool = False) -> Future[T]:
        """Return the future of `work`; a driver without latency runs it in this thread."""
        if self._spec._driver.at_once != inf:
            return run_in_transaction(self._transaction, partial(spawn, work, *given, whole=whole))
        try:
            return finished(work(*given))
        except BaseException as error:  # noqa: BLE001 (the future reports it)
            return failed(error)

    # Reading

    def _read(
        self,
        full: str,
        if_not_equal: str | bytes | None,
        staleness_bound: float | None,
        batch: Batch | None,
        byte_range: slice | None,
    ) -> Future[ReadResult]:
        """Start to read the value of the key `full`."""
        known = None if if_not_equal is None else as_bytes(if_not_equal, "a generation")
        span = None if byte_range is None else _span_of(byte_range)
        if staleness_bound is not None:
            as_float(staleness_bound, "staleness_bound")
        most = self._spec._driver.at_once
        collecting = check_class(batch, Batch, "batch")
        if collecting is not None:
            collecting._check()
        try:
            store = self._store(full)
            if most == inf or (collecting is None and most):
                limit = None if most == inf else int(most)
                result = self._read_in(store, full, known, span, limit)
                if isinstance(result, ReadResult):
                    return finished(result)
                return run_in_transaction(self._transaction, partial(spawn, result.read))
        except Exception as error:  # noqa: BLE001 (the future reports it)
            return failed(error)
        if collecting is None:
            return run_in_transaction(
                self._transaction, partial(spawn, self._read_in, store, full, known, span)
            )
        place = self._location.store

        def begin(_: ReadGroup, sharing: SharedReads) -> Future[ReadResult]:
            return spawn(self._read_in, sharing.through(store, place), full, known, span)

        read = partial(collecting._defer, begin, [ExpectedRead(place, full, span)])
        return run_in_transaction(self._transaction, read)

    def _look(
        self, key: str, known: bytes | None = None, sharing: SharedReads | None = None
    ) -> ReadResult:
        """Return the value of `key` to an internal caller, which handles conflicts itself."""
        full, place = self._key(key), self._location.store
        store = self._store(full)
        if sharing is not None:
            store = sharing.through(store, place)
        result: ReadResult = store.read_versioned(full, known, None)
        return result

    def _read_in(self, store: Any, *wish: Any) -> Any:
        """Return the result of a read from `store`, or an object that reads later."""
        try:
            return store.read_versioned(*wish)
        except ConflictError as error:
            self._raise_conflict(error)
            raise

    def _raise_conflict(self, error: ConflictError) -> None:
        """Abort the transaction, because a key has changed since the transaction read it."""
        if self._transaction is not None:
            self._transaction._abort_with(error)

    def list(
        self,
        range: KeyRange | None = None,  # noqa: A002 (TensorStore's name)
        strip_prefix_length: int = 0,
    ) -> Future[Keys]:
        """List keys in order.

        Parameters
        ----------
        range
            The keys to list; by default all.
        strip_prefix_length
            The number of bytes to remove from the start of each key.

        Returns
        -------
        Future
            The future of a list of bytes.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> store = ts.KvStore.open("memory://").result()
        >>> store["a/1"], store["a/2"], store["b"] = b"", b"", b""
        >>> chosen = ts.KvStore.KeyRange("a/", "b")
        >>> store.list(chosen).result(), store.list(chosen, strip_prefix_length=2).result()
        ([b'a/1', b'a/2'], [b'1', b'2'])
        """
        check_class(range, KeyRange, "range")
        strip = index(strip_prefix_length)
        if not 0 <= strip < 2**64:
            raise TypeError(f"strip_prefix_length: {strip} is no number of bytes")
        return self._do(self._list_range, _ends_of(range), strip)

    # Writing

    def _write(
        self, full: str, data: bytes | None, known: bytes | None
    ) -> Future[TimestampedStorageGeneration]:
        """Start to replace the value of the key `full`."""
        most = self._spec._driver.at_once
        try:
            if known is not None and self._transaction is not None:
                return self._do(self._write_staged, full, data, known, whole=True)
            store = self._store(full, True)
            write = store.write_versioned
            if most == inf or (len(data or b"") <= most and is_fast_to_write(store)):
                return finished(write(full, data, known))
        except Exception as error:  # noqa: BLE001 (the future reports it)
            return failed(error)
        return run_in_transaction(
            self._transaction, partial(spawn, write, full, data, known, whole=True)
        )

    def _write_staged(
        self, key: str, data: bytes | None, known: bytes
    ) -> TimestampedStorageGeneration:
        """Stage a write with a precondition, which the commit of the transaction checks."""
        if self._location.read_only:
            raise self._unsupported("written")
        assert self._transaction is not None
        staging, store = self._transaction._staging, self._location.store
        new: TimestampedStorageGeneration = staging.write(store, key, data, known)
        return new

    def _start_delete_range(self, chosen: _Ends) -> Future[None]:
        """Start to delete the keys in a range."""
        return self._do(self._delete, chosen, whole=True)

    def experimental_copy_range_to(
        self,
        target: KvStore,
        source_range: KeyRange | None = None,
        source_staleness_bound: float | None = None,
    ) -> Future[None]:
        """Copy keys and values to another store.

        Parameters
        ----------
        target
            The target store; its keys must differ from the copied keys.
        source_range
            The keys to copy; by default all.
        source_staleness_bound
            Ignored: the copy reads all values again.

        Returns
        -------
        Future
            Done after the last key; the copy reads and writes one key at a time.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> store = ts.KvStore.open("memory://from/").result()
        >>> store["a"], store["b"] = b"1", b"2"
        >>> other = ts.KvStore.open("memory://to/").result()
        >>> store.experimental_copy_range_to(other, ts.KvStore.KeyRange("b")).result()
        >>> other.list().result()
        [b'b']
        """
        if not isinstance(target, KvStore):
            raise TypeError(f"target: {safe_repr(target)} is no KvStore")
        if source_staleness_bound is not None:
            as_float(source_staleness_bound, "source_staleness_bound")
        check_class(source_range, KeyRange, "source_range")
        here = self._spec._driver.at_once == target._spec._driver.at_once == inf
        ends = _ends_of(source_range)
        begin = partial(spawn, self._copy_to, target, ends, here=here, whole=True)
        return run_in_transaction(
            self._transaction, partial(run_in_transaction, target._transaction, begin)
        )

    def _copy_to(self, target: KvStore, chosen: _Ends) -> None:
        source, begin, *_ = self._range(chosen)
        for key in map(bytes.decode, self._list_range(chosen, 0)):
            result = self._read_in(source, begin + key)
            if result.state == "value":
                target[key] = result.value

    def _change(self, key: str, change: Change) -> None:
        """Replace the value of `key` by the result of `change` for the current value."""
        store, full = self._location.store, self._key(key)
        if self._transaction is not None:
            self._transaction._staging.change(store, full, change)
            return
        fresh = store.base_store if isinstance(store, PooledCacheStore) else store
        current = fresh.get(full)
        while (new := change(current)) != current and not store.replace(full, new, current):
            current = fresh.get(full)


_Ends: TypeAlias = tuple[bytes, bytes]
"""The first key, and the first key after the range; an empty key means no end."""


def _ends_of(chosen: KeyRange | None) -> _Ends:
    """Return the ends of a range, which is mutable; by default those of all keys."""
    return (b"", b"") if chosen is None else (chosen._min, chosen._max)


def _span_of(chosen: Any) -> tuple[int, int | None]:
    """Return the first byte of a slice, and the byte after its last one."""
    if not isinstance(chosen, slice) or chosen.step is not None:
        raise TypeError(f"byte_range is a slice without a step, not {safe_repr(chosen)}")
    first = 0 if chosen.start is None else _offset(chosen.start)
    last = None if chosen.stop is None else _offset(chosen.stop)
    if last is not None and (first < 0 or last < first):
        raise ArgumentError(f"Unsupported byte_range slice: {first}:{last}")
    return first, last


def _offset(value: Any) -> int:
    """Return `value` as a byte offset; raise an error if it exceeds 64 bits."""
    result = index(value)
    if not MIN_INT64 <= result <= MAX_INT64:
        raise TooLargeError(f"byte_range: {safe_repr(result)} is beyond 64 bits")
    return result
