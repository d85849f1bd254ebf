"""The report of a run as one page: nothing is loaded, everything is escaped, and it needs no script."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from harness.core.text import escape_terminal
from harness.core.types import AttemptRecord, Status, Summary
from harness.reports.attempt_figures import AttemptFigures, describe_cost, describe_times, describe_tokens
from harness.reports.charts import draw_curve, draw_durations, draw_timeline
from harness.reports.console import FittingAttempts, fit_attempts, fit_table
from harness.reports.failures import Causes
from harness.reports.figures import (
    count,
    describe_covered_tasks,
    describe_headline,
    describe_range,
    duration,
    find_category_interval,
    has_several_attempts,
    interval,
    percent,
    tampering,
)
from harness.reports.page_file import read_style
from harness.reports.remarks import BUNDLED_NOTICE, list_conditions, list_model_remarks, list_remarks
from harness.reports.transcript_entries import Block, excerpt_transcript, read_prompt
from harness.runs.run_state import count_statuses

TEXT_LIMIT = 4000
"""The most characters of one text."""

_WHY_LIMIT = 160
# The characters of all transcripts together, and of one. They leave room for the other texts of the attempts.
_TRANSCRIPTS_CHARACTERS = 4_000_000
_TRANSCRIPT_CHARACTERS = 20_000
# A run with very many attempts shows no less than this of the prompt and of the program.
_LEAST_CHARACTERS = 500
_JSON = json.JSONEncoder(ensure_ascii=False, default=str)


class AttemptRows:
    """Renders attempts as rows. The more attempts a run has, the less of their texts it shows."""

    def __init__(self, templates: Any, folder: Path | None, attempts: int) -> None:
        share = _TRANSCRIPTS_CHARACTERS // max(attempts, 1)
        self._templates = templates
        self._folder = folder
        self._transcript = min(_TRANSCRIPT_CHARACTERS, share)
        self._text = max(_LEAST_CHARACTERS, min(TEXT_LIMIT, share))

    def render(self, record: AttemptRecord) -> Markup:
        """Return the row of an attempt."""
        transcript: Sequence[Block] = ()
        prompt = None
        if self._folder is not None:
            transcript = excerpt_transcript(self._folder, record, self._transcript)
            # The transcript begins with the prompt.
            prompt = None if transcript else read_prompt(self._folder, record)
        facts = {
            "attempt": record.attempt,
            "score": record.score,
            "sample line": record.sample_line,
            "started at": record.started_at,
        }
        row: Markup = self._templates.attempt(
            record.status,
            record.task_id,
            record.attempt,
            escape_terminal(record.error or "", _WHY_LIMIT),
            record.category or "",
            f"{record.duration_seconds:.3f}",
            duration(record.duration_seconds),
            [*self._list_texts(record, prompt)],
            [pair for pair in flatten(facts | dict(record.metrics)) if pair[1] != "null"],
            [_render_block(block) for block in transcript],
        )
        return row

    def _list_texts(self, record: AttemptRecord, prompt: str | None) -> Iterator[tuple[str, str]]:
        """Yield the label and the text of each text that is not empty."""
        output, left_out = record.agent_output, record.agent_output_cut
        if record.agent_output_full is not None:
            output, left_out = record.agent_output_full, 0
        if record.error:
            yield "error", record.error
        if prompt:
            yield "prompt", self._cut(prompt, 0, "in the transcript")
        if output:
            yield "agent output", self._cut(output, left_out, "in attempts.jsonl")
        if record.submission and record.submission.strip() != output.strip():
            yield "program or answer", self._cut(record.submission, 0, "in attempts.jsonl")
        if record.expected_output:
            cut = record.expected_output_cut
            yield "expected", self._cut(record.expected_output, cut, "in the data of the benchmark")

    def _cut(self, text: str, left_out: int, place: str) -> str:
        left_out += max(len(text) - self._text, 0)
        shown = text[: self._text]
        return f"{shown}\n... ({left_out:,} more characters, {place})" if left_out else shown


def flatten(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield every leaf of nested values with its path: `config.limits.memory_mb`, `1024`."""
    if isinstance(value, Mapping) and value:
        for key, child in value.items():
            yield from flatten(child, f"{path}.{key}" if path else str(key))
    else:
        yield path, value if isinstance(value, str) else _JSON.encode(value)


def _render_block(block: Block) -> tuple[str, str, str]:
    """Return the heading, the text and the style of a part of a transcript."""
    text = escape_terminal(block.text or "", block.limit or TEXT_LIMIT, multiline=True)
    return block.heading.strip(), text, "dim" if block.style == "dim" else ""


_TEMPLATES = Path(__file__).with_name("templates")
# Together with the style sheet these limits keep every page below 10 MB.
_ATTEMPTS_BYTES = 8_000_000
# In a longer list the browser lays out only the rows in sight. A picture of a whole page has gaps then.
_LONG_LIST = 1000
_TABLE_BYTES = 400_000


@dataclass(frozen=True, slots=True)
class _Card:
    """A key figure. `kind` is its emphasis in the style sheet: `lost` or none."""

    label: str
    figure: str
    remark: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class _Bar:
    """The part of all attempts that ended in one status, as texts. `start` and `width` are SVG lengths."""

    status: Status
    label: str
    number: str
    share: str
    start: str
    width: str


def render_html(
    *,
    manifest: Mapping[str, Any],
    summary: Summary,
    attempts: Iterable[AttemptRecord],
    is_running: bool = False,
    folder: Path | None = None,
    duration_seconds: float | None = None,
) -> str:
    """Return the page that `generate_html` yields in parts."""
    parts = generate_html(
        manifest=manifest,
        summary=summary,
        attempts=attempts,
        is_running=is_running,
        folder=folder,
        duration_seconds=duration_seconds,
    )
    return "".join(parts)


def generate_html(
    *,
    manifest: Mapping[str, Any],
    summary: Summary,
    attempts: Iterable[AttemptRecord],
    is_running: bool = False,
    folder: Path | None = None,
    duration_seconds: float | None = None,
) -> Iterator[str]:
    """Yield the parts of the report of a run as a complete HTML document.

    The heading shows `benchmark`, `agent` and `model` of `manifest["config"]`. Every other fact is shown
    under its path in the manifest. Unresolved attempts come first. Attempts have excerpts of their
    transcripts if `folder` is the run folder. If they do not fit on one page, it shows the first of each
    status, how many it leaves out, and the file that has them all.
    """
    environment = open_templates()
    rows: Any = environment.get_template("rows.html").module
    facts = dict(flatten(manifest))
    style, script = _stylesheet(), Markup((_TEMPLATES / "report.js").read_text(encoding="utf-8"))
    stopped = summary.statuses.get(Status.CANCELLED, 0) > 0
    further = [*list_conditions(manifest), *list_model_remarks(summary)]
    if not stopped:
        further += [*list_remarks(summary), *summary.quarantined.items()]
    figures = AttemptFigures(several_attempts=has_several_attempts(summary))
    causes = Causes(has_samples=facts.get("config.samples") is not None)
    render = AttemptRows(rows, folder, summary.attempts).render
    fitting = fit_attempts(causes.watch(figures.watch(attempts)), render, room=_ATTEMPTS_BYTES)
    several = summary.by_category if len(summary.by_category) > 1 and not stopped else {}
    yield from environment.get_template("report.html").generate(
        policy=_policy(style, script),
        style=style,
        script=script,
        headline=describe_headline(summary, is_running=is_running),
        title=facts.get("config.benchmark", "run"),
        chosen=_list_config(facts),
        # Look for it anywhere in the manifest, because a needless warning is better than a missing one.
        bundled="bundled" in facts.values(),
        origin=_list_origin(manifest, folder),
        cards=[
            *_cards(
                summary,
                is_running=is_running,
                duration_seconds=duration_seconds,
                has_prices=_has_prices(facts),
            )
        ],
        tampering=tampering(summary.integrity),
        remarks=further
        and fit_table(
            (rows.fact(*each) for each in further), len(further), room=_TABLE_BYTES, file="summary.json"
        ),
        statuses=[*_bars(summary, is_running=is_running)],
        causes=causes.list_most_frequent(),
        categories=several
        and fit_table(_categories(rows, summary), len(several), room=_TABLE_BYTES, file="summary.json"),
        curve=None if stopped else draw_curve(figures.pass_curve(summary.total)),
        durations=draw_durations(figures.durations()),
        timeline=draw_timeline(figures.timeline()),
        total_attempts=f"{summary.attempts:,}",
        is_long=summary.attempts > _LONG_LIST,
        attempts=fitting.rows,
        attempts_left_out=_describe_left_out(fitting),
        number_of_facts=count(len(facts), "fact"),
        facts=fit_table(
            (rows.fact(*each) for each in facts.items()), len(facts), room=_TABLE_BYTES, file="manifest.json"
        ),
    )


@lru_cache(maxsize=1)
def open_templates() -> Environment:
    """Return the environment of the templates. It escapes every value, so that no template has to."""
    return Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        finalize=_show,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _show(value: object) -> str:
    """Return a value as text without invisible characters. Jinja2 escapes it for HTML afterwards."""
    if isinstance(value, Markup):
        return value
    return escape_terminal(str(value), TEXT_LIMIT, multiline=True)


def _policy(style: str, script: str) -> str:
    """Return a policy that allows only our style and script, as a second defence behind the escaping."""
    return (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _stylesheet() -> Markup:
    """Return the style sheet, with the rules that show only the attempts of a chosen status."""
    rules = [f"#only-{status}:checked ~ .list > :not(.{status}) {{ display: none; }}" for status in Status]
    return Markup("\n".join([read_style(), *rules, ""]))


def _list_config(facts: Mapping[str, str]) -> list[tuple[str, str]]:
    pairs = ((name, facts.get(f"config.{name}", "null")) for name in ("agent", "model"))
    return [(name, text) for name, text in pairs if text != "null"]


def _list_origin(manifest: Mapping[str, Any], folder: Path | None) -> list[str]:
    """Return the date of a run, its name, and its data with a short hash."""
    started, data = manifest.get("started_at"), manifest.get("data")
    found = [str(started).replace("T", " ").replace("Z", " UTC")] if started else []
    if folder is not None:
        found.append(folder.resolve().name)
    if isinstance(data, Mapping):
        found.append(f"{data.get('kind')}: {data.get('location')}, sha256 {str(data.get('sha256'))[:12]}")
    return found


def _has_prices(facts: Mapping[str, str]) -> bool:
    """Return whether the config of a run has a price for a model."""
    return any(
        name.startswith("config.") and "prices" in name and text not in ("null", "{}")
        for name, text in facts.items()
    )


def _cards(
    summary: Summary, *, is_running: bool, duration_seconds: float | None, has_prices: bool
) -> Iterator[_Card]:
    """Yield the key figures below the headline."""
    if summary.coverage:
        kind = "lost" if summary.coverage["missing"] else ""
        figure = f"{summary.coverage['samples']:,}"
        yield _Card("samples", figure, describe_covered_tasks(summary), kind=kind)
    cancelled = summary.statuses.get(Status.CANCELLED, 0)
    passed = f"{summary.statuses.get(Status.PASSED, 0):,} passed"
    if cancelled:
        yield _Card("tasks", f"{summary.total:,}", f"{summary.resolved:,} passed at the first attempt so far")
    else:
        yield from _scores(summary, passed)
    lost = sum(summary.statuses.get(status, 0) for status in Status if not status.has_score)
    if lost:
        remark = (
            f"{'attempts to come' if is_running else 'cancelled attempts'}, infra errors and broken tests"
        )
        yield _Card("no verdict", f"{lost:,}", remark, kind="lost")
    if summary.model:
        yield from _usage(summary.model, has_prices=has_prices)
    if duration_seconds is not None:
        remark = describe_times(summary.model) if summary.model else "wall time"
        yield _Card("duration", duration(duration_seconds), remark)


def _usage(model: Mapping[str, int | float | None], *, has_prices: bool) -> Iterator[_Card]:
    """Yield the figures of the use of a model."""
    yield _Card("requests", f"{model.get('model_requests') or 0:,}", describe_tokens(model))
    cost = model.get("cost")
    remark = "by the prices in the config" if has_prices or cost is not None else "no prices in the config"
    yield _Card("cost", describe_cost(cost), remark)


def _scores(summary: Summary, passed: str) -> Iterator[_Card]:
    several = has_several_attempts(summary)
    resolved = f"{summary.resolved:,} resolved"
    yield _Card("tasks", f"{summary.total:,}", f"{resolved} by the first attempt" if several else resolved)
    yield _Card("attempts", f"{summary.attempts:,}", passed)
    if several:
        yield _Card("first attempt", percent(summary.first_attempt_rate), "the first attempts alone")
    for k, value in sorted(summary.pass_at_k.items()):
        if value is None:
            yield _Card(f"pass@{k}", "-", f"undefined: needs n >= {k} attempts of each task")
        elif k == 1 and value != summary.rate:
            yield _Card("pass@1", percent(value), "without the attempts that have no verdict")
        else:
            yield _Card(f"pass@{k}", percent(value), f"chance of a pass in {count(k, 'attempt')}")
    for name, metric in summary.metrics.items():
        yield _Card(name, percent(metric.mean), interval(metric))


def _bars(summary: Summary, *, is_running: bool) -> Iterator[_Bar]:
    """Yield the parts of the bar of attempts, in the order of the statuses. Empty parts are left out."""
    present = count_statuses(summary, is_running=is_running)
    total = sum(each.number for each in present) or 1
    start = 0
    for each in present:
        yield _Bar(
            each.status,
            each.label.replace("_", " "),
            number=f"{each.number:,}",
            share=percent(each.number / total),
            start=_length(start / total),
            width=_length(each.number / total),
        )
        start += each.number


def _length(share: float) -> str:
    return f"{100 * share:.3f}%"


def _categories(rows: Any, summary: Summary) -> Iterator[Markup]:
    by = " by the first attempt" if has_several_attempts(summary) else ""
    for name, row in summary.by_category.items():
        resolved = f"{row['resolved']:,} of {row['total']:,}{by}"
        low, high = find_category_interval(row)
        spread = describe_range(low, high)
        lengths = _length(row["rate"]), _length(low), _length(high - low)
        yield rows.category(name, resolved, percent(row["rate"]), spread, *lengths)


def _describe_left_out(fitting: FittingAttempts) -> dict[str, str] | None:
    shown, given = fitting.shown, fitting.given
    if shown == given:
        return None
    of_each = (
        f"{status.replace('_', ' ')} {shown[status]:,} of {given[status]:,}"
        for status in Status
        if given[status]
    )
    return {
        "shown": f"{shown.total():,}",
        "given": f"{given.total():,}",
        "of_each": ", ".join(of_each),
    }


_MOST_CATEGORIES = 30


def describe_rate(summary: Summary) -> str:
    """Return the headline of a run, such as `75.0 % resolved (95 % interval ...): 3 of 4 tasks`."""
    return str(describe_headline(summary))


def render_result(summary: Summary, folder: Path, *, is_bundled: bool = False) -> str:
    """Return a small piece of HTML: rate, statuses and categories. All names in it are escaped.

    `is_bundled` adds the notice that the figures are no result of the benchmark.
    """
    rows = [(status.value, f"{number:,}") for status, number in summary.statuses.items() if number]
    rows += [(f"pass@{k}", percent(value)) for k, value in summary.pass_at_k.items() if value is not None]
    if len(summary.by_category) > 1:
        listed = list(summary.by_category.items())
        for name, row in listed[:_MOST_CATEGORIES]:
            by = " at the first attempt" if has_several_attempts(summary) else ""
            rows.append((name, f"{percent(row['rate'])}, {row['resolved']:,} of {row['total']:,}{by}"))
        if len(listed) > _MOST_CATEGORIES:
            rows.append((f"{len(listed) - _MOST_CATEGORIES:,} more categories", ""))
    cells = Markup("").join(
        Markup("<tr><th style='text-align:left'>{}</th><td>{}</td></tr>").format(escape_terminal(name), text)
        for name, text in rows
    )
    notice = Markup("<div><strong>{}</strong></div>").format(BUNDLED_NOTICE) if is_bundled else Markup("")
    return str(
        Markup("<div>{}<strong>{}</strong><table>{}</table><small>{}</small></div>").format(
            notice, describe_rate(summary), cells, escape_terminal(str(folder))
        )
    )
