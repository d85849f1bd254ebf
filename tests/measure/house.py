"""Measure the size and the shape of `harness/`: lines, files, rooms, floors and chains of imports.

The attacks of the audit count apart, because each is a file that nobody reads beside another.
"""

from __future__ import annotations

import ast
import graphlib
import tomllib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

SMALL_LINES = 60
_ATTACKS = "attacks"


@dataclass(frozen=True)
class Size:
    """The size of a tree of Python files."""

    lines: int
    files: int
    small_files: int
    long_functions: int


@dataclass(frozen=True)
class Shape:
    """How the modules of a package depend on each other."""

    rooms: int
    floors: int
    longest_chain: int
    modules_in_cycles: int


def list_files(root: Path, *, only: Iterable[str] = ("*",)) -> list[Path]:
    """Return the Python files of a tree that match a pattern, in order and without attacks."""
    paths = [(path.relative_to(root), path) for path in sorted(root.rglob("*.py"))]
    return [
        path
        for name, path in paths
        if _ATTACKS not in name.parts and any(fnmatchcase(str(name), pattern) for pattern in only)
    ]


def measure_size(root: Path, *, only: Iterable[str] = ("*",)) -> Size:
    """Return the size of the files of a tree that match a pattern, without attacks.

    A function of more than 60 lines is long.
    """
    texts = [path.read_text() for path in list_files(root, only=only)]
    lines = [text.count("\n") for text in texts]
    functions = [
        (node.end_lineno or node.lineno) - node.lineno + 1
        for text in texts
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return Size(
        lines=sum(lines),
        files=len(texts),
        small_files=sum(number < SMALL_LINES for number in lines),
        long_functions=sum(number > 60 for number in functions),
    )


def measure_shape(package: Path, pyproject: Path) -> Shape:
    """Return the shape of a package. Imports within functions count, those for type checkers do not."""
    imports = read_imports(package)
    groups = _find_cycles(imports)
    group_of = {name: number for number, group in enumerate(groups) for name in group}
    graph = {
        number: {group_of[target] for name in group for target in imports[name]} - {number}
        for number, group in enumerate(groups)
    }
    depth: dict[int, int] = {}
    for number in graphlib.TopologicalSorter(graph).static_order():
        depth[number] = 1 + max((depth[target] for target in graph[number]), default=0)
    contracts = tomllib.loads(pyproject.read_text())["tool"]["importlinter"]["contracts"]
    floors = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    rooms = [path for path in package.iterdir() if path.is_dir() and any(path.rglob("*.py"))]
    return Shape(
        rooms=len(rooms),
        floors=len(floors),
        longest_chain=max(depth.values()),
        modules_in_cycles=sum(len(group) for group in groups if len(group) > 1),
    )


def read_imports(package: Path) -> dict[str, set[str]]:
    """Return the modules of the package that each module imports."""
    paths = {_name_module(path, package): path for path in list_files(package)}
    imports: dict[str, set[str]] = {}
    for name, path in paths.items():
        base = name if path.name == "__init__.py" else name.rpartition(".")[0]
        found = {_find_module(target, paths) for target in _list_targets(ast.parse(path.read_text()), base)}
        imports[name] = {target for target in found if target is not None} - {name}
    return imports


def list_faults(package: Path) -> list[str]:
    """Return a line for each circle of imports, and for each name that is imported through another module."""
    imports = read_imports(package)
    circles = [" and ".join(sorted(group)) for group in _find_cycles(imports) if len(group) > 1]
    return [f"{circle} import each other" for circle in circles] + list(_list_detours(package, imports))


def count_files_with(package: Path, word: str) -> int:
    """Return how many files of a tree name a word, such as the key of a setting."""
    return sum(word in path.read_text() for path in list_files(package))


def _list_detours(package: Path, modules: Collection[str]) -> Iterator[str]:
    trees = {_name_module(path, package): ast.parse(path.read_text()) for path in list_files(package)}
    taken = {
        (name, alias.asname or alias.name): module
        for name, tree in trees.items()
        for module, alias in _list_names(tree.body, package.name)
    }
    for name, tree in trees.items():
        for module, alias in _list_names(ast.walk(tree), package.name):
            origin = taken.get((module, alias.name))
            if origin is not None and f"{module}.{alias.name}" not in modules:
                yield f"{name} imports {alias.name} from {module}, which has it from {origin}"


def _list_names(nodes: Iterable[ast.AST], package: str) -> Iterator[tuple[str, ast.alias]]:
    """Yield each name that a module takes from another one of the package, after the name of that one."""
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith(f"{package}."):
            yield from ((str(node.module), alias) for alias in node.names)


def _name_module(path: Path, package: Path) -> str:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _list_targets(tree: ast.Module, base: str) -> Iterator[str]:
    for_checkers = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in for_checkers:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = base.split(".")
            start = ".".join(parents[: len(parents) - node.level + 1]) if node.level else ""
            module = ".".join(part for part in (start, node.module or "") if part)
            yield from (f"{module}.{alias.name}" for alias in node.names)


def _find_module(target: str, modules: dict[str, Path]) -> str | None:
    """Return the module that an import names, or the one that has the imported name."""
    while target and target not in modules:
        target = target.rpartition(".")[0]
    return target or None


def _find_cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Return the strongly connected parts of a graph.

    Source: the path-based algorithm of Gabow (Information Processing Letters 74, 2000).
    """
    order: dict[str, int] = {}
    done: set[str] = set()
    path: list[str] = []
    borders: list[str] = []
    groups: list[list[str]] = []

    def visit(name: str) -> None:
        order[name] = len(order)
        path.append(name)
        borders.append(name)
        for target in sorted(graph[name]):
            if target not in order:
                visit(target)
            elif target not in done:
                while order[borders[-1]] > order[target]:
                    borders.pop()
        if borders[-1] == name:
            borders.pop()
            start = path.index(name)
            groups.append(path[start:])
            done.update(path[start:])
            del path[start:]

    for name in sorted(graph):
        if name not in order:
            visit(name)
    return groups
