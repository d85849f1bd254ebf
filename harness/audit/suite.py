"""The suite: the attacks in the folder `attacks`, and the agents of an audit that make them.

A new file in that folder adds an attack.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from pydantic import ValidationError

from harness.audit.attack import (
    ATTACKS,
    PARTS,
    Attack,
    AttackFile,
    Kind,
    choose_attacks,
    fill_words,
    list_parts,
    name_folder,
    read_attack_file,
    read_part,
    split_text,
)
from harness.audit.attack_kinds import AnswerAttack, ProgramAttack, ShellAttack, SqlAttack, ToolAttack
from harness.benchmarks.benchmark import Benchmark
from harness.core.errors import DataError, UsageError
from harness.core.types import AttemptRecord, PlainData, Submission, Task
from harness.environments.container.seal import Level
from harness.environments.text.short_answers import (
    AnswerRule,
    ExpectedText,
    NumberAnswer,
    PlainAnswer,
    ShortAnswer,
)
from harness.runs.agents.agent import Agent, AgentSettings, AttemptContext
from harness.runs.agents.null import Null
from harness.runs.agents.oracle import Oracle

# The order of the classes at a task. The classes that leave most behind come last, so that each class starts
# in a clean state. Attacks on task folders and on the relay are not among them.
ORDER = (
    Kind.LEAVING,
    Kind.LYING,
    Kind.REACHING,
    Kind.LEARNING,
    Kind.SAMPLING,
    Kind.TAMPERING,
    Kind.TALKING,
    Kind.EXHAUSTING,
    Kind.STEERING,
    Kind.LOSING,
)
README = "README.md"
# The target of programs that are run once for each input. The tests call no function in them.
RUN = "StdinTests"
# The agents' names in manifests.
ATTACKER, CONTROLS = "cheats", "controls"
# The names of the steps that are not attacks.
ORACLE, NULL, CONSTANT = "oracle", "null", "constant"
# Attacks return True because it satisfies a plain assert. A test may expect just that, so a task that this
# program solves cannot show whether an attack forged its verdict.
_CONSTANT = ProgramAttack(
    CONSTANT, Kind.LYING, "Returns True from every function.", ("serve(lambda *args, **kwargs: True)",)
)
_JUDGES_PROGRAMS = frozenset({"ProgramTests", "CallTests", "StdinTests"})


@functools.cache
def list_attacks() -> tuple[Attack, ...]:
    """Return all attacks, ordered by class and name. Raises DataError for an invalid file or folder."""
    require_known_folders(ATTACKS)
    return tuple(
        attack for kind in ORDER for attack in sorted(_read_class(kind), key=lambda attack: attack.name)
    )


def name_target(target: PlainData) -> str:
    """Return the name that the attacks use for a target, mostly the name of its class.

    A target whose rule reads answers as another target's rule does is named after that other target.
    """
    match target:
        case PlainAnswer(rule=AnswerRule.NUMBER):
            return NumberAnswer.__name__
        case PlainAnswer() | ExpectedText():
            return ShortAnswer.__name__
    return type(target).__name__


def list_attacks_on(target: str) -> tuple[Attack, ...]:
    """Return the attacks on graders of a class of targets."""
    return tuple(attack for attack in list_attacks() if target in attack.targets)


def list_fitting_attacks(benchmark: Benchmark) -> tuple[Attack, ...]:
    """Return the attacks that fit the targets of a benchmark.

    Raises UsageError for a benchmark with a target that no attack fits.
    """
    targets = {name_target(reference.target) for reference in benchmark.references.values()}
    attacks = [attack for attack in list_attacks() if targets.intersection(attack.targets)]
    unknown = sorted(targets - {target for attack in attacks for target in attack.targets})
    if unknown or not targets:
        raise UsageError(
            f"{benchmark.name}: no attack fits the target of its grader: {', '.join(unknown)}",
            hint="add attacks with this target to harness/audit/attacks",
        )
    return tuple(attacks)


def read_attacks(path: Path) -> Iterator[Attack]:
    """Yield the attacks that a file defines. Raises DataError, which names the file."""
    try:
        attacks = [_build_attack(file) for file in _list_versions(read_attack_file(path))]
    except (ValidationError, TypeError, OSError) as error:
        raise DataError(f"the attack is not valid: {error}", path=path) from error
    for attack in attacks:
        folder = name_folder(attack.kind)
        if path.parent.name != folder:
            raise DataError(
                f"an attack of the class '{attack.kind}' belongs in the folder {folder}", path=path
            )
        yield from _split_by_call(attack)


def require_known_folders(attacks: Path) -> None:
    """Raise DataError if the folder of all attacks holds anything but a folder for each class and the parts.

    An attack in a misspelt folder would never be made.
    """
    known = {name_folder(kind) for kind in Kind}
    for path in sorted(attacks.iterdir()):
        if path.name not in {*known, PARTS.name, README} and not path.name.startswith((".", "__")):
            raise DataError(
                "is not a class of attacks", path=path, hint=f"known classes: {', '.join(sorted(known))}"
            )


def _read_class(kind: Kind) -> Iterator[Attack]:
    for path in (ATTACKS / name_folder(kind)).iterdir():
        if path.is_file() and not path.name.startswith("."):
            yield from read_attacks(path)


def _list_versions(file: AttackFile) -> Iterator[AttackFile]:
    """Yield a file, or with `for_each` a version for each part in that folder, filled from its header."""
    header = dict(file.header)
    folder = header.pop("for_each", None)
    if folder is None:
        yield file
        return
    for part in list_parts(folder):
        words = {key: str(value) for key, value in part.header.items()} | {"part": part.path.stem}
        filled = {
            key: fill_words(str(header[key]), words) for key in ("name", "description") if key in header
        }
        yield AttackFile(file.path, header | filled, fill_words(file.text, words))


def _split_by_call(attack: Attack) -> Iterator[Attack]:
    """Yield an attack. It becomes two if it fits programs that are called and programs that are run."""
    called = tuple(target for target in attack.targets if target != RUN)
    if not isinstance(attack, ProgramAttack) or called in ((), attack.targets):
        yield attack
        return
    yield replace(attack, targets=called)
    end = read_part("called.py")
    templates = tuple(f"{template}\n\n{end}" for template in attack.templates)
    yield replace(attack, name=f"{attack.name}-on-stdin", templates=templates, targets=(RUN,))


def _build_attack(file: AttackFile) -> Attack:
    header = {"kind" if key == "class" else key: value for key, value in file.header.items()}
    match file.path.suffix:
        case ".py":
            samples = header.pop("samples", 1)
            return ProgramAttack(**header, templates=split_text(file.text) * samples)
        case ".sh":
            return ShellAttack(**header, commands=split_text(file.text))
        case ".sql":
            return SqlAttack(**header, statements=split_text(file.text))
        case _ if "calls" in header:
            return ToolAttack(**header)
        case _:
            return AnswerAttack(**header)


@dataclass(frozen=True, slots=True)
class Step:
    """One attempt that a suite makes at a task: a sample of an attack, or a control."""

    # The name of the attack, `oracle`, `null` or `constant`.
    name: str
    # The class of the attack. An oracle with a class follows the attacks of that class, and fails if one of
    # them has left something behind.
    kind: Kind | None = None
    attack: Attack | None = None
    # The number of the attack's sample, from 0.
    sample: int = 0
    # The seal level of a task folder, None for the task's own.
    level: Level | None = None


# The reference is submitted first, and then an empty answer.
CONTROL_STEPS = (Step(ORACLE), Step(NULL))


class Suite:
    """Makes the steps that fit a task. The sample of an attempt is the number of its step, from 1."""

    waits = False

    def __init__(self, settings: AgentSettings, benchmark: Benchmark, steps: Sequence[Step]) -> None:
        self._benchmark = benchmark
        self._controls: dict[str, Agent] = {ORACLE: Oracle(settings, benchmark), NULL: Null(settings)}
        self.steps = tuple(steps)
        # Some benchmarks publish no solutions.
        self._has_solutions = any(reference.solution for reference in benchmark.references.values())

    def samples(self, task: Task) -> list[int | None]:
        target = name_target(self._benchmark.references[task.id].target)
        fitting = list_attacks_on(target)
        kinds = {attack.kind for attack in fitting}

        def fits(step: Step) -> bool:
            if step.attack is not None:
                return step.attack in fitting
            if step.name == CONSTANT:
                return target in _JUDGES_PROGRAMS
            if step.name == ORACLE and not self._has_solutions:
                return False
            return step.kind is None or step.kind in kinds

        return [number for number, step in enumerate(self.steps, start=1) if fits(step)]

    def learn(self, records: Iterable[AttemptRecord]) -> None:
        """Take from the records of an earlier suite what the attacks may know."""

    async def attempt(self, context: AttemptContext) -> Submission:
        if context.sample is None:
            raise ValueError("an attempt of a suite needs the number of its step as its sample")
        step = self.steps[context.sample - 1]
        if step.name == CONSTANT:
            return await _CONSTANT.hand_in(self._benchmark, context.task, step.sample, context.environment)
        if step.attack is None:
            return await self._controls[step.name].attempt(context)
        return await step.attack.hand_in(self._benchmark, context.task, step.sample, context.environment)


def list_steps(attacks: Sequence[Attack]) -> Iterator[Step]:
    """Yield a constant program, each sample of each attack, and the oracle after each class of attacks."""
    yield Step(CONSTANT)
    for kind, group in groupby(attacks, key=lambda attack: attack.kind):
        for attack in group:
            for sample in range(attack.samples):
                yield Step(attack.name, kind, attack, sample)
        yield Step(ORACLE, kind)


def build_attacker(settings: AgentSettings, benchmark: Benchmark, names: Collection[str] = ()) -> Suite:
    """Return the agent that makes the attacks on the targets of the benchmark's grader.

    Args:
        names: the names of the attacks to make, none for all.

    Raises:
        UsageError: for an unknown name, and for a target without attacks.
    """
    attacks = choose_attacks(list_fitting_attacks(benchmark), names)
    return Suite(settings, benchmark, tuple(list_steps(attacks)))
