"""Codecs from the JSON of documents and from user input, and numcodecs' registry of codecs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tessarr.codec.base import (
    Codec,
    Ignored,
    find_codec,
    find_codec_by_id,
    find_plain_codec,
    list_codec_ids,
    list_codec_names,
    register_codec,
)
from tessarr.errors import ArgumentError, UnsupportedError
from tessarr.format.validation import ABSENT, Members, describe, read_extension

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tessarr.format.validation import Problems
    from tessarr.types import ZarrFormat

__all__ = [
    "CodecLike",
    "codec_registry",
    "find_codec_class",
    "get_codec",
    "read_v2",
    "read_v3",
    "to_codec",
    "to_list",
]

CodecLike = Codec | str | Mapping[str, Any] | Any
"""A codec, its name, text such as "zstd:5", its JSON in either format, or a codec of numcodecs."""

_Read = TypeVar("_Read", Codec, Codec | None)

_UNSUPPORTED: Final = "unsupported_codec"

_NUMCODECS: Final = "numcodecs."
"""The prefix of names in format 3 for codecs of format 2 with their configuration."""

_DRAFT_NAMES: Final = {"endian": "bytes", "binary": "bytes"}
"""Names of codecs in drafts of format 3, with their present names."""


def read_v3(value: Any, loc: str, problems: Problems) -> Codec | None:
    """Return a codec in a document of format 3; if invalid, add problems and return None."""
    extension = read_extension(value, "codec", loc, problems)
    if extension is None:
        return None
    name = extension.name
    if name in _DRAFT_NAMES and find_codec(name) is None:
        problems.tolerate(loc, f"the codec {_DRAFT_NAMES[name]!r} is called {name!r}")
        name = _DRAFT_NAMES[name]
    codec = find_codec(name)
    if codec is not None:
        alias = name in codec.aliases
        rules: ZarrFormat = 2 if alias and name.startswith(_NUMCODECS) else 3
        return _with_spelling(codec.read(extension.configuration, rules), name if alias else "")
    if not extension.must_understand:
        document = {"name": value} if isinstance(value, str) else value
        return Ignored(json.dumps(document))
    problems.unsupported(loc, "codec", name, kind=_UNSUPPORTED)
    return None


def read_v2(value: Any, loc: str, problems: Problems, *, first: bool) -> Codec | None:
    """Return a codec in a document of format 2; if invalid, add problems and return None.

    The package numcodecs, if installed, runs codecs that Tessarr lacks.

    Parameters
    ----------
    value : JSON
        The compressor, or one of the filters.
    loc : str
        Its JSON pointer.
    problems : Problems
        Collects the faults.
    first : bool
        Whether the input of the codec is the chunk.
    """
    if not isinstance(value, dict):
        problems.add(loc, f"{describe(value)} is not an object", "wrong_type")
        return None
    members = Members(value, loc, problems)
    codec_id = members.require("id")
    if codec_id is ABSENT:
        return None
    if not isinstance(codec_id, str) or not codec_id:
        problems.add(members.at("id"), f"{describe(codec_id)} is not a name", "wrong_type")
        return None
    codec = find_codec_by_id(codec_id)
    try:
        if codec is not None:
            configuration = {name: item for name, item in value.items() if name != "id"}
            return codec.read(Members(configuration, loc, problems, ignores_unknown=True), 2)
        return _read_numcodec(value, first=first)
    except UnsupportedError as error:
        hint = f": {error.__notes__[0]}" if getattr(error, "__notes__", None) else ""
        problems.unsupported(loc, "codec", codec_id, kind=error.kind, hint=hint)
    except ArgumentError as error:
        problems.add(loc, str(error))
    return None


def to_codec(value: CodecLike) -> Codec:
    """Convert user input to a codec.

    Parameters
    ----------
    value : Codec, str, mapping or codec of numcodecs
        A codec; a name, which parameters may follow: ``"zstd:5"``, ``"zstd:level=5,checksum=true"``
        or ``"blosc:lz4,5"``; ``{"name": …, "configuration": …}`` of format 3 or ``{"id": …}`` of
        format 2, in which members are optional; or an object with numcodecs' method
        ``get_config``. The codec keeps an alias of format 3, such as ``numcodecs.bitround``.

    Raises
    ------
    ArgumentError
        If the configuration is invalid.
    UnsupportedError
        If the codec is unknown.

    Examples
    --------
    >>> to_codec("zstd:5"), to_codec({"id": "zlib"})
    (Zstd(level=5, checksum=False), Zlib(level=1))
    >>> to_codec({"name": "gzip", "configuration": {"level": 3}})
    GZip(level=3)
    """
    if isinstance(value, Codec) and hasattr(value, "kind"):
        return value
    document = _to_json(value)
    name, configuration = _split_json(document)
    by_id = "id" in document
    codec = find_codec_by_id(name) if by_id else find_codec(name) or find_codec_by_id(name)
    if codec is None:
        from tessarr.format import hints
        from tessarr.format.hints import did_you_mean

        try:
            if by_id or find_plain_codec(name) is not None:
                return _read_numcodec({"id": name, **configuration}, first=True)
            message = f"codec {name!r} is not supported{hints.extension_hint(name)}"
        except UnsupportedError as error:
            message = error.message
        others = (known for known in list_codec_names() if known != name)
        message += did_you_mean(name.removeprefix(_NUMCODECS), others)
        raise UnsupportedError(message, kind=_UNSUPPORTED, extension=name, codec=name)
    alias = name if not by_id and name in codec.aliases else ""
    try:
        return _with_spelling(codec.from_config(dict(configuration)), alias)
    except (TypeError, ValueError) as error:
        from tessarr.format.hints import did_you_mean

        reason = str(error).removeprefix(f"{codec.__name__}.__init__() ")
        known = getattr(codec, "__dataclass_fields__", {})
        wrong = next((member for member in configuration if member not in known), None)
        hint = did_you_mean(wrong, known) if "unexpected keyword" in reason else ""
        raise ArgumentError(f"codec {name!r}: {reason}{hint}", codec=name) from error


def find_codec_class(value: CodecLike) -> type[Codec] | None:
    """Return the class of a user's codec, or None if it is unknown.

    Examples
    --------
    >>> find_codec_class("sharding_indexed"), find_codec_class("unheard-to_codec")
    (<class 'tessarr.codecs.ShardingIndexed'>, None)
    """
    if isinstance(value, Codec):
        return type(value)
    try:
        document = _to_json(value)
        name, _ = _split_json(document)
    except ArgumentError:
        return None
    return (
        find_codec_by_id(name) if "id" in document else find_codec(name) or find_codec_by_id(name)
    )


def to_list(value: Any) -> list[Any]:
    """Return a list of codecs from None, one codec, or several codecs."""
    if value is None:
        return []
    if isinstance(value, str | Mapping) or not isinstance(value, Iterable):
        return [value]
    return list(value)


def _with_spelling(codec: _Read, alias: str) -> _Read:
    """Return a codec that keeps its alias, if its class has the field `spelling`."""
    changed: Any = codec
    if alias and "spelling" in getattr(codec, "__dataclass_fields__", ()):
        changed = replace(changed, spelling=alias)
    result: _Read = changed
    return result


def _read_numcodec(config: dict[str, Any], *, first: bool) -> Codec:
    from tessarr.codec.numcodecs_adapter import numcodec_from_config

    return numcodec_from_config(config, first=first)


def _to_json(value: Any) -> Mapping[str, Any]:
    """Return the JSON of user input that is not a `Codec`."""
    if isinstance(value, type) and issubclass(value, Codec):
        value = value.name
    if isinstance(value, str):
        return _parse_text(value)
    for method in ("get_config", "to_dict"):  # of numcodecs, and of zarr-python
        if hasattr(value, method) and not isinstance(value, type):
            value = getattr(value, method)()
    if not isinstance(value, Mapping):
        raise ArgumentError(f"{value!r} is not a codec")
    return value


def _parse_text(text: str) -> dict[str, Any]:
    """Return the JSON of a name that parameters may follow: ``zstd:5``.

    Parameters without a name are the first ones of the codec's class.
    """
    name, colon, rest = text.partition(":")
    codec = find_codec(name) or find_codec_by_id(name)
    if not colon or codec is None:
        return {"name": name}
    known = [name for name in getattr(codec, "__dataclass_fields__", ()) if name.islower()]
    configuration: dict[str, Any] = {}
    for position, word in enumerate(rest.split(",")):
        parameter, equals, value = map(str.strip, word.partition("="))
        if not equals:
            if position >= len(known):
                raise ArgumentError(f"codec {text!r} has more parameters than {name!r}: {known}")
            parameter, value = known[position], parameter
        if not value or parameter in configuration:
            raise ArgumentError(
                f"codec {text!r} is not understood: write 'zstd:5' or 'zstd:level=5,checksum=true'"
            )
        try:
            configuration[parameter] = json.loads(value)
        except ValueError:
            configuration[parameter] = value
    return {"name": name, "configuration": configuration}


def _split_json(value: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    if "id" in value:
        name, configuration = value["id"], {k: item for k, item in value.items() if k != "id"}
    else:
        name, configuration = value.get("name"), value.get("configuration", {})
        extra = set(value) - {"name", "configuration", "must_understand"}
        if extra and isinstance(name, str):
            raise ArgumentError(
                f"codec {name!r}: unknown member {min(extra, key=str)!r}; parameters stand in the "
                'member "configuration"'
            )
    if not isinstance(name, str) or not isinstance(configuration, Mapping):
        raise ArgumentError(f"{value!r} is not the JSON of a codec")
    return name, configuration


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
