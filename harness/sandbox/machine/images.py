"""Build missing images, list and prune images."""

from __future__ import annotations

import math
import re
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

from harness.core.errors import SandboxError
from harness.core.lock import exclusive
from harness.sandbox.backends.docker.engine import engine_errors, image_details, is_going, is_gone
from harness.sandbox.backends.docker.images import (
    AGENT_LABEL,
    BASE,
    LABEL,
    Image,
    build_context,
    find_image,
    image_names,
    image_sources,
    image_tag,
    language_image_names,
    remove_stale_volumes,
)
from harness.sandbox.machine.installation import REQUIREMENTS, bootstrap_base, fetch_wheels, pull_debian

if TYPE_CHECKING:
    from docker import APIClient


LOG_TAIL_LINES = 30
LEFTOVER_SECONDS = 5.0
MOST_BUILD_SECONDS = 4 * 3600.0
# The engine's name of an image that has lost its tag to a newer build.
_UNTAGGED = "<none>:<none>"
# The lock of builds of prepared agents, which may take minutes. Builds of other images do not wait for it.
AGENTS_LOCK = "agents"


def run_build(
    client: APIClient,
    name: str,
    *,
    seconds: float = MOST_BUILD_SECONDS,
    locate: Callable[[int], str] = lambda _step: "",
    hint: str = "fix the cause, then run: harness images build",
    **arguments: Any,
) -> None:
    """Build image `name` with these arguments of `APIClient.build`.

    Raises SandboxError with the end of the log if the build fails or takes longer than `seconds`. `locate`
    returns the place of a step for that message. Nothing of such a build is left.
    """
    from requests import ConnectionError, ReadTimeout

    log = _BuildLog(name, locate, hint)
    deadline = time.monotonic() + seconds
    done = False
    try:
        with engine_errors(f"build image {name}"):
            try:
                events = client.build(
                    rm=True, forcerm=True, decode=True, timeout=math.ceil(seconds), **arguments
                )
                # Ctrl-C closes the events too, and the engine ends a build whose client is gone.
                with closing(events):
                    for event in events:
                        log.read(event)
                        if time.monotonic() > deadline:
                            raise ReadTimeout
            except (ReadTimeout, ConnectionError) as error:
                if time.monotonic() < deadline:
                    raise
                raise log.fail(f"it took more than {seconds:g} s") from error
        done = True
    finally:
        if not done:
            _remove_leftovers(client, log.layers)


class _BuildLog:
    """The end of a build's log, the layers that it made, and the step under way."""

    def __init__(self, name: str, locate: Callable[[int], str], hint: str) -> None:
        self.layers: list[str] = []
        self._name, self._locate, self._hint = name, locate, hint
        self._lines: deque[str] = deque(maxlen=LOG_TAIL_LINES)
        self._step = 0

    def read(self, event: dict[str, Any]) -> None:
        """Note an event. Raises SandboxError for the event of a failure."""
        text = str(event.get("stream") or event.get("error") or "")
        self._lines.extend(line for line in text.splitlines() if line.strip())
        self.layers.extend(re.findall(r"^ ---> ([0-9a-f]{12,64})$", text, re.MULTILINE))
        if (step := re.match(r"Step (\d+)/", text)) is not None:
            self._step = int(step[1])
        if "error" in event:
            raise self.fail()

    def fail(self, reason: str = "") -> SandboxError:
        """Return the error for this build, with the place and the end of the log."""
        why = f": {reason}" if reason else ""
        end = "\n".join(f"  {line}" for line in self._lines)
        return SandboxError(
            f"cannot build image {self._name}{self._locate(self._step)}{why}; the end of the log:\n{end}",
            hint=self._hint,
            lasting=True,
        )


def _remove_leftovers(client: APIClient, layers: list[str]) -> None:
    """Remove the untagged images of a failed build, from its last step to the first."""
    from docker.errors import APIError

    deadline = time.monotonic() + LEFTOVER_SECONDS
    # An error from here is suppressed, because it would hide the error of the build.
    with suppress(SandboxError), engine_errors("remove what the build left"):
        while layers:
            details = image_details(client, layers[-1])
            try:
                if details is not None and not details["RepoTags"]:
                    client.remove_image(layers[-1])
                layers.pop()
            except APIError as error:
                if is_gone(error):
                    layers.pop()
                    continue
                # The container of an interrupted step may still use the image.
                if not is_going(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)


def build_images(
    client: APIClient,
    names: Iterable[str] | None = None,
    *,
    notify: Callable[[str], None],
    force: bool = False,
) -> list[Image]:
    """Return the images of these names, and build those that the engine does not have.

    The default is all but the languages' images.

    `force` builds all of them again, without the engine's cache. `notify` gets a line for each step that
    takes time. Several processes may call this at once. Raises ImageMissingError or SandboxError with the end
    of the log.
    """
    wanted = tuple(image_names() if names is None else names)
    found = {name: None if force else find_image(client, name) for name in wanted}
    if None in found.values():
        with exclusive("images", notify=notify):
            # The base comes first.
            for name in sorted((n for n in wanted if found[n] is None), key=lambda name: name != BASE):
                found[name] = _provide(client, name, notify=notify, force=force)
    return [image for image in found.values() if image is not None]


def list_images(client: APIClient) -> list[Image]:
    """Return all images that harness has built, including stale ones and other versions'.

    An image that a user has built from one of ours inherits our label. It has neither a tag of ours, nor the
    label as its last layer.
    """
    names = (*image_names(), *language_image_names())
    current = {image_tag(name) for name in names}
    with engine_errors("list the images"):
        listed = client.images(filters={"label": LABEL})
    # A user may remove the sources of a prepared agent, so only the image that it is built on makes it stale.
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
        # Podman puts images without a registry below this name.
        for tag in (name.removeprefix("localhost/") for name in item["RepoTags"] or [_UNTAGGED])
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
    """Remove our stale images that no container uses; return their tags, or the ids of untagged ones.

    The volumes of guests go with their images, and are returned by their names.
    """
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
    return [*removed, *remove_stale_volumes(client)]


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
