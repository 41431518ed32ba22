"""Several key-value stores as one: each key is in the last that has its range."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tessarr.errors import ArgumentError
from tessarr.store import ForeignStore
from tessarr.tensorstore.kvstore.driver import Based, Driver, Opening, missing, text
from tessarr.tensorstore.kvstore.values import KeyRange, Place
from tessarr.tensorstore.notation.members import expected, integer, members

if TYPE_CHECKING:
    import builtins

    from tessarr.store import OpenedValue

__all__ = ["KVSTACK"]


class Layer(NamedTuple):
    """What of the keys a place has: a range, whose first bytes its own keys lack."""

    place: Place
    chosen: KeyRange
    strip: str

    def key(self, key: str) -> str:
        """Return the key in its store."""
        return self.place.key(key.removeprefix(self.strip))


class _Stacked:
    """The methods of `tessarr.store.protocol.StoreProtocol`."""

    def __init__(self, layers: tuple[Layer, ...]) -> None:
        self._layers = layers

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Stacked) and other._layers == self._layers

    def __hash__(self) -> int:
        return hash(tuple(layer.place for layer in self._layers))

    def _layer(self, key: str) -> Layer | None:
        sought = key.encode()
        return next((one for one in reversed(self._layers) if one.chosen._holds(sought)), None)

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
        found: list[str] = []
        for layer in self._layers:
            begin = layer.place.key("")
            folder = begin[: begin.rfind("/") + 1]
            for key in layer.place.store.list(folder):
                if not key.startswith(begin):
                    continue
                own = layer.strip + key[len(begin) :]
                if own.startswith(prefix) and self._layer(own) is layer:
                    found.append(own)
        return found


# JSON

_RANGES: Final = ("prefix", "exact", "inclusive_min")


def _take(json: dict[str, Any]) -> list[Any]:
    layers = json.get("layers")
    if layers is None:
        raise missing("layers", "array")
    if not isinstance(layers, list):
        raise ArgumentError(f'Error parsing object member "layers": {expected("array", layers)}')
    bases = []
    kept = []
    for position, layer in enumerate(layers):
        try:
            bases.append(_base_of(layer))
            kept.append(_range_of({k: v for k, v in layer.items() if k != "base"}))
        except ArgumentError as error:
            raise ArgumentError(
                f'Error parsing object member "layers": Error parsing value at position '
                f"{position}: {error}"
            ) from None
    json["layers"] = kept
    return bases


def _base_of(layer: Any) -> Any:
    if not isinstance(layer, dict):
        raise expected("object", layer)
    if "base" not in layer:
        raise missing("base", "object")
    return layer["base"]


def _range_of(json: dict[str, Any]) -> dict[str, Any]:
    """Return what a layer says of its keys, checked."""
    found = members(
        json,
        {
            "prefix": text,
            "exact": text,
            "inclusive_min": text,
            "exclusive_max": text,
            "strip_prefix": integer(0, "64-bit unsigned integer"),
        },
    )
    if sum(name in found for name in _RANGES) > 1 or (
        "exclusive_max" in found and ("prefix" in found or "exact" in found)
    ):
        listed = ", ".join(f'"{name}"' for name in _RANGES)
        raise ArgumentError(f"At most one of {listed} members is allowed")
    chosen, shared = _chosen(found)
    if chosen.empty:
        raise ArgumentError("Invalid inclusive_min/exclusive_max in range")
    if found.get("strip_prefix", 0) > len(shared):
        raise ArgumentError(
            f'Invalid strip_prefix of {found["strip_prefix"]} for prefix "{shared}"'
        )
    return _told(chosen, shared, found.get("strip_prefix", len(shared)))


def _told(chosen: KeyRange, shared: str, strip: int) -> dict[str, Any]:
    """Return what says the same of the keys of a layer in the fewest members."""
    found: dict[str, Any]
    low, high = chosen.inclusive_min.decode(), chosen.exclusive_max
    if high == chosen.inclusive_min + b"\0":
        found = {"exact": low}
    elif chosen == _below(low):
        found = {"prefix": low} if low else {}
    else:
        ends = {"inclusive_min": low, "exclusive_max": high.decode()}
        found = {name: end for name, end in ends.items() if end}
    return found if strip == len(shared) else {**found, "strip_prefix": strip}


def _chosen(given: dict[str, Any]) -> tuple[KeyRange, str]:
    """Return the keys of a layer, and what all of them begin with."""
    if "exact" in given:
        exact: str = given["exact"]
        return KeyRange(exact, exact + "\0"), exact
    if "prefix" in given:
        prefix: str = given["prefix"]
        return _below(prefix), prefix
    low, high = given.get("inclusive_min", ""), given.get("exclusive_max", "")
    chosen = KeyRange(low, high)
    if low and _below(low).exclusive_max == chosen.exclusive_max:
        return chosen, low  # as ["abc", "abd")
    lengths = range(min(len(low), len(high)), 0, -1)
    return chosen, next((low[:n] for n in lengths if high.startswith(low[:n])), "")


def _below(prefix: str) -> KeyRange:
    """Return the range of all keys that begin with a text."""
    end = prefix.encode().rstrip(b"\xff")
    return KeyRange(prefix, end[:-1] + bytes([end[-1] + 1]) if end else b"")


def _give(json: dict[str, Any], bases: list[Any]) -> None:
    pairs = zip(json["layers"], bases, strict=True)
    json["layers"] = [dict(sorted({**own, "base": base}.items())) for own, base in pairs]


def _open_stack(at: Opening) -> Place:
    layers = []
    for given, place in zip(at.given["layers"], at.bases, strict=True):
        chosen, shared = _chosen(given)
        strip = shared[: given.get("strip_prefix", len(shared))]
        layers.append(Layer(place, chosen, strip))
    # Which keys there are is for the layers to say.
    return Place(ForeignStore(_Stacked(tuple(layers)), any_keys=True))


KVSTACK: Final = Driver(
    name="kvstack",
    open=_open_stack,
    members={"layers": lambda layers: layers},
    needs=("layers",),
    based=Based(_take, _give),
)
