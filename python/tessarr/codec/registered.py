"""The registry of codecs of format 2 with numcodecs' interface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from tessarr.codec.base import find_codec_by_id, find_plain_codec, list_codec_ids, register_codec
from tessarr.codec.read import to_codec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tessarr.codec.base import Codec

__all__ = ["codec_registry", "get_codec"]


class _Registry(Mapping[str, type[Any]]):
    """The classes of codecs by id; an assignment registers a class."""

    __slots__ = ()

    def __getitem__(self, codec_id: str) -> type[Any]:
        codec = find_plain_codec(codec_id) or find_codec_by_id(codec_id)
        if codec is None:
            raise KeyError(codec_id)
        return codec

    def __setitem__(self, codec_id: str, codec: type[Any]) -> None:
        register_codec(codec, codec_id)

    def __iter__(self) -> Iterator[str]:
        return iter(list_codec_ids())

    def __len__(self) -> int:
        return len(list_codec_ids())

    def __repr__(self) -> str:
        return f"<codec_registry: {', '.join(self)}>"


codec_registry: Final = _Registry()
"""The codecs of format 2 by id. An assignment registers a class."""


def get_codec(config: Mapping[str, Any]) -> Codec:
    """Return the codec of a configuration of format 2.

    Parameters
    ----------
    config
        A mapping with the member ``id``, such as ``{"id": "zlib", "level": 1}``.

    Raises
    ------
    UnsupportedError
        If no codec has this id.
    ArgumentError
        If the configuration is invalid.

    Examples
    --------
    >>> get_codec({"id": "zlib", "level": 1})
    Zlib(level=1)
    """
    return to_codec(config)
