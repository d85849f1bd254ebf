"""`harness setup`, which prepares the machine, and `harness gc`, which removes containers of dead runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated

import typer

app = typer.Typer()
BACKEND_HELP = "auto, docker, or oci: a runtime without an engine. Default: auto."


@app.command()
def setup(
    runtime: Annotated[
        str,
        typer.Option(help="Container runtime of later runs. runsc (gVisor) is installed if missing."),
    ] = "runc",
    benchmark: Annotated[
        str | None, typer.Option("-b", "--benchmark", help="Prepare only for this benchmark. Default: all.")
    ] = None,
    backend: Annotated[str, typer.Option(metavar="NAME", help=BACKEND_HELP)] = "auto",
) -> None:
    """Prepare this machine: Docker engine and images.

    With --backend oci, it needs no engine. It also removes the containers of dead runs.
    """
    from harness.sandbox.backends import read_name

    started = time.monotonic()
    images = None if benchmark is None else _list_images_of(benchmark)
    if images == []:
        typer.echo(f"{benchmark} needs no sandbox, so it needs no engine and no images")
        return
    from harness.reports.console import show_waiting

    with show_waiting("preparing this machine") as notify:
        if read_name(backend) == "oci":
            _set_up_oci(images, notify)
        else:
            _prepare(runtime, images, notify)
    typer.echo(f"ready in {time.monotonic() - started:.1f} s")


def _prepare(runtime: str, images: list[str] | None, notify: Callable[[str], None]) -> None:
    from harness.sandbox.backends.docker.backend import DockerBackend
    from harness.sandbox.backends.docker.engine import engine_facts, require_runtime
    from harness.sandbox.machine.gvisor import RUNTIME, ensure_runsc
    from harness.sandbox.machine.images import build_images
    from harness.sandbox.machine.installation import ensure_engine
    from harness.sandbox.reaper import remove_orphans

    client = ensure_engine(notify=notify)
    facts = engine_facts(client)
    if runtime != RUNTIME:
        require_runtime(facts, runtime)
    notify(f"engine: {facts.name} {facts.version}, cgroup v{facts.cgroup_version}, {runtime}")
    for image in build_images(client, images, notify=notify):
        notify(f"image {image.name}: {image.tag}")
    if runtime == RUNTIME:
        ensure_runsc(client, notify=notify)
        notify(f"runtime: {runtime} works")
    notify(f"containers of dead runs: {len(remove_orphans(DockerBackend(client)))} removed")


def _set_up_oci(images: list[str] | None, notify: Callable[[str], None]) -> None:
    """Install the runtime if it is missing, and provide the images."""
    from harness.sandbox.backends import connect_backend
    from harness.sandbox.machine.unpacked_images import provide_images, provide_runtime
    from harness.sandbox.reaper import remove_orphans

    notify(f"runtime: {provide_runtime(notify=notify)}, without an engine")
    backend = connect_backend("oci")
    for image in provide_images(images, notify=notify):
        notify(f"image {image.labels['harness.image']}: {image.tag}")
    notify(f"containers of dead runs: {len(remove_orphans(backend))} removed")


def _list_images_of(benchmark: str) -> list[str]:
    """Return the images of a benchmark. Its bundled sample needs the same images as the whole benchmark."""
    from harness.benchmarks.loading import load_benchmark
    from harness.runs.workspaces import list_images

    sample = load_benchmark(benchmark, data="bundled")
    return list_images(sample, sample.tasks)


@app.command()
def gc() -> None:
    """Remove the containers and the folders of dead runs."""
    from harness.sandbox.backends import connect_backends
    from harness.sandbox.host_programs.folders import remove_abandoned_folders
    from harness.sandbox.reaper import remove_orphans

    backends = connect_backends()
    folders = remove_abandoned_folders()
    for folder in folders:
        typer.echo(f"removed {folder}: the harness that made it is gone")
    orphans = [orphan for backend in backends for orphan in remove_orphans(backend)]
    for orphan in orphans:
        typer.echo(
            f"removed {orphan.container_id[:12]} ({orphan.role} of run {orphan.run_id}): {orphan.reason}"
        )
    typer.echo(f"{len(orphans)} container(s) and {len(folders)} folder(s) removed")
