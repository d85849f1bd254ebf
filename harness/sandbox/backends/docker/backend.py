"""The Docker engine as the backend of sandboxes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from harness.core.errors import SandboxError, UsageError
from harness.core.logger import get_logger
from harness.sandbox.backends.base import (
    BackendFacts,
    BuildRules,
    BuiltImage,
    DiskUse,
    Fate,
    FoundContainer,
    FoundImage,
    ImageFacts,
    JoinedContainer,
    SandboxSpec,
    StartedContainer,
    find_shortage,
    free_bytes,
)
from harness.sandbox.backends.docker import attempt_network, engine
from harness.sandbox.backends.docker.container import list_containers, remove, start_container
from harness.sandbox.backends.docker.engine import engine_errors
from harness.sandbox.backends.docker.fate import explain_silence, find_fate
from harness.sandbox.backends.docker.foreign import make_foreign_config, make_volume_finder, read_image_facts
from harness.sandbox.backends.docker.images import (
    Image,
    find_content,
    find_image,
    language_image_names,
    load_archive,
    require_build,
    save_archive,
)
from harness.sandbox.backends.docker.podman import adapt_to_podman
from harness.sandbox.backends.docker.runtimes import read_runtime_facts
from harness.sandbox.backends.docker.spec import container_config
from harness.sandbox.backends.hardening import MOST_SOCKETS, SMALL_BUFFERS, choose_sockets
from harness.sandbox.backends.seccomp import Sockets

if TYPE_CHECKING:
    from docker import APIClient

_LOGGER = get_logger(__name__)


def measure_disk(client: APIClient, container_id: str, root: Path | None) -> DiskUse:
    """Return the disk space that a container takes. `root` is the engine's folder. Raises SandboxError."""
    written = written_bytes(client, container_id)
    if root is None:
        return DiskUse(written)
    return DiskUse(written, free_bytes(root), find_shortage(root), root)


def written_bytes(client: APIClient, container_id: str) -> int | None:
    """Return the bytes in a container's own layer, None if it is gone. Raises SandboxError.

    Folders and empty files count as 0.
    """
    with engine_errors("measure what a sandbox wrote"):
        listed = client.containers(all=True, size=True, filters={"id": container_id})
    return int(listed[0].get("SizeRw") or 0) if listed else None


def find_root(client: APIClient, info: Mapping[str, Any]) -> Path | None:
    """Return the folder that an engine names in its reply, None if it is on another machine."""
    root = Path(info["DockerRootDir"])
    with suppress(OSError):
        if client.base_url.startswith("http+docker://") and root.is_dir():
            return root
    return None


def connect() -> DockerBackend:
    """Return a backend that is connected to the engine of the environment.

    Raises EngineUnavailableError within seconds.
    """
    return DockerBackend(engine.connect())


class DockerBackend:
    """Sandboxes on a Docker engine, under any of its runtimes. Implements `Backend`, `MakesNetworks`,
    `MovesImages` and `RunsForeignImages`.

    Threads may share it.
    """

    name = "docker"

    def __init__(self, client: APIClient) -> None:
        # Public for the code that sets up and examines the engine itself.
        self.client = client
        self._find_volumes = make_volume_finder(client)
        # The containers that an engine did not remove when it was asked to.
        self._owed: set[str] = set()

    def close(self) -> None:
        """Close the connection. Sandboxes keep running."""
        self.client.close()

    def describe(self, *, runtime: str | None = None, images: Iterable[str] = ()) -> BackendFacts:
        if not engine.engine_answers(self.client):
            raise SandboxError("the engine does not answer", outside=True)
        names = list(images)
        replies = self._replies = engine.ask_engine(self.client)
        facts = engine.read_engine_facts(replies)
        if runtime is not None:
            engine.require_runtime(facts, runtime)
        found = {name: self._require(name) for name in names}
        return BackendFacts(
            # Earlier versions let graders share one. Each sandbox has its own now.
            engine=asdict(facts) | {"may_share_networks": False},
            runtime=None if runtime is None else asdict(read_runtime_facts(replies, runtime)),
            images={name: image.id for name, image in found.items()},
            image_tags={name: image.sources for name, image in found.items()},
        )

    def _require(self, name: str) -> Image:
        """Return an image of harness. The image of a language is built now if the engine lacks it."""
        if name in language_image_names() and find_image(self.client, name) is None:
            from harness.sandbox.machine.images import build_images

            return build_images(self.client, [name], notify=_LOGGER.warning)[0]
        return require_build(self.client, name)

    def start(self, spec: SandboxSpec) -> StartedContainer:
        # The profile `strict` allows local sockets alone, whatever the engine counts.
        sockets = "local" if spec.seccomp == "strict" else self._choose_sockets(spec)
        if not spec.image.startswith("sha256:"):
            spec = replace(spec, image=self._require(spec.image).id)
        if spec.foreign is not None:
            return self._start_foreign(spec)
        config = container_config(self.client, spec, sockets=sockets)
        if self._is_podman:
            config = adapt_to_podman(config)
        started = start_container(self.client, spec, config)
        return replace(started, most_sockets=MOST_SOCKETS) if sockets == "relayed" else started

    def _start_foreign(self, spec: SandboxSpec) -> StartedContainer:
        # Programs of any image expect sockets of every kind. Where the kernel does not count their memory,
        # their buffers are small and the guest counts them.
        is_counted = self._choose_sockets(spec) in ("internet", "all")
        config = container_config(self.client, spec, sockets="all")
        config = make_foreign_config(self.client, spec, config, self._find_volumes(spec.image))
        # The settings of a namespace that it joins are made already.
        if not is_counted and not isinstance(spec.foreign and spec.foreign.network, JoinedContainer):
            config["host_config"]["Sysctls"] = SMALL_BUFFERS
        started = start_container(self.client, spec, config)
        return started if is_counted else replace(started, most_sockets=MOST_SOCKETS)

    def find_fate(self, container_id: str, *, silent: bool = False) -> Fate:
        if silent:
            return Fate(explain_silence(self.client, container_id))
        return find_fate(self.client, container_id)

    def measure_disk(self, container_id: str) -> DiskUse:
        return measure_disk(self.client, container_id, self._root)

    def destroy(self, container_id: str) -> bool:
        try:
            removed = remove(self.client, container_id)
        except SandboxError:
            self._owed.add(container_id)
            raise
        # The engine works again. Their owner may live for weeks, so nobody else would remove them.
        for owed in list(self._owed):
            with suppress(SandboxError):
                remove(self.client, owed)
                self._owed.discard(owed)
        return removed

    def find_containers(self, labels: Mapping[str, str | None]) -> list[FoundContainer]:
        return list_containers(self.client, labels)

    def inspect_image(self, reference: str) -> ImageFacts | None:
        details = engine.image_details(self.client, reference)
        return None if details is None else read_image_facts(details)

    def make_network(self, name: str, labels: Mapping[str, str], *, is_public: bool) -> None:
        if self._is_podman:
            # It gives the network an address of its machine, whatever the options are.
            raise UsageError("Podman has no networks without its own machine", hint="use Docker Engine")
        attempt_network.make_network(self.client, name, labels, is_public=is_public)

    def destroy_network(self, name: str) -> None:
        attempt_network.destroy_network(self.client, name)

    def find_networks(self, labels: Mapping[str, str | None]) -> Mapping[str, Mapping[str, str]]:
        return attempt_network.find_networks(self.client, labels)

    # Imported here, because the builds of images are a part of the set-up of a machine.

    def pull_image(self, reference: str, *, notify: Callable[[str], None]) -> str | None:
        from harness.sandbox.machine.installation import pull_image

        return pull_image(self.client, reference, notify=notify)

    def build_image(
        self, folder: Path, rules: BuildRules, *, name: str, seconds: float, notify: Callable[[str], None]
    ) -> BuiltImage:
        from harness.sandbox.machine.task_images import build_folder

        return build_folder(self.client, folder, rules, name=name, seconds=seconds, notify=notify)

    def identify_engine(self) -> str:
        # Copies of one machine may have engines with the same id.
        return "|".join(str(self._replies.info[name]) for name in ("ID", "Name", "DockerRootDir"))

    def find_image(self, tag: str) -> FoundImage | None:
        return find_content(self.client, tag)

    def save_image(self, tag: str) -> Iterator[bytes]:
        return save_archive(self.client, tag)

    def load_image(self, archive: BinaryIO) -> None:
        load_archive(archive)

    # These cannot change while a connection to the engine lasts, and each question takes 20 ms.

    @cached_property
    def _replies(self) -> engine.EngineReplies:
        return engine.ask_engine(self.client)

    @cached_property
    def _cgroup_version(self) -> int:
        return engine.read_engine_facts(self._replies).cgroup_version

    @cached_property
    def _is_podman(self) -> bool:
        return engine.read_engine_facts(self._replies).name == engine.PODMAN

    @cached_property
    def _root(self) -> Path | None:
        return find_root(self.client, self._replies.info)

    def _choose_sockets(self, spec: SandboxSpec) -> Sockets:
        return choose_sockets(self._cgroup_version, spec.runtime, spec.limits, relay=spec.relay)
