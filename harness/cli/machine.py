"""`harness setup`, `gc` and `images`: prepare this machine, clean it up, and manage the images."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.options import BACKEND_HELP

if TYPE_CHECKING:
    from harness.sandbox.machine.agent_images import AgentSource

app = typer.Typer()


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


def find_source(text: str) -> AgentSource:
    """Return the source of an agent from NAME=PATH, or from the NAME of a known agent. Raises UsageError."""
    from harness.core.errors import UsageError, unknown_name
    from harness.runs.agents.command.profiles import PROFILES
    from harness.sandbox.machine.agent_images import AgentSource, read_agent_source
    from harness.sandbox.machine.agent_layer import Packages, make_recipe

    name, is_given, path = text.partition("=")
    if is_given:
        return read_agent_source(name, Path(path))
    if name not in PROFILES:
        error = unknown_name("agent", name, PROFILES)
        raise UsageError(
            error.message, hint=f"{error.hint}; for an agent of yours, give its files: --agent {name}=FOLDER"
        )
    profile = PROFILES[name]
    packages = Packages(profile.python, profile.node, profile.leave_out, profile.links)
    return AgentSource(name, recipe=make_recipe(name, packages))


def choose_bases(names: list[str] | None) -> tuple[str, ...]:
    """Return the images among these where agents run programs, by default all. Raises UsageError."""
    from harness.core.errors import unknown_name
    from harness.environments import environment_specs
    from harness.environments.workspace import WORKSPACE_IMAGE

    specs = environment_specs().values()
    known = sorted({WORKSPACE_IMAGE, *(spec.image for spec in specs if spec.is_workspace and spec.image)})
    for name in names or ():
        if name not in known:
            raise unknown_name("image where agents run programs", name, known)
    return tuple(names or known)


_images = typer.Typer(name="images", help="Build, list, verify and prune the images.", no_args_is_help=True)
app.add_typer(_images)


@_images.command()
def build(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Images to build. Default: all.")
    ] = None,
    agents: Annotated[
        list[str] | None,
        typer.Option(
            "--agent",
            metavar="NAME[=PATH]",
            help="Add an agent to the images where agents run programs (repeatable). PATH is a folder "
            "with its files, or a Dockerfile. Without PATH, pip or npm installs a known agent.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Build existing images again.")] = False,
    backend: Annotated[str, typer.Option(metavar="NAME", help=BACKEND_HELP)] = "auto",
) -> None:
    """Build the images that the engine does not have.

    With --backend oci, images are built without an engine.
    """
    from harness.reports.console import show_waiting
    from harness.sandbox.backends import read_name
    from harness.sandbox.backends.docker.engine import connect
    from harness.sandbox.backends.docker.images import image_sources
    from harness.sandbox.machine.images import build_images

    if agents:
        from harness.sandbox.machine.agent_images import build_agent_images

        bases = choose_bases(names)
        # Before the engine is asked, so that a wrong path is reported at once.
        sources = [find_source(text) for text in agents]
        client = connect()
        with show_waiting("adding the agent to the images") as notify:
            for source in sources:
                for image in build_agent_images(client, source, bases, notify=notify, force=force):
                    notify(f"image {image.name}: {image.tag}")
        return
    for name in names or ():
        image_sources(name)  # before the engine is asked
    if read_name(backend) == "oci":
        from harness.sandbox.machine.unpacked_images import provide_images

        for unpacked in provide_images(names or None, notify=typer.echo, force=force):
            typer.echo(f"image {unpacked.labels['harness.image']}: {unpacked.tag}")
        return
    client = connect()
    with show_waiting("building the images that are missing") as notify:
        for image in build_images(client, names or None, notify=notify, force=force):
            notify(f"image {image.name}: {image.tag}")


@_images.command("list")
def list_() -> None:
    """List the harness images on the engine.

    A stale image was built from the sources of another version.
    """
    from harness.sandbox.backends.docker.engine import connect
    from harness.sandbox.machine.images import list_images

    images = list_images(connect())
    references = [image.tag or f"harness/{image.name}:<untagged>" for image in images]
    width = max(map(len, references), default=0)
    for image, reference in zip(images, references, strict=True):
        state = "current" if image.current else "stale"
        short_id = image.id.removeprefix("sha256:")[:12]
        typer.echo(f"{reference:<{width}} {short_id} {image.size_bytes / 1e6:>7.0f} MB  {state}")


@_images.command()
def verify(
    update: Annotated[
        bool, typer.Option("--update", help="Write what the images have to images/lock.json of a checkout.")
    ] = False,
) -> None:
    """Compare the images with those that the tests passed with.

    The exit code is 1 if a recipe or the version of a Debian package differs from images/lock.json.
    """
    from harness.cli.streams import print_error
    from harness.reports.console import show_waiting
    from harness.sandbox.backends.docker.engine import connect
    from harness.sandbox.machine.image_lock import find_differences, write_lock

    with show_waiting("reading the images"):
        if update:
            write_lock()
        found = find_differences(connect())
    for name, differences in found.items():
        typer.echo(f"image {name}: {f'{len(differences)} differences' if differences else 'as locked'}")
        for difference in differences:
            typer.echo(f"  {difference}")
    if any(found.values()):
        print_error(
            "the images differ from images/lock.json",
            "updates of Debian change versions, which is harmless; harness images build builds missing ones",
        )
        raise typer.Exit(1)


@_images.command()
def prune() -> None:
    """Remove stale images that no container uses."""
    from harness.sandbox.backends.docker.engine import connect
    from harness.sandbox.machine.images import prune_images

    removed = prune_images(connect(), notify=typer.echo)
    for reference in removed:
        typer.echo(f"removed {reference}")
    typer.echo(f"{len(removed)} image(s) removed")
