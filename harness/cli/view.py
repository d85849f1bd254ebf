"""`harness view`: a local web page over runs that have ended or are under way."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.completion import complete_run
from harness.cli.options import RUN_HELP, OutputDir

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from harness.reports.viewer.app import Access
    from harness.reports.viewer.catalogue import Catalogue

app = typer.Typer()


@app.command()
def view(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(
            help=f"{RUN_HELP} Or the folder of an audit. Default: all runs, and those to come.",
            autocompletion=complete_run,
        ),
    ] = None,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, metavar="N", help="Port. Default: a free one.")
    ] = 0,
    open_browser: Annotated[bool, typer.Option("--open", help="Open the page in your browser.")] = False,
    export: Annotated[
        Path | None,
        typer.Option(
            "--export", metavar="DIR", help="Write static pages into a new folder, and serve nothing."
        ),
    ] = None,
    output_dir: OutputDir = None,
) -> None:
    """Show runs on a local web page.

    The page follows runs that are under way. Only this machine can open it, and only with the printed
    address. Ctrl-C ends it. With --export the same pages go into a folder to publish.
    """
    from harness.cli.work import run_until_signal
    from harness.core.errors import UsageError
    from harness.reports.viewer.app import Access, make_viewer_app
    from harness.reports.viewer.catalogue import Catalogue
    from harness.runs.run_names import find_run

    if not runs and output_dir is not None and not output_dir.is_dir():
        raise UsageError(f"{output_dir}: is not a folder", hint="name the folder of the run folders")
    named = [find_run(run, output_dir) for run in runs or ()]
    for folder in named:
        if not folder.is_dir():
            raise UsageError(f"{folder}: is not a run folder", hint="`harness runs` lists all runs")
    catalogue = Catalogue(output_dir, named)
    if export is not None:
        if port or open_browser:
            raise UsageError("--export serves no page", hint="leave out --port and --open")
        _export(catalogue, export)
        return
    access = Access()
    served = make_viewer_app(catalogue, access)
    run_until_signal(_serve(served, access, port, open_browser=open_browser))


def _export(catalogue: Catalogue, target: Path) -> None:
    """Write the pages, and print their address and the runs that are left out."""
    from harness.core.text import escape_terminal
    from harness.reports.figures import count
    from harness.reports.viewer.export import INDEX, export_pages
    from harness.runs.run_files import StorageError

    exported = 0
    try:
        for run, reason in export_pages(catalogue, target):
            exported += reason is None
            if reason is not None:
                typer.echo(f"note: {escape_terminal(run)} is left out: {escape_terminal(reason)}", err=True)
    except OSError as error:
        raise StorageError(f"{error.filename or target}: cannot be written: {error.strerror}") from error
    typer.echo(f"{count(exported, 'run')}: {target / INDEX}")


async def _serve(served: ASGIApp, access: Access, port: int, *, open_browser: bool) -> None:
    """Serve the viewer until the task is cancelled."""
    import asyncio

    from harness.models.relay.serving import listen_on_loopback
    from harness.reports.viewer.browser import open_page, write_redirect

    async with listen_on_loopback(served, port=port) as origin:
        typer.echo(access.describe_url(origin))
        if not open_browser:
            await asyncio.Event().wait()
        # The file stays until the viewer ends, because a browser that starts slowly reads it late.
        with write_redirect(access.issue_url(origin)) as page:
            if not await asyncio.to_thread(open_page, page):
                typer.echo("note: no browser was found; open the address yourself", err=True)
            await asyncio.Event().wait()
