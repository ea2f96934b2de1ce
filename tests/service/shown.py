"""The page in a browser, and what it does that it should not."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import axe_playwright_python
from playwright.sync_api import ConsoleMessage, Locator, Page, Request

AXE = Path(axe_playwright_python.__file__).parent / "axe.min.js"
_HARMLESS = ("Failed to load resource",)
"""What the browser itself writes of an answer that is an error, as 401 is."""


class Shown:
    """A page; `errors` are what its scripts and the policy of content report, `foreign` requests to anywhere else."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.errors: list[str] = []
        self.foreign: list[str] = []
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", self._on_request)
        page.on("dialog", lambda dialog: self.errors.append(f"dialog {dialog.message}"))

    def open(self, view: str = "") -> Page:
        """Goes to a view and waits until it is connected."""
        self.page.goto(f"{self.url}/#/{view}")
        self.page.get_by_text("connected", exact=True).wait_for()
        return self.page

    def card(self, name: str) -> Locator:
        """A table in the graph, by its name without schema."""
        return self.page.locator(f".card[href$='.{name}']")

    def broken_rules(self) -> list[str]:
        """The rules of accessibility that what is shown now breaks, with the elements that do."""
        self.page.evaluate(_axe())
        evaluate: dict[str, Any] = self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        return [
            f"{violation['id']}: {[node['target'] for node in violation['nodes']][:3]}"
            for violation in evaluate["violations"]
        ]

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not message.text.startswith(_HARMLESS):
            self.errors.append(message.text)

    def _on_request(self, request: Request) -> None:
        if not request.url.startswith((f"{self.url}/", "data:")):
            self.foreign.append(request.url)


@cache
def _axe() -> str:
    return AXE.read_text()
