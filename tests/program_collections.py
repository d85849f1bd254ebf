"""The collections of unusual programs, each a text file, for the tests of several forms of tests.

A case is a title behind "###", a program, "---", and its tests: statements, or lines of JSON arguments, "->",
and the JSON result of the function `solve`. A program that reads stdin has its input, "->", and its output.
"""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).with_name("integration") / "programs"


def cases(name: str) -> dict[str, tuple[str, str]]:
    """Return program and tests of each case by its title."""
    found = {}
    for text in (FOLDER / name).read_text(encoding="utf-8").split("### ")[1:]:
        title, _, rest = text.partition("\n")
        program, tests = rest.split("\n---\n")
        assert title not in found, f"two cases are called {title}"
        found[title] = (f"{program}\n", tests.strip())
    return found
