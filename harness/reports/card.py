"""One page about a model over several benchmarks: the scores of runs, and what they were made with."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any, TextIO

from harness.core.errors import DataError, UsageError
from harness.core.inputs.files import open_input
from harness.core.inputs.json_text import parse_json
from harness.core.text import escape_terminal, quote_markdown, shorten
from harness.core.types import Status
from harness.reports.figures import count, describe_range, duration, list_scores, percent
from harness.reports.page_file import hash_source, read_style
from harness.reports.remarks import BUNDLED_NOTICE, describe_selection, list_conditions
from harness.reports.run_folder import StoredRun
from harness.runs.transcripts import find_transcript, read_entries

CARD_VERSION = 1
_MAX_CARD_BYTES = 16 * 1024**2
_RATE = "rate"
# The settings of a run that a card shows, where they are not the default.
_SETTINGS = {
    "options": "options",
    "generation": "generation",
    "attempt_budget": "budget of an attempt",
    "run_budget": "budget of the run",
    "limits": "limits",
}
_PROMPTS = {"system_prompt": "system prompt", "agent_prompt": "agent prompt"}
_PROMPT_CHARACTERS = 1000
# The form of the prompts is the text that so many of them share.
_COMPARED_PROMPTS = 5
# A text that Markdown shows as it is.
_PLAIN = re.compile(r"[\w .,:;%/()^@+-]+", re.ASCII)


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
    """Return the card of runs, at least one. Raises UsageError for two that `find_twice` finds."""
    results = [_read_result(run) for run in runs]
    if twice := find_twice([run.manifest["config"] for run in runs]):
        first, second = (results[place] for place in twice)
        raise UsageError(
            f"{first.run} and {second.run} are both runs of {first.benchmark} with the same model",
            hint="name one of them; harness compare takes runs that repeat others",
        )
    models = dict.fromkeys(result.model or result.agent for result in results)
    versions = dict.fromkeys(str(run.manifest.get("harness_version", "unknown")) for run in runs)
    return Card(", ".join(models), f"harness {', '.join(versions)}", results)


def find_twice(configs: Sequence[Mapping[str, Any]]) -> tuple[int, int] | None:
    """Return the places of two recorded configs that name the same tasks and the same model, if there are."""
    seen: dict[str, int] = {}
    for place, config in enumerate(configs):
        same = [config.get(name) for name in ("benchmark", "model", "agent", "options", "data", "split")]
        first = seen.setdefault(repr([same, describe_selection(config)]), place)
        if first != place:
            return first, place
    return None


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
    manifest, config = run.manifest, run.manifest["config"]
    yield from list_conditions(manifest)
    for name, label in _SETTINGS.items():
        if text := _join(config.get(name)):
            yield label, text
    if form := _find_prompt_form(run):
        yield "prompts", form
    for name, label in _PROMPTS.items():
        if config.get(name):
            yield label, shorten(str(config[name]), _PROMPT_CHARACTERS)
    if isinstance(manifest.get("judge"), dict):
        yield "judge or user", str(manifest["judge"].get("model"))
    if text := _join(manifest.get("timeouts")):
        yield "seconds of an attempt", text
    model = run.summary.model
    tokens = {kind: model.get(f"{kind}_tokens") for kind in ("input", "output")}
    if known := [f"{number:,.0f} {kind}" for kind, number in tokens.items() if number is not None]:
        yield "tokens", ", ".join(known)
        yield "cost", "unknown" if model.get("cost") is None else f"{model['cost']:.2f}"
    yield "duration", duration(run.duration_seconds)
    revision = str(manifest.get("git_revision") or "")[:12]
    yield "harness", f"{manifest.get('harness_version', 'unknown')} {revision}".strip()


def _join(values: Any) -> str:
    """Return the values of a recorded mapping that are set, in one line."""
    given = values.items() if isinstance(values, Mapping) else ()
    return ", ".join(f"{name} {value}" for name, value in given if value not in (None, [], {}))


def _find_prompt_form(run: StoredRun) -> str | None:
    """Return the text that the prompts of several tasks share, without the parts that belong to a task.

    A card is published, and the questions of some benchmarks must not be.
    """
    ids = run.manifest.get("planned", {}).get("task_ids", [])
    prompts: list[str] = []
    for task_id in ids[:: max(len(ids) // _COMPARED_PROMPTS, 1)][:_COMPARED_PROMPTS]:
        try:
            entry = next(read_entries(find_transcript(run.folder, str(task_id), 0)), {})
        except DataError:
            continue
        prompts.append(str(entry.get("prompt", "")))
    if len({*prompts}) < 2:
        return None
    start = _share_start(prompts)
    end = _share_start([prompt[len(start) :][::-1] for prompt in prompts])[::-1]
    form = " ".join(f"{start}[...]{end}".split())
    return shorten(form, _PROMPT_CHARACTERS) if start or end else None


def _share_start(texts: Sequence[str]) -> str:
    """Return the whole words that all texts begin with."""
    same = takewhile(lambda signs: len({*signs}) == 1, zip(*texts, strict=False))
    start = "".join(signs[0] for signs in same)
    return start[: max(start.rfind(" "), start.rfind("\n")) + 1]


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
            stream.write(f"- **{_show(remark)}**\n")
        facts = {**each.figures, "agent": each.agent, "data": each.data, **each.conditions, "run": each.run}
        for label, text in facts.items():
            stream.write(f"- {_show(label)}: {_show(text)}\n")
    stream.write(f"\nMade with {_show(card.made_with)}.\n")


def _show(text: str) -> str:
    """Return a text for Markdown, quoted unless it has only letters, digits and plain signs."""
    is_plain = _PLAIN.fullmatch(text) and "_" not in text
    return text if is_plain else quote_markdown(text, 2 * _PROMPT_CHARACTERS)


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
    """Return the benchmark, with its options or its run if the card has it several times, and the model."""
    model = result.model or result.agent
    name = result.benchmark
    if sum((each.benchmark, each.model or each.agent) == (name, model) for each in card.results) > 1:
        name += f" ({'; '.join(_list_choices(result)) or result.run})"
    return f"{name}, {model}" if model != card.title else name


def _list_choices(result: Result) -> list[str]:
    return [result.conditions[label] for label in ("options", "selected") if label in result.conditions]


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
    `harness compare`. Each result is compared with the same model's result, or with the only one.
    """
    for result in after.results:
        same = [each for each in before.results if each.benchmark == result.benchmark]
        same = [each for each in same if each.model == result.model] or (same if len(same) == 1 else [])
        if len(same) > 1:
            same = [each for each in same if _list_choices(each) == _list_choices(result)]
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
    for label, note in (("grading", "another grading version"), ("prompts", "other prompts")):
        if before.conditions.get(label) != after.conditions.get(label):
            notes.append(note)
    if before.rate is None or after.rate is None:
        return ", ".join([*notes, "not finished"])
    change = f"{100 * (after.rate - before.rate):+.1f} points"
    bounds = (before.low, before.high, after.low, after.high)
    if None not in bounds:
        low, high, other_low, other_high = bounds
        is_clear = other_low > high or other_high < low  # type: ignore[operator]  # none is None
        change += ", beyond both intervals" if is_clear else ", within the intervals"
    return ", ".join([change, *notes])
