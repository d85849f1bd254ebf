"""`harness benchmarks`: list the benchmarks."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer()


@app.command()
def benchmarks(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown.")] = False,
) -> None:
    """List the benchmarks: splits, sizes, metrics and licences."""
    import json
    import sys

    from harness.benchmarks.loading import definitions
    from harness.reports.benchmarks import facts_json, markdown, print_benchmarks

    listed = [definition for _, definition in sorted(definitions().items())]
    if as_json:
        typer.echo(json.dumps(facts_json(listed), indent=2))
    elif as_markdown:
        typer.echo(markdown(listed))
    else:
        print_benchmarks(listed, stream=sys.stdout)
