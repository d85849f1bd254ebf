"""Run a task's own tests in a machine as Harbor does, and read the reward that they leave.

The machine has an image, tools and settings of its own. The tests are put into it when nothing of an agent
can run there, and the reward is read when nothing runs there any more. Their exit code is not the verdict.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.core.errors import DataError, SandboxError, UsageError
from harness.core.text import escape_text, shorten
from harness.environments.base import MachineRules
from harness.environments.container import task_folder
from harness.environments.container.images import choose_limits, find_image, grading_variables, prepare_tools
from harness.environments.container.machine import SH, Machine, inspect_image, open_machine
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
from harness.environments.container.services import open_group, tests_name_service
from harness.environments.container.task_folder import ENVIRONMENT, TaskFolder, resolve_env
from harness.environments.os.root_sandbox import UnreadableFiles
from harness.sandbox.backends.base import BuiltImage, JoinedContainer, RunsForeignImages
from harness.sandbox.limits import Limits

if TYPE_CHECKING:
    from harness.environments.container.environment import ContainerEnvironment

SCRIPT = f"{TESTS}/{task_folder.TEST_SCRIPT}"
VERIFIER_LOGS, AGENT_LOGS = f"{LOGS}/verifier", f"{LOGS}/agent"
# The report of pytest's plugin for CTRF, by the name that task folders give it.
CTRF = f"{VERIFIER_LOGS}/ctrf.json"
MAX_OUTPUT_BYTES = 16 << 20
KEPT_CHARACTERS = 2000
# The shell opens the file of the output itself, so that tests find it where Harbor puts it.
_RUN = f"exec {SCRIPT} >{OUTPUT} 2>&1"
# The time that the machine may take beside its tests.
MARGIN_SECONDS = 300.0


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


class NoVerifierMachine(Exception):
    """The machine of the tests cannot be had, because its image or its tools cannot be built."""


@dataclass(frozen=True, slots=True)
class VerifierMachine:
    """The machine of a task's tests, before it starts."""

    image: str
    tests: Tests
    cwd: str | None
    env: Mapping[str, str]
    limits: Limits
    # Whether the verifier has a machine of its own, which gets declared artifacts alone.
    is_separate: bool
    # Whether the image has tools that the agent's machine lacks.
    has_tools: bool
    # Whether the tests reach services, which start anew for them.
    has_services: bool = False


async def choose_verifier_machine(
    opened: ContainerEnvironment, folder: TaskFolder, tests: Tests
) -> VerifierMachine:
    """Return the machine for the tests of a task: a copy of the agent's, or the verifier's own.

    Raises NoVerifierMachine, and SandboxError for a fault of the engine.
    """
    try:
        return await _choose(opened, folder, tests)
    except (SandboxError, UsageError, DataError) as error:
        if isinstance(error, SandboxError) and error.outside:
            raise
        raise NoVerifierMachine(error.message) from error


async def _choose(opened: ContainerEnvironment, folder: TaskFolder, tests: Tests) -> VerifierMachine:
    backend = opened.context.pool.backend
    assert isinstance(backend, RunsForeignImages)  # noqa: S101  because it has started the agent's machine
    machine, image = opened.machine, opened.image
    cwd: str | None = machine.cwd
    env, limits = machine.env, machine.sandbox.limits
    own = folder.toml.verifier.environment
    is_separate = folder.toml.verifier_mode() == "separate"
    if is_separate:
        table = own or folder.toml.environment
        build = None if table.docker_image else folder.verifier_build
        if build is not None or own is not None:
            place = Path(folder.path, build or ENVIRONMENT)
            image = await find_image(opened.context, folder, table, place)
            facts = await inspect_image(backend, image.id)
            cwd, env = table.workdir or facts.folder, facts.environment
            limits = choose_limits(opened.context.settings.limits, table, folder)
        if build is not None:
            # The image brings the tests.
            tests = replace(tests, parts=())
        env = {**env, **resolve_env(table.env, opened.setup.pass_env, place="verifier.environment.env")}
    rules = opened.context.machine_rules or MachineRules()
    tools = None
    if not rules.grading_network:
        tools = await prepare_tools(backend, image, tests.script, await _find_user(backend, image), rules)
    if tools is not None:
        path = env.get("PATH", machine.env["PATH"])
        tests = replace(tests, env={**tests.env, **grading_variables(path)})
    return VerifierMachine(
        *(tools or image.id, tests, cwd, env, limits),
        is_separate=is_separate,
        has_tools=tools is not None,
        has_services=not is_separate
        and opened.services is not None
        and any(tests_name_service(opened.services.compose, place) for place, _ in tests.parts),
    )


async def _find_user(backend: RunsForeignImages, image: BuiltImage) -> str:
    return (await inspect_image(backend, image.id)).user


@contextlib.asynccontextmanager
async def open_verifier_machine(
    opened: ContainerEnvironment, chosen: VerifierMachine, *, attached: bool = False
) -> AsyncIterator[Machine]:
    """Start the machine of the tests from its pristine image, without a network by default, and yield it.

    Its services, if the tests reach any, are new too, and no agent has reached them. An `attached` machine
    reaches the services as the agent left them: the task's services, or else the ones in the agent's machine.
    """
    rules = opened.context.machine_rules or MachineRules()
    seconds, settings = chosen.tests.seconds + MARGIN_SECONDS, opened.context.settings
    main = functools.partial(
        open_machine,
        opened.context.pool,
        chosen.image,
        seconds=seconds,
        settings=settings,
        limits=chosen.limits,
        cwd=chosen.cwd,
        env=chosen.env,
    )
    if attached:
        place = opened.place or JoinedContainer(opened.machine.sandbox.container_id)
        async with main(network=place, nested=True) as machine:
            yield machine
        return
    if opened.services is None or not chosen.has_services:
        async with main(nested=True, network=rules.grading_network) as machine:
            yield machine
        return
    services = replace(opened.services, is_public=rules.grading_network, hosts=None)
    async with open_group(
        *(opened.context.pool, services, main), settings=settings, seconds=seconds, nested=True
    ) as group:
        yield group.main
