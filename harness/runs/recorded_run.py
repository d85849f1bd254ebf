"""A recorded run for the agent `replay`: its settings, its attempts and their steps, read from its folder.

Nothing in the folder is trusted. Every read is bounded, and only texts and numbers come out.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.benchmarks.benchmark import Benchmark
from harness.benchmarks.custom import is_own
from harness.benchmarks.loading import definition_of
from harness.benchmarks.options import list_option_effects
from harness.core.errors import DataError, UsageError
from harness.core.invalid_values import quote_value
from harness.core.text import escape_terminal, quote_argument
from harness.core.types import AttemptRecord, Phase, Submission, Task
from harness.runs.agents.recording import (
    RecordedAttempt,
    RecordedJudgement,
    RecordedStep,
    read_judgements,
    read_steps,
)
from harness.runs.attempt_index import ATTEMPTS, MAX_ATTEMPTS_BYTES, STATUSES
from harness.runs.followed_index import read_index
from harness.runs.manifest import hash_definition
from harness.runs.records import MAX_TEXT_CHARACTERS, PlannedAttempt
from harness.runs.resume import read_resumed_config
from harness.runs.run_files import hash_run_file
from harness.runs.run_names import find_run, is_running
from harness.runs.settings import KEYS, RunConfig
from harness.runs.store import read_manifest, read_records_at
from harness.runs.transcripts import find_transcript
from harness.runs.trust import (
    describe_resume,
    describe_untaken,
    drop_excess,
    find_excess,
    is_signed,
    list_untaken,
    refuse_effects,
)

_REPLAY = "replay"
_SHOWN_LIMIT = 100
_NAMED_TASKS = 3
# The name of a transcript holds the number of its attempt.
_MOST_ATTEMPTS = 10**9 - 1


def add_recorded_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a config with the settings of the recorded run that `replay_from` names.

    The values come before the settings of the recorded run. `replay_from` becomes an absolute path. Values
    without it stay as they are. The file of a benchmark and limits beyond the defaults are taken only from
    a run that this user has started on this machine. Raises UsageError for a run that cannot be read.
    """
    name = values.get("replay_from")
    if not isinstance(name, str):
        if name is None and values.get("agent") == _REPLAY:
            raise UsageError(
                "agent 'replay' needs a recorded run", hint="add --from RUN, such as --from latest"
            )
        return dict(values)
    output_dir = values.get("output_dir")
    folder = find_run(name, Path(output_dir) if isinstance(output_dir, str) else None)
    manifest = read_manifest(folder)
    config = read_resumed_config(folder, manifest)
    chosen = values.get("benchmark", config.benchmark)
    is_own = is_signed(manifest)
    if _names_file(config.benchmark) and "benchmark" not in values and not is_own:
        # The folder may be of somebody else, and the file of a benchmark runs on the host.
        raise UsageError(
            f"{folder}: is a run of a benchmark in a file, which a replay takes from no unknown run folder",
            hint=f"name the file if you trust it: -b {quote_argument(config.benchmark)}",
        )
    if not _names_file(chosen) and chosen not in (manifest["benchmark"], config.benchmark):
        raise UsageError(
            f"{folder}: is a run of {quote_value(manifest['benchmark'])}, not of {quote_value(chosen)}",
            hint="leave out the benchmark, because a replay takes it from the recorded run",
        )
    if not is_own:
        config = config.model_copy(update={"benchmark": chosen})
        _refuse_option_effects(folder, config, values)
        config = drop_excess(config, find_excess(config))
    default = RunConfig(benchmark=config.benchmark)
    kept = {
        name: getattr(config, name)
        for name, key in KEYS.items()
        if key.rules.is_replayed and getattr(config, name) != getattr(default, name)
    }
    return {"benchmark": chosen, **kept, **values, "replay_from": os.path.abspath(folder)}


def _refuse_option_effects(folder: Path, config: RunConfig, values: Mapping[str, Any]) -> None:
    """Raise UsageError if a replay would take options with an effect from a folder of somebody else."""
    if "options" not in values and config.options:
        effects = list(list_option_effects(definition_of(config.benchmark).options, config.options))
        refuse_effects(folder, effects, hint="name the options that you accept with --option")


def _names_file(benchmark: Any) -> bool:
    # The same rule as that of the import. Otherwise a name such as OWN.PY would pass here, and be run there.
    return isinstance(benchmark, str) and (is_own(benchmark) or os.sep in benchmark)


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """The attempts of a run folder, read when they are needed. It is a `Recording`."""

    folder: Path
    manifest: Mapping[str, Any]
    # The offset in `attempts.jsonl` of the last record of each attempt that has a verdict.
    offsets: Mapping[tuple[str, int], int]
    # The numbers of these attempts, by task id.
    numbers: Mapping[str, Sequence[int]]
    # The number of attempts that have a record and no verdict.
    unfinished: int

    @property
    def name(self) -> str:
        return str(self.folder)

    @property
    def task_ids(self) -> frozenset[str]:
        return frozenset(self.numbers)

    @property
    def categories(self) -> list[str]:
        """The categories whose data the recorded run read, [] for all.

        A replay reads those of the run that it replays, which its own config does not hold.
        """
        replayed = self.manifest.get("replay")
        found = replayed.get("categories") if isinstance(replayed, dict) else None
        if isinstance(found, list) and all(type(name) is str for name in found):
            return found
        return read_resumed_config(self.folder).filter_category

    def describe(self) -> dict[str, Any]:
        """Return the facts about the recorded run that a manifest holds."""
        return {
            "run_id": self.manifest["run_id"],
            "agent": self.manifest["agent"],
            "harness_version": self.manifest.get("harness_version"),
            "git_revision": self.manifest.get("git_revision"),
            "data_sha256": self.manifest["data"]["sha256"],
            "categories": self.categories,
            "image_tags": self.manifest.get("image_tags"),
            "attempts_sha256": _hash_attempts(self.folder),
        }

    def plan(self, tasks: Iterable[Task], seed: int) -> list[PlannedAttempt]:
        """Return the recorded attempts at tasks, with their own numbers. `seed` is that of the replay."""
        return [
            PlannedAttempt(task, number, None, seed)
            for task in tasks
            for number in self.numbers.get(task.id, ())
        ]

    def read_attempt(self, task_id: str, number: int) -> RecordedAttempt:
        record = self._read_record(task_id, number)
        phase = record.metrics.get("phase")
        limit = record.metrics.get("limit")
        return RecordedAttempt(
            status=record.status,
            score=record.score,
            phase=Phase(phase) if phase in list(Phase) else None,
            limit=escape_terminal(limit, _SHOWN_LIMIT) if isinstance(limit, str) else None,
            error=None if record.error is None else escape_terminal(record.error),
            submission=self._read_submission(record),
        )

    def _read_record(self, task_id: str, number: int) -> AttemptRecord:
        try:
            offset = self.offsets[task_id, number]
            (record,) = read_records_at(self.folder / ATTEMPTS, [offset], whole=True)
        except KeyError:
            raise DataError(f"has no attempt {number} at this task", path=self.folder / ATTEMPTS) from None
        except UsageError as error:
            raise DataError(error.message) from error
        except OSError as error:
            raise DataError(f"cannot be read: {error.strerror}", path=self.folder / ATTEMPTS) from error
        if (record.task_id, record.attempt) != (task_id, number):
            raise DataError("has changed since the replay began", path=self.folder / ATTEMPTS)
        return record

    def _read_submission(self, record: AttemptRecord) -> Submission | None:
        """Return the submission of a record, None if the agent handed nothing in. Raises DataError."""
        text = record.submission
        if text is None:
            if record.metrics.get("phase") == Phase.AGENT:
                return None
            raise DataError(
                f"attempt {record.attempt} has no whole submission, because an earlier version wrote it",
                path=self.folder / ATTEMPTS,
            )
        if len(text) > MAX_TEXT_CHARACTERS:
            raise DataError(
                f"attempt {record.attempt} has a submission of more than {MAX_TEXT_CHARACTERS:,} characters, "
                "which was cut when it was recorded",
                path=self.folder / ATTEMPTS,
            )
        output = record.agent_output_full
        return Submission(text, agent_output=text if output is None else output)

    @contextlib.contextmanager
    def open_steps(self, task_id: str, number: int) -> Iterator[Callable[[], RecordedStep | None]]:
        rounds = self._read_record(task_id, number).metrics.get("rounds")
        path = find_transcript(self.folder, task_id, number)
        is_oracle = self.manifest["agent"] == "oracle"
        with closing(read_steps(path, rounds if type(rounds) is int else None, is_oracle)) as steps:
            yield lambda: next(steps, None)

    def read_judgements(self, task_id: str, number: int) -> Generator[RecordedJudgement, None, None]:
        return read_judgements(find_transcript(self.folder, task_id, number))


def open_recording(config: RunConfig) -> RecordedRun | None:
    """Return the recorded run that a config names, None if it names none.

    Raises UsageError for a run that is under way, that has no attempts with a verdict, or cannot be read.
    """
    if config.replay_from is None:
        return None
    folder = Path(config.replay_from)
    if is_running(folder):
        raise UsageError(f"{folder}: this run is under way", hint="replay it when it has ended")
    manifest = read_manifest(folder)
    index = read_index(folder)
    if wrong := index.select("SELECT number FROM attempts WHERE number NOT BETWEEN 0 AND ?", _MOST_ATTEMPTS):
        raise UsageError(f"{folder / ATTEMPTS}: holds an attempt with the number {wrong[0][0]}")
    rows = index.scan("task, number, offset, status")
    offsets = {(task, number): offset for task, number, offset, at in rows if STATUSES[at].has_score}
    if not offsets:
        raise UsageError(
            f"{folder}: no attempt of this run has a verdict, so nothing can be replayed",
            hint=f"finish it: {describe_resume(folder, manifest)}",
        )
    numbers: dict[str, list[int]] = {}
    for task_id, number in sorted(offsets):
        numbers.setdefault(task_id, []).append(number)
    return RecordedRun(folder, manifest, offsets, numbers, len(index) - len(offsets))


def check_recording(
    recording: RecordedRun, benchmark: Benchmark, config: RunConfig, notify: Callable[[str], None]
) -> None:
    """Report everything about a recorded run that makes observations differ, before the replay starts.

    Raises UsageError for a run of another benchmark, and for recorded tasks that the benchmark lacks.
    """
    manifest, folder = recording.manifest, recording.folder
    if benchmark.name != manifest["benchmark"]:
        raise UsageError(
            f"{folder}: is a run of {quote_value(manifest['benchmark'])}, not of '{benchmark.name}'"
        )
    wanted = recording.task_ids.intersection(config.task_ids or recording.task_ids)
    missing = sorted(wanted - {task.id for task in benchmark.tasks})
    if missing:
        named = ", ".join(escape_terminal(task_id, _SHOWN_LIMIT) for task_id in missing[:_NAMED_TASKS])
        raise UsageError(
            f"{folder}: {len(missing):,} of its tasks are not in this data: {named}",
            hint="name the data of the recorded run with --data, or the tasks to replay with -t",
        )
    taken = {"data": config.data, **config.options}
    places = [f"{name}={value}" for name, value in taken.items() if value not in (None, "bundled", "hub")]
    if places:
        shown = escape_terminal(", ".join(places))
        notify(f"settings for the data, from the recorded run unless you name others: {shown}")
    if benchmark.source.sha256 != manifest["data"]["sha256"]:
        notify("the data differ from the recorded run's, so observations may differ")
    if manifest.get("definition_sha256") != hash_definition(benchmark):
        notify(f"{config.benchmark} has changed since the recorded run, so observations may differ")
    if config.seed != manifest["config"].get("seed", 0):
        notify("the seed is not the recorded run's, so environments may draw something else")
    if not is_signed(manifest):
        excess = find_excess(read_resumed_config(folder, manifest), benchmark.definition.environments)
        if untaken := list_untaken(excess, config):
            notify(f"{describe_untaken(untaken)}; a config of yours can set them")
    if recording.unfinished:
        notify(f"{recording.unfinished:,} recorded attempts have no verdict, and are not replayed")


def require_same_recording(folder: Path, manifest: Mapping[str, Any], recording: RecordedRun | None) -> None:
    """Raise UsageError if a resumed replay would replay other attempts than at its start."""
    if recording is None:
        return
    began = manifest.get("replay")
    if not isinstance(began, dict) or began.get("attempts_sha256") != _hash_attempts(recording.folder):
        raise UsageError(
            f"{folder}: the recorded run has changed since this replay started: {recording.folder}",
            hint="restore its folder, or start a new replay",
        )


def _hash_attempts(folder: Path) -> str:
    try:
        return hash_run_file(folder, ATTEMPTS, max_bytes=MAX_ATTEMPTS_BYTES)
    except OSError as error:
        raise UsageError(f"{folder / ATTEMPTS}: cannot be read: {error.strerror}") from error
