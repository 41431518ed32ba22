"""Metadata objects of zarr-python for the metadata of Tessarr, and consolidated metadata back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tessarr.format.node_path import join
from tessarr.metadata.consolidated import Consolidated
from tessarr.metadata.from_user import read_user_metadata
from tessarr.metadata.node import ArrayMeta

if TYPE_CHECKING:
    from tessarr.metadata.node import GroupMeta

__all__ = ["build_consolidated", "build_original_metadata"]


def build_original_metadata(
    meta: ArrayMeta | GroupMeta, path: str = "", copies: Consolidated | None = None
) -> Any:
    """Return metadata of an array or a group as an object of zarr-python.

    Parameters
    ----------
    meta, path
        The metadata and the path of the node.
    copies
        The consolidated metadata that contain the group's members, if any.
    """
    document = _build_document(meta)
    if isinstance(meta, ArrayMeta):
        import zarr
        from zarr.core.metadata import ArrayV2Metadata, ArrayV3Metadata

        if meta.zarr_format == 2:
            return ArrayV2Metadata.from_dict(document)
        with zarr.config.set({"array.rectilinear_chunks": True}):  # Tessarr supports them
            return ArrayV3Metadata.from_dict(document)
    from zarr.core.group import GroupMetadata

    if copies is not None:
        document["consolidated_metadata"] = _build_copies(path, copies)
    return GroupMetadata.from_dict(document)


def build_consolidated(original: Any, path: str) -> Consolidated | None:
    """Return the consolidated metadata of a ``GroupMetadata``; None if it has none."""
    if original.consolidated_metadata is None:
        return None
    copies = Consolidated(path, {})
    for name, document in original.consolidated_metadata.flattened_metadata.items():
        member = join(path, name)
        meta = read_user_metadata(document, member)
        assert meta is not None
        copies.put(member, meta)
    return copies


def _build_copies(path: str, copies: Consolidated) -> dict[str, Any]:
    """Return the consolidated metadata of the group at `path` as JSON."""
    prefix = f"{path}/" if path else ""
    members = {
        name[len(prefix) :]: _build_document(meta)
        for name, meta in copies.members(path, max_depth=None).items()
        if not isinstance(meta, Exception)
    }
    return {"kind": "inline", "must_understand": False, "metadata": members}


def _build_document(meta: ArrayMeta | GroupMeta) -> dict[str, Any]:
    """Return the document of a node without the consolidated metadata that it may contain."""
    document: dict[str, Any] = meta.to_dict()
    document.pop("consolidated_metadata", None)
    return document
