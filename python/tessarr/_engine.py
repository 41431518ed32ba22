"""Stands in for the compiled engine where that is not built.

Python prefers the compiled module of the same name. This one is for tools that
read source (linters, type checkers, import-linter), and for a checkout that
was not built, which it tells what to do.
"""

from __future__ import annotations

_MISSING = "Tessarr's engine is not compiled: run `pip install .` in the checkout"

raise ImportError(_MISSING)
