"""The base classes of codecs, and the registry of their names: an extension point.

A codec is a frozen value. Its class derives from one of

* `ArrayArrayCodec`: ``encode(array)`` and ``decode(array, spec)`` on NumPy arrays,
* `ArrayBytesCodec`: ``encode(array)`` to bytes and ``decode(data, spec)`` back,
* `BytesBytesCodec`: ``encode(data)`` and ``decode(data)`` on bytes,

where ``spec`` is the `ArraySpec` of the decoded array. The configuration follows numcodecs'
protocol, `Codec.get_config` and `Codec.from_config`; dataclasses inherit both. `register_codec`,
or an entry point of the group ``tessarr.codecs``, registers the name for both formats::

    @register_codec
    @dataclass(frozen=True)
    class Xor(BytesBytesCodec):
        name = "example.xor"
        mask: int = 255

        def encode(self, data):
            return bytes(byte ^ self.mask for byte in bytes(data))

        def decode(self, data, out=None):
            return deliver(self.encode(data), out)

`Codec.engine` describes codecs that the engine implements. The engine calls all other codecs from
its worker threads, so they must not have mutable state.
"""

from __future__ import annotations

import dataclasses
import importlib
import math
import re
from abc import ABC, abstractmethod
from dataclasses import MISSING, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self, TypeVar

import numpy as np

from tessarr.codec.parameters import WrongParameter
from tessarr.errors import DataError
from tessarr.format.registry import Registry, set_public_module
from tessarr.format.validation import ABSENT, read_text

if TYPE_CHECKING:
    from tessarr.dtype import DataType
    from tessarr.format.validation import Members, Problems, ScalarKind
    from tessarr.types import BytesLike, JSONObject, Shape, ZarrFormat

__all__ = [
    "ArrayArrayCodec",
    "ArrayBytesCodec",
    "ArraySpec",
    "BytesBytesCodec",
    "Codec",
    "Ignored",
    "Kind",
    "check_elements",
    "deliver",
    "find_codec",
    "find_codec_by_id",
    "find_plain_codec",
    "list_codec_ids",
    "list_codec_names",
    "register_codec",
    "to_memoryview",
]

_NUMCODECS: Final = "numcodecs."
_PACKAGE: Final = "tessarr.codec."
_PUBLIC: Final = "tessarr.codecs"

_MODULES: Final = {
    "bitround": "bitround",
    "blosc": "blosc",
    "bytes": "bytes",
    "categorize": "categorize",
    "checksum": "adler32|crc32c?|fletcher32|jenkins_lookup3",
    "conditional": "conditional",
    "elements": "vlen-(array|bytes|utf8)",
    "numcodecs_filters": r"astype|delta|fixedscaleoffset|quantize|numcodecs\.packbits",
    "n5_default": "n5_default",
    "native": "gzip|lz4|shuffle|zlib|zstd",
    "objects": "json2|msgpack2|pickle",
    "packbits": "packbits",
    "pcodec": "pcodec",
    "real_numbers": "cast_value|scale_offset",
    "reshape": "reshape",
    "sharding": "sharding_indexed",
    "stdlib": "base64|bz2|lzma",
    "transpose": "transpose",
    "zarrs_optional": r"zarrs\.optional",
    "zfp": "zfpy?",
}
"""The modules that are imported on demand, with patterns of the names of their codecs."""

Kind = Literal["array_array", "array_bytes", "bytes_bytes", "ignored"]


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """The array that a codec encodes, or to which it decodes.

    Parameters
    ----------
    shape : tuple of int
        The shape.
    data_type : DataType
        The data type.
    fill : bytes, optional
        The fill value as bytes of one item; None means no fill value.

    Examples
    --------
    >>> from tessarr import dtype
    >>> ArraySpec((2, 3), dtype.to_data_type("int32")).size_bytes
    24
    """

    shape: Shape
    data_type: DataType
    fill: bytes | None = None

    @property
    def size_bytes(self) -> int:
        """Bytes of the array."""
        return math.prod(self.shape) * self.data_type.item_bytes


class Codec(ABC):
    """The base class of all codecs."""

    __slots__ = ()

    kind: ClassVar[Kind]
    name: ClassVar[str] = ""
    """The name in format 3."""
    aliases: ClassVar[tuple[str, ...]] = ()
    """Other names in format 3 that readers accept; a class with aliases has a field `spelling`."""
    spelling = ""
    """The alias in the document of the codec, which writers keep."""
    codec_id: ClassVar[str | None] = ""
    """The ``id`` in format 2; by default the name; None if format 2 lacks the codec."""
    takes_any_length: ClassVar[bool] = False
    """Whether the codec accepts elements of any length, as arrays of objects."""
    runs_code: ClassVar[bool] = False
    """Whether decoding can run arbitrary code; the option ``allow_pickle`` must allow this."""

    @property
    def label(self) -> str:
        """The name of the codec in messages."""
        label: str = self.codec_id or self.name or self.get_config()["id"]
        return label

    def configuration(self) -> JSONObject:
        """Return the ``configuration`` of format 3."""
        config = self.get_config()
        del config["id"]
        return config

    def get_config(self) -> JSONObject:
        """Return the configuration of format 2, with its ``id``."""
        codec: object = self
        if dataclasses.is_dataclass(codec):
            names = [field.name for field in dataclasses.fields(codec) if field.name != "spelling"]
            config = {name: getattr(codec, name) for name in names}
        else:
            config = {name: value for name, value in vars(self).items() if name[0] != "_"}
        return {"id": self.codec_id or self.name, **config}

    def stored_config(self) -> JSONObject:
        """Return the members of `get_config` that documents of format 2 contain."""
        return self.get_config()

    @classmethod
    def from_config(cls, config: JSONObject) -> Self:
        """Return the codec of a configuration; the member ``id`` is not needed.

        Raises
        ------
        ValueError, TypeError
            If the configuration is invalid.
        """
        return cls(**{name: value for name, value in config.items() if name != "id"})

    @classmethod
    def read(cls, members: Members, zarr_format: ZarrFormat) -> Codec | None:
        """Return the codec of a configuration in a document; if invalid, add problems, return None.

        Parameters
        ----------
        members : Members
            The configuration without the ``id`` of format 2.
        zarr_format : {2, 3}
            The format whose rules apply: 2 also for aliases in format 3 that begin with
            ``numcodecs.``.
        """
        before = len(members.problems)
        known: Any = cls
        config = dict(members.value)
        if dataclasses.is_dataclass(known):
            config = {
                field.name: value
                for field in dataclasses.fields(known)
                if field.name != "spelling"
                and (value := _read_parameter(field, members)) is not ABSENT
            }
            members.done()
        if len(members.problems) > before:
            return None
        try:
            return cls.from_config(config)
        except WrongParameter as error:
            members.problems.add(members.at(error.parameter), error.problem, error.problem_kind)
        except (TypeError, ValueError, KeyError) as error:
            members.problems.add(members.loc, f"codec {cls.name!r}: {error}")
        return None

    def to_json(self, zarr_format: ZarrFormat) -> Any:
        """Return the JSON of the codec in metadata."""
        if zarr_format == 2:
            return self.stored_config()
        name, configuration = self.name, self.configuration()
        if self.spelling:
            name, configuration = self.spelling, self.stored_config()
            del configuration["id"]
        if not configuration and not name.startswith(_NUMCODECS):  # zarr-python needs the member
            return {"name": name}
        return {"name": name, "configuration": configuration}

    def to_dict(self) -> Any:
        """Return the JSON of the codec in format 3, as zarr-python's codecs do."""
        return self.to_json(3)

    def resolve(self, spec: ArraySpec, zarr_format: ZarrFormat) -> Codec:
        """Return the codec with all open parameters chosen.

        Parameters
        ----------
        spec : ArraySpec
            The array that the codec encodes; for a codec from bytes, the array before encoding.
        zarr_format : {2, 3}
            The format of the document with the parameters.
        """
        return self

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        assert isinstance(other, Codec)
        return self.get_config() == other.get_config()

    def __hash__(self) -> int:
        return hash((type(self), repr(self.get_config())))

    def __repr__(self) -> str:
        config = {name: value for name, value in self.get_config().items() if name != "id"}
        return f"{type(self).__name__}({', '.join(f'{n}={v!r}' for n, v in config.items())})"

    def object_type(self) -> DataType | None:
        """Return the data type of ``|O`` elements if this is the first filter, or None."""
        return None

    def engine(self) -> dict[str, object] | None:
        """Return the description of the codec for the engine, or None if the engine lacks it."""
        return None


_SCALAR_KINDS: Final[dict[frozenset[str], ScalarKind]] = {
    frozenset({"int"}): "integer",
    frozenset({"bool"}): "boolean",
    frozenset({"float"}): "number",
    frozenset({"int", "float"}): "number",
}
"""The scalar types of parameters, by the names in their annotations."""


_OPTIONAL_NAMES: Final = frozenset(["None", "Optional", "typing.Optional"])
"""The names in annotations that mark optional parameters."""


def _read_parameter(field: dataclasses.Field[Any], members: Members) -> Any:
    """Return the parameter in a document for a field of a codec, or ABSENT for the default."""
    if field.default is MISSING and field.default_factory is MISSING and field.init:
        members.require(field.name)
    value, problems = members.get(field.name), members.problems
    annotation = field.type if isinstance(field.type, str) else _annotation_text(field.type)
    names = frozenset(re.findall(r"[\w.]+", annotation))
    scalar_kind = _SCALAR_KINDS.get(names - _OPTIONAL_NAMES)
    return (
        value
        if scalar_kind is None
        else read_text(value, scalar_kind, members.at(field.name), problems)
    )


def _annotation_text(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)


class ArrayArrayCodec(Codec):
    """A codec from arrays to arrays."""

    __slots__ = ()
    kind = "array_array"

    def check(self, spec: ArraySpec, loc: str, problems: Problems) -> None:
        """Note why the codec cannot encode what `spec` says."""

    def encoded(self, spec: ArraySpec) -> ArraySpec:
        """Return the spec of the encoding of an array of `spec`; by default the same."""
        return spec

    def native(self) -> Self:
        """Return the codec without its own byte orders, which format 3 lacks."""
        return self

    def stages(self, spec: ArraySpec) -> list[dict[str, object]] | None:
        """Return codecs of the engine that are equivalent to `encode`, for the bytes of arrays.

        The bytes are in C order; elements have the data types of `spec` and
        ``self.encoded(spec)``. None if the engine lacks such codecs.
        """
        return None

    @abstractmethod
    def encode(self, array: np.ndarray[Any, Any], /) -> np.ndarray[Any, Any]:
        """Encode an array."""

    @abstractmethod
    def decode(self, array: np.ndarray[Any, Any], spec: ArraySpec, /) -> np.ndarray[Any, Any]:
        """Decode an array of ``self.encoded(spec)`` to one of `spec`."""


class ArrayBytesCodec(Codec):
    """A codec from arrays to bytes."""

    __slots__ = ()
    kind = "array_bytes"
    in_index_order: ClassVar[bool] = False
    """Whether elements are in C order, without regard to the member ``order`` of format 2."""

    def check(self, spec: ArraySpec, loc: str, problems: Problems) -> None:
        """Note why the codec cannot encode what `spec` says."""

    def encoded_bytes(self, spec: ArraySpec) -> int | None:
        """Return how many bytes every array of `spec` becomes, or None if that varies."""
        return None

    def engine_array(self, spec: ArraySpec, zarr_format: ZarrFormat) -> dict[str, object] | None:
        """Return the description of the codec for the engine and arrays of `spec`, or None."""
        return None

    @abstractmethod
    def encode(self, array: np.ndarray[Any, Any], /) -> BytesLike:
        """Encode an array."""

    @abstractmethod
    def decode(self, data: BytesLike, spec: ArraySpec, /) -> np.ndarray[Any, Any]:
        """Decode to an array of `spec`."""


class BytesBytesCodec(Codec):
    """A codec from bytes to bytes."""

    __slots__ = ()
    kind = "bytes_bytes"

    def encoded_bytes(self, size: int) -> int | None:
        """Return how many bytes `size` bytes become, or None if that varies."""
        return None

    @abstractmethod
    def encode(self, data: BytesLike, /) -> BytesLike:
        """Encode bytes."""

    @abstractmethod
    def decode(self, data: BytesLike, /, out: BytesLike | None = None) -> BytesLike:
        """Decode bytes, into the buffer `out` if it is not None."""

    def decode_at_most(self, data: BytesLike, limit: int, /) -> BytesLike:
        """Decode bytes to at most `limit` bytes.

        Compressors raise DataError before the result exceeds the limit, because few damaged bytes
        could decode to a result of any size.
        """
        return self.decode(data)


@dataclass(frozen=True, slots=True)
class Ignored(Codec):
    """An unknown codec with ``must_understand: false``; it stays in the metadata and never runs."""

    kind = "ignored"
    document: str
    """The codec's JSON."""

    def to_json(self, zarr_format: ZarrFormat) -> Any:
        import json

        return json.loads(self.document)


_SHARDING: Final = "sharding_indexed"


def check_elements(codec: Codec, spec: ArraySpec, loc: str, problems: Problems) -> bool:
    """Tell whether a codec accepts the elements of `spec`; add a problem if not."""
    serializer = spec.data_type.serializer
    if (
        serializer
        and isinstance(codec, ArrayBytesCodec)
        and codec.name not in (serializer, _SHARDING)
    ):
        message = (
            f"codec {codec.label!r} does not take {spec.data_type.name}, but {serializer!r} does"
        )
        problems.add(loc, message, "mismatch")
        return False
    if spec.data_type.elements is None or codec.takes_any_length:
        return True
    message = f"codec {codec.label!r} takes items of one size, not {spec.data_type.name}"
    problems.add(loc, message, "mismatch")
    return False


def deliver(data: BytesLike, out: BytesLike | None) -> BytesLike:
    """Return `data`, copied into the buffer `out` if there is one.

    Raises
    ------
    DataError
        ``wrong_size``, if the sizes differ.
    """
    if out is None:
        return data
    if isinstance(data, np.ndarray) and data.dtype == object:
        np.copyto(out, data.reshape(np.shape(out)))  # type: ignore[arg-type]
        return out
    if isinstance(out, np.ndarray) and not out.flags.forc:
        # The flat form of such an array is a copy.
        np.copyto(out, deliver(data, np.empty(out.shape, out.dtype)))
        return out
    source, target = _to_flat_array(data), _to_flat_array(out)
    if source.nbytes != target.nbytes:
        message = f"{source.nbytes} decoded bytes for a buffer of {target.nbytes}"
        raise DataError(message, kind="wrong_size")
    target[:] = source
    return out


def to_memoryview(data: BytesLike) -> memoryview:
    """Return the bytes of a buffer in memory order; a copy if an array is not contiguous."""
    if isinstance(data, np.ndarray):
        return np.ascontiguousarray(data.reshape(-1, order="A")).view(np.uint8).data
    return memoryview(data)


def _to_flat_array(data: BytesLike) -> np.ndarray[Any, np.dtype[np.uint8]]:
    if isinstance(data, np.ndarray):
        return data.reshape(-1, order="A").view(np.uint8)
    return np.frombuffer(data, dtype=np.uint8)


C = TypeVar("C", bound=type[Any])

_names: Registry[type[Codec]] = Registry("codec", _PUBLIC)
_ids: dict[str, type[Codec]] = {}
_plain: dict[str, type[Any]] = {}


def register_codec(codec: C, codec_id: str | None = None) -> C:
    """Register a codec class by its names in format 3 and its id in format 2.

    The class replaces an earlier one with the same name.

    Parameters
    ----------
    codec
        A class derived from `ArrayArrayCodec`, `ArrayBytesCodec` or `BytesBytesCodec`; for
        format 2 also any class with numcodecs' protocol: ``encode``, ``decode``, ``get_config``,
        ``from_config`` and ``codec_id``.
    codec_id
        The id in format 2; by default the ``codec_id`` of the class.

    Examples
    --------
    >>> @register_codec
    ... class Reverse(BytesBytesCodec):
    ...     name = "example.reverse"
    ...     def encode(self, data): return bytes(data)[::-1]
    ...     def decode(self, data, out=None): return deliver(bytes(data)[::-1], out)
    >>> find_codec("example.reverse") is Reverse
    True
    """
    if not issubclass(codec, ArrayArrayCodec | ArrayBytesCodec | BytesBytesCodec):
        plain_id = codec_id or getattr(codec, "codec_id", None)
        if not plain_id or not isinstance(plain_id, str):
            raise TypeError(f"{codec.__name__}.codec_id, the id of the codec, is not set")
        _plain[plain_id] = codec
        return codec
    if not codec.name:
        raise TypeError(f"{codec.__name__}.name, the name of the codec, is not set")
    if codec.codec_id == "":
        codec.codec_id = codec.name
    # Tessarr's own codecs are imported late and must not replace registered ones.
    is_own = codec.__module__.startswith((_PACKAGE, _PUBLIC)) and codec_id is None
    for name in (codec.name, *codec.aliases):
        if not (is_own and name in _names):
            _names[name] = codec
    codec_id = codec_id or codec.codec_id
    if codec_id is not None and not (is_own and (codec_id in _ids or codec_id in _plain)):
        _ids[codec_id] = codec
        _plain.pop(codec_id, None)
    if is_own:
        set_public_module(_PUBLIC, codec)
    return codec


def find_plain_codec(codec_id: str) -> type[Any] | None:
    """Return the registered class with numcodecs' protocol and this id, or None."""
    return _plain.get(codec_id)


def list_codec_names() -> list[str]:
    """Return the names of all registered codecs and all codecs of this package, for messages.

    The function imports the modules of all codecs.
    """
    for module in _MODULES:
        importlib.import_module(_PACKAGE + module)
    names = {*_names.names(), *_ids, *_plain}
    return sorted(name for name in names if not name.startswith(_NUMCODECS))


def list_codec_ids() -> list[str]:
    """Return the ids in format 2 of all imported and registered codecs, sorted."""
    return sorted({*_ids, *_plain})


def find_codec(name: str) -> type[Codec] | None:
    """Return the codec class called `name` in format 3, or None."""
    if name not in _names:
        _import_module_of(name)
    return _names.find(name)


def find_codec_by_id(codec_id: str) -> type[Codec] | None:
    """Return the codec class with the id `codec_id` in format 2, or None."""
    if codec_id not in _ids:
        _import_module_of(_NUMCODECS + codec_id)
    if codec_id in _plain:
        return None
    codec = _ids.get(codec_id) or _names.find(codec_id)
    return None if codec is None or codec.codec_id is None else codec


def _import_module_of(name: str) -> None:
    """Import the module of one of Tessarr's own codecs."""
    stem = name.removeprefix(_NUMCODECS)
    for module, pattern in _MODULES.items():
        if re.fullmatch(pattern, name) or re.fullmatch(pattern, stem):
            importlib.import_module(_PACKAGE + module)


set_public_module(_PUBLIC, ArrayArrayCodec, ArrayBytesCodec, ArraySpec, BytesBytesCodec, Codec)
