"""The codec ``zfpy``: numbers compressed by zfp, with its header (numcodecs id ``zfpy``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tessarr.codec.base import ArrayBytesCodec, register_codec
from tessarr.codec.parameters import WrongParameter, check_choice, check_integer, check_number
from tessarr.codec.zfp_stream import MAX_AXES, TYPES, compress, decompress

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from tessarr.codec.base import ArraySpec
    from tessarr.format.validation import Problems
    from tessarr.types import BytesLike, JSONObject

__all__ = ["ZFPY"]

_MODES: Final = {2: "rate", 3: "precision", 4: "tolerance"}


@register_codec
@dataclass(frozen=True, slots=True)
class ZFPY(ArrayBytesCodec):
    """Lossy compression of numbers in blocks, by the package zfpy.

    Parameters
    ----------
    mode : int
        4, a fixed `tolerance`; 3, a fixed `precision`; 2, a fixed `rate`.
    tolerance : float
        The maximum error; the default means lossless compression.
    rate : float
        The number of bits for each number.
    precision : int
        The number of bits of each number to keep.
    compression_kwargs : mapping, optional
        A duplicate of the other parameters, which numcodecs writes; the codec ignores it.

    Examples
    --------
    >>> ZFPY(tolerance=0.01).to_json(3)
    {'name': 'numcodecs.zfpy', 'configuration': {'mode': 4, 'tolerance': 0.01}}
    """

    name = "numcodecs.zfpy"
    codec_id = "zfpy"
    mode: int = 4
    tolerance: float = -1
    rate: float = -1
    precision: int = -1
    compression_kwargs: Mapping[str, Any] | tuple[tuple[str, Any], ...] | None = None

    def __post_init__(self) -> None:
        check_choice("mode", self.mode, tuple(_MODES))
        check_number("tolerance", self.tolerance)
        check_number("rate", self.rate)
        check_integer("precision", self.precision, -1, 64)
        chosen = _MODES[self.mode]
        if getattr(self, chosen) <= 0 and chosen != "tolerance":
            raise WrongParameter(chosen, getattr(self, chosen), "positive", right_type=True)
        if self.rate > 66:
            raise WrongParameter("rate", self.rate, "at most 66 bits", right_type=True)
        object.__setattr__(self, "compression_kwargs", None)  # a duplicate of the other parameters

    def get_config(self) -> JSONObject:
        names = ("tolerance", "rate", "precision")
        chosen = _MODES[self.mode]
        numbers = {name: getattr(self, name) for name in names}
        config = {"compression_kwargs": {chosen: numbers[chosen]}, **numbers}
        return {"id": self.codec_id, "mode": self.mode, **config}

    def configuration(self) -> JSONObject:
        chosen = _MODES[self.mode]
        return {"mode": self.mode, chosen: getattr(self, chosen)}

    def check(self, spec: ArraySpec, loc: str, problems: Problems) -> None:
        if spec.data_type.numpy.str[1:] not in TYPES:
            problems.add(loc, f"zfp has no data type {spec.data_type.name}", "mismatch")
        if len(spec.shape) > MAX_AXES:
            message = f"zfp takes at most 4 axes, chunks have {len(spec.shape)}"
            problems.add(loc, message, "mismatch")

    def encode(self, array: np.ndarray[Any, Any], /) -> bytes:
        chosen = _MODES[self.mode]
        mode = {chosen: getattr(self, chosen)}
        return compress(array, header=True, codec="zfpy", **mode)

    def decode(self, data: BytesLike, spec: ArraySpec, /) -> np.ndarray[Any, Any]:
        dtype = spec.data_type.numpy
        array = decompress(data, spec.shape, dtype, None, "zfpy")
        return array.reshape(spec.shape).astype(dtype, copy=False)
