"""Data types by name: ``int32``, ``bfloat16``, ``ustring``.

A data type has a name and no byte order; the metadata of an array define how elements are stored.
NumPy arrays hold text, variable-length bytes and JSON values as Python objects.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, Union

import numpy as np

from tessarr._safe_repr import safe_repr
from tessarr.errors import ArgumentError, NotJSONError, TooLargeError, UnsupportedError
from tessarr.tensorstore.json.parse import convert_to_json
from tessarr.tensorstore.json.pickling import Picklable

if TYPE_CHECKING:
    import numpy.typing as npt

    from tessarr.dtype import DataType

__all__ = [
    "NAMES",
    "DTypeLike",
    "dtype",
    "of_stored",
]

DTypeLike: TypeAlias = Union["dtype", str, builtins.type, np.dtype[Any]]
"""A data type, its name, or an equivalent NumPy or Python type."""

_OBJECTS: Final[Mapping[str, builtins.type]] = MappingProxyType(
    {"string": bytes, "ustring": str, "json": object}
)
"""The data types whose elements are Python objects, and the classes of these objects."""

_ITEMS: Final = MappingProxyType({"byte": "V", "char": "S"})
"""The data types of single bytes, and the kinds of their NumPy data types."""

_SCALARS: Final = frozenset({str, builtins.bool, float})

_PLAIN: Final = (
    *("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)
_SMALL: Final = (
    *("int2", "int4", "float8_e3m4", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e4m3b11fnuz"),
    *("float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn", "bfloat16"),
)
NAMES: Final = ("bool", *_ITEMS, *_SMALL, *_PLAIN, *_OBJECTS)
"""The names that TensorStore also defines."""

_MORE_SMALL: Final = ("uint2", "uint4", "float8_e4m3", "float6_e2m3fn", "float6_e3m2fn")
_OF_ML_DTYPES: Final = frozenset({*_SMALL, *_MORE_SMALL})
_OF_NUMPY: Final = frozenset({"bool", *_PLAIN})
_PARAMETERS: Final = re.compile(
    r"(datetime64|timedelta64)(\[([1-9][0-9]{0,8})?(Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as)\])?|[US][1-9][0-9]{0,7}"
)
"""Names of NumPy's datetime, timedelta and fixed-length text types, which TensorStore lacks."""

_ABSTRACT: Final = frozenset(
    {np.generic, np.number, np.integer, np.signedinteger, np.unsignedinteger}
    | {np.inexact, np.floating, np.complexfloating, np.flexible, np.character}
)

_JSON_DEPTH: Final = 200


class dtype(Picklable):  # noqa: N801 (TensorStore's name)
    """A data type.

    Parameters
    ----------
    dtype : dtype, str, type or numpy.dtype
        The name, or a NumPy or Python type: ``int`` is ``int64``, ``float`` is ``float64``,
        ``str`` is ``ustring`` and ``bytes`` is ``string``. Byte orders are ignored.

    Raises
    ------
    ArgumentError
        If no such data type exists.

    Notes
    -----
    In addition to TensorStore's data types, ``uint2``, ``uint4``, ``float8_e4m3``,
    ``float6_e2m3fn`` and ``float6_e3m2fn`` exist, as well as NumPy's datetime types
    (``datetime64[ns]``) and fixed-length text (``U4``).

    Examples
    --------
    >>> import numpy as np
    >>> dtype("int32"), dtype(np.dtype(">f8")), dtype(str)
    (dtype("int32"), dtype("float64"), dtype("ustring"))
    >>> dtype("uint8") == np.uint8, dtype("uint8")("7")
    (True, np.uint8(7))
    """

    __slots__ = ("__weakref__", "name")

    name: str
    """The name, which is also the JSON of the data type."""

    def __init__(self, dtype: DTypeLike) -> None:
        object.__setattr__(self, "name", _name_of(dtype))

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The NumPy data type; ``dtype("O")`` for text, variable-length bytes and JSON.

        Raises
        ------
        UnsupportedError
            If the data type needs the package ml_dtypes, which is not installed.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.int16.numpy_dtype, ts.ustring.numpy_dtype
        (dtype('int16'), dtype('O'))
        """
        return _to_numpy(self.name)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy data type of arrays; NumPy reads it in ``np.zeros(3, ts.int32)``.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> import numpy as np
        >>> np.zeros(2, ts.int16)
        array([0, 0], dtype=int16)
        """
        result = self.numpy_dtype
        return np.dtype(f"{result.char}1") if self.name in _ITEMS else result

    @property
    def type(self) -> builtins.type[Any]:
        """The class of an element.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.int16.type, ts.string.type
        (<class 'numpy.int16'>, <class 'bytes'>)
        """
        result = _OBJECTS.get(self.name)
        if result is None or result is object:
            scalar: builtins.type[Any] = self.numpy_dtype.type
            return scalar
        return result

    def to_json(self) -> str:
        """Return the name of the data type.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.bfloat16.to_json()
        'bfloat16'
        """
        return self.name

    def __call__(self, arg: Any) -> Any:
        """Convert a value to an element of this data type.

        Raises
        ------
        TypeError, ValueError, OverflowError
            If the class of the elements rejects the value.
        """
        if self.name == "json":
            return json_value(arg)
        if self.name in _OF_ML_DTYPES and isinstance(arg, str | bytes):
            arg = float(arg)  # ml_dtypes crashes on text that is not a number
        return self.type(arg)

    def __eq__(self, other: object) -> builtins.bool:
        if isinstance(other, dtype):
            return self.name == other.name
        if not isinstance(other, str | builtins.type | np.dtype):
            return NotImplemented
        try:
            return self.name == _name_of(other)
        except ArgumentError:
            return False

    def __hash__(self) -> int:
        return hash(self.name)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("data types cannot be changed")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("data types cannot be changed")

    def __repr__(self) -> str:
        return f'dtype("{self.name}")'


def of_stored(data_type: DataType) -> dtype:
    """Return the data type of the elements of a stored array.

    Parameters
    ----------
    data_type : tessarr.dtype.DataType
        The data type in the array's metadata. Raw types and structs become ``byte``.

    Examples
    --------
    >>> from tessarr.dtype import to_data_type
    >>> [of_stored(to_data_type(name)) for name in ("string", ">i4", "r16")]
    [dtype("ustring"), dtype("int32"), dtype("byte")]
    """
    match data_type.elements:
        case "text":
            return dtype("ustring")
        case "bytes":
            return dtype("string")
        case None:
            return dtype(data_type.numpy)
        case _:
            return dtype("json")


def json_value(value: Any, depth: int = 0) -> Any:
    """Convert a value to JSON, with lists instead of sequences and Python numbers.

    Raises
    ------
    NotJSONError
        If JSON cannot represent the value.
    TooLargeError
        If an integer has more than 64 bits.
    """
    if depth > _JSON_DEPTH:
        raise ArgumentError("a JSON value is nested too deeply")
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if value is None or type(value) in _SCALARS:
        return value
    if isinstance(value, int):
        if not -(2**63) <= value < 2**64:
            raise TooLargeError(f"{safe_repr(value)} has more than 64 bits")
        return int(value)
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise NotJSONError("the members of a JSON object have names that are text")
        return {key: json_value(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(item, depth + 1) for item in value]
    result = convert_to_json(value)
    if result is None:
        raise NotJSONError(f"JSON has nothing for an object of {type(value).__name__!r}")
    return json_value(result, depth + 1)


def element(value: Any, data_type: dtype) -> Any:
    """Convert a value to an element of text, bytes or JSON, without any subclass.

    Raises
    ------
    TypeError
        If the value has the wrong class.
    UnicodeEncodeError
        If UTF-8 cannot encode the text.
    """
    if data_type.name == "json":
        return json_value(value)
    if not isinstance(value, data_type.type):
        wanted = data_type.type.__name__
        raise TypeError(
            f"an element of {data_type.name} is of class {wanted}, not {safe_repr(value)}"
        )
    if isinstance(value, str):
        value.encode()
        return str.__str__(value)
    return bytes.__bytes__(value)


def elements(values: npt.NDArray[Any], data_type: dtype) -> npt.NDArray[Any]:
    """Convert values to an array of text, bytes or JSON.

    Raises
    ------
    TypeError
        If a value has the wrong class.
    UnicodeEncodeError
        If UTF-8 cannot encode a text.
    """
    result = np.empty_like(values, "O", subok=False)
    for at, value in np.ndenumerate(values):
        result[at] = element(value, data_type)
    return result


def _name_of(value: object) -> str:
    if isinstance(value, dtype):
        return value.name
    if isinstance(value, str):
        if value in NAMES or value in _MORE_SMALL or _PARAMETERS.fullmatch(value):
            return value
        raise ArgumentError(f"{safe_repr(value)} is not the name of a data type")
    if value is str:
        return "ustring"
    if value is bytes:
        return "string"
    if not isinstance(value, type | np.dtype) or _is_abstract(value):
        raise TypeError(f"{safe_repr(value)} is not a data type: pass its name or a NumPy type")
    try:
        result: np.dtype[Any] = np.dtype(value)
    except TypeError:
        raise ArgumentError(f"there is no data type for {safe_repr(value)}") from None
    return _name_of_numpy(result)


def _is_abstract(value: type | np.dtype[Any]) -> builtins.bool:
    """Return whether a NumPy class stands for several data types."""
    return isinstance(value, type) and value in _ABSTRACT


@lru_cache(maxsize=256)
def _name_of_numpy(numpy_dtype: np.dtype[Any]) -> str:
    name = numpy_dtype.type.__name__
    if numpy_dtype.isbuiltin == 2:  # a type of ml_dtypes, whose kind is not meaningful
        if name in _OF_ML_DTYPES:
            return name
    elif numpy_dtype.kind in "biufc" and numpy_dtype.name in _OF_NUMPY:
        return str(numpy_dtype.name)
    elif numpy_dtype.kind == "V":
        return "byte"
    elif numpy_dtype.kind == "S":
        return "char"
    elif numpy_dtype.kind == "T":
        return "ustring"
    elif numpy_dtype.kind in "mM":
        return str(numpy_dtype.name)
    elif numpy_dtype.kind == "U" and numpy_dtype.itemsize:
        return f"U{numpy_dtype.itemsize // 4}"
    raise ArgumentError(f"there is no data type for {safe_repr(numpy_dtype)} of NumPy")


@lru_cache(maxsize=256)
def _to_numpy(name: str) -> np.dtype[Any]:
    if name in _OBJECTS:
        return np.dtype("O")
    if name not in _OF_ML_DTYPES:
        return np.dtype(_ITEMS.get(name, name))
    try:
        result: np.dtype[Any] = np.dtype(getattr(import_module("ml_dtypes"), name))
    except (ImportError, AttributeError):
        raise UnsupportedError(
            f"data type {name!r} needs the package ml_dtypes, version 0.6 or newer "
            "(pip install tessarr[dtypes])",
            kind="missing_package",
            extension=name,
        ) from None
    return result


bool: Final = dtype("bool")
char: Final = dtype("char")
byte: Final = dtype("byte")
int2: Final = dtype("int2")
int4: Final = dtype("int4")
int8: Final = dtype("int8")
uint8: Final = dtype("uint8")
int16: Final = dtype("int16")
uint16: Final = dtype("uint16")
int32: Final = dtype("int32")
uint32: Final = dtype("uint32")
int64: Final = dtype("int64")
uint64: Final = dtype("uint64")
float4_e2m1fn: Final = dtype("float4_e2m1fn")
float8_e3m4: Final = dtype("float8_e3m4")
float8_e4m3b11fnuz: Final = dtype("float8_e4m3b11fnuz")
float8_e4m3fn: Final = dtype("float8_e4m3fn")
float8_e4m3fnuz: Final = dtype("float8_e4m3fnuz")
float8_e5m2: Final = dtype("float8_e5m2")
float8_e5m2fnuz: Final = dtype("float8_e5m2fnuz")
float8_e8m0fnu: Final = dtype("float8_e8m0fnu")
bfloat16: Final = dtype("bfloat16")
float16: Final = dtype("float16")
float32: Final = dtype("float32")
float64: Final = dtype("float64")
complex64: Final = dtype("complex64")
complex128: Final = dtype("complex128")
string: Final = dtype("string")
ustring: Final = dtype("ustring")
json: Final = dtype("json")
