"""Chromium for the tests of the page, and a service without a warehouse for it to show."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from arctic_runtime.service.http.server import HttpServer
from arctic_runtime.service.http_settings import HttpSettings
from tests.service.fake import FakeService, overviews
from tests.service.shown import Shown

LONGEST = 30_000
"""Milliseconds to wait for what is to come; a machine that is busy may take more than Playwright's own 5 s."""

expect.set_options(timeout=LONGEST)
NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for all tests of a module; it ends with it, since it keeps an event loop in this thread."""
    browser = next(filter(None, map(shutil.which, NAMES)), None)
    if browser is None:
        missing = "The page is tested in Chromium, which is not installed: make browser"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def shop() -> Iterator[tuple[FakeService, str]]:
    """A small warehouse and where it is served."""
    fake = FakeService(overviews(40, hostile=True))
    with HttpServer(fake, HttpSettings(port=0)) as server:
        yield fake, server.url


@pytest.fixture
def fake(shop: tuple[FakeService, str]) -> FakeService:
    shop[0].reset()
    return shop[0]


@pytest.fixture
def show(browser: Browser) -> Iterator[Callable[..., Shown]]:
    """Opens a page in a context of its own; a test fails where the page itself reports an error."""
    with ExitStack() as stack:
        opened: list[Shown] = []

        def shown(url: str, **context: Any) -> Shown:
            made = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **context})
            stack.callback(made.close)
            page: Page = made.new_page()
            page.set_default_timeout(LONGEST)
            opened.append(result := Shown(page, url))
            return result

        yield shown
        for result in opened:
            assert result.errors == []
            assert result.foreign == []


@pytest.fixture
def page(show: Callable[..., Shown], fake: FakeService, shop: tuple[FakeService, str]) -> Shown:
    return show(shop[1])
