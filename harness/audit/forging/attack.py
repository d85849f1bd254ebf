"""The attacks on the tests of task folders: what a forging agent leaves in the machine of a task."""

from __future__ import annotations

import functools
import posixpath
import shlex
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass

from harness.audit.attack import (
    ATTACKS,
    AttackFile,
    Kind,
    fill_words,
    include_parts,
    name_folder,
    read_attack_file,
    read_part,
)
from harness.audit.forging.targets import Targets, find_targets
from harness.benchmarks.benchmark import Benchmark
from harness.core.errors import DataError, unknown_name
from harness.core.tools import AgentEnvironment
from harness.core.types import Submission, Task
from harness.environments.container.environment import ContainerEnvironment
from harness.environments.container.target import TaskFolderTarget

PRELUDE, FORGERY = "forging/prelude.sh", "forging/forge.sh"
# The kind of a program without a suffix, and of one whose name is the kind.
PROGRAM, MAKEFILE = "program", "Makefile"
SCRIPT_SECONDS = 120
_END = "END_OF_A_FORGERY"


@dataclass(frozen=True, slots=True, config=ConfigDict(extra="forbid"))
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
                lines.append(f"put {shlex.quote(_make_whole(path))} <<'{_END}'\n{text.rstrip()}\n{_END}")
        # A step that fails must not keep the others back, and the script must not end the session.
        body = "\n".join((read_part(PRELUDE), *lines, self.commands))
        return f"(\nset +e\n{body}\n) 2>&1 | tail -n 20"


def _make_whole(path: str) -> str:
    """Return a path in a form whose folder the script can make."""
    return path if "/" in path else f"./{path}"


def name_kind(path: str) -> str:
    """Return the kind of the program at a path: its suffix, `Makefile`, or `program` without a suffix."""
    name = posixpath.basename(path)
    if name in (MAKEFILE, "makefile", "GNUmakefile"):
        return MAKEFILE
    return posixpath.splitext(name)[1][1:] or PROGRAM


@functools.cache
def list_forging_attacks() -> tuple[ForgingAttack, ...]:
    """Return all attacks on task folders by name. Raises DataError, which names the file."""
    folder = ATTACKS / name_folder(Kind.FORGING)
    return tuple(_read_attack(path) for path in sorted(folder.iterdir()) if path.is_file())


def _read_attack(path: Path) -> ForgingAttack:
    file = read_attack_file(path)
    header: dict[str, Any] = {"kind" if key == "class" else key: value for key, value in file.header.items()}
    try:
        attack = ForgingAttack(**header, **_read_text(file))
    except (ValidationError, TypeError) as error:
        raise DataError(f"the attack is not valid: {error}", path=path) from error
    if attack.kind is not Kind.FORGING or attack.name != path.stem:
        raise DataError(f"an attack here has the class '{Kind.FORGING}' and the name of its file", path=path)
    return attack


def _read_text(file: AttackFile) -> Mapping[str, Any]:
    match file.path.suffix:
        case ".sh":
            return {"commands": include_parts(file.text)}
        case ".py":
            return {"programs": {"py": include_parts(file.text)}}
        case _:
            return {}


def choose_forging_attacks(names: Collection[str]) -> tuple[ForgingAttack, ...]:
    """Return the attacks with these names, all without names. Raises UsageError for an unknown name."""
    known = {attack.name: attack for attack in list_forging_attacks()}
    for name in names:
        if name not in known:
            raise unknown_name("attack", name, known)
    return tuple(attack for attack in known.values() if not names or attack.name in names)
