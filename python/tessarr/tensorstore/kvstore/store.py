"""The key-value store: reading, writing and listing bytes by their keys."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from tessarr.errors import ArgumentError, NotFoundError, TessarrError, UnsupportedError
from tessarr.store.kept import RememberingStore
from tessarr.tensorstore.batch import Batch
from tessarr.tensorstore.context import Context, Naming
from tessarr.tensorstore.future import Future, failed, start
from tessarr.tensorstore.kvstore import spec as specs
from tessarr.tensorstore.kvstore import values
from tessarr.tensorstore.kvstore.near import changes_at_once
from tessarr.tensorstore.kvstore.reading import read, span_of
from tessarr.tensorstore.kvstore.spec import Spec, joined, text_of
from tessarr.tensorstore.kvstore.stamps import write
from tessarr.tensorstore.kvstore.values import (
    KeyRange,
    ReadResult,
    TimestampedStorageGeneration,
)
from tessarr.tensorstore.reading import of_class
from tessarr.tensorstore.show import shown
from tessarr.tensorstore.transaction import Transaction

if TYPE_CHECKING:
    from tessarr.store import Store
    from tessarr.tensorstore.kvstore.driver import Place
    from tessarr.tensorstore.transaction import Change

__all__ = ["KvStore"]

T = TypeVar("T")

Keys: TypeAlias = list[bytes]  # in the class, `list` is a method


class KvStore:
    """Bytes by their keys, in the order of their keys.

    Notes
    -----
    Keys are text in UTF-8: names joined by ``/``, of which none is empty, ``.`` or ``..``.

    Examples
    --------
    >>> import tessarr.tensorstore as ts
    >>> store = ts.KvStore.open({"driver": "memory"}).result()
    >>> store[b"a"] = b"value"
    >>> store["a"], "b" in store, store.list().result()
    (b'value', False, [b'a'])
    >>> store.read("b").result().state
    'missing'
    """

    __slots__ = ("_path", "_place", "_spec", "_transaction")
    __iter__ = None

    KeyRange: TypeAlias = values.KeyRange
    ReadResult: TypeAlias = values.ReadResult
    Spec: TypeAlias = specs.Spec
    TimestampedStorageGeneration: TypeAlias = values.TimestampedStorageGeneration

    _spec: Spec  # bound; its path is not used
    _place: Place
    _path: str
    _transaction: Transaction | None

    def __init__(self) -> None:
        raise TypeError("key-value stores are had by KvStore.open")

    @classmethod
    def _of(cls, spec: Spec, place: Place, path: str, transaction: Transaction | None) -> KvStore:
        made = object.__new__(cls)
        made._spec = spec
        made._place = place
        made._path = path
        made._transaction = transaction
        return made

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
            What to open: its spec, the JSON of one, a URL, or a store of Tessarr.
        context
            Where to find the resources that are named; by default each call has its own.
        transaction
            What changes are staged in.
        """
        of_class(transaction, Transaction, "transaction")
        if isinstance(spec, KvStore):
            made = spec.copy()
            if transaction is not None:
                made.transaction = transaction
            return Future(made)
        bound = Spec(spec)._bound(of_class(context, Context, "context") or Context())

        def work() -> KvStore:
            return KvStore._of(bound, bound._open(), bound.path, transaction)

        return start(work, here=True)

    # What it is

    @property
    def path(self) -> str:
        """What stands before each key."""
        return self._path

    @path.setter
    def path(self, path: str | bytes) -> None:
        self._path = self._spec._driver.path(text_of(path))

    @property
    def transaction(self) -> Transaction | None:
        """What changes are staged in."""
        return self._transaction

    @transaction.setter
    def transaction(self, transaction: Transaction | None) -> None:
        self._transaction = of_class(transaction, Transaction, "transaction")

    @property
    def base(self) -> KvStore | None:
        """The store that this one stands on; None for most."""
        below = self._spec.base
        if below is None:
            return None
        return KvStore._of(below, below._open(), below.path, self._transaction)

    @property
    def url(self) -> str:
        """The URL; where there is none, that is an `UnsupportedError`."""
        return self._own().url

    def _own(self) -> Spec:
        made = self._spec.copy()
        made._path = self._path
        return made

    def spec(
        self, *, retain_context: bool | None = None, unbind_context: bool | None = None
    ) -> Spec:
        """Return what would open this store again.

        Parameters
        ----------
        retain_context
            Mean the very resources that this one has.
        unbind_context
            Say in JSON which resources are shared.
        """
        if retain_context:
            return self._own()
        return self._own()._unbound() if unbind_context else self._own()._stripped()

    def copy(self) -> KvStore:
        """Return another one, whose path and transaction can be changed."""
        return KvStore._of(self._spec, self._place, self._path, self._transaction)

    def __copy__(self) -> KvStore:
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        if self._transaction is not None:
            raise ArgumentError("a key-value store with a transaction cannot be pickled")
        return _reopened, (self.spec(unbind_context=True),)

    def with_transaction(self, transaction: Transaction | None) -> KvStore:
        """Return this store, its changes staged in a transaction."""
        staging = of_class(transaction, Transaction, "transaction")
        return KvStore._of(self._spec, self._place, self._path, staging)

    def __add__(self, suffix: str | bytes) -> KvStore:
        made = self.copy()
        made.path = self._path + text_of(suffix)
        return made

    def __truediv__(self, component: str | bytes) -> KvStore:
        made = self.copy()
        made.path = joined(self._path, text_of(component))
        return made

    def __repr__(self) -> str:
        naming = Naming()
        own = self._own()
        own._see(naming)
        return shown("KvStore", own._whole(naming))

    # Where it is

    def _store(self, keys: str | KeyRange, *, writes: bool = False) -> Store:
        """Return the store of the engine, which stages changes if there is a transaction.

        What was written in it to chunks that have one of the keys is staged there.
        """
        store = self._place.store
        if writes and self._spec._driver.only_reads:
            raise UnsupportedError(f"keys of {self._spec._driver.name} cannot be written")
        if self._transaction is None:
            return store
        chosen = KeyRange._of(keys) if isinstance(keys, str) else keys
        ends = (chosen.inclusive_min, chosen.exclusive_max)
        return self._transaction._keys(store, *ends, writes=writes)

    def _key(self, key: str | bytes) -> str:
        text = key if type(key) is str and key.isascii() else text_of(key, "a key")
        prefix, rooted = self._place.prefix, self._place.rooted
        whole = prefix + self._path + text
        return whole.removeprefix("/") if rooted else whole

    def _do(self, work: Callable[..., T], *arguments: Any) -> Future[T]:
        return start(work, *arguments, here=self._spec._driver.at_once == inf)

    # Reading

    def read(
        self,
        key: str | bytes,
        *,
        if_not_equal: str | bytes | None = None,
        staleness_bound: float | None = None,
        batch: Batch | None = None,
        byte_range: slice | None = None,
    ) -> Future[ReadResult]:
        """Read the value of a key; that it is absent is no error.

        Parameters
        ----------
        key
            Behind the path.
        if_not_equal
            A generation: where the value still has it, it is not read, and the state of the
            result is "unspecified".
        staleness_bound
            Since when the value may have been remembered: nothing is, it is always read.
        batch
            What collects reads until it is submitted.
        byte_range
            Which bytes: ``slice(5, 10)``, ``slice(5, None)``, ``slice(None, 10)`` or, the last
            ones, ``slice(-5, None)``.
        """
        known = None if if_not_equal is None else values.as_bytes(if_not_equal, "a generation")
        span = None if byte_range is None else span_of(byte_range)
        most = self._spec._driver.at_once
        try:
            full = self._key(key)
            store = self._store(full)
            here = most == inf or (most > 0 and (store.size(full) or 0) <= most)
        except TessarrError as error:
            return failed(error)
        of_class(batch, Batch, "batch")
        if batch is not None:
            shared = batch._store(store)
            return batch._later(lambda: self._do(read, shared, full, known, span))
        return start(read, store, full, known, span, here=here)

    def __getitem__(self, key: str | bytes) -> bytes:
        full = self._key(key)
        found = self._store(full).get(full)
        if found is None:
            raise NotFoundError(f"there is no key {full!r}", key=full)
        return found

    def __contains__(self, key: str | bytes) -> bool:
        full = self._key(key)
        return self._store(full).size(full) is not None

    def list(
        self,
        range: KeyRange | None = None,  # noqa: A002 (TensorStore's name)
        strip_prefix_length: int = 0,
    ) -> Future[Keys]:
        """List keys, in their order.

        Parameters
        ----------
        range
            Which ones; by default all.
        strip_prefix_length
            How many bytes to leave out at the beginning of each.
        """
        strip = int(strip_prefix_length)
        if strip < 0:
            raise ArgumentError(f"strip_prefix_length must not be negative: {strip}")
        return self._do(self._listed, range, strip)

    def _listed(self, chosen: KeyRange | None, strip: int = 0) -> Keys:
        """Return the keys in a range, without the path and the first bytes behind it."""
        if chosen is not None and chosen.empty:
            return []
        if self._spec._driver.only_reads:
            raise UnsupportedError(f"keys of {self._spec._driver.name} cannot be listed")
        start = self._place.key(self._path)
        store = self._place.store
        if self._transaction is not None:
            store = self._store(KeyRange._below(start, chosen))
        first = start.encode()
        if chosen is None:
            return store.list_range(start, strip=len(first) + strip)
        end = first + chosen._max if chosen._max else None
        return store.list_range(start, first + chosen._min, end, strip=len(first) + strip)

    # Writing

    def write(
        self,
        key: str | bytes,
        value: str | bytes | None,
        *,
        if_equal: str | bytes | None = None,
    ) -> Future[TimestampedStorageGeneration]:
        """Replace the value of a key.

        Parameters
        ----------
        key
            Behind the path.
        value
            None removes the key.
        if_equal
            A generation: where the value has another one, nothing is changed, and that of
            the result is empty.
        """
        known = None if if_equal is None else values.as_bytes(if_equal, "a generation")
        data = None if value is None else values.as_bytes(value, "a value")
        try:
            full = self._key(key)
            store = self._store(full, writes=True)
        except TessarrError as error:
            return failed(error)
        most = self._spec._driver.at_once
        here = most == inf or (len(data or b"") <= most and changes_at_once(store))
        return start(_write, store, full, data, known, here=here)

    def __setitem__(self, key: str | bytes, value: str | bytes | None) -> None:
        data = None if value is None else values.as_bytes(value, "a value")
        full = self._key(key)
        store = self._store(full, writes=True)
        if data is None:
            store.delete(full)
        else:
            store.put(full, data)

    def __delitem__(self, key: str | bytes) -> None:
        self[key] = None

    def delete_range(self, range: KeyRange) -> Future[None]:  # noqa: A002 (TensorStore's name)
        """Remove all keys in a range.

        Parameters
        ----------
        range
            Which ones.
        """
        return self._do(self._delete, range.copy())

    def _delete(self, chosen: KeyRange) -> None:
        start = self._place.key(self._path)
        store = self._store(KeyRange._below(start, chosen), writes=True)
        if not chosen._min and not chosen._max and (not start or start.endswith("/")):
            store.delete_prefix(start)
            return
        for key in self._listed(chosen):
            store.delete(start + key.decode())

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
            Where to; its keys must be others than those that are copied.
        source_range
            Which ones; by default all.
        source_staleness_bound
            Has no meaning here: values are always read.
        """
        chosen = None if source_range is None else source_range.copy()
        return self._do(self._copy_to, target, chosen)

    def _copy_to(self, target: KvStore, chosen: KeyRange | None) -> None:
        begin, end = self._place.key(self._path), target._place.key(target._path)
        source = self._store(KeyRange._below(begin, chosen))
        there = target._store(KeyRange._below(end, chosen), writes=True)
        for key in map(bytes.decode, self._listed(chosen)):
            value = source.get(begin + key)
            if value is not None:
                there.put(end + key, value)

    def _change(self, key: str, change: Change) -> None:
        """Replace a value by what a function makes of the one that is there."""
        store, full = self._place.store, self._key(key)
        if self._transaction is not None:
            self._transaction._change(store, full, change)
            return
        fresh = store.store if isinstance(store, RememberingStore) else store
        current = fresh.get(full)
        while (new := change(current)) != current and not store.replace(full, new, current):
            current = fresh.get(full)


def _reopened(spec: Spec) -> KvStore:
    return KvStore.open(spec).result()


def _write(
    store: Store, key: str, data: bytes | None, known: bytes | None
) -> TimestampedStorageGeneration:
    stamp = write(store, key, data, known or None)
    return TimestampedStorageGeneration._of(b"", time.time()) if stamp is None else stamp
