"""Read the attempts of a run for an export, one at a time, without secrets."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.core.errors import UsageError, unknown_task
from harness.core.types import AttemptRecord, Status
from harness.reports.recorded_attempts import read_seconds
from harness.reports.run_folder import StoredRun
from harness.reports.trajectories.turns import Part, read_parts
from harness.runs.attempt_index import ATTEMPTS
from harness.runs.manifest import read_api, read_model_name
from harness.runs.run_files import has_run_file, split_nested
from harness.runs.run_secrets import SecretFilter, list_environment_secrets, list_named_variables
from harness.runs.store import read_records_at
from harness.runs.transcripts import find_transcript, read_entries, read_numbered_entries

# The largest whole number that the int64 of Protocol Buffers holds.
_LARGEST = 2**63 - 1
_GENERATION = ("temperature", "top_p", "max_tokens", "seed", "frequency_penalty", "presence_penalty")


class Portable:
    """Replaces secrets in values, and what strict readers of JSON refuse. It counts the replaced secrets."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._filter = SecretFilter(secrets.values())
        self.hidden = 0

    def clean(self, value: Any) -> Any:
        """Return a copy of a JSON value without secrets.

        Half a surrogate pair becomes an escape. A number that is not finite, or does not fit into 64 bits,
        becomes text. `json.dumps` writes all of these, but strict readers refuse them.
        """
        if isinstance(value, str):
            return self.clean_text(value)
        if isinstance(value, Mapping):
            return {self.clean_text(str(name)): self.clean(item) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.clean(item) for item in value]
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else str(value)
        if isinstance(value, int):
            return value if abs(value) <= _LARGEST else str(value)
        return self.clean_text(str(value))

    def clean_text(self, text: str) -> str:
        """Return a text without secrets and without halves of surrogate pairs."""
        found = self._filter.remove_from(text)
        self.hidden += found != text
        return found if found.isascii() else found.encode("utf-8", "backslashreplace").decode("utf-8")


def list_secrets(config: Mapping[str, Any], environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the values that no export may hold, by the names of their environment variables.

    These are the variables that the run's config names for keys, and all whose name says that they hold one.

    Args:
        config: the `config` of a manifest.
        environment: the environment of this process.
    """
    return list_environment_secrets(environment, names=list_named_variables(config))


def drop_none(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values without those that are None. Readers take a missing field for an unknown one."""
    return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True)
class ExportedAttempt:
    """An attempt that has ended, with its whole texts. Its values hold no secret."""

    record: AttemptRecord
    # When the attempt began and ended, in seconds since 1970.
    started: float
    ended: float
    # Whether `started` is the run's, because an earlier version of harness stored no time.
    is_estimated: bool
    _transcript: Path
    _clean: Callable[[Any], Any]

    def read_parts(self) -> Iterator[Part]:
        """Yield the parts of the conversation, read anew from the transcript. Raises DataError."""
        # A user may remove transcripts to save space. The record still has the submission.
        if has_run_file(*split_nested(self._transcript)):
            return read_parts(read_entries(self._transcript), self._clean)
        output = self.record.agent_output_full or self.record.agent_output
        return read_parts([{"output": output}], self._clean)


@dataclass(frozen=True, slots=True)
class ExportedRun:
    """A run as exports write it. Its values hold no secret."""

    run_id: str
    benchmark: str
    agent: str
    # None for a run without a model.
    model: str | None
    started: float
    # None while the run has not ended.
    ended: float | None
    stored: StoredRun
    # The manifest without the config. An export has only what it names of that.
    manifest: Mapping[str, Any]
    # The API of the model's server, which gives its messages their form.
    api: str
    # The sampling parameters of the config.
    generation: Mapping[str, Any]
    # The texts that stop the model.
    stop_sequences: tuple[str, ...]
    portable: Portable
    # The attempts to export: all, or those at one task, or one.
    task_id: str | None = None
    attempt: int | None = None
    # Whether spans hold the texts of prompts, replies and observations.
    has_content: bool = False

    def read_attempts(self) -> Iterator[ExportedAttempt]:
        """Yield the attempts in the order that they ended, one at a time.

        Raises UsageError if the chosen attempt does not exist, and DataError for a damaged transcript.
        """
        found = False
        known: set[str] = set()
        for record in read_records_at(self.stored.folder / ATTEMPTS, self.stored.offsets, whole=True):
            if self.task_id is not None:
                known.add(record.task_id)
                if record.task_id != self.task_id:
                    continue
            if self.attempt is None or record.attempt == self.attempt:
                found = True
                yield self._open(record)
        if not found and self.task_id is not None:
            if self.task_id not in known:
                place = f"the run in {self.stored.folder}"
                raise unknown_task(self.task_id, known, place=place, which="with an attempt")
            raise UsageError(f"{self.task_id} has no attempt {self.attempt} in this run")

    def _open(self, record: AttemptRecord) -> ExportedAttempt:
        path = find_transcript(self.stored.folder, record.task_id, record.attempt)
        started = _read_start(path)
        begun = self.started if started is None else started
        return ExportedAttempt(
            _clean_record(record, self.portable),
            begun,
            begun + max(record.duration_seconds, 0.0),
            started is None,
            path,
            self.portable.clean,
        )


def read_exported_run(
    stored: StoredRun, *, task_id: str | None = None, attempt: int | None = None
) -> ExportedRun:
    """Return a stored run for an export.

    Args:
        stored: the run, which may be under way. Its attempts so far are exported.
        task_id: the task whose attempts are exported, None for all tasks.
        attempt: the number of the only attempt to export, None for all.
    """
    manifest = stored.manifest
    config = manifest["config"]
    portable = Portable(list_secrets(config))
    model = read_model_name(config)
    given = config.get("generation")
    generation = given if isinstance(given, dict) else {}
    started = parse_time(manifest.get("started_at"))
    return ExportedRun(
        run_id=portable.clean_text(manifest["run_id"]),
        benchmark=portable.clean_text(manifest["benchmark"]),
        agent=portable.clean_text(manifest["agent"]),
        model=None if model is None else portable.clean_text(model),
        started=started,
        ended=None if stored.unfinished else started + stored.duration_seconds,
        stored=stored,
        manifest=portable.clean({key: value for key, value in manifest.items() if key != "config"}),
        api=read_api(config),
        generation={
            name: generation[name] for name in _GENERATION if type(generation.get(name)) in (int, float)
        },
        stop_sequences=_read_stops(generation, portable),
        portable=portable,
        task_id=task_id,
        attempt=attempt,
    )


def name_attempt(run: ExportedRun, record: AttemptRecord) -> str:
    """Return the name of an attempt that is unique across runs."""
    return f"{run.run_id}/{record.task_id}/{record.attempt}"


def format_time(seconds: float) -> str:
    """Return seconds since 1970 as a time of ISO 8601 in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def parse_time(text: Any) -> float:
    """Return the seconds since 1970 of a time of ISO 8601, 0 for any other value."""
    with suppress(ValueError, TypeError, OverflowError):
        return datetime.fromisoformat(text).timestamp()
    return 0.0


def describe_record(record: AttemptRecord) -> dict[str, Any]:
    """Return the facts about the verdict of an attempt that every export has."""
    return {
        "task_id": record.task_id,
        "attempt": record.attempt,
        "category": record.category,
        "status": Status(record.status).value,
        "resolved": record.resolved,
        "score": record.score,
        "duration_seconds": record.duration_seconds,
        "error": record.error,
        "metrics": dict(record.metrics),
    }


def _read_stops(generation: Mapping[str, Any], portable: Portable) -> tuple[str, ...]:
    stops = generation.get("stop")
    texts = stops if isinstance(stops, list | tuple) else ()
    return tuple(portable.clean_text(text) for text in texts if isinstance(text, str))


def _read_start(path: Path) -> float | None:
    """Return the time of the first entry of a transcript. Raises DataError."""
    if not has_run_file(*split_nested(path)):
        return None
    with closing(read_numbered_entries(path)) as entries:
        first = next(entries, None)
    return None if first is None else read_seconds(first[1].get("time"))


def _clean_record(record: AttemptRecord, portable: Portable) -> AttemptRecord:
    values = portable.clean(asdict(record))
    return AttemptRecord(**{**values, "status": record.status})
