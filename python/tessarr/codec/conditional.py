"""The codec ``conditional``: codecs that each chunk may skip (zarr-extensions codecs/conditional).

A header before the data has one bit for each codec, the lowest bit for the first codec. The bit
tells whether the codec was applied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from tessarr.codec.base import BytesBytesCodec, deliver, register_codec
from tessarr.codec.chain import to_flat_array
from tessarr.codec.parameters import WrongParameter, check_integer
from tessarr.codec.read import read_v3, to_codec
from tessarr.errors import ArgumentError, DataError
from tessarr.format.validation import ABSENT, describe, pointer

if TYPE_CHECKING:
    from tessarr.codec.base import ArraySpec
    from tessarr.codec.read import CodecLike
    from tessarr.format.validation import Members
    from tessarr.types import BytesLike, ZarrFormat

__all__ = ["Conditional"]

_MAX_BITS: Final = 1 << 16
_UNBOUNDED: Final = 1 << 62

Decision = Callable[[BytesBytesCodec, "BytesLike", "BytesLike"], bool]


@register_codec
@dataclass(frozen=True, slots=True, init=False)
class Conditional(BytesBytesCodec):
    r"""Codecs from bytes to bytes that apply only to chunks that they make smaller.

    Parameters
    ----------
    codecs : sequence of codecs
        The codecs.
    header_bits : int, optional
        The size of the header in bits: a multiple of 8, by default the smallest one.
    decide : {"smaller", "always", "never"} or callable
        The codecs to apply to a chunk; metadata does not state it. "smaller" applies all codecs,
        or none if they do not make the chunk smaller. A function receives a codec, its input and
        its output, and returns whether to apply the codec.

    Examples
    --------
    >>> codec = Conditional(["zstd"])
    >>> codec.encode(bytes(1000))[:1], codec.encode(b"abc")
    (b'\x01', b'\x00abc')
    """

    name = "conditional"
    codec_id = None
    codecs: tuple[BytesBytesCodec, ...]
    header_bits: int
    decide: Literal["smaller", "always", "never"] | Decision = field(compare=False)

    def __init__(
        self,
        codecs: Iterable[CodecLike],
        header_bits: int | None = None,
        decide: Literal["smaller", "always", "never"] | Decision = "smaller",
    ) -> None:
        inner = tuple(to_codec(codec) for codec in codecs)
        for codec in inner:
            if not isinstance(codec, BytesBytesCodec):
                message = f"conditional: codec {codec.label!r} is not one from bytes to bytes"
                raise ArgumentError(message, codec=self.name)
        bits = -(-len(inner) // 8) * 8 if header_bits is None else header_bits
        check_integer("header_bits", bits, len(inner), _MAX_BITS)
        if bits % 8:
            raise WrongParameter("header_bits", bits, "a multiple of 8", right_type=True)
        if decide not in ("smaller", "always", "never") and not callable(decide):
            message = f"decide {decide!r} is not 'smaller', 'always', 'never' or a function"
            raise ArgumentError(message, codec=self.name)
        object.__setattr__(self, "codecs", inner)
        object.__setattr__(self, "header_bits", bits)
        object.__setattr__(self, "decide", decide)

    @classmethod
    def read(cls, members: Members, zarr_format: ZarrFormat) -> Conditional | None:
        problems, before = members.problems, len(members.problems)
        value, loc = members.require("codecs"), members.at("codecs")
        header_bits = members.integer("header_bits", 0, _MAX_BITS, None)
        members.done()
        if value is ABSENT:
            return None
        if not isinstance(value, list):
            problems.add(loc, f"{describe(value)} is not a list of codecs", "wrong_type")
            return None
        codecs = [read_v3(item, pointer(loc, i), problems) for i, item in enumerate(value)]
        for i, codec in enumerate(codecs):
            if codec is not None and not isinstance(codec, BytesBytesCodec):
                message = f"codec {codec.label!r} is not one from bytes to bytes"
                problems.add(pointer(loc, i), message, "mismatch")
        if len(problems) > before:
            return None
        try:
            return cls([codec for codec in codecs if codec is not None], header_bits)
        except WrongParameter as error:
            problems.add(members.at(error.parameter), error.problem, error.problem_kind)
            return None

    def configuration(self) -> dict[str, Any]:
        config: dict[str, Any] = {"codecs": [codec.to_json(3) for codec in self.codecs]}
        if self.header_bits != -(-len(self.codecs) // 8) * 8:
            config["header_bits"] = self.header_bits
        return config

    def get_config(self) -> dict[str, Any]:
        return {"id": self.name, **self.configuration()}

    def resolve(self, spec: ArraySpec, zarr_format: ZarrFormat) -> Conditional:
        inner = [codec.resolve(spec, zarr_format) for codec in self.codecs]
        return Conditional(inner, self.header_bits, self.decide)

    def encode(self, data: BytesLike, /) -> bytes:
        plain = to_flat_array(data)
        mask, encoded = 0, plain
        if self.decide != "never":
            for bit, codec in enumerate(self.codecs):
                trial = to_flat_array(codec.encode(encoded))
                if not callable(self.decide) or self.decide(codec, encoded, trial):
                    mask, encoded = mask | 1 << bit, trial
        if self.decide == "smaller" and encoded.nbytes >= plain.nbytes:
            mask, encoded = 0, plain
        return mask.to_bytes(self.header_bits // 8, "little") + encoded.tobytes()

    def decode(self, data: BytesLike, /, out: BytesLike | None = None) -> BytesLike:
        return deliver(self.decode_at_most(data, _UNBOUNDED), out)

    def decode_at_most(self, data: BytesLike, limit: int, /) -> BytesLike:
        data, size = to_flat_array(data), self.header_bits // 8
        mask = int.from_bytes(data[:size].tobytes(), "little")
        if data.nbytes < size or mask >> len(self.codecs):
            message = f"no valid header of {size} bytes for {len(self.codecs)} codecs"
            raise DataError(message, codec=self.name)
        decoded: BytesLike = data[size:]
        for bit, codec in reversed(list(enumerate(self.codecs))):
            if mask >> bit & 1:
                # The outer codecs may have expanded the data.
                most = limit if bit == 0 else 2 * limit + _MAX_BITS
                decoded = codec.decode_at_most(decoded, most)
        return decoded
