"""Find what the tests of a task folder may run, import, call and compare."""

from __future__ import annotations

import ast
import contextlib
import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.core.inputs.files import read_input
from harness.environments.container.task_folder import (
    SOLUTION,
    STEPS,
    TESTS,
    TaskFolder,
    list_included_files,
)
from harness.environments.os.root_sandbox import FileEntry

# Files of these kinds are programs, or objects that are code when they are loaded.
SUFFIXES = (
    *("py", "ipynb", "sh", "bash", "js", "cjs", "mjs", "ts", "rb", "pl", "php", "lua", "R", "jl", "gp"),
    *("awk", "c", "cc", "cpp", "go", "rs", "java", "mk", "sql", "yaml", "yml", "pkl", "pickle"),
    *("joblib", "pt"),
)
MOST, MAX_TEXT_BYTES = 60, 1 << 20
_PATH = re.compile(r"(?<![\w.~$}/-])(?:/[\w.+@-]+)+")
_PROGRAM = re.compile(
    rf"(?<![\w/.-])(?:[\w+-]+/)*(?:[\w+-][\w.+-]*\.(?:{'|'.join(SUFFIXES)})|Makefile)(?!\w)"
)
_COMMAND = re.compile(r"(?:^|[|;&(]|\bthen\b|\bdo\b)\s*([a-z][\w.+-]*)", re.MULTILINE)
_PINNED = re.compile(r"\b[A-Za-z][\w-]*==\w[\w.]*")
_REQUIRED = re.compile(r"""(?:\brequire\(|\bfrom )["']((?:@[\w-]+/)?[A-Za-z][\w-]*)["']""")
# Nothing of an agent is ever there, or a trap of its own replaces it.
_NOT_WORK = re.compile(r"/(?:tests|logs|solution|proc|sys|dev|bin|sbin|lib\w*|usr|etc|opt/harness)(?:/|$)")
# Data, which no program runs.
_DATA = re.compile(r"\.(?:\w{1,5})$")
_ANSWERS = ("expected", "answer", "golden", "reference", "solution", "truth")


@dataclass(frozen=True, slots=True)
class Targets:
    """The facts that a forging agent knows about a task."""

    # The files of an agent that the tests may run, import or load: absolute, or from the working folder on.
    programs: tuple[str, ...] = ()
    # The modules of others that the tests import, and the commands that their scripts call.
    imports: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    # The packages of Python that the scripts install in one version, and the modules of Node in the tests.
    pinned: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    # Files that an agent hands in, and files of the tests that may hold what is expected there.
    links: tuple[tuple[str, str], ...] = ()


def list_programs(entries: Iterable[FileEntry]) -> list[str]:
    """Return the programs among the files that a reference has changed, and serialised objects."""
    return [
        each.path
        for each in entries
        if each.kind == "file"
        and each.path.isprintable()
        and not _NOT_WORK.match(each.path)
        and (each.mode & 0o111 or _suffix(each.path) in SUFFIXES)
        and "__pycache__" not in each.path
    ][:MOST]


def find_targets(folder: TaskFolder, changed: Sequence[str] = ()) -> Targets:
    """Return what a forging agent aims at. `changed` are programs that the reference has written."""
    within = ["", *(f"{STEPS}/{step.name}/" for step in folder.steps)]
    tests = _read_texts(folder, [f"{part}{TESTS}" for part in within])
    solutions = _read_texts(folder, [f"{part}{SOLUTION}" for part in within])
    instructions = (step.instruction for step in folder.steps)
    texts = [folder.instruction, *instructions, *tests.values(), *solutions.values()]
    whole = "\n".join(texts)
    paths = [path.rstrip(".-:") for path in _PATH.findall(whole) if not _NOT_WORK.match(path)]
    own = {posixpath.basename(name) for name in tests}
    above = {parent for path in paths for parent in _list_parents(path)}
    programs = [
        path for path in paths if path not in above and (_suffix(path) in SUFFIXES or not _DATA.search(path))
    ]
    programs += [name for name in _PROGRAM.findall(whole) if posixpath.basename(name) not in own]
    scripts = "\n".join(text for name, text in tests.items() if name.endswith(".sh"))
    # A module that the task asks for is not one of the image's.
    asked = {posixpath.splitext(posixpath.basename(path))[0] for path in (*changed, *programs)}
    imports = {name for text in tests.values() for name in _list_imports(text)} - asked
    return Targets(
        programs=tuple(dict.fromkeys((*changed, *programs)))[:MOST],
        imports=tuple(sorted(imports))[:MOST],
        commands=tuple(dict.fromkeys(_COMMAND.findall(scripts)))[:MOST],
        pinned=tuple(dict.fromkeys(_PINNED.findall(scripts)))[:MOST],
        required=tuple(dict.fromkeys(_REQUIRED.findall("\n".join(tests.values()))))[:MOST],
        links=tuple(_list_links(paths, list_included_files(folder.path, TESTS)))[:MOST],
    )


def _read_texts(folder: TaskFolder, parts: Iterable[str]) -> dict[str, str]:
    """Return the texts in parts of a task folder, by their paths from the folder on."""
    texts: dict[str, str] = {}
    for part in parts:
        for name in list_included_files(folder.path, part):
            path = Path(folder.path, part, name)
            if path.is_file() and path.stat().st_size <= MAX_TEXT_BYTES:
                with contextlib.suppress(UnicodeDecodeError):
                    texts[f"{part}/{name}"] = read_input(path).decode()
    return texts


def _list_parents(path: str) -> Iterator[str]:
    while (path := posixpath.dirname(path)) != "/":
        yield path


def _suffix(path: str) -> str:
    return posixpath.splitext(path)[1][1:]


def _list_imports(text: str) -> Iterator[str]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name.partition(".")[0] for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def _list_links(paths: Iterable[str], names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield files that an agent may hand in, and files of the tests that may hold the same."""
    for path in dict.fromkeys(paths):
        if not _DATA.search(path):
            continue
        same = [name for name in names if posixpath.basename(name) == posixpath.basename(path)]
        like = [name for name in names if _suffix(name) == _suffix(path) and any(a in name for a in _ANSWERS)]
        if same or like:
            yield path, f"/{TESTS}/{(same or like)[0]}"
