"""The form of errors on the terminal."""

from __future__ import annotations

import sys

from harness.core.text import escape_text


def print_error(message: str, hint: str | None = None) -> None:
    """Print `error: ...` and `hint: ...` to standard error. Each exit code but 0 has such a line."""
    for label, text in (("error", message), ("hint", hint)):
        if text:
            print(format_block(label, text), file=sys.stderr)


def format_block(label: str, text: str) -> str:
    """Return `label: text` with aligned lines and visible terminal escape sequences."""
    return f"{label}: " + escape_text(text, multiline=True).replace("\n", "\n" + " " * (len(label) + 2))
