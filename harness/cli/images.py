"""`harness images`: build, list and prune the images of sandboxes."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.cli.setup import BACKEND_HELP

app = typer.Typer(name="images", help="Build, list and prune the images.", no_args_is_help=True)


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
            help="Add an agent to the images in which agents run programs (repeatable). PATH is a folder "
            "with its files, or a Dockerfile. Without PATH, pip or npm installs a known agent.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Build existing images again.")] = False,
    backend: Annotated[str, typer.Option(metavar="NAME", help=BACKEND_HELP)] = "auto",
) -> None:
    """Build the images that the engine does not have.

    With --backend oci, images are built without an engine.
    """
    from harness.sandbox.backends import read_name
    from harness.sandbox.backends.docker.engine import connect
    from harness.sandbox.machine.images import build_images

    if agents:
        from harness.cli.prepared_agents import choose_bases, find_source
        from harness.sandbox.machine.agent_images import build_agent_images

        bases = choose_bases(names)
        # Before the engine is asked, so that a wrong path is reported at once.
        sources = [find_source(text) for text in agents]
        client = connect()
        for source in sources:
            for image in build_agent_images(client, source, bases, notify=typer.echo, force=force):
                typer.echo(f"image {image.name}: {image.tag}")
        return
    if read_name(backend) == "oci":
        from harness.sandbox.machine.unpacked_images import provide_images

        for unpacked in provide_images(names or None, notify=typer.echo, force=force):
            typer.echo(f"image {unpacked.labels['harness.image']}: {unpacked.tag}")
        return
    client = connect()
    for image in build_images(client, names or None, notify=typer.echo, force=force):
        typer.echo(f"image {image.name}: {image.tag}")


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
def prune() -> None:
    """Remove stale images that no container uses."""
    from harness.sandbox.backends.docker.engine import connect
    from harness.sandbox.machine.images import prune_images

    removed = prune_images(connect(), notify=typer.echo)
    for reference in removed:
        typer.echo(f"removed {reference}")
    typer.echo(f"{len(removed)} image(s) removed")
