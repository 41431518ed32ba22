"""Views that cast elements on read equal NumPy's `astype`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as numpy_st

import tessarr
from property.model import assert_same
from sampling import examples
from tessarr.testing import keys

NAMES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]
ORDERS = st.sampled_from("<>")


def is_exact(source: np.dtype[Any], target: np.dtype[Any]) -> bool:
    """Return whether NumPy defines the result for every number."""
    return source.kind not in "fc" or target.kind not in "iu"


@st.composite
def sources(draw: st.DrawFn, source: np.dtype[Any], target: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Generate numbers; floats fit the target if that is an integer."""
    shape = draw(numpy_st.array_shapes(max_dims=3, max_side=7))
    if is_exact(source, target):
        return draw(numpy_st.arrays(source, shape))
    low, high = max(np.iinfo(target).min, -2000), min(np.iinfo(target).max - 1, 2000)
    values = draw(numpy_st.arrays("f8", shape, elements=st.floats(low, high)))
    return values.astype(source)


@pytest.mark.parametrize("target_name", NAMES)
@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_cast_equals_numpy(target_name: str) -> None:
    """Views of both formats, with any byte order, shards and keys."""

    @examples(60)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        target = np.dtype(target_name)
        source = np.dtype(data.draw(ORDERS) + data.draw(st.sampled_from(NAMES)))
        values = data.draw(sources(source, target))
        chunks = tuple(data.draw(st.integers(1, size)) for size in values.shape)
        zarr_format = data.draw(st.sampled_from((2, 3)))
        sharded = zarr_format == 3 and data.draw(st.booleans())
        array = tessarr.create_array(
            None,
            shape=values.shape,
            dtype=source,
            chunks=chunks,
            shards=tuple(2 * size for size in chunks) if sharded else None,
            compressors=data.draw(st.sampled_from(("auto", None, "zstd"))),
            order=data.draw(st.sampled_from("CF")),
            zarr_format=zarr_format,
        )
        stored = data.draw(st.integers(0, values.shape[0]))
        array[:stored] = values[:stored]
        with np.errstate(all="ignore"):
            expected = array[...].astype(target)
            view = array.astype(target)
            key = data.draw(keys.advanced_keys(values.shape))
            try:
                expected_part = expected[key]
            except IndexError:
                key, expected_part = ..., expected
            assert_same(view[...], expected)
            assert_same(view[key], expected_part)
            assert_same(view.read(key).result(60), expected_part)

    run()
