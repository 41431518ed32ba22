"""Names of `storage_options`: one mechanism for the tables of all object stores.

A table maps each name to a rule. `interpret_options` applies the rules and returns *settings*: the
keywords of a store class, and further options of the engine under their full names, such as
``aws_checksum_algorithm``. The tables contain the names of fsspec's file systems and those of the
``object_store`` crate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tessarr._safe_repr import safe_repr
from tessarr.errors import ArgumentError
from tessarr.format.hints import did_you_mean
from tessarr.store.object.option_values import to_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

__all__ = [
    "IGNORED",
    "Accept",
    "Nest",
    "OptionTable",
    "Refuse",
    "Rule",
    "Set",
    "Settings",
    "Split",
    "add_prefixes",
    "interpret_options",
    "merge_settings",
    "omit",
    "read_environment",
]

Settings: TypeAlias = "dict[str, Any]"
"""Keywords of a store class, and engine options under their full names."""


@dataclass(frozen=True, slots=True)
class Set:
    """A rule: the option has the meaning of a setting.

    Parameters
    ----------
    setting
        The name of the setting.
    convert
        Converts the value, or raises a ValueError that says what is allowed.
    key
        The entry to set, if the setting is a mapping.
    """

    setting: str
    convert: Callable[[Any], Any] = to_text
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Split:
    """A rule: a function derives several settings from the value."""

    derive: Callable[[Any], Settings]


@dataclass(frozen=True, slots=True)
class Nest:
    """A rule: the value is a mapping of further options, with a table for their names."""

    table: OptionTable


@dataclass(frozen=True, slots=True)
class Accept:
    """A rule: only some values are possible, and these have no effect.

    Parameters
    ----------
    values
        The values that agree with what the engine does.
    remedy
        What to do instead of any other value.
    """

    values: tuple[Any, ...]
    remedy: str


@dataclass(frozen=True, slots=True)
class Refuse:
    """A rule: the engine does not support the option."""

    remedy: str


@dataclass(frozen=True, slots=True)
class _Ignore:
    """A rule: the option has no effect, because it concerns file objects of fsspec."""


IGNORED: Final = _Ignore()

Rule: TypeAlias = "Set | Split | Nest | Accept | Refuse | _Ignore"
OptionTable: TypeAlias = "Mapping[str, Rule]"


def interpret_options(table: OptionTable, options: Mapping[str, Any], store: str) -> Settings:
    """Return the settings that options mean; options of None have no effect.

    Parameters
    ----------
    table
        The rules of the store.
    options
        The options of the user.
    store
        The name of the store for messages.

    Raises
    ------
    ArgumentError
        If a name is unknown, a value is invalid, the engine does not support an option, or two
        options contradict each other.

    Examples
    --------
    >>> table = {"key": Set("access_key_id"), "client_kwargs": Nest({"region_name": Set("region")})}
    >>> interpret_options(table, {"key": "a", "client_kwargs": {"region_name": "b"}}, "S3Store")
    {'access_key_id': 'a', 'region': 'b'}
    """
    settings: Settings = {}
    origins: dict[tuple[str, str | None], str] = {}
    _interpret(table, options, _Sink(store, settings, origins), "")
    return settings


@dataclass(frozen=True, slots=True)
class _Sink:
    """The settings of one call, and the options that they come from."""

    store: str
    settings: Settings
    origins: dict[tuple[str, str | None], str]

    def set(self, setting: str, key: str | None, value: Any, origin: str) -> None:
        if value is None:
            return
        target = self.settings if key is None else self.settings.setdefault(setting, {})
        name = setting if key is None else key
        previous = self.origins.setdefault((setting, key), origin)
        if target.setdefault(name, value) != value:
            raise ArgumentError(
                f"{self.store}: the options {previous} and {origin} contradict each other; pass "
                "one of them"
            )

    def add(self, settings: Settings, origin: str) -> None:
        for setting, value in settings.items():
            if setting in _MAPPINGS:
                for key, item in value.items():
                    self.set(setting, key, item, origin)
            else:
                self.set(setting, None, value, origin)


_MAPPINGS: Final = frozenset({"headers", "params"})
"""Settings that are mappings: options may set entries separately."""


def _interpret(table: OptionTable, options: Mapping[str, Any], sink: _Sink, parent: str) -> None:
    for name, value in options.items():
        origin = f"{parent}[{name!r}]" if parent else str(name)
        rule = table.get(name)
        if rule is None:
            raise ArgumentError(
                f"{sink.store} has no option {origin}{did_you_mean(name, table, count=3)}"
            )
        if value is None:
            continue
        try:
            _apply(rule, value, sink, origin)
        except ArgumentError:
            raise
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"{sink.store}: the option {origin} {error}") from error


def _apply(rule: Rule, value: Any, sink: _Sink, origin: str) -> None:
    match rule:
        case Set(setting, convert, None):
            sink.add({setting: convert(value)}, origin)
        case Set(setting, convert, key):
            sink.set(setting, key, convert(value), origin)
        case Split(derive):
            sink.add(derive(value), origin)
        case Nest(table):
            if not hasattr(value, "items"):
                raise ValueError(f"must be a mapping, not {safe_repr(value)}")
            _interpret(table, value, sink, origin)
        case Accept(values, remedy):
            if value not in values:
                raise ValueError(f"must be {safe_repr(values[0])}: {remedy}")
        case Refuse(remedy):
            raise ValueError(f"is not supported: {remedy}")
        case _Ignore():
            pass


def add_prefixes(table: OptionTable, *prefixes: str) -> dict[str, Rule]:
    """Return a table in which each name also exists with each prefix.

    Examples
    --------
    >>> list(add_prefixes({"region": Set("region")}, "aws_"))
    ['region', 'aws_region']
    """
    return {f"{prefix}{name}": rule for prefix in ("", *prefixes) for name, rule in table.items()}


def read_environment(
    table: OptionTable, names: Iterable[str], environ: Mapping[str, str], store: str
) -> Settings:
    """Return the settings that environment variables mean.

    Parameters
    ----------
    table
        The rules, which contain the names of the variables in lower case.
    names
        The variables. If two variables mean the same setting, the earlier one applies.
    environ
        The environment.
    store
        The name of the store for messages.
    """
    settings: Settings = {}
    # `environ.get` is slow for absent variables.
    for name in (name for name in names if name in environ):
        if value := environ[name]:
            derived = interpret_options(table, {name.lower(): value}, f"{store}, variable {name}")
            settings = {**derived, **settings}
    return settings


def merge_settings(
    explicit: Mapping[str, Any], environment: Mapping[str, Any], credentials: frozenset[str]
) -> Settings:
    """Return explicit settings, completed by those of the environment.

    Explicit credentials replace all credentials of the environment: a key of the user and a
    session token of the environment do not belong together. Anonymous stores have none.

    Examples
    --------
    >>> environment = {"key": "a", "token": "b", "region": "c"}
    >>> merge_settings({"key": "x"}, environment, frozenset({"key", "token"}))
    {'region': 'c', 'key': 'x'}
    """
    chosen = {name: value for name, value in explicit.items() if value is not None}
    if any(chosen.get(name) for name in credentials):
        environment = omit(environment, credentials)
    merged = {**environment, **chosen}
    return omit(merged, credentials - {"anonymous"}) if merged.get("anonymous") else merged


def omit(settings: Mapping[str, Any], names: Collection[str]) -> Settings:
    """Return settings without some names."""
    return {name: value for name, value in settings.items() if name not in names}
