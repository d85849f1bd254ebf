"""The list of benchmarks, from their definitions, as a table, as Markdown and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, TextIO

from rich.table import Table
from rich.text import Text

from harness.core.text import escape_terminal, escape_unencodable
from harness.reports.console import grid, open_console

if TYPE_CHECKING:
    from harness.benchmarks.benchmark import Definition
    from harness.benchmarks.data.splits import HubDataset

_WHAT = ("benchmark", "task", "splits", "environment", "metrics")
# A narrower terminal has no room for the metrics.
_WIDTH_WITH_METRICS = 110
_CATEGORIES = ("category", "task", "bundled sample", "for a result on the benchmark, bring")
_WHERE = ("benchmark", "published at", "files that --data takes", "licence")


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts that the tables show about one benchmark."""

    definition: Definition

    @property
    def splits(self) -> list[tuple[str, int | None]]:
        """The name and the rows (None if unknown) of each split. The split of evaluation is the first."""
        return [
            (name, self.definition.in_split(name).tasks)
            for name in (self.definition.split, *self.definition.splits)
        ]

    @property
    def splits_text(self) -> str:
        """The splits in one line. The first is the one that a run takes."""
        shown = [name if rows is None else f"{name} {rows:,}" for name, rows in self.splits]
        return ", ".join(shown + [f"no {name}: {why}" for name, why in self.definition.missing.items()])

    @property
    def metrics(self) -> list[str]:
        declared = getattr(self.definition, "metrics", ())
        return [metric.name for metric in declared] or ["pass@k"]

    @property
    def sources(self) -> list[str]:
        """The places where the splits are published, each once."""
        places = [
            _published(hub)
            for name, _ in self.splits
            if (hub := self.definition.in_split(name).hub) is not None
        ]
        return list(dict.fromkeys(place for each in places for place in each))

    @property
    def options(self) -> list[str]:
        from harness.benchmarks.options import option_names

        return option_names(self.definition.options) if self.definition.options else []


def facts_json(definitions: Iterable[Definition]) -> list[dict[str, Any]]:
    """Return the facts about each benchmark as plain data."""
    return [
        {
            "name": facts.definition.name,
            "description": facts.definition.description,
            "evaluation_split": facts.definition.split,
            "splits": dict(facts.splits),
            "missing_splits": dict(facts.definition.missing),
            "environments": list(facts.definition.environments),
            "metrics": facts.metrics,
            "formats": list(facts.definition.formats),
            "sources": facts.sources,
            "licence": facts.definition.licence,
            "grading_version": facts.definition.grading_version,
            "options": facts.options,
            "categories": {name: asdict(each) for name, each in facts.definition.category_facts.items()},
            "bundled_sample": facts.definition.bundled is not None,
        }
        for facts in map(Facts, definitions)
    ]


def markdown(definitions: Sequence[Definition]) -> str:
    """Return the tables of `docs/benchmarks.md`."""
    return "\n\n".join(
        "\n".join([_line(heads), _line(["---"] * len(heads)), *map(_line, rows)])
        for heads, rows in _tables(definitions)
    )


def print_benchmarks(every: Iterable[Mapping[str, Any]], *, stream: TextIO) -> None:
    """Print a table that fits into the width of the terminal, or into 100 columns elsewhere.

    It has the evaluation split alone. `facts_json`, whose values it takes, and `markdown` have all facts.
    """
    console = open_console(stream)
    has_metrics = console.width >= _WIDTH_WITH_METRICS
    heads = ("benchmark", "split", ">tasks", "task", *(("metrics",) if has_metrics else ()))
    table = grid(*heads)
    # A name must stay whole, so that people can copy it and search for it.
    for column in table.columns[:3]:
        column.no_wrap = True
    for facts in every:
        split = facts["evaluation_split"]
        rows = facts["splits"][split]
        row = [facts["name"], split, "" if rows is None else f"{rows:,}", facts["description"]]
        _add_row(table, [*row, *([", ".join(facts["metrics"])] if has_metrics else [])], stream)
        for category, each in facts["categories"].items():
            _add_row(table, [f"  {category}", "", "", each["task"], *([""] if has_metrics else [])], stream)
    console.print(table)
    more = "Further splits, sources, formats, licences, options: harness benchmarks --json, or --markdown."
    console.print(Text(f"\n{more}"))


def _add_row(table: Table, texts: Iterable[str], stream: TextIO) -> None:
    table.add_row(*(Text(escape_unencodable(escape_terminal(text, 1000), stream)) for text in texts))


def _tables(definitions: Sequence[Definition]) -> list[tuple[Sequence[str], list[list[str]]]]:
    every = [Facts(definition) for definition in definitions]
    what = [
        [
            facts.definition.name,
            facts.definition.description,
            facts.splits_text,
            ", ".join(facts.definition.environments),
            ", ".join(facts.metrics),
        ]
        for facts in every
    ]
    where = [
        [
            facts.definition.name,
            ", ".join(facts.sources) or "only files at a path",
            ", ".join(facts.definition.formats) or "JSON, JSONL",
            facts.definition.licence,
        ]
        for facts in every
    ]
    categories = [
        [f"{facts.definition.name} {name}", each.task, each.bundled, each.bring]
        for facts in every
        for name, each in facts.definition.category_facts.items()
    ]
    tables: list[tuple[Sequence[str], list[list[str]]]] = [(_WHAT, what), (_WHERE, where)]
    return [*tables, (_CATEGORIES, categories)] if categories else tables


def _published(hub: HubDataset) -> list[str]:
    if any("://" in file for file in hub.files):
        return [file.partition("://")[2].partition("/")[0] for file in hub.files]
    return [f"{hub.repo} ({hub.config})" if hub.config and "+" not in hub.config else hub.repo]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
