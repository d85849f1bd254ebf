"""The options that several commands share, with their help texts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.completion import complete_benchmark, complete_run

BENCHMARK_HELP = "A name from `harness benchmarks`, or your own .yaml, or .py (runs on the host)."

Benchmark = Annotated[
    str | None,
    typer.Option("-b", "--benchmark", metavar="NAME", help=BENCHMARK_HELP, autocompletion=complete_benchmark),
]
Benchmarks = Annotated[
    list[str] | None,
    typer.Option(
        "-b",
        "--benchmark",
        metavar="NAME",
        help=f"{BENCHMARK_HELP} Repeatable: one run for each.",
        autocompletion=complete_benchmark,
    ),
]
Config = Annotated[
    Path | None, typer.Option("-c", "--config", metavar="FILE", help="YAML config. Options override it.")
]
Samples = Annotated[
    Path | None,
    typer.Option(
        "--samples",
        metavar="FILE",
        help="JSONL with task_id and completion, solution, answer or reply. - reads standard input.",
    ),
]
Extract = Annotated[
    str | None,
    typer.Option(
        "--extract",
        metavar="RULE",
        help="Extract programs from samples and replies by this rule: none, fenced, between_last_fences, "
        "first_block, last_block or all_blocks.",
    ),
]
SampleSize = Annotated[
    int | None, typer.Option("-n", "--sample-size", metavar="N", help="Maximum number of tasks.")
]
Categories = Annotated[
    list[str] | None,
    typer.Option("--filter-category", metavar="NAME", help="Select only this category (repeatable)."),
]
Difficulties = Annotated[
    list[str] | None,
    typer.Option("--filter-difficulty", metavar="NAME", help="Select only this difficulty (repeatable)."),
]
Tags = Annotated[
    list[str] | None,
    typer.Option(
        "--filter-tags",
        metavar="TAG",
        help="Select only tasks with this tag, such as platform=leetcode (repeatable; a task needs all).",
    ),
]
Sampling = Annotated[
    str | None,
    typer.Option(
        "--sampling",
        metavar="WAY",
        help="How to choose the tasks of -n: sequential (the first), random or stratified. Default: random.",
    ),
]
StratifyBy = Annotated[
    str | None,
    typer.Option(
        "--stratify-by",
        metavar="KIND",
        help="Strata: category, difficulty or the kind of a label. Default: category.",
    ),
]
ClusterBy = Annotated[
    str | None,
    typer.Option(
        "--cluster-by",
        metavar="KIND",
        help="Cluster the rate's interval by category, difficulty or the kind of a label. Default: task.",
    ),
]
Executor = Annotated[
    str | None,
    typer.Option(
        "--executor",
        metavar="NAME",
        help="Make the attempts here (local) or on the nodes of a Ray cluster (ray). Default: local.",
    ),
]
RayAddress = Annotated[
    str | None,
    typer.Option(
        "--ray-address",
        metavar="ADDRESS",
        help="The Ray cluster: HOST:PORT, auto or local. Default: auto.",
    ),
]
DurationsFrom = Annotated[
    str | None,
    typer.Option(
        "--durations-from",
        metavar="RUN",
        help="Start the tasks first that took longest in this run.",
        autocompletion=complete_run,
    ),
]
Quarantined = Annotated[
    bool, typer.Option("--include-quarantined", help="Include tasks that no grader can rely on.")
]
Shard = Annotated[
    str | None,
    typer.Option(
        "--shard",
        metavar="I/N",
        help="Run only part I of N of the tasks, from 1. `harness merge` joins the parts.",
    ),
]
Seed = Annotated[int | None, typer.Option("--seed", metavar="N", help="Random seed of the run. Default: 0.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the plan and start nothing.")]
Data = Annotated[
    str | None, typer.Option("--data", metavar="PATH", help="bundled, hub, or a path to the data.")
]
Options = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="NAME=VALUE", help="An option of the benchmark (repeatable)."),
]
Split = Annotated[
    str | None,
    typer.Option(
        "--split", metavar="NAME", help="train, dev or test. Default: the published evaluation split."
    ),
]
TaskIds = Annotated[
    list[str] | None, typer.Option("-t", "--task", metavar="ID", help="Select only this task (repeatable).")
]
Ks = Annotated[list[int] | None, typer.Option("--k", metavar="K", help="k of pass@k (repeatable).")]
Timeout = Annotated[
    int | None, typer.Option("--timeout-seconds", metavar="S", help="Time limit of an attempt, 180 to 600 s.")
]
Concurrent = Annotated[
    int | None,
    typer.Option(
        "--max-concurrent",
        metavar="N",
        help="Attempts at once. Default: 1024, or by cores if the agent never waits.",
    ),
]
Runtime = Annotated[str | None, typer.Option("--runtime", metavar="NAME", help="runc or runsc (gVisor).")]
Isolation = Annotated[
    str | None,
    typer.Option(
        "--isolation",
        metavar="LEVEL",
        help="task: attempts at a task share a grading container. attempt: each has its own. "
        "run: tasks share it too, for programs that users and processes are enough to separate.",
    ),
]
ReplayFrom = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="RUN",
        help="Repeat the actions of this run, without a model (agent replay): a folder, a name in "
        "--output-dir, or latest. Benchmark and settings are those of the run.",
        autocompletion=complete_run,
    ),
]
Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        metavar="NAME",
        help="Model of the agent, or an endpoint of the config. Repeatable: one run for each.",
    ),
]
BaseUrl = Annotated[
    str | None,
    typer.Option("--base-url", metavar="URL", help="Server of the model, such as http://localhost:8000/v1."),
]
ModelApi = Annotated[
    str | None,
    typer.Option(
        "--api",
        metavar="NAME",
        help="API of the server: chat, responses, or messages (Anthropic's). Default: chat.",
    ),
]
AgentCmd = Annotated[
    str | None,
    typer.Option("--agent-cmd", metavar="TEXT", help="Program that the agent `command` runs for each task."),
]
AgentImage = Annotated[
    str | None,
    typer.Option(
        "--agent-image", metavar="NAME", help="Prepared agent, from `harness images build --agent`."
    ),
]
AgentWhere = Annotated[
    str | None,
    typer.Option("--agent-where", metavar="PLACE", help="sandbox, or host for a program that you trust."),
]
Temperature = Annotated[
    float | None,
    typer.Option("--temperature", metavar="T", help="Temperature. Default: that of the server."),
]
MaxTokens = Annotated[
    int | None, typer.Option("--max-tokens", metavar="N", help="Maximum tokens of one reply, with reasoning.")
]
ReasoningEffort = Annotated[
    str | None,
    typer.Option("--reasoning-effort", metavar="LEVEL", help="How much a reasoning model thinks: low, ..."),
]
RunBudget = Annotated[
    list[str] | None,
    typer.Option(
        "--run-budget",
        metavar="NAME=NUMBER",
        help="Stop the run at this many output_tokens or total_tokens, or at this cost (repeatable).",
    ),
]
OutputDir = Annotated[
    Path | None, typer.Option("--output-dir", metavar="DIR", help="Folder of the run folders. Default: runs.")
]
Results = Annotated[
    Path | None, typer.Option("-o", "--results", metavar="FILE", help="Also write results.json to this file.")
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
