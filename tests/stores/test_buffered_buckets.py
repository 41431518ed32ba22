"""Blocks of buffered writes, and other store objects for the same bucket."""

from __future__ import annotations

import pytest

import tessarr
from stores.clouds import Cloud


@pytest.mark.parametrize("opened", ["array", "group"])
def test_other_store_objects_of_a_bucket_see_buffered_elements(cloud: Cloud, opened: str) -> None:
    """An array that was opened by the URL of its group, or again by its own, sees each write."""
    options = cloud.storage_options
    tessarr.create_group(cloud.url("g"), storage_options=options)
    array = tessarr.create_array(
        cloud.url("g/a"), shape=4, chunks=2, dtype="i4", storage_options=options
    )
    if opened == "array":
        other = tessarr.open_array(cloud.url("g/a"), mode="r+", storage_options=options)
    else:
        group = tessarr.open_group(cloud.url("g"), mode="r+", storage_options=options)
        other = group.get_array("a")
    with array.buffered():
        array[0] = 1
        assert other[:2].tolist() == [1, 0]
        array[0] = 2
        other[0] = 3
        assert array[0] == 3
    assert other[...].tolist() == [3, 0, 0, 0]
