"""The drivers over other key-value stores: ``zip`` and ``kvstack``."""

from __future__ import annotations

from bisect import bisect_right
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from tessarr.errors import ArgumentError
from tessarr.store import ForeignStore, LocalStore
from tessarr.tensorstore.json.parse import (
    as_json,
    expected_error,
    member_error,
    missing_member,
    one_of,
    read_members,
    text,
    unsigned,
)
from tessarr.tensorstore.kvstore.kvstore_driver import (
    BaseMembers,
    Driver,
    quote_path,
)
from tessarr.tensorstore.kvstore.values import StoreLocation

if TYPE_CHECKING:
    import builtins
    from collections.abc import Iterator, Mapping, Sequence

    from tessarr.store.protocol import OpenedValue
    from tessarr.tensorstore.context.references import References

__all__ = ["KVSTACK", "ZIP"]

_METHODS: Final = {"store": 0, "deflate": 8, "zstd": 93, "xz": 95}


def _take_base(json: dict[str, Any]) -> list[Any]:
    if "base" not in json:
        raise missing_member("base", "object")
    return [json.pop("base")]


def _put_base(json: dict[str, Any], bases: list[Any]) -> None:
    (json["base"],) = bases


def _open_zip(
    _: References, members: Mapping[str, Any], bases: tuple[StoreLocation, ...], __: str
) -> StoreLocation:
    from tessarr.store.zip.nested import ZipValueStore
    from tessarr.store.zip.store import open_shared_zip

    (base,) = bases
    key = base.key("")
    method = _METHODS[members.get("compression", "deflate")]
    if isinstance(base.store, LocalStore):
        file = f"{base.store.path.rstrip('/')}/{key}"
        return StoreLocation(open_shared_zip(file, method, durable=base.store.durable))
    return StoreLocation(ZipValueStore(base.store, key, method))


ZIP: Final = Driver(
    name="zip",
    open=_open_zip,
    members={"compression": one_of(*_METHODS)},
    defaults={"compression": "deflate"},
    kinds={"cache_pool": "cache_pool", "data_copy_concurrency": "data_copy_concurrency"},
    url=lambda _, path: f"zip:{quote_path(path)}",
    based=BaseMembers(_take_base, _put_base),
)


T = TypeVar("T")


class Keys(NamedTuple):
    """A range of keys, and the number of bytes that a layer strips from each key.

    Keys are text, sorted by their UTF-8 bytes. An empty `high` means no end.
    """

    low: str
    high: str
    strip: int

    @property
    def shared(self) -> str:
        """The common prefix of all keys in the range."""
        low, high = self.low, self.high
        lengths = range(min(len(low), len(high)), 0, -1)
        same = next((n for n in lengths if high.startswith(low[:n])), 0)
        more = low[: same + 1]
        return more if same < len(low) and high == _after(more) else low[:same]

    @property
    def stripped(self) -> str:
        """The prefix that a layer strips from each key."""
        return self.shared.encode()[: self.strip].decode()

    def hold(self, key: str) -> bool:
        """Return whether the range contains `key`."""
        return self.low <= key and (not self.high or key < self.high)

    @property
    def empty(self) -> bool:
        """Whether the range contains no key."""
        return bool(self.high) and self.low >= self.high

    def without(self, other: Keys) -> Iterator[Keys]:
        """Return the parts of the range before and after `other`."""
        before = other.low if not self.high else min(other.low, self.high)
        parts = [self._replace(high=before)] if before else []
        if other.high:
            parts.append(self._replace(low=max(self.low, other.high)))
        return (part for part in parts if not part.empty)

    def json(self) -> dict[str, Any]:
        """Return the JSON of the range with the fewest members."""
        low, high = self.low, self.high
        result = {"inclusive_min": low, "exclusive_max": high}
        if high == low + "\0":
            result = {"exact": low}
        elif high == _after(low):
            result = {"prefix": low}
        json: dict[str, Any] = {k: v for k, v in result.items() if v or k == "exact"}
        if self.strip != len(self.shared.encode()):
            json["strip_prefix"] = self.strip
        return json

    @classmethod
    def of(cls, json: dict[str, Any]) -> Keys:
        """Return the range that checked JSON members describe."""
        low = json.get("exact", json.get("prefix", json.get("inclusive_min", "")))
        high = json.get("exclusive_max", "")
        if "exact" in json:
            high = low + "\0"
        elif "prefix" in json:
            high = _after(low)
        new = cls(low, high, 0)
        return new._replace(strip=json.get("strip_prefix", len(new.shared.encode())))


def _after(prefix: str) -> str:
    """Return the first text after all texts that start with `prefix`, or an empty text."""
    while prefix:
        last = ord(prefix[-1]) + 1
        prefix = prefix[:-1]
        if last <= _LAST:
            return prefix + chr(_BEHIND if last == _SURROGATES else last)
    return ""


_LAST: Final = 0x10FFFF
_SURROGATES, _BEHIND = 0xD800, 0xE000  # the code points between are no characters


class Layer(NamedTuple):
    """A store location, and the range of keys that it holds."""

    place: StoreLocation
    keys: Keys
    strip: str  # the prefix that keys in the store lack

    def key(self, key: str) -> str:
        """Return `key` as the store of the layer names it."""
        return self.place.key(key.removeprefix(self.strip))


class _StackedStore:
    """A `tessarr.store.protocol.StoreProtocol` of layers whose key ranges do not overlap."""

    def __init__(self, layers: tuple[Layer, ...]) -> None:
        self._layers = layers

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _StackedStore) and other._layers == self._layers

    def __hash__(self) -> int:
        return hash(tuple(layer.place for layer in self._layers))

    def _layer(self, key: str) -> Layer | None:
        at = bisect_right(self._layers, key, key=attrgetter("keys.low"))
        layer = self._layers[at - 1] if at else None
        return layer if layer is not None and layer.keys.hold(key) else None

    def _writable(self, key: str) -> Layer:
        layer = self._layer(key)
        if layer is None:
            raise ArgumentError(f'Key not found in any layers: "{key}"', key=key)
        return layer

    def get(self, key: str) -> bytes | None:
        layer = self._layer(key)
        return None if layer is None else layer.place.store.get(layer.key(key))

    def open_value(self, key: str) -> OpenedValue | None:
        layer = self._layer(key)
        return None if layer is None else layer.place.store.open_value(layer.key(key))

    def put(self, key: str, data: bytes) -> None:
        layer = self._writable(key)
        layer.place.store.put(layer.key(key), data)

    def delete(self, key: str) -> None:
        layer = self._writable(key)
        layer.place.store.delete(layer.key(key))

    def replace(self, key: str, data: bytes | None, expected: bytes | None) -> bool:
        layer = self._writable(key)
        return layer.place.store.replace(layer.key(key), data, expected)

    def list(self, prefix: str) -> builtins.list[str]:
        items: list[str] = []
        for place, strip in dict.fromkeys((one.place, one.strip) for one in self._layers):
            begin = place.key("")
            folder = begin[: begin.rfind("/") + 1]
            for key in place.store.list(folder):
                if not key.startswith(begin):
                    continue
                own = strip + key[len(begin) :]
                layer = self._layer(own)
                here = layer is not None and (layer.place, layer.strip) == (place, strip)
                if here and own.startswith(prefix):
                    items.append(own)
        return items


# JSON

_RANGES: Final = ("prefix", "exact", "inclusive_min")


def _take_layers(json: dict[str, Any]) -> list[Any]:
    layers = json.get("layers")
    if layers is None:
        raise missing_member("layers", "array")
    if not isinstance(layers, list):
        raise member_error("layers", ArgumentError(str(expected_error("array", layers))))
    bases, ranges = [], []
    for position, layer in enumerate(layers):
        try:
            bases.append(_layer_base(layer))
            ranges.append(_range_of({k: v for k, v in layer.items() if k != "base"}))
        except ArgumentError as error:
            at_position = ArgumentError(f"Error parsing value at position {position}: {error}")
            raise member_error("layers", at_position) from None
    json["layers"] = ranges
    return bases


def _layer_base(layer: Any) -> Any:
    if not isinstance(layer, dict):
        raise expected_error("object", layer)
    if "base" not in layer:
        raise missing_member("base", "object")
    return layer["base"]


def _range_of(json: dict[str, Any]) -> dict[str, Any]:
    """Return the checked key range of a layer."""
    readers: dict[str, Any] = dict.fromkeys((*_RANGES, "exclusive_max"), text)
    result = read_members(json, {**readers, "strip_prefix": unsigned(0, "64-bit unsigned integer")})
    if sum(name in result for name in _RANGES) > 1 or (
        "exclusive_max" in result and ("prefix" in result or "exact" in result)
    ):
        listed = ", ".join(f'"{name}"' for name in _RANGES)
        raise ArgumentError(f"At most one of {listed} members is allowed")
    keys = Keys.of(result)
    if keys.high and keys.low > keys.high:
        raise ArgumentError("Invalid inclusive_min/exclusive_max in range")
    shared = keys.shared
    if keys.strip not in {len(shared[:n].encode()) for n in range(len(shared) + 1)}:
        raise ArgumentError(f"Invalid strip_prefix of {keys.strip} for prefix {as_json(shared)}")
    return keys.json()


def _put_layers(json: dict[str, Any], bases: list[Any]) -> None:
    pairs = zip(json["layers"], bases, strict=True)
    json["layers"] = [dict(sorted({**own, "base": base}.items())) for own, base in pairs]


def _resolve_layers(
    members: Mapping[str, Any], bases: Sequence[T]
) -> tuple[dict[str, Any], tuple[T, ...]]:
    """Return sorted layers without overlaps; a later layer hides the keys of earlier ones."""
    layers: list[tuple[Keys, T]] = []
    for json, base in zip(members["layers"], bases, strict=True):
        keys = Keys.of(json)
        if not keys.empty:
            layers = [(part, other) for old, other in layers for part in old.without(keys)]
            layers.append((keys, base))
    layers.sort(key=itemgetter(0))
    return {"layers": [keys.json() for keys, _ in layers]}, tuple(base for _, base in layers)


def _open_stack(
    _: References, members: Mapping[str, Any], bases: tuple[StoreLocation, ...], __: str
) -> StoreLocation:
    resolved, places = _resolve_layers(members, bases)
    keys = map(Keys.of, resolved["layers"])
    layers = (Layer(place, own, own.stripped) for own, place in zip(keys, places, strict=True))
    # Each layer checks its own keys.
    return StoreLocation(ForeignStore(_StackedStore(tuple(layers)), any_keys=True))


KVSTACK: Final = Driver(
    name="kvstack",
    open=_open_stack,
    members={"layers": lambda layers: layers},
    needs=("layers",),
    based=BaseMembers(_take_layers, _put_layers, _resolve_layers),
)
