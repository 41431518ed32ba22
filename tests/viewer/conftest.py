"""A browser and pages of the viewer; tests are skipped without Playwright and Chromium."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import tessarr
from viewer import example_stores

Open: TypeAlias = Callable[..., Any]

_FLAGS = [
    "--use-gl=swiftshader",
    "--enable-unsafe-swiftshader",
    "--no-sandbox",
    "--host-resolver-rules=MAP lab.test 127.0.0.1",
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests of this folder: they start a browser."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Yield a headless browser.

    Playwright keeps an event loop running in the thread of the tests, in which tests of other
    modules could not start one.
    """
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("Chromium is not installed")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=_FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return a function that creates an example store, or returns it if it exists."""
    folder = tmp_path_factory.mktemp("stores")
    paths: dict[Any, Path] = {}

    def create(name: str, *arguments: Any, **settings: Any) -> Path:
        key = (name, arguments, *settings.items())
        if key not in paths:
            below = folder / str(len(paths))
            below.mkdir()
            paths[key] = getattr(example_stores, f"create_{name}")(below, *arguments, **settings)
        return paths[key]

    return create


class ViewerPage:
    """A page of the viewer and the responses that it has received."""

    def __init__(self, page: Any, url: str) -> None:
        self.page = page
        self.url = url
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.received_bytes = 0
        page.set_default_timeout(60_000)  # for machines under load
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("response", self._note)

    def _note(self, response: Any) -> None:
        if "/api/" in response.url:
            self.requests.append(response.url.partition("/api/")[2])
            length = response.headers.get("content-length", "0")
            self.received_bytes += int(length)

    def open(self, address: str = "/") -> Any:
        """Go to an address of the page and return the Playwright page."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.url}#{address}")
        return self.page

    def press(self, slider: str, *keys: str) -> None:
        """Press keys on the slider of a dimension."""
        for key in keys:
            self.page.get_by_role("slider", name=slider, exact=True).press(key)

    def wait_for_slice(self, text: str) -> None:
        """Wait until the values of a slice are visible."""
        self.page.locator(f'[data-slice="{text}"]').wait_for()

    def wait_for_frames(self) -> None:
        """Wait for ten frames: pictures are drawn in the first ones after a change of the page."""
        self.page.evaluate(
            "() => new Promise(resolve => { let count = 10; const next = () =>"
            " count-- ? requestAnimationFrame(next) : resolve(null); next() })"
        )

    def wait_for_position(self, slider: str, text: str) -> None:
        """Wait until the label of a slider contains a text."""
        self.page.get_by_test_id(f"position-{slider}").filter(has_text=text).wait_for()

    def read_cells(self, count: int) -> list[str]:
        """Return the text of the first cells of the table, once they have arrived."""
        cells = self.page.get_by_role("gridcell")
        cells.nth(count - 1).wait_for()
        self.page.wait_for_function(
            "count => [...document.querySelectorAll('[role=gridcell]')].slice(0, count)"
            ".every(cell => cell.textContent !== '…')",
            arg=count,
        )
        return cells.all_text_contents()[:count]

    def zoom_to_full_resolution(self) -> None:
        """Turn the wheel over the picture until the page requests a tile without a step."""
        box = self.page.locator("canvas").bounding_box()
        self.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        for _ in range(200):
            if any("%3A1&" in request for request in self.requests):
                return
            self.page.mouse.wheel(0, -500)
            self.page.wait_for_timeout(50)
        raise AssertionError(self.requests)

    def hover(self, x: float, y: float) -> tuple[str, str]:
        """Move the pointer to a fraction of the picture; return the tooltip's position and value.

        One call of the page returns both, so that they belong to the same element.
        """
        box = self.page.locator("canvas").bounding_box()
        self.page.mouse.move(box["x"] + x * box["width"] - 3, box["y"] + y * box["height"])
        self.page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"])
        texts = self.page.wait_for_function(
            "() => { const [position, value] = ['position', 'exact-value'].map(name =>"
            " document.querySelector(`[data-testid=${name}]`));"
            " return position && value && value.textContent !== '…' &&"
            " [position.textContent, value.textContent] }"
        )
        position, value = texts.json_value()
        return position, value


@pytest.fixture
def view(browser: Any) -> Iterator[Callable[[Path], ViewerPage]]:
    """Return a function that serves a store and opens a page; the page must raise no errors."""
    from tessarr.web.server import Server
    from tessarr.web.viewer.site import build_viewer

    server = Server(names=["lab.test"])
    server.start()
    pages: list[ViewerPage] = []
    context = browser.new_context(viewport={"width": 1280, "height": 800})

    def open_page(path: Path) -> ViewerPage:
        url = server.add(build_viewer(tessarr.open(path, "r")))
        pages.append(ViewerPage(context.new_page(), url))
        return pages[-1]

    yield open_page
    context.close()
    server.stop()
    assert [error for page in pages for error in page.errors] == []
