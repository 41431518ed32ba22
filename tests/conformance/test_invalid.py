"""The documents of corpus/invalid: each has the outcome and location in ``invalid.txt``."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest

from interop.corpus import ROOT, needs_corpus, table
from tessarr.errors import MetadataError, TessarrWarning, UnsupportedError
from tessarr.metadata import v2, v3

pytestmark = needs_corpus

# Tessarr reads these documents with a warning, although the specifications refuse them: other
# writers produced them, and they have a single meaning.
READ_LENIENTLY = {
    "N3-086": "bool fill 0, which zarrita wrote (V3-FILL-02)",
    "N3-163": "no codec from arrays to bytes, as zarr-js wrote (V3-PIPE-02)",
    "N3-173": "bytes without endian, as GDAL wrote (V3-BYTES-01)",
    "N2-172": "a level of zstd that numcodecs lowers when it encodes (V2-COMP-05)",
    # The rule of reading (docs/guide/tolerance.md): null of format 3, text, absent members.
    "N3-085": "a fill value of null is the default of the type, as GDAL wrote (V3-FILL-01)",
    "N3-088": "the text 'true' is true (V3-FILL-02)",
    "N3-089": "the text 'false' is false (V3-FILL-02)",
    "N3-103": "the text '0' is 0, as n5-zarr wrote (V3-FILL-05)",
    "N3-196": "the text '5' is the level 5 (V3-GZIP-01)",
    "N3-203": "the text '5' is the level 5 (V3-BLOSC-01)",
    "N3-210": "the text '0' is the block size 0 (V3-BLOSC-01)",
    "N3-190": "the order 'F' reverses the axes, as GDAL writes (V3-TRANS-01)",
    "N3-191": "the order 'C' leaves the axes, as GDAL writes (V3-TRANS-01)",
    "N2-130": "a number is a complex number, as GDAL writes (V2-FILL-05)",
    "N2-005": "an absent compressor is none (V2-META-01)",
    "N2-166": "the text '6' is the level 6 (V2-COMP-03)",
    "N3-268": "bytes without endian, as GDAL wrote (X-UTF32-01)",
}

ROWS = {row["id"]: row for row in table("invalid/INVALID.tsv")}


def expected():
    text = (Path(__file__).parent / "invalid.txt").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return dict(line.split(" ", 1) for line in lines)


def format_problem(problem):
    """Return the kind and the location of a problem, and the name of a missing member."""
    missing = re.match("member ('.*') is missing", problem.message)
    return " ".join(filter(None, (problem.kind, problem.loc, missing and missing[1])))


def outcome(row):
    data = (ROOT / "invalid" / row["file"]).read_bytes()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            if row["kind"].startswith("v3"):
                v3.parse(data, where="")
            elif row["kind"] == "v2-array":
                v2.parse_array(data, None, where="")
            else:
                v2.parse_group(data, None, where="")
        except MetadataError as error:
            return "; ".join(format_problem(problem) for problem in error.problems)
        except UnsupportedError as error:
            location = re.search(r": (/\S*): ", str(error))
            return f"{error.kind} {location and location[1]} {error.extension}"
    assert all(isinstance(warning.message, TessarrWarning) for warning in caught)
    assert len(caught) <= 1
    text = "".join(str(warning.message).split("read all the same: ")[1] for warning in caught)
    return f"read {text}".strip()


@pytest.mark.parametrize(("name", "expected_outcome"), expected().items())
def test_document_has_expected_outcome(name, expected_outcome):
    if expected_outcome == "later":
        pytest.skip("the data type or codec is not there yet")
    row = ROWS[name]
    result = outcome(row)
    assert result == expected_outcome, row["what"]
    if row["expect"] == "reject":
        assert not result.startswith("read") or name in READ_LENIENTLY
    elif row["expect"] == "accept":
        assert result.startswith("read")


def test_no_document_is_forgotten():
    assert set(expected()) == set(ROWS)
    lenient = {name for name, row in ROWS.items() if row["expect"] == "reject"}
    assert set(READ_LENIENTLY) <= lenient
