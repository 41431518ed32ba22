"""`copy_store`: copies of keys and values, byte by byte."""

from __future__ import annotations

import re

import pytest

import tessarr
from tessarr.errors import ArgumentError, ExistsError
from tessarr.store import LocalStore, MemoryStore

ITEMS = {"a/x": b"1", "a/b/y": b"22", "ab": b"333", "c": b""}


def items(store):
    return {key: store.get(key) for key in store.list()}


def test_all_keys_are_copied_to_another_kind_of_store(tmp_path):
    dest = LocalStore(tmp_path)
    assert tessarr.copy_store(MemoryStore(ITEMS), dest) == (4, 0, 6)
    assert items(dest) == ITEMS


def test_path_is_copied_to_another_path():
    dest, lines = {}, []
    counts = tessarr.copy_store(ITEMS, dest, "a", "d/e", log=lines.append)
    assert counts == (2, 0, 3)
    assert dest == {"d/e/x": b"1", "d/e/b/y": b"22"}
    assert lines == [
        "copy a/b/y -> d/e/b/y",
        "copy a/x -> d/e/x",
        "all done: 2 copied, 0 skipped, 3 bytes copied",
    ]


def test_exclude_and_include_expressions_select_keys():
    def copied(**rules):
        tessarr.copy_store(ITEMS, dest := {}, **rules)
        return sorted(dest)

    assert copied(excludes="^a") == ["c"]
    assert copied(excludes=["^a", "c"], includes="b/") == ["a/b/y"]
    assert copied(excludes="^A", flags=re.IGNORECASE) == ["c"]


def test_existing_keys_raise_or_are_replaced_or_skipped():
    def dest():
        return {"ab": b"old"}

    with pytest.raises(ExistsError, match="'ab'"):
        tessarr.copy_store(ITEMS, store := dest())
    assert store == dest()  # the copy stored no key
    assert tessarr.copy_store(ITEMS, store, if_exists="skip") == (3, 1, 3)
    assert store == {**ITEMS, "ab": b"old"}
    assert tessarr.copy_store(ITEMS, store, if_exists="replace") == (4, 0, 6)
    assert store == ITEMS
    with pytest.raises(ArgumentError, match="if_exists"):
        tessarr.copy_store(ITEMS, store, if_exists="ask")


def test_dry_run_changes_nothing():
    dest, lines = {}, []
    assert tessarr.copy_store(ITEMS, dest, dry_run=True, log=lines.append) == (4, 0, 0)
    assert dest == {}
    assert lines[-1] == "dry run: 4 copied, 0 skipped"
