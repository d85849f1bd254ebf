"""The imports of the guest, because an image has only the kernel and one environment's half."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
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


def imported_modules(file: Path) -> Iterator[str]:
    package = ".".join(file.relative_to(ROOT).parent.parts)
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level <= 1
            yield ".".join(filter(None, (package if node.level else None, node.module)))


def strangers(folder: Path, *packages: str, libraries: set[str] | None = None) -> set[str]:
    """Return the modules that the files of a folder import, without these packages and libraries."""
    known = set(sys.stdlib_module_names) | (libraries or set())
    return {
        name
        for file in folder.glob("*.py")
        for name in imported_modules(file)
        if name.split(".")[0] not in known
        and not any(name == package or name.startswith(f"{package}.") for package in packages)
    }


def test_the_kernel_imports_the_standard_library_and_itself() -> None:
    assert strangers(ROOT / "harness/sandbox/guest", KERNEL) == set()


@each_case("folder", HALVES, ids=lambda folder: folder.parent.name)
def test_an_environments_half_imports_the_kernel_and_itself(folder: Path) -> None:
    own = ".".join(folder.relative_to(ROOT).parts)
    assert strangers(folder, KERNEL, own, libraries=LIBRARIES.get(folder.parent.name)) == set()


@each_case("folder", HALVES, ids=lambda folder: folder.parent.name)
def test_messages_are_imported_for_type_checks_only(folder: Path) -> None:
    for file in [*folder.glob("*.py"), *(ROOT / "harness/sandbox/guest").glob("*.py")]:
        tree = ast.parse(file.read_text(encoding="utf-8"))
        if file.name != "messages.py":
            at_start = [node.module for node in tree.body if isinstance(node, ast.ImportFrom)]
            assert not any(name and name.endswith("messages") for name in at_start), file
