"""Sandboxes on a container engine that only its command-line client reaches.

Each method runs the client, and no library of the engine is imported. The tests use `docker`. Another client
must have its subcommands and options, and the fields of its JSON.
"""

from __future__ import annotations

import json
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

from harness.core.errors import ImageMissingError, SandboxError, UsageError
from harness.sandbox.backends.base import (
    Backend,
    BackendFacts,
    Cause,
    DiskUse,
    Fate,
    FoundContainer,
    SandboxSpec,
    StartedContainer,
)
from harness.sandbox.backends.docker.images import image_tag
from harness.sandbox.backends.hardening import MOST_SOCKETS, SMALL_BUFFERS, choose_sockets
from harness.sandbox.backends.seccomp import profile
from harness.sandbox.guest.frames import DEADLINE_CODE, UNWANTED_CODE

from .client import Client, NotFoundError
from .options import list_options, pair_options

ANSWER_SECONDS = 10.0
START_SECONDS = 60.0
END_SECONDS = 30.0
REMOVAL_SECONDS = 120.0
POLL_SECONDS = 0.05
# The engine may record the event of an end a moment after it reports the container as ended.
REPORT_SECONDS = 1.0
TRIES = 10
# The engine records these events for requests of its users. No program in a container causes them.
FROM_OUTSIDE = frozenset(("kill", "pause"))
# The guest's exit codes at the end of its stream, which only somebody outside can close, at its deadline, and
# without a first request.
OF_OUTSIDE = frozenset((0, DEADLINE_CODE, UNWANTED_CODE))
KILLED = 137
# Programs keep a sandbox from answering if they use this much of a processor, or of the sandbox's memory.
BUSY_PERCENT, FULL_PERCENT = 50.0, 90.0


def connect(command: str = "docker") -> Backend:
    """Return a backend over a command-line client. It connects to the engine for each call."""
    return CommandLineBackend(Client(command))


class CommandLineBackend:
    """Sandboxes that a command-line client starts. Implements `Backend`. Threads may share it."""

    def __init__(self, client: Client) -> None:
        self._client = client
        # The processes that carry the streams, by the names of their containers.
        self._attached: dict[str, subprocess.Popen[bytes]] = {}

    def describe(self, *, runtime: str | None = None, images: Iterable[str] = ()) -> BackendFacts:
        info = self._info()
        if runtime is not None and runtime not in info["Runtimes"]:
            raise UsageError(f"the engine does not know the runtime '{runtime}'")
        names = list(images)
        return BackendFacts(
            engine={
                "client": self._client.command,
                "version": info["ServerVersion"],
                "kernel": info["KernelVersion"],
                "cgroup_version": int(info["CgroupVersion"]),
            },
            runtime=None if runtime is None else {"name": runtime, "limits_not_enforced": {}},
            images={name: self._find_image(name) for name in names},
            image_tags={name: image_tag(name) for name in names},
        )

    def start(self, spec: SandboxSpec) -> StartedContainer:
        image_id = spec.image if spec.image.startswith("sha256:") else self._find_image(spec.image)
        sockets = choose_sockets(self._cgroup_version, spec.runtime, spec.limits, relay=spec.relay)
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write(profile(spec.seccomp, sockets=sockets))
            file.flush()
            options = list_options(spec, image_id=image_id, seccomp_file=file.name)
            if sockets == "relayed":
                options = [*pair_options("--sysctl", SMALL_BUFFERS), *options]
            try:
                container_id = self._client.run("create a sandbox", "create", *options)
            except NotFoundError as error:
                raise ImageMissingError(f"image {image_id} is not on the engine") from error
        # The client attaches first and starts the container then, so that no byte is missed.
        process, stream, stderr = self._client.attach("start", "--attach", "--interactive", container_id)
        self._attached[spec.name or container_id] = process
        try:
            _require_first_byte(stream, stderr)
        except BaseException:
            stream.close()
            stderr.close()
            raise
        most_sockets = MOST_SOCKETS if sockets == "relayed" else None
        return StartedContainer(container_id, stream, stderr, most_sockets=most_sockets)

    def find_fate(self, container_id: str, *, silent: bool = False) -> Fate:
        if silent:
            disturbed = FROM_OUTSIDE & self._find_events(container_id)
            return Fate(Cause.INSIDE if not disturbed and self._is_busy(container_id) else Cause.OUTSIDE)
        state = self._wait_for_end(container_id)
        if state is None:
            return Fate(Cause.OUTSIDE)
        code = int(state["ExitCode"])
        events = self._find_events(container_id)
        if "die" not in events:
            time.sleep(REPORT_SECONDS)
            events = self._find_events(container_id)
        if code in OF_OUTSIDE or FROM_OUTSIDE & events:
            return Fate(Cause.OUTSIDE, code)
        if code == KILLED:
            # No program in the container can kill PID 1.
            return Fate(Cause.MEMORY if state["OOMKilled"] else Cause.OUTSIDE, code)
        # An engine that was restarted has no events, and its end kills. A guest that exits does so below 128.
        return Fate(Cause.INSIDE if "die" in events or code < 128 else Cause.OUTSIDE, code)

    def measure_disk(self, container_id: str) -> DiskUse:
        action = "measure what a sandbox wrote"
        try:
            size = self._client.run(action, "inspect", "--size", "--format={{json .SizeRw}}", container_id)
        except NotFoundError:
            return DiskUse(None)
        return DiskUse(int(json.loads(size) or 0))

    def destroy(self, container_id: str) -> bool:
        removed = self._remove(container_id)
        process = self._attached.pop(container_id, None)
        if process is not None:
            try:
                process.wait(ANSWER_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        return removed

    def find_containers(self, labels: Mapping[str, str | None]) -> list[FoundContainer]:
        wanted = [name if value is None else f"{name}={value}" for name, value in labels.items()]
        filters = [f"--filter=label={label}" for label in wanted]
        for _ in range(TRIES):
            ids = self._client.run(
                "list containers", "ps", "--all", "--quiet", "--no-trunc", *filters
            ).split()
            try:
                return [
                    FoundContainer(found["Id"], found["Config"]["Labels"] or {}, found["State"]["Running"])
                    for found in self._inspect(ids)
                ]
            except NotFoundError:
                continue  # one of them was removed after it was listed
        raise SandboxError("cannot list containers: they come and go", outside=True)

    @cached_property
    def _cgroup_version(self) -> int:
        return int(self._info()["CgroupVersion"])

    def _info(self) -> dict[str, Any]:
        action = "ask the engine about itself"
        info: dict[str, Any] = json.loads(
            self._client.run(action, "info", "--format={{json .}}", seconds=ANSWER_SECONDS)
        )
        return info

    def _find_image(self, name: str) -> str:
        """Return the id of the current build of an image. Raises ImageMissingError, UsageError."""
        tag = image_tag(name)
        try:
            return self._client.run("find an image", "image", "inspect", "--format={{.Id}}", tag)
        except NotFoundError as error:
            raise ImageMissingError(f"image {tag} is not on the engine", hint="run: harness setup") from error

    def _inspect(self, ids: Iterable[str]) -> list[dict[str, Any]]:
        """Return the engine's details of containers. Raises NotFoundError if one of them is gone."""
        ids = list(ids)
        if not ids:
            return []
        found: list[dict[str, Any]] = json.loads(self._client.run("inspect sandboxes", "inspect", *ids))
        return found

    def _wait_for_end(self, container_id: str) -> dict[str, Any] | None:
        """Return the state of a container that has ended; None if it is gone, or outlives its stream."""
        deadline = time.monotonic() + END_SECONDS
        while time.monotonic() < deadline:
            try:
                (found,) = self._inspect([container_id])
            except NotFoundError:
                return None
            state: dict[str, Any] = found["State"]
            if not state["Running"]:
                return state
            time.sleep(POLL_SECONDS)
        return None

    def _find_events(self, container_id: str) -> frozenset[str]:
        """Return the events that the engine keeps of a container."""
        filters = [f"container={container_id}", *(f"event={event}" for event in (*FROM_OUTSIDE, "die"))]
        found = self._client.run(
            "ask the engine about a sandbox",
            "events",
            "--since=1",
            # The moment comes from the engine's clock, because the engine would wait for a later one.
            f"--until={self._info()['SystemTime']}",
            "--format={{.Action}}",
            *(f"--filter={each}" for each in filters),
        )
        return frozenset(found.split())

    def _is_busy(self, container_id: str) -> bool:
        """Return whether the programs of a container use most of the processor time or memory of one."""
        try:
            shares = self._client.run(
                "measure what a sandbox uses",
                "stats",
                "--no-stream",
                "--format={{.CPUPerc}} {{.MemPerc}}",
                container_id,
            )
        except NotFoundError:
            return False
        processor, memory = (float(share.rstrip("%")) for share in shares.split())
        return processor >= BUSY_PERCENT or memory >= FULL_PERCENT

    def _remove(self, container_id: str) -> bool:
        """Remove a container; return whether it was there. Raises SandboxError if it stays."""
        deadline = time.monotonic() + REMOVAL_SECONDS
        while True:
            try:
                # It prints the container that it has removed, and nothing for a missing one.
                return bool(self._client.run("remove a sandbox", "rm", "--force", "--volumes", container_id))
            except NotFoundError:
                return False
            except SandboxError:
                # Somebody else may be removing it, or a mount may be busy for a moment.
                if time.monotonic() > deadline:
                    raise
            time.sleep(4 * POLL_SECONDS)


def _require_first_byte(stream: socket.socket, stderr: socket.socket) -> None:
    """Wait for the guest, which announces itself. Raises SandboxError if the client ends before that."""
    stream.settimeout(START_SECONDS)
    try:
        announced = stream.recv(1, socket.MSG_PEEK)
    except TimeoutError as error:
        raise SandboxError(f"the guest did not start in {START_SECONDS:g} s", outside=True) from error
    stream.setblocking(False)
    if not announced:
        message = stderr.recv(4096).decode("utf-8", "backslashreplace").strip()
        raise SandboxError(f"cannot start a sandbox: {message}", outside=True)
