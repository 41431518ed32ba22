"""Conversion of data types and fill values in metadata documents to NumPy, in plain Python.

The module is independent of `tessarr.dtype` and does not validate its input.
"""

from __future__ import annotations

import base64
from importlib import import_module
from typing import Any, Final

import numpy as np

__all__ = ["clear_unused_bits", "data_type_v2", "data_type_v3", "fill_bytes"]

_BITS: Final = {
    "int2": 2,
    "uint2": 2,
    "int4": 4,
    "uint4": 4,
    "float4_e2m1fn": 4,
    "float6_e2m3fn": 6,
    "float6_e3m2fn": 6,
}


def data_type_v2(json: Any) -> np.dtype[Any]:
    """Return the dtype of ``.zarray``.

    Examples
    --------
    >>> data_type_v2([["a", "<i4"], ["b", [["c", ">f8", [2]]]]])
    dtype([('a', '<i4'), ('b', [('c', '>f8', (2,))])])
    """
    if isinstance(json, str):
        return np.dtype(json)
    return np.dtype([(f[0], data_type_v2(f[1]), *map(tuple, f[2:])) for f in json])


def data_type_v3(json: Any) -> np.dtype[Any]:
    """Return the dtype of ``zarr.json``, in native byte order.

    Examples
    --------
    >>> data_type_v3({"name": "numpy.datetime64",
    ...               "configuration": {"unit": "ms", "scale_factor": 10}})
    dtype('<M8[10ms]')
    """
    name = json if isinstance(json, str) else json["name"]
    config = {} if isinstance(json, str) else json.get("configuration", {})
    if name in {"struct", "structured"}:
        pairs = [
            f if isinstance(f, list) else (f["name"], f["data_type"]) for f in config["fields"]
        ]
        return np.dtype([(name, data_type_v3(inner)) for name, inner in pairs])
    if name.startswith("numpy."):
        kind = "M8" if name == "numpy.datetime64" else "m8"
        return np.dtype(f"{kind}[{config['scale_factor']}{config['unit']}]")
    if "length_bytes" in config:
        kind = {"fixed_length_utf32": "U", "null_terminated_bytes": "S", "raw_bytes": "V"}[name]
        return np.dtype(f"{kind}{config['length_bytes'] // (4 if kind == 'U' else 1)}")
    if name[0] == "r":
        return np.dtype(f"V{int(name[1:]) // 8}")
    try:
        return np.dtype(name)
    except TypeError:
        small: np.dtype[Any] = np.dtype(getattr(import_module("ml_dtypes"), name))
        return small


def fill_bytes(value: Any, dtype: np.dtype[Any]) -> bytes:
    r"""Return one element with the fill value's bits, in the byte order of the type.

    Examples
    --------
    >>> fill_bytes("YWI=", np.dtype("S3")), fill_bytes({"a": 1, "b": "NaT"},
    ...                                                np.dtype([("a", "u1"), ("b", "M8[s]")]))
    (b'ab\x00', b'\x01\x00\x00\x00\x00\x00\x00\x00\x80')
    """
    order = "big" if dtype.str[0] == ">" else "little"
    if dtype.kind in "mM":
        count = -(2**63) if value in (None, "NaT") else int(value)
        return count.to_bytes(8, order, signed=True)  # type: ignore[arg-type]
    if value is None:
        return bytes(dtype.itemsize)
    if isinstance(value, dict):
        parts = [fill_bytes(value[name], dtype[name]) for name in dtype.names or ()]
        return b"".join(parts)
    if dtype.isbuiltin != 2 and dtype.kind in "SV":
        item = base64.b64decode(value) if isinstance(value, str) else bytes(value)
        return item.ljust(dtype.itemsize, b"\0")
    if dtype.kind == "c":
        part = np.dtype(f"{dtype.byteorder}f{dtype.itemsize // 2}")
        real, imaginary = value if isinstance(value, list) else (value, 0)
        return fill_bytes(real, part) + fill_bytes(imaginary, part)
    if isinstance(value, str) and dtype.kind != "U":
        if value.startswith("0x"):
            return int(value, 16).to_bytes(dtype.itemsize, order)  # type: ignore[arg-type]
        value = float(value)
    return np.array(value).astype(dtype).tobytes()


def clear_unused_bits(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return elements with unused bits cleared, for types of less than a byte."""
    bits = _BITS.get(array.dtype.type.__name__)
    if bits is None:
        return array
    return (array.view(np.uint8) & np.uint8(2**bits - 1)).view(array.dtype)
