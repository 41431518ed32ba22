"""Hypothesis strategies for data types and fill values of metadata documents."""

from __future__ import annotations

import base64
import importlib.util
from typing import Any, Final

import numpy as np
from hypothesis import strategies as st

__all__ = ["fill_values", "records_v2", "records_v3", "types_v2", "types_v3"]

_V3: Final = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128", "r8", "r16", "r24"),
)
_V2: Final = (
    *("|b1", "|i1", "|u1", "<i2", ">i2", "<u2", ">u2", "<i4", ">i4", "<u4", ">u4", "<i8", ">i8"),
    *("<u8", ">u8", "<f2", ">f2", "<f4", ">f4", "<f8", ">f8", "<c8", ">c8", "<c16", ">c16"),
)
_V2_OTHERS: Final = ("<U2", ">U3", "|S1", "|S5", "|V3", "<M8[ns]", ">M8[25s]", "<m8[D]", ">m8[ms]")
_FIELDS_V2: Final = ("|u1", "<i2", ">u4", "<f4", ">f8", ">c8", "|S3", ">U2", "|V2", "<M8[s]")
_FIELDS_V3: Final = ("uint8", "int16", "float32", "float64", "complex64", "r24", "uint64")
_SMALL: Final = (
    (
        "bfloat16",
        "int4",
        "uint2",
        "float8_e5m2",
        "float8_e4m3fnuz",
        "float4_e2m1fn",
        "float6_e3m2fn",
    )
    if importlib.util.find_spec("ml_dtypes")
    else ()
)


def _extension(name: str, **configuration: Any) -> dict[str, Any]:
    return {"name": name, "configuration": configuration}


_V3_OTHERS: Final = (
    _extension("fixed_length_utf32", length_bytes=12),
    _extension("null_terminated_bytes", length_bytes=5),
    _extension("raw_bytes", length_bytes=3),
    _extension("numpy.datetime64", unit="ns", scale_factor=1),
    _extension("numpy.timedelta64", unit="s", scale_factor=25),
)


def types_v2() -> st.SearchStrategy[Any]:
    """Generate the ``dtype`` of format 2, mostly numbers."""
    numbers = st.sampled_from(_V2)
    return st.one_of(numbers, numbers, st.sampled_from(_V2_OTHERS), records_v2())


def types_v3() -> st.SearchStrategy[Any]:
    """Generate the ``data_type`` of format 3, mostly core types."""
    core = st.sampled_from(_V3)
    return st.one_of(core, core, st.sampled_from((*_V3_OTHERS, *_SMALL)), records_v3())


def records_v2() -> st.SearchStrategy[Any]:
    """Generate the ``dtype`` of records of format 2, with fields that are arrays or records."""
    plain = st.sampled_from(_FIELDS_V2)
    nested = st.lists(plain, min_size=1, max_size=3).map(
        lambda types: [[f"n{i}", inner] for i, inner in enumerate(types)]
    )
    field = st.tuples(plain | nested, st.sampled_from(((), (), (), ([2],), ([1, 3],))))
    return st.lists(field, min_size=1, max_size=4).map(
        lambda fields: [[f"f{i}", inner, *shape] for i, (inner, shape) in enumerate(fields)]
    )


def records_v3() -> st.SearchStrategy[Any]:
    """Generate the ``data_type`` of records of format 3."""
    plain = st.sampled_from((*_FIELDS_V3, *_V3_OTHERS))
    nested = st.lists(plain, min_size=1, max_size=3).map(_record)
    return st.lists(plain | nested, min_size=1, max_size=4).map(_record)


def _record(types: list[Any]) -> dict[str, Any]:
    fields = [{"name": f"f{i}", "data_type": inner} for i, inner in enumerate(types)]
    return _extension("struct", fields=fields)


def fill_values(dtype: np.dtype[Any], zarr_format: int) -> st.SearchStrategy[Any]:
    """Generate the JSON of a fill value, including NaN payloads and negative zero.

    Parameters
    ----------
    dtype : numpy.dtype
        The data type. It does not distinguish ``r24`` from ``raw_bytes`` of three bytes; both
        accept a list.
    zarr_format : int
        2 or 3.
    """
    size = dtype.itemsize
    if dtype.names is not None and zarr_format == 3:
        return st.fixed_dictionaries(
            {name: fill_values(dtype[name], zarr_format) for name in dtype.names}
        )
    if dtype.isbuiltin == 2:
        return _small(dtype)
    if dtype.kind in "mM":
        return st.sampled_from((0, -5, 2**63 - 1, -(2**63), "NaT"))
    if dtype.kind == "U":
        return st.text(st.characters(codec="utf-8"), max_size=size // 4)
    if dtype.kind == "S":
        return st.binary(max_size=size).map(_base64)
    if dtype.kind == "V":
        item = st.binary(min_size=size, max_size=size)
        return item.map(_base64 if zarr_format == 2 else list)
    return _numbers(dtype, zarr_format)


def _numbers(dtype: np.dtype[Any], zarr_format: int) -> st.SearchStrategy[Any]:
    if dtype.kind == "b":
        return st.booleans()
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return st.sampled_from((0, 1, int(info.min), int(info.max), 42))
    if dtype.kind == "c":
        part = np.dtype(f"f{dtype.itemsize // 2}")
        return st.lists(_numbers(part, zarr_format), min_size=2, max_size=2)
    plain: list[Any] = [0.0, -0.0, 1.5, -2, "NaN", "Infinity", "-Infinity"]
    if zarr_format == 3:
        digits = 2 * dtype.itemsize
        payload = {4: "7e01", 8: "7fc00abc", 16: "fff8000000000123"}[digits]
        plain.append(f"0x{payload}")
    return st.sampled_from(plain)


def _small(dtype: np.dtype[Any]) -> st.SearchStrategy[Any]:
    name = dtype.type.__name__
    if "int" in name:
        return st.sampled_from((0, 1, 3) if name[0] == "u" else (0, 1, -1, -2))
    digits = "0d" * dtype.itemsize
    return st.sampled_from((0.0, 1.0, -2, 1.5, f"0x{digits}"))


def _base64(item: bytes) -> str:
    return base64.b64encode(item).decode("ascii")
