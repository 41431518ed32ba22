"""Files of the installed GDAL: every data type, codec and format, read bit by bit.

GDAL comes with the wheel of rasterio. Tessarr reads GDAL's violations of the specifications with
one warning for each document (docs/guide/tolerance.md).
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tessarr
from tessarr.errors import TessarrWarning

if TYPE_CHECKING:
    from pathlib import Path

rasterio: Any = pytest.importorskip("rasterio", reason="brings the GDAL that writes the files")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning"),
]

TYPES = [
    *(f"{kind}int{bits}" for kind in ("", "u") for bits in (8, 16, 32, 64)),
    *("float32", "float64", "complex64", "complex128"),
]
OPTIONS: dict[str, dict[str, str]] = {
    "none": {"COMPRESS": "NONE"},
    **{
        f"blosc {name} {shuffle}": {
            "COMPRESS": "BLOSC",
            "BLOSC_CNAME": name,
            "BLOSC_SHUFFLE": shuffle,
        }
        for name in ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd")
        for shuffle in ("NONE", "BYTE", "BIT")
    },
    "blosc blocks": {"COMPRESS": "BLOSC", "BLOSC_CLEVEL": "9", "BLOSC_BLOCKSIZE": "256"},
    "zlib": {"COMPRESS": "ZLIB", "ZLIB_LEVEL": "9"},
    "gzip": {"COMPRESS": "GZIP", "GZIP_LEVEL": "1"},
    "lzma": {"COMPRESS": "LZMA"},
    "lzma delta": {"COMPRESS": "LZMA", "LZMA_PRESET": "2", "LZMA_DELTA": "4"},
    "zstd": {"COMPRESS": "ZSTD", "ZSTD_LEVEL": "20"},
    "zstd checksum": {"COMPRESS": "ZSTD", "ZSTD_CHECKSUM": "YES"},
    "zstd no checksum": {"COMPRESS": "ZSTD", "ZSTD_CHECKSUM": "NO"},
    "lz4": {"COMPRESS": "LZ4"},
    "delta": {"FILTER": "DELTA"},
    "delta zlib": {"FILTER": "DELTA", "COMPRESS": "ZLIB"},
    "order F": {"CHUNK_MEMORY_LAYOUT": "F"},
    "order F gzip": {"CHUNK_MEMORY_LAYOUT": "F", "COMPRESS": "GZIP"},
    "order F delta": {"CHUNK_MEMORY_LAYOUT": "F", "FILTER": "DELTA", "COMPRESS": "GZIP"},
    "big endian": {"@ENDIAN": "BIG"},
    "big endian order F": {"@ENDIAN": "BIG", "CHUNK_MEMORY_LAYOUT": "F", "COMPRESS": "GZIP"},
    "separator /": {"DIM_SEPARATOR": "/"},
    "separator .": {"DIM_SEPARATOR": "."},
}
LACKS = (
    "not implemented with Zarr V3",
    "not supported with Zarr V3",
    "not available",
    "Write failed",  # from a Blosc without snappy
)
"""GDAL's error for codecs that it cannot write."""


@pytest.fixture(autouse=True)
def driver() -> None:
    with rasterio.Env() as environment:
        if "Zarr" not in environment.drivers():
            pytest.skip("the GDAL of this rasterio has no Zarr driver")


def values_of(name: str) -> np.ndarray[Any, Any]:
    """Return values with several elements in every chunk that use all bytes of an element."""
    dtype = np.dtype(name)
    rows, columns = np.mgrid[1:41, 1:51]
    if dtype.kind == "c":
        return np.asarray((rows + columns / 3) + 1j * (rows / 7 - columns), dtype)
    if dtype.kind == "f":
        return np.asarray(rows / 3 - columns * 1e5, dtype)
    limit = np.iinfo(dtype).max
    return np.asarray(limit // 3 + (rows * 51 + columns) % 40 - limit // 5, dtype)


def write(
    path: Path, values: np.ndarray[Any, Any], zarr_format: int, **options: Any
) -> np.ndarray[Any, Any]:
    """Write an array with GDAL, and return the elements that GDAL reads."""
    bands = values if values.ndim == 3 else values[None]
    with rasterio.open(
        path,
        "w",
        driver="Zarr",
        width=values.shape[-1],
        height=values.shape[-2],
        count=len(bands),
        dtype=values.dtype.name,
        FORMAT=f"ZARR_V{zarr_format}",
        **options,
    ) as file:
        file.write(bands)
    with rasterio.open(path) as file:
        read = file.read()
    return np.asarray(read if values.ndim == 3 else read[0])


def array_in(path: Path) -> tessarr.Array:
    """Return the only array with at least as many axes as a picture."""
    (array,) = (
        array for _, array in tessarr.open_group(path, "r").arrays(recurse=True) if array.ndim >= 2
    )
    return array


def quietly(path: Path) -> tessarr.Array:
    """Open the array at `path` without the warning about GDAL's violations."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TessarrWarning)
        return array_in(path)


def check(path: Path, expected: np.ndarray[Any, Any]) -> None:
    result = quietly(path)[...]
    assert result.dtype.newbyteorder("=") == expected.dtype
    np.testing.assert_array_equal(
        result.astype(expected.dtype).view(np.uint8), np.ascontiguousarray(expected).view(np.uint8)
    )


@pytest.mark.parametrize("nodata", [None, 7])
@pytest.mark.parametrize("codec", OPTIONS)
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_gdal_files_of_every_type_and_codec_are_read_bit_by_bit(
    tmp_path: Path, zarr_format: int, codec: str, nodata: int | None
) -> None:
    """The elements equal GDAL's result and the written values."""
    more = {} if nodata is None else {"nodata": nodata}
    for name in TYPES:
        values = values_of(name)
        path = tmp_path / f"{name}.zarr"
        options = {"BLOCKSIZE": "16,20", **OPTIONS[codec], **more}
        try:
            read = write(path, values, zarr_format, **options)
        except (rasterio.errors.RasterioError, rasterio.errors.RasterioIOError) as error:
            reason = str(error)
            assert any(words in reason for words in LACKS), reason
            pytest.skip(f"this GDAL cannot write it: {reason}")
        if not list(path.rglob("*.0")) and not list(path.rglob("0/0")):
            pytest.skip("this GDAL wrote no chunk, without an error")
        if "delta" not in codec or values.dtype.kind not in "fc":  # whose differences are rounded
            np.testing.assert_array_equal(read.view(np.uint8), values.view(np.uint8))
        check(path, read)


@pytest.mark.parametrize("nodata", [None, 0, 7, float("nan")])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_gdal_files_with_absent_chunks_are_read_as_gdal_does(
    tmp_path: Path, zarr_format: int, nodata: float | None
) -> None:
    """GDAL stores no chunks of its fill value: null, a number, or NaN."""
    more = {} if nodata is None else {"nodata": nodata}
    for name in TYPES:
        values = values_of(name)
        if nodata is not None and np.isnan(nodata) and values.dtype.kind in "iu":
            continue
        values[16:32, 20:40] = nodata or 0
        path = tmp_path / f"{name}.zarr"
        try:
            read = write(path, values, zarr_format, BLOCKSIZE="16,20", **more)
        except rasterio.errors.RasterioIOError as error:
            # GDAL cannot read its own NaN of complex numbers in format 2.
            assert (str(error), values.dtype.kind, nodata) == (
                "Invalid fill_value",
                "c",
                more["nodata"],
            )
            assert np.isnan(quietly(path).fill_value.real)
            continue
        check(path, read)


@pytest.mark.parametrize("interleave", ["BAND", "PIXEL"])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_gdal_files_of_several_bands_are_read(
    tmp_path: Path, zarr_format: int, interleave: str
) -> None:
    values = np.stack([values_of("int16") + band for band in range(3)])
    read = write(tmp_path / "a", values, zarr_format, SINGLE_ARRAY="YES", INTERLEAVE=interleave)
    np.testing.assert_array_equal(read, values)
    result = quietly(tmp_path / "a")[...]
    np.testing.assert_array_equal(
        result if interleave == "BAND" else np.moveaxis(result, 2, 0), read
    )


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_gdal_document_with_defects_causes_one_warning(tmp_path: Path, zarr_format: int) -> None:
    """The warning names each defect with its location."""
    options = {"COMPRESS": "LZMA"} if zarr_format == 2 else {"COMPRESS": "GZIP"}
    write(tmp_path / "a", values_of("int16"), zarr_format, **options)
    with pytest.warns(TessarrWarning) as caught:
        array_in(tmp_path / "a")
    assert len(caught) == 1
    expected = "/compressor/delta: unknown member" if zarr_format == 2 else "/fill_value: null"
    assert expected in str(caught[0].message)


def test_gdal_consolidated_metadata_is_read(tmp_path: Path) -> None:
    values = values_of("float32")
    write(tmp_path / "a", values, 2, COMPRESS="ZLIB", CREATE_ZMETADATA="YES")
    group = tessarr.open_consolidated(tmp_path / "a")
    (array,) = (array for _, array in group.arrays() if array.ndim == 2)
    np.testing.assert_array_equal(array[...], values)
