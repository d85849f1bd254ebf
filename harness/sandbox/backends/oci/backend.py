"""An OCI runtime as the backend of sandboxes, without an engine."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import secrets
import socket
import subprocess
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from harness.core.errors import EngineUnavailableError, SandboxError, UsageError
from harness.core.logger import get_logger
from harness.sandbox import reaper
from harness.sandbox.backends.base import (
    BackendFacts,
    Cause,
    DiskUse,
    Fate,
    FoundContainer,
    SandboxSpec,
    StartedContainer,
    find_shortage,
    free_bytes,
)
from harness.sandbox.backends.docker import fate
from harness.sandbox.backends.docker.engine import system_path
from harness.sandbox.backends.docker.images import image_tag, language_image_names
from harness.sandbox.backends.hardening import MOST_SOCKETS, choose_sockets, list_writable_folders
from harness.sandbox.backends.oci import cgroups, ends, images, supervision, user_namespace
from harness.sandbox.backends.oci.config import RUNTIMES, find_runtimes, make_config
from harness.sandbox.backends.oci.promises import WEAKER, find_broken
from harness.sandbox.backends.oci.supervisor import DESCRIPTION, END
from harness.sandbox.backends.seccomp import Sockets
from harness.sandbox.limits import MIB, Limits
from harness.sandbox.time_factor import extend_wait

_LOGGER = get_logger(__name__)
# The value of the setting `runtime` that means one of these, whose containers share the machine's kernel.
SHARED_KERNEL = "runc"
POLL_SECONDS = 0.01
WEAKER_VARIABLE = "HARNESS_ALLOW_WEAKER"
# An example for `usermod`.
IDS = "100000-165535"
NO_CGROUP = "this user has no control group with the controllers cpu, memory and pids"
REPAIR = (
    f"use a session of systemd with cgroup version 2, root, or Docker\n"
    f"or run without these limits: --allow-weaker ({WEAKER_VARIABLE}=1)"
)


def connect(*, allow_weaker: bool = False) -> OciBackend:
    """Return a backend that starts containers with the OCI runtime of this machine.

    Args:
        allow_weaker: start sandboxes also without the limits of `promises.WEAKER`. The variable
            HARNESS_ALLOW_WEAKER=1 does the same for every command.

    Raises:
        EngineUnavailableError: if the machine has no runtime, or if this user may not use it.
    """
    allow_weaker = allow_weaker or os.environ.get(WEAKER_VARIABLE) == "1"
    runtimes = find_runtimes()
    if not runtimes:
        raise EngineUnavailableError(
            f"no OCI runtime is installed ({' or '.join(RUNTIMES)})",
            hint="run: sudo apt-get install -y runc   (or use Docker: harness setup)",
        )
    if user_namespace.is_needed():
        _require_user_namespace()
    elif lacking := cgroups.list_lacking_controllers():
        raise EngineUnavailableError(
            f"the backend oci cannot enforce limits, because {cgroups.ROOT} has no {', '.join(lacking)}",
            hint="mount these controllers of control groups, or use Docker: harness setup",
        )
    return OciBackend(runtimes, allow_weaker=allow_weaker)


def _require_user_namespace() -> None:
    """Raise EngineUnavailableError unless this ordinary user can have a user namespace, which is tried."""
    means = "the backend oci without root"
    missing = user_namespace.find_mappers(system_path())
    if missing is not None:
        raise EngineUnavailableError(
            f"{means} needs {missing}, which is not installed",
            hint="run: sudo apt-get install -y uidmap   (or use Docker or Podman without root)",
        )
    try:
        command = user_namespace.wrap(["true"])
    except LookupError as error:
        raise EngineUnavailableError(
            f"{means} needs {user_namespace.COUNT} subordinate ids, because programs in a sandbox have users "
            f"of their own, and {error}",
            hint=f"run: sudo usermod --add-subuids {IDS} --add-subgids {IDS} $USER   (ids that no user has)",
        ) from None
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        cause = done.stderr.strip()[-supervision.MAX_ERROR_CHARACTERS :]
        raise EngineUnavailableError(
            f"{means} needs a user namespace, and user {os.getuid()} cannot enter one: {cause}",
            hint="allow user namespaces: sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone, "
            "kernel.apparmor_restrict_unprivileged_userns",
        )


class OciBackend:
    """Sandboxes that an OCI runtime starts. Implements `Backend`. Threads may share it.

    A supervisor (`supervisor.py`) starts and ends the containers of this process. The folder
    `state` has a folder for each supervisor, with a folder for each of its containers.
    """

    name = "oci"

    def __init__(self, runtimes: Sequence[str], *, allow_weaker: bool = False) -> None:
        self._runtimes = runtimes
        self._runtime = runtimes[0]
        self._allows_weaker = allow_weaker
        # The group of all containers of the supervisor, empty if it can have none.
        self._cgroup = ""
        self._starting = threading.Lock()
        self._supervisor: Path | None = None

    def close(self) -> None:
        """Let the supervisor end after the last of its sandboxes, which keep running."""
        if self._supervisor is not None:
            with contextlib.suppress(SandboxError):
                supervision.ask(self._supervisor, {"verb": "close"})
            self._supervisor = None

    def describe(self, *, runtime: str | None = None, images: Iterable[str] = ()) -> BackendFacts:
        if runtime is not None:
            _require_shared_kernel(runtime)
        found = {name: _require(name) for name in images}
        weaker = {} if runtime is None else self.find_weaker(next(iter(found), "python"))
        return BackendFacts(
            engine=self._facts,
            runtime=None
            if runtime is None
            else {
                "name": Path(self._runtime).name,
                "version": self._facts["runtime_version"],
                "arguments": [],
                "limits_not_enforced": weaker,
            },
            images={name: image.id for name, image in found.items()},
            image_tags={name: image.sources for name, image in found.items()},
        )

    def find_weaker(self, image: str) -> dict[str, str]:
        """Return the promises that a container on this machine does without, each with the reason.

        It starts a container with each OCI runtime until one holds all promises, and later containers use the
        runtime that holds most. Raises SandboxError for promises that nobody may do without, and UsageError
        for the others unless they were allowed.
        """
        trials: list[tuple[str, dict[str, str]]] = []
        failures: list[SandboxError] = []
        for runtime in self._runtimes:
            self._use(runtime)
            try:
                trials.append((runtime, self._try_promises(image)))
            except SandboxError as error:
                failures.append(error)
            if trials and not trials[-1][1]:
                break
        if not trials:
            raise failures[0]
        runtime, broken = min(trials, key=lambda trial: len(trial[1]))
        self._use(runtime)
        self._require_promises(broken)
        return broken

    def _use(self, runtime: str) -> None:
        """Start later containers with this runtime."""
        if runtime != self._runtime:
            self.close()
            self._runtime = runtime
            self.__dict__.pop("_facts", None)

    def _try_promises(self, image: str) -> dict[str, str]:
        """Return the promises that a container does without."""
        name = f"harness-{secrets.token_hex(8)}"
        labels = reaper.make_labels("trial", role="trial", deadline_seconds=supervision.ANSWER_SECONDS)
        try:
            container, broken = self._start(SandboxSpec(image, Limits(), name, labels=labels))
            container.close()
        finally:
            self.destroy(name)
        return broken

    def start(self, spec: SandboxSpec) -> StartedContainer:
        started, broken = self._start(spec)
        try:
            self._require_promises(broken)
        except BaseException:
            started.close()
            raise
        return started

    def _start(self, spec: SandboxSpec) -> tuple[StartedContainer, dict[str, str]]:
        """Return a started container, and the promises that it does without."""
        _require_shared_kernel(spec.runtime)
        image = spec.image if spec.image.startswith("sha256:") else _require(spec.image).id
        root = images.find_root(image)
        spec = replace(spec, writable_root=spec.writable_root or spec.root_agent)
        supervisor = self._provide_supervisor()
        name = spec.name or f"harness-{secrets.token_hex(8)}"
        cgroup = self._cgroup and f"{self._cgroup}/{name}"
        sockets: Sockets = "local"
        if spec.seccomp != "strict":
            # Without a group the kernel counts no buffers of sockets, as with version 1.
            counting = cgroups.find_version() if cgroup else 1
            sockets = choose_sockets(counting, spec.runtime, spec.limits, relay=spec.relay)
        own = supervisor / name
        config = make_config(spec, cgroup=cgroup, sockets=sockets)
        description = {
            "labels": dict(spec.labels),
            "cgroup": cgroup,
            "layers": [str(images.provide_layer()), str(root)],
            "writable": spec.writable_root,
            "cpus": spec.limits.cpus,
            "memory_bytes": spec.limits.memory_mb * MIB,
            "folders": list(list_writable_folders(spec.limits)),
            "masked": config["linux"]["maskedPaths"],
            "read_only": config["linux"]["readonlyPaths"],
        }
        try:
            own.mkdir()
            # Root of the container goes through it, as an ordinary user's subordinate id.
            own.chmod(0o711)
            if spec.writable_root:
                (own / "upper").mkdir(mode=0o755)
                (own / "upper").chmod(0o755)
                (own / "work").mkdir()
            (own / "config.json").write_text(json.dumps(config))
            (own / DESCRIPTION).write_text(json.dumps(description))
        except OSError as error:
            raise SandboxError(f"cannot start a sandbox: {error}", outside=True) from error
        ours, theirs = socket.socketpair()
        our_errors, their_errors = socket.socketpair()
        try:
            with theirs, their_errors:
                streams = [theirs.fileno(), theirs.fileno(), their_errors.fileno()]
                answer = supervision.ask(supervisor, {"verb": "start", "name": name}, streams)
            if "error" in answer:
                our_errors.setblocking(False)
                with contextlib.suppress(OSError):
                    answer["error"] += (
                        f": {our_errors.recv(supervision.MAX_ANSWER_BYTES).decode(errors='replace')}"
                    )
                raise SandboxError(f"cannot start a sandbox: {answer['error']}", outside=True)
            # A container that has ended meanwhile holds nothing, and its stream tells its end.
            held = answer["held"]
            broken = {} if held is None else find_broken(spec, held, is_rootless=user_namespace.is_needed())
            ours.setblocking(False)
            our_errors.setblocking(False)
        except BaseException:
            ours.close()
            our_errors.close()
            raise
        started = StartedContainer(
            name,
            ours,
            our_errors,
            guest_counts=frozenset({"processes"} & broken.keys()),
            most_sockets=MOST_SOCKETS if sockets == "relayed" else None,
        )
        return started, broken

    def _require_promises(self, broken: Mapping[str, str]) -> None:
        """Raise SandboxError if a promise is broken that a run may not do without."""
        if unsafe := {name: means for name, means in broken.items() if name not in WEAKER}:
            means = "; ".join(f"{name}: {means}" for name, means in unsafe.items())
            raise SandboxError(f"this machine does not isolate sandboxes: {means}", outside=True)
        if broken and not self._allows_weaker:
            cause = "; ".join(broken.values()) if self._cgroup else NO_CGROUP
            raise UsageError(f"this machine cannot enforce {', '.join(broken)}: {cause}", hint=REPAIR)

    def find_fate(self, container_id: str, *, silent: bool = False) -> Fate:
        own = find_container(container_id)
        if silent:
            return Fate(ends.explain_silence(own))
        deadline = time.monotonic() + extend_wait(fate.END_SECONDS)
        while own is not None and own.exists():
            end = ends.read_facts(own / END)
            if end is not None:
                return ends.infer_fate(end["code"], end["memory_kills"])
            if not supervision.answers(own.parent):
                break
            if time.monotonic() > deadline:
                # PID 1 keeps its stream open as long as it lives, so somebody outside has closed it.
                break
            time.sleep(POLL_SECONDS)
        return Fate(Cause.OUTSIDE)

    def measure_disk(self, container_id: str) -> DiskUse:
        own = find_container(container_id)
        disk = images.folder()
        written = None if own is None else ends.measure_files(own / "upper")
        return DiskUse(written, free_bytes(disk), find_shortage(disk), disk)

    def destroy(self, container_id: str) -> bool:
        own = find_container(container_id)
        return own is not None and remove(own)

    def find_containers(self, labels: Mapping[str, str | None]) -> list[FoundContainer]:
        found = []
        for path in supervision.state().glob(f"*/*/{DESCRIPTION}"):
            description = ends.read_facts(path)
            if description is None:
                continue
            its = description["labels"]
            if all(name in its and value in (None, its[name]) for name, value in labels.items()):
                running = not (path.parent / END).exists() and supervision.answers(path.parents[1])
                found.append(FoundContainer(path.parent.name, its, running))
        return found

    @cached_property
    def _facts(self) -> dict[str, Any]:
        version = subprocess.run([self._runtime, "--version"], capture_output=True, text=True, check=False)
        try:
            system = platform.freedesktop_os_release().get("PRETTY_NAME", "")
        except OSError:
            system = platform.system()
        return {
            "backend": "oci",
            "runtime": Path(self._runtime).name,
            "user": "an ordinary user with a user namespace" if user_namespace.is_needed() else "root",
            "operating_system": system,
            "kernel": platform.release(),
            "architecture": platform.machine(),
            "cgroup_version": cgroups.find_version(),
            "cgroup_driver": "cgroupfs",
            "storage_driver": "overlay",
            "runtime_version": version.stdout.partition("\n")[0].rpartition(" ")[2],
            "cpus": os.cpu_count(),
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            "may_share_networks": False,
        }

    def _provide_supervisor(self) -> Path:
        """Return the folder of the supervisor of this process, and start it if there is none."""
        with self._starting:
            if self._supervisor is None or not supervision.answers(self._supervisor):
                self._supervisor, self._cgroup = supervision.start(self._runtime)
            return self._supervisor


def _require_shared_kernel(runtime: str) -> None:
    if runtime != SHARED_KERNEL:
        raise UsageError(
            f"the backend oci cannot use the runtime '{runtime}'", hint="use --backend docker for gVisor"
        )


def has_containers() -> bool:
    """Return whether this user has containers of this backend, running or not."""
    return any(supervision.state().glob(f"*/*/{DESCRIPTION}"))


def find_container(name: str) -> Path | None:
    """Return the folder of a container, whoever started it; None if there is none."""
    folders = (supervisor / name for supervisor in supervision.state().iterdir())
    return next((own for own in folders if own.is_dir()), None)


def remove(own: Path) -> bool:
    """Kill a container and remove its folder; return whether this call did. Raises SandboxError."""
    with contextlib.suppress(SandboxError):
        supervision.ask(own.parent, {"verb": "destroy", "name": own.name})
    description = ends.read_facts(own / DESCRIPTION)
    seconds = extend_wait(cgroups.REMOVAL_SECONDS)
    if description is not None and not cgroups.kill_all(description["cgroup"], seconds):
        raise SandboxError(f"the processes of sandbox {own.name} do not end", outside=True)
    was_there = own.exists()
    images.remove_tree(own)
    if not supervision.answers(own.parent):
        images.remove_tree(own.parent / "runtime" / own.name)
        _remove_if_empty(own.parent)
    return was_there


def _remove_if_empty(supervisor: Path) -> None:
    """Remove the folder of a supervisor that was killed, once it holds no container."""
    if not any(supervisor.glob(f"*/{DESCRIPTION}")):
        images.remove_tree(supervisor)


def _require(name: str) -> images.StoredImage:
    """Return an image of harness. The image of a language is built now if this folder lacks it."""
    if name in language_image_names() and images.find_image(image_tag(name)) is None:
        from harness.sandbox.machine.unpacked_images import provide_images

        return provide_images([name], notify=_LOGGER.warning)[0]
    return images.require_image(name)
