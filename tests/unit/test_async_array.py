"""Arrays with asynchronous methods."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import tessarr
from tessarr.errors import SelectionError

REFERENCE = np.arange(20).reshape(4, 5)


def test_async_array_methods_are_awaitable(zarr_format: Any) -> None:
    a = tessarr.create_array(data=REFERENCE, chunks=2, zarr_format=zarr_format)
    later = a.async_array
    mask = REFERENCE % 3 == 0

    async def work() -> None:
        results = await asyncio.gather(
            later.getitem((slice(1, 3), 0)),
            later.oindex.getitem(([0, 2], [1, 3])),
            later.vindex.getitem(([0, 2], [1, 3])),
            later.get_basic_selection(0),
            later.get_orthogonal_selection(([0, 2], [1, 3])),
            later.get_coordinate_selection(([0, 2], [1, 3])),
            later.get_mask_selection(mask),
            later.get_block_selection((0, 1)),
        )
        expected = [
            REFERENCE[1:3, 0],
            *(REFERENCE[np.ix_([0, 2], [1, 3])], REFERENCE[[0, 2], [1, 3]], REFERENCE[0]),
            *(REFERENCE[np.ix_([0, 2], [1, 3])], REFERENCE[[0, 2], [1, 3]], REFERENCE[mask]),
            REFERENCE[:2, 2:4],
        ]
        for result, value in zip(results, expected, strict=True):
            np.testing.assert_array_equal(result, value)
        await later.setitem((0, slice(None)), 7)
        assert await later.append([[1, 2, 3, 4, 5]]) == (5, 5)
        assert (await later.update_attributes({"x": 1})) is later
        assert await later.nchunks_initialized() == a.nchunks_initialized == 9
        assert await later.nbytes_stored() == a.nbytes_stored
        assert str(await later.info_complete()) == str(a.info)
        await later.resize((1, 5))
        with pytest.raises(SelectionError):
            await later.getitem(9)

    asyncio.run(work())
    assert (a.shape, a[0].tolist(), dict(a.attrs)) == ((1, 5), [7] * 5, {"x": 1})


def test_async_array_properties_equal_those_of_array() -> None:
    a = tessarr.zeros((4, 5), path="x")
    later = a.async_array
    assert (later.shape, later.name, later.dtype, later.metadata) == (
        *(a.shape, a.name, a.dtype),
        a.metadata,
    )
    assert later == tessarr.Array.open(a.store, "x").async_array
    assert hash(later) == hash(a)
    assert repr(later).startswith("AsyncArray(/x, (4, 5), float64")
    assert {"shape", "getitem"} <= set(dir(later))
    with pytest.raises(AttributeError, match="colour"):
        _ = later.colour
