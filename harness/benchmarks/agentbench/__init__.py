"""AgentBench (Liu et al. 2023, arXiv 2308.03688): agents in seven kinds of environments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from harness.benchmarks.agentbench.layout import read_layout
from harness.benchmarks.agentbench.tasks import (
    WEB_BROWSING,
    AgentBenchOptions,
    categories,
    category_of,
    options_model,
    play,
    read,
    scores_of,
    status_metrics,
    submit,
)
from harness.benchmarks.benchmark import Definition
from harness.benchmarks.category import Category
from harness.benchmarks.data.rows import Row
from harness.benchmarks.data.splits import HubDataset
from harness.benchmarks.options import validate_options
from harness.core.types import DataSource

T = TypeVar("T")


def _configure(definition: Definition, values: Mapping[str, Any]) -> Definition:
    options = validate_options(options_model(), values, definition.name)
    judges = [category.judge(options.of(category).own) for category in categories().values()]
    return replace(
        definition,
        read=partial(read, options=options),
        gather=partial(read_layout, options=options),
        find_notice=partial(_find_notice, options),
        judge=next((judge for judge in judges if judge is not None), None),
    )


def _find_notice(options: AgentBenchOptions, category: str, source: DataSource) -> str | None:
    known = categories().get(category)
    return None if known is None else known.find_notice(options.of(known).own, source.kind == "bundled")


def _narrow(definition: Definition, categories: frozenset[str]) -> Definition:
    # `gather` is `read_layout`, with options or without.
    gather: Callable[..., tuple[list[Row], str]] = definition.gather or read_layout
    return replace(definition, gather=partial(gather, only=categories))


def _first(find: Callable[[Category, T], str | None]) -> Callable[[T], str | None]:
    """Return a function that returns the first text that a category finds about its argument, or None."""
    return lambda given: next((text for each in categories().values() if (text := find(each, given))), None)


BENCHMARKS = (
    Definition(
        name="agentbench",
        grading_version=2,
        description="act in a shell, a database, a knowledge graph, a shop, a game, a puzzle, a household",
        environments=tuple(categories()),
        tasks=530,
        licence="Apache-2.0",
        formats=("a folder or archive of upstream's layout", "its records as JSONL or JSON"),
        hub=HubDataset("THUDM/AgentBench", None, "test"),
        bundled="agentbench",
        read=read,
        submit=submit,
        reply_rule="the whole reply without blanks around it",
        play=play,
        categories=tuple(categories()),
        category_facts={name: category.facts for name, category in categories().items()},
        find_category=category_of,
        names_tell_splits=False,
        missing={name: f"--filter-category {name} selects it" for name in ("dev", "std")},
        missing_categories={WEB_BROWSING: "it is Mind2Web's recorded web pages, which harness does not run"},
        narrow=_narrow,
        gather=read_layout,
        why_quarantined=_first(lambda category, task_id: category.why_quarantined(task_id)),
        why_unsound=_first(lambda category, reference: category.why_unsound(reference)),
        find_manner=_first(lambda category, reference: category.find_manner(reference)),
        rehearsals={each.name: each.rehearse for each in categories().values() if each.rehearse is not None},
        scores=scores_of,
        score_metrics=tuple(name for each in categories().values() for name in each.score_metrics),
        options=options_model(),
        configure=_configure,
        extra_metrics=status_metrics,
    ),
)
