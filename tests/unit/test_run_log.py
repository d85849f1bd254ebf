from __future__ import annotations

import asyncio
import logging
import resource
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness import UsageError, run
from harness.core.logger import get_logger
from harness.reports.progress import NotesOnly
from harness.runs import run_log
from harness.runs.run_log import LOG, open_run_log
from harness.runs.run_secrets import SecretFilter

KEY = "correct-horse-battery-staple"
SECRETS = SecretFilter([KEY])


class Kept(logging.Handler):
    """A handler of the program that calls harness."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def kept() -> Iterator[Kept]:
    handler = Kept()
    logging.getLogger().addHandler(handler)
    yield handler
    logging.getLogger().removeHandler(handler)


@pytest.fixture
def harness_level() -> Iterator[Callable[[int], None]]:
    logger = logging.getLogger("harness")
    before = logger.level
    yield logger.setLevel
    logger.setLevel(before)


def never(text: str) -> None:
    raise AssertionError(f"nothing to note: {text}")


def lines_of(folder: Path) -> list[str]:
    return (folder / LOG).read_text().splitlines()


def test_events_reach_the_file_although_the_program_hides_them(tmp_path: Path, kept: Kept) -> None:
    with open_run_log(tmp_path, SECRETS, never) as log:
        log.write(logging.INFO, "begun")
        assert kept.records == []
    assert [line.split(" ", 1)[1] for line in lines_of(tmp_path)] == ["INFO harness.run: begun"]


def test_events_reach_the_program_once_it_asks_for_them(
    tmp_path: Path, kept: Kept, harness_level: Callable[[int], None]
) -> None:
    harness_level(logging.INFO)
    with open_run_log(tmp_path, SECRETS, never) as log:
        log.write(logging.INFO, f"begun with {KEY}\x1b[2J")
    assert [record.getMessage() for record in kept.records] == ["begun with [key]\\x1b[2J"]
    assert len(lines_of(tmp_path)) == 1


def test_records_of_modules_and_libraries_reach_the_file(tmp_path: Path) -> None:
    with open_run_log(tmp_path, SECRETS, never):
        get_logger("harness.models.client").warning("the key is %s", KEY)
        logging.getLogger("some.library").warning("two\nlines")
    assert [line.partition("WARNING ")[2] for line in lines_of(tmp_path)] == [
        "harness.models.client: the key is [key]",
        "some.library: two\\nlines",
    ]


def test_handlers_and_levels_are_as_before(tmp_path: Path) -> None:
    loggers = [logging.getLogger(), logging.getLogger("harness")]
    before = [(logger.level, list(logger.handlers), logger.propagate) for logger in loggers]
    with pytest.raises(ValueError, match="defect"), open_run_log(tmp_path, SECRETS, never):
        raise ValueError("defect")
    assert [(logger.level, list(logger.handlers), logger.propagate) for logger in loggers] == before


def test_the_end_by_an_error_is_logged_and_a_defect_with_its_traceback(tmp_path: Path) -> None:
    with pytest.raises(UsageError), open_run_log(tmp_path, SECRETS, never):
        raise UsageError("refused")
    with pytest.raises(ZeroDivisionError), open_run_log(tmp_path, SECRETS, never):
        _ = 1 / 0
    first, second, *below = lines_of(tmp_path)
    assert first.endswith("ERROR harness.run: the run has stopped: UsageError: refused")
    assert second.endswith("the run has stopped: ZeroDivisionError: division by zero")
    assert below[0] == "    | Traceback (most recent call last):"


async def test_two_runs_at_once_keep_their_records_apart(tmp_path: Path) -> None:
    both = asyncio.Barrier(2)

    async def log_in(name: str) -> None:
        folder = tmp_path / name
        folder.mkdir()
        with open_run_log(folder, SECRETS, never) as log:
            await both.wait()
            log.write(logging.INFO, f"event of {name}")
            await asyncio.to_thread(logging.getLogger("some.library").warning, "record of %s", name)
            await both.wait()

    async with asyncio.TaskGroup() as group:
        for name in ("one", "two"):
            group.create_task(log_in(name))
    for name in ("one", "two"):
        assert [line.partition(": ")[2] for line in lines_of(tmp_path / name)] == [
            f"event of {name}",
            f"record of {name}",
        ]


def test_a_thread_of_the_calling_program_is_not_logged(tmp_path: Path) -> None:
    with open_run_log(tmp_path, SECRETS, never):
        thread = threading.Thread(target=logging.getLogger("some.server").warning, args=["not of the run"])
        thread.start()
        thread.join()
    assert lines_of(tmp_path) == []


def test_notes_are_logged_and_shown_without_secrets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_run_log(tmp_path, SECRETS, never) as log:
        log.watch(NotesOnly(sys.stdout)).note(f"the server wrote {KEY}")
    assert capsys.readouterr().out == "the server wrote [key]\n"
    assert lines_of(tmp_path)[0].endswith("WARNING harness.run: the server wrote [key]")


def test_a_resumed_run_appends(tmp_path: Path) -> None:
    for text in ("first", "second"):
        with open_run_log(tmp_path, SECRETS, never) as log:
            log.write(logging.INFO, text)
    assert [line.rpartition(" ")[2] for line in lines_of(tmp_path)] == ["first", "second"]


def test_the_log_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_log, "MAX_BYTES", 1000)
    with open_run_log(tmp_path, SECRETS, never) as log:
        for number in range(200):
            log.write(logging.INFO, f"event {number}")
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == [LOG, f"{LOG}.1", f"{LOG}.2", f"{LOG}.3"]
    assert max(path.stat().st_size for path in tmp_path.iterdir()) < 1000 + 100
    assert lines_of(tmp_path)[-1].endswith("event 199")


def test_a_log_that_cannot_grow_ends_and_the_run_goes_on(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    notes: list[str] = []
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with open_run_log(tmp_path, SECRETS, notes.append) as log:
        # As on a full disk, no file of this process can grow.
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
        try:
            for _ in range(3):
                log.write(logging.INFO, KEY)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    (note,) = notes
    assert note.endswith("run.log: cannot be written: File too large; the log ends here")
    assert capfd.readouterr() == ("", "")


def test_a_log_that_cannot_be_opened_ends_no_run(tmp_path: Path) -> None:
    (tmp_path / LOG).mkdir()
    notes: list[str] = []
    with open_run_log(tmp_path, SECRETS, notes.append) as log:
        log.write(logging.INFO, "lost")
    assert "Is a directory; the run goes on without a log" in notes[0]


async def test_a_run_from_python_logs_and_prints_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    result = await run("gsm8k", agent="null", data="bundled", sample_size=2, output_dir=str(tmp_path))
    assert capfd.readouterr() == ("", "")
    first, second, *attempts, last = lines_of(result.folder)
    assert "starts run" in first
    assert "benchmark gsm8k (bundled: " in first
    assert second.endswith("2 attempts, up to 2 at once")
    assert all(": failed in " in line for line in attempts)
    assert len(attempts) == 2
    assert last.endswith("the attempts have ended")
