"""The log of the service: JSON, a line a record, without the token."""

from __future__ import annotations

import json
import logging

import pytest
from case_checks import each_case

from harness.service.metrics import log_as_json

SECRET = "a-secret-token-of-a-service"


def read_lines(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_record_is_one_line_of_json_with_its_fields(capfd: pytest.CaptureFixture[str]) -> None:
    with log_as_json(1, secret=SECRET):
        logging.getLogger("harness.service.test").info("a\nb", extra={"status": 200})
    (line,) = read_lines(capfd.readouterr().err)
    assert (line["message"], line["status"], line["level"]) == ("a\nb", 200, "info")


def test_private_attributes_of_a_record_are_left_out(capfd: pytest.CaptureFixture[str]) -> None:
    with log_as_json(0, secret=SECRET):
        logging.getLogger("harness.service.test").warning("a", extra={"_of_a_library": 1})
    (line,) = read_lines(capfd.readouterr().err)
    assert sorted(line) == ["level", "logger", "message", "time"]


def test_the_token_is_never_in_the_log(capfd: pytest.CaptureFixture[str]) -> None:
    with log_as_json(2, secret=SECRET):
        logger = logging.getLogger("some.library")
        try:
            raise ValueError(f"at /{SECRET}/run_code")
        except ValueError:
            logger.exception("failed at %s", SECRET, extra={"path": f"/{SECRET}/x"})
    text = capfd.readouterr().err
    assert SECRET not in text
    assert text.count("[token]") >= 3


def test_the_escaped_token_of_a_url_is_not_in_the_log(capfd: pytest.CaptureFixture[str]) -> None:
    escaped = "".join(f"%{ord(each):02X}" if each in "-ae" else each for each in SECRET)
    with log_as_json(0, secret=SECRET):
        logging.getLogger("some.library").warning("GET /%s/ws and /%s/ws", escaped, escaped.lower())
    assert capfd.readouterr().err.count("/[token]/ws") == 2


def test_control_characters_of_a_client_are_escaped(capfd: pytest.CaptureFixture[str]) -> None:
    with log_as_json(0, secret=SECRET):
        logging.getLogger("harness.service.test").warning("\x1b[2J\u202e")
    assert capfd.readouterr().err.isascii()


@each_case(("verbosity", "expected"), [(0, 0), (1, 1)])
def test_requests_are_logged_only_if_wanted(
    verbosity: int, expected: int, capfd: pytest.CaptureFixture[str]
) -> None:
    with log_as_json(verbosity, secret=SECRET):
        logging.getLogger("harness.service.app").info("request")
    assert len(read_lines(capfd.readouterr().err)) == expected


def test_the_start_and_the_end_of_the_service_are_always_logged(capfd: pytest.CaptureFixture[str]) -> None:
    with log_as_json(0, secret=SECRET):
        logging.getLogger("harness.service.server").info("listening")
    (line,) = read_lines(capfd.readouterr().err)
    assert line["message"] == "listening"
