"""The images on the engine: build what is missing, find, list and prune them."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.errors import ImageMissingError, SandboxError
from harness.sandbox.base_image import bootstrap_base, pull_debian
from harness.sandbox.engine import engine_errors, image_details
from harness.sandbox.image_sources import BASE, IMAGE_NAMES, build_context, image_sources, image_tag
from harness.sandbox.lock import exclusive
from harness.sandbox.wheels import REQUIREMENTS, fetched_wheels

if TYPE_CHECKING:
    from docker import APIClient

__all__ = [
    "IMAGE_NAMES",
    "Image",
    "build_images",
    "image_tag",
    "list_images",
    "prune_images",
    "require_image",
]

LABEL = "harness.image"
LOG_TAIL_LINES = 30
LEFTOVER_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Image:
    """An image of ours on the engine. `tag` is None for one that lost its tag to a newer build."""

    name: str
    tag: str | None
    id: str
    size_bytes: int
    current: bool


def require_image(client: APIClient, name: str) -> str:
    """Return the id of image `name` as this version of harness builds it.

    Raises ImageMissingError where it was not built yet, UsageError for an unknown name.
    """
    image = _find(client, name)
    if image is None:
        raise ImageMissingError(
            f"image {image_tag(name)} is not on the engine",
            hint="run: harness setup   (or: harness images build)",
        )
    return image.id


def build_images(
    client: APIClient,
    names: Iterable[str] | None = None,
    *,
    notify: Callable[[str], None],
    force: bool = False,
) -> list[Image]:
    """Build those of the images (by default of all) that the engine does not have; return all of them.

    `force` builds them anew, without the engine's cache. `notify` gets a line for each step that
    takes time. Safe beside another build. Raises ImageMissingError or SandboxError with the end of the log.
    """
    wanted = tuple(IMAGE_NAMES if names is None else names)
    found = {name: None if force else _find(client, name) for name in wanted}
    if None in found.values():
        with exclusive("images", notify=notify):
            for name in sorted((n for n in wanted if found[n] is None), key=IMAGE_NAMES.index):
                found[name] = _provide(client, name, notify=notify, force=force)
    return [image for image in found.values() if image is not None]


def list_images(client: APIClient) -> list[Image]:
    """All images of ours on the engine, stale ones and those of other versions of harness too."""
    current = {image_tag(name) for name in IMAGE_NAMES}
    with engine_errors("list the images"):
        listed = client.images(filters={"label": LABEL})
    images = [
        Image(
            name=item["Labels"][LABEL],
            tag=None if tag == "<none>:<none>" else tag,
            id=item["Id"],
            size_bytes=item["Size"],
            current=tag in current,
        )
        for item in listed
        for tag in item["RepoTags"] or ["<none>:<none>"]
    ]
    return sorted(images, key=lambda image: (image.name, not image.current, image.tag or ""))


def prune_images(client: APIClient, *, notify: Callable[[str], None]) -> list[str]:
    """Remove our stale images that no container uses; return their tags, or ids where untagged."""
    from docker.errors import APIError

    removed = []
    # A build's fresh image is untagged for a moment, and then looks stale.
    with exclusive("images", notify=notify):
        # The base last: what stands on it keeps its layers.
        for image in sorted(list_images(client), key=lambda image: image.name == BASE):
            reference = image.tag or image.id
            if image.current:
                continue
            with engine_errors(f"remove image {reference}"):
                try:
                    client.remove_image(reference)
                    removed.append(reference)
                except APIError as error:
                    if error.status_code not in (404, 409):  # gone already; in use
                        raise
    return removed


def _find(client: APIClient, name: str) -> Image | None:
    tag = image_tag(name)
    details = image_details(client, tag)
    if details is None:
        return None
    return Image(name=name, tag=tag, id=details["Id"], size_bytes=details["Size"], current=True)


def _provide(client: APIClient, name: str, *, notify: Callable[[str], None], force: bool) -> Image:
    """Build image `name` unless it is there by now. The caller holds the lock."""
    image = None if force else _find(client, name)
    if image is not None:
        return image
    if name == BASE:
        reason = pull_debian(client, notify=notify)
        if reason is not None:
            bootstrap_base(client, image_tag(BASE), reason=reason, notify=notify)
        else:
            _build(client, name, notify=notify, force=force)
    else:
        if _find(client, BASE) is None:
            _provide(client, BASE, notify=notify, force=False)
        _build(client, name, notify=notify, force=force)
    image = _find(client, name)
    if image is None:
        raise SandboxError(f"image {image_tag(name)} was built and is gone", hint="run: harness images build")
    return image


def _build(client: APIClient, name: str, *, notify: Callable[[str], None], force: bool) -> None:
    requirements = dict(image_sources(name)).get(REQUIREMENTS)
    fetched = {} if requirements is None else fetched_wheels(name, requirements, notify=notify)
    notify(f"image {name}: building {image_tag(name)}")
    log: deque[str] = deque(maxlen=LOG_TAIL_LINES)
    layers: list[str] = []
    done = False
    try:
        with engine_errors(f"build image {name}"):
            events = client.build(
                fileobj=build_context(name, fetched),
                custom_context=True,
                tag=image_tag(name),
                labels={LABEL: name},
                buildargs={} if name == BASE else {"BASE": image_tag(BASE)},
                nocache=force,
                rm=True,
                forcerm=True,
                decode=True,
            )
            # Closed on Ctrl-C too: the engine ends a build whose client has gone.
            with closing(events):
                for event in events:
                    _read_event(name, event, log, layers)
        done = True
    finally:
        if not done:
            _remove_leftovers(client, layers)


def _read_event(name: str, event: dict[str, Any], log: deque[str], layers: list[str]) -> None:
    text = str(event.get("stream") or event.get("error") or "")
    log.extend(line for line in text.splitlines() if line.strip())
    layers.extend(re.findall(r"^ ---> ([0-9a-f]{12,64})$", text, re.MULTILINE))
    if "error" in event:
        raise SandboxError(
            f"cannot build image {name}; the end of the log:\n" + "\n".join(f"  {line}" for line in log),
            hint="once its cause is gone run: harness images build",
        )


def _remove_leftovers(client: APIClient, layers: list[str]) -> None:
    """Remove what a failed build left: the untagged image of its last step, and with it those before."""
    from docker.errors import APIError

    deadline = time.monotonic() + LEFTOVER_SECONDS
    # The error that is on its way says more than one from here.
    with suppress(SandboxError), engine_errors("remove what the build left"):
        while layers:
            details = image_details(client, layers[-1])
            try:
                if details is not None and not details["RepoTags"]:
                    client.remove_image(layers[-1])
                layers.pop()
            except APIError as error:
                # The container of an interrupted step still runs on it.
                if error.status_code != 409 or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
