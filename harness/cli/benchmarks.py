"""`harness benchmarks`: what can be run."""

from __future__ import annotations

import typer


def register(app: typer.Typer) -> None:
    """Add the command to the app."""
    app.command()(benchmarks)


def benchmarks() -> None:
    """List the benchmarks, their tasks and where they come from."""
    from harness.benchmarks import definitions

    for name, definition in sorted(definitions().items()):
        typer.echo(f"{name:16} {definition.tasks:5} tasks  {definition.description}")
        typer.echo(
            f"{'':16} environment {definition.environment}; hub {definition.hub}; {definition.licence}"
        )
