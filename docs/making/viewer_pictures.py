"""Draw the pictures of the viewer: pages with example stores, in headless Chromium."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from playwright.sync_api import sync_playwright

import tessarr
from tessarr.web.server import Server
from tessarr.web.viewer.site import build_viewer

ROOT = Path(__file__).parents[2]
TARGET = ROOT / "docs" / "pictures"
SIZE = {"width": 1100, "height": 680}
FLAGS = ["--use-gl=swiftshader", "--enable-unsafe-swiftshader", "--no-sandbox"]


def main() -> None:
    """Write all pictures."""
    sys.path.insert(0, str(ROOT / "tests"))
    from viewer import example_stores as stores

    server = Server()
    server.start()
    with TemporaryDirectory() as name, sync_playwright() as driver:
        folder = Path(name)
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)

        def draw(picture: str, store: Path, address: str, wheel: int = 0) -> None:
            page = browser.new_page(viewport=SIZE)
            url = server.add(build_viewer(tessarr.open(store, "r")))
            page.goto(f"{url}#{address}")
            page.wait_for_load_state("networkidle")
            _zoom(page, wheel)
            page.wait_for_timeout(2000)
            page.screenshot(path=TARGET / f"viewer-{picture}.png")
            page.close()

        draw(
            "map", stores.create_climate(folder, zarr_format=3), "/t2m?slice=40,y,x&colors=Inferno"
        )
        draw("image", stores.create_image(folder, "0.5"), "/?slice=1,4,y,x&colors=Magma", wheel=12)
        draw("table", stores.create_tables(folder), "/stars")
        draw("broken", stores.create_broken(folder), "/")
        browser.close()
    server.stop()


def _zoom(page: Any, wheel: int) -> None:
    """Turn the wheel over the middle of the picture."""
    if wheel:
        box = page.locator("canvas").bounding_box()
        page.mouse.move(box["x"] + box["width"] * 0.45, box["y"] + box["height"] * 0.4)
        for _ in range(wheel):
            page.mouse.wheel(0, -500)
            page.wait_for_timeout(100)


if __name__ == "__main__":
    main()
