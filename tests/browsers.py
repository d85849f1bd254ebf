"""The browser of the system, in which tests open pages."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

# Opens an address in the page that tests share, and gives the list of its faults.
Open = Callable[..., AbstractContextManager[list[str]]]
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_browser = pytest.mark.skipif(BROWSER is None, reason="needs a browser: apt-get install chromium")
