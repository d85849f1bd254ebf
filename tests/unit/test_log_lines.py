from __future__ import annotations

import logging
from pathlib import Path

from case_checks import each_case

from harness.cli.work import show_log
from harness.runs.run_log import LOG, open_run_log
from harness.runs.run_secrets import SecretFilter

KEY = "correct-horse-battery-staple"


def show_samples(verbosity: int) -> list[str]:
    """Return the lines that are shown for a record of each kind, without their times."""
    shown: list[str] = []
    with show_log(verbosity, shown.append, SecretFilter([KEY])):
        for name in ("harness.run", "harness.models.client", "library"):
            for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
                logging.getLogger(name).log(level, "text")
    return [line.partition(" ")[2].removesuffix(": text") for line in shown]


@each_case(
    ("verbosity", "expected"),
    [
        (0, ["WARNING harness.models.client", "ERROR harness.models.client", "ERROR library"]),
        (
            1,
            [
                "INFO harness.run",
                "INFO harness.models.client",
                "WARNING harness.models.client",
                "ERROR harness.models.client",
                "WARNING library",
                "ERROR library",
            ],
        ),
        (
            2,
            [
                f"{level} {name}"
                for name in ("harness.run", "harness.models.client", "library")
                for level in ("DEBUG", "INFO", "WARNING", "ERROR")
            ],
        ),
    ],
)
def test_each_level_shows_more(verbosity: int, expected: list[str]) -> None:
    assert show_samples(verbosity) == expected


def test_lines_are_safe() -> None:
    shown: list[str] = []
    with show_log(2, shown.append, SecretFilter([KEY])):
        logging.getLogger("docker").debug("%s\x1b[2J\n%s", KEY, "forged")
    assert [line.partition(": ")[2] for line in shown] == ["[key]\\x1b[2J\\nforged"]


@each_case(
    "library",
    [
        "openai._base_client",
        "httpx2",
        "httpcore2.http11",
        "docker.api",
        "urllib3",
        "mcp.client",
        "docker.transport",
    ],
)
def test_no_library_writes_a_secret_to_the_terminal_or_the_log(library: str, tmp_path: Path) -> None:
    shown: list[str] = []
    secrets = SecretFilter([KEY])
    with show_log(2, shown.append, secrets), open_run_log(tmp_path, secrets, shown.append):
        logger = logging.getLogger(library)
        logger.debug("headers: %r", [(b"x-key", KEY.encode())], stack_info=True)
        try:
            raise ConnectionError(f"refused {KEY}")
        except ConnectionError:
            logger.exception("request failed: %s", KEY)
    written = "\n".join([*shown, (tmp_path / LOG).read_text()])
    assert KEY not in written
    assert written.count(f"DEBUG {library}: headers") == 2
    assert written.count("ConnectionError: refused [key]") == 2


def test_the_loggers_of_the_process_are_as_before() -> None:
    loggers = [logging.getLogger(), logging.getLogger("harness")]
    before = [(logger.level, list(logger.handlers)) for logger in loggers]
    show_samples(2)
    assert [(logger.level, list(logger.handlers)) for logger in loggers] == before


@each_case("library", ["asyncio", "docker.auth", "docker.utils.config"])
def test_details_of_a_library_that_are_about_no_request_are_hidden(library: str) -> None:
    shown: list[str] = []
    logger = logging.getLogger(library)
    with show_log(2, shown.append, SecretFilter([])):
        logger.debug("Using selector: EpollSelector")
        logger.warning("slow callback")
    assert [line.partition(" ")[2] for line in shown] == [f"WARNING {library}: slow callback"]
    assert not logging.getLogger("asyncio").level
