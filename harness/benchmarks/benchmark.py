"""The definition of a benchmark, and a benchmark that is loaded: its tasks, references and rows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from harness.benchmarks.data.local import Table
from harness.benchmarks.data.rows import Row, WatchedFields, describe, names_grading, require_sound
from harness.benchmarks.data.splits import Gather, HubDataset, Split, SplitFiles
from harness.benchmarks.example import Example, Label, choose_items
from harness.benchmarks.options import Options
from harness.benchmarks.programs import SubmitProgram
from harness.benchmarks.replies import CodeRule
from harness.core.errors import HarnessError, SandboxError, UsageError, unknown_name
from harness.core.scoring.metrics import Metric
from harness.core.types import DataSource, Reference, Status, Submission, Task, Verdict, explain_verdict
from harness.environments import environment_spec, grader_of
from harness.environments.base import Environment
from harness.environments.spec import SandboxGrader, StateGrader, TextGrader
from harness.host.local import LocalHost, list_grading_images, open_local_host
from harness.models.endpoint import Endpoint
from harness.sandbox.pool import SandboxPool, SandboxSettings

Rehearsal = Callable[
    [SandboxPool, SandboxSettings, Sequence[tuple[Task, Reference]]], Awaitable[Mapping[str, str]]
]
"""Tries the references of tasks in sandboxes, and returns the reason for each unsound one, by task id."""


@dataclass(frozen=True, slots=True)
class CategoryFacts:
    """The facts about a category that a user needs before a run, as texts of one line."""

    task: str
    # The content of the bundled sample.
    bundled: str
    # The parts that a user brings for a result on the benchmark, and the parts that are not upstream's.
    bring: str


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The result of the first attempt at a task, for the benchmark's own scores.

    A task without a verdict has the score 0. `metrics` has the ones of `Definition.score_metrics`.
    """

    resolved: bool
    score: float
    metrics: Mapping[str, float] = field(default_factory=dict)
    # The number of all attempts at the task with a verdict, and of those that passed.
    judged: int = 0
    passed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A benchmark that can be loaded."""

    name: str
    description: str
    environments: tuple[str, ...]
    """The names of the environments that its tasks live in."""
    tasks: int | None
    """The number of rows in `split`, None for a user's own benchmark that does not declare it."""
    licence: str
    grading_version: int = 1
    """The version of its grading. It grows when a verdict on the same submission can change. docs/results.md
    has the reasons."""
    split: str = "test"
    """The split that is published for evaluation, or `all` if there is no such split."""
    splits: Mapping[str, Split] = field(default_factory=dict)
    """The other splits by name: `train`, `dev`, `test`, and any others that the benchmark has."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """The reason why the benchmark lacks a split, by the split's name."""
    formats: tuple[str, ...] = ()
    """The formats of files that `--data` takes. A name of a file among them is one of `split`."""
    names_tell_splits: bool = True
    """Whether the name of a file tells its split. AgentBench's names are labels of tasks in its one split."""
    table: Table | None = None
    """The layout of its CSV files."""
    data: str | None = None
    """The path of `split` in a user's own benchmark."""
    make_rows: Callable[[], tuple[list[Row], str]] | None = None
    """Returns the rows of a user's own benchmark that makes them itself, and their SHA-256 (hex)."""
    source: str | None = None
    """The file that describes a user's own benchmark."""

    hub: HubDataset | None
    """The place of `split` on the hub."""
    bundled: str | None
    """The name of the bundled sample, which a user's own benchmark lacks."""
    read: Callable[[Row], tuple[Task, Reference] | None]
    """Returns the task and the reference of a row, or None for a row that the options leave out.

    It raises DataError with the row's place.
    """
    submit: Callable[[Task, str, str], Submission]
    """Returns the submission that an entry of a samples file stands for.

    It gets the entry's field (`completion`, `solution`, `answer` or `reply`) and the text of that field. A
    benchmark that grades programs has a SubmitProgram.
    """
    unused_fields: frozenset[str] = frozenset()
    """The fields of published rows that are named like tests and that the rules do not use."""
    reply_rule: str = ""
    """The rule that takes the answer out of a reply, as documentation. SubmitProgram has its own."""
    play: Callable[[Task, Reference, Environment], Awaitable[Submission]] | None = None
    """Acts on the reference in the task's environment, as the oracle. Tasks of text alone need none."""
    metrics: tuple[Metric, ...] = ()
    """The metrics that a run sums up."""
    choose_metrics: Callable[[Mapping[str, Reference]], tuple[Metric, ...]] | None = None
    """Returns the metrics that all references have, by task id, for data of several shapes."""
    categories: tuple[str, ...] = ()
    """All categories that its tasks may have."""
    category_facts: Mapping[str, CategoryFacts] = field(default_factory=dict)
    """The facts about each category, for categories that differ in more than their tasks."""
    find_category: Callable[[str], str | None] = lambda _name: None
    """Returns the category that a user calls by another name, None if there is none."""
    missing_categories: Mapping[str, str] = field(default_factory=dict)
    """The reason why the benchmark lacks a category of its publication, by the category's name."""
    narrow: Callable[[Definition, frozenset[str]], Definition] | None = None
    """Returns this definition so that `gather` reads the data of these categories alone."""
    gather: Gather | None = None
    """Reads the rows at a path, for a benchmark that is more than one file."""
    why_quarantined: Callable[[str], str | None] = lambda _task_id: None
    """Returns the reason why a task, by its id, is not sound, or None for a sound one."""
    runs_quarantined: bool = True
    """Whether quarantined tasks can run if the user wants it."""
    describe_task: Callable[[Task], Mapping[str, Any]] = lambda _task: {}
    """Returns the facts about a task that its publisher states for people."""
    why_unsound: Callable[[Reference], str | None] = lambda _reference: None
    """Returns the reason why a reference is not sound, or None for a sound one. It needs no sandbox."""
    find_manner: Callable[[Reference], str | None] = lambda _reference: None
    """Returns how the check of a task judges, in words, None if all tasks are judged in the same manner."""
    find_notice: Callable[[str, DataSource], str | None] = lambda _category, _source: None
    """Returns a notice about the tasks of a category, or None. A run that selects such tasks shows it."""
    find_window: Callable[[DataSource, Sequence[Row]], str | None] = lambda _source, _rows: None
    """Returns the release and the dates of the rows that are tasks, for a benchmark that grows, or None."""
    rehearsals: Mapping[str, Rehearsal] = field(default_factory=dict)
    """The trials that find unsound references before a run, by environment."""
    scores: Callable[[Benchmark, Mapping[str, TaskResult]], Mapping[str, Any]] | None = None
    """Returns the benchmark's own scores. It gets the result of each task, by task id."""
    score_metrics: tuple[str, ...] = ()
    """The metrics of verdicts that `scores` reads."""
    extra_metrics: Callable[[Verdict], Mapping[str, Any]] | None = None
    """Returns the metrics that the benchmark adds to a verdict."""
    configure: Callable[[Definition, Mapping[str, Any]], Definition] | None = None
    """Returns this definition as the benchmark's options change it. It raises UsageError."""
    options: type[Options] | None = None
    """The model of the options; a benchmark without `configure` has none."""
    judge: str | Endpoint | None = None
    """The model that its environments ask for judgements: an endpoint, or the name of one in the config."""
    judge_hint: str | None = None
    """The remedy if `judge` is None although agents need it, None for a benchmark that needs none."""

    @property
    def kept_metrics(self) -> list[str]:
        """The metrics that a run keeps in memory: those that it sums up, then those that `scores` reads."""
        return [*(metric.name for metric in self.metrics), *self.score_metrics]

    def with_options(self, options: Mapping[str, Any]) -> Definition:
        """Return the definition as these options change it. Raises UsageError."""
        if self.configure is not None:
            return self.configure(self, options)
        if options:
            raise UsageError(
                f"{self.name} has no options, such as '{next(iter(options))}'", hint="leave the option out"
            )
        return self

    def in_categories(self, names: Iterable[str]) -> Definition:
        """Return the definition that reads the data of these categories alone, if it can leave out others.

        A name that is not a category, such as a label of tasks, leaves out nothing.
        """
        found = {*map(self.find_category, names)} & {*self.categories}
        return self if self.narrow is None or not found else self.narrow(self, frozenset(filter(None, found)))

    def with_code_rule(self, rule: str) -> Definition:
        """Return the definition with a rule for code that applies to every field of a sample.

        Raises UsageError for an unknown rule, and for a benchmark that grades no programs.
        """
        if rule not in list(CodeRule):
            raise unknown_name("rule", rule, list(CodeRule))
        if not isinstance(self.submit, SubmitProgram):
            raise UsageError(
                f"benchmark '{self.name}' does not read --extract",
                hint="leave it out, because only benchmarks that grade programs use it",
            )
        return replace(self, submit=replace(self.submit, chosen=CodeRule(rule)))

    def in_split(self, name: str) -> Split:
        """Return a split by its name. Raises UsageError, with the reason, if the benchmark lacks it."""
        if name == self.split:
            return Split(self.hub, self.tasks, data=self.data)
        if name in self.splits:
            return self.splits[name]
        raise self.split_error(name)

    def split_files(self, wanted: str) -> SplitFiles:
        """Return the rule that tells which files hold a split."""
        return SplitFiles(
            benchmark=self.name,
            wanted=wanted,
            evaluation=self.split,
            others=tuple(self.splits),
            published=self.formats,
            by_row=frozenset(name for name, split in self.splits.items() if split.holds is not None),
            missing=self.missing,
            by_name=self.names_tell_splits,
        )

    def split_error(self, name: str) -> UsageError:
        """Return the error for a split that the benchmark lacks."""
        reason = f": {self.missing[name]}" if name in self.missing else ""
        names = ", ".join([self.split, *self.splits])
        return UsageError(f"{self.name} has no split '{name}'{reason}", hint=f"its splits: {names}")


@dataclass(frozen=True, slots=True)
class BenchmarkRecipe:
    """A benchmark's name, options and data, as plain data. `load_recipe` loads it."""

    name: str
    """The name of a benchmark, or the absolute path of a user's own."""
    split: str
    data: str | None
    """`hub`, `bundled`, an absolute path, or None for the data that the benchmark itself names."""
    sha256: str
    """The SHA-256 (hex) that the data must have."""
    options: Mapping[str, Any]
    extract: str | None = None
    """The rule for code that the user named, None for the benchmark's own."""
    categories: tuple[str, ...] = ()
    """The categories whose data are loaded, none for all."""


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One split of a benchmark, loaded."""

    definition: Definition
    tasks: tuple[Task, ...]
    """The tasks in the order of the data."""
    references: Mapping[str, Reference]
    """The references by task id."""
    rows: Mapping[str, Mapping[str, Any]]
    """The rows as published, by task id."""
    source: DataSource
    quarantined: Mapping[str, str] = field(default_factory=dict)
    """The reasons why tasks are not sound, by task id."""
    split: str = "test"
    recipe: BenchmarkRecipe | None = field(default=None, compare=False)
    """The recipe that loads it again in another process, None unless `load_benchmark` loaded it."""
    load_split: Callable[[str], Benchmark] | None = field(default=None, repr=False, compare=False)
    """Loads another split by its name."""

    @property
    def name(self) -> str:
        return self.definition.name

    def submission(self, task: Task, field: str, text: str) -> Submission:
        """Return the submission that `text` stands for, as a field of a samples file."""
        return self.definition.submit(task, field, text)

    def list_notices(self, tasks: Iterable[Task]) -> list[str]:
        """Return the notices about the categories of some tasks."""
        categories = dict.fromkeys(task.category for task in tasks if task.category is not None)
        found = (self.definition.find_notice(category, self.source) for category in categories)
        return [notice for notice in found if notice is not None]

    def list_own_sandboxes(self, tasks: Iterable[Task]) -> dict[str, str]:
        """Return why each of these tasks needs a sandbox for every attempt, by id, for those that do."""
        return self._ask_graders(
            tasks,
            lambda grader, target: (
                grader.needs_own_sandbox(target) if isinstance(grader, SandboxGrader) else None
            ),
        )

    def list_weak_tests(self, tasks: Iterable[Task]) -> dict[str, str]:
        """Return why a pass of each of these tasks proves less than it says, by id, for those tasks."""
        return self._ask_graders(tasks, lambda grader, target: grader.find_weakness(target))

    def _ask_graders(
        self, tasks: Iterable[Task], ask: Callable[[SandboxGrader | StateGrader, Any], str | None]
    ) -> dict[str, str]:
        found = {}
        for task in tasks:
            target = self.references[task.id].target
            # Other environments take long to import, and their graders do not have such facts.
            for grader in environment_spec(task.environment).graders:
                if isinstance(grader, TextGrader) or not isinstance(target, grader.target_type):
                    continue
                if (reason := ask(grader, target)) is not None:
                    found[task.id] = reason
        return found

    def add_metrics(self, verdict: Verdict) -> Verdict:
        """Return the verdict with the metrics that the benchmark adds to every one."""
        if self.definition.extra_metrics is None:
            return verdict
        return replace(verdict, metrics={**verdict.metrics, **self.definition.extra_metrics(verdict)})

    def scores(self, results: Mapping[str, TaskResult]) -> Mapping[str, Any]:
        """Return the benchmark's own scores over the results of tasks, by task id; most have none ({})."""
        return {} if self.definition.scores is None else self.definition.scores(self, results)

    def in_split(self, name: str) -> Benchmark:
        """Return the benchmark in another split, and load that the first time. Raises as loading does."""
        if name == self.split:
            return self
        if self.load_split is None:
            raise self.definition.split_error(name)
        return self.load_split(name)

    def get_train_data(
        self, indices: Sequence[int] | None = None, sample_k: int | None = None, seed: int | None = None
    ) -> list[Example]:
        """Return examples of the split `train`, as `get_data` does."""
        return self.get_data("train", indices, sample_k, seed)

    def get_dev_data(
        self, indices: Sequence[int] | None = None, sample_k: int | None = None, seed: int | None = None
    ) -> list[Example]:
        """Return examples of the split `dev`, as `get_data` does."""
        return self.get_data("dev", indices, sample_k, seed)

    def get_test_data(
        self, indices: Sequence[int] | None = None, sample_k: int | None = None, seed: int | None = None
    ) -> list[Example]:
        """Return examples of the split `test`, as `get_data` does."""
        return self.get_data("test", indices, sample_k, seed)

    def get_data(
        self,
        split: str,
        indices: Sequence[int] | None = None,
        sample_k: int | None = None,
        seed: int | None = None,
    ) -> list[Example]:
        """Return all examples of a split, or those at `indices`, or at most `sample_k` drawn from these.

        Each draw has its own generator, so that one `seed` always draws the same examples. Raises UsageError
        for an unknown split or index and for a negative number, and DataError as loading does.
        """
        loaded = self.in_split(split)
        tasks = choose_items(loaded.tasks, indices, sample_k, seed, what=f"{self.name} {split}")
        return [Example(task, split, loaded.rows[task.id]) for task in tasks]

    def get_id(self, example: Example) -> str:
        """Return the task id of an example, as samples files and results name it."""
        return example.task.id

    def get_label(self, example: Example) -> Label:
        """Return the label that answers to an example are graded by. Agents must never get it."""
        loaded = self.in_split(example.split)
        return Label(example.task, loaded.references[example.task.id])

    def evaluate(self, prediction: str, label: Label, *, field: str = "solution") -> dict[str, Any]:
        """Grade a prediction and return its metrics, with `score`, `resolved` and `status`.

        Text is graded in this process. A program, or mathematics, is graded in its own sandbox, which is
        gone when this returns. That needs Docker and about a third of a second. `open_host` grades many in
        less time. `field` is the kind of
        the prediction, as in samples files: a `solution` counts as it is, a `completion` continues the
        prompt of HumanEval, and a `reply` is the whole reply of a model.

        Raises:
            UsageError: The caller is in an event loop (await `async_evaluate`), or only a run can grade.
            SandboxError: The sandbox failed.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self.async_evaluate(prediction, label, field=field))
        raise UsageError("evaluate cannot wait inside a running event loop", hint="await async_evaluate(...)")

    async def async_evaluate(
        self, prediction: str, label: Label, *, field: str = "solution"
    ) -> dict[str, Any]:
        """Grade a prediction as `evaluate` does; several may be graded at once."""
        (result,) = await self.async_evaluate_all([prediction], label, field=field)
        return result

    async def async_evaluate_all(
        self, predictions: Sequence[str], label: Label, *, field: str = "solution"
    ) -> list[dict[str, Any]]:
        """Grade several predictions for one task, one after the other, as `async_evaluate` grades one.

        Programs share a sandbox, as the samples of a task do in a run.
        """
        for prediction in predictions:
            if not isinstance(prediction, str):
                raise UsageError(f"{self.name}: a prediction is a text, found {describe(prediction)}")
        if isinstance(grader_of(label.reference.target), StateGrader):
            raise UsageError(
                f"{self.name}: the outcome is the state that an agent leaves, so a text cannot be graded",
                hint=f"run it: harness run -b {self.name}",
            )
        target = label.reference.target
        submissions = [self.definition.submit(label.task, field, text) for text in predictions]
        async with open_local_host(LocalHost, list_grading_images(target)) as host:
            verdicts = [await host.grade(target, each) for each in submissions]
        for verdict in verdicts:
            if verdict.status is Status.INFRA_ERROR:
                raise SandboxError(verdict.evidence or "no verdict", outside=True)
        explained = map(explain_verdict, verdicts, submissions)
        return [_metrics_of(self.add_metrics(verdict)) for verdict in explained]


def _metrics_of(verdict: Verdict) -> dict[str, Any]:
    """Return the metrics of a verdict, its evidence, score and status as one flat dict."""
    evidence = {} if verdict.evidence is None else {"evidence": verdict.evidence}
    return {
        **verdict.recorded_metrics,
        "score": verdict.score,
        "resolved": verdict.resolved,
        "status": verdict.status.value,
        **evidence,
    }


def _read(definition: Definition, row: Row) -> tuple[Task, Reference] | None:
    """Read a row.

    Raises DataError with the row's place for any exception of the reader, and for a field that would change
    the grading and was not read. A user's own benchmark says itself which fields it reads.
    """
    watched = WatchedFields(row.values)
    try:
        found = definition.read(replace(row, values=watched))
    except HarnessError:
        raise
    except Exception as error:  # a user's own reader may raise anything, and ours may get any data
        raise row.error(f"cannot be read: {type(error).__name__}: {str(error)[:200]}") from error
    if found is not None and definition.source is None:
        for name, value in row.values.items():
            unread = name not in watched.read and name not in definition.unused_fields
            if unread and names_grading(name) and value not in (None, "", [], {}):
                raise row.error(
                    f"would change the grading, and {definition.name} does not read it",
                    field=name,
                    hint="take the benchmark of these rows, remove the field, or write your own benchmark",
                )
    return found


def read_all(
    definition: Definition, rows: Sequence[Row], source: DataSource, split: str | None = None
) -> Benchmark:
    """Return the benchmark of these rows.

    Raises:
        DataError: A row is broken, or two rows have one task id.
        UsageError: The options leave out every row.
    """
    tasks: list[Task] = []
    references: dict[str, Reference] = {}
    kept: dict[str, Row] = {}
    for row in rows:
        found = _read(definition, row)
        if found is None:
            continue
        task, reference = found
        require_sound(row, "task_id", task.id)
        if task.id in references:
            raise row.error(f"task id {task.id} is used twice", field="task_id")
        tasks.append(task)
        references[task.id] = reference
        kept[task.id] = row
    if not tasks:
        raise UsageError(f"{definition.name}: no task is left", hint="its options leave out all of them")
    if definition.choose_metrics is not None:
        definition = replace(definition, metrics=definition.choose_metrics(references))
    quarantined = {
        task.id: reason
        for task in tasks
        if (reason := definition.why_quarantined(task.id) or definition.why_unsound(references[task.id]))
    }
    return Benchmark(
        definition=definition,
        tasks=tuple(tasks),
        references=references,
        rows={task_id: row.values for task_id, row in kept.items()},
        source=replace(source, window=definition.find_window(source, [*kept.values()])),
        quarantined=quarantined,
        split=split or definition.split,
    )
