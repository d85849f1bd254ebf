"""Fixtures of the integration tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import pytest
from browsers import BROWSER, Open

PATIENCE_MILLISECONDS = 60_000

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    # Imported here, because most tests open no page.
    from playwright.sync_api import expect, sync_playwright

    # A busy machine must not fail a test.
    expect.set_options(timeout=PATIENCE_MILLISECONDS)

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def page(browser: Browser) -> Page:
    """Return the page of all tests of a module, because a new one takes a second of processor time."""
    return browser.new_context().new_page()


@pytest.fixture(scope="module")
def open_page(page: Page) -> Open:
    """Return a function that opens an address in the shared page.

    Its context manager gives the errors of the page, and its requests to other places than `allowed`.
    """

    @contextmanager
    def open_address(
        address: str, allowed: tuple[str, ...], *, width: int = 1400, scheme: str = "light"
    ) -> Iterator[list[str]]:
        faults: list[str] = []
        listeners: dict[str, Callable[[Any], None]] = {
            "console": lambda message: faults.append(message.text),
            "pageerror": lambda error: faults.append(str(error)),
            "request": lambda request: (
                None if request.url.startswith(allowed) else faults.append(request.url)
            ),
        }
        page.context.clear_cookies()
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        for event, listener in listeners.items():
            page.on(cast(Any, event), listener)
        try:
            page.goto(address)
            yield faults
        finally:
            for event, listener in listeners.items():
                page.remove_listener(event, listener)
            page.goto("about:blank")

    return open_address
