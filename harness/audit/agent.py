"""The two agents of an audit: one makes attacks, the other submits the reference and an empty answer."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from harness.audit.attack import Attack, Kind
from harness.audit.attack_kinds import ProgramAttack
from harness.audit.suite import choose_attacks, list_attacks_on, list_fitting_attacks, name_target
from harness.benchmarks.benchmark import Benchmark
from harness.core.types import AttemptRecord, Submission, Task
from harness.environments.container.seal import Level
from harness.runs.agents.agent import Agent, AgentSettings, AttemptContext
from harness.runs.agents.null import Null
from harness.runs.agents.oracle import Oracle

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


def build_controls(settings: AgentSettings, benchmark: Benchmark) -> Suite:
    """Return the agent that submits the reference first, and then an empty answer."""
    return Suite(settings, benchmark, (Step(ORACLE), Step(NULL)))


def build_attacker(settings: AgentSettings, benchmark: Benchmark, names: Collection[str] = ()) -> Suite:
    """Return the agent that makes the attacks on the targets of the benchmark's grader.

    Args:
        names: the names of the attacks to make, none for all.

    Raises:
        UsageError: for an unknown name, and for a target without attacks.
    """
    attacks = choose_attacks(list_fitting_attacks(benchmark), names)
    return Suite(settings, benchmark, tuple(list_steps(attacks)))
