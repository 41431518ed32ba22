"""Key-value stores: read, write, list and delete values."""

from __future__ import annotations

from functools import partial
from math import inf
from operator import index
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVarTuple

from tessarr._safe_repr import safe_repr
from tessarr.errors import (
    ArgumentError,
    ConflictError,
    NotFoundError,
    TooLargeError,
    UnsupportedError,
)
from tessarr.format.registry import set_public_module
from tessarr.format.utf8 import as_bytes, as_text
from tessarr.index_space.dimension_names import MAX_INT64, MIN_INT64
from tessarr.store.wrappers.cache import PooledCacheStore
from tessarr.tensorstore.batch import Batch, ExpectedRead, ReadGroup, SharedReads
from tessarr.tensorstore.context.context import Context
from tessarr.tensorstore.future.future import Future, T, failed, finished, spawn
from tessarr.tensorstore.json.parse import as_float, check_class
from tessarr.tensorstore.kvstore import kvstore_spec as specs
from tessarr.tensorstore.kvstore import values
from tessarr.tensorstore.kvstore.kvstore_spec import Spec
from tessarr.tensorstore.kvstore.local import is_fast_to_write
from tessarr.tensorstore.kvstore.properties import KvStoreProperties
from tessarr.tensorstore.kvstore.values import (
    KeyRange,
    ReadResult,
    TimestampedStorageGeneration,
    read_versioned,
    start_read,
)
from tessarr.tensorstore.transaction.transaction import (
    Transaction,
    run_in_transaction,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tessarr.store import Store
    from tessarr.tensorstore.transaction.participant import Change

__all__ = ["KvStore"]

Given = TypeVarTuple("Given")

Keys: TypeAlias = list[bytes]  # in the class, `list` is a method


class KvStore(KvStoreProperties):
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

    __slots__ = ()
    __iter__ = None

    KeyRange: TypeAlias = values.KeyRange
    ReadResult: TypeAlias = values.ReadResult
    Spec: TypeAlias = specs.Spec
    TimestampedStorageGeneration: TypeAlias = values.TimestampedStorageGeneration

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
            return finished(KvStore._of(own, own._open(), result._path, transaction))
        except Exception as error:  # noqa: BLE001 (the future reports it)
            return failed(error)

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
        return KvStore._of(below, below._open(), below.path, self._transaction)

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

    # Keys and their stores

    def _key(self, key: str | bytes) -> str:
        """Return the key in the store."""
        return self._location.key(self._path + as_text(key, "a key"))

    def _store(self, key: str, *, writes: bool = False) -> Store:
        """Return the store of a key; with a transaction, the store that stages its changes."""
        store = self._location.store
        if writes and self._location.read_only:
            raise self._unsupported("written")
        if self._transaction is None:
            return store
        stage = partial(self._transaction._staging.key, store, key, writes=writes)
        return stage() if writes else self._run_read(stage)

    def _range(self, ends: _Ends, *, writes: bool = False) -> tuple[Store, str, bytes, bytes]:
        """Return the store of a key range below the path, and its prefix and bounds there."""
        if self._location.read_only:
            raise self._unsupported("written" if writes else "listed")
        store, start = self._location.store, self._location.key(self._path)
        first, last = (start.encode() + end for end in ends)
        last = last if ends[1] else b""
        if self._transaction is not None:
            end = last or KeyRange._below(start).exclusive_max
            store = self._transaction._staging.keys(store, first, end, writes=writes)
        return store, start, first, last

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

    def __getitem__(self, key: str | bytes) -> bytes:
        full = self._key(key)
        value = self._run_read(self._store(full).get, full)
        if value is None:
            raise NotFoundError(f'key "{full}": there is none in this store', key=full)
        return value

    def __contains__(self, key: str | bytes) -> bool:
        full = self._key(key)
        return self._run_read(self._store(full).size, full) is not None

    def read(
        self,
        key: str | bytes,
        *,
        if_not_equal: str | bytes | None = None,
        staleness_bound: float | None = None,
        batch: Batch | None = None,
        byte_range: slice | None = None,
    ) -> Future[ReadResult]:
        """Read the value of a key; a missing key is no error.

        Parameters
        ----------
        key
            The key below the path.
        if_not_equal
            A generation. If the value still has it, the value is not read, and the state of
            the result is "unspecified".
        staleness_bound
            Accepted and ignored: no value is cached, every read sends a request.
        batch
            The batch that collects reads until it is submitted.
        byte_range
            The byte range: ``slice(5, 10)``, ``slice(5, None)``, ``slice(None, 10)`` or, for
            the last bytes, ``slice(-5, None)``.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> store = ts.KvStore.open("memory://").result()
        >>> store["a"] = b"abc"
        >>> store.read("a").result().value, store.read("b").result().state
        (b'abc', 'missing')
        >>> known = store.read("a").result().stamp.generation
        >>> store.read("a", if_not_equal=known).result().state
        'unspecified'
        """
        full = self._key(key)
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
                result = self._run_read(start_read, store, full, known, span, limit)
                if isinstance(result, ReadResult):
                    return finished(result)
                return run_in_transaction(self._transaction, partial(spawn, result))
        except Exception as error:  # noqa: BLE001 (the future reports it)
            return failed(error)
        if collecting is None:
            read = partial(spawn, self._run_read, read_versioned, store, full, known, span)
            return run_in_transaction(self._transaction, read)
        place = self._location.store

        def begin(_: ReadGroup, sharing: SharedReads) -> Future[ReadResult]:
            shared = sharing.through(store, place)
            return spawn(self._run_read, read_versioned, shared, full, known, span)

        start = partial(collecting._defer, begin, [ExpectedRead(place, full, span)])
        return run_in_transaction(self._transaction, start)

    def _look(
        self, key: str, known: bytes | None = None, sharing: SharedReads | None = None
    ) -> ReadResult:
        """Return the value of `key` to an internal caller, which handles conflicts itself."""
        full, place = self._key(key), self._location.store
        store = self._store(full)
        if sharing is not None:
            store = sharing.through(store, place)
        return read_versioned(store, full, known)

    def _run_read(self, read: Callable[..., T], *arguments: Any) -> T:
        """Call a read; if a key has changed since an earlier read, abort the transaction."""
        try:
            return read(*arguments)
        except ConflictError as error:
            if self._transaction is not None:
                self._transaction._abort_with(error)
            raise

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

    def _list_range(self, ends: _Ends, strip: int) -> Keys:
        store, start, first, last = self._range(ends)
        strip = min(len(start.encode()) + strip, 2**64 - 1)
        return store.list_range(start, first, last, strip=strip)

    # Writing

    def __setitem__(self, key: str | bytes, value: str | bytes | None) -> None:
        full = self._key(key)
        store = self._store(full, writes=True)
        if value is None:
            store.delete(full)
        else:
            store.put(full, as_bytes(value, "a value"))

    def __delitem__(self, key: str | bytes) -> None:
        self[key] = None

    def write(
        self, key: str | bytes, value: str | bytes | None, *, if_equal: str | bytes | None = None
    ) -> Future[TimestampedStorageGeneration]:
        """Replace the value of a key.

        Parameters
        ----------
        key
            The key below the path.
        value
            The new value; None deletes the key.
        if_equal
            A generation. If the value has another one, nothing changes, and the generation of
            the result is empty. In a transaction the value must have this generation at the
            commit: otherwise the commit fails and changes nothing.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> store = ts.KvStore.open("memory://").result()
        >>> known = store.write("a", b"abc").result().generation
        >>> store.write("a", b"new", if_equal=known).result().generation != b""
        True
        >>> store.write("a", b"too late", if_equal=known).result().generation, store["a"]
        (b'', b'new')
        """
        full = self._key(key)
        known = None if if_equal is None else as_bytes(if_equal, "a generation")
        data = None if value is None else as_bytes(value, "a value")
        most = self._spec._driver.at_once
        try:
            if known is not None and self._transaction is not None:
                return self._do(self._write_staged, full, data, known, whole=True)
            store = self._store(full, writes=True)
            write = partial(_write_versioned, store, full, data, known)
            if most == inf or (len(data or b"") <= most and is_fast_to_write(store)):
                return finished(write())
        except Exception as error:  # noqa: BLE001 (the future reports it)
            return failed(error)
        return run_in_transaction(self._transaction, partial(spawn, write, whole=True))

    def _write_staged(
        self, key: str, data: bytes | None, known: bytes
    ) -> TimestampedStorageGeneration:
        """Stage a write with a precondition, which the commit of the transaction checks."""
        if self._location.read_only:
            raise self._unsupported("written")
        assert self._transaction is not None
        staging, store = self._transaction._staging, self._location.store
        return TimestampedStorageGeneration(*staging.write(store, key, data, known))

    def delete_range(self, range: KeyRange) -> Future[None]:  # noqa: A002 (TensorStore's name)
        """Delete all keys in a range.

        Parameters
        ----------
        range
            The range of keys.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> store = ts.KvStore.open("memory://").result()
        >>> for key in ("a", "b", "c"):
        ...     store[key] = b""
        >>> store.delete_range(ts.KvStore.KeyRange("a", "c")).result()
        >>> store.list().result()
        [b'c']
        """
        if not isinstance(range, KeyRange):
            raise TypeError(f"range: {safe_repr(range)} is no KeyRange")
        return self._do(self._delete, _ends_of(range), whole=True)

    def _delete(self, ends: _Ends) -> None:
        store, start, first, last = self._range(ends, writes=True)
        store.delete_range(start, first, last)

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
            result = self._run_read(read_versioned, source, begin + key)
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


def _write_versioned(
    store: Store, key: str, data: bytes | None, known: bytes | None
) -> TimestampedStorageGeneration:
    return TimestampedStorageGeneration(*store.write_versioned(key, data, known))


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


set_public_module("tessarr.tensorstore", KvStore)
