"""Pages with the keys of a folder, as web servers show them."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["format_listing"]


def format_listing(prefix: str, keys: Sequence[str], folders: Sequence[str]) -> str:
    """Return an HTML page with links to the keys and the folders (ending in "/") of a prefix.

    Examples
    --------
    >>> print(format_listing("a/", ["a/zarr.json"], ["a/c/"]))  # doctest: +ELLIPSIS
    <!doctype html>
    ...
    <h1>/a/</h1>
    <pre>
    <a href="../">../</a>
    <a href="c/">c/</a>
    <a href="zarr.json">zarr.json</a>
    </pre>
    """
    names = [name[len(prefix) :] for name in (*sorted(folders), *sorted(keys))]
    lines = ['<a href="../">../</a>'] if prefix else []
    # A first segment with a colon would be a scheme.
    lines += [
        f'<a href="{"./" if ":" in name else ""}{quote(name)}">{escape(name)}</a>' for name in names
    ]
    title = escape(f"/{prefix}")
    head = f'<!doctype html>\n<meta charset="utf-8">\n<title>{title}</title>\n<h1>{title}</h1>\n'
    return head + "\n".join(["<pre>", *lines, "</pre>"]) + "\n"
