"""The values of a run and of an attempt that the report and the viewer show, as plain data.

Markdown becomes nodes. A node is a text, or a list of an element's name, its class and its children. The page
makes an element only of the names in ELEMENTS, gives it no attribute but the class, and makes a text node of
every text. So no text can become an element or a link.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from harness.core.inputs.json_text import BrokenJSONError, parse_json
from harness.core.text import escape_terminal, escape_text
from harness.core.types import AttemptRecord, Status, Summary
from harness.reports.attempt_figures import describe_cost, describe_times, describe_tokens
from harness.reports.figures import (
    count,
    describe_covered_tasks,
    describe_headline,
    describe_range,
    duration,
    has_several_attempts,
    interval,
    percent,
    tampering,
)
from harness.reports.remarks import list_conditions, list_model_remarks, list_remarks
from harness.reports.transcript_entries import Block
from harness.runs.run_names import count_statuses

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode

Node: TypeAlias = "str | list[Node]"

SHOWN_CHARACTERS = 100_000
"""The most characters of one text."""

# A parser of a hostile text must stay quick. A longer text is shown as it is.
_PARSED_CHARACTERS = 20_000
# Elements of Markdown by their type in the syntax tree. The children of another type take its place.
ELEMENTS = {
    "paragraph": "p",
    "em": "em",
    "strong": "strong",
    "s": "s",
    "blockquote": "blockquote",
    "bullet_list": "ul",
    "ordered_list": "ol",
    "list_item": "li",
    "hr": "hr",
    "hardbreak": "br",
    "softbreak": "br",
    "table": "table",
    "thead": "thead",
    "tbody": "tbody",
    "tr": "tr",
    "th": "th",
    "td": "td",
    "code_inline": "code",
}
# The languages that page/code.js colours, by the names that models write.
_LANGUAGES = {
    **dict.fromkeys(("py", "python", "python3", "pycon"), "python"),
    **dict.fromkeys(("bash", "console", "sh", "shell"), "bash"),
    **dict.fromkeys(("mysql", "postgresql", "sql", "sqlite"), "sql"),
    **dict.fromkeys(("c", "c++", "cpp", "go", "java", "javascript", "js", "rust", "ts", "typescript"), "c"),
    "json": "json",
    "diff": "diff",
    "patch": "diff",
}
# The language of an argument by its name, or by the name of the tool.
_OF_ARGUMENTS = {
    **dict.fromkeys(("bash", "command", "cmd", "keystrokes", "script", "shell"), "bash"),
    **dict.fromkeys(("execute_sql", "query", "sql"), "sql"),
    **dict.fromkeys(("code", "program", "python"), "python"),
    **dict.fromkeys(("diff", "patch"), "diff"),
}
_SIGNS = (
    ("diff", re.compile(r"\A(?:diff --git |--- \S[^\n]*\n\+\+\+ |@@ -\d)")),
    ("python", re.compile(r"\A(?:#[^\n]*\n|\s)*(?:(?:from|import|def|class|async def) \w|@\w|if __name__)")),
    ("bash", re.compile(r"\A#!\S*sh\b")),
    ("sql", re.compile(r"\A\s*(?:SELECT|INSERT INTO|UPDATE|DELETE FROM|CREATE|ALTER|WITH)\s", re.IGNORECASE)),
)
# The roles whose texts models and people write, often in Markdown.
_PROSE = {"prompt", "message", "reply", "reasoning", "output"}
_FIGURE_CHARACTERS = 4000
_JSON = json.JSONEncoder(ensure_ascii=False, default=str)


def show_text(
    text: str, limit: int = SHOWN_CHARACTERS, *, is_prose: bool = False, language: str = ""
) -> dict[str, Any]:
    """Return the beginning of a text, safe to show, and the number of characters that are left out.

    The value has a `language` if the text is code, and `nodes` if it is Markdown.
    """
    shown = escape_text(text[:limit], multiline=True)
    values = {"text": shown, "left_out": max(len(text) - limit, 0)}
    if len(shown) > _PARSED_CHARACTERS or not shown.strip():
        return values
    language = language or guess_language(shown)
    if language:
        return {**values, "language": language}
    return {**values, "nodes": mark_up(shown)} if is_prose else values


def guess_language(text: str) -> str:
    """Return the language of a text that is code as a whole, "" if it is something else or not known."""
    if text[:1] in "{[" and _read_json(text) is not None:
        return "json"
    return next((language for language, sign in _SIGNS if sign.match(text)), "")


def mark_up(text: str) -> list[Node]:
    """Return Markdown as nodes. HTML in it stays text, and an address of a link or a picture is shown."""
    from markdown_it.tree import SyntaxTreeNode

    return [*_show_all(SyntaxTreeNode(_parser().parse(text)).children)]


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


def _show_all(nodes: Iterable[SyntaxTreeNode]) -> Iterator[Node]:
    for node in nodes:
        yield from _show(node)


def _show(node: SyntaxTreeNode) -> Iterator[Node]:
    if node.type in ("fence", "code_block"):
        # The page colours the only child of an element by its class.
        named = node.info.split(maxsplit=1)[0].lower() if node.info.strip() else guess_language(node.content)
        yield ["pre", _LANGUAGES.get(named, ""), escape_text(node.content, multiline=True)]
    elif node.type == "heading":
        # Not an element of a heading, because the page has an outline of its own.
        yield ["p", "heading", *_show_all(node.children)]
    elif node.type in ("link", "image"):
        yield from (
            ["[image: ", escape_text(node.content), "]"] if node.type == "image" else _show_all(node.children)
        )
        address = str(node.attrs.get("href") or node.attrs.get("src") or "")
        if address and "".join(_list_node_texts(node)) != address:
            yield ["span", "address", f" ({escape_text(address)})"]
    elif node.type in ("em", "strong") and node.markup.startswith("_"):
        # Names of programs, such as `__init__`, are more frequent than this spelling.
        yield from [node.markup, *_show_all(node.children), node.markup]
    elif node.type in ELEMENTS:
        yield [ELEMENTS[node.type], "", *_show_content(node)]
    else:
        yield from _show_content(node)


def _show_content(node: SyntaxTreeNode) -> Iterator[Node]:
    # A numeric entity may name an invisible character.
    yield from _show_all(node.children) if node.children else [escape_text(node.content, multiline=True)]


def _list_node_texts(node: SyntaxTreeNode) -> Iterator[str]:
    yield from (each.content for each in node.walk() if each.type == "text")


def describe_blocks(blocks: Iterable[Block], limit: int = SHOWN_CHARACTERS) -> Iterator[dict[str, Any]]:
    """Yield the parts of a transcript as plain values, with at most `limit` characters of each text."""
    tool = ""
    for block in blocks:
        tool = block.name if block.role == "call" else tool
        yield {
            "role": block.role,
            "name": escape_text(block.name),
            "id": escape_text(block.id),
            "heading": escape_text(block.heading.strip()),
            "label": escape_text(block.label.strip(" :")),
            "begins_entry": block.begins_entry and bool(block.heading),
            "is_warning": any(
                sign in style for style in (block.style, block.heading_style) for sign in ("yellow", "red")
            ),
            **_show_block(block, tool, limit),
        }


def _show_block(block: Block, tool: str, limit: int) -> dict[str, Any]:
    text = block.text or ""
    if block.role == "argument":
        return show_text(text, limit, language=_OF_ARGUMENTS.get(block.name) or _OF_ARGUMENTS.get(tool, ""))
    arguments = [*_list_arguments(block, limit)] if block.role == "call" and text else []
    if arguments:
        return {"text": "", "left_out": 0, "arguments": arguments}
    return show_text(text, limit, is_prose=block.role in _PROSE)


def _list_arguments(call: Block, limit: int) -> Iterator[dict[str, Any]]:
    """Yield the arguments of a call that a model has written as JSON, none if they are not an object."""
    found = _read_json(call.text or "")
    for name, value in found.items() if isinstance(found, dict) else ():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        language = _OF_ARGUMENTS.get(name) or _OF_ARGUMENTS.get(call.name, "")
        yield {"name": escape_text(name), **show_text(text, limit, language=language)}


def _read_json(text: str) -> Any:
    try:
        return parse_json(text)
    except BrokenJSONError:
        return None


@dataclass(frozen=True, slots=True)
class Card:
    """A key figure. `kind` is its emphasis in the style sheet: `lost` or none."""

    label: str
    figure: str
    remark: str
    kind: str = ""


def describe_result(
    summary: Summary,
    manifest: Mapping[str, Any],
    *,
    is_running: bool = False,
    duration_seconds: float | None = None,
) -> dict[str, Any]:
    """Return the headline, the key figures, the further figures and the statuses of a run."""
    headline = describe_headline(summary, is_running=is_running)
    is_stopped = summary.statuses.get(Status.CANCELLED, 0) > 0
    cards = _list_cards(
        summary,
        is_running=is_running,
        duration_seconds=duration_seconds,
        has_prices=_has_prices(dict(flatten(manifest))),
    )
    further = [*list_conditions(manifest), *list_model_remarks(summary)]
    if not is_stopped:
        further += [*list_remarks(summary), *summary.quarantined.items()]
    return {
        "headline": [headline.figure, headline.interval, headline.meaning, headline.coverage],
        "warning": tampering(summary.integrity),
        "cards": [[escape_terminal(text, 200) for text in astuple(card)] for card in cards],
        "figures": [describe_fact(*figure) for figure in further],
        "status_counts": [
            {"key": each.key, "label": each.label.replace("_", " "), "number": each.number}
            for each in count_statuses(summary, is_running=is_running)
        ],
    }


def describe_fact(label: str, text: str, limit: int = _FIGURE_CHARACTERS) -> tuple[str, str]:
    """Return a label and its text, safe to show."""
    return escape_terminal(label, 200), escape_terminal(text, limit, multiline=True)


def describe_category(name: str, passed: str, rate: float, low: float, high: float) -> dict[str, Any]:
    """Return the row of a category."""
    return {
        "category": name.encode("utf-8", "backslashreplace").decode(),
        "name": escape_terminal(name) or "none",
        "passed": passed,
        "rate": percent(rate),
        "interval": describe_range(low, high),
        "share": rate,
        "low": low,
        "high": high,
    }


def describe_record(
    record: AttemptRecord, model: str | None, limit: int = SHOWN_CHARACTERS
) -> dict[str, Any]:
    """Return the values of an attempt that has a record.

    Args:
        record: the record.
        model: the name of the model of the run.
        limit: the most characters of each text.
    """
    metrics = record.metrics
    asked = metrics.get("model_requests")
    of_model = {
        "model": escape_text(model or ""),
        "requests": str(asked),
        "tokens": describe_tokens(_list_numbers(metrics)),
        "cost": describe_cost(_list_numbers(metrics).get("cost")),
    }
    figures = {
        **(of_model if asked else {}),
        "duration": duration(record.duration_seconds),
        "started": escape_text(record.started_at or "")[:19].replace("T", " "),
        "category": escape_terminal(record.category or ""),
    }
    facts = {"score": record.score, "sample line": record.sample_line, "started at": record.started_at}
    return {
        "status": record.status.value,
        "figures": [*figures.items()],
        "texts": [
            {"label": label, **show_text(text, limit, is_prose=label == "agent output"), "elsewhere": more}
            for label, text, more in _list_texts(record)
        ],
        "facts": [describe_fact(*fact) for fact in flatten(facts | dict(metrics)) if fact[1] != "null"],
    }


def _list_numbers(metrics: Mapping[str, Any]) -> dict[str, int | float | None]:
    return {name: value for name, value in metrics.items() if isinstance(value, int | float)}


def _list_texts(record: AttemptRecord) -> Iterator[tuple[str, str, int]]:
    """Yield the label and the text of each text that is not empty, and the characters that it lacks."""
    output, left_out = record.agent_output, record.agent_output_cut
    if record.agent_output_full is not None:
        output, left_out = record.agent_output_full, 0
    if record.error:
        yield "evidence", record.error, 0
    if record.submission:
        yield "program or answer", record.submission, 0
    if output and output.strip() != (record.submission or "").strip():
        yield "agent output", output, left_out
    if record.expected_output:
        yield "expected", record.expected_output, record.expected_output_cut


def flatten(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield every leaf of nested values with its path: `config.limits.memory_mb`, `1024`."""
    if isinstance(value, Mapping) and value:
        for key, child in value.items():
            yield from flatten(child, f"{path}.{key}" if path else str(key))
    else:
        yield path, value if isinstance(value, str) else _JSON.encode(value)


def _has_prices(facts: Mapping[str, str]) -> bool:
    """Return whether the config of a run has a price for a model."""
    return any(
        name.startswith("config.") and "prices" in name and text not in ("null", "{}")
        for name, text in facts.items()
    )


def _list_cards(
    summary: Summary, *, is_running: bool, duration_seconds: float | None, has_prices: bool
) -> Iterator[Card]:
    """Yield the key figures below the headline."""
    if summary.coverage:
        kind = "lost" if summary.coverage["missing"] else ""
        figure = f"{summary.coverage['samples']:,}"
        yield Card("samples", figure, describe_covered_tasks(summary), kind=kind)
    cancelled = summary.statuses.get(Status.CANCELLED, 0)
    passed = f"{summary.statuses.get(Status.PASSED, 0):,} passed"
    if cancelled:
        yield Card("tasks", f"{summary.total:,}", f"{summary.resolved:,} passed at the first attempt so far")
    else:
        yield from _scores(summary, passed)
    lost = sum(summary.statuses.get(status, 0) for status in Status if not status.has_score)
    if lost:
        remark = (
            f"{'attempts to come' if is_running else 'cancelled attempts'}, infra errors and broken tests"
        )
        yield Card("no verdict", f"{lost:,}", remark, kind="lost")
    if summary.model:
        yield from _usage(summary.model, has_prices=has_prices)
    if duration_seconds is not None:
        remark = describe_times(summary.model) if summary.model else "wall time"
        yield Card("duration", duration(duration_seconds), remark)


def _usage(model: Mapping[str, int | float | None], *, has_prices: bool) -> Iterator[Card]:
    """Yield the figures of the use of a model."""
    yield Card("requests", f"{model.get('model_requests') or 0:,}", describe_tokens(model))
    cost = model.get("cost")
    remark = "by the prices in the config" if has_prices or cost is not None else "no prices in the config"
    yield Card("cost", describe_cost(cost), remark)


def _scores(summary: Summary, passed: str) -> Iterator[Card]:
    several = has_several_attempts(summary)
    resolved = f"{summary.resolved:,} resolved"
    yield Card("tasks", f"{summary.total:,}", f"{resolved} by the first attempt" if several else resolved)
    yield Card("attempts", f"{summary.attempts:,}", passed)
    if several:
        yield Card("first attempt", percent(summary.first_attempt_rate), "the first attempts alone")
    for k, value in sorted(summary.pass_at_k.items()):
        if value is None:
            yield Card(f"pass@{k}", "-", f"undefined: needs n >= {k} attempts of each task")
        elif k == 1 and value != summary.rate:
            yield Card("pass@1", percent(value), "without the attempts that have no verdict")
        else:
            yield Card(f"pass@{k}", percent(value), f"chance of a pass in {count(k, 'attempt')}")
    for name, metric in summary.metrics.items():
        yield Card(name, percent(metric.mean), interval(metric))
