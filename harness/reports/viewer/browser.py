"""Open the viewer in the browser of the user, without showing the token to other users of the machine."""

from __future__ import annotations

import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={url}">
<title>harness view</title>
</head>
<body><p><a href="{url}">Open the viewer</a></p></body>
</html>
"""


@contextmanager
def write_redirect(url: str) -> Iterator[Path]:
    """Yield a page that leads to a URL. Only the user can read it, and the end of the block removes it.

    A browser gets the address of a page as an argument, and all users of a machine can read the arguments of
    all programs. So the browser gets the address of this file, as Jupyter does it.
    """
    # The folder has the mode 0700 and a random name.
    with TemporaryDirectory(prefix="harness-view-") as folder:
        path = Path(folder) / "open.html"
        path.touch(mode=0o600)
        path.write_text(_PAGE.format(url=escape(url)))
        yield path


def open_page(page: Path) -> bool:
    """Open a file in the browser, and return whether there is a browser."""
    return webbrowser.open(page.as_uri())
