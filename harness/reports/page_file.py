"""The page of the viewer and of the report: one file, with its data in it or behind a server."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import Any

_FILES = Path(__file__).with_name("page")
# The scripts in their order. They share one scope.
_SCRIPTS = (
    *("data", "dom", "code", "transcript", "attempts", "attempt"),
    *("run", "runs", "compare", "audit", "view"),
)


def read_style() -> str:
    """Return the style sheet."""
    return (_FILES / "page.css").read_text(encoding="utf-8")


def hash_source(source: str) -> str:
    """Return the source of a policy that allows only this text as a style sheet or a script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"


@lru_cache(maxsize=1)
def _read_parts() -> tuple[str, str, str]:
    scripts = "\n".join((_FILES / f"{name}.js").read_text(encoding="utf-8") for name in _SCRIPTS)
    script = f'"use strict";\n(() => {{\n{scripts}}})();\n'
    return (_FILES / "page.html").read_text(encoding="utf-8"), read_style(), script


def describe_policy(*, is_served: bool) -> str:
    """Return a policy that allows only our style sheet and script, as a second defence behind text nodes."""
    _, style, script = _read_parts()
    served = "connect-src 'self'; " if is_served else ""
    return (
        f"default-src 'none'; style-src {hash_source(style)}; script-src {hash_source(script)}; {served}"
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def generate_page(*, title: str, without_script: str, data: Iterable[str] = ()) -> Iterator[str]:
    """Yield the parts of the page.

    Args:
        title: the title until the script sets another.
        without_script: the text for a browser without scripts.
        data: the parts of the JSON that the page shows, made with `encode`. Without them it asks a server.
    """
    template, style, script = _read_parts()
    parts = [*data] if not isinstance(data, Iterator) else data
    is_served = data == ()
    head, _, rest = template.partition("{data}")
    values = {
        "policy": describe_policy(is_served=is_served),
        "title": escape(title),
        "style": style,
        "without_script": escape(without_script),
    }
    for name, value in values.items():
        head = head.replace(f"{{{name}}}", value, 1)
    yield head
    yield from parts
    yield rest.replace("{script}", script, 1)


def encode(value: Any) -> str:
    """Return a value as JSON that a script element may hold."""
    # In ASCII, because half a surrogate pair in an id has no encoding in UTF-8.
    return json.dumps(value, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
