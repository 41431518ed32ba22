"""The tree of exceptions: builtin bases, messages, fields, pickling."""

from __future__ import annotations

import errno
import pickle

import pytest

from tessarr import errors
from tessarr.errors import KINDS, Problem, TessarrError

CLASSES = {
    "NotFoundError": (FileNotFoundError, KeyError, ValueError),
    "ExistsError": (FileExistsError, KeyError, ValueError),
    "MetadataError": (ValueError,),
    "UnsupportedError": (NotImplementedError,),
    "SelectionError": (IndexError,),
    "ArgumentError": (ValueError,),
    "AxisError": (ValueError, IndexError),
    "CastError": (ValueError, TypeError),
    "NotJSONError": (ValueError, TypeError),
    "TooLargeError": (ValueError, OverflowError),
    "DataError": (ValueError,),
    "OutOfMemoryError": (MemoryError, ValueError),
    "StoreError": (OSError,),
    "AccessError": (errors.StoreError, OSError, PermissionError, ValueError),
    "ConflictError": (OSError, ValueError),
    "ReadOnlyError": (PermissionError, ValueError),
    "InternalError": (RuntimeError,),
}


@pytest.mark.parametrize("name", CLASSES)
def test_error_derives_from_builtin_exceptions(name):
    cls = getattr(errors, name)
    for base in (TessarrError, *CLASSES[name]):
        with pytest.raises(base):
            raise cls("it failed")


@pytest.mark.parametrize("name", ["TessarrError", *CLASSES])
def test_str_of_error_is_whole_unquoted_message(name):
    error = getattr(errors, name)("cannot open 'a': it's gone", path="a")
    assert str(error) == "cannot open 'a': it's gone"
    assert error.args == ("cannot open 'a': it's gone",)


@pytest.mark.parametrize("name", ["TessarrError", *CLASSES])
def test_every_default_kind_is_in_kinds(name):
    assert getattr(errors, name)("x").kind in KINDS


@pytest.mark.parametrize("name", ["TessarrError", *CLASSES])
def test_fields_and_notes_survive_pickling(name):
    fields = {"path": "a", "key": "a/c/0", "chunk": [0, 1], "codec": "zstd", "kind": "bad_data"}
    special = {
        "MetadataError": {"problems": (Problem("/shape", "missing", "missing_member"),)},
        "UnsupportedError": {"extension": "bfloat16"},
        "StoreError": {"retryable": True, "errno": 5},
    }.get(name, {})
    error = getattr(errors, name)("it failed", **fields, **special)
    error.add_note("because")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == "it failed"
    assert again.__notes__ == ["because"]
    assert again.chunk == (0, 1)
    for field, value in {**fields, "chunk": (0, 1), **special}.items():
        assert getattr(again, field) == value


def test_errno_is_set():
    assert errors.NotFoundError("x").errno == errno.ENOENT
    assert errors.ExistsError("x").errno == errno.EEXIST
    assert errors.ReadOnlyError("x").errno == errno.EACCES
    assert errors.StoreError("x").errno is None


def test_all_error_classes_are_exported():
    classes = {name: c for name, c in vars(errors).items() if isinstance(c, type)}
    result = {name for name, c in classes.items() if issubclass(c, TessarrError)}
    assert result == {"TessarrError", *CLASSES}
    assert result <= set(errors.__all__)
