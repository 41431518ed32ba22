"""Fixture with a web server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stores import servers
from stores.servers import Proxy


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Proxy]:
    """Yield a server of the files in the temporary folder."""
    with servers.file_server(tmp_path) as proxy:
        yield proxy
