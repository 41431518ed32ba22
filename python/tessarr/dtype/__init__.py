"""Data types: `DataType`, one class per family, and how names and dtypes become one.

A new family is a subclass of `DataType` in a file of its own, decorated with
`register`. Names that belong to families which are not there yet are refused
as unsupported, by name.
"""

from __future__ import annotations

from tessarr.dtype.base import DataType, register
from tessarr.dtype.boolean import Boolean
from tessarr.dtype.names import from_json, to_data_type
from tessarr.dtype.numeric import Float, Integer

__all__ = [
    "Boolean",
    "DataType",
    "Float",
    "Integer",
    "from_json",
    "register",
    "to_data_type",
]
