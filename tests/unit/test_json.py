"""JSON: every document has a defined outcome."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessarr.errors import MetadataError
from tessarr.format import json as _json


def load(text):
    data = text if isinstance(text, bytes) else text.encode()
    return _json.load(data, what="metadata 'x'")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "line 1 column 1"),
        ("{", "line 1"),
        ('{"a": 1,}', "line 1"),
        ('{"a": 1} x', "extra data"),
        ('{"a": 1, "a": 2}', "'a' occurs twice"),
        ('{"x": {"b": 1, "c": 2, "b": 3}}', "'b' occurs twice"),
        (b'{"a": "\xff"}', "not UTF-8"),
        (b"\xff\xfe{\x00}\x00", "not UTF-8"),
        ("1e400", "too large"),
        ("9" * 5000, "5000 digits"),
        ("[" * 100_000, "levels"),
        ("[" * 100_000 + "]" * 100_000, "levels"),
        ('{"a":' * 1000 + "1" + "}" * 1000, "levels"),
        ("'a'", "line 1"),
        ('{"a": 01}', "line 1"),
        ('"a\nb"', "control character"),
        ("// comment\n{}", "line 1"),
        ("undefined", "line 1"),
    ],
)
def test_value_that_is_not_json_raises(text, reason):
    with pytest.raises(MetadataError, match=reason) as caught:
        load(text)
    assert caught.value.problems[0].kind == "invalid_json"
    assert str(caught.value).startswith("invalid metadata 'x': not JSON: ")
    assert len(str(caught.value)) < 300


def test_many_shallow_brackets_parse():
    value, defects = load("[" + ",".join(["[]"] * 1000) + "]")
    assert len(value) == 1000
    assert defects == []


def test_brackets_inside_strings_do_not_count_as_levels():
    text = json.dumps(["[" * 1000, '\\"[[[', "{" * 1000])
    assert load(text)[0] == json.loads(text)


def test_numbers_keep_digits_and_type():
    numbers = "18446744073709551615, -9223372036854775808, 1, 1.0, -0.0, 123456789012345678901"
    value, _ = load(f"[{numbers}]")
    assert value == [2**64 - 1, -(2**63), 1, 1.0, -0.0, 123456789012345678901]
    assert [type(item) for item in value] == [int, int, int, float, float, int]
    assert str(value[4]) == "-0.0"


def test_non_finite_tokens_are_reported_once_each():
    value, defects = load('{"a": NaN, "b": [NaN, -Infinity]}')
    assert np.isnan(value["a"])
    assert value["b"][1] == -np.inf
    assert defects == ["the token NaN is not JSON", "the token -Infinity is not JSON"]


def test_tokens_in_named_member_are_not_defects():
    document = b'{"a": {"x": [NaN]}, "b": {"a": {"c": NaN}}, "d": [-Infinity]}'
    value, defects = _json.load(document, what="metadata", tokens_in="a")
    assert np.isnan(value["a"]["x"][0])
    assert defects == ["the token -Infinity is not JSON"]
    assert _json.load(document, what="metadata", tokens=True)[1] == []


def test_byte_order_mark_is_defect():
    assert load(b"\xef\xbb\xbf{}") == ({}, ["it starts with a byte order mark"])


def test_lone_surrogates_survive():
    value, _ = load('{"\\ud800": "\\udfff"}')
    assert _json.dump(value, indent=2) == b'{\n  "\\ud800": "\\udfff"\n}'


@given(st.binary(max_size=50))
def test_any_bytes_parse_or_raise_metadata_error(data):
    try:
        load(data)
    except MetadataError as error:
        assert error.problems


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(json_values)
def test_finite_values_survive_round_trip(value):
    text = _json.dump(value, indent=4, sort_keys=True)
    if b"Infinity" in text:
        return
    again, defects = _json.load(text, what="x")
    assert again == value
    assert _json.dump(again, indent=4, sort_keys=True) == text
    assert defects == []


def is_equal(one, other):
    return repr(one) == repr(other)  # distinguishes 1 from 1.0 and True, and finds NaN equal


@pytest.mark.parametrize("ensure_ascii", [False, True])
@pytest.mark.parametrize("indent", [None, 2])
@given(value=json_values)
def test_decoder_agrees_with_standard_library(value, indent, ensure_ascii):
    text = json.dumps(value, indent=indent, ensure_ascii=ensure_ascii)
    if "Infinity" not in text and "\\ud" not in text:
        assert is_equal(load(text)[0], json.loads(text))


@given(json_values, st.data())
def test_decoder_rejects_what_standard_library_rejects(value, data):
    """One changed, removed or added character leads to the same value, or to an error."""
    text = json.dumps(value)
    at = data.draw(st.integers(0, len(text)))
    inserted = data.draw(st.sampled_from(["", *'[]{}:,"\\0-+.eEtuN \n\x01é']))
    text = text[:at] + inserted + text[at + data.draw(st.integers(0, 1)) :]
    try:
        expected = json.loads(text)
    except ValueError:
        expected = None
    try:
        decoded = load(text)[0]
    except MetadataError as error:
        is_refused = expected is None or "occurs twice" in str(error) or "too large" in str(error)
        assert is_refused, text
    else:
        assert is_equal(decoded, expected)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'"\"\\\/\b\f\n\r\t"', '"\\/\b\f\n\r\t'),
        (r'"\u00e9\ud83d\ude00 é😀"', "é😀 é😀"),
        (r'"\ud83d\u0041 \ude00\ud83d"', "\ud83dA \ude00\ud83d"),
        ('"\x7f\u2028"', "\x7f\u2028"),
        ("-0", 0),
        ("1E+2", 100.0),
        ("5e-324", 5e-324),
        ("-9223372036854775808", -(2**63)),
        ("9" * 40, int("9" * 40)),
        (" [ ] ", []),
        ("[1,[2,{}]]", [1, [2, {}]]),
    ],
)
def test_decoder_values(text, value):
    assert is_equal(load(text)[0], value)


@pytest.mark.parametrize(
    "text",
    ["01", "1.", ".5", "1e", "-", "+1", "--1", "[1 2]", "[1,]", "[,]", "{1: 2}", '{"a"}', '"\\x"',
     '"\\u12g4"', '"\\', '"\t"', "nul", "True", "[", '{"a": ', "-Inf", "1 2"],
)  # fmt: skip
def test_decoder_faults(text):
    with pytest.raises(ValueError):
        json.loads(text)
    with pytest.raises(MetadataError, match="not JSON"):
        load(text)


def test_decoder_limits_depth():
    nested = "[" * 200 + "]" * 200
    assert load(nested)[0] == json.loads(nested)
    with pytest.raises(MetadataError, match="more than 200 levels"):
        load(f"[{nested}]")


def test_to_plain_converts_numpy_and_tuples():
    value = {"a": (np.int64(1), np.float32(0.5)), "b": np.arange(3), "c": np.bool_(True)}
    assert _json.to_plain(value, "", pytest.fail, note_non_finite=pytest.fail) == {
        "a": [1, 0.5],
        "b": [0, 1, 2],
        "c": True,
    }


def test_to_plain_reports_all_problems():
    result = []
    value = {"a": 1j, "b": [np.nan, b"x"], 3: 1, "d": 10**5000}
    _json.to_plain(
        value,
        "",
        lambda loc, _: result.append(loc),
        note_non_finite=lambda loc, number: result.append((loc, str(number))),
    )
    assert result == ["/a", ("/b/0", "nan"), "/b/1", "", "/d"]


def test_to_plain_of_cycle_stops():
    value = []
    value.append(value)
    result = []
    _json.to_plain(
        value, "", lambda *problem: result.append(problem[1]), note_non_finite=pytest.fail
    )
    assert len(result) == 1
    assert "levels" in result[0]
