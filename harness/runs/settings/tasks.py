"""The settings that name the benchmark and choose the tasks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from harness.core.invalid_values import quote_value
from harness.core.setting import Aliases, Example, Keys, Option, Panel, Setting, Text, Useless

if TYPE_CHECKING:
    from harness.benchmarks.benchmark import Definition

BENCHMARK_HELP = (
    "A name from `harness benchmarks`, a folder of tasks, or your own .yaml or .py (runs on the host)."
)
_SHARD = re.compile(r"([1-9][0-9]{0,5})/([1-9][0-9]{0,5})")


def read_shard(text: str) -> tuple[int, int]:
    """Return the number of a shard, from 1, and the number of all shards, from a text such as `2/8`.

    Raises ValueError for any other text.
    """
    match = _SHARD.fullmatch(text)
    number, shards = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= number <= shards:
        raise ValueError(f"must be I/N with I from 1 to N, such as 1/8, not {quote_value(text)}")
    return number, shards


def _require_shard(text: str) -> str:
    read_shard(text)
    return text


def _convert_id(value: Any) -> Any:
    # MBPP's task ids are integers, so a user may write them as integers in YAML.
    return str(value) if type(value) is int else value


def _list_one(value: object) -> object:
    """Return a single name as a list, because many selections have only one."""
    return [value] if isinstance(value, str) else value


def _show_options(definition: Definition) -> dict[str, Any] | None:
    from harness.benchmarks.options import list_plain_defaults

    shown = {} if definition.options is None else list_plain_defaults(definition.options)
    return shown or None


TaskId = Annotated[str, BeforeValidator(_convert_id, json_schema_input_type=str | int)]
# Difficulties of some benchmarks are numbers.
Name = TaskId
Sampling = Literal["sequential", "random", "stratified"]


class TaskKeys(Keys):
    """The benchmark and its tasks."""

    panel: ClassVar[Panel] = "Tasks"

    benchmark: Annotated[
        str,
        Setting(on_resume="fixed", difference="hidden", foreign="examined"),
        Option(BENCHMARK_HELP, "NAME", short="-b", completes="benchmark", is_axis=True),
        Aliases("--bench", "--benchmarks", "--dataset", "--eval", "--suite"),
        Example(lambda definition: definition.name, is_set=True),
    ]
    """The name of a benchmark, or the path of your own: a folder of tasks, a .yaml, or a .py, which runs on
    the host."""
    sample_size: Annotated[
        int | None,
        Field(ge=1),
        Setting(on_resume="fixed", difference="unfair", foreign="harmless"),
        Option("Maximum number of tasks.", "N", short="-n"),
        Aliases("--limit", "--n", "--num", "--max-tasks", "--num-tasks", "--sample", "--tasks"),
        Example(10, is_set=True),
    ] = None
    """The maximum number of tasks."""
    sampling: Annotated[
        Sampling,
        Setting(on_resume="fixed", difference="unfair", foreign="harmless"),
        Option(
            "How to choose the tasks of -n: sequential (the first), random or stratified. Default: random.",
            "WAY",
        ),
        Aliases("--sampling-strategy", "--sample-method"),
        Useless(
            lambda config: config.sample_size is None, "has no effect without a number of tasks", "add -n N"
        ),
        Example("random"),
    ] = "random"
    """How `sample_size` tasks are taken: the first ones, a random draw, or a random draw from
    each stratum in proportion to its size."""
    stratify_by: Annotated[
        Text | None,
        Setting(on_resume="fixed", difference="unfair", foreign="harmless"),
        Option("Strata: category, difficulty or the kind of a label. Default: category.", "KIND"),
        Aliases("--stratify-field"),
        Useless(
            lambda config: config.sampling != "stratified",
            "is read only by a stratified sample",
            "add --sampling stratified",
        ),
    ] = None
    """The strata of `stratified`: `category`, `difficulty`, or the kind of a label. Default: `category`."""
    task_ids: Annotated[
        list[TaskId],
        Setting(on_resume="fixed", difference="unfair", foreign="harmless"),
        Option("Select only this task (repeatable).", "ID", name="--task", short="-t"),
        Aliases("--task-id", "--task-ids", "--id", "--ids", "--tasks"),
    ] = Field(default_factory=list)
    """Select only these tasks."""
    filter_category: Annotated[
        list[str],
        BeforeValidator(_list_one),
        Setting(on_resume="fixed", difference="unfair", foreign="harmless"),
        Option("Select only this category (repeatable).", "NAME"),
        Aliases("--category", "--categories", "--filter"),
        Example(lambda definition: list(definition.categories[:2]) or None),
    ] = Field(default_factory=list)
    """Select only tasks of these categories."""
    filter_difficulty: Annotated[
        list[Name],
        BeforeValidator(_list_one),
        Setting(on_resume="fixed", difference="unfair", foreign="harmless"),
        Option("Select only this difficulty (repeatable).", "NAME"),
        Aliases("--difficulty", "--difficulties", "--level"),
    ] = Field(default_factory=list)
    """Select only tasks of these difficulties."""
    filter_tags: Annotated[
        list[Name],
        BeforeValidator(_list_one),
        Setting(on_resume="fixed", difference="unfair", foreign="harmless"),
        Option(
            "Select only tasks with this tag, such as platform=leetcode (repeatable; a task needs all).",
            "TAG",
        ),
        Aliases("--tag", "--tags", "--filter-tag"),
    ] = Field(default_factory=list)
    """Select only tasks that have all of these tags, such as `leetcode` or `platform=leetcode`."""
    include_quarantined: Annotated[
        bool,
        Setting(on_resume="fixed", difference="unfair", is_replayed=True, foreign="harmless"),
        Option("Include tasks that no grader can rely on."),
    ] = False
    """Whether tasks take part whose reference is wrong, or whose check can be deceived."""
    shard: Annotated[
        Annotated[str, AfterValidator(_require_shard)] | None,
        Setting(on_resume="fixed", difference="unfair", differs_in_shards=True, foreign="harmless"),
        Option("Run only part I of N of the tasks, from 1. `harness merge` joins the parts.", "I/N"),
    ] = None
    """The part of the selected tasks that this run makes, such as `2/8`. Default: all of them."""
    data: Annotated[
        str | None,
        Setting(
            on_resume="fixed",
            difference="hidden",
            differs_in_shards=True,
            is_replayed=True,
            foreign="harmless",
        ),
        Option("bundled, hub, or a path to the data.", "PATH"),
        Example(lambda definition: None if definition.bundled is None else "bundled"),
    ] = None
    """`bundled`, `hub`, or a path to the data. Default: the hub, with the bundled sample in its place."""
    split: Annotated[
        str | None,
        Setting(on_resume="fixed", difference="hidden", is_replayed=True, foreign="harmless"),
        Option("train, dev or test. Default: the published evaluation split.", "NAME"),
        Example(lambda definition: definition.split),
    ] = None
    """The split: `train`, `dev`, `test`, or another one. Default: the published evaluation split."""
    options: Annotated[
        dict[str, Any],
        Setting(on_resume="fixed", difference="unfair", is_replayed=True, foreign="examined"),
        Option("An option of the benchmark (repeatable).", "NAME=VALUE", name="--option"),
        Example(_show_options),
    ] = Field(default_factory=dict)
    """The benchmark's own options."""
