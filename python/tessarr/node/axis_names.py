"""Names of axes for display: dimension names of format 3, or those that xarray stores in format 2.

Only displays use the names of format 2; ``dimension_names`` of an array does not have them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tessarr.metadata.node import ArrayMeta

__all__ = ["find_axis_names", "format_name", "format_shape"]

_ATTRIBUTE: Final = "_ARRAY_DIMENSIONS"
"""The attribute in which xarray stores the names of axes in format 2."""


def find_axis_names(meta: ArrayMeta) -> tuple[str | None, ...] | None:
    """Return the names of the axes, if any axis has one.

    Examples
    --------
    >>> import tessarr
    >>> a = tessarr.zeros(3, zarr_format=2, attributes={"_ARRAY_DIMENSIONS": ["time"]})
    >>> find_axis_names(a.metadata)
    ('time',)
    """
    names = meta.axis_names
    if names is None and meta.zarr_format == 2:
        stored = meta.attributes.get(_ATTRIBUTE)
        is_valid = isinstance(stored, list) and len(stored) == meta.rank
        names = tuple(stored) if isinstance(stored, list) and is_valid else ()
        names = names if all(isinstance(name, str) for name in names) else ()
    return names if names and any(names) else None


def format_name(name: str, max_length: int = 40) -> str:
    r"""Return a name for display: truncated, and quoted if it is not a plain word.

    Examples
    --------
    >>> print(format_name("time"), format_name("a\nb"), format_name("x" * 99, 5))
    time 'a\nb' xxxxx…
    """
    short = name if len(name) <= max_length else f"{name[:max_length]}…"
    is_plain = short.isprintable() and not set(short) & set(" ,:()'\"")
    return short if is_plain else repr(short).encode("utf-8", "backslashreplace").decode()


def format_shape(meta: ArrayMeta) -> str:
    """Return the shape of an array with the names of its axes.

    Examples
    --------
    >>> import tessarr
    >>> format_shape(tessarr.zeros((3, 4), dimension_names=["time", None]).metadata)
    '(time: 3, 4)'
    >>> format_shape(tessarr.zeros((3,)).metadata)
    '(3,)'
    """
    names = find_axis_names(meta)
    if names is None:
        return str(meta.shape)
    pairs = zip(names, meta.shape, strict=True)
    return f"({', '.join(f'{format_name(n)}: {size}' if n else str(size) for n, size in pairs)})"
