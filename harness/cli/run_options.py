"""The options that several commands share and that are not settings of a run, with their help texts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

BENCHMARK_HELP = "A name from `harness benchmarks`, or your own .yaml, or .py (runs on the host)."

Config = Annotated[
    Path | None, typer.Option("-c", "--config", metavar="FILE", help="YAML config. Options override it.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the plan and start nothing.")]
Results = Annotated[
    Path | None, typer.Option("-o", "--results", metavar="FILE", help="Also write results.json to this file.")
]
ResultFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "-o",
        "--results",
        metavar="FILE",
        help="Write the result as JSON, or that on task folders as Markdown to a .md (repeatable).",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite an existing results file.")]
Accept = Annotated[
    list[str] | None,
    typer.Option(
        "--accept",
        metavar="FIELD",
        help="Go on although this field of the manifest differs, such as image_tags (repeatable).",
    ),
]
Trust = Annotated[
    bool,
    typer.Option("--trust", help="Accept what a run folder that is not yours would run and contact."),
]
FailUnder = Annotated[
    float | None,
    typer.Option("--fail-under", min=0, max=1, metavar="RATE", help="Exit with 1 if the rate is lower."),
]
FailOnDifference = Annotated[
    bool,
    typer.Option(
        "--fail-on-difference",
        help="Exit with 1 if an observation or a verdict of a replay differs from the recorded one.",
    ),
]
Verbose = Annotated[
    int,
    typer.Option(
        "-v",
        "--verbose",
        count=True,
        show_default=False,
        help="Print each attempt. -vv: also the records of libraries, and tracebacks.",
    ),
]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Print no progress.")]
