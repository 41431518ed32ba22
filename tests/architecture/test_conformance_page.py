"""Table of requirements: each has a test or a reason, and the page is current."""

from __future__ import annotations

from conformance.page import PAGE, build_page, exceptions, format_requirement, requirements


def test_conformance_page_is_current() -> None:
    """``just conformance`` changes nothing."""
    assert PAGE.read_text(encoding="utf-8") == build_page()


def test_conformance_markers_name_requirements() -> None:
    """Every marker and every exception names a requirement of the table."""
    known = [item.id for item in requirements()]
    assert len(known) == len(set(known)) == 260
    assert set(format_requirement()) <= set(known)
    assert set(exceptions()) <= set(known)


def test_every_requirement_has_test_or_reason() -> None:
    """No requirement is open."""
    open_ = {item.id for item in requirements()} - set(format_requirement()) - set(exceptions())
    assert not open_
