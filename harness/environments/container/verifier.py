"""Run a task's own tests in a machine as Harbor does, and read the reward that they leave.

The machine has an image, tools and settings of its own. The tests are put into it when nothing of an agent
can run there, and the reward is read when nothing runs there any more. Their exit code is not the verdict.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.core.text import escape_text, shorten
from harness.environments.container import task_folder
from harness.environments.container.machine import SH, Machine
from harness.environments.container.reward import (
    MAX_REWARD_BYTES,
    OUTPUT,
    REPORT_VARIABLES,
    REWARD_JSON,
    REWARD_TEXT,
    HiddenTest,
    InvalidReward,
    Reward,
    asks_for_reports,
    find_missing_tool,
    find_unreported,
    list_tests,
    read_reward,
)
from harness.environments.container.seal import ARTIFACTS, LOGS, TESTS
from harness.environments.container.task_folder import TaskFolder
from harness.environments.os.file_entries import UnreadableFiles

if TYPE_CHECKING:
    pass

SCRIPT = f"{TESTS}/{task_folder.TEST_SCRIPT}"
VERIFIER_LOGS, AGENT_LOGS = f"{LOGS}/verifier", f"{LOGS}/agent"
# The report of pytest's plugin for CTRF, by the name that task folders give it.
CTRF = f"{VERIFIER_LOGS}/ctrf.json"
MAX_OUTPUT_BYTES = 16 << 20
KEPT_CHARACTERS = 2000
# The shell opens the file of the output itself, so that tests find it where Harbor puts it.
_RUN = f"exec {SCRIPT} >{OUTPUT} 2>&1"


@dataclass(frozen=True, slots=True)
class Tests:
    """The tests of a task: their files, and how they run."""

    # The folders of the tests, and the paths below each that reach the machine, later ones over earlier ones.
    # Empty if its image brings the tests.
    parts: tuple[tuple[Path, tuple[str, ...]], ...]
    # The text of the scripts for a shell.
    script: str
    # The tests that the output must mention if the reward says that all passed.
    hidden: tuple[HiddenTest, ...]
    seconds: float
    user: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    # Whether the script asks pytest for no report, so that we do.
    adds_reports: bool = False
    # The names that objects of an agent have at the level `proxied`, None for every name.
    object_names: tuple[str, ...] | None = None
    # Runs the text that starts the script.
    command: tuple[str, ...] = (SH, "-c")


def read_tests(folder: TaskFolder, pass_env: tuple[str, ...] = ()) -> Tests:
    """Return the tests of a task folder. Raises UsageError for a variable of the verifier that is not set."""
    table = folder.toml.verifier
    parts = tuple(
        (Path(folder.path, part), tuple(task_folder.list_included_files(folder.path, part)))
        for part in folder.tests
    )
    files = {name: place / name for place, names in parts for name in names}
    # test.sh may call other scripts.
    scripts = [path for name, path in files.items() if name.endswith(".sh") and path.is_file()]
    script = "\n".join(path.read_text("utf-8", "replace") for path in scripts)
    hidden = list_tests(files.values(), script)
    return Tests(
        parts=parts,
        script=script,
        hidden=hidden,
        adds_reports=bool(hidden) and not asks_for_reports(script),
        seconds=table.timeout_sec,
        user=None if table.user is None else str(table.user),
        env=task_folder.resolve_env(table.env, pass_env, place="[verifier.env]"),
    )


@dataclass(frozen=True, slots=True)
class TestsRun:
    """The end of a run of the tests. `problem` says why there is no reward."""

    reward: Reward | None
    problem: str | None = None
    # The limit that ended the tests.
    reached: str | None = None
    seconds: float = 0.0
    output: str = ""
    # The tests that the reward counts as passed and that no report mentions.
    unreported: tuple[str, ...] = ()
    # The line that says that a tool of the tests did not start.
    missing_tool: str | None = None
    # The facts about the run beside its output, for the metrics.
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def shown_output(self) -> str:
        """The end of the output, for people."""
        return escape_text(shorten(self.output.strip(), KEPT_CHARACTERS, keep_end=True))


async def clear_folders(machine: Machine) -> None:
    """Remove the logs of a machine but its artifacts, whatever is there, and make their folders anew.

    Raises UnreadableFiles, SandboxError.
    """
    folders = [LOGS, VERIFIER_LOGS, AGENT_LOGS, ARTIFACTS]
    found = await machine.sandbox.describe([LOGS, ARTIFACTS])
    kept = [path for path in (LOGS, ARTIFACTS) if path in found and found[path].kind == "folder"]
    removed = [LOGS] if LOGS not in kept else [path for path in folders if path not in kept]
    made = [
        _folder(path, 0o777 if path != LOGS else 0o755)
        for path in folders
        if path not in kept or LOGS in removed
    ]
    absent = [{"path": path, "kind": "absent"} for path in removed]
    await machine.sandbox.make_files(make=[*absent, *made], finish=made)


def _folder(path: str, mode: int) -> Mapping[str, Any]:
    return {"path": path, "kind": "folder", "mode": mode, "uid": 0, "gid": 0, "mtime_ns": time.time_ns()}


async def run_tests(machine: Machine, tests: Tests) -> TestsRun:
    """Put the tests into a machine, run them, end every process, and return their reward.

    Raises UnreadableFiles if the machine cannot take the tests, and SandboxError.
    """
    await clear_folders(machine)
    for number, (place, names) in enumerate(tests.parts):
        await machine.put_files(place, TESTS, names=names, fresh=number == 0)
    if not await _make_executable(machine):
        return TestsRun(None, f"the machine of the tests has no {SCRIPT}")
    started = time.monotonic()
    env = {**REPORT_VARIABLES, **tests.env} if tests.adds_reports and tests.hidden else tests.env
    result = await machine.exec([*tests.command, _RUN], user=tests.user, env=env, timeout=tests.seconds)
    seconds = time.monotonic() - started
    await machine.kill_processes()
    output = (await _read_log(machine, OUTPUT) or b"").decode("utf-8", "replace") + str(result.stderr)
    try:
        await _require_folders(machine)
        reward = read_reward(
            await _read_reward_file(machine, REWARD_JSON), await _read_reward_file(machine, REWARD_TEXT)
        )
    except InvalidReward as error:
        return TestsRun(
            None, str(error), result.limit, seconds, output, missing_tool=find_missing_tool(output)
        )
    reports = [report for report in [await _read_log(machine, CTRF)] if report is not None]
    unreported = tuple(find_unreported(tests.hidden, output, reports))
    return TestsRun(reward, None, result.limit, seconds, output, unreported, find_missing_tool(output))


async def _make_executable(machine: Machine) -> bool:
    """Let every user run the script of the tests, and return whether there is one."""
    found = (await machine.sandbox.describe([SCRIPT])).get(SCRIPT)
    if found is None or found.kind != "file":
        return False
    entry = {
        "path": SCRIPT,
        "kind": "file",
        "uid": found.uid,
        "gid": found.gid,
        "mode": found.mode | 0o111,
        "mtime_ns": found.mtime_ns,
    }
    await machine.sandbox.make_files(finish=[entry])
    return True


async def _require_folders(machine: Machine) -> None:
    found = await machine.sandbox.describe([LOGS, VERIFIER_LOGS])
    for path in (LOGS, VERIFIER_LOGS):
        if path not in found or found[path].kind != "folder":
            raise InvalidReward(f"the tests left no folder {path}")


async def _read_reward_file(machine: Machine, path: str) -> bytes | None:
    """Return the bytes of a reward, None if there is no such file. Raises InvalidReward for anything else."""
    try:
        return (await machine.read_files([path], limit=MAX_REWARD_BYTES)).get(path)
    except UnreadableFiles as error:
        raise InvalidReward(escape_text(shorten(str(error), 200))) from error


async def _read_log(machine: Machine, path: str) -> bytes | None:
    """Return the bytes of a log, or at most the first of them. None if it is not a file."""
    found = (await machine.sandbox.describe([path])).get(path)
    if found is None or found.kind != "file":
        return None
    return await machine.sandbox.read_ranges([(path, 0, min(found.size, MAX_OUTPUT_BYTES))])
