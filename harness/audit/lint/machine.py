"""The checks of task folders that need machines: the reference passes each time, and an empty agent does not.

The reference and the empty agent are attempts of one run.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.audit.agent import NULL, ORACLE, Step
from harness.audit.forging.suite import ForgingSuite
from harness.audit.lint.static import Finding, Severity
from harness.audit.results import NO_VERDICT
from harness.benchmarks.benchmark import Benchmark
from harness.core.types import AttemptRecord, Submission, Task
from harness.environments.container.environment import ContainerEnvironment
from harness.environments.container.task_folder import SOLUTION, TESTS, TaskFolder, list_included_files
from harness.environments.os.root_sandbox import UnreadableFiles
from harness.runs.agents.agent import AttemptContext, settings_for
from harness.runs.plan import limit_times, plan_attempts
from harness.runs.progress import RunObserver
from harness.runs.run import open_run
from harness.runs.selection import Selection
from harness.runs.settings import RunConfig

# The agent's name in the manifest.
LINTER = "lint"
# The metrics of an empty agent: the files of the tests in its machine, and the bytes of all files there.
LEAKED, IMAGE_BYTES = "leaked_files", "image_bytes"
MAX_FILES, MAX_FILE_BYTES, LEAST_BYTES = 2_000_000, 1 << 20, 40
MOST_IMAGE_BYTES = 4 << 30
# The share of a limit that should be left on a slower machine.
_HALF = 0.5
_SHOWN = 300


class Linter(ForgingSuite):
    """Runs the reference several times, and looks at the machine that an empty agent gets."""

    acts_unproven = True

    async def attempt(self, context: AttemptContext) -> Submission:
        environment = context.environment
        if context.sample is not None and self.steps[context.sample - 1].name == NULL:
            assert isinstance(environment, ContainerEnvironment)  # noqa: S101  a folder opens this one alone
            # A verdict on an empty agent needs no proven level.
            environment.seal_level = environment.seal_level or "work"
            self._measured[context.task.id, context.number] = await _look(environment)
        return await super().attempt(context)


async def _look(environment: ContainerEnvironment) -> Mapping[str, Any]:
    """Return the size of a machine's files, and those that have the bytes of a file of tests or solution."""
    sandbox = environment.machine.sandbox
    hidden = await asyncio.to_thread(_read_hidden, environment.folder)
    entries = await sandbox.list_all_changed(MAX_FILES, since_ns=0)
    files = [entry for entry in entries if entry.kind == "file"]
    leaked = [entry.path for entry in files if entry.path.startswith((f"/{TESTS}/", f"/{SOLUTION}/"))]
    for entry in files:
        if entry.size in hidden and entry.path not in leaked:
            try:
                found = await environment.machine.read_files([entry.path], limit=MAX_FILE_BYTES)
            except UnreadableFiles:
                continue
            leaked += [path for path, content in found.items() if content in hidden[entry.size]]
    return {LEAKED: leaked[:20], IMAGE_BYTES: sum(entry.size for entry in files)}


def _read_hidden(folder: TaskFolder) -> dict[int, list[bytes]]:
    """Return the contents of the files of tests and solution by their size, without small and large ones."""
    hidden: dict[int, list[bytes]] = {}
    for part in (TESTS, SOLUTION):
        for name in list_included_files(folder.path, part):
            path = Path(folder.path, part, name)
            if path.is_file() and LEAST_BYTES <= path.stat().st_size <= MAX_FILE_BYTES:
                content = path.read_bytes()
                hidden.setdefault(len(content), []).append(content)
    return hidden


async def run_checks(
    config: RunConfig, benchmark: Benchmark, tasks: Sequence[Task], *, repeat: int, observer: RunObserver
) -> tuple[Path, list[AttemptRecord]]:
    """Run the reference `repeat` times and an empty agent once on each task.

    Returns the run folder and the records. Raises the errors of `open_run` and `Run.execute`.
    """
    steps = [*[Step(ORACLE)] * repeat, Step(NULL)]
    suite = Linter(settings_for(benchmark), benchmark, steps)
    tasks = limit_times(tasks, config.timeout_seconds, config.timeout_multiplier)
    config = config.model_copy(update={"agent": LINTER})
    selection = Selection(config, benchmark, suite, plan_attempts(tasks, suite, seed=config.seed))
    async with open_run(selection, notify=observer.note) as run:
        await run.execute(observer)
        return run.folder, list(run.records())


def judge_attempts(folder: TaskFolder, records: Iterable[AttemptRecord], repeat: int) -> Iterator[Finding]:
    """Yield the findings on the attempts at a task. The first `repeat` ones are of the reference, if any."""
    by_line: dict[int, AttemptRecord] = {each.sample_line or 0: each for each in records}
    empty = by_line.pop(repeat + 1, None)
    references = list(by_line.values())

    def find(check: str, severity: Severity, message: str, hint: str) -> Finding:
        return Finding(check, severity, folder.name, message, hint)

    yield from _judge_references(references, folder, find)
    if empty is None:
        return
    if empty.resolved:
        hint = "let a test fail as long as nothing is done"
        yield find("empty agent", Severity.ERROR, "an agent that does nothing passes", hint)
    if leaked := empty.metrics.get(LEAKED):
        hint = "leave these files out of the image of the agent's machine"
        message = f"the agent's machine has files of the tests or the solution: {', '.join(leaked)}"
        yield find("leak", Severity.ERROR, message, hint)
    size = empty.metrics.get(IMAGE_BYTES, 0)
    if size > MOST_IMAGE_BYTES:
        hint = "use a smaller base, and remove caches in the step that makes them"
        yield find("image size", Severity.WARNING, f"the image has {size / (1 << 30):.1f} GiB", hint)


def _judge_references(
    references: Sequence[AttemptRecord], folder: TaskFolder, find: Any
) -> Iterator[Finding]:
    judged = [each for each in references if each.status not in NO_VERDICT]
    passed = [each for each in judged if each.resolved]
    failed = next((each for each in judged if not each.resolved), None)
    if failed is not None:
        ended = f"{failed.status}: {(failed.error or '')[:_SHOWN]}"
        if passed:
            hint = "remove what differs between runs: time, order, random numbers, the network"
            message = f"the reference passed {len(passed)} of {len(judged)} times; then {ended}"
            yield find("flaky", Severity.ERROR, message, hint)
        else:
            hint = f"mend {SOLUTION}/ or {TESTS}/; harness calibrate shows the outcome at each seal level"
            yield find("reference", Severity.ERROR, f"the reference does not pass: {ended}", hint)
    if not passed:
        return
    level = passed[0].metrics.get("seal")
    if level in ("all", "live"):
        hint = "let the tests depend on files in the working folder alone"
        message = f"the reference passes only at seal level {level}, where an agent can forge the tests"
        yield find("seal", Severity.WARNING, message, hint)
    seconds = max(each.metrics.get("tests_seconds", 0.0) for each in passed)
    limits = {"the tests": (seconds, folder.toml.verifier.timeout_sec)}
    if folder.toml.agent.timeout_sec is not None:
        acting = statistics.median(
            each.duration_seconds - each.metrics.get("tests_seconds", 0.0) for each in passed
        )
        limits["the reference"] = (acting, folder.toml.agent.timeout_sec)
    for what, (taken, limit) in limits.items():
        if taken > limit * _HALF:
            hint = "raise timeout_sec, because other machines are slower"
            yield find("wall time", Severity.WARNING, f"{what} took {taken:.0f} s of {limit:g} s", hint)
