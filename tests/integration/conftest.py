"""Fixtures of the integration tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from browsers import BROWSER

PATIENCE_MILLISECONDS = 60_000

if TYPE_CHECKING:
    from playwright.sync_api import Browser


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
