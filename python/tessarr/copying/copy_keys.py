"""`copy_store`: copies of keys and their values, without regard to their meaning."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tessarr.copying.report import format_summary, open_log
from tessarr.errors import ArgumentError, ExistsError
from tessarr.format.node_path import check_path, join, normalize_path
from tessarr.store.resolve import open_store

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tessarr.copying.report import LogLike
    from tessarr.store import Store
    from tessarr.store.resolve import StoreLike

__all__ = ["copy_store"]


def copy_store(  # noqa: PLR0917 (the order of zarr-python)
    source: StoreLike,
    dest: StoreLike,
    source_path: str = "",
    dest_path: str = "",
    excludes: str | Iterable[str] | None = None,
    includes: str | Iterable[str] | None = None,
    flags: int = 0,
    if_exists: str = "raise",
    dry_run: bool = False,  # noqa: FBT002
    log: LogLike = None,
) -> tuple[int, int, int]:
    """Copy all keys of a store, or those below a path, with their values.

    This is the fastest copy: it decodes no chunk, and can copy arrays with missing codecs.

    Parameters
    ----------
    source, dest
        The stores, as for `tessarr.open`.
    source_path, dest_path
        The paths of the keys to read and to write.
    excludes, includes
        Regular expressions: the copy skips keys that contain a match of `excludes`, unless they
        contain a match of `includes`.
    flags
        For `re.compile`.
    if_exists : {"raise", "replace", "skip"}
        The action for an existing key. "raise" copies nothing.
    dry_run
        Only report the copy.
    log
        The log, one line for each key: a function, the path of a file, or an object with ``write``.

    Returns
    -------
    tuple of int
        The numbers of copied keys, skipped keys, and copied bytes.

    Raises
    ------
    ExistsError
        With "raise", if a key exists.

    Examples
    --------
    >>> import tessarr
    >>> a = tessarr.create_array("memory://from", path="a", data=[1, 2, 3])
    >>> tessarr.copy_store("memory://from", "memory://to", log=print)
    copy a/c/0
    copy a/zarr.json
    copy zarr.json
    all done: 3 copied, 0 skipped, ... bytes copied
    (3, 0, ...)
    """
    if if_exists not in ("raise", "replace", "skip"):
        raise ArgumentError(f"if_exists={if_exists!r} is not 'raise', 'replace' or 'skip'")
    key_filter = _KeyFilter(_compile_patterns(excludes, flags), _compile_patterns(includes, flags))
    source_store, prefix = _resolve_prefix(source, source_path, "r")
    target_store, target_prefix = _resolve_prefix(dest, dest_path, "r" if dry_run else "a")
    pairs = [
        (key, target_prefix + key[len(prefix) :])
        for key in source_store.list(prefix)
        if key_filter(key)
    ]
    exists = {
        new for _, new in pairs if if_exists != "replace" and target_store.size(new) is not None
    }
    if exists and if_exists == "raise":
        raise ExistsError(
            f"the target already has {len(exists)} of the keys, such as {min(exists)!r}: pass "
            "if_exists='replace' or 'skip'",
            key=min(exists),
        )
    copied = copied_bytes = 0
    with open_log(log) as log_line:
        for key, new in pairs:
            line = key if key == new else f"{key} -> {new}"
            if new in exists:
                log_line(f"skip {line}")
                continue
            log_line(f"copy {line}")
            copied += 1
            value = None if dry_run else source_store.get(key)
            if value is not None:
                target_store.put(new, value)
                copied_bytes += len(value)
        skipped = len(exists)
        log_line(format_summary(copied, skipped, None if dry_run else copied_bytes))
    return copied, skipped, copied_bytes


class _KeyFilter:
    """Selects the keys to copy."""

    def __init__(self, excludes: list[re.Pattern[str]], includes: list[re.Pattern[str]]) -> None:
        self._excludes = excludes
        self._includes = includes

    def __call__(self, key: str) -> bool:
        excluded = any(pattern.search(key) for pattern in self._excludes)
        return not excluded or any(pattern.search(key) for pattern in self._includes)


def _compile_patterns(patterns: str | Iterable[str] | None, flags: int) -> list[re.Pattern[str]]:
    texts = [patterns] if isinstance(patterns, str) else patterns or ()
    return [re.compile(text, flags) for text in texts]


def _resolve_prefix(store: StoreLike, path: str, mode: Any) -> tuple[Store, str]:
    check_path(path)
    resolved, base = open_store(store, mode)
    full_path = join(base, path.strip("/"))
    return resolved, f"{normalize_path(full_path)}/" if full_path else ""
