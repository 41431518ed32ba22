"""Collects everything that is wrong with a document, each with its location.

Reading a document never stops at its first fault: every reader is handed a
`Problems`, adds what it finds and returns ``None`` for what it cannot make
sense of. `Problems.check` raises all of it at once. What real writers got
wrong but has only one sensible reading becomes part of one warning.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, TypeGuard

from tessarr.errors import ArgumentError, MetadataError, Problem, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from tessarr.format.text_values import ScalarKind

__all__ = [
    "ABSENT",
    "INT64_MAX",
    "Absent",
    "Extension",
    "Members",
    "Problems",
    "describe",
    "is_integer",
    "is_number",
    "pointer",
    "read_extension",
    "read_lengths",
    "read_text",
]

INT64_MAX: Final = 2**63 - 1
_MAX_SHOWN: Final = 20
"""How many faults a message tells; the error has them all."""


class Absent(Enum):
    """The type of `ABSENT`, which stands for a member that a document lacks."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT

Required: TypeAlias = Literal[Absent.ABSENT]


class Problems:
    """The faults of one document, in the order they were found.

    Parameters
    ----------
    strict : bool
        Whether nothing is tolerated: what a user writes is not a stored document.

    Examples
    --------
    >>> problems = Problems()
    >>> problems.add("/shape/0", "-1 is negative", "invalid_value")
    >>> len(problems), str(problems.found[0])
    (1, '/shape/0: -1 is negative')
    """

    __slots__ = ("_extensions", "_strict", "defects", "found")

    def __init__(self, *, strict: bool = False) -> None:
        self._strict = strict
        self.found: list[Problem] = []
        self.defects: list[str] = []
        self._extensions: list[str] = []

    def __len__(self) -> int:
        return len(self.found)

    def add(self, loc: str, message: str, kind: str = "invalid_value") -> None:
        """Note a fault at the JSON pointer `loc`."""
        self.found.append(Problem(loc, message, kind))

    def unsupported(self, loc: str, what: str, name: str, *, kind: str, hint: str = "") -> None:
        """Note the extension `name`, which is valid as far as we know but not supported.

        `hint` ends the message; by default it says which package offers the extension, where
        that is known.
        """
        from tessarr.format import install_hints

        hint = hint or install_hints.extension_hint(name)
        self.found.append(Problem(loc, f"{what} {name[:60]!r} is not supported{hint}", kind))
        self._extensions.append(name)

    def take(self, others: Problems, places: Mapping[str, str]) -> None:
        """Note the faults of a document that was translated into another.

        Parameters
        ----------
        others
            The faults of the translation.
        places
            Where what it has at a JSON pointer came from, in this document.
        """
        for problem in others.found:
            start = next((place for place in places if problem.loc.startswith(place)), "")
            loc = places.get(start, "") + problem.loc[len(start) :]
            self.found.append(Problem(loc, problem.message, problem.kind))
        self.defects += others.defects
        self._extensions += others._extensions

    def tolerate(self, loc: str, defect: str) -> None:
        """Note a defect that has only one sensible reading."""
        if self._strict:
            self.add(loc, defect)
            return
        self.defects.append(f"{loc}: {defect}" if loc else defect)

    def check(self, what: str, *, path: str | None = None, key: str | None = None) -> None:
        """Raise everything that was found, or warn of the defects that were tolerated.

        Parameters
        ----------
        what : str
            What was read, for the message: ``"metadata 'foo/zarr.json'"``.
        path, key : str, optional
            Fields of the error.

        Raises
        ------
        MetadataError
            Where there is any fault.
        UnsupportedError
            Where all that is wrong is that extensions are not supported.
        """
        if self.found:
            message = self._message(f"invalid {what}")
            if len(self._extensions) < len(self.found):
                raise MetadataError(message, problems=self.found, path=path, key=key)
            kind, extension = self.found[0].kind, self._extensions[0]
            message = self._message(f"cannot use {what}")
            raise UnsupportedError(message, kind=kind, extension=extension, path=path, key=key)
        if self.defects:
            text = f"{what} breaks its specification, read all the same: {'; '.join(self.defects)}"
            from tessarr.format.user_warnings import warn_user

            warn_user(text)

    def check_arguments(self, what: str, error: type[ArgumentError] = ArgumentError) -> None:
        """Raise everything that was found in a caller's arguments.

        Parameters
        ----------
        what
            What the caller wanted.
        error
            As what it is raised.

        Raises
        ------
        ArgumentError
            Where there is any fault.
        UnsupportedError
            Where all that is wrong is that extensions are not supported.
        """
        if not self.found:
            return
        message = self._message(f"cannot {what}")
        kind = self.found[0].kind
        if len(self._extensions) < len(self.found):
            raise error(message)
        raise UnsupportedError(message, kind=kind, extension=self._extensions[0])

    def _message(self, start: str) -> str:
        if len(self.found) == 1:
            return f"{start}: {self.found[0]}"
        lines = self.join_messages("\n  ")
        return f"{start}: {len(self.found)} problems\n  {lines}"

    def join_messages(self, between: str) -> str:
        """Return what was found, as a message has it: of very many faults the first ones."""
        told = [str(problem) for problem in self.found[:_MAX_SHOWN]]
        more = len(self.found) - len(told)
        return between.join([*told, f"and {more} more"] if more else told)


class Members:
    """The members of one JSON object, read one by one.

    Every reading method notes a fault and returns ``None`` where the member is
    not as asked for. `done` notes the members that nobody asked for.

    Parameters
    ----------
    value : mapping
        The JSON object.
    loc : str
        Its JSON pointer.
    problems : Problems
        Where faults go.
    ignores_unknown : bool
        Whether members that no reader uses are a defect and not a fault.

    Examples
    --------
    >>> problems = Problems()
    >>> members = Members({"level": 12, "x": 1}, "/configuration", problems)
    >>> members.integer("level", 0, 9)
    >>> members.done()
    >>> [str(problem) for problem in problems.found]
    ['/configuration/level: 12 is not an integer of 0 to 9', "/configuration/x: unknown member 'x'"]
    """

    __slots__ = ("_ignores_unknown", "_read_names", "loc", "problems", "value")

    def __init__(
        self,
        value: Mapping[str, Any],
        loc: str,
        problems: Problems,
        *,
        ignores_unknown: bool = False,
    ) -> None:
        self._ignores_unknown = ignores_unknown
        self.value = value
        self.loc = loc
        self.problems = problems
        self._read_names: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self.value

    def at(self, name: str) -> str:
        """Return the JSON pointer of the member `name`."""
        return pointer(self.loc, name)

    def get(self, name: str, default: Any = ABSENT) -> Any:
        """Return the member as it is, or `default`."""
        self._read_names.add(name)
        return self.value.get(name, default)

    def is_read(self, name: str) -> bool:
        """Tell whether the member was asked for."""
        return name in self._read_names

    def require(self, name: str) -> Any:
        """Return the member as it is, or note that it is absent and return `ABSENT`."""
        value = self.get(name)
        if value is ABSENT:
            self.problems.add(self.loc, f"member {name!r} is missing", "missing_member")
        return value

    def integer(
        self, name: str, low: int, high: int | None, default: int | Required | None = ABSENT
    ) -> int | None:
        """Return an integer of `low` to `high` (``None``: no upper limit)."""
        value = self._read_scalar(name, "integer", default)
        if value is ABSENT:
            return None if isinstance(default, Absent) else default
        if is_integer(value) and value >= low and (high is None or value <= high):
            return value
        span = f"of {low} to {high}" if high is not None else f"of at least {low}"
        self._refuse(name, value, f"an integer {span}", right_type=is_integer(value))
        return None

    def boolean(self, name: str, default: bool | Required = ABSENT) -> bool | None:
        """Return a boolean."""
        value = self._read_scalar(name, "boolean", default)
        if value is ABSENT:
            return None if isinstance(default, Absent) else default
        if isinstance(value, bool):
            return value
        self._refuse(name, value, "true or false", right_type=False)
        return None

    def _read_scalar(self, name: str, wanted: ScalarKind, default: object) -> Any:
        """Return a member, a number or boolean in text as such."""
        value = self.require(name) if default is ABSENT else self.get(name)
        return read_text(value, wanted, self.at(name), self.problems)

    def choice(
        self, name: str, choices: Collection[str | None], default: str | Required | None = ABSENT
    ) -> str | None:
        """Return one of the strings `choices`."""
        value = self.require(name) if default is ABSENT else self.get(name)
        if value is ABSENT:
            return None if isinstance(default, Absent) else default
        if (value is None or isinstance(value, str)) and value in choices:
            return value
        wanted = "one of " + ", ".join(repr(choice) for choice in choices)
        self._refuse(name, value, wanted, right_type=isinstance(value, str))
        return None

    def text(self, name: str, default: str | Required = ABSENT) -> str | None:
        """Return a string."""
        value = self.require(name) if default is ABSENT else self.get(name)
        if value is ABSENT:
            return None if isinstance(default, Absent) else default
        if isinstance(value, str):
            return value
        self._refuse(name, value, "a string", right_type=False)
        return None

    def lengths(self, name: str, low: int) -> tuple[int, ...] | None:
        """Return a list of integers of `low` to 2**63 - 1 as a tuple."""
        value = self.require(name)
        if value is ABSENT:
            return None
        return read_lengths(value, low, self.at(name), self.problems)

    def chunk_lengths(self, name: str, low: int) -> tuple[int, ...] | None:
        """Return lengths of a chunk like `read_lengths`; true is 1, as zarr-python stored it."""
        value = self.require(name)
        if value is ABSENT:
            return None
        loc = self.at(name)
        if isinstance(value, list):
            for position, item in enumerate(value):
                if item is True:
                    self.problems.tolerate(pointer(loc, position), "true, taken for 1")
            value = [1 if item is True else item for item in value]
        return read_lengths(value, low, loc, self.problems)

    def done(self) -> None:
        """Note every member that was not asked for."""
        for name in self.value:
            if name in self._read_names:
                continue
            what = f"unknown member {describe(name)}"
            if self._ignores_unknown:
                self.problems.tolerate(self.at(name), f"{what}, ignored")
            else:
                self.problems.add(self.at(name), what, "unknown_member")

    def _refuse(self, name: str, value: object, wanted: str, *, right_type: bool) -> None:
        kind = "invalid_value" if right_type else "wrong_type"
        self.problems.add(self.at(name), f"{describe(value)} is not {wanted}", kind)


class Extension(NamedTuple):
    """An extension as a document of format 3 states it."""

    name: str
    configuration: Members
    must_understand: bool


def read_extension(value: Any, what: str, loc: str, problems: Problems) -> Extension | None:
    """Return the name and configuration of an extension, or None and problems.

    Parameters
    ----------
    value : JSON
        ``{"name": …, "configuration": …, "must_understand": …}``, or the name alone.
    what : str
        The extension point, for messages: ``"codec"``.
    loc : str
        The JSON pointer of `value`.
    problems : Problems
        Where faults go.

    Examples
    --------
    >>> problems = Problems()
    >>> extension = read_extension({"name": "gzip"}, "codec", "/codecs/0", problems)
    >>> extension.name, extension.configuration.value, extension.must_understand
    ('gzip', {}, True)
    """
    bare = isinstance(value, str)
    if bare:
        value = {"name": value}
    if not isinstance(value, dict):
        problems.add(loc, f"{describe(value)} is not a {what}: an object or a name", "wrong_type")
        return None
    before = len(problems)
    members = Members(value, loc, problems)
    name = members.require("name")
    configuration = members.get("configuration", {})
    must_understand = members.get("must_understand", default=True)
    if not isinstance(must_understand, bool):
        what = f"{describe(must_understand)} is not true or false"
        problems.add(members.at("must_understand"), what, "wrong_type")
    members.done()
    if not isinstance(name, str) or not name:
        if name is not ABSENT:
            problems.add(members.at("name"), f"{describe(name)} is not a name", "wrong_type")
        return None
    if not isinstance(configuration, dict):
        at = members.at("configuration")
        problems.add(at, f"{describe(configuration)} is not an object", "wrong_type")
    if len(problems) > before:
        return None
    at = loc if bare else members.at("configuration")
    inner = Members(configuration, at, problems)
    return Extension(name, inner, must_understand is not False)


def read_text(value: Any, wanted: ScalarKind, loc: str, problems: Problems) -> Any:
    """Return the number or boolean that a text says, as a defect; any other value unchanged.

    Parameters
    ----------
    value : JSON
        The value.
    wanted : {"integer", "number", "boolean"}
        What it has to be.
    loc : str
        Its JSON pointer.
    problems : Problems
        Where the defect goes.

    Examples
    --------
    >>> problems = Problems()
    >>> [read_text(text, "number", "", problems) for text in ("4", "1.5", "x", 7)]
    [4, 1.5, 'x', 7]
    >>> read_text("NO", "boolean", "/checksum", problems), problems.defects[-1]
    (False, "/checksum: the text 'NO', taken for false")
    """
    if isinstance(value, str):
        from tessarr.format.text_values import parse_text

        found = parse_text(value.strip(), wanted)
        if found is not None:
            problems.tolerate(loc, f"the text {describe(value)}, taken for {describe(found)}")
            return found
    return value


def read_lengths(value: object, low: int, loc: str, problems: Problems) -> tuple[int, ...] | None:
    """Return a JSON list of integers of `low` to 2**63 - 1 as a tuple."""
    if not isinstance(value, list):
        problems.add(loc, f"{describe(value)} is not a list of integers", "wrong_type")
        return None
    good = True
    for position, item in enumerate(value):
        if is_integer(item) and low <= item <= INT64_MAX:
            continue
        good = False
        at = pointer(loc, position)
        if not is_integer(item):
            problems.add(at, f"{describe(item)} is not an integer", "wrong_type")
        elif item < low:
            problems.add(at, f"{describe(item)} is less than {low}")
        else:
            problems.add(at, f"{describe(item)} is more than 2**63 - 1", "too_large")
    return tuple(value) if good else None


def is_integer(value: object) -> TypeGuard[int]:
    """Tell whether a JSON value is an integer; true and 1.0 are not."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[float]:
    """Tell whether a JSON value is a number; true is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def pointer(loc: str, member: str | int) -> str:
    """Return the JSON pointer of a member or item of what is at `loc`.

    Examples
    --------
    >>> pointer("/attributes", "a/b")
    '/attributes/a~1b'
    """
    if isinstance(member, int):
        return f"{loc}/{member}"
    return f"{loc}/{member.replace('~', '~0').replace('/', '~1')}"


def describe(value: object) -> str:
    """Return a JSON value as it is written in messages: short, and safe to print.

    Examples
    --------
    >>> describe(None), describe(True), describe([1, 2]), describe("a")
    ('null', 'true', '[1, 2]', "'a'")
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return ascii(value if len(value) <= 60 else value[:57] + "...")
    if isinstance(value, list | tuple) and len(value) <= 8 and all(_is_flat(v) for v in value):
        return "[" + ", ".join(describe(item) for item in value) + "]"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)} items"
    if isinstance(value, dict):
        return f"an object with {len(value)} members"
    from tessarr._safe_repr import safe_repr

    return safe_repr(value)[:60]


def _is_flat(value: object) -> bool:
    return value is None or isinstance(value, bool | int | float | str)
