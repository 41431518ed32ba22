"""The codec ``json2``: a chunk of objects as a JSON document (numcodecs). Format 2 only."""

from __future__ import annotations

import codecs
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tessarr.codec.base import ArrayBytesCodec, deliver, register_codec
from tessarr.codec.elements import check_objects, from_document, to_document
from tessarr.codec.parameters import WrongParameter, check_choice, check_integer
from tessarr.dtype.objects import Objects, cannot_store, plain_item
from tessarr.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tessarr.codec.base import ArraySpec
    from tessarr.dtype import DataType
    from tessarr.format.validation import Problems
    from tessarr.types import BytesLike

__all__ = ["JSON"]


@register_codec
@dataclass(frozen=True, slots=True)
class JSON(ArrayBytesCodec):
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
    takes_any_length = True
    in_index_order = True

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

    def get_config(self) -> dict[str, Any]:
        config = ArrayBytesCodec.get_config(self)
        assert self.separators is not None
        return {**config, "separators": list(self.separators)}

    def object_type(self) -> DataType:
        return Objects(form="json")

    def check(self, spec: ArraySpec, loc: str, problems: Problems) -> None:
        check_objects(self, spec, loc, problems)

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
        objects = from_document(document, None if spec is None else spec.shape)
        return np.asarray(deliver(objects, out))
