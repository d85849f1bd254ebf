"""One page about a model over several benchmarks: the scores of runs, and what they were made with."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TextIO

from harness.core.errors import UsageError
from harness.core.inputs.files import open_input
from harness.core.inputs.json_text import parse_json
from harness.core.text import escape_terminal, quote_markdown
from harness.core.types import Status
from harness.reports.figures import count, describe_range, duration, list_scores, percent
from harness.reports.page_file import hash_source, read_style
from harness.reports.remarks import BUNDLED_NOTICE, list_conditions
from harness.reports.run_folder import StoredRun

CARD_VERSION = 1
_MAX_CARD_BYTES = 16 * 1024**2
_RATE = "rate"


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one benchmark on a card. `figures` and `conditions` are labels with texts of one line."""

    benchmark: str
    model: str | None
    agent: str
    # None for a run that was stopped, because the tasks that are left would count as failed.
    rate: float | None
    low: float | None
    high: float | None
    tasks: int
    attempts: int
    data: str
    is_bundled: bool
    run: str
    figures: Mapping[str, str] = field(default_factory=dict)
    conditions: Mapping[str, str] = field(default_factory=dict)
    remarks: Sequence[str] = ()

    @property
    def shown_rate(self) -> str:
        if self.rate is None:
            return "not finished"
        if self.low is None or self.high is None:
            return percent(self.rate)
        return f"{percent(self.rate)} ({describe_range(self.low, self.high)})"


@dataclass(frozen=True, slots=True)
class Card:
    """The results of one or several models, in the order of the runs."""

    title: str
    made_with: str
    results: Sequence[Result]


def build_card(runs: Sequence[StoredRun]) -> Card:
    """Return the card of runs, at least one. Raises UsageError for two of one benchmark and model."""
    results = [_read_result(run) for run in runs]
    seen: dict[tuple[str, str | None, str], Result] = {}
    for result in results:
        key = (result.benchmark, result.model, result.agent)
        if key in seen:
            raise UsageError(
                f"{seen[key].run} and {result.run} are both runs of {result.benchmark} with the same model",
                hint="name one of them; harness compare takes runs that repeat others",
            )
        seen[key] = result
    models = dict.fromkeys(result.model or result.agent for result in results)
    versions = dict.fromkeys(str(run.manifest.get("harness_version", "unknown")) for run in runs)
    return Card(", ".join(models), f"harness {', '.join(versions)}", results)


def _read_result(run: StoredRun) -> Result:
    summary, config = run.summary, run.manifest["config"]
    spread = summary.rate_interval
    is_whole = not summary.statuses.get(Status.CANCELLED)
    return Result(
        benchmark=run.manifest["benchmark"],
        model=config.get("model"),
        agent=run.manifest["agent"],
        rate=summary.rate if is_whole else None,
        low=spread.low if is_whole and spread else None,
        high=spread.high if is_whole and spread else None,
        tasks=summary.total,
        attempts=summary.attempts,
        data=f"{run.source.kind}: {run.source.location}, sha256 {run.source.sha256[:12]}",
        is_bundled=run.source.kind == "bundled",
        run=run.folder.name,
        figures={label: text for label, text in list_scores(summary) if label != _RATE} if is_whole else {},
        conditions=dict(_list_facts(run)),
        remarks=[*_list_warnings(run)],
    )


def _list_facts(run: StoredRun) -> Iterator[tuple[str, str]]:
    yield from list_conditions(run.manifest)
    model = run.summary.model
    if (tokens := model.get("completion_tokens")) is not None:
        yield "completion tokens", f"{tokens:,.0f}"
    if (cost := model.get("cost")) is not None:
        yield "cost", f"{cost:.2f}"
    yield "duration", duration(run.duration_seconds)


def _list_warnings(run: StoredRun) -> Iterator[str]:
    summary = run.summary
    if run.source.kind == "bundled":
        yield BUNDLED_NOTICE
    if run.unfinished is not None:
        yield run.unfinished
    if summary.quarantined:
        yield f"{count(len(summary.quarantined), 'task')} quarantined: {', '.join(summary.quarantined)}"
    for status in (Status.INFRA_ERROR, Status.GRADER_ERROR):
        if lost := summary.statuses.get(status):
            yield f"{count(lost, 'attempt')} ended in {status.value} and counted as failed"


def write_markdown(card: Card, stream: TextIO) -> None:
    """Write a card as Markdown: a table of the results, then the conditions of each."""
    stream.write(f"# {quote_markdown(card.title)}\n\n")
    stream.write("| benchmark | pass@1 (95 % interval) | tasks | attempts |\n| :-- | :-- | --: | --: |\n")
    for each in card.results:
        name = quote_markdown(name_result(card, each)) + (" (bundled sample)" if each.is_bundled else "")
        stream.write(f"| {name} | {each.shown_rate} | {each.tasks:,} | {each.attempts:,} |\n")
    for each in card.results:
        stream.write(f"\n## {quote_markdown(name_result(card, each))}\n\n")
        for remark in each.remarks:
            stream.write(f"- **{quote_markdown(remark)}**\n")
        facts = {**each.figures, "agent": each.agent, "data": each.data, **each.conditions, "run": each.run}
        for label, text in facts.items():
            stream.write(f"- {quote_markdown(label)}: {quote_markdown(text)}\n")
    stream.write(f"\nMade with {quote_markdown(card.made_with)}.\n")


def write_json(card: Card, stream: TextIO) -> None:
    """Write a card as JSON, which `read_card` reads."""
    json.dump({"schema_version": CARD_VERSION, **asdict(card)}, stream, indent=2)
    stream.write("\n")


def write_html(card: Card, stream: TextIO) -> None:
    """Write a card as one page that loads nothing and has no script."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    style = read_style()
    # The environment escapes every value, so that no template has to.
    environment = Environment(
        loader=PackageLoader("harness.reports"),
        autoescape=True,
        finalize=lambda value: value if isinstance(value, Markup) else escape_terminal(str(value), 4000),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    stream.write(
        environment.get_template("card.html").render(
            card=card,
            names=[name_result(card, each) for each in card.results],
            style=Markup(style),  # our own file
            policy=f"default-src 'none'; style-src {hash_source(style)}",
        )
    )


FORMATS: Mapping[str, Callable[[Card, TextIO], None]] = {
    ".html": write_html,
    ".md": write_markdown,
    ".json": write_json,
}
"""The writer of a card by the ending of its file."""


def name_result(card: Card, result: Result) -> str:
    """Return the benchmark, with the model if the card has several."""
    model = result.model or result.agent
    return f"{result.benchmark}, {model}" if model != card.title else result.benchmark


def read_card(path: Path) -> Card:
    """Return the card in a JSON file. Raises UsageError."""
    try:
        with open_input(str(path), max_bytes=_MAX_CARD_BYTES) as file:
            found = parse_json(file.read())
        results = [Result(**result) for result in found["results"]]
        card = Card(found["title"], found["made_with"], results)
    except (OSError, KeyError, TypeError, ValueError) as error:
        fault = f"it lacks the field {error}" if isinstance(error, KeyError) else error
        raise UsageError(
            f"{path} is not a card of harness: {fault}", hint="harness card -o card.json writes one"
        ) from error
    if found.get("schema_version") != CARD_VERSION:
        raise UsageError(f"{path}: schema_version {found.get('schema_version')} is not {CARD_VERSION}")
    return card


def list_differences(before: Card, after: Card) -> Iterator[tuple[str, str, str, str]]:
    """Yield the benchmark, both rates and a remark for each benchmark of two cards.

    Two results whose intervals do not overlap differ clearly. The runs themselves allow a paired test, with
    `harness compare`. Each result is compared with that of the same model, or with the only one.
    """
    for result in after.results:
        same = [each for each in before.results if each.benchmark == result.benchmark]
        same = [each for each in same if each.model == result.model] or (same if len(same) == 1 else [])
        if not same:
            yield name_result(after, result), "-", result.shown_rate, "only on the second card"
            continue
        yield name_result(after, result), same[0].shown_rate, result.shown_rate, _compare(same[0], result)
    for gone in before.results:
        if gone.benchmark not in {each.benchmark for each in after.results}:
            yield name_result(before, gone), gone.shown_rate, "-", "only on the first card"


def _compare(before: Result, after: Result) -> str:
    notes = []
    if before.data.partition("sha256")[2] != after.data.partition("sha256")[2]:
        notes.append("other data")
    if (before.tasks, before.attempts) != (after.tasks, after.attempts):
        notes.append("another number of tasks or attempts")
    if before.rate is None or after.rate is None:
        return ", ".join([*notes, "not finished"])
    change = f"{100 * (after.rate - before.rate):+.1f} points"
    bounds = (before.low, before.high, after.low, after.high)
    if None not in bounds:
        low, high, other_low, other_high = bounds
        is_clear = other_low > high or other_high < low  # type: ignore[operator]  # none is None
        change += ", beyond both intervals" if is_clear else ", within the intervals"
    return ", ".join([change, *notes])
