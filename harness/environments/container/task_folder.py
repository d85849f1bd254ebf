"""Read a task folder: task.toml, the instruction, and which files belong to the tests and the solution."""

from __future__ import annotations

import difflib
import hashlib
import os
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from pathspec import GitIgnoreSpec
from pydantic import ValidationError

from harness.core.errors import DataError, UsageError
from harness.core.inputs.files import MAX_DATA_BYTES, hash_file, read_input
from harness.core.invalid_values import describe_requirement
from harness.environments.container.task_toml import StepTable, TaskToml

TASK_TOML, INSTRUCTION, IGNORE = "task.toml", "instruction.md", ".harborignore"
TESTS, SOLUTION, ENVIRONMENT, STEPS, WORKDIR = "tests", "solution", "environment", "steps", "workdir"
TEST_SCRIPT, SOLVE_SCRIPT, COMPOSE, DOCKERFILE = "test.sh", "solve.sh", "docker-compose.yaml", "Dockerfile"

# The limit of an agent whose task sets none.
MAX_SECONDS = 24 * 3600.0
_CANARY = re.compile(r"(<!--.*canary.*-->|#.*canary.*)", re.IGNORECASE)
_TEMPLATE = re.compile(r"\$\{([^}:]+)(?::-(.*))?\}", re.DOTALL)
_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]")
_KEY = re.compile(r"""\s*([\w\-."']+)\s*=""")
# The folders whose files `.harborignore` selects, and the files that the digest leaves out by default.
_IGNORING = GitIgnoreSpec.from_lines(("/tests/", "/solution/", "/steps/*/tests/", "/steps/*/solution/"))
_LEFT_OUT = ("__pycache__/", "*.pyc", ".DS_Store", "*.swp", "*.swo", "*~")


@dataclass(frozen=True, slots=True)
class TaskStep:
    """A step of a task. Its folder may have tests/, solution/ and workdir/."""

    folder: str
    table: StepTable
    instruction: str
    has_tests: bool
    has_solution: bool
    has_workdir: bool

    @property
    def name(self) -> str:
        """The name of the step, which its folder has too."""
        return self.table.name


@dataclass(frozen=True, slots=True)
class TaskFolder:
    """A task folder as plain data. The bytes of its files stay in the folder."""

    # The absolute path.
    path: str
    # `org/name` of task.toml, or the name of the folder.
    name: str
    # `sha256:` and the digest of the paths and the bytes of its files, as a dataset.toml names it.
    digest: str
    # Empty for a task with steps, because each step has its own.
    instruction: str
    toml: TaskToml
    # Whether there are a tests/test.sh, a solution/solve.sh, an environment/Dockerfile.
    has_tests: bool
    has_solution: bool
    has_dockerfile: bool
    # The path of a compose file of the task or of its verifier, from the folder on.
    compose: str | None
    steps: tuple[TaskStep, ...] = ()
    # Notes for the user: unknown keys.
    warnings: tuple[str, ...] = ()
    # The folders of the tests, from the task folder on. Files of a later one replace an earlier one's.
    tests: tuple[str, ...] = (TESTS,)
    solution: str = SOLUTION

    @property
    def verifier_build(self) -> str | None:
        """The folder of tests with the Dockerfile of a separate verifier, None if there is none."""
        found = (part for part in reversed(self.tests) if Path(self.path, part, DOCKERFILE).is_file())
        return next(found, None)

    @property
    def has_reference(self) -> bool:
        """Whether the oracle can play the task, with every step of it."""
        return self.has_solution or (bool(self.steps) and all(step.has_solution for step in self.steps))

    def views(self) -> list[TaskFolder]:
        """Return a view of the task for each of its steps, or the task alone if it has no steps."""
        return [self.at_step(number) for number in range(len(self.steps))] or [self]

    def at_step(self, number: int) -> TaskFolder:
        """Return the task as it is at one of its steps, from 0: the step's own tables, tests and solution.

        A value that the step does not set is the task's. The instruction has all steps so far, because their
        work is judged with the step's.
        """
        step, toml = self.steps[number], self.toml
        part = f"{STEPS}/{step.name}"
        own, shared = step.table.verifier, toml.verifier
        verifier = {
            **{name: getattr(own, name) for name in own.model_fields_set},
            "env": {**shared.env, **own.env},
            "collect": (*shared.collect, *own.collect),
            "environment_mode": toml.verifier_mode(step.table),
            "environment": own.environment or shared.environment,
        }
        if verifier["environment_mode"] == "shared":
            verifier["environment"] = None
        agent = {name: value for name, value in dict(step.table.agent).items() if value is not None}
        tables = {
            "agent": toml.agent.model_copy(update=agent),
            "verifier": shared.model_copy(update=verifier),
            "artifacts": (*toml.artifacts, *step.table.artifacts),
            "steps": (),
        }
        return replace(
            self,
            instruction="\n\n".join(each.instruction for each in self.steps[: number + 1]),
            toml=toml.model_copy(update=tables),
            has_tests=self.has_tests or step.has_tests,
            has_solution=self.has_solution or step.has_solution,
            tests=(TESTS, f"{part}/{TESTS}"),
            solution=f"{part}/{SOLUTION}" if step.has_solution else SOLUTION,
            steps=(),
        )


def is_task_folder(path: Path) -> bool:
    """Return whether a path is a folder with a task.toml."""
    return (path / TASK_TOML).is_file()


def read_task_folder(path: str | os.PathLike[str]) -> TaskFolder:
    """Return a task folder, read and checked.

    Raises DataError, with the file and the line if there is one, for a folder that is broken or not a task,
    that has a link out of the folder, and that needs Windows, a GPU or TPU, or a later schema.
    """
    root = Path(os.path.realpath(os.path.expanduser(path)))
    if not is_task_folder(root):
        raise DataError(
            f"holds no {TASK_TOML}", path=root, hint="name the folder of a task, or of several tasks"
        )
    _refuse_leaving_links(root)
    toml, warnings = read_task_toml(root / TASK_TOML)
    rules = IgnoreRules(root)
    compose = next(
        (f"{part}/{COMPOSE}" for part in (ENVIRONMENT, TESTS) if (root / part / COMPOSE).is_file()), None
    )
    folder = TaskFolder(
        path=str(root),
        name=toml.task.name if toml.task is not None else root.name,
        digest=_digest(root, rules),
        instruction="" if toml.steps else _read_instruction(root / INSTRUCTION),
        toml=toml,
        has_tests=_has_script(root, TESTS, TEST_SCRIPT, rules),
        has_solution=_has_script(root, SOLUTION, SOLVE_SCRIPT, rules),
        has_dockerfile=(root / ENVIRONMENT / DOCKERFILE).is_file(),
        compose=compose,
        steps=tuple(_read_step(root, step, rules) for step in toml.steps),
        warnings=tuple(warnings),
    )
    _require_whole(root, folder)
    return folder


def list_included_files(folder: str | os.PathLike[str], part: str) -> list[str]:
    """Return the sorted paths of all files, folders and links in a part of a task folder, from there on.

    Args:
        folder: the path of the task folder.
        part: `tests`, `solution`, `environment`, or `steps/NAME/tests` and its like. `.harborignore` counts.
    """
    root = Path(os.path.realpath(folder))
    return [str(path.relative_to(root / part)) for path in _walk(root / part, IgnoreRules(root))]


def resolve_env(
    values: Mapping[str, str],
    pass_env: Collection[str],
    *,
    place: str,
    environment: Mapping[str, str] = os.environ,
) -> dict[str, str]:
    """Return variables with their templates `${VAR}` and `${VAR:-default}` replaced.

    A value is a template as a whole or not at all. A variable that `pass_env` does not name counts as unset.
    Raises UsageError for an unset variable without a default. `place` is the table that the error names.
    """
    found = {}
    for name, value in values.items():
        template = _TEMPLATE.fullmatch(value)
        if template is None:
            found[name] = value
            continue
        variable, default = template.groups()
        given = environment.get(variable) if variable in pass_env else None
        if given is None and default is None:
            listed = variable in pass_env
            raise UsageError(
                f"{place}: {name} needs the variable {variable}, "
                + ("which is not set" if listed else "which the run does not pass on"),
                hint=f"export {variable}=..." if listed else f"add it: --option harbor.pass_env=[{variable}]",
            )
        found[name] = default if given is None else given
    return found


def read_task_toml(path: Path) -> tuple[TaskToml, list[str]]:
    """Return the tables of a task.toml, and a warning for each unknown key. Raises DataError."""
    try:
        text = read_input(path).decode("utf-8-sig")
        values: dict[str, Any] = tomllib.loads(text)
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", path=path) from error
    except UnicodeDecodeError as error:
        raise DataError("is not UTF-8", path=path, hint="save it as UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"line (\d+)", str(error))
        raise DataError(f"is not TOML: {error}", path=path, line=int(line[1]) if line else None) from error
    lines = _list_lines(text)
    warnings: list[str] = []
    # Harbor ignores unknown keys, so that a later minor version can be read.
    for _ in range(2):
        try:
            return TaskToml.model_validate(values), warnings
        except ValidationError as error:
            problems = error.errors(include_url=False)
            unknown = [each["loc"] for each in problems if each["type"] == "extra_forbidden"]
            if not unknown or warnings:
                _raise_problem(path, next(p for p in problems if p["type"] != "extra_forbidden"), lines)
            warnings = [_drop_unknown(values, place, path, lines) for place in unknown]
    raise AssertionError("the second validation returns or raises")


def _raise_problem(path: Path, problem: Mapping[str, Any], lines: Mapping[tuple[str, ...], int]) -> NoReturn:
    place = tuple(map(str, problem["loc"]))
    # The message of a whole table names its key first.
    message = describe_requirement(problem)
    named = re.match(r"\w+", message)
    inner = (*place, named[0]) if named else place
    place = inner if inner in lines else place
    field = ".".join(map(str, problem["loc"])) or None
    raise DataError(message, path=path, line=_find_line(lines, place), field=field)


def _drop_unknown(
    values: Any, place: tuple[int | str, ...], path: Path, lines: Mapping[tuple[str, ...], int]
) -> str:
    """Remove an unknown key, and return the warning."""
    model: Any = TaskToml
    for key in place[:-1]:
        values = values[key]
        field = getattr(model, "model_fields", {}).get(key)
        if field is not None:
            model = next(_list_models(field.annotation), None)
    values.pop(place[-1], None)
    near = difflib.get_close_matches(str(place[-1]), getattr(model, "model_fields", ()), n=1)
    suggestion = f"; did you mean '{near[0]}'?" if near else ""
    line = _find_line(lines, tuple(map(str, place)))
    where = f"{path}:{line}" if line else str(path)
    return f"{where}: the key '{'.'.join(map(str, place))}' is unknown and ignored{suggestion}"


def _list_models(annotation: Any) -> Iterator[Any]:
    if hasattr(annotation, "model_fields"):
        yield annotation
    for inner in getattr(annotation, "__args__", ()):
        yield from _list_models(inner)


def _list_lines(text: str) -> dict[tuple[str, ...], int]:
    """Return the line of each table and key of a TOML text, for messages. Entries of lists have numbers."""
    lines: dict[tuple[str, ...], int] = {}
    counts: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            table = _split_key(header[2], counts)
            if header[1] == "[[":
                counts[table] = counts.get(table, -1) + 1
                table = (*table, str(counts[table]))
            lines.setdefault(table, number)
        elif key := _KEY.match(line):
            lines.setdefault((*table, *_split_key(key[1], {})), number)
    return lines


def _split_key(key: str, counts: Mapping[tuple[str, ...], int]) -> tuple[str, ...]:
    """Return the parts of a dotted key. The number of the last table follows the name of a list of tables."""
    parts: tuple[str, ...] = ()
    for part in key.split("."):
        if parts in counts:
            parts = (*parts, str(counts[parts]))
        parts = (*parts, part.strip().strip("\"'"))
    return parts


def _find_line(lines: Mapping[tuple[str, ...], int], place: tuple[str, ...]) -> int | None:
    """Return the line of a key, or of the nearest table around it."""
    return next((lines[place[:n]] for n in range(len(place), 0, -1) if place[:n] in lines), None)


def _read_instruction(path: Path) -> str:
    """Return an instruction without the canary lines, and the blank lines after them, at its start."""
    try:
        lines = read_input(path).decode("utf-8-sig").split("\n")
    except OSError as error:
        raise DataError(
            f"cannot be read: {error.strerror}", path=path, hint="write the prompt into it"
        ) from error
    except UnicodeDecodeError as error:
        raise DataError("is not UTF-8", path=path, hint="save it as UTF-8") from error
    while lines and _CANARY.fullmatch(lines[0].strip()):
        lines.pop(0)
    while lines and not lines[0].strip():
        lines.pop(0)
    return "\n".join(lines)


def _read_step(root: Path, table: StepTable, rules: IgnoreRules) -> TaskStep:
    part = f"{STEPS}/{table.name}"
    if not (root / part).is_dir():
        raise DataError(f"the folder of step '{table.name}' is missing", path=root / part)
    return TaskStep(
        folder=str(root / part),
        table=table,
        instruction=_read_instruction(root / part / INSTRUCTION),
        has_tests=_has_script(root, f"{part}/{TESTS}", TEST_SCRIPT, rules),
        has_solution=_has_script(root, f"{part}/{SOLUTION}", SOLVE_SCRIPT, rules),
        has_workdir=(root / part / WORKDIR).is_dir(),
    )


def _has_script(root: Path, part: str, name: str, rules: IgnoreRules) -> bool:
    path = root / part / name
    if not path.is_file():
        return False
    if rules.leaves_out(path):
        raise DataError(f"is left out by {IGNORE}, and is needed", path=path, hint=f"remove it from {IGNORE}")
    return True


def _require_whole(root: Path, folder: TaskFolder) -> None:
    """Raise DataError if the machine cannot be built, or the tests are missing."""
    machine = folder.toml.environment
    if not machine.docker_image and not folder.has_dockerfile and folder.compose is None:
        raise DataError(
            f"has no {ENVIRONMENT}/{DOCKERFILE}, and {TASK_TOML} names no docker_image",
            path=root,
            hint=f"add {ENVIRONMENT}/{DOCKERFILE}, or set docker_image in [environment]",
        )
    for step in folder.steps or (None,):
        if folder.has_tests or (step is not None and step.has_tests) or _brings_tests(folder, step):
            continue
        place = root / TESTS if step is None else Path(step.folder) / TESTS
        if (place / "test.bat").is_file():
            raise DataError("Windows tasks cannot run here", path=place / "test.bat")
        raise DataError("is missing, so that nothing could be graded", path=place / TEST_SCRIPT)


def _brings_tests(folder: TaskFolder, step: TaskStep | None) -> bool:
    """Return whether the image of a separate verifier brings test.sh."""
    table = None if step is None else step.table
    if folder.toml.verifier_mode(table) != "separate":
        return False
    machines = [folder.toml.verifier.environment, None if table is None else table.verifier.environment]
    own = [Path(folder.path) / TESTS, *(() if step is None else (Path(step.folder) / TESTS,))]
    return any(each is not None and each.docker_image for each in machines) or any(
        (place / name).is_file() for place in own for name in (DOCKERFILE, COMPOSE)
    )


class IgnoreRules:
    """The rules of the `.harborignore` files in tests/ and solution/. A folder inherits those above it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        # Most folders have none, and sets have thousands of folders.
        self._has_rules = any(IGNORE in files for _, _, files in os.walk(root))
        self._read: dict[Path, GitIgnoreSpec | None] = {}

    def leaves_out(self, path: Path) -> bool:
        """Return whether a rule leaves out a path below the task folder, or a folder around it."""
        if not self._has_rules:
            return False
        relative = path.relative_to(self._root)
        if path.name == IGNORE:
            return True
        above = [self._root / parent for parent in reversed(relative.parents)]
        return any(self._matches(each) for each in (*above[1:], path))

    def _matches(self, path: Path) -> bool:
        left_out = False
        for parent in reversed(path.relative_to(self._root).parents):
            rules = self._rules_in(self._root / parent)
            if rules is not None:
                end = "/" if path.is_dir() else ""
                match = rules.check_file(path.relative_to(self._root / parent).as_posix() + end)
                left_out = left_out if match.include is None else match.include
        return left_out

    def _rules_in(self, folder: Path) -> GitIgnoreSpec | None:
        if folder not in self._read:
            self._read[folder] = None
            inside = _IGNORING.match_file(folder.relative_to(self._root).as_posix() + "/")
            if inside and (folder / IGNORE).is_file():
                text = read_input(folder / IGNORE).decode("utf-8", "replace")
                self._read[folder] = GitIgnoreSpec.from_lines(text.splitlines())
        return self._read[folder]


def _walk(folder: Path, rules: IgnoreRules | None = None) -> Iterator[Path]:
    """Yield everything below a folder, which may be missing, in order. Links are not followed."""
    if not folder.is_dir():
        return
    for entry in sorted(folder.iterdir()):
        if rules is not None and rules.leaves_out(entry):
            continue
        yield entry
        if entry.is_dir() and not entry.is_symlink():
            yield from _walk(entry, rules)


def _refuse_leaving_links(root: Path) -> None:
    for path in _walk(root):
        if path.is_symlink():
            # A loop has no target, and is left to the programs that meet it.
            target = os.path.realpath(path)
            if os.path.commonpath((root, target)) != str(root):
                raise DataError(
                    f"is a link that leaves the task folder, to {os.readlink(path)}",
                    path=path,
                    hint="copy the file to this place, or make the link in the Dockerfile",
                )


def _digest(root: Path, rules: IgnoreRules) -> str:
    """Return the digest of a folder as Harbor's packages have it.

    Raises DataError for a file that cannot be read.
    """
    ignore = root / ".gitignore"
    lines = read_input(ignore).decode("utf-8", "replace").splitlines() if ignore.is_file() else _LEFT_OUT
    left_out = GitIgnoreSpec.from_lines(lines)
    alone = (root / name for name in (TASK_TOML, INSTRUCTION, "README.md", "trajectory.json"))
    inner = (path for part in (ENVIRONMENT, TESTS, SOLUTION, STEPS) for path in _walk(root / part, rules))
    names = {path.relative_to(root).as_posix(): path for path in (*alone, *inner) if path.is_file()}
    whole = hashlib.sha256()
    for name in sorted(names):
        if not left_out.match_file(name):
            try:
                whole.update(f"{name}\0{hash_file(names[name], max_bytes=MAX_DATA_BYTES)}\n".encode())
            except (OSError, UnicodeEncodeError) as error:
                raise DataError(f"cannot be read: {error}", path=str(names[name])) from error
    return f"sha256:{whole.hexdigest()}"
