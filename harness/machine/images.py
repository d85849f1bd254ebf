"""Build missing images, list and prune images."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from harness.errors import SandboxError
from harness.lock import exclusive
from harness.machine.base_image import bootstrap_base, pull_debian
from harness.machine.image_build import run_build
from harness.machine.wheels import REQUIREMENTS, fetch_wheels
from harness.sandbox.backends.docker.engine import engine_errors, is_going, is_gone
from harness.sandbox.backends.docker.image_sources import (
    BASE,
    build_context,
    image_names,
    image_sources,
    image_tag,
)
from harness.sandbox.backends.docker.images import AGENT_LABEL, LABEL, Image, find_image

if TYPE_CHECKING:
    from docker import APIClient

# The engine's name of an image that has lost its tag to a newer build.
_UNTAGGED = "<none>:<none>"
# The lock of builds of prepared agents, which may take minutes. Builds of other images do not wait for it.
AGENTS_LOCK = "agents"


def build_images(
    client: APIClient,
    names: Iterable[str] | None = None,
    *,
    notify: Callable[[str], None],
    force: bool = False,
) -> list[Image]:
    """Return the images of these names (default: all), and build those that the engine does not have.

    `force` builds all of them again, without the engine's cache. `notify` gets a line for each step that
    takes time. Several processes may call this at once. Raises ImageMissingError or SandboxError with the end
    of the log.
    """
    wanted = tuple(image_names() if names is None else names)
    found = {name: None if force else find_image(client, name) for name in wanted}
    if None in found.values():
        with exclusive("images", notify=notify):
            for name in sorted((n for n in wanted if found[n] is None), key=image_names().index):
                found[name] = _provide(client, name, notify=notify, force=force)
    return [image for image in found.values() if image is not None]


def list_images(client: APIClient) -> list[Image]:
    """Return all images that harness has built, including stale ones and those of other versions.

    An image that a user has built from one of ours inherits our label. It has neither a tag of ours, nor the
    label as its last layer.
    """
    names = image_names()
    current = {image_tag(name) for name in names}
    with engine_errors("list the images"):
        listed = client.images(filters={"label": LABEL})
    # A user may remove the sources of a prepared agent, so only the image that it stands on makes it stale.
    prepared = (item["Labels"][LABEL] for item in listed if AGENT_LABEL in item["Labels"])
    current |= {image_tag(name) for name in prepared if name.partition("+")[0] in names}
    images = [
        Image(
            name=item["Labels"][LABEL],
            tag=None if tag == _UNTAGGED else tag,
            id=item["Id"],
            size_bytes=item["Size"],
            current=tag in current,
            agent_sha256=item["Labels"].get(AGENT_LABEL),
        )
        for item in listed
        for tag in item["RepoTags"] or [_UNTAGGED]
        if _is_ours(client, item["Labels"][LABEL], tag, item["Id"])
    ]
    return sorted(images, key=lambda image: (image.name, not image.current, image.tag or ""))


def _is_ours(client: APIClient, name: str, tag: str, image_id: str) -> bool:
    """Return whether harness has built an image with our label `name`, and has given it this tag."""
    from docker.errors import APIError

    if tag != _UNTAGGED:
        base, is_prepared, agent = name.partition("+")
        version = f"{base}-" if is_prepared else ""
        repository = f"harness/agent-{agent}" if is_prepared else f"harness/{base}"
        return re.fullmatch(rf"{re.escape(f'{repository}:{version}')}[0-9a-f]{{12}}", tag) is not None
    with engine_errors(f"read the history of image {image_id}"):
        try:
            layers = client.history(image_id)  # type: ignore[no-untyped-call]
        except APIError as error:
            if is_gone(error) or is_going(error):
                return False
            raise
    # The builder adds labels last, and the imported base is one layer.
    return len(layers) == 1 or f"{LABEL}=" in str(layers[0].get("CreatedBy"))


def prune_images(client: APIClient, *, notify: Callable[[str], None]) -> list[str]:
    """Remove our stale images that no container uses; return their tags, or the ids of untagged ones."""
    from docker.errors import APIError

    removed = []
    # The locks keep builds away, because a new image is untagged for a moment and then looks stale.
    with exclusive(AGENTS_LOCK, notify=notify), exclusive("images", notify=notify):
        # The base comes last, because the engine cannot remove it before the images that are built on it.
        for image in sorted(list_images(client), key=lambda image: image.name == BASE):
            reference = image.tag or image.id
            if image.current:
                continue
            with engine_errors(f"remove image {reference}"):
                try:
                    client.remove_image(reference)
                    removed.append(reference)
                except APIError as error:
                    if not is_gone(error) and not is_going(error):
                        raise
    return removed


def _provide(client: APIClient, name: str, *, notify: Callable[[str], None], force: bool) -> Image:
    """Return image `name`, and build it unless another process has done so. The caller holds the lock."""
    image = None if force else find_image(client, name)
    if image is not None:
        return image
    if name == BASE:
        reason = pull_debian(client, notify=notify)
        if reason is not None:
            bootstrap_base(client, image_tag(BASE), reason=reason, notify=notify)
        else:
            _build(client, name, notify=notify, force=force)
    else:
        if find_image(client, BASE) is None:
            _provide(client, BASE, notify=notify, force=False)
        _build(client, name, notify=notify, force=force)
    image = find_image(client, name)
    if image is None:
        raise SandboxError(
            f"image {image_tag(name)} was built and has been removed since", hint="run: harness images build"
        )
    return image


def _build(client: APIClient, name: str, *, notify: Callable[[str], None], force: bool) -> None:
    requirements = dict(image_sources(name)).get(REQUIREMENTS)
    fetched = {} if requirements is None else fetch_wheels(name, requirements, notify=notify)
    notify(f"image {name}: building {image_tag(name)}")
    run_build(
        client,
        name,
        fileobj=build_context(name, fetched),
        custom_context=True,
        tag=image_tag(name),
        labels={LABEL: name},
        buildargs={} if name == BASE else {"BASE": image_tag(BASE)},
        nocache=force,
    )
