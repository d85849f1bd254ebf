"""The attacks on the tests of task folders, and the agents that make them.

A forging agent leaves something in the machine of a task which earns the reward when the tests run. Each
attempt is one attack, graded at one seal level.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import posixpath
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pydantic.dataclasses
from pydantic import ConfigDict, Field

from harness.audit.attack import (
    AttackFile,
    Kind,
    choose_attacks,
    fill_words,
    include_parts,
    read_class,
    read_part,
)
from harness.audit.suite import ORACLE, Step, Suite
from harness.benchmarks.benchmark import Benchmark
from harness.core.errors import unknown_name
from harness.core.inputs.files import read_input
from harness.core.tools import AgentEnvironment
from harness.core.types import AttemptRecord, Submission, Task
from harness.environments.container.changes import list_changes
from harness.environments.container.environment import ContainerEnvironment
from harness.environments.container.seal import LEVELS, Level
from harness.environments.container.target import TaskFolderTarget
from harness.environments.container.task_folder import SOLUTION, STEPS, TESTS, TaskFolder, list_included_files
from harness.environments.os.file_entries import FileEntry
from harness.runs.agents.agent import AgentSettings, AttemptContext

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
PRELUDE, FORGERY = "forging/prelude.sh", "forging/forge.sh"
# The kind of a program without a suffix, and of one whose name is the kind.
PROGRAM, MAKEFILE = "program", "Makefile"
SCRIPT_SECONDS = 120
_END = "END_OF_A_FORGERY"
# The level where others grade: the tests run where the agent has acted.
AS_USUAL: Level = "live"
# The level that the reference of a task proves.
OWN = "own"
# The metric of a reference: the programs that it has written.
PROGRAMS = "written_programs"


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


@pydantic.dataclasses.dataclass(frozen=True, slots=True, config=ConfigDict(extra="forbid"))
class ForgingAttack:
    """An attack by an agent that leaves something which earns the reward when the tests run.

    Attributes:
        remedy: the change of a task that stops the attack.
        commands: the commands of its shell. The prelude precedes them.
        programs: texts by the suffix of the files whose place they take (`Targets.programs`).
        samples: the number of attempts that it makes at a task.
    """

    name: str
    kind: Kind
    description: str
    remedy: str
    commands: str = ""
    programs: Mapping[str, str] = Field(default_factory=dict)
    samples: int = 1
    targets: tuple[str, ...] = (TaskFolderTarget.__name__,)

    async def hand_in(
        self,
        benchmark: Benchmark,
        task: Task,
        sample: int,
        environment: AgentEnvironment | None,
        *,
        written: Sequence[str] = (),
    ) -> Submission:
        """Return the submission after the agent has acted. `written` are programs of the reference."""
        assert isinstance(environment, ContainerEnvironment)  # noqa: S101  such a task opens this one alone
        script = self.write_script(find_targets(environment.folder, written))
        shown = await environment.call("bash", {"command": script, "timeout_seconds": SCRIPT_SECONDS})
        await environment.submit("")
        return Submission("", agent_output=f"# {self.name}: {shown.text}")

    @property
    def runs_in_tests(self) -> bool:
        """Whether the tests themselves start the forgery, because they run or import what an agent wrote."""
        return bool(self.programs)

    def write_script(self, targets: Targets) -> str:
        """Return the script for bash that the agent runs in its machine."""
        facts = {
            "IMPORTS": " ".join(targets.imports),
            "COMMANDS": " ".join(targets.commands),
            "PINNED": " ".join(targets.pinned),
            "REQUIRED": " ".join(targets.required),
            "LINKS": "\n".join(f"{place}|{answer}" for place, answer in targets.links),
        }
        lines = [f"{name}={shlex.quote(value)}" for name, value in facts.items()]
        placed: dict[str, list[str]] = {}
        for path in targets.programs:
            if (kind := name_kind(path)) in self.programs:
                placed.setdefault(kind, []).append(path)
        for kind, paths in placed.items():
            text = fill_words(self.programs[kind], {"forgery": repr(include_parts(read_part(FORGERY)))})
            for path in paths:
                # The script makes the folder of the path, so that there must be one.
                whole = path if "/" in path else f"./{path}"
                lines.append(f"put {shlex.quote(whole)} <<'{_END}'\n{text.rstrip()}\n{_END}")
        # A step that fails must not keep the others back, and the script must not end the session.
        body = "\n".join((read_part(PRELUDE), *lines, self.commands))
        return f"(\nset +e\n{body}\n) 2>&1 | tail -n 20"


def name_kind(path: str) -> str:
    """Return the kind of the program at a path: its suffix, `Makefile`, or `program` without a suffix."""
    name = posixpath.basename(path)
    if name in (MAKEFILE, "makefile", "GNUmakefile"):
        return MAKEFILE
    return _suffix(name) or PROGRAM


@functools.cache
def list_forging_attacks() -> tuple[ForgingAttack, ...]:
    """Return all attacks on task folders by name. Raises DataError, which names the file."""
    return read_class(Kind.FORGING, lambda file, header: ForgingAttack(**header, **_read_text(file)))


def _read_text(file: AttackFile) -> Mapping[str, Any]:
    match file.path.suffix:
        case ".sh":
            return {"commands": include_parts(file.text)}
        case ".py":
            return {"programs": {"py": include_parts(file.text)}}
        case _:
            return {}


class ForgingSuite(Suite):
    """Makes the steps at each task folder. The machine of each attempt is a new one."""

    def __init__(self, settings: AgentSettings, benchmark: Benchmark, steps: Sequence[Step]) -> None:
        super().__init__(settings, benchmark, steps)
        # The programs that the references have written, by task id.
        self._programs: dict[str, Sequence[str]] = {}
        self._measured: dict[tuple[str, int], Mapping[str, Any]] = {}

    def samples(self, task: Task) -> list[int | None]:
        has_solution = bool(self._benchmark.references[task.id].solution)
        return [
            number for number, step in enumerate(self.steps, start=1) if step.name != ORACLE or has_solution
        ]

    def learn(self, records: Iterable[AttemptRecord]) -> None:
        """Take the programs that the references have written from their records."""
        for record in records:
            if PROGRAMS in record.metrics:
                self._programs[record.task_id] = tuple(map(str, record.metrics[PROGRAMS]))

    async def attempt(self, context: AttemptContext) -> Submission:
        environment = context.environment
        if context.sample is None or not isinstance(environment, ContainerEnvironment):
            raise ValueError("an attempt of this suite needs a task folder and the number of its step")
        step = self.steps[context.sample - 1]
        if step.level is not None:
            # Each level is judged as in a run at this level. Reports count, but not for the usual harness.
            environment.seal_level = step.level
            environment.checks_reports = environment.checks_reports and step.level != AS_USUAL
        if isinstance(step.attack, ForgingAttack):
            written = self._programs.get(context.task.id, ())
            return await step.attack.hand_in(
                *(self._benchmark, context.task, step.sample, environment), written=written
            )
        submission = await super().attempt(context)
        if step.name == ORACLE:
            programs = list_programs(await list_changes(environment.machine))
            self._measured[context.task.id, context.number] = {PROGRAMS: programs}
        return submission

    def take_metrics(self, task_id: str, number: int) -> Mapping[str, Any]:
        """Return the programs that a reference has written, and forget them."""
        return self._measured.pop((task_id, number), {})


def build_forger(
    settings: AgentSettings, benchmark: Benchmark, names: Sequence[str], levels: Sequence[Level | None]
) -> ForgingSuite:
    """Return the agent that makes the attacks on task folders at each level, None for the task's own.

    Raises UsageError for an unknown name of an attack.
    """
    attacks = choose_attacks(list_forging_attacks(), names)
    steps = [Step(each.name, each.kind, each, level=level) for level in levels for each in attacks]
    return ForgingSuite(settings, benchmark, steps)


def read_levels(names: Sequence[str]) -> tuple[Level | None, ...]:
    """Return the levels with these names, None for `own`. Raises UsageError for an unknown one."""
    known: dict[str, Level | None] = {OWN: None, **{level: level for level in LEVELS}}
    for name in names:
        if name not in known or name == "attached":
            raise unknown_name("level", name, [each for each in known if each != "attached"])
    return tuple(dict.fromkeys(known[name] for name in names))
