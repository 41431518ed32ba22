"""Types of the keywords of functions that create and open arrays and groups.

Each function unpacks one class: ``**settings: Unpack[Settings]``. The small classes above combine
to these. A function must not unpack a keyword that is also one of its parameters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NotRequired, TypeAlias, TypedDict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Literal, SupportsIndex

    import numpy as np
    import numpy.typing as npt

    from tessarr.codec import CodecLike
    from tessarr.dtype.names import DataTypeLike
    from tessarr.format.chunk_grid import ChunkGrid
    from tessarr.format.chunk_key_encoding import ChunkKeyEncoding
    from tessarr.format.storage_transformer import StorageTransformer
    from tessarr.store.resolve import Mode, StoreLike
    from tessarr.types import MemoryOrder, Missing, ShapeLike, ZarrFormat

__all__ = [
    "KEYWORD_DEFAULTS",
    "ArraySettings",
    "ChunksLike",
    "CodecsLike",
    "ConstructorSettings",
    "CreateSettings",
    "DataSettings",
    "DatasetLikeSettings",
    "FromArraySettings",
    "FullLikeSettings",
    "GroupSettings",
    "LikeSettings",
    "LoadSettings",
    "MemberLikeSettings",
    "MemberSettings",
    "OpenArraySettings",
    "OpenConsolidatedSettings",
    "OpenExistingSettings",
    "OpenGroupSettings",
    "OpenLikeSettings",
    "OpenSettings",
    "SaveSettings",
    "Settings",
    "SettingsWithoutFill",
    "StoreSettings",
]

_Lengths: TypeAlias = "SupportsIndex | npt.NDArray[np.integer[Any]]"

_AxisLengths: TypeAlias = "_Lengths | Sequence[SupportsIndex] | None"

ChunksLike: TypeAlias = "_Lengths | Sequence[_AxisLengths] | ChunkGrid | Literal['auto'] | None"
"""The shape of chunks that a user passes: see `tessarr.create_array`."""

CodecsLike: TypeAlias = "CodecLike | Iterable[CodecLike] | None"
"""A codec, several codecs or none."""


class _DataType(TypedDict, total=False):
    dtype: DataTypeLike | None


class _Chunks(TypedDict, total=False):
    chunks: ChunksLike
    filters: CodecsLike


class _Encoding(TypedDict, total=False):
    shards: ChunksLike | Mapping[str, Any]
    compressors: CodecsLike
    serializer: CodecLike | None


class _Fill(TypedDict, total=False):
    fill_value: Any


class _FillAlias(TypedDict, total=False):
    fillvalue: Any


class _Format(TypedDict, total=False):
    zarr_format: ZarrFormat | None


class _Overwrite(TypedDict, total=False):
    overwrite: bool


class _WritePositional(TypedDict, total=False):
    """Keywords of writers that functions of zarr-python 2 also take by position."""

    order: MemoryOrder | None
    synchronizer: Any
    compressor: CodecsLike


class _Positional(_WritePositional, total=False):
    """Keywords that functions of zarr-python 2 also take by position."""

    cache_metadata: bool


class _WriteSettings(TypedDict, total=False):
    """Keywords of writers that no function takes by position."""

    codecs: Iterable[CodecLike] | None
    object_codec: CodecLike | None
    dimension_names: Iterable[str | None] | None
    attributes: Mapping[str, Any] | None
    chunk_key_encoding: ChunkKeyEncoding | Mapping[str, Any] | tuple[str, str] | str | None
    dimension_separator: Literal[".", "/"] | None
    storage_transformers: Iterable[StorageTransformer | Mapping[str, Any] | str]
    # Runtime settings
    write_empty_chunks: bool | None
    config: Any
    # Names of zarr-python 2 and h5py
    compression: CodecLike | int | None
    compression_opts: Any
    shuffle: bool
    fletcher32: bool
    maxshape: Iterable[int | None] | int | None
    chunk_shape: ChunksLike
    zarr_version: ZarrFormat | None
    meta_array: Any


class _OtherSettings(_WriteSettings, total=False):
    """Keywords that no function takes by position."""

    # Runtime settings of the array that the function returns
    missing: Missing
    read_only: bool
    cache_attrs: bool
    partial_decompress: bool


class _Path(TypedDict, total=False):
    name: str | None
    path: str | None


class _Stores(TypedDict, total=False):
    chunk_store: StoreLike
    storage_options: Mapping[str, Any] | None


class _Store(TypedDict, total=False):
    store: StoreLike


class _Shape(TypedDict, total=False):
    shape: ShapeLike | None


class _WriteData(TypedDict, total=False):
    write_data: bool


class _Data(_WriteData, total=False):
    data: Any


class _WithoutChunks(
    _Fill, _FillAlias, _Positional, _OtherSettings, _WriteData, _Format, _Overwrite
):
    """Keywords of functions that create an array, without data type, chunks and codecs."""


class MemberSettings(_Chunks, _Encoding, _WithoutChunks):
    """Keywords of `Group.create_array`, without the data type."""


class SettingsWithoutFill(
    _DataType, _Chunks, _Encoding, _Positional, _OtherSettings, _Format, _Overwrite
):
    """Keywords of every function that creates an array, except the fill value."""


class Settings(_DataType, MemberSettings):
    """Keywords of every function that creates an array; see `tessarr.create_array`."""


class DataSettings(Settings, _Data):
    """The settings and the data."""


class StoreSettings(SettingsWithoutFill, _Store, _Path, _Stores):
    """Keywords of functions that set the fill value: the settings and the location."""


class ArraySettings(Settings, _Shape, _Store, _Path, _Stores):
    """Keywords of `tessarr.array`: the settings, the shape of the data and the location."""


class LikeSettings(StoreSettings, _Shape):
    """Keywords of `tessarr.zeros_like`: the settings, the location and the shape."""


class FullLikeSettings(LikeSettings, _FillAlias):
    """Keywords of `tessarr.full_like`."""


class MemberLikeSettings(SettingsWithoutFill, _Shape):
    """Keywords of `Group.full_like`: the settings and the shape."""


class DatasetLikeSettings(MemberLikeSettings, _Fill):
    """Keywords of `Group.create_dataset_like`."""


class CreateSettings(_Encoding, _OtherSettings, _FillAlias, _Format, _Data):
    """Keywords of `tessarr.create` beside its parameters."""

    name: NotRequired[str | None]
    storage_options: NotRequired[Mapping[str, Any] | None]


class FromArraySettings(_DataType, _WithoutChunks, _Path, _Stores):
    """Keywords of `tessarr.from_array` beside its parameters."""


class SaveSettings(
    _DataType, _Chunks, _Encoding, _Fill, _FillAlias, _WritePositional, _WriteSettings
):
    """Keywords of `tessarr.save_array`: the settings of writers, without the format."""


class OpenSettings(SaveSettings, _Positional, _OtherSettings, _Shape, _Data):
    """Keywords of `tessarr.open`, for an array."""


class OpenArraySettings(_Encoding, _OtherSettings, _FillAlias, _Data):
    """Keywords of `tessarr.open_array` beside its parameters."""


class OpenLikeSettings(OpenSettings, _Format, _Stores):
    """Keywords of `tessarr.open_like`."""

    mode: NotRequired[Mode]


class LoadSettings(TypedDict, total=False):
    """Keywords of `tessarr.load`, as for `tessarr.open`."""

    use_consolidated: bool | str | None
    chunk_store: StoreLike
    missing: Missing
    config: Any
    zarr_version: ZarrFormat | None


class OpenGroupSettings(TypedDict, total=False):
    """Keywords of zarr-python 2 for `tessarr.open_group`."""

    cache_attrs: bool
    meta_array: Any
    zarr_version: ZarrFormat | None


class GroupSettings(OpenGroupSettings, _Format, total=False):
    """Keywords of `tessarr.group`, as for `tessarr.open_group`."""

    attributes: Mapping[str, Any] | None
    use_consolidated: bool | str | None
    storage_options: Mapping[str, Any] | None


class OpenConsolidatedSettings(OpenGroupSettings, _Stores, total=False):
    """Keywords of `tessarr.open_consolidated`, as for `tessarr.open_group`."""

    synchronizer: Any


class ConstructorSettings(TypedDict, total=False):
    """Further keywords of zarr-python's constructor `Array`."""

    config: Any
    cache_attrs: bool
    zarr_version: ZarrFormat | None
    meta_array: Any
    partial_decompress: bool


class OpenExistingSettings(ConstructorSettings, _Format, total=False):
    """Keywords of `tessarr.Array.open`."""

    read_only: bool
    chunk_store: StoreLike
    synchronizer: Any
    cache_metadata: bool
    write_empty_chunks: bool | None
    missing: Missing


KEYWORD_DEFAULTS: Final[Mapping[str, Any]] = {
    "cache_attrs": True,
    "cache_metadata": True,
    "compressor": "auto",
    "compressors": "auto",
    "fill_value": "auto",
    "filters": "auto",
    "fletcher32": False,
    "missing": "fill",
    "mode": "a",
    "overwrite": False,
    "partial_decompress": False,
    "read_only": False,
    "serializer": "auto",
    "shuffle": False,
    "storage_transformers": (),
    "write_data": True,
}
"""The defaults of keywords in signatures, other than None."""
