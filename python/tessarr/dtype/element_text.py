"""Elements of arrays as text: the output of ``tessarr cat`` and the tables of the viewer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["format_elements"]


def format_elements(run: npt.NDArray[Any]) -> list[str]:
    """Return elements as text with the fewest digits that distinguish their values.

    Parameters
    ----------
    run
        One axis of elements of any data type.

    Examples
    --------
    >>> import numpy as np
    >>> format_elements(np.array([0.1, np.nan], "f4")), format_elements(np.array([b"a"]))
    (['0.1', 'nan'], ['a'])
    """
    if run.dtype.kind in "iub":
        return [str(item) for item in run.tolist()]
    if run.dtype.kind in "fcMm" and run.dtype.isbuiltin == 1:
        words: list[str] = run.astype("U").tolist()
        return words
    if run.dtype.kind == "S":
        return [item.decode("utf-8", "backslashreplace") for item in run.tolist()]
    if run.dtype.kind == "V" and run.dtype.names is None:
        return [item.tobytes().hex() for item in run]
    return [str(item) for item in run]
