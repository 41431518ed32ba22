"""netCDF-3 files as the source of a copy, read by the package netCDF4 or SciPy.

Both packages read variables and attributes; a reader hides the different names of their methods.
Neither package is thread-safe, so that a lock guards the file.
"""

from __future__ import annotations

import threading
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from tessarr.errors import DataError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["File", "Variable", "open_file"]

_CDF_5: Final = b"CDF\x05"


class _Reader(Protocol):
    """The interface of a reader."""

    source: Any
    variables: Mapping[str, Any]

    def dtype(self, variable: Any) -> np.dtype[Any]: ...
    def attributes(self, node: Any) -> dict[str, Any]: ...
    def close(self) -> None: ...


class _NetCDF4Reader:
    """A reader that uses the package netCDF4."""

    def __init__(self, path: str) -> None:
        self.source = import_module("netCDF4").Dataset(path, "r")
        self.source.set_auto_maskandscale(False)
        self.source.set_auto_chartostring(False)
        self.variables: Mapping[str, Any] = self.source.variables

    def dtype(self, variable: Any) -> np.dtype[Any]:
        dtype: np.dtype[Any] = np.dtype(variable.dtype)
        return dtype

    def attributes(self, node: Any) -> dict[str, Any]:
        return {name: node.getncattr(name) for name in node.ncattrs()}

    def close(self) -> None:
        self.source.close()


class _SciPyReader:
    """A reader that uses SciPy."""

    def __init__(self, path: str) -> None:
        self.source = import_module("scipy.io").netcdf_file(path, "r", mmap=True)
        self.variables: Mapping[str, Any] = self.source.variables

    def dtype(self, variable: Any) -> np.dtype[Any]:
        # In SciPy, attributes of a variable are Python attributes, and one may have the name dtype.
        dtype: np.dtype[Any] = np.dtype(variable.data.dtype)
        return dtype

    def attributes(self, node: Any) -> dict[str, Any]:
        return dict(node._attributes)

    def close(self) -> None:
        self.variables = {}
        self.source.close()


def open_file(path: Any) -> File:
    """Open a netCDF-3 file for reading.

    Raises
    ------
    UnsupportedError
        If neither package is installed.
    DataError
        If the file is damaged.
    """
    text = str(path)
    with Path(path).open("rb") as file:
        is_cdf_5 = file.read(len(_CDF_5)) == _CDF_5
    readers = (_NetCDF4Reader,) if is_cdf_5 else (_NetCDF4Reader, _SciPyReader)
    failure: Exception | None = None
    for reader in readers:
        try:
            return File(text, reader(text))
        except ImportError:
            continue
        except Exception as error:  # noqa: BLE001 (damaged files raise many classes)
            failure = failure or error
    if failure is not None:
        raise DataError(f"cannot read {text!r} as netCDF-3: {failure}") from failure
    packages = "netCDF4" if is_cdf_5 else "netCDF4 or scipy"
    raise UnsupportedError(
        f"cannot open {text!r}, which is netCDF-3, without the package {packages}: pip install "
        f"netCDF4, or convert the file: nccopy -k nc4 {Path(text).name} new.nc",
        kind="missing_package",
        extension="netCDF4",
    )


class File:
    """A netCDF-3 file with the interface of a group of h5py.

    Parameters
    ----------
    path
        The path of the file.
    reader
        The reader of the file.
    """

    in_netcdf: Final = True
    name: Final = "/"

    def __init__(self, path: str, reader: _Reader) -> None:
        self.filename = path
        self.reader = reader
        self.lock = threading.Lock()
        self.attrs = reader.attributes(reader.source)

    @property
    def file(self) -> File:
        """The file itself."""
        return self

    def keys(self) -> list[str]:
        """Return the names of the variables."""
        return list(self.reader.variables)

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __getitem__(self, name: str) -> Variable:
        if name not in self.reader.variables:
            raise KeyError(name)
        return Variable(self, name)

    def get(self, name: str) -> Variable | None:
        """Return a variable; None if the file lacks it."""
        return self[name] if name in self.reader.variables else None

    def close(self) -> None:
        """Close the file."""
        self.reader.close()

    def __repr__(self) -> str:
        return f"<netCDF-3 file {self.filename!r}>"


class Variable:
    """A variable of a netCDF-3 file with the interface of a dataset of h5py.

    Parameters
    ----------
    file
        The file.
    name
        The name of the variable.
    """

    in_netcdf: Final = True
    fillvalue: Final = None

    def __init__(self, file: File, name: str) -> None:
        self.file = file
        self.name = name
        source = file.reader.variables[name]
        self.shape = tuple(int(length) for length in source.shape)
        self.dtype: np.dtype[Any] = file.reader.dtype(source).newbyteorder("=")
        self.dimensions: tuple[str, ...] = tuple(source.dimensions)
        self.attrs = file.reader.attributes(source)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def __getitem__(self, key: Any) -> np.ndarray[Any, Any]:
        """Return a part of the variable, in memory and in the byte order of the machine.

        Raises
        ------
        DataError
            If the file is damaged.
        """
        try:
            # SciPy warns on closing if references to its variables exist, so do not store one.
            with self.file.lock:
                return np.array(self.file.reader.variables[self.name][key], self.dtype)
        except (OSError, RuntimeError, ValueError, IndexError) as error:
            raise DataError(
                f"cannot read variable {self.name!r} of netCDF-3: {error}", path=self.name
            ) from error
