"""The commands that act in a sandbox: `harness exec`, `harness shell` and `harness mcp`."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli.options import BENCHMARK_HELP, complete_benchmark, read_settings, take_settings

app = typer.Typer()
_OutputDir = Annotated[Path, typer.Option("--output-dir", help="Folder of the run folder.")]
_Tracebacks = Annotated[
    int, typer.Option("-v", "--verbose", count=True, show_default=False, help="-vv: print tracebacks.")
]


@app.command(name="exec", context_settings={"allow_interspersed_args": False})
def execute(
    command: Annotated[
        list[str] | None,
        typer.Argument(help="A command, a FILE.py, or - for a program on standard input."),
    ] = None,
    environment: Annotated[
        str,
        typer.Option("--env", metavar="NAME", help="python, os, db or maths. The code never runs as root."),
    ] = "python",
    language: Annotated[
        str | None,
        typer.Option(
            "--language",
            metavar="NAME",
            help="The first argument is a program in this language: bash, cpp, go, java, nodejs, php, "
            "python, ruby, rust or typescript.",
        ),
    ] = None,
    timeout: Annotated[float, typer.Option("--timeout", help="Wall time in seconds.")] = 60.0,
    cpu_seconds: Annotated[
        int | None, typer.Option("--cpu-seconds", help="CPU time of all processes, in seconds.")
    ] = None,
    memory_mb: Annotated[int, typer.Option("--memory-mb", help="Memory of the sandbox, in MiB.")] = 1024,
    processes: Annotated[
        int, typer.Option("--processes", help="Number of processes and threads at once.")
    ] = 128,
    cpus: Annotated[float, typer.Option("--cpus", help="Number of CPUs.")] = 1.0,
    disk_mb: Annotated[int, typer.Option("--disk-mb", help="Size of /work and of /tmp, in MiB.")] = 64,
    output_mb: Annotated[int, typer.Option("--output-mb", help="Maximum output, in MiB.")] = 64,
    runtime: Annotated[
        str, typer.Option("--runtime", metavar="NAME", help="runc or runsc (gVisor).")
    ] = "runc",
) -> None:
    """Run untrusted code in a fresh sandbox, and print its output.

    The output is printed as it comes.
    The exit code is the command's, 128 + N if signal N killed it, and 124 if a limit ended it.
    """
    from harness.cli.untrusted import Command, build_limits, carry_out
    from harness.cli.work import run_until_signal

    argv = list(command or [])
    if argv[:1] == ["--"]:
        argv = argv[1:]
    parsed = Command.parse(argv, sys.stdin.buffer if sys.stdin else io.BytesIO(), language)
    limits = build_limits(
        memory_mb=memory_mb,
        processes=processes,
        cpus=cpus,
        disk_mb=disk_mb,
        file_mb=disk_mb,
        output_mb=output_mb,
        wall_seconds=timeout,
        cpu_seconds=cpu_seconds,
    )
    code = run_until_signal(carry_out(parsed, environment, limits, runtime=runtime))
    raise typer.Exit(code)


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
    output_dir: _OutputDir = Path("runs"),
    verbose: _Tracebacks = 0,
) -> None:
    """Act in the environment of a task yourself, and be graded.

    You get the same environment as an agent.
    """
    given = {"benchmark": benchmark, "agent": "human", "task_ids": [task], **read_settings(context)}
    _act({"timeout_seconds": timeout_seconds, "output_dir": str(output_dir), **given}, verbose)


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
    output_dir: _OutputDir = Path("runs"),
    verbose: _Tracebacks = 0,
) -> None:
    """Serve a task's tools to your own MCP client.

    Your client starts this command and speaks with it on standard input and output. When it submits or
    leaves, the outcome is graded. The verdict goes to
    standard error and into a run folder.
    """
    given = {"benchmark": benchmark, "agent": "client", "task_ids": [task], **read_settings(context)}
    _act(
        {"timeout_seconds": timeout_seconds, "output_dir": str(output_dir), **given},
        verbose,
        serves_client=True,
    )


def _act(given: dict[str, Any], verbosity: int, *, serves_client: bool = False) -> None:
    """Make the one attempt of a person or of a person's client."""
    from harness.cli.carry_out import OutputOptions, make_run
    from harness.runs.config import load_config

    config = load_config(None, {"max_concurrent": 1, **given})
    make_run(config, OutputOptions(verbosity=verbosity, quiet=True), serves_client=serves_client).leave()
