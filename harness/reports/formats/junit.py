"""JUnit XML for continuous integration: one test case for each attempt.

A failure is a verdict other than `passed`. An error is an attempt without a verdict, because the fault is
ours. A cancelled attempt is skipped. An unfinished run has one more test case, which is an error, because a
pipeline that reads only failures and errors would pass the part that was made. The elements and attributes
are those that Jenkins reads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TextIO
from xml.sax.saxutils import XMLGenerator
from xml.sax.xmlreader import AttributesImpl

from harness.core.text import escape_terminal, escape_text
from harness.core.types import AttemptRecord, Status
from harness.reports.attempt_figures import describe_usage
from harness.reports.figures import describe_headline
from harness.reports.remarks import BUNDLED_NOTICE, describe_repeated, list_conditions
from harness.reports.run_folder import StoredRun
from harness.runs.summary import describe_rate

_NAME, _MESSAGE, _TEXT = 500, 300, 20_000


def write_report(run: StoredRun, stream: TextIO) -> None:
    """Write the document. It reads the attempts twice, because the counts come before them."""
    outcomes: Counter[str] = Counter()
    seconds = 0.0
    for record in run.attempts():
        outcomes[_choose_outcome(record.status)] += 1
        seconds += record.duration_seconds
    left = _describe_left(run)
    if left is not None:
        outcomes["error"] += 1
    document = _Document(stream)
    counts = {
        "name": _clean(run.manifest["benchmark"], _NAME),
        "tests": str(outcomes.total()),
        "failures": str(outcomes["failure"]),
        "errors": str(outcomes["error"]),
        "time": f"{seconds:.3f}",
    }
    with_skipped = {**counts, "skipped": str(outcomes["skipped"])}
    if started := run.manifest.get("started_at"):
        with_skipped["timestamp"] = _clean(str(started).removesuffix("Z"), _NAME)
    document.open("testsuites", counts)
    document.open("testsuite", with_skipped)
    document.open("properties")
    for name, value in _list_properties(run):
        document.write("property", {"name": name, "value": _clean(value, _TEXT)})
    document.close("properties")
    for record in run.attempts():
        _write_case(document, run.manifest["benchmark"], record)
    if left is not None:
        classname = _clean(run.manifest["benchmark"], _NAME)
        document.open(
            "testcase", {"name": "attempts without a verdict", "classname": classname, "time": "0.000"}
        )
        document.write("error", {"type": "unfinished", "message": _clean(left, _MESSAGE)})
        document.close("testcase")
    document.close("testsuite")
    document.close("testsuites")
    stream.write("\n")


def _write_case(document: _Document, benchmark: str, record: AttemptRecord) -> None:
    attempt = f" #{record.attempt}" if record.attempt else ""
    # A point in a class name parts package and class.
    parts = [benchmark, *([record.category] if record.category else [])]
    names = {
        "name": _clean(record.task_id, _NAME) + attempt,
        "classname": ".".join(_clean(part, _NAME) for part in parts),
        "time": f"{record.duration_seconds:.3f}",
    }
    document.open("testcase", names)
    outcome = _choose_outcome(record.status)
    if outcome:
        lines = (record.error or "").strip().splitlines()
        message = _clean(lines[0] if lines else record.status.value, _MESSAGE)
        text = escape_terminal(record.error or "", _TEXT, multiline=True)
        document.write(outcome, {"type": record.status.value, "message": message}, text)
        document.write("system-out", {}, "\n".join(_list_evidence(record)))
    document.close("testcase")


def _describe_left(run: StoredRun) -> str | None:
    """Return how far an unfinished run came, None for a finished one."""
    if run.unfinished is not None:
        return run.unfinished
    # A run that was stopped counts the attempts that had not begun as cancelled.
    cancelled = run.summary.statuses.get(Status.CANCELLED)
    return f"{describe_headline(run.summary)}; to finish it: harness run --resume" if cancelled else None


def _list_evidence(record: AttemptRecord) -> Iterator[str]:
    yield f"status: {record.status}"
    texts = {
        "evidence": (record.error, 0),
        "agent output": (record.agent_output, record.agent_output_cut),
        "expected output": (record.expected_output, record.expected_output_cut),
    }
    for label, (text, left_out) in texts.items():
        if text:
            yield f"--- {label} ---"
            yield escape_terminal(text, _TEXT, multiline=True)
            if left_out:
                yield f"... ({left_out:,} more characters, in attempts.jsonl)"


def _choose_outcome(status: Status) -> str:
    """Return the element of a status, "" for a pass."""
    if status is Status.PASSED:
        return ""
    if status is Status.CANCELLED:
        return "skipped"
    return "failure" if status.has_score else "error"


def _list_properties(run: StoredRun) -> Iterator[tuple[str, str]]:
    yield "result", str(describe_headline(run.summary, is_running=run.is_running))
    figures = describe_rate(run.summary)
    for name, key in (("rate", "value"), ("rate_low", "low"), ("rate_high", "high")):
        if figures[key] is not None:
            yield name, repr(figures[key])
    if run.unfinished is not None:
        yield "unfinished", run.unfinished
    if run.source.kind == "bundled":
        yield "data", BUNDLED_NOTICE
    config = run.manifest["config"]
    values = {"run": run.folder.resolve().name, "agent": run.manifest["agent"], "model": config.get("model")}
    for name, value in values.items():
        if value:
            yield name, str(value)
    yield from list_conditions(run.manifest)
    if run.summary.superseded:
        yield "retried", describe_repeated(run.summary.superseded)
    if run.summary.model:
        yield "usage", describe_usage(run.summary.model)


def _clean(text: str, limit: int) -> str:
    """Return a text of one line without the characters that XML forbids."""
    return escape_terminal(escape_text(str(text)), limit)


class _Document:
    """An XML document in ASCII, so that a stream of any encoding can take it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._xml = XMLGenerator(_Bytes(stream), encoding="us-ascii", short_empty_elements=True)
        self._xml.startDocument()

    def open(self, name: str, attributes: Mapping[str, str] | None = None) -> None:
        self._xml.startElement(name, AttributesImpl(dict(attributes or {})))
        self._xml.ignorableWhitespace("\n")

    def write(self, name: str, attributes: Mapping[str, str], text: str = "") -> None:
        self._xml.startElement(name, AttributesImpl(dict(attributes)))
        self._xml.characters(text)
        self._xml.endElement(name)
        self._xml.ignorableWhitespace("\n")

    def close(self, name: str) -> None:
        self._xml.endElement(name)
        self._xml.ignorableWhitespace("\n")


@dataclass(frozen=True, slots=True)
class _Bytes:
    """The text stream as a stream of ASCII bytes, which XMLGenerator fills with character references."""

    stream: TextIO

    def write(self, data: bytes) -> int:
        self.stream.write(bytes(data).decode("ascii"))
        return len(data)
