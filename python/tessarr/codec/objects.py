"""Codecs of chunks of objects, by numcodecs: ``json2``, ``msgpack2``, ``pickle``. Format 2 only.

Reading a pickle can run arbitrary code. So opening an array with this codec raises an error unless
the option ``allow_pickle`` is True.
"""

from __future__ import annotations

import codecs
import json
import math
import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tessarr.codec.base import ArrayBytesCodec, deliver, register_codec
from tessarr.codec.elements import from_document, to_document
from tessarr.codec.parameters import WrongParameter, check_choice, check_integer
from tessarr.dtype.objects import Form, Objects, cannot_store, import_msgpack, plain_item
from tessarr.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tessarr.codec.base import ArraySpec
    from tessarr.dtype import DataType
    from tessarr.format.validation import Problems
    from tessarr.types import BytesLike

__all__ = ["JSON", "MsgPack", "Pickle"]


class _ObjectsCodec(ArrayBytesCodec):
    """The base class of these codecs."""

    __slots__ = ()
    takes_any_length = True
    in_index_order = True
    form: ClassVar[Form]

    def object_type(self) -> DataType:
        return Objects(form=self.form)

    def check(self, spec: ArraySpec, loc: str, problems: Problems) -> None:
        if spec.data_type != self.object_type():
            name = spec.data_type.name
            message = f"codec {self.name!r} encodes its own object type, not {name}"
            problems.add(loc, message, "mismatch")


def _deliver_objects(document: Any, spec: ArraySpec | None, out: Any) -> np.ndarray[Any, Any]:
    objects = from_document(document, None if spec is None else spec.shape)
    return np.asarray(deliver(objects, out))


@register_codec
@dataclass(frozen=True, slots=True)
class JSON(_ObjectsCodec):
    """JSON values as one list that ends with their type and shape.

    Parameters
    ----------
    encoding : str
        The encoding of the text.
    skipkeys, ensure_ascii, check_circular, allow_nan, sort_keys, indent, separators, strict
        The parameters of `json.JSONEncoder` and `json.JSONDecoder`.

    Examples
    --------
    >>> import numpy as np
    >>> JSON().encode(np.array(["a", {"b": None}], object))
    b'["a",{"b":null},"|O",[2]]'
    """

    name = "json2"
    form = "json"

    encoding: str = "utf-8"
    skipkeys: bool = False
    ensure_ascii: bool = True
    check_circular: bool = True
    allow_nan: bool = True
    sort_keys: bool = True
    indent: int | None = None
    separators: Sequence[str] | None = None
    strict: bool = True

    def __post_init__(self) -> None:
        try:
            codecs.lookup(self.encoding)
        except (LookupError, TypeError) as cause:
            expected = "the name of an encoding of text"
            is_text = isinstance(self.encoding, str)
            error = WrongParameter("encoding", self.encoding, expected, right_type=is_text)
            raise error from cause
        separators: Sequence[str] | None = self.separators
        if separators is None:
            separators = (",", ":") if self.indent is None else (", ", ": ")
        if len(separators) != 2 or not all(isinstance(text, str) for text in separators):
            raise WrongParameter(
                "separators", separators, "a list of two strings", right_type=False
            )
        if self.indent is not None:
            check_integer("indent", self.indent, 0, 99)
        for name in (
            "skipkeys",
            "ensure_ascii",
            "check_circular",
            "allow_nan",
            "sort_keys",
            "strict",
        ):
            check_choice(name, getattr(self, name), (True, False))
        object.__setattr__(self, "separators", tuple(separators))

    def stored_config(self) -> dict[str, Any]:
        return {**self.get_config(), "separators": list(self.separators or ())}

    def encode(self, array: np.ndarray[Any, Any], /) -> bytes:
        try:
            text = json.dumps(
                to_document(np.asarray(array, object)),
                skipkeys=self.skipkeys,
                ensure_ascii=self.ensure_ascii,
                check_circular=self.check_circular,
                allow_nan=self.allow_nan,
                sort_keys=self.sort_keys,
                indent=self.indent,
                separators=tuple(self.separators or ()),  # type: ignore[arg-type]
                default=plain_item,
            )
            return text.encode(self.encoding)
        except (TypeError, ValueError, RecursionError) as error:
            raise cannot_store("JSON", error) from error

    def decode(
        self, data: BytesLike, spec: ArraySpec | None = None, /, out: Any = None
    ) -> np.ndarray[Any, Any]:
        """Decode to objects in the shape of `spec`, or by default of the document."""
        try:
            document = json.loads(bytes(data).decode(self.encoding), strict=self.strict)
        except (ValueError, RecursionError) as error:
            raise DataError(f"not JSON: {error}", codec=self.name) from error
        return _deliver_objects(document, spec, out)


@register_codec
@dataclass(frozen=True, slots=True)
class MsgPack(_ObjectsCodec):
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
    form = "msgpack"

    raw: bool = False
    use_single_float: bool = False
    use_bin_type: bool = True

    def __post_init__(self) -> None:
        for name in ("raw", "use_single_float", "use_bin_type"):
            check_choice(name, getattr(self, name), (True, False))

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
        return _deliver_objects(document, spec, out)


@register_codec
@dataclass(frozen=True, slots=True)
class Pickle(_ObjectsCodec):
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
    form = "pickle"
    runs_code = True

    protocol: int = 5

    def __post_init__(self) -> None:
        check_integer("protocol", self.protocol, 0, pickle.HIGHEST_PROTOCOL)

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
