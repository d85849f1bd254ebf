"""The agents of an audit of task folders. An attempt is one attack, graded at one seal level."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from harness.audit.agent import NULL, ORACLE, Step, Suite
from harness.audit.forging.attack import ForgingAttack, choose_forging_attacks
from harness.audit.forging.targets import list_programs
from harness.benchmarks.benchmark import Benchmark
from harness.core.errors import unknown_name
from harness.core.types import AttemptRecord, Submission, Task
from harness.environments.container.changes import list_changes
from harness.environments.container.environment import ContainerEnvironment
from harness.environments.container.seal import LEVELS, Level
from harness.runs.agents.agent import AgentSettings, AttemptContext

# The level where others grade: the tests run where the agent has acted.
AS_USUAL: Level = "live"
# The level that the reference of a task proves.
OWN = "own"
# The metric of a reference: the programs that it has written.
PROGRAMS = "written_programs"


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
            # Each level is judged as a run at this level would be. Others compare no reports.
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


def build_forging_controls(settings: AgentSettings, benchmark: Benchmark) -> ForgingSuite:
    """Return the agent that runs the reference of each task folder, and leaves another machine as it is."""
    return ForgingSuite(settings, benchmark, (Step(ORACLE), Step(NULL)))


def build_forger(
    settings: AgentSettings, benchmark: Benchmark, names: Sequence[str], levels: Sequence[Level | None]
) -> ForgingSuite:
    """Return the agent that makes the attacks on task folders at each level, None for the task's own.

    Raises UsageError for an unknown name of an attack.
    """
    attacks = choose_forging_attacks(names)
    steps = [Step(each.name, each.kind, each, level=level) for level in levels for each in attacks]
    return ForgingSuite(settings, benchmark, steps)


def read_levels(names: Sequence[str]) -> tuple[Level | None, ...]:
    """Return the levels with these names, None for `own`. Raises UsageError for an unknown one."""
    known: dict[str, Level | None] = {OWN: None, **{level: level for level in LEVELS}}
    for name in names:
        if name not in known or name == "attached":
            raise unknown_name("level", name, [each for each in known if each != "attached"])
    return tuple(dict.fromkeys(known[name] for name in names))
