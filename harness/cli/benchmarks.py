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

    from harness.cli.completion import read_benchmark_facts

    if as_json:
        typer.echo(json.dumps(read_benchmark_facts(), indent=2))
        return
    from harness.reports.benchmarks import markdown, print_benchmarks

    if as_markdown:
        from harness.benchmarks.loading import definitions

        typer.echo(markdown([definition for _, definition in sorted(definitions().items())]))
    else:
        print_benchmarks(read_benchmark_facts(), stream=sys.stdout)
