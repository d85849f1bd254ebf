"""`harness mcp`: serves the environment of a task to the user's own MCP client, and grades the outcome."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.completion import complete_benchmark
from harness.cli.run_options import BENCHMARK_HELP
from harness.cli.settings import read_settings, take_settings

app = typer.Typer()


@app.command(cls=take_settings("data", "split", "options", "seed", "runtime"))
def mcp(
    context: typer.Context,
    benchmark: Annotated[
        str, typer.Argument(metavar="BENCH", help=BENCHMARK_HELP, autocompletion=complete_benchmark)
    ],
    task: Annotated[str, typer.Argument(metavar="TASK", help="A task id, such as os/dev/1.")],
    timeout_seconds: Annotated[
        int,
        typer.Option("--timeout-seconds", help="Time limit for client and grader, 180 to 600 s."),
    ] = 600,
    output_dir: Annotated[Path, typer.Option("--output-dir", help="Folder of the run folder.")] = Path(
        "runs"
    ),
    verbose: Annotated[
        int, typer.Option("-v", "--verbose", count=True, show_default=False, help="-vv: print tracebacks.")
    ] = 0,
) -> None:
    """Serve a task's tools to your own MCP client.

    Your client starts this command and speaks with it on standard input and output. When it submits or
    leaves, the outcome is graded. The verdict goes to
    standard error and into a run folder.
    """
    from harness.cli.carry_out import OutputOptions, carry_out
    from harness.runs.config import load_config

    given = {
        "benchmark": benchmark,
        "agent": "client",
        "task_ids": [task],
        "timeout_seconds": timeout_seconds,
        "output_dir": str(output_dir),
        "max_concurrent": 1,
        **read_settings(context),
    }
    config = load_config(None, given)
    carry_out(config, OutputOptions(verbosity=verbose, quiet=True), serves_client=True)
