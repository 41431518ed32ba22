"""Validation of metadata documents: all problems, each with its JSON path.

Readers do not stop at the first fault. Every reader gets a `Problems`, adds problems to it, and
returns ``None`` for a value that it cannot read. `Problems.check` raises all problems at once.
Faults of known writers that have only one sensible reading are *defects*, which become one
warning.
"""

from __future__ import annotations

import json
import math
import re
from enum import Enum
from numbers import Integral
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, TypeGuard

from tessarr.errors import ArgumentError, MetadataError, Problem, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping


__all__ = [
    "ABSENT",
    "INT64_MAX",
    "Absent",
    "Extension",
    "Members",
    "Problems",
    "ScalarKind",
    "check_zarr_format",
    "describe",
    "is_integer",
    "is_number",
    "parse_text",
    "pointer",
    "read_extension",
    "read_lengths",
    "read_text",
]

INT64_MAX: Final = 2**63 - 1
_MAX_SHOWN: Final = 20
"""The number of faults in a message; the error contains all of them."""


class Absent(Enum):
    """The type of `ABSENT`, which stands for a member that a document lacks."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT

Required: TypeAlias = Literal[Absent.ABSENT]

ScalarKind: TypeAlias = Literal["integer", "number", "boolean"]
"""The type of a scalar member or parameter."""


def check_zarr_format(zarr_format: Any) -> None:
    """Raise an error unless the format is 2 or 3.

    Raises
    ------
    ArgumentError
        If it is another value.
    """
    if not isinstance(zarr_format, Integral) or zarr_format not in (2, 3):
        raise ArgumentError(f"zarr_format {zarr_format!r} is not 2 or 3", kind="invalid_argument")


class Problems:
    """The faults of one document, in order.

    Parameters
    ----------
    strict : bool
        Whether defects are faults, as for user input.
    defects : iterable of str
        Defects of the document that the JSON parser found.

    Examples
    --------
    >>> problems = Problems()
    >>> problems.add("/shape/0", "-1 is negative", "invalid_value")
    >>> len(problems), str(problems.found[0])
    (1, '/shape/0: -1 is negative')
    """

    __slots__ = ("_extensions", "_strict", "defects", "found")

    def __init__(self, *, strict: bool = False, defects: Iterable[str] = ()) -> None:
        self._strict = strict
        self.found: list[Problem] = []
        self.defects = list(defects)
        self._extensions: list[str] = []

    def __len__(self) -> int:
        return len(self.found)

    def add(self, loc: str, message: str, kind: str = "invalid_value") -> None:
        """Add a fault at the JSON pointer `loc`."""
        self.found.append(Problem(loc, message, kind))

    def unsupported(self, loc: str, what: str, name: str, *, kind: str, hint: str = "") -> None:
        """Add a fault for the unsupported extension `name`.

        `hint` ends the message; by default it names the package with the extension, if known.
        """
        from tessarr.format import hints

        hint = hint or hints.extension_hint(name)
        self.found.append(Problem(loc, f"{what} {name[:60]!r} is not supported{hint}", kind))
        self._extensions.append(name)

    def add_translated(self, others: Problems, locations: Mapping[str, str]) -> None:
        """Add the faults of a translation of this document.

        Parameters
        ----------
        others
            The faults of the translated document.
        locations
            JSON pointers of this document by those of the translated document.
        """
        for problem in others.found:
            start = next((place for place in locations if problem.loc.startswith(place)), "")
            loc = locations.get(start, "") + problem.loc[len(start) :]
            self.found.append(Problem(loc, problem.message, problem.kind))
        self.defects += others.defects
        self._extensions += others._extensions

    def tolerate(self, loc: str, defect: str) -> None:
        """Add a defect, which has only one sensible reading."""
        if self._strict:
            self.add(loc, defect)
            return
        self.defects.append(f"{loc}: {defect}" if loc else defect)

    def check(self, what: str, *, path: str | None = None, key: str | None = None) -> None:
        """Raise all faults as one error, or warn about the defects.

        Parameters
        ----------
        what : str
            The document's name in the message: ``"metadata 'foo/zarr.json'"``.
        path, key : str, optional
            Fields of the error.

        Raises
        ------
        MetadataError
            If there is a fault.
        UnsupportedError
            If all faults are unsupported extensions.
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
        """Raise the faults of a caller's arguments as one error.

        Parameters
        ----------
        what
            The action of the caller, for the message: ``"create an array"``.
        error
            The class of the error.

        Raises
        ------
        ArgumentError
            If there is a fault.
        UnsupportedError
            If all faults are unsupported extensions.
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

    def join_messages(self, separator: str) -> str:
        """Return the first faults as text, with the number of the remaining ones."""
        shown = [str(problem) for problem in self.found[:_MAX_SHOWN]]
        more = len(self.found) - len(shown)
        return separator.join([*shown, f"and {more} more"] if more else shown)


class Members:
    """The members of one JSON object, read one by one.

    If a member is invalid, every reading method adds a fault and returns ``None``. `done` adds
    a fault for each member that no method has read.

    Parameters
    ----------
    value : mapping
        The JSON object.
    loc : str
        Its JSON pointer.
    problems : Problems
        Collects the faults.
    ignores_unknown : bool
        Whether unknown members are a defect and not a fault.

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
        """Return the unchecked member, or `default`."""
        self._read_names.add(name)
        return self.value.get(name, default)

    def is_read(self, name: str) -> bool:
        """Tell whether a method has read the member."""
        return name in self._read_names

    def require(self, name: str) -> Any:
        """Return the unchecked member; if it is absent, add a fault and return `ABSENT`."""
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

    def _read_scalar(self, name: str, expected: ScalarKind, default: object) -> Any:
        """Return a member; text with a number or boolean is converted."""
        value = self.require(name) if default is ABSENT else self.get(name)
        return read_text(value, expected, self.at(name), self.problems)

    def choice(
        self, name: str, choices: Collection[str | None], default: str | Required | None = ABSENT
    ) -> str | None:
        """Return one of the strings `choices`."""
        value = self.require(name) if default is ABSENT else self.get(name)
        if value is ABSENT:
            return None if isinstance(default, Absent) else default
        if (value is None or isinstance(value, str)) and value in choices:
            return value
        expected = "one of " + ", ".join(repr(choice) for choice in choices)
        self._refuse(name, value, expected, right_type=isinstance(value, str))
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
        """Return lengths of a chunk like `read_lengths`; true means 1, which zarr-python stored."""
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
        """Add a fault for each member that no method has read."""
        for name in self.value:
            if name in self._read_names:
                continue
            message = f"unknown member {describe(name)}"
            if self._ignores_unknown:
                self.problems.tolerate(self.at(name), f"{message}, ignored")
            else:
                self.problems.add(self.at(name), message, "unknown_member")

    def _refuse(self, name: str, value: object, expected: str, *, right_type: bool) -> None:
        kind = "invalid_value" if right_type else "wrong_type"
        self.problems.add(self.at(name), f"{describe(value)} is not {expected}", kind)


class Extension(NamedTuple):
    """An extension in a document of format 3."""

    name: str
    configuration: Members
    must_understand: bool


def read_extension(value: Any, what: str, loc: str, problems: Problems) -> Extension | None:
    """Return the name and configuration of an extension; if invalid, add problems, return None.

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
        item_loc = members.at("configuration")
        problems.add(item_loc, f"{describe(configuration)} is not an object", "wrong_type")
    if len(problems) > before:
        return None
    item_loc = loc if bare else members.at("configuration")
    inner = Members(configuration, item_loc, problems)
    return Extension(name, inner, must_understand is not False)


def read_text(value: Any, expected: ScalarKind, loc: str, problems: Problems) -> Any:
    """Convert text with a number or boolean, as a defect; return other values unchanged.

    Parameters
    ----------
    value : JSON
        The value.
    expected : {"integer", "number", "boolean"}
        The expected type.
    loc : str
        Its JSON pointer.
    problems : Problems
        Collects the defect.

    Examples
    --------
    >>> problems = Problems()
    >>> [read_text(text, "number", "", problems) for text in ("4", "1.5", "x", 7)]
    [4, 1.5, 'x', 7]
    >>> read_text("NO", "boolean", "/checksum", problems), problems.defects[-1]
    (False, "/checksum: the text 'NO', taken for false")
    """
    if isinstance(value, str):
        parsed = parse_text(value.strip(), expected)
        if parsed is not None:
            problems.tolerate(loc, f"the text {describe(value)}, taken for {describe(parsed)}")
            return parsed
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
        item_loc = pointer(loc, position)
        if not is_integer(item):
            problems.add(item_loc, f"{describe(item)} is not an integer", "wrong_type")
        elif item < low:
            problems.add(item_loc, f"{describe(item)} is less than {low}")
        else:
            problems.add(item_loc, f"{describe(item)} is more than 2**63 - 1", "too_large")
    return tuple(value) if good else None


def is_integer(value: object) -> TypeGuard[int]:
    """Tell whether a JSON value is an integer; true and 1.0 are not."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[float]:
    """Tell whether a JSON value is a number; true is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def pointer(loc: str, member: str | int) -> str:
    """Return the JSON pointer of a member or item of the value at `loc`.

    Examples
    --------
    >>> pointer("/attributes", "a/b")
    '/attributes/a~1b'
    """
    if isinstance(member, int):
        return f"{loc}/{member}"
    return f"{loc}/{member.replace('~', '~0').replace('/', '~1')}"


def describe(value: object) -> str:
    """Return a short text of a JSON value for messages, which is safe to print.

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


_INTEGER: Final = re.compile(r"-?[0-9]{1,40}")
_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]{0,39})(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,4})?")
_BOOLEANS: Final = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}


def parse_text(text: str, kind: ScalarKind) -> bool | float | None:
    """Return the number or boolean of a text, or None.

    Examples
    --------
    >>> parse_text("4", "integer"), parse_text("1.5", "number"), parse_text("NO", "boolean")
    (4, 1.5, False)
    >>> parse_text("1.5", "integer") is None
    True
    """
    if kind == "boolean":
        return _BOOLEANS.get(text.lower())
    pattern = _INTEGER if kind == "integer" else _NUMBER
    if pattern.fullmatch(text) is None:
        return None
    number: float = int(text) if kind == "integer" else json.loads(text)
    return number if math.isfinite(number) else None
