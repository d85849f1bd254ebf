"""The imports of the guest, because an image has only the kernel and one environment's half."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from case_checks import each_case

ROOT = Path(__file__).parents[2]
KERNEL = "harness.sandbox.guest"
HALVES = sorted(ROOT.glob("harness/environments/*/guest"))
# The libraries of an image by its environment.
LIBRARIES = {
    "python": {"numpy"},
    "db": {"sqlglot"},
    "maths": {"sympy", "math_verify", "latex2sympy2_extended"},
}


@cache
def read_tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def imported_modules(file: Path) -> Iterator[str]:
    package = ".".join(file.relative_to(ROOT).parent.parts)
    for node in ast.walk(read_tree(file)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level <= 1
            yield ".".join(filter(None, (package if node.level else None, node.module)))


@each_case("folder", [ROOT / "harness/sandbox/guest", *HALVES])
def test_a_part_of_the_guest_imports_the_standard_library_the_kernel_and_itself(folder: Path) -> None:
    known = set(sys.stdlib_module_names) | LIBRARIES.get(folder.parent.name, set())
    packages = (KERNEL, ".".join(folder.relative_to(ROOT).parts))
    assert [
        name
        for file in folder.glob("*.py")
        for name in imported_modules(file)
        if name.split(".")[0] not in known and not f"{name}.".startswith(tuple(f"{own}." for own in packages))
    ] == []


def test_messages_are_imported_for_type_checks_only() -> None:
    files = [file for folder in [ROOT / "harness/sandbox/guest", *HALVES] for file in folder.glob("*.py")]
    at_start = [
        (file, node.module)
        for file in files
        if file.name != "messages.py"
        for node in read_tree(file).body
        if isinstance(node, ast.ImportFrom)
    ]
    assert len(files) > 50
    assert [file for file, name in at_start if name and name.endswith("messages")] == []
