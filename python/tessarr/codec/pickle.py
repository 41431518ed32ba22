"""The codec ``pickle``: a chunk of objects as a pickle (numcodecs). Format 2 only.

Reading a pickle can run arbitrary code. So opening an array with this codec raises an error unless
the option ``allow_pickle`` is True.
"""

from __future__ import annotations

import math
import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tessarr.codec.base import ArrayBytesCodec, deliver, register_codec
from tessarr.codec.elements import check_objects
from tessarr.codec.parameters import check_integer
from tessarr.dtype.objects import Objects
from tessarr.errors import DataError

if TYPE_CHECKING:
    from tessarr.codec.base import ArraySpec
    from tessarr.dtype import DataType
    from tessarr.format.validation import Problems
    from tessarr.types import BytesLike

__all__ = ["Pickle"]


@register_codec
@dataclass(frozen=True, slots=True)
class Pickle(ArrayBytesCodec):
    """Objects of any class as pickled arrays.

    Parameters
    ----------
    protocol : int
        The version of the format.

    Examples
    --------
    >>> Pickle().to_json(2)
    {'id': 'pickle', 'protocol': 5}
    """

    name = "pickle"
    takes_any_length = True
    in_index_order = True
    runs_code = True

    protocol: int = 5

    def __post_init__(self) -> None:
        check_integer("protocol", self.protocol, 0, pickle.HIGHEST_PROTOCOL)

    def object_type(self) -> DataType:
        return Objects(form="pickle")

    def check(self, spec: ArraySpec, loc: str, problems: Problems) -> None:
        check_objects(self, spec, loc, problems)

    def encode(self, array: np.ndarray[Any, Any], /) -> bytes:
        return pickle.dumps(np.asarray(array, object), protocol=self.protocol)

    def decode(
        self, data: BytesLike, spec: ArraySpec | None = None, /, out: Any = None
    ) -> np.ndarray[Any, Any]:
        """Decode to objects in the shape of `spec`, or by default of the pickle."""
        try:
            value = pickle.loads(bytes(data))  # noqa: S301 (allowed by the option)
        except Exception as error:
            raise DataError(f"not a pickle: {error}", codec=self.name) from error
        if spec is None:
            return np.asarray(deliver(np.asarray(value, object), out))
        if not isinstance(value, np.ndarray) or value.size != math.prod(spec.shape):
            raise DataError(
                f"the pickle is not an array of shape {spec.shape}",
                kind="wrong_size",
                codec=self.name,
            )
        return value.astype(object).reshape(spec.shape)
