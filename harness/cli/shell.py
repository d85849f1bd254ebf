"""`harness shell`: lets the user act in the environment of a task and be graded."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.run_options import Options, Seed

app = typer.Typer()


@app.command()
def shell(
    task: Annotated[str, typer.Argument(help="A task id, such as os/dev/1.")],
    benchmark: Annotated[
        str, typer.Option("-b", "--benchmark", help="The benchmark of the task.")
    ] = "agentbench",
    data: Annotated[str | None, typer.Option("--data", help="bundled, hub, or a path to the data.")] = None,
    option: Options = None,
    seed: Seed = None,
    timeout_seconds: Annotated[
        int, typer.Option("--timeout-seconds", help="Time limit for you and for the grader, 180 to 600 s.")
    ] = 600,
    runtime: Annotated[
        str | None,
        typer.Option(
            "--runtime",
            metavar="NAME",
            help="runc or runsc (gVisor), for a task in a sandbox. Default: runc.",
        ),
    ] = None,
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
    from harness.benchmarks.options import parse_options
    from harness.cli.carry_out import OutputOptions, carry_out
    from harness.runs.config import load_config

    given = {
        "benchmark": benchmark,
        "agent": "human",
        "task_ids": [task],
        "timeout_seconds": timeout_seconds,
        "output_dir": str(output_dir),
        "max_concurrent": 1,
    }
    options = parse_options(option) if option else None
    chosen = {"data": data, "options": options, "seed": seed, "runtime": runtime}
    given |= {name: value for name, value in chosen.items() if value is not None}
    config = load_config(None, given)
    carry_out(config, OutputOptions(verbosity=verbose, quiet=True))
