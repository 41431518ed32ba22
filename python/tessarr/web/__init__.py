"""Hierarchies over HTTP: an application with secret addresses, a server, and its sites.

- `application`: an ASGI application that dispatches requests to *sites* by the token in the
  address, and checks the headers Host and Origin. A site is any ASGI application.
- `server`: binds a port and runs an application with uvicorn, in the foreground or in a thread.
- `viewer`: the site of ``tessarr view``.
- `store`: the site of ``tessarr serve``.

The package needs starlette and uvicorn: the extra ``view``. Modules import both when they need
them, so that ``import tessarr.web`` works without them.
"""
