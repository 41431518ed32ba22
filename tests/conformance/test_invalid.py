"""The documents of corpus/invalid: refused where the specification says so, and in place."""

from __future__ import annotations

import re
import warnings

import pytest

from tessarr.errors import MetadataError, TessarrWarning, UnsupportedError
from tessarr.metadata import v2, v3
from tests.conformance.corpus import ROOT, needs_corpus, rows

pytestmark = needs_corpus

# Read with a warning by decision, although the specification says to refuse them.
READ_LENIENTLY = {
    "N3-086": "bool fill 0, which zarrita wrote",
    "N3-163": "no codec from arrays to bytes, as zarr-js wrote",
    "N3-173": "bytes without endian, as GDAL wrote",
    "N3-268": "fixed_length_utf32 without endian, as GDAL wrote",
    "N2-042": "an empty list of filters",
}

# What the next issue adds: refused as unsupported, valid or not.
OUT_OF_SCOPE_TYPES = re.compile(r"string type|\|O")
# Run by the package numcodecs until then, which checks its configuration only when it runs.
OUT_OF_SCOPE_CODECS = re.compile("bz2")

# The location of the fault, by rule; the rest is in the message.
LOCATIONS = {
    "V3-META-03": "/zarr_format",
    "V3-META-04": "/node_type",
    "V3-META-05": "/shape",
    "V3-META-07": "/attributes",
    "V3-META-08": "/storage_transformers",
    "V3-META-09": "/dimension_names",
    "V3-TYPE-01": "/data_type",
    "V3-TYPE-02": "/data_type",
    "V3-FILL": "/fill_value",
    "V3-GRID": "/chunk_grid",
    "V3-KEY": "/chunk_key_encoding",
    "V3-PIPE": "/codecs",
    "V3-BYTES": "/codecs/0",
    "V3-TRANS": "/codecs/0/configuration/order",
    "V3-GZIP": "/codecs/1/configuration",
    "V3-BLOSC": "/codecs/1/configuration",
    "V3-ZSTD": "/codecs/1/configuration",
    "V3-SHARD": "/codecs/0/configuration",
    "V2-META-02": "/zarr_format",
    "V2-META-03": "/shape",
    "V2-META-04": "/chunks",
    "V2-META-05": "/chunks",
    "V2-META-06": "/compressor",
    "V2-META-07": "/filters",
    "V2-META-08": "/order",
    "V2-META-09": "/dimension_separator",
    "V2-DTYPE": "/dtype",
    "V2-FILL": "/fill_value",
    "V2-COMP": "/compressor",
    "X-STRUCT": "/data_type/configuration/fields",
    "X-UTF32": "/data_type/configuration/length_bytes",
}


def parse(row):
    data = (ROOT / "invalid" / row["file"]).read_bytes()
    if row["kind"].startswith("v3"):
        return v3.parse(data, where="")
    if row["kind"] == "v2-array":
        return v2.parse_array(data, None, where="")
    return v2.parse_group(data, None, where="")


def is_out_of_scope(row):
    types = OUT_OF_SCOPE_TYPES.search(row["what"])
    return bool(types) or bool(OUT_OF_SCOPE_CODECS.search(row["what"]))


def by_expectation(*expected):
    chosen = [row for row in rows("invalid/INVALID.tsv") if row["expect"] in expected]
    return pytest.mark.parametrize("row", chosen, ids=lambda row: f"{row['id']} {row['what']}")


@by_expectation("reject")
def test_what_has_to_be_refused_is(row):
    if row["id"] in READ_LENIENTLY:
        with pytest.warns(TessarrWarning):
            parse(row)
        return
    if OUT_OF_SCOPE_CODECS.search(row["what"]):
        pytest.skip("not in scope yet: its configuration is checked by numcodecs when it runs")
    if OUT_OF_SCOPE_TYPES.search(row["what"]):
        with pytest.raises((UnsupportedError, MetadataError)) as unsupported:
            parse(row)
        assert "data_type" in str(unsupported.value) or "dtype" in str(unsupported.value)
        return
    with pytest.raises((MetadataError, UnsupportedError)) as caught:
        parse(row)
    location = next((LOCATIONS[k] for k in LOCATIONS if row["rule"].startswith(k)), None)
    if row["what"] == "node_type 'group'":  # then it is a group with members that no group has
        location = "/shape"
    problems = getattr(caught.value, "problems", ())
    if location is not None and problems and problems[0].kind != "invalid_json":
        assert any(problem.loc.startswith(location) for problem in problems), problems
    if isinstance(caught.value, UnsupportedError):
        assert caught.value.extension


@by_expectation("accept")
def test_what_has_to_be_read_is(row):
    if is_out_of_scope(row):
        with pytest.raises(UnsupportedError):
            parse(row)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if row["id"] in READ_LENIENTLY else "error")
        parse(row)


@by_expectation("unspecified")
def test_what_is_left_open_has_a_defined_outcome(row):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TessarrWarning)
        try:
            parse(row)
        except (MetadataError, UnsupportedError) as error:
            assert error.kind in {"invalid_metadata", "unsupported_data_type"}


def test_members_that_are_missing_are_named():
    missing = [row for row in rows("invalid/INVALID.tsv") if row["what"].startswith("missing ")]
    assert len(missing) > 10
    for row in missing:
        with pytest.raises(MetadataError) as caught:
            parse(row)
        name = row["what"].split()[1]
        problems = caught.value.problems
        assert any(p.kind == "missing_member" and repr(name) in p.message for p in problems)
