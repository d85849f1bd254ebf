"""The interface between a sandbox and the backend that starts it.

`Sandbox` drives a guest over a stream and applies limits to jobs. A backend starts the container where
that guest is PID 1, isolates it and ends it. Docker is the only implementation in the package, and
`examples/backend` has another. Each implements `Backend` and passes `harness.sandbox.selfcheck`.

The methods block, because clients of container engines block. `Sandbox` calls them from threads.
"""

from __future__ import annotations

import enum
import os
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol, runtime_checkable

from harness.sandbox.limits import MIB, Limits

# A disk with less room is almost full.
RESERVE_BYTES = 512 * MIB
RESERVE_FILES = 10_000


@dataclass(frozen=True, slots=True)
class NetworkPlace:
    """A container's place in a network of one attempt (`MakesNetworks`)."""

    network: str
    # The other containers of the network reach this one by these names. It calls itself by the first.
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JoinedContainer:
    """A container whose network namespace another one joins, with all that listens there."""

    id: str


@dataclass(frozen=True, slots=True)
class ForeignImage:
    """The image of a container that is not one of harness. The guest brings all that it needs."""

    # The id of the image. Its files, users, environment and working folder stay as they are.
    id: str
    # Whether programs reach the network of the engine; else their place in another network.
    network: bool | NetworkPlace | JoinedContainer = False


@dataclass(frozen=True, slots=True)
class SandboxSpec:
    """Plain, picklable data that a backend starts one hardened container from."""

    # The name of an image of the harness, which means its current build, or the id of a build.
    image: str
    limits: Limits
    # The name of the container. `destroy` accepts it, even while the container is being started.
    name: str = ""
    runtime: str = "runc"
    # `strict` is for containers that only grade programs. It allows local sockets alone, and no System V IPC.
    seccomp: Literal["default", "strict"] = "default"
    # `shared` is for containers that only run programs under tests. They get no sockets but local pairs, so
    # that no counter of a network namespace leads from one program to the next.
    network: Literal["own", "shared"] = "own"
    labels: Mapping[str, str] = field(default_factory=dict)
    # Programs can write to the root file system. `DiskWatch` bounds that, because few engines can.
    writable_root: bool = False
    # The agent is root. Implies `writable_root`.
    root_agent: bool = False
    # Programs can open pseudo-terminals.
    terminals: bool = False
    # Programs and PID 1 can open stream sockets of IPv4, for the relay of a loopback port.
    relay: bool = False
    # The container runs this image, and gets the folders of the guest and of agents from `image`, read-only.
    # It has the capabilities and system calls that programs of any image expect, and sockets of every kind.
    foreign: ForeignImage | None = None


@dataclass(frozen=True, slots=True)
class StartedContainer:
    """A container whose guest runs, and the streams to it, which are connected, non-blocking sockets."""

    id: str
    # Bytes written to it are the guest's stdin, and it yields the guest's stdout. The guest ends when it
    # closes.
    stream: socket.socket
    # Yields the guest's stderr, which has a traceback if the guest has failed; None if it does not come
    # separately.
    stderr: socket.socket | None = None
    # Splits the next bytes of `stream` into stdout's and stderr's, for an engine that sends
    # both over one stream. Raises FrameError. None if all bytes are stdout.
    split: Callable[[bytes], tuple[bytes, bytes]] | None = None
    # The limits that nothing outside enforces, `processes` and `memory_mb`, so that the guest counts. It can
    # count memory only if the container has a kernel of its own.
    guest_counts: frozenset[str] = frozenset()
    # The number of open sockets at which the guest ends the container, because nothing counts the memory of
    # their buffers. None if it is counted, or if programs get no such sockets.
    most_sockets: int | None = None

    def close(self) -> None:
        """Close the streams, so that the guest ends."""
        self.stream.close()
        if self.stderr is not None:
            self.stderr.close()


class Cause(enum.Enum):
    """The cause of a sandbox's end, or of its silence."""

    INSIDE = "a program in the sandbox"
    MEMORY = "a lack of memory"
    OUTSIDE = "the engine, or somebody who uses it"


@dataclass(frozen=True, slots=True)
class Fate:
    """The cause of an end, and the exit code of PID 1 if the engine has one."""

    cause: Cause
    exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class DiskUse:
    """The disk space that a container takes, and the room that is left on the engine's disk."""

    # Bytes in the container's own layer: each file once, sparse files at their full length. None if there is
    # no such container.
    written_bytes: int | None
    # Free bytes of the engine's disk; None if that is on another machine.
    free_bytes: int | None = None
    # The shortage that endangers every user of that disk, in words; None if there is none.
    scarce: str | None = None
    # A folder on that disk, None if it is on another machine.
    folder: Path | None = None


def free_bytes(root: Path) -> int:
    """Return the free bytes of a file system, including those that are reserved for root."""
    facts = os.statvfs(root)
    return facts.f_bfree * facts.f_frsize


def find_shortage(root: Path) -> str | None:
    """Return the shortage of bytes or files on a file system, in words; None if there is none."""
    facts = os.statvfs(root)
    free = facts.f_bavail * facts.f_frsize
    if free < RESERVE_BYTES:
        return f"{free / MIB:.0f} MiB free"
    # Some file systems have no fixed number of files, and report 0.
    if facts.f_files and facts.f_favail < RESERVE_FILES:
        return f"{facts.f_favail} files free"
    return None


@dataclass(frozen=True, slots=True)
class FoundContainer:
    """A container that the engine has, whoever started it."""

    id: str
    labels: Mapping[str, str]
    running: bool


@dataclass(frozen=True, slots=True)
class BackendFacts:
    """The facts of a backend that a run writes into its manifest."""

    # The engine's version, kernel, cgroups and so on: plain JSON values.
    engine: Mapping[str, Any]
    # The requested runtime and the limits that it does not enforce; None if no runtime was requested.
    runtime: Mapping[str, Any] | None
    # Each requested image, and the id of its current build.
    images: Mapping[str, str]
    # The tag of each requested image. It ends in a hash of the image's sources, so that it is the same for
    # every build of them.
    image_tags: Mapping[str, str]


class Backend(Protocol):
    """Starts, examines and destroys the containers of sandboxes.

    Every method may raise SandboxError with `outside` set if the engine does not answer.
    """

    def describe(self, *, runtime: str | None = None, images: Iterable[str] = ()) -> BackendFacts:
        """Return the facts of the engine, of a runtime and of images, by their names.

        Raises SandboxError within seconds if the engine does not answer, UsageError for a runtime or an image
        that it does not know, ImageMissingError for an image that was not built.
        """

    def start(self, spec: SandboxSpec) -> StartedContainer:
        """Start a container with its streams attached before the start, and return it.

        Raises ImageMissingError, UsageError for an unknown image, and SandboxError. The caller destroys the
        container by its name, even after an error.
        """

    def find_fate(self, container_id: str, *, silent: bool = False) -> Fate:
        """Return why a container has ended. Its stream has ended already; wait for the container if need be.

        With `silent`, the container still runs but does not answer. The cause is then INSIDE only if its
        programs are measured to take most of the processor time, or of the memory, that it may have.
        """

    def measure_disk(self, container_id: str) -> DiskUse:
        """Return the disk space that a container takes."""

    def destroy(self, container_id: str) -> bool:
        """Kill and remove a container, by its id or name; return whether this call removed it.

        A missing container is not an error. Raises SandboxError if the container stays.
        """

    def find_containers(self, labels: Mapping[str, str | None]) -> list[FoundContainer]:
        """Return all containers, running or not, that have these labels; None matches any value."""


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """The settings of an image that is not one of harness."""

    id: str
    environment: Mapping[str, str]
    # `user` or `user:group`, each a name or a number; empty for root.
    user: str
    folder: str
    entrypoint: tuple[str, ...]
    command: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BuildRules:
    """The rules of a run for building images from Dockerfiles."""

    # Patterns of base images as in a shell, and the image that replaces each. `packages` is one of Debian's
    # packages.
    base_images: tuple[tuple[str, str], ...] = ()
    # The path of a certificate in PEM, which builds trust.
    ca_file: str | None = None


@dataclass(frozen=True, slots=True)
class BuiltImage:
    """An image that was built from a folder, or found for it."""

    id: str
    tag: str
    # Each base image of the Dockerfile that was replaced, and its replacement.
    replaced: tuple[tuple[str, str], ...] = ()


@runtime_checkable
class RunsForeignImages(Protocol):
    """A backend that starts images that are not ones of harness (`SandboxSpec.foreign`), and builds them."""

    def inspect_image(self, reference: str) -> ImageFacts | None:
        """Return the settings of an image, by its tag or id; None if there is none. Raises SandboxError."""

    def pull_image(self, reference: str, *, notify: Callable[[str], None]) -> str | None:
        """Pull an image unless the engine has it; return None, or the reason why that failed."""

    def build_image(
        self, folder: Path, rules: BuildRules, *, name: str, seconds: float, notify: Callable[[str], None]
    ) -> BuiltImage:
        """Return the image of a folder with a Dockerfile, and build it unless the engine has it.

        `name` is the task's, for messages. Raises DataError, UsageError, and SandboxError for a failed build.
        """


@runtime_checkable
class MakesNetworks(Protocol):
    """A backend that makes networks where the containers of one attempt meet (`NetworkPlace`)."""

    def make_network(self, name: str, labels: Mapping[str, str], *, is_public: bool) -> None:
        """Make a network with this name.

        Its containers reach each other, also by name. Unless it is public, they reach nothing else: neither
        the internet, nor the engine's machine, nor a name server. Raises UsageError if the engine has no such
        networks, and SandboxError.
        """

    def destroy_network(self, name: str) -> None:
        """Remove a network without containers, if it is there. Raises SandboxError if it stays."""

    def find_networks(self, labels: Mapping[str, str | None]) -> Mapping[str, Mapping[str, str]]:
        """Return the labels of all networks that have these labels, by name; None matches any value."""


@dataclass(frozen=True, slots=True)
class FoundImage:
    """An image that an engine has."""

    id: str
    # The SHA-256 over its layers, its architecture and the settings of its processes. Engines give the same
    # image different ids, but this is always the same.
    content_sha256: str


@runtime_checkable
class MovesImages(Protocol):
    """A backend that copies images from one engine to another. Every method may raise SandboxError."""

    def identify_engine(self) -> str:
        """Return a text that is the same for two connections to one engine, and differs for two engines."""

    def find_image(self, tag: str) -> FoundImage | None:
        """Return the image with a tag, None if the engine has none."""

    def save_image(self, tag: str) -> Iterator[bytes]:
        """Yield the parts of an archive with an image and its tag."""

    def load_image(self, archive: BinaryIO) -> None:
        """Add the image of an archive to the engine."""
