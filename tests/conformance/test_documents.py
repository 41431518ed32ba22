"""Every metadata document of the real and generated stores survives a round trip."""

from __future__ import annotations

import json
import math
import warnings

import numpy as np
import pytest

from interop.corpus import documents, needs_corpus
from tessarr.errors import MetadataError, TessarrWarning, UnsupportedError
from tessarr.metadata import ArrayMeta, v2, v3

pytestmark = needs_corpus

# Ambiguous drafts of format 3, and their problems.
REFUSED = {
    "member 'index_codecs' is missing": 10,
    "unknown member 'check_crc'": 1,
}

DTYPES = ("dtype", "astype")

OUT_OF_SCOPE = (
    "nor the installed numcodecs knows it",
    "numcodecs is not installed",
)


def parse(document):
    if document.name == "zarr.json":
        return v3.parse(document.data, where="")
    if document.name == ".zarray":
        return v2.parse_array(document.data, document.zattrs, where="")
    return v2.parse_group(document.data, document.zattrs, where="")


def dump_and_parse(meta):
    if meta.zarr_format == 3:
        return v3.parse(v3.dump(meta), where="")
    written = v2.dump(meta)
    if isinstance(meta, ArrayMeta):
        return v2.parse_array(written[".zarray"], written[".zattrs"], where="")
    return v2.parse_group(written[".zgroup"], written[".zattrs"], where="")


def holds_nan(value):
    if isinstance(value, dict):
        return any(holds_nan(item) for item in value.values())
    if isinstance(value, list):
        return any(holds_nan(item) for item in value)
    return isinstance(value, float) and not math.isfinite(value)


def test_every_document_is_read_and_survives_rewriting():
    outcomes = {"read": 0, "warned": 0, "out of scope": 0, "refused": 0}
    refused = dict.fromkeys(REFUSED, 0)
    for document in documents():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                meta = parse(document)
            except UnsupportedError as error:
                assert any(reason in str(error) for reason in OUT_OF_SCOPE), document.where
                outcomes["out of scope"] += 1
                continue
            except MetadataError as error:
                reason = next((r for r in REFUSED if r in str(error)), None)
                assert reason is not None, (document.where, str(error))
                refused[reason] += 1
                outcomes["refused"] += 1
                continue
        outcomes["warned" if caught else "read"] += 1
        if holds_nan(meta.attributes):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # Tessarr's documents have no defects
            again = dump_and_parse(meta)
        assert again == meta, document.where
        assert hash(again) == hash(meta)
        if isinstance(meta, ArrayMeta):
            description = meta.description()
            if description["elements"] is None:
                assert description["item_bytes"] == len(description["fill"])
            assert len(meta.chunk_shape) == meta.rank
    assert refused == REFUSED
    assert outcomes["read"] > 1000
    assert outcomes["warned"] > 30


def test_format_2_documents_survive_with_all_members():
    for document in documents():
        if document.name != ".zarray":
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TessarrWarning)
            try:
                meta = parse(document)
            except (UnsupportedError, MetadataError):
                continue
        before, after = json.loads(document.data), v2.to_json(meta)
        for name in ("shape", "chunks", "order", "zarr_format"):
            assert before[name] == after[name], document.where
        assert before.get("dimension_separator", ".") == after.get("dimension_separator", ".")
        filters = list(zip(before["filters"] or [], after["filters"] or [], strict=True))
        for theirs, ours in filters:  # numcodecs' own form, with every parameter
            types = {k: np.dtype(v).str for k, v in theirs.items() if k in DTYPES}
            assert {**ours, **theirs, **types} == ours, document.where
        ours, theirs = after["compressor"], before["compressor"]
        assert (ours is None) == (theirs is None)
        if theirs is not None:
            dropped = {name: theirs[name] for name in theirs if name not in ours}
            assert {**ours, **dropped} == theirs, document.where
            assert set(dropped) <= {"blocksize", "checksum"}
            assert not any(dropped.values())
        assert set(before) <= {*after, "dimension_separator"}, document.where


@pytest.mark.parametrize("name", ["generated/v3/G3-Q11/zarr.json"])
def test_codec_with_must_understand_false_survives(name):
    document = next(d for d in documents() if d.where == name)
    meta = v3.parse(document.data, where="")
    assert "x.nobody.knows" in v3.dump(meta).decode()
    assert len(meta.description()["chain"]["bytes_bytes"]) == 1
