"""Requests for keys of arrays in transactions: never more than TensorStore's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from interop.tensorstore_parity.request_counting import VALUES, Scenarios, Side

SCENARIOS = Scenarios()


def _keys(side: Side) -> Any:
    return side.ts.KvStore.open(side.kvstore, context=side.context).result()


@SCENARIOS.expects(0, 0, 1)
def chunk_written_over_a_key_that_was_removed(side: Side) -> None:
    array = side.create("b/", sharded=False)
    with side.counting(), side.ts.Transaction() as transaction:
        del _keys(side).with_transaction(transaction)["b/c/0/0"]
        array.with_transaction(transaction)[3, 3].write(5).result()
    assert array[3, 2:4].read().result().tolist() == [0, 5]


@SCENARIOS.expects(0, 0, 1)
def chunk_written_over_a_key_that_was_replaced(side: Side) -> None:
    array = side.create("b/", sharded=False)
    value = _keys(side)["b/c/0/1"]
    with side.counting(), side.ts.Transaction() as transaction:
        _keys(side).with_transaction(transaction)["b/c/0/0"] = value
        array.with_transaction(transaction)[3, 3].write(5).result()
    assert array[3, 2:4].read().result().tolist() == [VALUES[3, 34], 5]


@SCENARIOS.expects(0, 0, 1)
def shard_written_over_a_key_that_was_replaced(side: Side) -> None:
    array = side.create("a/")
    value = _keys(side)["a/c/0/1"]
    with side.counting(), side.ts.Transaction() as transaction:
        _keys(side).with_transaction(transaction)["a/c/0/0"] = value
        array.with_transaction(transaction)[3, 3].write(5).result()
    assert array[3, 2:4].read().result().tolist() == [VALUES[3, 34], 5]


@SCENARIOS.expects(1, 0, 1)
def chunk_written_over_a_key_with_a_condition(side: Side) -> None:
    array = side.create("b/", sharded=False)
    old = _keys(side).read("b/c/0/0").result()
    value = _keys(side)["b/c/0/1"]
    with side.counting(), side.ts.Transaction() as transaction:
        staged = _keys(side).with_transaction(transaction)
        staged.write("b/c/0/0", value, if_equal=old.stamp.generation).result()
        array.with_transaction(transaction)[3, 3].write(5).result()
    assert array[3, 2:4].read().result().tolist() == [VALUES[3, 34], 5]


@pytest.mark.parametrize("scenario", SCENARIOS.all)
def test_staged_key_requests_do_not_exceed_tensorstore(scenario: str, tmp_path: Path) -> None:
    SCENARIOS.check(scenario, tmp_path)
