"""Calls of functions that open, create and save nodes, with one keyword more or less."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Final

import numpy as np

import tessarr
from tessarr.codecs import JSON, Delta

SHAPE: Final = (4, 6)
DATA: Final = np.arange(24.0).reshape(SHAPE)
DATA[:2, :2] = 0  # a chunk that holds only the fill value

REQUIRED: Final[dict[str, dict[str, Any]]] = {
    "array": {"data": DATA},
    "create": {"shape": SHAPE},
    "create_array": {"shape": SHAPE},
    "create_group": {},
    "create_hierarchy": {"nodes": {"a": {"shape": SHAPE, "dtype": "f8"}}},
    "empty": {"shape": SHAPE},
    "empty_like": {"a": DATA},
    "from_array": {"data": DATA},
    "full": {"shape": SHAPE, "fill_value": 3},
    "full_like": {"a": DATA},
    "group": {},
    "load": {},
    "ones": {"shape": SHAPE},
    "ones_like": {"a": DATA},
    "open": {"shape": SHAPE},
    "open_array": {"shape": SHAPE},
    "open_consolidated": {},
    "open_group": {},
    "open_like": {"a": DATA},
    "save": {"x": DATA},
    "save_array": {"arr": DATA, "chunks": 2},
    "save_group": {"x": DATA},
    "zeros": {"shape": SHAPE},
    "zeros_like": {"a": DATA},
}
"""The functions, and their required arguments."""

GROUP_FUNCTIONS: Final = {"create_group", "create_hierarchy", "group", "open_group"}

OPENING: Final = {"group", "open", "open_array", "open_group", "open_like"}
"""Functions that open an existing node, or create one."""

NEW_ONLY: Final = {
    *("attributes", "chunk_key_encoding", "chunk_shape", "chunks", "codecs", "compression"),
    *("compression_opts", "compressor", "compressors", "data", "dimension_names"),
    *("dimension_separator", "dtype", "fill_value", "fillvalue", "filters", "fletcher32"),
    *("maxshape", "object_codec", "order", "serializer", "shape", "shards", "shuffle"),
    *("storage_transformers", "write_data"),
}
"""Keywords that are documented as those of new nodes."""

NO_EFFECT: Final = {"partial_decompress"}
"""Keywords that are documented as having no effect."""


class Locks:
    """A synchronizer that records the keys of its locks."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    def __getitem__(self, key: str) -> AbstractContextManager[None]:
        self.keys.append(key)
        return nullcontext()


VALUES: Final[dict[str, Any]] = {
    "attributes": {"k": 1},
    "cache_attrs": False,
    "cache_metadata": False,
    "chunk_key_encoding": "v2",
    "chunk_shape": 3,
    "chunk_store": dict,
    "chunks": 3,
    "codecs": ["bytes"],
    "compression": "gzip",
    "compression_opts": 3,
    "compressor": None,
    "compressors": None,
    "config": {"read_missing_chunks": False, "write_empty_chunks": True},
    "data": DATA + 1,
    "dimension_names": ("y", "x"),
    "dimension_separator": ".",
    "dtype": "i2",
    "fill_value": 7,
    "fillvalue": 7,
    "filters": Delta("f8"),
    "fletcher32": True,
    "maxshape": (1, 1),
    "meta_array": [],
    "metadata_key": "other",
    "missing": "refuse",
    "mode": "w",
    "name": "n",
    "object_codec": JSON(),
    "order": "F",
    "overwrite": True,
    "partial_decompress": True,
    "path": "n",
    "read_only": True,
    "serializer": {"name": "bytes", "configuration": {"endian": "big"}},
    "shape": (2, 2),
    "shards": 6,
    "shuffle": True,
    "storage_options": {"anon": True},
    "storage_transformers": ["unknown"],
    "synchronizer": Locks,
    "use_consolidated": True,
    "write_data": False,
    "write_empty_chunks": True,
    "zarr_format": 2,
    "zarr_version": 2,
}
"""A value of each keyword that is not its default; classes make a new value for each call."""

_OTHER_VALUES: Final = {
    ("open_consolidated", "use_consolidated"): False,
    ("save_array", "overwrite"): False,
}

_COMPANIONS: Final[dict[str, dict[str, Any]]] = {
    "compression_opts": {"compression": "gzip"},
    "shuffle": {"compression": "gzip"},
    "write_data": {"data": DATA},
}
"""Keywords without which another one has no meaning."""


def list_keywords(function: Callable[..., Any]) -> list[str]:
    """Return the names of the keywords of a function, without its required arguments."""
    return [
        name
        for name, one in inspect.signature(function).parameters.items()
        if one.kind in {one.KEYWORD_ONLY, one.POSITIONAL_OR_KEYWORD}
        and name not in {"a", "arr", "grp", "nodes", "store", *NO_EFFECT}
    ]


def has_effect(module: Any, name: str, keyword: str, folder: Path, *, existing: bool) -> bool:
    """Return whether a keyword changes the effects of a call, or raises an error.

    Parameters
    ----------
    module
        The module of the function.
    name, keyword
        The function and the keyword.
    folder
        An empty folder.
    existing
        Whether a node exists at the location of the call.
    """
    common = _COMPANIONS.get(keyword, {})
    common = {key: it for key, it in common.items() if key not in REQUIRED[name]}
    value = _OTHER_VALUES.get((name, keyword), VALUES[keyword])
    value = value() if isinstance(value, type) else value
    needs_node = (
        existing or keyword in {"mode", "overwrite"} or name in {"load", "open_consolidated"}
    )
    calls: dict[str, dict[str, Any]] = {"without": common, "with": {**common, keyword: value}}
    effects = []
    for place, settings in calls.items():
        root = folder / f"{place}.zarr"
        if needs_node:
            _create_existing(root, is_group=name in {*GROUP_FUNCTIONS, "open_consolidated"})
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = _call(module, name, root, settings)
        files = {
            str(path.relative_to(root)): path.read_bytes()
            for path in sorted(root.rglob("*"))
            if path.is_file()
        }
        warned = keyword in settings and any(keyword in str(one.message) for one in caught)
        uses = (len(value), value) if isinstance(value, dict) and keyword == "chunk_store" else None
        uses = len(value.keys) if isinstance(value, Locks) else uses
        effects.append((result, files, warned, uses))
    return bool(effects[0] != effects[1])


def _create_existing(folder: Path, *, is_group: bool) -> None:
    if is_group:
        group = tessarr.create_group(str(folder))
        group.create_array("a", shape=SHAPE, chunks=2)
        tessarr.consolidate_metadata(group)
    else:
        tessarr.create_array(str(folder), shape=SHAPE, chunks=2)[2:] = 5


def _call(module: Any, name: str, folder: Path, settings: dict[str, Any]) -> Any:
    arguments = {**REQUIRED[name], **settings}
    arguments["path" if name == "open_like" and "path" not in settings else "store"] = str(folder)
    if name == "open_like" and "path" not in settings:
        arguments.pop("store", None)
    try:
        return _use(getattr(module, name)(**arguments), folder)
    except (tessarr.errors.TessarrError, TypeError, ValueError, FileNotFoundError) as error:
        return f"{type(error).__name__}: {error}".replace(str(folder), "")


def _use(result: Any, folder: Path) -> Any:
    """Return what a user of a node sees: values, changes by others, and failing changes."""
    if result is None or isinstance(result, np.ndarray):
        return str(result)
    if hasattr(result, "__next__"):
        return [path for path, _ in result]
    seen = [type(result).__name__, result.path, str(getattr(result, "metadata", ""))]
    seen.append(str(getattr(getattr(result, "config", None), "order", "")))
    actions: list[Callable[[], Any]] = [
        lambda: tessarr.open(str(folder), "r+", path=result.path).attrs.update({"later": 1}),
        lambda: "later" in result.attrs,
        lambda: getattr(result, "read_only", None),
        lambda: getattr(result, "consolidated", None),
    ]
    if hasattr(result, "shape"):
        actions += [
            lambda: result[...],
            lambda: result.__setitem__((0, 0), 2),
            lambda: result.__setitem__(..., result.fill_value),
            lambda: result.nchunks_initialized,
            lambda: result[...],
            lambda: result.__setitem__((0, 0), 2),
        ]
    else:
        actions.append(lambda: result.create_array("new", shape=(1,), dtype="f8").__setitem__(0, 1))
        actions.append(lambda: sorted(result))
    for action in actions:
        try:
            seen.append(str(action()))
        except Exception as error:
            seen.append(f"{type(error).__name__}: {error}".replace(str(folder), ""))
    return seen
