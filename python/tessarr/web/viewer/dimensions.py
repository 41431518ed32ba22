"""Names, units and coordinates of the axes of an array.

Names come from ``dimension_names`` (format 3), from the attribute ``_ARRAY_DIMENSIONS`` (xarray in
format 2), or from the axes of an OME-Zarr image. The coordinates of an axis are the values of the
one-dimensional array with its name, in the group of the array or in a group above it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tessarr.array import Array
from tessarr.dtype.element_text import format_elements
from tessarr.errors import TessarrError
from tessarr.node.axis_names import find_axis_names
from tessarr.web.viewer.values import find_number_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from tessarr.group import Group
    from tessarr.types import JSONObject
    from tessarr.web.viewer.image import ImageLevel, OmeImage

__all__ = ["decode_times", "describe_dimensions", "find_names", "read_coordinates"]

_MAX_LENGTH: Final = 1 << 16
"""The longest axis whose coordinates the page receives."""

_TIME_UNITS: Final = {"day": 86400.0, "hour": 3600.0, "minute": 60.0, "second": 1.0}
_REFERENCE: Final = re.compile(r"(\w+?)s? since (\d{1,4}-\d+-\d+)(?:[T ](\d+):(\d+)(?::(\d+))?)?")


def find_names(array: Array, image: OmeImage | None = None) -> list[str | None]:
    """Return the names of the axes; None for an axis without a name.

    Examples
    --------
    >>> import tessarr
    >>> a = tessarr.zeros((2, 3), zarr_format=2, attributes={"_ARRAY_DIMENSIONS": ["y", "x"]})
    >>> find_names(a)
    ['y', 'x']
    """
    names = find_axis_names(array.metadata)
    if names is not None:
        return [*names]
    if image is not None and len(image.axes) == array.ndim:
        return [axis.name for axis in image.axes]
    return [None] * array.ndim


def describe_dimensions(array: Array, image: OmeImage | None) -> list[JSONObject]:
    """Return the name and the length of each axis."""
    names = find_names(array, image)
    return [
        {"name": name, "length": length} for name, length in zip(names, array.shape, strict=True)
    ]


def read_coordinates(
    array: Array,
    groups: Sequence[Group],
    image: OmeImage | None,
    level: ImageLevel | None,
) -> list[JSONObject | None]:
    """Return the coordinates of each axis, or None for an axis without coordinates.

    Parameters
    ----------
    array
        The array.
    groups
        The groups above it, the nearest first.
    image, level
        The image that the array belongs to, and its level, if any.

    Returns
    -------
    list
        For each axis: ``unit``; ``positions``, numbers or None; and ``labels``, text or None.
        Times have labels only. Axes of images have positions in physical units, and channels have
        their names as labels.
    """
    axes: list[JSONObject | None] = []
    for number, name in enumerate(find_names(array, image)):
        length = array.shape[number]
        coordinates = None
        if name is not None and 0 < length <= _MAX_LENGTH:
            coordinates = _read_axis(name, length, groups)
        if coordinates is None and image is not None and level is not None:
            coordinates = _scale_axis(image, level, number, length)
        axes.append(coordinates)
    return axes


def _read_axis(name: str, length: int, groups: Sequence[Group]) -> JSONObject | None:
    for group in groups:
        try:
            array = group.get(name)
            if not isinstance(array, Array) or array.shape != (length,):
                continue
            return _describe_values(np.asarray(array[:]), dict(array.attrs))
        except TessarrError:
            continue  # the page shows the error at the node of the coordinates
    return None


def _describe_values(values: npt.NDArray[Any], attributes: JSONObject) -> JSONObject:
    unit = attributes.get("units")
    calendar = str(attributes.get("calendar", "standard"))
    times = decode_times(values, str(unit), calendar) if unit is not None else None
    if times is not None:
        values, unit = times, None
    is_number = find_number_type(values.dtype) is not None and values.dtype.kind not in "cmM"
    positions = None
    if is_number and values.dtype.kind != "b" and np.isfinite(values).all():
        positions = values.astype("f8").tolist()
    return {
        "unit": None if unit is None else str(unit),
        "positions": positions,
        "labels": format_elements(values),
    }


def _scale_axis(image: OmeImage, level: ImageLevel, number: int, length: int) -> JSONObject | None:
    scale, translation = level.scale[number], level.translation[number]
    unit = image.axes[number].unit
    if image.axes[number].is_channel and len(image.channels) == length:
        return {"unit": None, "positions": None, "labels": list(image.channels)}
    if length > _MAX_LENGTH or (unit is None and (scale, translation) == (1.0, 0.0)):
        return None  # positions would repeat the indices
    positions = (np.arange(length) * scale + translation).tolist()
    return {
        "unit": unit,
        "positions": positions,
        "labels": [f"{position:.6g}" for position in positions],
    }


def decode_times(
    values: npt.NDArray[Any], unit: str, calendar: str = "standard"
) -> npt.NDArray[np.datetime64] | None:
    """Return CF times as ``datetime64``, or None for other units and calendars.

    Parameters
    ----------
    values
        Numbers of units since a reference.
    unit
        Such as ``"hours since 1970-01-01"``.
    calendar
        The calendar; only those that match NumPy's are decoded.

    Examples
    --------
    >>> decode_times(np.array([0, 36]), "hours since 2000-01-01").astype(str).tolist()
    ['2000-01-01T00:00', '2000-01-02T12:00']
    """
    match = _REFERENCE.match(unit.strip())
    seconds = _TIME_UNITS.get(match[1].lower()) if match else None
    known = {"standard", "gregorian", "proleptic_gregorian"}
    if match is None or seconds is None or calendar not in known or values.dtype.kind not in "iuf":
        return None
    try:
        year, month, day = (int(word) for word in match[2].split("-"))
        clock = [int(word or 0) for word in match.groups()[2:]]
        start = np.datetime64(f"{year:04}-{month:02}-{day:02}", "s")
        start += np.timedelta64((clock[0] * 60 + clock[1]) * 60 + clock[2], "s")
        numbers = np.round(values.astype("f8") * seconds)
        if not (np.abs(numbers) < 1e12).all():
            return None
        times: npt.NDArray[np.datetime64] = start + numbers.astype("m8[s]")
    except (OverflowError, ValueError):
        return None
    return _shorten(times)


def _shorten(times: npt.NDArray[np.datetime64]) -> npt.NDArray[np.datetime64]:
    """Return times with the coarsest unit that represents them: days, minutes or seconds."""
    for unit in ("D", "m"):
        shorter = times.astype(f"M8[{unit}]")
        if (shorter == times).all():
            return shorter
    return times
