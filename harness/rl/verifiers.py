"""The tasks of a benchmark for verifiers, rewarded by verdicts.

A module of your own makes them a taskset of the command line. verifiers finds it by its name:

    # mbpp_taskset.py
    from harness.rl.verifiers import BenchmarkTaskset

    __all__ = ["BenchmarkTaskset"]

    vf-validate mbpp-taskset --taskset.benchmark mbpp --runtime.type subprocess

Source: https://docs.primeintellect.ai/verifiers/v1/overview, for verifiers 0.4.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from pydantic import Field

from harness.benchmarks.benchmark import Benchmark
from harness.benchmarks.loading import load_with_options
from harness.client.connection import TOKEN_VARIABLE
from harness.client.remote import connect
from harness.core.errors import UsageError, describe_installation
from harness.core.logger import get_logger
from harness.core.types import Verdict
from harness.environments import environment_spec
from harness.host.local import is_graded_by_text
from harness.hosts import open_host
from harness.rl.grading import HeldGrading, RewardSample
from harness.rl.openings import DEFAULT_SECONDS, open_local, open_remote, require_score
from harness.runs.features import make_machine_rules

try:
    import verifiers.v1 as vf
except ImportError as error:
    raise UsageError(
        f"the tasks for verifiers need verifiers, which is not installed: {error}",
        hint=describe_installation("verifiers"),
    ) from error

_LOGGER = get_logger(__name__)


class BenchmarkTaskConfig(vf.TaskConfig):
    """The place where replies are graded."""

    url: str | None = None
    """The URL of a service without its token, which is read from HARNESS_SERVE_TOKEN, because verifiers
    writes the config to its results. Without a URL, replies are graded in sandboxes of this machine."""
    data: str | None = None
    """The data of the benchmark for sandboxes of this machine, as `harness run --data` takes it."""
    split: str | None = None
    """The split of the benchmark, such as `train`. Without it, the one that is published for evaluation. A
    service must have loaded the same split."""
    options: dict[str, Any] = Field(default_factory=dict)
    """The options of the benchmark, as `options` of a run's config. A service must have loaded the same."""
    environments: tuple[str, ...] = ("python",)
    """The environments whose images are needed, as for `open_grader`."""
    machines: dict[str, Any] = Field(default_factory=dict)
    """The settings of a run for machines that are made from images of tasks, such as `base_images`. With a
    URL, the service has its own."""


class BenchmarkTasksetConfig(vf.TasksetConfig):
    """A benchmark, whose prompts are the tasks."""

    benchmark: str = "mbpp"
    """The name of the benchmark, or the file of a benchmark of your own."""
    task: BenchmarkTaskConfig = BenchmarkTaskConfig()


class BenchmarkTaskData(vf.TaskData):
    """A task. It holds no reference, because verifiers writes it to the traces."""

    # As the config names it.
    benchmark: str
    task_id: str


class BenchmarkTask(vf.Task[BenchmarkTaskData, vf.State, BenchmarkTaskConfig]):
    """Rewards the last reply of an agent with the score of its verdict.

    A fault of the infrastructure raises RewardUnavailableError, which verifiers records as an error of the
    rollout, and not as a reward of 0.
    """

    @vf.reward
    async def verdict(self, trace: vf.Trace) -> float:
        """Return the score, from 0 to 1, and record the metrics of the verdict."""
        graded = await self._grade(trace.last_reply, "reply")
        counts = {name: graded.metrics.get(name) for name in ("tests", "tests_passed")}
        trace.record_metrics({name: float(count) for name, count in counts.items() if count is not None})
        return require_score(graded)

    async def validate(self, runtime: vf.Runtime) -> bool:
        """Return whether the solution of the benchmark passes where replies are graded."""
        benchmark = _load(_Choice.of(self.data.benchmark, self.config))
        solution = benchmark.references[self.data.task_id].solution
        return require_score(await self._grade(solution, "solution")) == 1.0

    async def _grade(self, text: str, field: str) -> Verdict:
        choice, url = _Choice.of(self.data.benchmark, self.config), self.config.url
        # A benchmark of your own is named by its file, and has another name in it.
        name = choice.benchmark if url is not None else _load(choice).name
        held = _hold_grading(choice, url, tuple(self.config.environments))
        sample = RewardSample(text, field, benchmark=name, task_id=self.data.task_id)
        (graded,) = await held.grade_async([sample], release_with_loop=True)
        return graded


class BenchmarkTaskset(vf.Taskset[BenchmarkTask, BenchmarkTasksetConfig]):
    """The tasks of a benchmark that are graded by a text, in their order."""

    def load(self) -> Iterable[BenchmarkTask]:
        """Yield the tasks. Raises UsageError for an unknown benchmark, and DataError for unusable data."""
        config = self.config
        benchmark = _load(_Choice.of(config.benchmark, config.task))
        tasks = [task for task in benchmark.tasks if is_graded_by_text(benchmark.references[task.id].target)]
        if not tasks:
            raise UsageError(
                f"the benchmark '{benchmark.name}' has no task that a text can be graded for",
                hint=f"run it: harness run -b {config.benchmark}",
            )
        for task in tasks:
            data = BenchmarkTaskData(
                id=task.id,
                name=f"{benchmark.name}/{task.id}",
                prompt=task.prompt,
                system_prompt=task.instruction or None,
                benchmark=config.benchmark,
                task_id=task.id,
            )
            yield BenchmarkTask(data, config.task)


class EpisodeTask(vf.Task[BenchmarkTaskData, vf.State, BenchmarkTaskConfig]):
    """A task whose environment an agent acts in. EpisodeEnv rewards it."""


class EpisodeTaskset(vf.Taskset[EpisodeTask, BenchmarkTasksetConfig]):
    """The tasks of a benchmark whose environments agents act in, without tasks that cannot run."""

    def load(self) -> Iterable[EpisodeTask]:
        """Yield the tasks. Raises UsageError for an unknown benchmark, and DataError for unusable data."""
        config = self.config
        benchmark = _load(_Choice.of(config.benchmark, config.task))
        for task in benchmark.tasks:
            acts = environment_spec(task.environment).open_environment is not None
            if acts and task.id not in benchmark.quarantined:
                name = f"{benchmark.name}/{task.id}"
                data = BenchmarkTaskData(id=task.id, name=name, benchmark=config.benchmark, task_id=task.id)
                yield EpisodeTask(data, config.task)


class EpisodeEnvConfig(vf.EnvConfig):
    """An agent that acts by its replies, one action a turn."""

    player: vf.AgentConfig = vf.AgentConfig()


class EpisodeEnv(vf.Env[EpisodeEnvConfig]):
    """Plays the environment of a benchmark's task to an agent, and rewards what the agent leaves there.

    The environment is opened here or at a service. The agent gets the prompt and the form of an action. It
    writes an action in each reply, and gets its observation. The reward `verdict` is the score of the
    verdict. An agent that stops without a submission is judged by what it has left.
    """

    async def start(self) -> None:
        """Open the host of all environments."""
        config = self.config.taskset.task
        self._stack = contextlib.AsyncExitStack()
        opening: Any
        if config.url is not None:
            opening = connect(config.url, token=os.environ.get(TOKEN_VARIABLE))
        else:
            benchmark = _load(_Choice.of(self.config.taskset.benchmark, config))
            opening = open_host(environments=sorted({task.environment for task in benchmark.tasks}))
        self._host: Any = await self._stack.enter_async_context(opening)

    async def stop(self) -> None:
        """Close the host, and destroy all sandboxes of this machine."""
        if hasattr(self, "_stack"):
            await self._stack.aclose()

    async def run(self, task: EpisodeTask, agents: vf.Agents) -> None:
        """Play one episode. Raises RewardUnavailableError for an episode without a score."""
        async with self._open(task) as episode, agents.player.interaction(task) as interaction:
            shown = f"{episode.prompt}\n\n{episode.instructions}"
            while episode.verdict is None:
                segment = await interaction.turn(shown)
                if segment.terminated:
                    break
                shown = (await episode.reply(segment.last_reply)).text
            verdict = episode.verdict or await episode.submit("")
        interaction.trace.record_reward("verdict", require_score(verdict))

    def _open(self, task: EpisodeTask) -> Any:
        benchmark = _load(_Choice.of(task.data.benchmark, task.config))
        if task.config.url is not None:
            return self._host.environment(benchmark.name, task.data.task_id)
        rules = make_machine_rules(task.config.machines)
        return self._host.environment(benchmark, task.data.task_id, machine_rules=rules)


@dataclass(frozen=True, slots=True)
class _Choice:
    """A benchmark with all that decides its tasks. Equal choices are loaded once."""

    benchmark: str
    data: str | None
    split: str | None
    # As JSON, because a choice is a key.
    options: str

    @classmethod
    def of(cls, benchmark: str, config: BenchmarkTaskConfig) -> _Choice:
        return cls(benchmark, config.data, config.split, json.dumps(config.options, sort_keys=True))


@cache
def _load(choice: _Choice) -> Benchmark:
    return load_with_options(
        choice.benchmark,
        json.loads(choice.options),
        data=choice.data,
        split=choice.split,
        notify=_LOGGER.warning,
        sample_stands_in=False,
    )


@cache
def _hold_grading(choice: _Choice, url: str | None, environments: tuple[str, ...]) -> HeldGrading:
    """Return the grading that all tasks with the same settings share, because verifiers makes many tasks.

    verifiers has no hook for the end of a taskset, so the end of the event loop removes the sandboxes.
    """
    opening: Any
    if url is None:
        opening = partial(open_local, environments=environments, benchmarks=[_load(choice)])
    else:
        token = os.environ.get(TOKEN_VARIABLE)
        opening = partial(open_remote, url, token=token, timeout_seconds=DEFAULT_SECONDS)
    return HeldGrading(opening)
