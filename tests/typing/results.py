"""Types of results that editors and type checkers know; nothing here runs.

`just types` checks this file.
"""

from __future__ import annotations

from typing import Any, assert_type

import numpy as np
import numpy.typing as npt

import tessarr
from tessarr import Array, Future, Group, Unreadable

a = tessarr.create_array(shape=(3, 4), chunks=(np.int64(2), None), shards="auto")
assert_type(a, Array)
assert_type(a[...], npt.NDArray[Any])
assert_type(a[1:, 0], npt.NDArray[Any])
assert_type(a[0, 1:], npt.NDArray[Any])
assert_type(a[None], npt.NDArray[Any])
assert_type(a[[0, 2]], npt.NDArray[Any])
assert_type(a[0, 1], Any)
assert_type(a[()], Any)
assert_type(a.oindex[[0, 2], [1, 3]], npt.NDArray[Any])
assert_type(a.blocks[1:], npt.NDArray[Any])
assert_type(a.read(), Future[npt.NDArray[Any]])
assert_type(a.read([0, 2]).result(), npt.NDArray[Any])
assert_type(a.read(0), Future[Any])

g = tessarr.open_group("memory://typed", "w", cache_attrs=False)
assert_type(g, Group)
assert_type(g["a"], Array | Group)
assert_type(g["a"][0:3], npt.NDArray[Any])
assert_type(g["a"][0, :].mean(), Any)
g["a"][0:3] = 1
assert_type(g.get_array("a")[0:3], npt.NDArray[Any])
assert_type(g.get_group("b").get_group("c"), Group)
for name, node in g.items():
    assert_type(name, str)
    assert_type(node, Array | Group | Unreadable)
    node[0:3]
for node in g.values():
    if isinstance(node, Array):
        assert_type(node[...], npt.NDArray[Any])

with tessarr.options(threads=2, compressor=None, nan_attributes="allow") as options:
    assert_type(options, tessarr.Options)
tessarr.open("memory://typed", shape=3, chunks=[[1, 2]], dtype="u1")
tessarr.open_array("memory://typed", "w", 3, -1, compression="gzip", shuffle=True)
tessarr.from_array(data=a, chunks="keep", shards=None, write_empty_chunks=True)
