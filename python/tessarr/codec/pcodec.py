"""The codec ``pcodec``: numbers compressed by pcodec (numcodecs id ``pcodec``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from tessarr.codec.base import ArrayBytesCodec, register_codec
from tessarr.codec.chain import to_flat_array
from tessarr.codec.parameters import WrongParameter, check_choice, check_integer
from tessarr.errors import DataError
from tessarr.format.hints import import_package

if TYPE_CHECKING:
    from tessarr.codec.base import ArraySpec
    from tessarr.format.validation import Problems
    from tessarr.types import BytesLike

__all__ = ["PCodec"]

_TYPES: Final = frozenset(f"{kind}{size}" for kind in "iuf" for size in (2, 4, 8))
_DELTAS: Final = ("auto", "none", "try_consecutive", "try_lookback")


@register_codec
@dataclass(frozen=True, slots=True)
class PCodec(ArrayBytesCodec):
    """Lossless compression of numbers, by the package pcodec.

    Parameters
    ----------
    level : int
        0 (fastest) to 12 (smallest).
    mode_spec : {"auto", "classic"}
        Whether the encoder detects structures such as multiples of 0.1.
    delta_spec : {"auto", "none", "try_consecutive", "try_lookback"}
        Whether the encoder computes differences.
    paging_spec : {"equal_pages_up_to"}
        The division of the numbers into pages.
    delta_encoding_order : int, optional
        The order of differences, 0 to 7.
    equal_pages_up_to : int
        The maximum number of numbers in a page.

    Examples
    --------
    >>> PCodec(level=5).configuration()["level"]
    5
    """

    name = "numcodecs.pcodec"
    codec_id = "pcodec"
    level: int = 8
    mode_spec: Literal["auto", "classic"] = "auto"
    delta_spec: Literal["auto", "none", "try_consecutive", "try_lookback"] = "auto"
    paging_spec: Literal["equal_pages_up_to"] = "equal_pages_up_to"
    delta_encoding_order: int | None = None
    equal_pages_up_to: int = 262144

    def __post_init__(self) -> None:
        check_integer("level", self.level, 0, 12)
        check_choice("mode_spec", self.mode_spec, ("auto", "classic"))
        check_choice("delta_spec", self.delta_spec, _DELTAS)
        check_choice("paging_spec", self.paging_spec, ("equal_pages_up_to",))
        check_integer("equal_pages_up_to", self.equal_pages_up_to, 1, 2**24)
        if self.delta_encoding_order is not None:
            check_integer("delta_encoding_order", self.delta_encoding_order, 0, 7)
            if self.delta_spec not in ("auto", "try_consecutive"):
                expected = "null, as differences are not consecutive"
                order = self.delta_encoding_order
                raise WrongParameter("delta_encoding_order", order, expected, right_type=True)

    def check(self, spec: ArraySpec, loc: str, problems: Problems) -> None:
        if spec.data_type.numpy.str[1:] not in _TYPES:
            problems.add(loc, f"pcodec has no data type {spec.data_type.name}", "mismatch")

    def encode(self, array: np.ndarray[Any, Any], /) -> bytes:
        pcodec = import_package("pcodec", codec="pcodec")
        order = self.delta_encoding_order
        if order is not None or self.delta_spec == "try_consecutive":
            delta = pcodec.DeltaSpec.try_consecutive(1 if order is None else order)
        else:
            delta = getattr(pcodec.DeltaSpec, self.delta_spec)()
        config = pcodec.ChunkConfig(
            compression_level=self.level,
            mode_spec=getattr(pcodec.ModeSpec, self.mode_spec)(),
            delta_spec=delta,
            paging_spec=pcodec.PagingSpec.equal_pages_up_to(self.equal_pages_up_to),
        )
        native = array.astype(array.dtype.newbyteorder("="), copy=False)
        data: bytes = pcodec.standalone.simple_compress(
            np.ascontiguousarray(native).reshape(-1), config
        )
        return data

    def decode(self, data: BytesLike, spec: ArraySpec, /) -> np.ndarray[Any, Any]:
        pcodec = import_package("pcodec", codec="pcodec")
        native = spec.data_type.numpy.newbyteorder("=")
        array = np.empty(spec.shape, native)
        try:
            progress = pcodec.standalone.simple_decompress_into(
                to_flat_array(data).tobytes(), array.reshape(-1)
            )
        except Exception as error:
            raise DataError(f"damaged: {error}", codec="pcodec") from error
        if progress.n_processed != array.size or not progress.finished:
            message = f"{progress.n_processed} numbers instead of {array.size}"
            raise DataError(message, kind="wrong_size", codec="pcodec")
        return array.astype(spec.data_type.numpy, copy=False)
