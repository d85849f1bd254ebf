"""A run folder is data: a link under any of its names is neither followed, nor written through, nor read."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from case_checks import each_case

import harness
from harness.core.errors import HarnessError
from harness.models.messages import Usage
from harness.reports.run_folder import read_attempt, read_attempts, read_run
from harness.reports.run_list import read_listed_run
from harness.reports.viewer.transcript_follower import TranscriptFollower
from harness.runs.compared_run import read_compared_run
from harness.runs.config import RunConfig
from harness.runs.followed_index import FollowedIndex
from harness.runs.recorded_run import open_recording
from harness.runs.resume import read_resumed_config
from harness.runs.run_files import (
    append_to_run_file,
    create_run_file,
    hash_run_file,
    list_run_files,
    open_run_file,
    read_run_file,
)
from harness.runs.run_log import LOG, open_run_log
from harness.runs.run_names import list_run_folders
from harness.runs.run_secrets import SecretFilter
from harness.runs.run_starts import store_samples
from harness.runs.spending_log import SPENDING, RunSpending, SpendingLog, copy_spending, read_spending
from harness.runs.store import (
    ATTEMPTS,
    MANIFEST,
    REPORT,
    SAMPLES,
    SUMMARY,
    RunStore,
    read_duration,
    read_manifest,
    read_results,
)
from harness.runs.transcripts import (
    copy_transcripts,
    find_transcript,
    keep_transcript,
    measure_transcripts,
    read_entries,
)

PRIVATE = "a private key of the user"
TRANSCRIPT, SUPERSEDED = "transcripts/t-0.jsonl", "superseded/t-0-0.jsonl"
NAMES = (MANIFEST, ATTEMPTS, SUMMARY, REPORT, SAMPLES, SPENDING, LOG, TRANSCRIPT, SUPERSEDED)
# The links that an archive can hold.
LINKS = ("symbolic link", "symbolic link to nothing", "hard link", "link of a parent folder")
# Each name with each link. The user names the run folder itself, which is the parent of most files.
LINKED = [(name, kind) for name in NAMES for kind in LINKS if kind != LINKS[-1] or "/" in name]
FACTS = {
    "schema_version": 1,
    "run_id": "r",
    "benchmark": "b",
    "agent": "null",
    "source": "path",
    "data": {"kind": "path", "location": "l", "sha256": "s", "rows": 1},
    "images": {},
    "planned": {"tasks": 1, "attempts": 1, "task_ids": ["t"]},
    "config": {"benchmark": "b", "agent": "null", "samples": "/nonexistent/samples.jsonl"},
}
RECORD = {
    "task_id": "t",
    "attempt": 0,
    "category": None,
    "resolved": False,
    "status": "failed",
    "score": 0.0,
    "metrics": {},
    "agent_output": PRIVATE,
    "expected_output": "",
    "duration_seconds": 1,
    "error": None,
}


class Home:
    """A folder of the user's own, and a run folder of somebody else."""

    def __init__(self, place: Path) -> None:
        self.private = place / "home"
        self.run = place / "run"
        self.run.mkdir()
        (self.run / MANIFEST).write_text(json.dumps(FACTS))
        self.private.mkdir()
        # The private files are what each reader expects, so that only the rules keep it from them.
        contents: dict[str, Any] = {
            MANIFEST: {**FACTS, "run_id": PRIVATE},
            ATTEMPTS: RECORD,
            SUMMARY: {"duration_seconds": 17.5},
            SPENDING: {"input_tokens": 17, "output_tokens": 1, "cost": 17.5},
        }
        for name in NAMES:
            text = json.dumps(contents.get(name, {"prompt": PRIVATE})) + "\n"
            (self.private / Path(name).name).write_text(text)

    def link(self, name: str, kind: str) -> None:
        """Put a link under a name of the run folder."""
        path, target = self.run / name, self.private / Path(name).name
        path.unlink(missing_ok=True)
        if kind == "link of a parent folder":
            path.parent.symlink_to(self.private)
            return
        path.parent.mkdir(exist_ok=True)
        if kind == "hard link":
            path.hardlink_to(target)
        else:
            path.symlink_to(target if kind == "symbolic link" else self.private / "new")

    def read_private(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in sorted(self.private.iterdir())}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


# --- the rules


RULES: dict[str, Callable[[Path, str], Any]] = {
    "open": lambda folder, name: open_run_file(folder, name, max_bytes=1000),
    "read": read_run_file,
    "hash": lambda folder, name: hash_run_file(folder, name, max_bytes=1000),
    "append": append_to_run_file,
}


@each_case(("name", "kind"), LINKED)
def test_no_link_is_opened(tmp_path: Path, name: str, kind: str) -> None:
    home = Home(tmp_path)
    home.link(name, kind)
    before, descriptors = home.read_private(), len(os.listdir("/proc/self/fd"))
    for open_by_rule in RULES.values():
        with pytest.raises(OSError, match=r"is a symbolic link|has another name \(a hard link\)"):
            open_by_rule(home.run, name)
    assert home.read_private() == before
    assert len(os.listdir("/proc/self/fd")) == descriptors


@each_case("kind", ["symbolic link", "symbolic link to nothing", "hard link"])
def test_a_new_file_takes_the_place_of_a_link(home: Home, kind: str) -> None:
    home.link(TRANSCRIPT, kind)
    before = home.read_private()
    with os.fdopen(create_run_file(home.run, TRANSCRIPT), "w") as file:
        file.write("new")
    assert read_run_file(home.run, TRANSCRIPT) == b"new"
    assert home.read_private() == before


def test_a_new_file_is_not_made_behind_a_linked_folder(home: Home) -> None:
    home.link(TRANSCRIPT, "link of a parent folder")
    before = home.read_private()
    with pytest.raises(OSError, match="is a symbolic link"):
        create_run_file(home.run, TRANSCRIPT)
    assert home.read_private() == before


def test_the_names_behind_a_linked_folder_are_not_listed(home: Home) -> None:
    home.link(TRANSCRIPT, "link of a parent folder")
    with pytest.raises(OSError, match="is a symbolic link"):
        list_run_files(home.run, "transcripts")


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("make", "reason"),
    [(os.mkfifo, "is a named pipe"), (os.mkdir, "a folder|a directory")],
    ids=["pipe", "folder"],
)
def test_only_a_regular_file_is_opened(
    home: Home, make: Callable[[Path], None], reason: str, rule: str
) -> None:
    make(home.run / ATTEMPTS)
    with pytest.raises(OSError, match=f"(?i){reason}"):
        RULES[rule](home.run, ATTEMPTS)


@each_case("name", ["../home/run.log", "/etc/passwd", "a\0b", "\ud800", ".."])
def test_a_name_that_leaves_the_folder_is_refused(home: Home, name: str) -> None:
    before = home.read_private()
    for rule in (*RULES.values(), create_run_file):
        with pytest.raises(OSError):  # noqa: PT011  each name has another reason
            rule(home.run, name)
    assert home.read_private() == before


def test_a_run_folder_may_itself_be_reached_by_a_link(home: Home) -> None:
    (home.private / "link").symlink_to(home.run)
    assert b"schema_version" in read_run_file(home.private / "link", MANIFEST)


# --- every part of harness that writes or reads a run folder


def begin_transcript(folder: Path) -> None:
    with closing(RunStore(folder)) as store:
        store.begin_transcript("t", 0).write({"kind": "x"})


def write_text(name: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        with closing(RunStore(folder)) as store:
            store.write_text(name, "new")

    return write


def write_log(folder: Path) -> None:
    with open_run_log(folder, SecretFilter([]), lambda _: None) as log:
        log.write(30, "new")


def write_samples(folder: Path) -> None:
    (folder.parent / "samples").write_text("new")
    with closing(RunStore(folder)) as store:
        store_samples(store, folder.parent / "samples")


def supersede(folder: Path) -> None:
    (folder / "transcripts").mkdir()
    (folder / TRANSCRIPT).write_text("{}\n")
    keep_transcript(folder, "t", 0, 0)


WRITERS: dict[str, Callable[[Path], Any]] = {
    MANIFEST: write_text(MANIFEST),
    ATTEMPTS: lambda folder: RunStore(folder).close(),
    SUMMARY: write_text(SUMMARY),
    REPORT: write_text(REPORT),
    SAMPLES: write_samples,
    SPENDING: lambda folder: SpendingLog(folder, RunSpending()).append(Usage(1, 1), None, True),
    LOG: write_log,
    TRANSCRIPT: begin_transcript,
    SUPERSEDED: supersede,
}


@each_case(("name", "kind"), LINKED)
def test_no_write_to_a_run_folder_changes_a_file_elsewhere(tmp_path: Path, name: str, kind: str) -> None:
    home = Home(tmp_path)
    home.link(name, kind)
    before = home.read_private()
    with suppress(HarnessError, OSError):
        WRITERS[name](home.run)
    assert home.read_private() == before


def follow(folder: Path) -> Any:
    return TranscriptFollower(find_transcript(folder, "t", 0)).read(0, 0)


def copy_all(folder: Path) -> list[str]:
    other = folder.parent / "other"
    other.mkdir()
    copy_transcripts(folder, other, "t", 0, 1)
    return [path.read_text() for path in other.rglob("*.jsonl")]


def copy_requests(folder: Path) -> str:
    other = folder.parent / "other"
    other.mkdir()
    copy_spending([folder], other)
    return (other / SPENDING).read_text()


def read_index(folder: Path) -> list[Any]:
    index = FollowedIndex(folder)
    index.advance(1.0)
    return [*index, index.read(0)]


READERS: dict[str, list[Callable[[Path], Any]]] = {
    MANIFEST: [read_manifest, read_run, read_compared_run],
    ATTEMPTS: [
        read_results,
        read_index,
        read_run,
        read_compared_run,
        lambda folder: [*read_attempts(folder)],
        lambda folder: read_attempt(folder, "t", 0),
        lambda folder: open_recording(
            RunConfig.model_validate({"benchmark": "b", "agent": "replay", "replay_from": str(folder)})
        ),
        read_spending,
    ],
    SUMMARY: [read_duration, read_run],
    SPENDING: [read_spending, copy_requests, lambda folder: SpendingLog(folder, RunSpending())],
    SAMPLES: [read_resumed_config],
    TRANSCRIPT: [
        lambda folder: [*read_entries(find_transcript(folder, "t", 0))],
        lambda folder: keep_transcript(folder, "t", 0, 0),
        copy_all,
    ],
    SUPERSEDED: [copy_all],
}


@each_case(
    ("name", "kind", "read"),
    [
        (name, kind, read)
        for name, kind in LINKED
        if kind != "symbolic link to nothing"
        for read in READERS.get(name, ())
    ],
)
def test_every_reader_of_a_run_folder_refuses_a_link(
    tmp_path: Path, name: str, kind: str, read: Callable[[Path], Any]
) -> None:
    home = Home(tmp_path)
    home.link(name, kind)
    with pytest.raises((HarnessError, OSError), match=r"is a symbolic link|has another name"):
        read(home.run)


@pytest.mark.parametrize("kind", ["symbolic link", "hard link", "link of a parent folder"])
def test_the_viewer_shows_that_a_transcript_is_a_link(home: Home, kind: str) -> None:
    home.link(TRANSCRIPT, kind)
    shown = json.dumps(follow(home.run))
    assert "The transcript cannot be read: " in shown
    assert PRIVATE not in shown


@each_case("name", [MANIFEST, ATTEMPTS, SUMMARY])
def test_a_list_of_runs_shows_nothing_of_a_linked_file(home: Home, name: str) -> None:
    home.link(name, "symbolic link")
    assert home.run in list_run_folders(home.run.parent)
    assert "is a symbolic link" in repr(read_listed_run(home.run))


# --- sizes


def test_a_hole_of_a_sparse_transcript_is_not_copied(home: Home) -> None:
    (home.run / "transcripts").mkdir()
    (home.run / TRANSCRIPT).write_text("{}\n")
    os.truncate(home.run / TRANSCRIPT, 100_000)
    assert measure_transcripts(home.run, "t", 0, 3) == 100_000
    with pytest.raises(HarnessError, match="holds a zero byte"):
        copy_all(home.run)


def test_a_transcript_beyond_the_limit_is_not_copied(home: Home) -> None:
    (home.run / "transcripts").mkdir()
    (home.run / TRANSCRIPT).touch()
    os.truncate(home.run / TRANSCRIPT, 2**40)
    with pytest.raises(HarnessError, match="holds more than"):
        copy_all(home.run)


def test_only_requests_are_copied_from_a_log_of_spending(home: Home) -> None:
    line = '{"input_tokens": 1, "output_tokens": 1, "cost": null}\n'
    (home.run / SPENDING).write_bytes(line.encode() + bytes(50_000) + b"\n" + b"[1]\n" + line.encode())
    assert copy_requests(home.run) == line + line


# --- the principle


OPENING = re.compile(
    r"(?<![\w.])(?:open|open_input|read_input|hash_file)\(|\b(?:os\.open|shutil\.copy\w*)\("
    r"|(?<!self)\.(?:read|write)_(?:bytes|text)\("
)
# These open no file that is in a run folder when they begin.
OTHERS = {
    "runs/executors/messages.py": "the sources of the package",
    "runs/executors/node.py": "a copy of those files in a folder of the node",
    "runs/executors/ray_executor.py": "the data that the user names",
    "runs/manifest.py": "the files that the user names",
    "runs/merge.py": "the folder, for its lock",
    "runs/run_starts.py": "the samples that the user names",
    "runs/run_files.py": "the rules themselves; the folder, for its lock; a new temporary file",
    "runs/run_names.py": "the folder, for its lock",
    "runs/trust.py": "the secret of the user",
    "runs/shards.py": "the samples that a config names, by their hash",
    "reports/card.py": "a card that the user names",
    "reports/exports/harbor.py": "new files in the new folder of an export",
    "reports/page_file.py": "the page",
    "reports/imports/__init__.py": "a file of another project that the user names",
    "reports/imports/evalplus.py": "a program in a folder that the user names",
    "reports/imports/inspect.py": "a log that the user names",
    "reports/viewer/export.py": "new files in the new folder of published pages, and a new private file",
    "audit/attack.py": "an attack that is a part of harness",
    "audit/forging.py": "the texts of a task folder",
    "audit/lint.py": "the tests and the solution of a task folder",
    "audit/lint_files.py": "the files of a task folder",
}


def list_openings(folder: Path) -> Iterator[str]:
    for part in ("runs", "reports", "audit"):
        for path in (folder / part).rglob("*.py"):
            name = path.relative_to(folder).as_posix()
            calls = re.sub(r"\bdef \w+\(", "", path.read_text(encoding="utf-8"))
            if OPENING.search(calls) and not name.startswith(("audit/attacks/", "runs/agents/")):
                yield name


def test_one_module_opens_the_files_of_run_folders() -> None:
    assert sorted(list_openings(Path(harness.__file__).parent)) == sorted(OTHERS)
