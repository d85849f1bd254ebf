"""`harness images`: build, list, verify and prune the images of sandboxes."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.cli.setup import BACKEND_HELP

app = typer.Typer(name="images", help="Build, list, verify and prune the images.", no_args_is_help=True)


@app.command()
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
        from harness.cli.prepared_agents import choose_bases, find_source
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


@app.command("list")
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


@app.command()
def verify(
    update: Annotated[
        bool, typer.Option("--update", help="Write what the images have to images/lock.json of a checkout.")
    ] = False,
) -> None:
    """Compare the images with those that the tests passed with.

    The exit code is 1 if a recipe or the version of a Debian package differs from images/lock.json.
    """
    from harness.cli.error_lines import print_error
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


@app.command()
def prune() -> None:
    """Remove stale images that no container uses."""
    from harness.sandbox.backends.docker.engine import connect
    from harness.sandbox.machine.images import prune_images

    removed = prune_images(connect(), notify=typer.echo)
    for reference in removed:
        typer.echo(f"removed {reference}")
    typer.echo(f"{len(removed)} image(s) removed")
