"""The findings on task folders, as text, as JSON and as Markdown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

from harness.audit.lint.static import Finding, Severity
from harness.core.text import escape_terminal, quote_markdown
from harness.reports.console import LONG
from harness.reports.figures import count
from harness.runs.run_files import SCHEMA_VERSION, replace_file


def conclude_lint(findings: Sequence[Finding], tasks: int) -> str:
    """Return the number of faults in one line."""
    errors = sum(each.severity is Severity.ERROR for each in findings)
    faulty = len({each.task_id for each in findings if each.severity is Severity.ERROR})
    return (
        f"{count(tasks, 'task')}: {count(errors, 'error')} in {faulty:,} of them, "
        f"{count(len(findings) - errors, 'warning')}"
    )


def print_findings(findings: Sequence[Finding], tasks: int, *, stream: TextIO) -> None:
    """Print a line for each finding, with its remedy below, and the number of all."""
    for each in findings:
        print(
            escape_terminal(f"{each.place}: {each.severity} ({each.check}): {each.message}", LONG),
            file=stream,
        )
        print(escape_terminal(f"    {each.hint}", LONG), file=stream)
    print(conclude_lint(findings, tasks), file=stream)


def write_findings(findings: Sequence[Finding], tasks: int, path: Path) -> None:
    """Write findings as JSON, or as Markdown to a file whose name ends in .md. Raises StorageError."""
    with replace_file(path) as file:
        if path.suffix != ".md":
            value = {
                "schema_version": SCHEMA_VERSION,
                "tasks": tasks,
                "errors": sum(each.severity is Severity.ERROR for each in findings),
                "findings": [asdict(each) for each in findings],
            }
            json.dump(value, file, indent=1)
            return
        file.write(f"**{conclude_lint(findings, tasks)}**\n")
        if findings:
            file.write("\n| | place | check | fault | remedy |\n| :-- | :-- | :-- | :-- | :-- |\n")
        for each in findings:
            texts = " | ".join(quote_markdown(text) for text in (each.message, each.hint))
            file.write(f"| {each.severity} | {quote_markdown(each.place)} | {each.check} | {texts} |\n")
