"""The errors of zarr-python that take the place of Tessarr's in the drop-in.

Each error is an instance of both libraries' classes, so that programs and Tessarr catch it.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from tessarr import errors as own_errors
from tessarr.errors import ExistsError, NotFoundError, TessarrError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

__all__ = ["raises_zarr_errors", "translate_errors"]

P = ParamSpec("P")
T = TypeVar("T")

_CLASSES: Final = {
    ("array_not_found", None): ("ArrayNotFoundError",),
    ("array_not_found", "group"): ("ContainsGroupError", "ArrayNotFoundError"),
    ("group_not_found", None): ("GroupNotFoundError",),
    ("group_not_found", "array"): ("ContainsArrayError", "GroupNotFoundError"),
    ("node_not_found", None): ("GroupNotFoundError",),
    ("node_exists", None): ("ContainsArrayError", "ContainsGroupError"),
    # A node exists that the store cannot delete.
    ("unsupported", "delete"): ("ContainsArrayError", "ContainsGroupError"),
}
"""The classes of `zarr.errors` for the kind of an error and its `node_kind` or `extension`."""


@contextmanager
def translate_errors() -> Generator[None]:
    """Raise errors of zarr-python for missing and existing nodes."""
    try:
        yield
    except (NotFoundError, ExistsError, UnsupportedError) as error:
        detail = getattr(error, "node_kind", getattr(error, "extension", None))
        names = _CLASSES.get((error.kind, detail))
        if names is None or isinstance(error, _TranslatedError):
            raise
        raise _combine_classes(type(error).__name__, names).adopt(error) from error


def raises_zarr_errors(function: Callable[P, T]) -> Callable[P, T]:
    """Translate the errors of a function: see `translate_errors`."""

    @wraps(function)
    def call(*arguments: P.args, **settings: P.kwargs) -> T:
        with translate_errors():
            return function(*arguments, **settings)

    return call


class _TranslatedError(TessarrError):
    """An error of both libraries."""

    @classmethod
    def adopt(cls, error: TessarrError) -> _TranslatedError:
        """Return the error with the fields of an error of Tessarr."""
        return cls(error.message, **{name: getattr(error, name) for name in error._fields})

    def __reduce__(self) -> tuple[Any, ...]:
        fields = {name: getattr(self, name) for name in self._fields}
        return _rebuild_error, (*self._origin, self.message, fields)

    _origin: tuple[str, tuple[str, ...]]


def _rebuild_error(
    own: str, names: tuple[str, ...], message: str, fields: dict[str, Any]
) -> _TranslatedError:
    return _combine_classes(own, names)(message, **fields)


@cache
def _combine_classes(own: str, names: tuple[str, ...]) -> type[_TranslatedError]:
    """Return a subclass of a class of `tessarr.errors` and of classes of ``zarr.errors``."""
    from zarr import errors

    own_class = getattr(own_errors, own)
    originals = [getattr(errors, name) for name in names]
    members = {"_origin": (own, names), "__module__": "zarr.errors", "__doc__": own_class.__doc__}
    cls: Any = type(names[0], (_TranslatedError, own_class, *originals), members)
    return cls  # type: ignore[no-any-return]
