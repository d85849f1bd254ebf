"""The data that all layers share: plain and immutable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, dataclass, field, replace
from enum import StrEnum
from typing import Any, ClassVar, Generic, Protocol

from typing_extensions import TypeVar


class PlainData(Protocol):
    """A frozen dataclass of plain data: texts, numbers, tuples, mappings, paths and other such dataclasses.

    It holds no function, no open file and no connection. A worker in another process, or on another machine,
    therefore receives it by pickle and finds it equal to the one that was sent.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


Target = TypeVar("Target", bound=PlainData, default=PlainData, covariant=True)


class Status(StrEnum):
    """How an attempt ended. Every attempt ends in exactly one of these."""

    PASSED = "passed"
    FAILED = "failed"
    TIMEOUT = "timeout"
    MEMORY_LIMIT = "memory_limit"
    PROCESS_LIMIT = "process_limit"
    OUTPUT_LIMIT = "output_limit"
    CRASHED = "crashed"
    AGENT_ERROR = "agent_error"
    LIMIT_REACHED = "limit_reached"
    GRADER_ERROR = "grader_error"
    INFRA_ERROR = "infra_error"
    CANCELLED = "cancelled"

    @property
    def has_score(self) -> bool:
        """Whether the status has a score. Broken tests, a fault of ours and a cancellation have none."""
        return self not in (Status.GRADER_ERROR, Status.INFRA_ERROR, Status.CANCELLED)


class Phase(StrEnum):
    """The part of an attempt where it ended: the agent was acting, or the evaluator was grading."""

    AGENT = "agent"
    EVALUATOR = "evaluator"


@dataclass(frozen=True, slots=True)
class Task:
    """One problem as an agent may see it. The reference is a separate object, which no agent gets."""

    id: str
    # The names of the benchmark and of the environment.
    benchmark: str
    environment: str
    # The whole prompt for an agent.
    prompt: str
    category: str | None = None
    # The function that a program must define, or None.
    entry_point: str | None = None
    # The data that the environment is set up from before an agent acts in it. The environment has a type for
    # it.
    setup: PlainData | None = None
    # A user selects tasks by these and by the category.
    labels: Mapping[str, str] = field(default_factory=dict)
    # The problem without the text that the benchmark's prompt puts around it, for a prompt that the user
    # writes. None if the benchmark has no such text.
    statement: str | None = None
    # The number of tool calls that an attempt may make. None means the default of the environment.
    turns: int | None = None
    # A sentence that a chat model needs before the prompt, because the prompt asks for nothing, or does not
    # say how to answer. It agrees with the benchmark's rule for reading replies.
    instruction: str = ""
    # The difficulty in the words of the benchmark, such as `hard` or `5`. None if it publishes none.
    difficulty: str | None = None
    # Further names for selecting tasks. A task may have several.
    tags: tuple[str, ...] = ()
    # The wall limits in seconds that the task itself sets for the agent and for its tests. None means that
    # the run or the environment sets them.
    agent_seconds: float | None = None
    tests_seconds: float | None = None
    # The published protocol whose tools and texts the environment shows. None means its own.
    protocol: str | None = None


@dataclass(frozen=True, slots=True)
class ProgramTests:
    """Trusted tests of a program, run in a process that the program cannot reach."""

    # The tests. Each is the source of one or more statements. They run in order in one namespace.
    statements: tuple[str, ...]
    # Each name that the tests import from the candidate, and the candidate's own name for it.
    exports: Mapping[str, str]
    # Trusted source that runs before the tests: imports, and helpers from the prompt.
    setup: str = ""
    # Source that runs before the candidate's program, in the candidate's process.
    preamble: str = ""
    # Each export that is a class in the reference, and the names that the class defines.
    classes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # Metrics of the verdict: each is 1 if that many statements, from the first on, pass, and otherwise 0.
    parts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reference(Generic[Target]):
    """The gold answer or the hidden tests of a task. It never enters a container where an agent acts.

    The type of `target` selects the grader (`EnvironmentSpec.graders`), and the attacks that an audit tries.
    """

    task_id: str
    # A text that passes: the submission of the agent `oracle`.
    solution: str
    target: Target
    # The text that reports show as the expected answer.
    expected_output: str


# The kinds of a text that is handed in, as samples files name them. A `solution` or an `answer` counts as it
# is, a `completion` continues the prompt, and from a `reply` the program or the answer is taken out.
TEXT_FIELDS = ("completion", "solution", "answer", "reply")


@dataclass(frozen=True, slots=True)
class Submission:
    """The source of a program, or the answer, that an attempt submits.

    If the grader reads the state of a sandbox, `text` is the answer that the agent gave in addition.
    """

    text: str
    # The whole reply of the agent, which `text` was taken from.
    agent_output: str
    # A fact that may explain why the submission fails, such as that the agent's program printed nothing.
    remark: str | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of grading one submission."""

    status: Status
    # The value of the benchmark's metric, from 0 to 1. None if the status has no score.
    score: float | None
    # The grader's measurements.
    metrics: Mapping[str, Any] = field(default_factory=dict)
    # Text for people, bounded and already escaped.
    evidence: str | None = None
    # The part of the attempt where it ended; None if the grader does not report it.
    phase: Phase | None = None
    # The limit that was reached: a field of `Limits`, `timeout_seconds` or `rounds`.
    limit: str | None = None
    # The sign of tampering that the grader has found.
    tampering: str | None = None
    # The number of that limit, in its own unit, if the agent was stopped at it.
    limit_value: float | None = None
    # For a program that ended by itself, with a little more processor time than its limit: whether the
    # verdict of one more run counts. That run takes place in any case. None for all other verdicts.
    borderline: bool | None = None

    @property
    def resolved(self) -> bool:
        return self.status is Status.PASSED

    @property
    def recorded_metrics(self) -> dict[str, Any]:
        """The metrics as records hold them, with `phase`, the limit and `integrity` if they are known."""
        known = {
            "phase": None if self.phase is None else self.phase.value,
            "limit": self.limit,
            "limit_value": self.limit_value,
            "integrity": self.tampering,
        }
        return {**self.metrics, **{name: value for name, value in known.items() if value is not None}}


def explain_verdict(verdict: Verdict, submission: Submission | None) -> Verdict:
    """Return a verdict whose evidence begins with the remark about a submission that did not pass."""
    if verdict.resolved or submission is None or submission.remark is None:
        return verdict
    return replace(verdict, evidence="; ".join(filter(None, (submission.remark, verdict.evidence))))


class Transcript(Protocol):
    """The log of one attempt, for people to read."""

    def write(self, entry: Mapping[str, Any], *, is_end: bool = False) -> None:
        """Add an entry, which JSON can hold. Raises StorageError if it cannot be written.

        `is_end` is true for the few entries that describe the end of the attempt. A full transcript has room
        for them.
        """


@dataclass(frozen=True, slots=True)
class DataSource:
    """The origin of rows. `kind` is `path`, `hub` or `bundled`; `sha256` is over the raw bytes."""

    kind: str
    location: str
    sha256: str
    rows: int
    # The release, the dates and the number of the tasks, for a benchmark that grows. None for any other.
    window: str | None = None


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """One line of `attempts.jsonl`. Without its whole texts it is one entry of `results.json`."""

    task_id: str
    # The number of the attempt at the task, from 0.
    attempt: int
    # The line in the samples file, from 1, or None without one.
    sample_line: int | None
    category: str | None
    # Whether the status is `passed`.
    resolved: bool
    status: Status
    score: float | None
    metrics: Mapping[str, Any]
    # The first 500 characters of each.
    agent_output: str
    expected_output: str
    # Wall time of the attempt and its grading.
    duration_seconds: float
    # The evidence for a verdict other than `passed`, escaped and bounded.
    error: str | None
    # The number of characters that are left out of the two fields above.
    agent_output_cut: int = 0
    expected_output_cut: int = 0
    # The whole reply of the agent, and the program or answer that was taken from it. Both are None if the
    # agent submitted nothing, and in records of earlier versions. They are also None in records that are read
    # without them, because a run may have more of these texts than fit into memory.
    agent_output_full: str | None = None
    submission: str | None = None
    # When the attempt began, in UTC, or None in records of earlier versions.
    started_at: str | None = None
    # The cluster of the task, None unless the run clusters tasks by a field.
    cluster: str | None = None


@dataclass(frozen=True, slots=True)
class MetricSummary:
    """The mean of a metric over the tasks of a run, by their first attempts, and its 95 % interval.

    `interval` names the method of the interval. A task without a verdict counts 0, as it does in the rate.
    """

    mean: float
    low: float
    high: float
    interval: str
    tasks: int


@dataclass(frozen=True, slots=True)
class RateInterval:
    """The 95 % interval of a rate, which counts alike attempts as fewer trials."""

    low: float
    high: float
    # The number of independent units, and their name: `task`, or the field of the tasks that clusters them.
    clusters: int
    cluster_by: str = "task"


@dataclass(frozen=True, slots=True)
class Summary:
    """The numbers of a run."""

    # The number of selected tasks, which is the denominator of the rate.
    total: int
    # The number of planned attempts.
    attempts: int
    # The number of tasks whose first attempt passed.
    resolved: int
    # The mean over the tasks of the share of attempts that passed.
    rate: float
    # None for a `k` that is greater than the number of attempts a task.
    pass_at_k: Mapping[int, float | None]
    statuses: Mapping[Status, int]
    by_category: Mapping[str, Mapping[str, float | int]]
    # Each sign of tampering, and the number of attempts that show it.
    integrity: Mapping[str, int] = field(default_factory=dict)
    # Counts of the tasks that have a stricter verdict next to the published one: `tasks`, `resolved`,
    # `resolved_strict` and `differ`.
    resolved_strict: Mapping[str, int] = field(default_factory=dict)
    # The scores that only this benchmark has.
    scores: Mapping[str, Any] = field(default_factory=dict)
    # Each selected task that is not sound, and the reason. All other numbers leave it out, unless the user
    # has asked for such tasks.
    quarantined: Mapping[str, str] = field(default_factory=dict)
    # The metrics that the benchmark declares.
    metrics: Mapping[str, MetricSummary] = field(default_factory=dict)
    # Counts of a run that graded samples: `samples`, `tasks` that have one, and tasks that are `missing` one.
    coverage: Mapping[str, int] = field(default_factory=dict)
    # The sums of tokens, cost and times over all attempts and the requests of the run itself, if a model was
    # asked. None is unknown.
    model: Mapping[str, int | float | None] = field(default_factory=dict)
    # The limits of the run's budget by their names, each with the `allowed` and the `used` number. The use
    # includes attempts that have not ended, and is None if it is unknown.
    budget: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)
    # Counts of a run that has a model: the `attempts` that have ended, and those that `asked` the model.
    asking: Mapping[str, int] = field(default_factory=dict)
    # Counts of a run with superseded verdicts: its `attempts`, and how many of them are `resolved` now.
    superseded: Mapping[str, int] = field(default_factory=dict)
    # The comparison of a replay with the recorded run: counts of `attempts`, which are `equal`, `different`
    # or `incomplete`, of `observations` and `observations_differing`, of `same_verdicts`, and the
    # `first_difference`.
    replay: Mapping[str, Any] = field(default_factory=dict)
    # The use of each MCP server by its name, in all attempts: `failed_starts`, and `tools` with the `calls`,
    # `errors` and `seconds` of each tool.
    mcp: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    # The interval of `rate`, None without tasks.
    rate_interval: RateInterval | None = None
    # `resolved / total`.
    first_attempt_rate: float = 0.0
