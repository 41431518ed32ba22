"""Resolution levels and axes of OME-Zarr images (versions 0.4 and 0.5)."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

from tessarr.format.node_path import join

if TYPE_CHECKING:
    from tessarr.types import JSONObject

__all__ = ["ImageAxis", "ImageLevel", "OmeImage", "parse_image"]


@dataclass(frozen=True, slots=True)
class ImageAxis:
    """An axis of an image.

    Parameters
    ----------
    name
        The name, such as ``"z"``.
    unit
        The unit, such as ``"micrometer"``, or None.
    is_channel
        Whether the axis has a channel at each index.
    """

    name: str
    unit: str | None
    is_channel: bool = False


@dataclass(frozen=True, slots=True)
class ImageLevel:
    """A resolution level.

    Parameters
    ----------
    path
        The path of the array, relative to the root of the hierarchy.
    scale, translation
        The position of an element along each axis is ``index * scale + translation``, in units.
    """

    path: str
    scale: tuple[float, ...]
    translation: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class OmeImage:
    """A multiscale image.

    Parameters
    ----------
    axes
        The axes of all levels.
    levels
        The levels; the first one has the full resolution.
    channels
        The names of the channels, if the image has them.
    """

    axes: tuple[ImageAxis, ...]
    levels: tuple[ImageLevel, ...]
    channels: tuple[str, ...] = ()


def parse_image(attributes: JSONObject, path: str) -> OmeImage | None:
    """Return the first image that the attributes of a group describe, or None.

    Parameters
    ----------
    attributes
        The attributes of the group.
    path
        The path of the group.

    Examples
    --------
    >>> data = {"multiscales": [{"axes": [{"name": "x"}], "datasets": [{"path": "0"}]}]}
    >>> parse_image(data, "img").levels
    (ImageLevel(path='img/0', scale=(1.0,), translation=(0.0,)),)
    """
    ome = attributes.get("ome")
    source = ome if isinstance(ome, dict) else attributes
    try:
        multiscale: Any = source["multiscales"][0]
        axes = tuple(_parse_axis(axis) for axis in multiscale["axes"])
        levels = tuple(_parse_level(dataset, path, len(axes)) for dataset in multiscale["datasets"])
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return None  # not an image, or one that breaks its specification
    return OmeImage(axes, levels, _parse_channels(source)) if levels else None


def _parse_channels(source: JSONObject) -> tuple[str, ...]:
    try:
        omero: Any = source["omero"]
        return tuple(str(channel["label"]) for channel in omero["channels"])
    except (KeyError, TypeError):
        return ()


def _parse_axis(axis: Any) -> ImageAxis:
    if isinstance(axis, str):  # version 0.3
        return ImageAxis(axis, None, axis == "c")
    unit = axis.get("unit")
    is_channel = axis.get("type") == "channel"
    return ImageAxis(str(axis["name"]), None if unit is None else str(unit), is_channel)


def _parse_level(dataset: Any, path: str, rank: int) -> ImageLevel:
    scale, translation = (1.0,) * rank, (0.0,) * rank
    for step in dataset.get("coordinateTransformations", ()):
        if step["type"] == "scale":
            scale = tuple(map(float, step["scale"]))
        elif step["type"] == "translation":
            translation = tuple(map(float, step["translation"]))
    is_finite = all(map(isfinite, (*scale, *translation)))
    if len(scale) != rank or len(translation) != rank or not is_finite:
        raise ValueError(dataset)
    return ImageLevel(join(path, str(dataset["path"]).strip("/")), scale, translation)
