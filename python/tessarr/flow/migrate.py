"""Migration of an array from format 1 to format 2: new documents, the same chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tessarr.errors import ExistsError, NotFoundError
from tessarr.flow.open import MARKERS, prefix_of
from tessarr.flow.run import Delete, Flow, Get, Put, Replace
from tessarr.metadata import v1, v2

if TYPE_CHECKING:
    from tessarr.metadata.node import ArrayMeta
    from tessarr.types import MemoryOrder

__all__ = ["migrate_array"]


def migrate_array(path: str, *, order: MemoryOrder | None = None) -> Flow[ArrayMeta]:
    """Replace ``meta`` and ``attrs`` by ``.zarray`` and ``.zattrs``.

    The array stays readable at every point: the migration stores ``.zarray`` last and exclusively,
    and then deletes the old documents. Another migration completes an interrupted one.

    Parameters
    ----------
    path
        The path of the array.
    order
        The actual order of elements, if it differs from ``meta``.

    Raises
    ------
    NotFoundError
        If no array of format 1 exists.
    ExistsError
        If a node of another format exists and differs from the result.
    """
    prefix = prefix_of(path)
    names = [name for names in MARKERS.values() for name in names]
    document, attributes, *others = yield tuple(
        Get(prefix + name) for name in (v1.ARRAY, v1.ATTRIBUTES, *names)
    )
    present = {name: old for name, old in zip(names, others, strict=True) if old is not None}
    if not v1.is_v1(document):
        raise NotFoundError(
            f"there is no array of format 1 at {path or '/'!r}: nothing to migrate",
            kind="array_not_found",
            path=path,
        )
    meta = v1.parse(document, attributes, where=path, order=order)
    new = v2.dump(meta)
    if not present:
        yield Put(prefix + v2.ATTRIBUTES, new[v2.ATTRIBUTES])
        if not (yield Replace(prefix + v2.ARRAY, new[v2.ARRAY], None)):
            raise _exists_error(path, v2.ARRAY)
    elif present != {v2.ARRAY: new[v2.ARRAY]}:
        raise _exists_error(path, min(present))
    # Delete ``meta`` last: another migration looks for it.
    yield Delete(prefix + v1.ATTRIBUTES)
    yield Delete(prefix + v1.ARRAY)
    return meta


def _exists_error(path: str, name: str) -> ExistsError:
    return ExistsError(
        f"cannot migrate {path or '/'!r}: there is {name!r} already, which would be replaced",
        kind="node_exists",
        path=path,
    )
