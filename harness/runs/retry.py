"""The retry of attempts that have a record: which of them, and what happens to their verdicts.

A verdict that is repeated is superseded first, by a record without a verdict. From then on the attempt counts
as unfinished, whenever the retry is killed, and the earlier record stays in the file.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.core.types import AttemptRecord, Status
from harness.runs.manifest import correct_superseded_verdicts
from harness.runs.planned_attempt import PlannedAttempt
from harness.runs.run import Run
from harness.runs.run_files import StorageError, advise_resume
from harness.runs.store import MANIFEST, SUMMARY
from harness.runs.stored_result import SUPERSEDED_STATUS, StoredResult
from harness.runs.transcripts import keep_transcript

_WRITTEN_RECORDS = 1000


@dataclass(frozen=True, slots=True)
class Retry:
    """The attempts that a resumed run repeats, instead of all that have no verdict."""

    # Those that have a verdict other than `passed`.
    failed: bool = False
    # Those that ended in an infra error, or whose tests were broken.
    infra: bool = False

    def selects(self, result: StoredResult) -> bool:
        """Return whether the attempt of this result is repeated."""
        if result.status in (Status.INFRA_ERROR, Status.GRADER_ERROR):
            return self.infra
        if result.status is Status.CANCELLED:  # a killed retry has superseded it
            return self.failed and result.superseded > 0
        return self.failed and result.status is not Status.PASSED


def begin_retry(run: Run, retry: Retry) -> list[PlannedAttempt]:
    """Supersede the verdicts that are repeated, and return the attempts to make, in the order of the plan.

    Raises:
        DataError: if a transcript cannot be read.
        StorageError: if the run folder cannot be written.
    """
    results = run.store.results
    chosen = [
        planned
        for planned in run.selection.plan
        if (result := results.get(planned.key)) is not None and retry.selects(result)
    ]
    judged = [planned for planned in chosen if results[planned.key].status.has_score]
    if judged:
        _supersede(run, judged)
    return chosen


def _supersede(run: Run, judged: Sequence[PlannedAttempt]) -> None:
    # The copies come first, because a transcript that cannot be read must leave the run as it was.
    for planned in judged:
        keep_transcript(run.folder, *planned.key, run.store.results[planned.key].superseded)
    # The summary of the verdicts must not outlive them.
    try:
        (run.folder / SUMMARY).unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(
            f"{run.folder / SUMMARY}: cannot be removed: {error.strerror}",
            hint=advise_resume(run.folder, error),
        ) from error
    _append(run, judged)
    # A retry that is killed before this is counted when the run is resumed.
    number = run.store.results.count_superseded()
    run.manifest = correct_superseded_verdicts(run.manifest, number)
    run.store.write_json(MANIFEST, run.manifest)
    run.write_summary()


def _append(run: Run, judged: Sequence[PlannedAttempt]) -> None:
    places = iter(judged)
    while batch := list(itertools.islice(places, _WRITTEN_RECORDS)):
        run.store.append(*map(_describe_superseded, run.store.records(batch)))


def _describe_superseded(record: AttemptRecord) -> AttemptRecord:
    """Return the record that supersedes a verdict. It has no verdict, and no use of a model."""
    return replace(
        record,
        resolved=False,
        status=Status.CANCELLED,
        score=None,
        metrics={SUPERSEDED_STATUS: record.status.value},
        agent_output="",
        agent_output_cut=0,
        duration_seconds=0.0,
        error="the verdict was superseded by --retry-failed",
    )


def list_remaining(
    plan: Iterable[PlannedAttempt],
    results: Mapping[tuple[str, int], StoredResult],
    retry: Retry | None,
) -> Collection[tuple[str, int]]:
    """Return the keys of the attempts that a resumed run would make."""
    if retry is None:
        return [
            each.key for each in plan if each.key not in results or not results[each.key].status.has_score
        ]
    return [each.key for each in plan if each.key in results and retry.selects(results[each.key])]
