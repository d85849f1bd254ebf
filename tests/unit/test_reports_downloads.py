"""The progress of downloads: bars on a terminal, lines in a log."""

from __future__ import annotations

import io

import pytest

from harness.reports.data import show_downloads


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(stream: io.StringIO) -> str:
    with show_downloads(stream) as observer:
        observer.note("fetching a\x1b[2J")
        for done in (0, 500_000, 1_000_000):
            observer.progress("questions\x1b]0;.jsonl", done, 1_000_000)
    return stream.getvalue()


def test_a_terminal_shows_a_bar_for_each_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("CI", raising=False)
    text = shown(Terminal())
    assert "questions\\x1b]0;.jsonl" in text
    assert "1.0/1.0 MB" in text


def test_a_log_gets_lines_and_no_bar() -> None:
    assert shown(io.StringIO()) == "fetching a\\x1b[2J\n"
