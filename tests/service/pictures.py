"""Pictures of the page for its documentation.

`python -m tests.service.pictures` writes all into docs/images, and with names only these.
"""

from __future__ import annotations

import random
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

from arctic_runtime.service.http.server import HttpServer
from arctic_runtime.service.http_settings import HttpSettings
from tests.service.fake import FakeService, overviews

FOLDER = Path(__file__).parents[2] / "docs" / "images"
WIDE = {"viewport": {"width": 1200, "height": 700}}
TALL = {"viewport": {"width": 1200, "height": 1180}}
PHONE = {"viewport": {"width": 390, "height": 760}}
SHORT = {"viewport": {"width": 1000, "height": 520}}

PICTURES: Mapping[str, tuple[int, str, str, dict[str, Any]]] = {
    "page-layers": (16, "", "light", SHORT),
    "page-graph": (40, "", "light", WIDE),
    "page-table": (40, "table/lake.ods.ods_crews", "light", TALL),
    "page-jobs": (40, "jobs", "light", WIDE),
    "page-diff-dark": (40, "diff", "dark", WIDE),
    "page-tables-dark": (1000, "tables", "dark", WIDE),
    "page-all": (1000, "", "light", WIDE),
    "page-service-dark": (40, "service", "dark", WIDE),
    "page-phone": (40, "", "light", PHONE),
}
"""Name → how many tables, which view, colours and size."""


def main() -> None:
    """Writes those that are named, or all."""
    names = sys.argv[1:] or list(PICTURES)
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name in names:
            tables, view, scheme, size = PICTURES[name]
            fake = FakeService(overviews(tables, seed=11))
            with HttpServer(fake, HttpSettings(port=0)) as server:
                page = browser.new_page(color_scheme=scheme, reduced_motion="reduce", locale="en-GB", **size)
                page.goto(f"{server.url}/#/{view}")
                page.get_by_text("connected", exact=True).wait_for()
                _prepare(name, page, fake)
                page.screenshot(path=FOLDER / f"{name}.png")
                page.close()
                print(name, flush=True)
        browser.close()


def _prepare(name: str, page: Page, fake: FakeService) -> None:
    chance = random.Random(3)
    for _ in range(12):
        fake.move(chance, 12)
        page.wait_for_timeout(150)
    if name == "page-table":
        page.get_by_role("button", name="Compare the two").click()
        page.locator("table.diff").wait_for()
        page.locator("article").evaluate("article => article.scrollTo(0, 0)")
    if name == "page-diff-dark":
        page.get_by_label("Other schema").fill("prod")
        page.get_by_role("button", name="Compare").click()
        page.get_by_role("region", name="Compared tables").get_by_role("button").first.click()
        page.get_by_role("button", name="delay 31").click()
        page.locator("section.page").evaluate("section => section.scrollTo(0, section.scrollHeight)")
    if name == "page-all":
        page.get_by_role("button", name="Show all tables").click()
        page.mouse.move(5, 400)
    page.wait_for_timeout(1200)


if __name__ == "__main__":
    main()
