"""TensorStore's documented examples print the documented output with Tessarr.

The harness reads the examples from the stub of the installed package. It copies and imports no
text.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import typing
from pathlib import Path
from types import FrameType

import numpy as np
import pytest

import tessarr.tensorstore as ts
from interop.tensorstore_parity.stub_examples import Session, run, sessions, stub

TEXT = stub("tensorstore")
if TEXT is None:
    pytest.skip("the package tensorstore is absent", allow_module_level=True)

SESSIONS = sessions(TEXT)

OTHERS = re.compile(r"\b(n5|neuroglancer_precomputed|neuroglancer-\w+|gcs|gs:|ocdbt)\b")
"""Examples that need drivers of other formats or the network."""

# Defects of the examples themselves: they use undefined names.
BROKEN = {
    "Schema.__eq__": "a Spec that is made nowhere",
    "Schema.dtype": "a Spec that is made nowhere",
    "IndexTransform.__getitem__#1": "a transform that is made nowhere",
}

DIFFERENT: dict[str, dict[int, str]] = {}
"""Reasons for other output, by name of the docstring and number of the example."""


@pytest.fixture(autouse=True)
def _no_waiting_for_ever() -> typing.Iterator[None]:
    """A test that hangs fails, and pytest runs the next test."""

    def stop(_: int, __: FrameType | None) -> None:
        raise TimeoutError("this takes more than 30 seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(30)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("session", SESSIONS, ids=lambda session: session.name)
def test_examples_of_tensorstore(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Output is equal, and the class of Tessarr's error fits the documented error."""
    monkeypatch.chdir(tmp_path)
    modules = {"asyncio": asyncio, "json": json, "np": np, "os": os, "typing": typing}
    _, faults = run(session, {"ts": ts, **modules}, OTHERS)
    expected = DIFFERENT.get(session.name, {})
    if session.name in BROKEN:
        faults = [fault for fault in faults if not fault.got.startswith("NameError")]
    wrong = [str(fault) for fault in faults if fault.number not in expected]
    assert not wrong, "\n\n".join(wrong)
    assert {fault.number for fault in faults} == set(expected), "what was different is equal now"


def test_most_examples_are_run() -> None:
    """The harness finds the examples, and skips few of them."""
    every = [example.source for session in SESSIONS for example in session.examples]
    assert len(every) > 900
    assert sum(1 for source in every if OTHERS.search(source)) < 60
