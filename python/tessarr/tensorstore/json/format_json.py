"""JSON as TensorStore shows it: in Python's words, on one line where that is short enough.

Examples
--------
>>> shown("Spec", {"b": [1, 2.5, None], "a": True})
"Spec({'a': True, 'b': [1, 2.5, None]})"
>>> ordered({"b": {"d": (1, 2), "c": 0}, "a": []})
{'a': [], 'b': {'c': 0, 'd': [1, 2]}}
"""

from __future__ import annotations

from tessarr._engine import ordered, shown

__all__ = ["ordered", "shown"]
