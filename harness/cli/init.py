"""`harness init`, which writes an example of a config."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.completion import agent_names, complete_agent, complete_benchmark

app = typer.Typer()
STDOUT = Path("-")


@app.command()
def init(
    benchmark: Annotated[
        str,
        typer.Option(
            "-b",
            "--benchmark",
            metavar="NAME",
            help="A name from `harness benchmarks`, or your own .yaml or .py.",
            autocompletion=complete_benchmark,
        ),
    ] = "mbpp",
    agent: Annotated[
        str,
        typer.Option(
            "--agent", metavar="NAME", help=", ".join(agent_names()) + ".", autocompletion=complete_agent
        ),
    ] = "chat",
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="The file to write, - to print it.")
    ] = Path("config.yaml"),
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Write an example config with a comment on each key."""
    from harness.benchmarks.loading import definition_of
    from harness.cli.export_file import open_export
    from harness.runs.config_guide import write_example_config

    is_file = output != STDOUT
    name = str(output) if is_file else "FILE"
    text = write_example_config(definition_of(benchmark), agent, benchmark=benchmark, file=name)
    with open_export(output if is_file else None, force=force) as file:
        file.write(text)
    if is_file:
        typer.echo(f"{output}: written; edit it, then: harness config validate {output}")
