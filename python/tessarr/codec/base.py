"""The extension point for codecs: three base classes and the registry of names.

A codec is a frozen value. Its class derives from one of

* `ArrayArrayCodec`: ``encode(array)`` and ``decode(array, spec)`` on NumPy arrays,
* `ArrayBytesCodec`: ``encode(array)`` to bytes and ``decode(data, spec)`` back,
* `BytesBytesCodec`: ``encode(data)`` and ``decode(data)`` on bytes,

where ``spec`` is the `ArraySpec` of the array wanted. Configuration follows
numcodecs' protocol, `Codec.get_config` and `Codec.from_config`; for a dataclass
both are ready made, from its fields. `register_codec`, or an entry point of the
group ``tessarr.codecs``, makes the name known to both formats::

    @register_codec
    @dataclass(frozen=True)
    class Xor(BytesBytesCodec):
        name = "example.xor"
        mask: int = 255

        def encode(self, data):
            return bytes(byte ^ self.mask for byte in bytes(data))

        def decode(self, data, out=None):
            return deliver(self.encode(data), out)

Codecs that the engine has too say so by `Codec.engine`; the engine calls all
others back from its worker threads, so they must not keep state.
"""

from __future__ import annotations

import dataclasses
import importlib
import math
import re
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import MISSING, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self, TypeVar

import numpy as np

from tessarr.codec.parameters import WrongParameter
from tessarr.errors import DataError, UnsupportedError
from tessarr.format.registry import Registry, set_public_module
from tessarr.format.validation import ABSENT, read_text

if TYPE_CHECKING:
    from tessarr.dtype import DataType
    from tessarr.format.text_values import ScalarKind
    from tessarr.format.validation import Members, Problems
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

Kind = Literal["array_array", "array_bytes", "bytes_bytes", "ignored"]


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """The array that a codec is given to encode, or has to decode to.

    Parameters
    ----------
    shape : tuple of int
        Its lengths.
    data_type : DataType
        Its elements.
    fill : bytes, optional
        One element, the fill value; None where there is none.

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
    """What all codecs have in common."""

    __slots__ = ()

    kind: ClassVar[Kind]
    name: ClassVar[str] = ""
    """The name in format 3."""
    aliases: ClassVar[tuple[str, ...]] = ()
    """Other names in format 3, which are read; a class that has some has a field `spelling`."""
    spelling = ""
    """The alias that a document has for the codec, which is written again."""
    codec_id: ClassVar[str | None] = ""
    """The ``id`` in format 2; by default the name, and None where format 2 has no such codec."""
    takes_any_length: ClassVar[bool] = False
    """Whether it takes elements of any length; if so, as arrays of objects."""
    runs_code: ClassVar[bool] = False
    """Whether decoding runs what the writer of the data wants: refused unless allowed."""

    @property
    def label(self) -> str:
        """What the codec is called in messages."""
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

    @classmethod
    def from_config(cls, config: JSONObject) -> Self:
        """Return the codec of a configuration; the member ``id`` is not needed.

        Raises
        ------
        ValueError, TypeError
            Where the configuration is not valid.
        """
        return cls(**{name: value for name, value in config.items() if name != "id"})

    @classmethod
    def read(cls, members: Members, zarr_format: ZarrFormat) -> Codec | None:
        """Return the codec of a configuration in a document, or None and problems.

        Parameters
        ----------
        members : Members
            The configuration; without the ``id`` of format 2.
        zarr_format : {2, 3}
            Whose rules apply: 2 also for aliases in format 3 that begin with ``numcodecs.``.
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
        """Return the codec as metadata states it."""
        if zarr_format == 2:
            return self.get_config()
        name, configuration = self.name, self.configuration()
        if self.spelling:
            name, configuration = self.spelling, self.get_config()
            del configuration["id"]
        if not configuration and not name.startswith(_NUMCODECS):  # where zarr-python wants it
            return {"name": name}
        return {"name": name, "configuration": configuration}

    def resolve(self, spec: ArraySpec, zarr_format: ZarrFormat) -> Codec:
        """Return the codec with everything chosen that was left open.

        Parameters
        ----------
        spec : ArraySpec
            What the codec encodes; for a codec from bytes, what these bytes were.
        zarr_format : {2, 3}
            The format that has to state the choice.
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
        """Return what the elements of ``|O`` are with this as first filter; None: it takes none."""
        return None

    def engine(self) -> dict[str, object] | None:
        """Return the codec as the engine takes it, or None if the engine lacks it."""
        return None


_SCALAR_KINDS: Final[dict[frozenset[str], ScalarKind]] = {
    frozenset({"int"}): "integer",
    frozenset({"bool"}): "boolean",
    frozenset({"float"}): "number",
    frozenset({"int", "float"}): "number",
}
"""What parameters have to be, by the names in their annotations."""


_OPTIONAL_NAMES: Final = frozenset(["None", "Optional", "typing.Optional"])
"""What annotations of parameters that may be None hold besides."""


def _read_parameter(field: dataclasses.Field[Any], members: Members) -> Any:
    """Return the parameter of a document for a field of a codec, or ABSENT for the default."""
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
        """Return what `encode` makes of an array of `spec`; by default the same."""
        return spec

    def native(self) -> Self:
        """Return the codec without byte orders of its own, which format 3 does not have."""
        return self

    def stages(self, spec: ArraySpec) -> list[dict[str, object]] | None:
        """Return codecs of the engine that do to the bytes of arrays of `spec` what `encode` does.

        The bytes are in C order, each element as `spec` and ``self.encoded(spec)`` have it.
        None where the engine has no such codecs.
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
    """Whether the order of the elements is that of the indices, whatever format 2 says."""

    def check(self, spec: ArraySpec, loc: str, problems: Problems) -> None:
        """Note why the codec cannot encode what `spec` says."""

    def encoded_bytes(self, spec: ArraySpec) -> int | None:
        """Return how many bytes every array of `spec` becomes, or None if that varies."""
        return None

    def engine_array(self, spec: ArraySpec, zarr_format: ZarrFormat) -> dict[str, object] | None:
        """Return the codec as the engine takes it for arrays of `spec`, or None."""
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
        """Decode bytes, into the buffer `out` where one is given."""

    def decode_at_most(self, data: BytesLike, limit: int, /) -> BytesLike:
        """Decode bytes that should not become more than `limit` bytes.

        Codecs that compress raise DataError before they have made more, because a few damaged
        bytes could stand for any number of them.
        """
        return self.decode(data)


@dataclass(frozen=True, slots=True)
class Ignored(Codec):
    """A codec that is not known but need not be understood: kept in the metadata, never run."""

    kind = "ignored"
    document: str
    """The codec's JSON."""

    def to_json(self, zarr_format: ZarrFormat) -> Any:
        import json

        return json.loads(self.document)


_SHARDING: Final = "sharding_indexed"


def check_elements(codec: Codec, spec: ArraySpec, loc: str, problems: Problems) -> bool:
    """Tell whether a codec takes the elements of `spec`, and note where it does not."""
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
        ``wrong_size``, where the sizes differ.
    """
    if out is None:
        return data
    if isinstance(data, np.ndarray) and data.dtype == object:
        np.copyto(out, data.reshape(np.shape(out)))  # type: ignore[arg-type]
        return out
    source, target = _to_flat_array(data), _to_flat_array(out)
    if source.nbytes != target.nbytes:
        message = f"{source.nbytes} decoded bytes for a buffer of {target.nbytes}"
        raise DataError(message, kind="wrong_size")
    target[:] = source
    return out


def to_memoryview(data: BytesLike) -> memoryview:
    """Return bytes as they lie in memory; of an array whose memory has gaps, a copy."""
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
    """Make a codec class known by its names in format 3 and its id in format 2.

    It takes the place of a codec that had the same name before.

    Parameters
    ----------
    codec
        A class derived from `ArrayArrayCodec`, `ArrayBytesCodec` or `BytesBytesCodec`; or for
        format 2 any class with numcodecs' protocol: ``encode``, ``decode``, ``get_config``,
        ``from_config`` and ``codec_id``.
    codec_id
        The id in format 2, if it is not the ``codec_id`` of the class.

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
    # Ours are imported late, when others may have taken their place.
    is_own = codec.__module__.startswith((_PACKAGE, _PUBLIC)) and codec_id is None
    for name in (codec.name, *codec.aliases):
        if not (is_own and name in _names):
            _names.add(name, codec)
    codec_id = codec_id or codec.codec_id
    if codec_id is not None and not (is_own and (codec_id in _ids or codec_id in _plain)):
        _ids[codec_id] = codec
        _plain.pop(codec_id, None)
    if is_own:
        set_public_module(_PUBLIC, codec)
    return codec


def find_plain_codec(codec_id: str) -> type[Any] | None:
    """Return the class that has numcodecs' protocol alone and was registered by an id, or None."""
    return _plain.get(codec_id)


def list_codec_names() -> list[str]:
    """Return the names of all codecs of this package, and of those that are registered.

    Every module of the package is imported: that is for messages.
    """
    from pkgutil import iter_modules

    package = importlib.import_module(_PACKAGE.rstrip("."))
    for module in iter_modules(package.__path__):
        with suppress(UnsupportedError):  # of a package that is not installed
            importlib.import_module(_PACKAGE + module.name)
    names = {*_names.names(), *_ids, *_plain}
    return sorted(name for name in names if not name.startswith(_NUMCODECS))


def list_codec_ids() -> list[str]:
    """Return the ids of format 2 of all codecs that have been imported or registered, sorted."""
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
    """Import the module of this package that is called like a codec, if there is one.

    This is all that makes a codec of ours known: its file is called like the codec, with
    underscores for what a module's name cannot have.
    """
    stem = name.removeprefix(_NUMCODECS).replace("-", "_").replace(".", "_")
    if not stem.isidentifier() or not stem.isascii():
        return
    for module in (name.replace("-", "_").replace(".", "_"), stem):
        try:
            importlib.import_module(_PACKAGE + module)
        except ModuleNotFoundError as error:
            if error.name != _PACKAGE + module:
                raise


set_public_module(_PUBLIC, ArrayArrayCodec, ArrayBytesCodec, ArraySpec, BytesBytesCodec, Codec)
