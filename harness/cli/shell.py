"""`harness shell`: lets the user act in the environment of a task and be graded."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.settings import read_settings, take_settings

app = typer.Typer()


@app.command(cls=take_settings("data", "options", "seed", "runtime"))
def shell(
    context: typer.Context,
    task: Annotated[str, typer.Argument(help="A task id, such as os/dev/1.")],
    benchmark: Annotated[
        str, typer.Option("-b", "--benchmark", help="The benchmark of the task.")
    ] = "agentbench",
    timeout_seconds: Annotated[
        int, typer.Option("--timeout-seconds", help="Time limit for you and for the grader, 180 to 600 s.")
    ] = 600,
    output_dir: Annotated[Path, typer.Option("--output-dir", help="Folder of the run folder.")] = Path(
        "runs"
    ),
    verbose: Annotated[
        int, typer.Option("-v", "--verbose", count=True, show_default=False, help="-vv: print tracebacks.")
    ] = 0,
) -> None:
    """Act in the environment of a task yourself, and be graded.

    You get the same environment as an agent.
    """
    from harness.cli.carry_out import OutputOptions, carry_out
    from harness.runs.config import load_config

    given = {
        "benchmark": benchmark,
        "agent": "human",
        "task_ids": [task],
        "timeout_seconds": timeout_seconds,
        "output_dir": str(output_dir),
        "max_concurrent": 1,
        **read_settings(context),
    }
    config = load_config(None, given)
    carry_out(config, OutputOptions(verbosity=verbose, quiet=True))
