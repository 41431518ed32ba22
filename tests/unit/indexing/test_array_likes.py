"""Parts of a value that ``np.asarray`` drops become fill values, errors or warnings."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tessarr
from tessarr.errors import ArgumentError, CastError, TessarrWarning, TooLargeError

MASKED = np.ma.array([1, 2, 3], mask=[0, 1, 0])


def created(**settings: Any) -> tessarr.Array:
    return tessarr.create_array(None, **{"shape": 3, "dtype": "i4", "fill_value": -1, **settings})


def by_write(a: tessarr.Array, value: Any) -> None:
    a.write(..., value).result()


def by_brackets(a: tessarr.Array, value: Any) -> None:
    a[...] = value


def by_points(a: tessarr.Array, value: Any) -> None:
    a.vindex[[0, 1, 2]] = value


def by_outer(a: tessarr.Array, value: Any) -> None:
    a.oindex[[0, 1, 2]] = value


def by_blocks(a: tessarr.Array, value: Any) -> None:
    a.blocks[:] = value


def by_mask(a: tessarr.Array, value: Any) -> None:
    a.set_mask_selection(np.ones(3, bool), value)


def by_view(a: tessarr.Array, value: Any) -> None:
    a.lazy[::-1][::-1] = value


def by_append(a: tessarr.Array, value: Any) -> None:
    a.resize(0)
    a.append(value)


WRITERS = [by_brackets, by_write, by_points, by_outer, by_blocks, by_mask, by_view, by_append]


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("dtype", ["i8", "i4", "f4"])
def test_masked_elements_become_fill_value(writer: Callable[..., None], dtype: str) -> None:
    """No element below the mask is stored, in any kind of write, with or without a cast."""
    a = created(dtype=dtype)
    writer(a, MASKED)
    assert a[...].tolist() == [1, -1, 3]
    writer(a, [np.ma.masked, 5, 6])
    assert a[...].tolist() == [-1, 5, 6]


@pytest.mark.parametrize("writer", WRITERS)
def test_masked_elements_without_fill_value_are_refused(writer: Callable[..., None]) -> None:
    """With a null fill value of format 2, masked values raise an error; other values do not."""
    a = created(zarr_format=2, fill_value=None)
    a[...] = 7
    with pytest.raises(ArgumentError, match="no fill value"):
        writer(a, MASKED)
    writer(a, np.ma.array([4, 5, 6]))
    assert a[...].tolist() == [4, 5, 6]


def test_masked_constant_stores_fill_value() -> None:
    """``a[1] = np.ma.masked`` stores the fill value, which is not 0."""
    a = created()
    a[...] = 7
    a[1] = np.ma.masked
    assert a[...].tolist() == [7, -1, 7]


def test_values_below_mask_are_not_converted() -> None:
    """Masked elements may have no value in the data type."""
    a = created(dtype="u1", fill_value=255)
    a[...] = np.ma.array([1.0, np.nan, 1e300], mask=[0, 1, 1])
    assert a[...].tolist() == [1, 255, 255]


def test_masked_array_cast_by_region_keeps_mask() -> None:
    """The copy of a large array of another type has several regions."""
    values = np.ma.array(np.arange(400_000), mask=np.arange(400_000) % 3 == 1)
    a = created(shape=400_000, chunks=9999)
    a[...] = values
    np.testing.assert_array_equal(a[...], values.filled(-1))


def test_masked_arrays_of_dask_keep_their_masks() -> None:
    """Tessarr reads Dask's arrays of masked arrays part by part."""
    dask = pytest.importorskip("dask.array", reason="Dask is not installed")
    lazy = dask.from_array(MASKED, chunks=2)
    a = created()
    a[...] = lazy
    a.append(lazy)
    assert a[...].tolist() == [1, -1, 3, 1, -1, 3]
    assert tessarr.array(lazy)[...].tolist() == [1, 999999, 3]


def test_masked_text_becomes_fill_value() -> None:
    """Variable-length elements can be masked, too."""
    a = created(dtype=str, fill_value="?")
    a[...] = np.ma.array(["a", "b", "c"], mask=[0, 0, 1])
    assert a[...].tolist() == ["a", "b", "?"]
    a[0] = np.ma.masked
    a[1:] = [np.ma.masked, "d"]
    assert a[...].tolist() == ["?", "?", "d"]


def test_masked_fields_of_records_become_fields_of_fill_value() -> None:
    """Each field has a mask; a field that is an array has its own fill values."""
    dtype = np.dtype([("a", "i4"), ("b", "f4", (2,))])
    fill = np.array((8, [9, 10]), dtype)[()]
    mask = np.array([(False, [False, True]), (True, [False, False])], [("a", "?"), ("b", "?", 2)])
    values = np.ma.array(np.array([(1, [2, 3]), (4, [5, 6])], dtype), mask=mask)
    a = created(shape=2, dtype=dtype, fill_value=fill, zarr_format=2)
    a[...] = values
    assert a["a"].tolist() == [1, 8]
    assert a["b"].tolist() == [[2, 10], [5, 6]]
    a["a"] = np.ma.array([5, 6], mask=[1, 0])
    a["b"] = np.ma.array([[1, 2], [3, 4]], mask=[[1, 0], [0, 1]])
    assert a["a"].tolist() == [8, 6]
    assert a["b"].tolist() == [[9, 2], [3, 10]]
    a[0] = np.ma.masked
    assert a[0] == fill


def test_new_array_takes_fill_value_of_masked_data() -> None:
    """``masked_equal`` restores the masked array; an explicit fill value has precedence."""
    data = np.ma.array([1, 2, 3], mask=[0, 1, 0], fill_value=-7)
    for a in (tessarr.array(data), tessarr.create_array(data=data)):
        assert a.fill_value == -7
        assert np.ma.masked_equal(a[...], a.fill_value).tolist() == [1, None, 3]
    assert tessarr.array(data, fill_value=0)[...].tolist() == [1, 0, 3]
    group = tessarr.create_group(None)
    group["x"] = data
    assert group["x"][...].tolist() == [1, -7, 3]
    tessarr.save("memory://masked-data", data)
    assert tessarr.load("memory://masked-data").tolist() == [1, -7, 3]
    with pytest.raises(ArgumentError, match="no fill value"):
        tessarr.array(data, fill_value=None, zarr_format=2)


def test_masked_fill_value_outside_type_is_refused() -> None:
    """NumPy's default is 999999, also for one byte; it matters where elements are masked."""
    with pytest.raises(ArgumentError, match="fill_value="):
        tessarr.array(MASKED.astype("i1"))
    assert tessarr.array(MASKED.astype("i1"), fill_value=9)[...].tolist() == [1, 9, 3]
    assert tessarr.array(np.ma.array([1, 2], dtype="i1")).fill_value == 0


def test_masked_array_stays_unchanged() -> None:
    """The values of the user do not change."""
    values = np.ma.array([1, 2, 3], mask=[0, 1, 0])
    created()[...] = values
    assert values.data.tolist() == [1, 2, 3]
    assert values.mask.tolist() == [False, True, False]


class Quantity:
    """Numbers with a unit, like pint's."""

    def __init__(self, magnitude: Any, units: str) -> None:
        self._of = magnitude, units

    magnitude = property(lambda self: self._of[0])
    units = property(lambda self: self._of[1])
    shape = property(lambda self: self.magnitude.shape)
    dtype = property(lambda self: self.magnitude.dtype)

    def __getitem__(self, key: Any) -> Quantity:
        return Quantity(self.magnitude[key], self.units)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]:
        return np.asarray(self.magnitude, dtype)


class Measured(np.ndarray[Any, Any]):
    """An array with a unit, like astropy's."""

    unit = "m"
    value = property(lambda self: self.view(np.ndarray))


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize(
    "value", [Quantity(np.array([1, 2, 3], "i4"), "m"), np.array([1, 2, 3], "i4").view(Measured)]
)
def test_unit_is_warned_of(writer: Callable[..., None], value: Any) -> None:
    """The array stores the numbers, and the warning says that it does not store the unit."""
    a = created()
    with pytest.warns(TessarrWarning, match="unit 'm'"):
        writer(a, value)
    assert a[...].tolist() == [1, 2, 3]
    with pytest.warns(TessarrWarning, match="unit 'm'"):
        assert tessarr.array(value)[...].tolist() == [1, 2, 3]


def test_numbers_without_dimension_are_stored_without_warning() -> None:
    """Dimensionless quantities are plain numbers."""
    a = created()
    a[...] = Quantity(np.arange(3), "dimensionless")
    assert a[...].tolist() == [0, 1, 2]


def test_none_in_numbers_is_warned_of() -> None:
    """NumPy converts it to NaN, which a reader may not expect."""
    for values in ([1, None, 3], np.array([1, None, 3], object)):
        a = created(dtype="f8")
        with pytest.warns(TessarrWarning, match="None is stored as NaN"):
            a[...] = values
        np.testing.assert_array_equal(a[...], [1, np.nan, 3])
    with pytest.raises(CastError, match=r"None at index \(1,\)"):
        created()[...] = [1, None, 3]


@pytest.mark.parametrize("dtype", ["i8", "f8", "c16", "bool"])
def test_not_time_in_numbers_is_refused(dtype: str) -> None:
    """NumPy would convert it to the least integer, and then to the data type."""
    for times in (np.array(["2020", "NaT"], "M8[s]"), np.array([1, "NaT"], "m8[s]")):
        with pytest.raises(CastError, match="cannot convert NaT"):
            created(dtype=dtype, fill_value=0)[:2] = times


def test_times_in_integers_are_warned_of() -> None:
    """The integers are times without their unit."""
    times = np.array(["2020", "NaT", "2021"], "M8[s]")
    a = created(dtype="i8")
    with pytest.warns(TessarrWarning, match=r"datetime64\[s\] is stored as numbers of int64"):
        a[...] = times[[0, 0, 2]]
    assert a[0] == times[0].astype("i8")


def test_missing_values_of_pandas_are_refused() -> None:
    """``pd.NA`` has no number; the message explains the solution."""
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    missing: list[Any] = [pandas.array([1, None, 3], dtype="Int64")]
    missing += [pandas.Series([1, None, 3], dtype="Int64"), [1, pandas.NA, 3], [1, pandas.NaT, 3]]
    for values in missing:
        a = created()
        with pytest.raises(CastError, match="masked array"):
            a[...] = values
        assert a[...].tolist() == [-1, -1, -1]
    for dtype in ("S4", "U4"):
        with pytest.raises(CastError, match="fillna"):
            created(dtype=dtype, fill_value="")[...] = pandas.Series(["a", None, "b"])
    a = created(dtype="f8")
    a[...] = missing[0]
    np.testing.assert_array_equal(a[...], [1, np.nan, 3])


def test_time_zone_of_pandas_is_warned_of() -> None:
    """Tessarr stores times as UTC."""
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    a = created(dtype="M8[s]", fill_value=None)
    with pytest.warns(TessarrWarning, match="time zone 'CET'"):
        a[...] = pandas.Series(pandas.date_range("2020-01-01", periods=3, tz="CET"))
    assert str(a[0]) == "2019-12-31T23:00:00"


def test_missing_values_of_pandas_are_missing_elements() -> None:
    """A data type with optional elements stores them as missing."""
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    maybe = {"name": "zarrs.optional", "configuration": {"name": "int16", "configuration": {}}}
    a = created(dtype=maybe, fill_value=None)
    a[...] = [1, pandas.NA, np.ma.masked]
    assert a["valid"].tolist() == [True, False, False]


@pytest.mark.parametrize(
    ("dtype", "value", "error", "text"),
    [
        ("i4", 1e20, TooLargeError, r"int32: 1e\+20: it is not from -2147483648 to 2147483647"),
        ("i4", [1, 2, 1e20], TooLargeError, r"1e\+20 at index \(2,\)"),
        ("i1", [[1, 2, 128]], TooLargeError, r"128 at index \(0, 2\): it is not from -128 to 127"),
        ("u8", -1, TooLargeError, "-1: it is not from 0 to 18446744073709551615"),
        ("u1", 10**400, TooLargeError, "an integer of 1329 bits"),
        ("f8", [1, 1j, 2], CastError, r"1j at index \(1,\)"),
        ("f8", np.complex64(1j), None, ""),
        ("i4", float("nan"), ArgumentError, "nan"),
        ("i4", "x", ArgumentError, "'x': invalid literal"),
        ("f4", ["1", "x", "2"], ArgumentError, r"'x' at index \(1,\)"),
        ("i4", object(), CastError, "object"),
        ("i4", [[1], [1, 2]], ArgumentError, "inhomogeneous"),
    ],
)
def test_conversion_error_names_value(
    dtype: str, value: Any, error: type[ArgumentError] | None, text: str
) -> None:
    """The message has the data type, the element, its index and the reason."""
    a = created(dtype=dtype, fill_value=0)
    if error is None:
        with pytest.warns(np.exceptions.ComplexWarning, match="imaginary"):
            a[...] = value
        return
    with pytest.raises(error, match=text) as caught:
        a[...] = value
    assert caught.value.kind == "cannot_cast"
    assert not a[...].any()


def test_nan_as_integer_warns_once() -> None:
    """The cast equals NumPy's; the only warning is Tessarr's."""
    a = created()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        a[...] = np.array([1, np.nan, 3])
    assert [w.category for w in caught] == [TessarrWarning]
    assert "NaN" in str(caught[0].message)


def test_list_for_new_array_is_checked_per_element() -> None:
    """``data=`` refuses the same values as an assignment."""
    with pytest.raises(TooLargeError, match=r"1e\+20 at index \(1,\)"):
        tessarr.create_array(data=[1, 1e20], dtype="i4")
    a = created()
    with pytest.raises(TooLargeError, match="300"):
        created(dtype="u1", fill_value=0).append([300])
    assert a.shape == (3,)
