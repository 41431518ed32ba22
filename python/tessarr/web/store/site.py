"""The responses of ``tessarr serve``: values of a store, whole or in part.

=======================  =========================================================================
request                  response
=======================  =========================================================================
``GET key``              200, or 206 for one byte range; 404 if the key is absent
``HEAD key``             the headers of the whole value, which is not read
``GET folder/``          a page with the keys of the folder if listings are enabled, otherwise 404
another method           405
=======================  =========================================================================

Values of stores with versions have a strong ETag; If-Match, If-None-Match and If-Range compare it.
A value of several blocks is sent block by block. Errors of the store have the status 502. Their
bodies name only the kind of the error, because messages may contain paths and names of servers; the
server logs the message.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

from tessarr.errors import ArgumentError, StoreError, TessarrError
from tessarr.web.store.keys import parse_key
from tessarr.web.store.listing import format_listing
from tessarr.web.store.requests import ValueRequest
from tessarr.web.store.values import ValueSource

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.responses import Response

    from tessarr.store import Store
    from tessarr.web.application import Site
    from tessarr.web.store.values import OpenedValue

__all__ = ["build_store_site"]

_log: Final = logging.getLogger("tessarr.web")

_METHODS: Final = ("GET", "HEAD")
_JSON_NAMES: Final = frozenset({".zarray", ".zattrs", ".zgroup", ".zmetadata"})
_REQUEST_HEADERS: Final = ("Range", "If-Match", "If-None-Match", "If-Range", "Cache-Control")
_RESPONSE_HEADERS: Final = ("Accept-Ranges", "Content-Length", "Content-Range", "ETag")
_PREFLIGHT_AGE_S: Final = 3600
_PIECE_BYTES: Final = 256 << 10


def build_store_site(store: Store, *, listing: bool = False, origins: Iterable[str] = ()) -> Site:
    """Return the site of a store: an ASGI application.

    Parameters
    ----------
    store
        The store, which the site only reads.
    listing
        Whether paths that end in "/" have pages with their keys.
    origins
        The origins of the pages that may read responses (CORS); "*" means all.
    """
    from starlette.middleware.cors import CORSMiddleware

    site = _StoreSite(store, listing=listing)
    allowed = list(origins)
    if not allowed:
        return site
    return CORSMiddleware(
        site,
        allow_origins=allowed,
        allow_methods=_METHODS,
        allow_headers=_REQUEST_HEADERS,
        allow_private_network=True,
        expose_headers=_RESPONSE_HEADERS,
        max_age=_PREFLIGHT_AGE_S,
    )


class _StoreSite:
    def __init__(self, store: Store, *, listing: bool) -> None:
        self._store = store
        self._source = ValueSource(store)
        self._lists = listing

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        with self._source.count_response():
            answer = await self._answer(scope)
            if isinstance(answer, tuple):
                await self._send_value(*answer, receive, send)
            else:
                await answer(scope, receive, send)

    async def _answer(self, scope: Any) -> Response | tuple[str, ValueRequest, OpenedValue]:
        """Return a response without a value, or the key, the request and the open value."""
        if scope["method"] not in _METHODS:
            return _respond(405, "only GET and HEAD are allowed", allow=", ".join(_METHODS))
        try:
            key = parse_key(scope["raw_path"], scope["root_path"].count("/"))
            if not key or key.endswith("/"):
                return await self._list(key)
            headers = {
                name.decode("latin-1"): text.decode("latin-1") for name, text in scope["headers"]
            }
            request = ValueRequest.parse(scope["method"], headers)
            value = await self._source.open(key, request)
        except ArgumentError as error:
            return _respond(400, error.message)
        except Exception as error:  # noqa: BLE001 (a store of the user may raise any)
            return _respond_to_failure(error)
        if value is None:
            return _respond(404, "the key is absent")
        return key, request, value

    async def _list(self, prefix: str) -> Response:
        from starlette.responses import HTMLResponse

        if not self._lists:
            return _respond(404, "listings are disabled; see the option --listing")
        keys, folders = await self._source.run(self._store.list_dir, prefix)
        if prefix and not keys and not folders:
            return _respond(404, "the folder is absent")
        page = await self._source.run(format_listing, prefix, keys, folders)
        return HTMLResponse(page, headers={"Cache-Control": "no-cache"})

    async def _send_value(
        self, key: str, request: ValueRequest, value: OpenedValue, receive: Any, send: Any
    ) -> None:
        selection = value.selection
        headers = _build_headers(key, value)
        start = {"type": "http.response.start", "status": selection.status, "headers": headers}
        await send(start)
        block, position = value.first_block, selection.start
        stop = selection.stop if request.sends_body else selection.start
        disconnected = asyncio.ensure_future(_wait_for_disconnect(receive))
        try:
            while True:
                position += len(block)
                has_more = position < stop
                await _send_block(send, block, has_more=has_more)
                if not has_more or disconnected.done():
                    return
                block = await self._source.read(value, position)
        except Exception as error:  # noqa: BLE001 (a store of the user may raise any)
            # The server closes the connection, because the body is incomplete.
            _log.warning("the value of %r was sent in part: %s", key, error)
        finally:
            disconnected.cancel()


async def _send_block(send: Any, block: bytes, *, has_more: bool) -> None:
    """Send a block in pieces, because the server copies what a slow client does not receive."""
    for start in range(0, max(len(block), 1), _PIECE_BYTES):
        end = start + _PIECE_BYTES
        body = {"body": block[start:end], "more_body": has_more or end < len(block)}
        await send({"type": "http.response.body", **body})


async def _wait_for_disconnect(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _build_headers(key: str, value: OpenedValue) -> list[tuple[bytes, bytes]]:
    size, selection = value.reader.size, value.selection
    headers = {"accept-ranges": "bytes", "cache-control": "no-cache"}
    if value.tag is not None:
        headers["etag"] = value.tag
    if selection.status in {200, 206}:
        name = key.rpartition("/")[2]
        is_json = name.endswith(".json") or name in _JSON_NAMES
        headers["content-type"] = "application/json" if is_json else "application/octet-stream"
    if selection.status == 206:
        headers["content-range"] = f"bytes {selection.start}-{selection.stop - 1}/{size}"
    elif selection.status == 416:
        headers["content-range"] = f"bytes */{size}"
    if selection.status != 304:
        headers["content-length"] = str(selection.stop - selection.start)
    return [(name.encode(), text.encode()) for name, text in headers.items()]


def _respond(status: int, reason: str, **headers: str) -> Response:
    from starlette.responses import PlainTextResponse

    return PlainTextResponse(f"{reason}\n", status, {**headers, "Cache-Control": "no-store"})


def _respond_to_failure(error: Exception) -> Response:
    _log.warning("a request failed: %s: %s", type(error).__name__, error)
    if isinstance(error, StoreError):
        return _respond(502, f"the store failed: {error.kind}")
    kind = error.kind if isinstance(error, TessarrError) else type(error).__name__
    return _respond(500, f"the request failed: {kind}")
