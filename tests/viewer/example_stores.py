"""Stores that the browser tests and the pictures of the documentation show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import tessarr


def create_climate(folder: Path, *, zarr_format: Any = 2) -> Path:
    """Create temperatures with dimensions and coordinates, as xarray stores them."""
    path = folder / "climate.zarr"
    group = tessarr.create_group(path, zarr_format=zarr_format, attributes={"title": "Climate"})
    lat, lon = np.linspace(87.5, -87.5, 36), np.linspace(-177.5, 177.5, 72)
    time = np.arange(0, 24 * 24, 6)
    latitude = np.radians(lat)[None, :, None]
    wave = np.sin(np.radians(lon) * 3 + time[:, None] / 60)[:, None, :]
    data = 288 + 30 * (np.cos(latitude) - 0.6) + 6 * np.cos(latitude) ** 2 * wave

    def add(name: str, values: np.ndarray, dims: list[str], **attributes: str) -> None:
        is_new = zarr_format == 3
        settings: dict[str, Any] = {"dimension_names": dims} if is_new else {}
        extra = {} if is_new else {"_ARRAY_DIMENSIONS": dims}
        group.create_array(name, data=values, attributes={**extra, **attributes}, **settings)

    dims = ["time", "lat", "lon"]
    add("t2m", data.astype("f4"), dims, long_name="2 metre temperature", units="K")
    add("time", time, ["time"], units="hours since 2024-03-01", calendar="proleptic_gregorian")
    add("lat", lat, ["lat"], units="degrees_north")
    add("lon", lon, ["lon"], units="degrees_east")
    tessarr.consolidate_metadata(path)
    return path


def create_image(folder: Path, version: str, *, size: int = 1024, planes: int = 8) -> Path:
    """Create an OME-Zarr image of cells with five resolution levels."""
    path = folder / f"image-{version}.ome.zarr"
    rng = np.random.default_rng(7)
    y, x = np.mgrid[:size, :size]
    data = np.zeros((2, planes, size, size), "f4")
    for _ in range(60):
        cy, cx, radius = rng.uniform(0, size), rng.uniform(0, size), rng.uniform(20, 60)
        depth = rng.uniform(0, planes)
        blob = np.exp(-((y - cy) ** 2 + (x - cx) ** 2) / (2 * (radius / 2) ** 2))
        for z in range(planes):
            weight = np.exp(-((z - depth) ** 2) / 4)
            data[rng.integers(2), z] += blob * weight * 4000
    data += rng.normal(200, 20, data.shape)
    level = data.clip(0).astype("u2")
    axes = [
        {"name": "c", "type": "channel"},
        {"name": "z", "type": "space", "unit": "micrometer"},
        {"name": "y", "type": "space", "unit": "micrometer"},
        {"name": "x", "type": "space", "unit": "micrometer"},
    ]
    datasets = []
    levels = []
    for number in range(5):
        scale = [1, 2.0, 0.25 * 2**number, 0.25 * 2**number]
        transform = {"type": "scale", "scale": scale}
        datasets.append({"path": str(number), "coordinateTransformations": [transform]})
        levels.append(level)
        level = level[..., ::2, ::2]
    window = {"min": 0, "max": 65535, "start": 100, "end": 4000}
    colors = {"DAPI": "0000FF", "GFP": "00FF00"}
    omero = {
        "channels": [
            {"label": label, "color": color, "window": window, "active": True}
            for label, color in colors.items()
        ]
    }
    multiscale: dict[str, Any] = {"name": "cells", "axes": axes, "datasets": datasets}
    is_new = version == "0.5"
    content = {"version": version, "multiscales": [multiscale], "omero": omero} if is_new else {}
    old = {"multiscales": [{**multiscale, "version": version}], "omero": omero}
    attributes = {"ome": content} if is_new else old
    group = tessarr.create_group(path, zarr_format=3 if is_new else 2, attributes=attributes)
    for number, values in enumerate(levels):
        chunks = (1, 1, min(256, values.shape[2]), min(256, values.shape[3]))
        group.create_array(str(number), data=values, chunks=chunks)
    return path


def create_tables(folder: Path) -> Path:
    """Create records and text."""
    path = folder / "tables.zarr"
    group = tessarr.create_group(path)
    records = np.zeros(500, [("id", "i4"), ("mass", "f8"), ("name", "U8")])
    records["id"] = np.arange(500)
    records["mass"] = np.linspace(0.5, 99.5, 500)
    records["name"] = [f"star-{i}" for i in range(500)]
    group.create_array("stars", data=records, chunks=100)
    words = np.array(["münchen", "Zürich", "a, b", "", "'quoted'"], object)
    group.create_array("cities", data=words, dtype=str)
    group.create_array("big", data=np.array([[2**62 + 1, -5], [7, 8]]))
    group.create_array("waves", data=np.exp(1j * np.linspace(0, 12, 400)))
    group.create_array("answer", data=np.array(42))
    return path


def create_root_array(folder: Path) -> Path:
    """Create an array at the root of its store."""
    path = folder / "root.zarr"
    x = np.linspace(0, 30, 2000)
    tessarr.create_array(path, data=np.sin(x) * np.exp(-x / 20), attributes={"units": "mV"})
    return path


def create_large_plane(folder: Path, *, size: int = 10000) -> Path:
    """Create a plane of 400 MB; element (i, j) is ``i * 10 + j``."""
    path = folder / "large.zarr"
    array = tessarr.create_array(path, shape=(size, size), dtype="i4", chunks=(1000, 1000))
    columns = np.arange(size, dtype="i4")
    for start in range(0, size, 1000):
        rows = np.arange(start, min(start + 1000, size), dtype="i4")[:, None]
        array[start : start + 1000] = rows * 10 + columns
    return path


def create_broken(folder: Path) -> Path:
    """Create a group with nodes that cannot be read beside good ones."""
    path = folder / "broken.zarr"
    group = tessarr.create_group(path)
    group.create_array("good", data=np.arange(64).reshape(8, 8))
    for name, document in {
        "not-json": "{",
        "no-shape": '{"zarr_format": 3, "node_type": "array"}',
    }.items():
        (path / name).mkdir()
        (path / name / "zarr.json").write_text(document)
    damaged = group.create_array("damaged", data=np.arange(4000).reshape(40, 100))
    for chunk in (path / "damaged" / "c").rglob("*"):
        if chunk.is_file():
            chunk.write_bytes(b"\x02\x01\x21\x04damaged")
    del damaged
    return path
