"""`harness benchmarks`: what can be run."""

from __future__ import annotations

import typer

app = typer.Typer()


@app.command()
def benchmarks() -> None:
    """List the benchmarks, their tasks and where they come from."""
    from harness.benchmarks import definitions

    for name, definition in sorted(definitions().items()):
        typer.echo(f"{name:16} {definition.tasks:5} tasks  {definition.description}")
        typer.echo(
            f"{'':16} {', '.join(definition.environments)}; hub {definition.hub}; {definition.licence}"
        )
