"""Numbers of random cases, labels of parameters, and seeds of differential tests.

The fast tier (plain ``pytest``) tries fewer Hypothesis examples than the exhaustive tier
(``just test-all``); the profiles in the root ``conftest.py`` set the counts. A differential test
draws each case from a seed. It runs blocks of seeds, because a test item per seed costs more
than most cases.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import pytest
from hypothesis import settings

__all__ = ["examples", "label", "seeds"]


def examples(count: int, **others: Any) -> settings:
    """Return Hypothesis settings for `count` examples, scaled by the loaded profile.

    A profile of 100 examples, Hypothesis's default, does not change the count. `others` are
    further arguments of `hypothesis.settings`.
    """
    return settings(max_examples=max(count * settings().max_examples // 100, 1), **others)


def label(value: object) -> str:
    """Return the repr of a parameter without memory addresses, which differ between processes."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def seeds(values: Iterable[int], *, block: int = 25) -> Callable[[Any], Any]:
    """Parametrise a test's argument ``seed``, with one test item per block of seeds.

    The test function runs once per seed. A failure names the seed in a note; a skip of one seed
    does not skip the other seeds of its block. A `tmp_path` is a new folder for each seed.
    """
    every = list(values)
    blocks = [every[start : start + block] for start in range(0, len(every), block)]

    def decorate(test: Callable[..., None]) -> Any:
        @wraps(test)
        def run(*, seed: list[int], **arguments: Any) -> None:
            folder = arguments.get("tmp_path")
            skipped: list[BaseException] = []
            for number in seed:
                if folder is not None:
                    arguments["tmp_path"] = folder / f"seed-{number}"
                    arguments["tmp_path"].mkdir()
                try:
                    test(seed=number, **arguments)
                except pytest.skip.Exception as skip:
                    skipped.append(skip)
                except BaseException as error:
                    error.add_note(f"seed: {number}")
                    raise
            if len(skipped) == len(seed):
                raise skipped[0]

        ids = [f"{part[0]}-{part[-1]}" for part in blocks]
        return pytest.mark.parametrize("seed", blocks, ids=ids)(run)

    return decorate
