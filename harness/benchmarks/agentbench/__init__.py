"""AgentBench (Liu et al. 2023, arXiv 2308.03688): agents in a shell and on a database."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from harness.benchmarks.agentbench import os_rehearsal, quarantine
from harness.benchmarks.agentbench.category import CATEGORIES, WEB_BROWSING, category_of
from harness.benchmarks.agentbench.layout import read_layout
from harness.benchmarks.agentbench.options import AgentBenchOptions, options_model
from harness.benchmarks.agentbench.quarantine import describe_manner, why_quarantined, why_trusting
from harness.benchmarks.agentbench.scores import status_metrics
from harness.benchmarks.agentbench.tasks import play, read, scores_of, submit
from harness.benchmarks.agentbench.worlds import worlds
from harness.benchmarks.benchmark import CategoryFacts, Definition
from harness.benchmarks.data.hub import HubDataset
from harness.benchmarks.data.rows import Row
from harness.benchmarks.options import validate_options
from harness.core.types import DataSource, Reference

_OS = CategoryFacts(
    task="do a task in a shell of a Linux machine, as root",
    bundled="14 tasks of ours",
    bring="data/os_interaction/",
)
_DB = CategoryFacts(
    task="answer a question from a SQLite database, or change it",
    bundled="15 tasks of ours",
    bring="data/dbbench/",
)


def _configure(definition: Definition, values: Mapping[str, Any]) -> Definition:
    options = validate_options(options_model(), values, definition.name)
    judges = [world.judge(options.of(world).own) for world in worlds().values()]
    return replace(
        definition,
        read=partial(read, options=options),
        gather=partial(read_layout, options=options),
        find_notice=partial(_find_notice, options),
        judge=next((judge for judge in judges if judge is not None), None),
    )


def _find_notice(options: AgentBenchOptions, category: str, source: DataSource) -> str | None:
    world = worlds().get(category)
    return None if world is None else world.find_notice(options.of(world).own, source.kind == "bundled")


def _narrow(definition: Definition, categories: frozenset[str]) -> Definition:
    # `gather` is `read_layout`, with options or without.
    gather: Callable[..., tuple[list[Row], str]] = definition.gather or read_layout
    return replace(definition, gather=partial(gather, only=categories))


def _find_quarantine_reason(task_id: str) -> str | None:
    reasons = (world.why_quarantined(task_id) for world in worlds().values())
    return why_quarantined(task_id) or next((reason for reason in reasons if reason is not None), None)


def _find_unsound(reference: Reference) -> str | None:
    reasons = (world.why_unsound(reference) for world in worlds().values())
    return why_trusting(reference.target) or next((reason for reason in reasons if reason is not None), None)


BENCHMARKS = (
    Definition(
        name="agentbench",
        description="act in a shell, a database, a knowledge graph, a shop, a game, a puzzle, a household",
        environments=("os", "db", *worlds()),
        tasks=530,
        licence="Apache-2.0",
        formats=("a folder or archive of upstream's layout", "its records as JSONL or JSON"),
        hub=HubDataset("THUDM/AgentBench", None, "test"),
        bundled="agentbench",
        read=read,
        submit=submit,
        reply_rule="the whole reply without blanks around it",
        play=play,
        categories=CATEGORIES,
        category_facts={"os": _OS, "db": _DB, **{name: world.facts for name, world in worlds().items()}},
        find_category=category_of,
        names_tell_splits=False,
        missing={name: f"--filter-category {name} selects it" for name in ("dev", "std")},
        missing_categories={
            WEB_BROWSING: "it is Mind2Web's recorded web pages, which harness does not run",
        },
        narrow=_narrow,
        gather=read_layout,
        why_quarantined=_find_quarantine_reason,
        why_unsound=_find_unsound,
        find_manner=describe_manner,
        rehearsals={each.ENVIRONMENT: each.find_unsound for each in (quarantine, os_rehearsal)},
        scores=scores_of,
        score_metrics=tuple(name for world in worlds().values() for name in world.score_metrics),
        options=options_model(),
        configure=_configure,
        extra_metrics=status_metrics,
    ),
)
