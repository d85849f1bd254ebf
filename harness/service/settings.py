"""The settings of a service, and the limits on everything that a client can send."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.benchmarks.benchmark import Benchmark
from harness.environments.base import MachineRules

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ServiceLimits:
    """The limits on requests. Sizes are in bytes, times in seconds."""

    # The body of one request.
    body_bytes: int = 32 * MIB
    # The objects, lists and named fields in one body. The interpreter needs half a second for so
    # many. Other threads hardly run then.
    body_structures: int = 300_000
    # One message of a WebSocket.
    message_bytes: int = MIB
    # The bodies of all requests under way, parsed values included.
    all_bodies_bytes: int = 256 * MIB
    # The share of `all_bodies_bytes` that one client may have.
    client_bodies_share: float = 0.5
    # The time within which a client must have sent its body.
    body_seconds: float = 60.0
    # The samples of one request.
    batch: int = 1024
    # The longest time that one request may ask for.
    request_seconds: float = 600.0
    # The requests that wait for a sandbox, of all clients together.
    queued: int = 8192
    # The share of `queued` that one client may take while other clients are there.
    client_share: float = 0.5
    # The live sandboxes that clients have opened (`/v1/sandboxes`), and how many of them one client may have.
    sessions: int = 64
    client_sessions: int = 32
    # The share of the memory for sandboxes that those may have. The rest stays free for verdicts.
    session_memory_share: float = 0.5
    # The share of the processes of the machine that those may have.
    session_processes_share: float = 0.5
    # The share of that memory, and of those processes, that one client may have.
    client_memory_share: float = 0.5
    # The longest time that one of those may live.
    session_seconds: float = 86_400.0
    # The commands, file transfers and terminals that are under way in one of those.
    session_requests: int = 16
    # The files that are sent to clients at once, each of at most `body_bytes`.
    file_replies: int = 8
    # The same for one client, so that a client that reads slowly delays no other.
    client_file_replies: int = 4
    # The time that requests under way get after SIGTERM.
    drain_seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class RaySettings:
    """The Ray cluster whose nodes do the work of a service."""

    # HOST:PORT, `auto` or `local`, None for `auto`.
    address: str | None = None
    # How much each node does at once, None for as much as its cores and its memory allow.
    max_concurrent: int | None = None


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """The settings of a service."""

    # The requests that work in sandboxes of this machine at once.
    max_concurrent: int
    runtime: str = "runc"
    # The images that the service must have a build of from the start.
    images: tuple[str, ...] = ("python",)
    limits: ServiceLimits = field(default_factory=ServiceLimits)
    # The benchmarks that clients may name. A client can load none.
    benchmarks: tuple[Benchmark, ...] = ()
    # The rules for machines that are made from images of tasks.
    machine_rules: MachineRules | None = None
    # Without it, this machine does the work.
    ray: RaySettings | None = None
