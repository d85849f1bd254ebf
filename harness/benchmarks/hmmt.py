"""HMMT, the Harvard-MIT Mathematics Tournament: answers are expressions, compared as in MATH."""

from __future__ import annotations

from functools import partial

from harness.benchmarks import aime, math
from harness.benchmarks.benchmark import Definition
from harness.benchmarks.data.splits import HubDataset
from harness.environments.maths.grader import METRICS

BENCHMARKS = (
    Definition(
        name="hmmt",
        description="solve a problem of the Harvard-MIT Mathematics Tournament",
        environments=("text",),
        tasks=30,
        licence="competition texts, not free",
        grading_version=2,
        formats=("its rows as JSONL, JSON, CSV or Parquet",),
        missing=dict.fromkeys(("train", "dev"), "it was published whole"),
        hub=HubDataset("MathArena/hmmt_feb_2025", "default", "train"),
        bundled="hmmt.jsonl",
        read=partial(aime.read, name="hmmt", competition="hmmt", year=None),
        submit=math.submit,
        reply_rule=math.BENCHMARKS[0].reply_rule,
        metrics=METRICS,
        unused_fields=aime.UNUSED_FIELDS,
    ),
)
