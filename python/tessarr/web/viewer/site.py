"""The routes of the viewer.

=====================================  =======================================================
path                                   response
=====================================  =======================================================
``/``, ``/viewer.js``, ``/viewer.css``  the page
``/api/node?path=``                    JSON: the description of a node and its members
``/api/coordinates?path=``             JSON: positions and labels of each axis of an array
``/api/values?path=&selection=``       raw little-endian numbers, see `values`
``/api/text?path=&selection=``         JSON: elements as text
=====================================  =======================================================

``/api/values`` also takes ``reduction`` (stride, mean, bounds), ``part`` (abs, real, imag, phase),
``field`` and ``levels`` (1: read coarser levels of an image where the step allows it). Its headers
``Tessarr-Dtype`` and ``Tessarr-Shape`` describe the body.

An error has the JSON members ``error`` (the kind of the `TessarrError`) and ``message``, and one of
these statuses:

======  ==========================================================================================
status  cause
======  ==========================================================================================
400     a parameter of the request is invalid
404     there is no such node
413     the selection needs too much memory
422     the elements are not numbers, or the node is damaged or not supported
502     the store failed
500     a bug
======  ==========================================================================================

Only GET and HEAD are allowed, and no request changes the store.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_args

from tessarr.errors import (
    ArgumentError,
    DataError,
    MetadataError,
    NotFoundError,
    OutOfMemoryError,
    SelectionError,
    StoreError,
    TessarrError,
    TooLargeError,
    UnsupportedError,
)
from tessarr.web.viewer.hierarchy import Hierarchy
from tessarr.web.viewer.values import (
    Part,
    Reduction,
    parse_selection,
    read_level,
    read_numbers,
    read_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

    from tessarr.array import Array
    from tessarr.group import Group
    from tessarr.types import JSONObject

__all__ = ["STATIC_FOLDER", "build_viewer"]

STATIC_FOLDER: Final = Path(__file__).parent / "static"

_HEADERS: Final = {
    "Cache-Control": "no-store",
    # The package ndarray of the page compiles its loops at run time: unsafe-eval.
    "Content-Security-Policy": "default-src 'self'; script-src 'self' 'unsafe-eval'; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; object-src 'none'; "
    "base-uri 'none'; form-action 'none'",
}

_STATUSES: Final = (
    (NotFoundError, 404),
    (TooLargeError | OutOfMemoryError, 413),
    (ArgumentError | SelectionError, 400),
    (UnsupportedError | MetadataError | DataError, 422),
    (StoreError, 502),
)
"""The status of each class of errors; the first match counts."""

Choice = TypeVar("Choice")


def build_viewer(root: Array | Group) -> Starlette:
    """Return the site that shows a hierarchy: an ASGI application.

    Parameters
    ----------
    root
        The group or the array at the top. No request reads nodes outside of it, except for labels
        of axes.
    """
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse
    from starlette.responses import Response as RawResponse
    from starlette.routing import Mount, Route
    from starlette.staticfiles import StaticFiles

    hierarchy = Hierarchy(root)

    def respond_json(function: Callable[[Request], Any]) -> Callable[[Request], Response]:
        return _catch_errors(lambda request: JSONResponse(function(request), headers=_HEADERS))

    def values(request: Request) -> Response:
        numbers = _read_values(hierarchy, request)
        headers = {
            **_HEADERS,
            "Tessarr-Dtype": numbers.dtype.str,
            "Tessarr-Shape": ",".join(map(str, numbers.shape)),
        }
        media_type = "application/octet-stream"
        return RawResponse(numbers.tobytes(), media_type=media_type, headers=headers)

    routes = [
        Route("/api/node", respond_json(lambda request: hierarchy.describe(_path(request)))),
        Route(
            "/api/coordinates",
            respond_json(lambda request: hierarchy.read_coordinates(_path(request))),
        ),
        Route("/api/text", respond_json(lambda request: _read_text(hierarchy, request))),
        Route("/api/values", _catch_errors(values)),
        Mount("/", _with_headers(StaticFiles(directory=STATIC_FOLDER, html=True))),
    ]
    return Starlette(routes=routes)


def _path(request: Request) -> str:
    return request.query_params.get("path", "").strip("/")


def _choose(request: Request, name: str, choices: Any, default: Choice) -> Choice:
    value: Any = request.query_params.get(name, default)
    if value not in get_args(choices):
        raise ArgumentError(f"{name} must be one of {get_args(choices)}, not {value!r}")
    choice: Choice = value
    return choice


def _read_values(hierarchy: Hierarchy, request: Request) -> Any:
    array = hierarchy.open_array(_path(request))
    settings: JSONObject = {
        "reduction": _choose(request, "reduction", Reduction, "stride"),
        "part": _choose(request, "part", Part, "abs"),
        "field": request.query_params.get("field"),
    }
    selection = parse_selection(request.query_params.get("selection", ""), array.shape)
    if request.query_params.get("levels") == "1":
        _, levels = hierarchy.find_levels(_path(request), array)
        return read_level(levels, selection, **settings)
    return read_numbers(array, selection, **settings)


def _read_text(hierarchy: Hierarchy, request: Request) -> JSONObject:
    array = hierarchy.open_array(_path(request))
    selection = parse_selection(request.query_params.get("selection", ""), array.shape)
    return read_text(array, selection)


def _catch_errors(endpoint: Callable[[Request], Response]) -> Callable[[Request], Response]:
    """Return an endpoint that answers errors with JSON; Starlette runs it in a thread."""

    def respond(request: Request) -> Response:
        from starlette.responses import JSONResponse

        try:
            return endpoint(request)
        except Exception as error:  # noqa: BLE001 (a store or a codec of the user may raise any)
            kind = error.kind if isinstance(error, TessarrError) else type(error).__name__
            body = {"error": kind, "message": str(error)}
            return JSONResponse(body, _status(error), headers=_HEADERS)

    return respond


def _status(error: Exception) -> int:
    matches = (status for kind, status in _STATUSES if isinstance(error, kind))
    return next(matches, 500)


def _with_headers(application: Any) -> Any:
    """Return an ASGI application whose responses have the headers of the viewer."""
    extra = [(name.lower().encode(), value.encode()) for name, value in _HEADERS.items()]

    async def respond(scope: Any, receive: Any, send: Any) -> None:
        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *extra]}
            await send(message)

        await application(scope, receive, send_with_headers)

    return respond
