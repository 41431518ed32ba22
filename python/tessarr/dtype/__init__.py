"""Data types: `DataType`, one class per family, and conversions from names and NumPy dtypes.

A family is a subclass of `DataType` in its own module, decorated with `register`.
"""

from __future__ import annotations

from tessarr.dtype.base import DataType, register
from tessarr.dtype.names import from_json, to_data_type
from tessarr.dtype.numeric import Boolean, Float, Integer

__all__ = [
    "Boolean",
    "DataType",
    "Float",
    "Integer",
    "from_json",
    "register",
    "to_data_type",
]
