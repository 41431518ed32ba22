"""Handles, views, transactions, resizes and caches of one array, compared with NumPy."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

import tessarr.tensorstore as ts
from sampling import examples

_LONGEST = 14  # of an axis, at any time
_CHUNK = (4, 3)
_UNKNOWN = -1
"""An element that a resize removed from a remaining chunk: the old value or fill."""

axis_keys = st.one_of(
    st.tuples(st.integers(0, 9), st.integers(0, 9), st.sampled_from([1, 1, 2, -1])),
    st.lists(st.integers(0, 9), min_size=1, max_size=4),
    st.integers(0, 9),
)
keys = st.tuples(axis_keys, axis_keys)
LAYOUTS = {
    "zarr3": ts.ChunkLayout(chunk_shape=_CHUNK),
    "zarr": ts.ChunkLayout(chunk_shape=_CHUNK),
    "shards": ts.ChunkLayout(write_chunk_shape=_CHUNK, read_chunk_shape=(2, 1)),
}


class Staged:
    """Transaction with its staged values and a mask of their positions."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self.transaction = ts.Transaction()
        self.shape = shape
        self.values = np.zeros((_LONGEST, _LONGEST), "i4")
        self.is_staged = np.zeros((_LONGEST, _LONGEST), bool)

    def over(self, below: np.ndarray) -> np.ndarray:
        return np.where(self.is_staged, self.values, below)


class Handles(RuleBasedStateMachine):
    """Several handles in one context: writes and resizes of one are visible in all."""

    layout: ClassVar[str] = "zarr3"

    handles = Bundle("handles")
    transactions = Bundle("transactions")

    @initialize(
        target=handles, cached=st.booleans(), recheck=st.sampled_from([True, False, "open"])
    )
    def create(self, cached: bool, recheck: bool | str) -> Any:
        self.context = ts.Context({"cache_pool": {"total_bytes_limit": 4000 if cached else 0}})
        driver = "zarr" if self.layout == "zarr" else "zarr3"
        self.spec = {"driver": driver, "kvstore": "memory://", "recheck_cached_data": recheck}
        self.shape = (9, 8)
        self.model = np.zeros((_LONGEST, _LONGEST), "i4")
        self.open_transactions = 0
        return ts.open(
            self.spec,
            context=self.context,
            create=True,
            dtype="int32",
            shape=self.shape,
            fill_value=0,
            chunk_layout=LAYOUTS[self.layout],
        ).result()

    @rule(target=handles)
    def open(self) -> Any:
        return ts.open(self.spec, context=self.context, open=True).result()

    @rule(target=handles, handle=handles)
    def resolve(self, handle: Any) -> Any:
        return handle.resolve().result()

    # Operations without a transaction

    @rule(handle=handles, key=keys, turned=st.booleans(), start=st.integers(1, 10**6))
    def write(self, handle: Any, key: Any, turned: bool, start: int) -> None:
        self._write(handle, self.model, key, turned=turned, start=start)

    @rule(handle=handles, key=keys, turned=st.booleans())
    def read(self, handle: Any, key: Any, turned: bool) -> None:
        self._compare(handle, self.model, key, turned=turned)

    @rule(handle=handles, rows=st.integers(1, _LONGEST), columns=st.integers(1, _LONGEST))
    def resize(self, handle: Any, rows: int, columns: int) -> None:
        if self.open_transactions:
            return  # other tests cover staged writes at a resize
        handle.resize(exclusive_max=[rows, columns]).result()
        reach = [-(-n // c) * c for n, c in zip((rows, columns), _CHUNK, strict=True)]
        cut = np.ones(self.model.shape, bool)
        cut[:rows, :columns] = False
        self.model[cut & (self.model != 0)] = _UNKNOWN
        gone = np.ones(self.model.shape, bool)
        gone[: reach[0], : reach[1]] = False
        self.model[gone] = 0
        self.shape = (rows, columns)

    # Operations in a transaction

    @rule(target=transactions)
    def begin(self) -> Staged:
        self.open_transactions += 1
        return Staged(self.shape)

    @rule(
        staged=transactions,
        handle=handles,
        key=keys,
        turned=st.booleans(),
        start=st.integers(1, 10**6),
    )
    def write_staged(self, staged: Staged, handle: Any, key: Any, turned: bool, start: int) -> None:
        values, written = staged.values.copy(), np.zeros(staged.is_staged.shape, bool)
        inside = handle.with_transaction(staged.transaction)
        self._write(inside, values, key, turned=turned, start=start, written=written)
        staged.values = values
        staged.is_staged |= written

    @rule(staged=transactions, handle=handles, key=keys, turned=st.booleans())
    def read_staged(self, staged: Staged, handle: Any, key: Any, turned: bool) -> None:
        inside = handle.with_transaction(staged.transaction)
        self._compare(inside, staged.over(self.model), key, turned=turned)

    @rule(staged=consumes(transactions))
    def commit(self, staged: Staged) -> None:
        staged.transaction.commit_sync()
        self.model = staged.over(self.model)
        self.open_transactions -= 1

    @rule(staged=consumes(transactions))
    def abort(self, staged: Staged) -> None:
        staged.transaction.abort()
        self.open_transactions -= 1

    # Invariants

    @invariant()
    def everything(self) -> None:
        again = ts.open(self.spec, context=self.context, open=True).result()
        assert again.shape == self.shape
        self._compare(again, self.model, ((0, 99, 1), (0, 99, 1)), turned=False)

    def _key(self, key: Any) -> tuple[Any, Any]:
        """Return the key of the NumPy array: an integer, a list or a range for each axis."""
        result = []
        for item, length in zip(key, self.shape, strict=True):
            if isinstance(item, int):
                result.append(item % length)
            elif isinstance(item, list):
                result.append([index % length for index in item])
            else:
                first, last = sorted(min(end, length) for end in item[:2])
                result.append(range(first, last)[:: item[2]])
        return result[0], result[1]

    def _view(self, handle: Any, key: tuple[Any, Any], *, turned: bool) -> Any:
        """Return a view by intervals if the key has them, or by index arrays."""
        cuts = [
            slice(item.start, item.start + item.step * len(item), item.step)
            for item in key
            if isinstance(item, range) and len(item)
        ]
        if len(cuts) == len(key):
            view = handle[tuple(cuts)].translate_to[0]
        else:
            arrays = [item if isinstance(item, int) else np.array(item, int) for item in key]
            view = handle.oindex[tuple(arrays)]
        return view.T if turned else view

    def _write(
        self,
        handle: Any,
        model: np.ndarray,
        key: Any,
        *,
        turned: bool,
        start: int,
        written: np.ndarray | None = None,
    ) -> None:
        cells = self._key(key)
        view = self._view(handle, cells, turned=turned)
        values = np.arange(start, start + int(np.prod(view.shape)), dtype="i4").reshape(view.shape)
        lists = [item for item in cells if isinstance(item, list)]
        if any(len(set(item)) < len(item) for item in lists):
            values[...] = start  # the order of writes to a repeated position is undefined
        if start % 5 == 0:
            values[...] = 0
        view.write(values).result()
        source = values.T if turned else values
        where = _cells(cells)
        model[where] = source.reshape(model[where].shape)
        if written is not None:
            written[where] = True

    def _compare(self, handle: Any, model: np.ndarray, key: Any, *, turned: bool) -> None:
        cells = self._key(key)
        result = self._view(handle, cells, turned=turned).read().result()
        expected = model[_cells(cells)]
        result = (result.T if turned else result).reshape(expected.shape)
        known = expected != _UNKNOWN
        np.testing.assert_array_equal(result[known], expected[known])


def _cells(key: tuple[Any, Any]) -> tuple[np.ndarray, ...]:
    return np.ix_(*[np.atleast_1d(np.array(item, int)) for item in key])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_handles(layout: str) -> None:
    class Machine(Handles):
        pass

    Machine.layout = layout
    few = examples(33, stateful_step_count=20)
    run_state_machine_as_test(Machine, settings=few)
