"""The codec ``msgpack2``: a chunk of objects as MessagePack (numcodecs). Format 2 only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tessarr.codec.base import ArrayBytesCodec, deliver, register_codec
from tessarr.codec.elements import check_objects, from_document, to_document
from tessarr.codec.parameters import check_choice
from tessarr.dtype.objects import Objects, cannot_store, import_msgpack, plain_item
from tessarr.errors import DataError

if TYPE_CHECKING:
    from tessarr.codec.base import ArraySpec
    from tessarr.dtype import DataType
    from tessarr.format.validation import Problems
    from tessarr.types import BytesLike

__all__ = ["MsgPack"]


@register_codec
@dataclass(frozen=True, slots=True)
class MsgPack(ArrayBytesCodec):
    """MessagePack values as one list that ends with their type and shape.

    The codec needs the package msgpack.

    Parameters
    ----------
    raw : bool
        Whether text is read as bytes.
    use_single_float : bool
        Whether floats are stored with 4 bytes.
    use_bin_type : bool
        Whether bytes and text have different types.

    Examples
    --------
    >>> MsgPack().to_json(2)
    {'id': 'msgpack2', 'raw': False, 'use_single_float': False, 'use_bin_type': True}
    """

    name = "msgpack2"
    takes_any_length = True
    in_index_order = True

    raw: bool = False
    use_single_float: bool = False
    use_bin_type: bool = True

    def __post_init__(self) -> None:
        for name in ("raw", "use_single_float", "use_bin_type"):
            check_choice(name, getattr(self, name), (True, False))

    def object_type(self) -> DataType:
        return Objects(form="msgpack")

    def check(self, spec: ArraySpec, loc: str, problems: Problems) -> None:
        check_objects(self, spec, loc, problems)

    def encode(self, array: np.ndarray[Any, Any], /) -> bytes:
        msgpack = import_msgpack()
        try:
            packed: bytes = msgpack.packb(
                to_document(np.asarray(array, object)),
                use_bin_type=self.use_bin_type,
                use_single_float=self.use_single_float,
                default=plain_item,
            )
        except (TypeError, ValueError, OverflowError) as error:
            raise cannot_store("MessagePack", error) from error
        return packed

    def decode(
        self, data: BytesLike, spec: ArraySpec | None = None, /, out: Any = None
    ) -> np.ndarray[Any, Any]:
        """Decode to objects in the shape of `spec`, or by default of the document."""
        try:
            document = import_msgpack().unpackb(bytes(data), raw=self.raw, strict_map_key=False)
        except (ValueError, TypeError, RecursionError) as error:
            raise DataError(f"not MessagePack: {error}", codec=self.name) from error
        objects = from_document(document, None if spec is None else spec.shape)
        return np.asarray(deliver(objects, out))
