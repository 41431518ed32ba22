"""Examples of the documents of zarr 2.1.2 and of format 2 print the same output."""

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
def test_session_prints_output_of_document(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run the examples in order and compare their output."""
    reason = LEFT_OUT.get((session.document[:3], session.line))
    if reason:
        pytest.skip(reason)
    assert run(session, tmp_path, monkeypatch) == []


def test_sessions_have_all_examples() -> None:
    """The parser finds all 470 statements and continuations that begin with a prompt."""
    count = sum(len(session.examples) for session in SESSIONS)
    assert count > 450
