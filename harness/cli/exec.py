"""`harness exec`: run untrusted code once, in a fresh sandbox."""

from __future__ import annotations

import io
import sys
from typing import Annotated

import typer

app = typer.Typer()


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
    from harness.cli.interrupts import Interrupted, run_until_signal
    from harness.cli.untrusted import Command, build_limits, carry_out

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
    try:
        code = run_until_signal(carry_out(parsed, environment, limits, runtime=runtime))
    except Interrupted as interrupted:
        raise typer.Exit(interrupted.exit_code) from None
    raise typer.Exit(code)
