"""Read `summary.json` of a run folder, also one that an earlier version has written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from typing_extensions import TypedDict

from harness.core.errors import UsageError
from harness.core.inputs.json_text import BrokenJSONError, parse_json
from harness.core.invalid_values import describe_first_error
from harness.core.scoring.metrics import clustered_interval
from harness.core.types import MetricSummary, RateInterval, Status, Summary
from harness.runs.attempt_index import ATTEMPTS
from harness.runs.run_files import read_run_file
from harness.runs.store import SUMMARY, read_manifest, read_results
from harness.runs.stored_result import SHOWN_DIFFERENCE
from harness.runs.summary import HEADLINE, SUMMARY_VERSION, describe_rate, summarize_records

# Sums and intervals of larger counts would not be exact.
_Count = Annotated[int, Field(ge=0, le=2**53)]
# The hint for a summary that cannot be read.
_COMPUTE = f"remove the file; the numbers are then computed from {ATTEMPTS}"


class _Kind(TypedDict):
    score: float


class _Score(TypedDict):
    score: float | None
    measure: str
    kinds: NotRequired[dict[str, _Kind]]
    missing_kinds: NotRequired[list[str]]


class _Overall(TypedDict):
    score: float | None
    method: str
    missing: NotRequired[list[str]]


class _Scores(TypedDict, total=False):
    categories: dict[str, _Score]
    overall: _Overall | None


class _Strict(TypedDict):
    tasks: _Count
    resolved: _Count
    resolved_strict: _Count
    differ: _Count


class _Coverage(TypedDict):
    samples: _Count
    tasks: _Count
    missing: _Count


_Seconds = Annotated[float, Field(ge=0)] | None


class _Model(TypedDict, total=False):
    model_requests: _Count | None
    model_retries: _Count | None
    cached_replies: _Count | None
    input_tokens: _Count | None
    output_tokens: _Count | None
    reasoning_tokens: _Count | None
    cached_tokens: _Count | None
    cost: _Seconds
    model_seconds: _Seconds
    waiting_seconds: _Seconds
    sandbox_seconds: _Seconds
    context_truncated: _Count | None
    cut_replies: _Count | None


class _Asking(TypedDict):
    attempts: _Count
    asked: _Count


class _Difference(TypedDict):
    task_id: str
    attempt: _Count
    text: Annotated[str, Field(max_length=SHOWN_DIFFERENCE)]


class _Replay(TypedDict):
    attempts: _Count
    equal: _Count
    different: _Count
    incomplete: _Count
    observations: _Count
    observations_differing: _Count
    same_verdicts: _Count
    first_difference: _Difference | None


class _Superseded(TypedDict):
    attempts: _Count
    resolved: _Count


class _Limit(TypedDict):
    allowed: Annotated[float, Field(ge=0, le=2**53)]
    used: Annotated[float, Field(ge=0, le=2**53)] | None


_Share = Annotated[float, Field(ge=0, le=1)]


class _Category(TypedDict):
    total: _Count
    resolved: _Count
    rate: _Share
    low: NotRequired[_Share]
    high: NotRequired[_Share]


class _Headline(TypedDict, total=False):
    low: _Share | None
    high: _Share | None
    clusters: _Count | None
    clustered_by: Annotated[str, Field(max_length=1000)] | None


class StoredSummary(BaseModel):
    """The fields of `summary.json` that reports show, with the types that they rely on."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    schema_version: Literal[1, 2] = 1
    headline: _Headline = Field(default_factory=_Headline)
    duration_seconds: float
    total: _Count
    attempts: _Count
    resolved: _Count
    rate: _Share
    first_attempt_rate: _Share = 0.0
    pass_at_k: dict[int, float | None]
    statuses: dict[Status, _Count]
    by_category: dict[str, _Category]
    integrity: dict[str, _Count] = Field(default_factory=dict)
    resolved_strict: _Strict | None = None
    scores: _Scores = Field(default_factory=_Scores)
    quarantined: dict[str, str] = Field(default_factory=dict)
    metrics: dict[str, MetricSummary] = Field(default_factory=dict)
    coverage: _Coverage | None = None
    model: _Model = Field(default_factory=_Model)
    budget: dict[str, _Limit] = Field(default_factory=dict)
    asking: _Asking | None = None
    replay: _Replay | None = None
    superseded: _Superseded | None = None

    @model_validator(mode="after")
    def _resolved_are_tasks(self) -> Self:
        if any(resolved > total for resolved, total in self._shares()):
            raise ValueError("more tasks are resolved than there are")
        return self

    def _shares(self) -> Iterator[tuple[int, int]]:
        yield self.resolved, self.total
        for row in self.by_category.values():
            yield row["resolved"], row["total"]

    def summary(self) -> Summary:
        """Return the fields as a `Summary`."""
        values = {name: getattr(self, name) for name in type(self).model_fields}
        for name in ("duration_seconds", "schema_version", "headline"):
            del values[name]
        values["rate_interval"] = self._read_interval()
        for name in ("resolved_strict", "coverage", "asking", "replay", "superseded"):
            values[name] = values[name] or {}
        return Summary(**values)

    def _read_interval(self) -> RateInterval | None:
        low, high = self.headline.get("low"), self.headline.get("high")
        if low is None or high is None:
            return None
        return RateInterval(
            low, high, self.headline.get("clusters") or 0, self.headline.get("clustered_by") or "task"
        )


def read_stored_summary(folder: Path) -> tuple[dict[str, Any], StoredSummary]:
    """Return the summary of a run folder as plain data and as a model.

    The rate of an earlier version, which counted the first attempts, is computed anew from the records.
    Raises UsageError if the summary cannot be read.
    """
    path = folder / SUMMARY
    try:
        values = parse_json(read_run_file(folder, SUMMARY))
        stored = StoredSummary.model_validate(values)
        if stored.schema_version == SUMMARY_VERSION:
            return values, stored
        restated = {**values, **_restate(folder, stored)}
        return restated, StoredSummary.model_validate(restated)
    except OSError as error:
        from harness.runs.trust import describe_resume  # here, because trust knows agents and benchmarks

        raise UsageError(
            f"{path}: {error.strerror}",
            hint=f"the run did not finish; to finish it: {describe_resume(folder, read_manifest(folder))}",
        ) from error
    except BrokenJSONError as error:
        raise UsageError(f"{path}:{error.line}: is not JSON: {error}", hint=_COMPUTE) from error
    except ValidationError as error:
        reason = f"{path}: is not the summary of a run: {describe_first_error(error)}"
        raise UsageError(reason, hint=_COMPUTE) from error


def _restate(folder: Path, stored: StoredSummary) -> dict[str, Any]:
    """Return the fields of a summary of version 1 that mean something else today, or that it lacks."""
    first = stored.resolved / stored.total if stored.total else 0.0
    found = stored.summary()
    if stored.attempts <= stored.total:
        shares = [(1.0, 1)] * stored.resolved + [(0.0, 1)] * (stored.total - stored.resolved)
        spread = clustered_interval(shares, attempts=stored.attempts)
        interval = None if spread is None else RateInterval(*spread, stored.total)
        found = replace(found, rate_interval=interval)
    elif not stored.statuses.get(Status.CANCELLED):  # else there is no rate
        found = summarize_records(read_results(folder), (), tasks=stored.total, attempts=stored.attempts)
    return {
        HEADLINE: describe_rate(found),
        "rate": found.rate,
        "first_attempt_rate": first,
        "by_category": found.by_category,
        "schema_version": SUMMARY_VERSION,
    }
