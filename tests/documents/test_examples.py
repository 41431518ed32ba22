"""Every example of the documents of zarr 2.1.2 and of format 2 prints here what it prints there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from documents.differences import LEFT_OUT
from documents.examples import Session, run, sessions

if TYPE_CHECKING:
    from pathlib import Path

SESSIONS = sessions()

pytestmark = pytest.mark.skipif(
    not SESSIONS, reason="the documents are absent (TESSARR_DOCUMENTS names their folder)"
)


@pytest.mark.parametrize("session", SESSIONS, ids=lambda session: session.name)
def test_prints_what_the_document_says(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run the examples one after another and compare what they print."""
    reason = LEFT_OUT.get((session.document[:3], session.line))
    if reason:
        pytest.skip(reason)
    assert run(session, tmp_path, monkeypatch) == []


def test_finds_all_examples() -> None:
    """Nothing is lost in parsing: 470 statements and continuations begin with a prompt."""
    count = sum(len(session.examples) for session in SESSIONS)
    assert count > 450
