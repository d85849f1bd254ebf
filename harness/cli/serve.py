"""The commands that serve over HTTP: `harness serve` verdicts and sandboxes, and `harness view` runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from harness.cli.options import (
    BENCHMARK_HELP,
    RUN_HELP,
    OutputDir,
    complete_benchmark,
    complete_run,
    is_on_command_line,
    read_settings,
    take_settings,
)

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from harness.benchmarks.benchmark import Benchmark
    from harness.reports.viewer.app import Access
    from harness.reports.viewer.catalogue import Catalogue
    from harness.service.settings import ServiceSettings

app = typer.Typer()

DEFAULT_PORT = 8600
MACHINE_SETTINGS = ("base_images", "build_ca", "allow_network", "network", "seal")


@app.command(cls=take_settings("data", "split", "options", "ray_address", *MACHINE_SETTINGS))
def serve(
    context: typer.Context,
    host: Annotated[
        str, typer.Option("--host", metavar="ADDRESS", help="Address to listen at.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, metavar="N", help="Port, 0 for a free one.")
    ] = DEFAULT_PORT,
    token: Annotated[
        str | None,
        typer.Option(
            "--token",
            metavar="T",
            envvar="HARNESS_SERVE_TOKEN",
            show_envvar=True,
            help="Token that clients must send. Default: a random one, which is printed.",
        ),
    ] = None,
    max_concurrent: Annotated[
        int | None,
        typer.Option(
            "--max-concurrent",
            min=1,
            metavar="N",
            help="Requests in sandboxes of one machine at once. Default: by cores.",
        ),
    ] = None,
    benchmark: Annotated[
        list[str] | None,
        typer.Option(
            "-b",
            "--benchmark",
            metavar="BENCH",
            help=f"Let clients name its tasks (repeatable). {BENCHMARK_HELP}",
            autocompletion=complete_benchmark,
        ),
    ] = None,
    runtime: Annotated[
        str, typer.Option("--runtime", metavar="NAME", help="runc or runsc (gVisor).")
    ] = "runc",
    executor: Annotated[
        Literal["local", "ray"],
        typer.Option(
            "--executor", help="Work on this machine (local) or on the nodes of a Ray cluster (ray)."
        ),
    ] = "local",
    verbose: Annotated[
        int,
        typer.Option("-v", "--verbose", count=True, show_default=False, help="-v: log every request."),
    ] = 0,
) -> None:
    """Serve verdicts and sandboxes over HTTP.

    Clients send the token as a header, or put it before the path. SIGTERM and Ctrl-C let requests under way
    end. The log goes to standard error, a JSON object a line.
    """
    from harness.cli.work import run_until_signal
    from harness.core.errors import UsageError
    from harness.service.app import make_token, require_usable_token
    from harness.service.server import make_event_loop
    from harness.service.settings import RaySettings, ServiceSettings
    from harness.service.workers import bound_concurrency

    names = benchmark or []
    given = read_settings(context)
    ray_address = given.pop("ray_address", None)
    if ray_address is not None and executor != "ray":
        raise UsageError(
            "--ray-address has no effect on the work of this machine",
            hint="add --executor ray, or leave it out",
        )
    _require_benchmarks(names, given)
    if executor == "ray" and is_on_command_line(context, "token"):
        raise UsageError(
            "--token with --executor ray: Ray shows the command line to everybody who reaches the cluster",
            hint="set HARNESS_SERVE_TOKEN instead",
        )
    if token is not None:
        require_usable_token(token)
    if executor == "ray":
        # The limit holds for the nodes. On this machine it bounds only the sandboxes that clients open.
        ray = RaySettings(ray_address, max_concurrent)
        settings = ServiceSettings(bound_concurrency(None), runtime, ray=ray)
    else:
        settings = ServiceSettings(bound_concurrency(max_concurrent), runtime)
    settings, given = _take_machine_rules(settings, given)
    load = partial(_load, settings=given)
    work = _serve(settings, names, load, host, port, token or make_token(), verbose, shown=token is None)
    run_until_signal(work, make_loop=make_event_loop)


def _take_machine_rules(
    settings: ServiceSettings, given: Mapping[str, Any]
) -> tuple[ServiceSettings, dict[str, Any]]:
    """Return the settings with the rules for machines of images of tasks, and the other values."""
    from dataclasses import replace

    from harness.runs.features import make_machine_rules

    own = {key: value for key, value in given.items() if key in MACHINE_SETTINGS}
    if own:
        settings = replace(settings, machine_rules=make_machine_rules(own))
    return settings, {key: value for key, value in given.items() if key not in own}


def _require_benchmarks(names: Sequence[str], given: Mapping[str, Any]) -> None:
    """Raise UsageError for options of benchmarks without the benchmark, or with more than they can be of."""
    from harness.core.errors import UsageError
    from harness.runs.settings import name_option

    for flag in map(name_option, () if names else given):
        raise UsageError(
            f"{flag} is an option of a benchmark, and none is served",
            hint=f"add -b BENCH, or leave {flag} out",
        )
    if len(names) < 2:
        return
    if given.get("data") not in (None, "hub", "bundled"):
        raise UsageError(
            f"--data {given['data']} is the data of one benchmark, and there are {len(names)}",
            hint="fetch the data of each with `harness data fetch`, and leave --data out",
        )
    for name, value in given.get("options", {}).items():
        raise UsageError(
            f"--option {name}={value} is an option of one benchmark, and there are {len(names)}",
            hint="start a service for each of them",
        )


async def _serve(
    settings: ServiceSettings,
    names: Sequence[str],
    load: Callable[[str], Benchmark],
    host: str,
    port: int,
    token: str,
    verbosity: int,
    *,
    shown: bool,
) -> None:
    """Load the benchmarks and serve until the task is cancelled."""
    import asyncio
    from dataclasses import replace

    from harness.core.errors import UsageError
    from harness.service.metrics import log_as_json
    from harness.service.server import run_service

    with log_as_json(verbosity, secret=token):
        benchmarks = [await asyncio.to_thread(load, name) for name in names]
        if settings.machine_rules is not None and not any(map(_has_task_images, benchmarks)):
            raise UsageError(
                "an option for images of tasks has no effect, because no served benchmark has such images",
                hint="leave out --base-image, --build-ca, --allow-network, --network and --seal",
            )
        settings = replace(settings, benchmarks=tuple(benchmarks))
        async with run_service(settings, host=host, port=port, token=token) as url:
            typer.echo(f"{url}/{token}" if shown else url)
            await asyncio.Event().wait()


def _has_task_images(benchmark: Benchmark) -> bool:
    from harness.environments import environment_spec

    return any(environment_spec(name).runs_task_images for name in benchmark.definition.environments)


def _load(name: str, *, settings: Mapping[str, Any]) -> Benchmark:
    from harness.benchmarks.loading import load_with_options
    from harness.core.logger import get_logger

    return load_with_options(
        name,
        settings.get("options", {}),
        data=settings.get("data"),
        split=settings.get("split"),
        notify=get_logger(__name__).warning,
        # The bundled sample stands in for no benchmark, because its few tasks would be taken for all.
        sample_stands_in=False,
    )


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
        _export_pages(catalogue, export)
        return
    access = Access()
    served = make_viewer_app(catalogue, access)
    run_until_signal(_show_pages(served, access, port, open_browser=open_browser))


def _export_pages(catalogue: Catalogue, target: Path) -> None:
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


async def _show_pages(served: ASGIApp, access: Access, port: int, *, open_browser: bool) -> None:
    """Serve the viewer until the task is cancelled."""
    import asyncio

    from harness.models.relay.serving import listen_on_loopback
    from harness.reports.viewer.export import open_page, write_redirect

    async with listen_on_loopback(served, port=port) as origin:
        typer.echo(access.describe_url(origin))
        if not open_browser:
            await asyncio.Event().wait()
        # The file stays until the viewer ends, because a browser that starts slowly reads it late.
        with write_redirect(access.issue_url(origin)) as page:
            if not await asyncio.to_thread(open_page, page):
                typer.echo("note: no browser was found; open the address yourself", err=True)
            await asyncio.Event().wait()
