"""Properties of key-value stores: spec, path and transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from tessarr.format.utf8 import as_text
from tessarr.tensorstore.json.format_json import format_repr
from tessarr.tensorstore.json.parse import as_bool, check_class
from tessarr.tensorstore.kvstore.values import StoreLocation, join_path
from tessarr.tensorstore.transaction.transaction import Transaction, replace_transaction

if TYPE_CHECKING:
    from tessarr.tensorstore.kvstore.kvstore_spec import Spec

__all__ = ["KvStoreProperties"]


class KvStoreProperties:
    """Properties of a key-value store that need no request."""

    __slots__ = ("__weakref__", "_location", "_path", "_spec", "_transaction")

    _location: StoreLocation
    _path: str
    _spec: Spec  # bound; its path is not used
    _transaction: Transaction | None

    def __init__(self, *_: Any) -> None:
        raise TypeError("call KvStore.open to get a key-value store")

    @classmethod
    def _of(
        cls, spec: Spec, location: StoreLocation, path: str, transaction: Transaction | None = None
    ) -> Self:
        new = object.__new__(cls)
        new._spec, new._location, new._path, new._transaction = spec, location, path, transaction
        return new

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
        self._path = as_text(path)

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

    def copy(self) -> Self:
        """Return a copy, whose path and transaction can be changed.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> store = ts.KvStore.open("memory://a/").result()
        >>> other = store.copy()
        >>> other.path = "b/"
        >>> store.url, other.url
        ('memory://a/', 'memory://b/')
        """
        return type(self)._of(self._spec, self._location, self._path, self._transaction)

    def with_transaction(self, transaction: Transaction | None) -> Self:
        """Return this store with a transaction that stages its changes.

        Raises
        ------
        ArgumentError
            If its transaction is not committed.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> store = ts.KvStore.open("memory://").result()
        >>> with ts.Transaction() as transaction:
        ...     store.with_transaction(transaction)["a"] = b"abc"
        ...     seen = "a" in store
        >>> seen, "a" in store
        (False, True)
        """
        scope = replace_transaction(self._transaction, transaction)
        return type(self)._of(self._spec, self._location, self._path, scope)

    def _with_path(self, path: str) -> Self:
        return type(self)._of(self._spec, self._location, path, self._transaction)

    def __add__(self, suffix: str | bytes) -> Self:
        return self._with_path(self._path + as_text(suffix))

    def __truediv__(self, component: str | bytes) -> Self:
        return self._with_path(join_path(self._path, as_text(component)))

    def __copy__(self) -> Self:
        return self.copy()

    def __repr__(self) -> str:
        return format_repr("KvStore", self._full_spec().to_json())
