from __future__ import annotations

import logging
import re

from case_checks import each_case

from harness.runs.run_log import MESSAGE_CHARACTERS, TRACEBACK_CHARACTERS, SafeFormatter
from harness.runs.run_secrets import SecretFilter

KEY = "correct-horse-battery-staple"


def record(message: object, *arguments: object, error: BaseException | None = None) -> logging.LogRecord:
    details = None if error is None else (type(error), error, error.__traceback__)
    return logging.LogRecord("harness.test", logging.INFO, "", 0, message, arguments, details)


def formatted(message: object, *arguments: object, error: BaseException | None = None) -> str:
    return SafeFormatter(SecretFilter([KEY]), dated=True).format(record(message, *arguments, error=error))


def raised(text: str) -> BaseException:
    try:
        raise ValueError(text)
    except ValueError as error:
        return error


def test_a_line_has_time_level_logger_and_message() -> None:
    line = formatted("%s of %d", "one", 2)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z INFO harness\.test: one of 2", line)


@each_case("ending", ["\n", "\r", "\x85", "\u2028", "\x0b"])
def test_a_message_cannot_forge_a_line(ending: str) -> None:
    line = formatted(f"text{ending}2026-01-01T00:00:00.000Z ERROR harness.run: forged")
    assert len(line.splitlines()) == 1


def test_a_message_cannot_move_the_cursor_or_hide() -> None:
    line = formatted("\x1b[2J\x1b]0;title\x07 \u202eabc \x9b31m")
    assert line.isprintable()
    assert "\\x1b[2J" in line


def test_a_traceback_stands_below_its_record_and_forges_no_line() -> None:
    lines = formatted("failed", error=raised("one\n2026-01-01T00:00:00.000Z ERROR harness.run: two\x1b[1m"))
    first, *below = lines.split("\n")
    assert first.endswith("harness.test: failed")
    assert all(line.startswith("    | ") and line.isprintable() for line in below)
    assert "two\\x1b[1m" in below[-1]


def test_an_error_after_a_long_text_is_kept() -> None:
    line = formatted("failed", error=raised("x" * 2 * TRACEBACK_CHARACTERS + " the end"))
    assert line.endswith("the end")


def test_a_long_message_is_cut() -> None:
    line = formatted("x" * 1_000_000)
    assert len(line) < MESSAGE_CHARACTERS + 100
    assert "characters in all" in line


@each_case("offset", range(0, 30, 3))
def test_no_part_of_a_secret_is_left_where_a_text_is_cut(offset: int) -> None:
    # Many secrets that become short move the end of the text that is read into the line.
    text = KEY * (4 * TRACEBACK_CHARACTERS // len(KEY) - 1) + "x" * offset + KEY
    line = formatted(text)
    assert KEY[:8] not in line.replace("[key]", "")


def test_a_secret_is_removed_from_arguments_and_tracebacks() -> None:
    line = formatted("asked with %r", {"key": KEY}, error=raised(f"Bearer {KEY}"))
    assert KEY not in line
    assert line.count("[key]") >= 2


def test_a_message_that_does_not_fit_its_arguments_is_reported() -> None:
    assert "cannot be formatted: TypeError" in formatted("%d of %d", KEY)


def test_an_object_that_cannot_be_shown_ends_nothing() -> None:
    class Broken:
        def __str__(self) -> str:
            raise RuntimeError(KEY)

    assert "cannot be formatted: RuntimeError" in formatted("%s", Broken())
