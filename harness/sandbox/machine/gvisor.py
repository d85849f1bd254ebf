"""Add gVisor's runtime `runsc` to an engine, as root on Debian or Ubuntu.

This module adds to the engine's configuration file and keeps everything else in it. A signal makes the daemon
read the file again, so that the daemon and its containers keep running. The new configuration stays only if a
sandbox works with it.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import struct
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from harness.core.errors import HarnessError, SandboxError
from harness.core.lock import exclusive
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.backends.docker.engine import (
    can_install_packages,
    engine_errors,
    engine_facts,
    system_path,
)
from harness.sandbox.machine.installation import apt_install
from harness.sandbox.sandbox import Sandbox

if TYPE_CHECKING:
    from docker import APIClient

RUNTIME = "runsc"
DEFAULT_CONFIG_FILE = Path("/etc/docker/daemon.json")
PID_FILES = (Path("/run/docker.pid"), Path("/var/run/docker.pid"))
RELOAD_SECONDS = 15.0
POLL_SECONDS = 0.05
# No network, because no sandbox has one, and some machines cannot give one to gVisor. With --oci-seccomp,
# gVisor applies the seccomp profile inside the sandbox.
ARGUMENTS = ("--network=none", "--oci-seccomp")
# The order of attempts. --ignore-cgroups comes last, because a sandbox without its cgroup has no bound on
# memory, CPUs and processes.
ARGUMENT_SETS = (ARGUMENTS, (*ARGUMENTS, "--ignore-cgroups"))
CANARY_SECONDS = 30.0
PEER_CREDENTIALS = struct.Struct("3i")


def ensure_runsc(
    client: APIClient, *, notify: Callable[[str], None], config_file: Path | None = None
) -> None:
    """Add `runsc` to the engine if it is missing, and prove it with a sandbox. The images must be built.

    `config_file` is the engine's configuration (default: the file that the running daemon was started with).
    Raises SandboxError, with a hint, if this process may not add a runtime, if the file is not valid
    configuration, or if no sandbox works. The file is then as it was before.
    """
    with exclusive("engine", notify=notify):
        if RUNTIME in engine_facts(client).runtimes:
            _prove(client)
            return
        if not can_install_packages():
            raise SandboxError(
                f"the engine does not know the runtime '{RUNTIME}', and harness can install it only as root "
                "on Debian or Ubuntu",
                hint=_format_manual_steps(config_file or DEFAULT_CONFIG_FILE),
            )
        daemon = _daemon_of(client)
        file = (config_file or config_file_of(daemon)).resolve()
        read_config(file)
        path = shutil.which(RUNTIME, path=system_path())
        if path is None:
            notify(f"runtime: installing {RUNTIME}")
            apt_install(RUNTIME)
            path = shutil.which(RUNTIME, path=system_path()) or f"/usr/bin/{RUNTIME}"
        _configure(client, daemon, file, path, notify)


def _configure(
    client: APIClient, daemon: psutil.Process, file: Path, path: str, notify: Callable[[str], None]
) -> None:
    before = file.read_bytes() if file.exists() else None
    failures: list[str] = []
    own = RUNTIME in read_config(file).get("runtimes", {})
    for arguments in ((),) if own else ARGUMENT_SETS:
        try:
            if own:
                notify(f"runtime: making the engine read {file} again")
            else:
                notify(f"runtime: adding {RUNTIME} {' '.join(arguments)} to {file}")
                add_runtime(file, path, arguments)
            _reload(client, daemon, file)
            _prove(client)
        except HarnessError as error:
            failures.append(error.message)
            if not own:
                _restore(client, daemon, file, before)
        except BaseException:
            if not own:
                _restore(client, daemon, file, before)
            raise
        else:
            if before is not None and not own:
                backup = file.with_name(f"{file.name}.{time.strftime('%Y%m%dT%H%M%S')}.bak")
                _write(backup, before, like=file)
                notify(f"runtime: {backup.name} keeps the previous content of {file}")
            return
    raise SandboxError(
        f"no sandbox works with {RUNTIME} on this engine, whose configuration is as it was: "
        + "; then: ".join(dict.fromkeys(failures)),
        hint="use runc, or a newer gVisor: https://gvisor.dev/docs/user_guide/install/",
    )


def read_config(file: Path) -> dict[str, Any]:
    """Return an engine's configuration, which is empty if there is no file or an empty one.

    Raises SandboxError, with the reason, if the file cannot be read or extended.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise SandboxError(f"{file} cannot be read: {error}") from error
    if not text.strip():
        return {}
    hint = "fix the file, because the engine will not start again with it either"
    try:
        config = json.loads(text)
    except ValueError as error:
        raise SandboxError(f"{file} is not JSON, so nothing was added to it: {error}", hint=hint) from error
    if type(config) is not dict or type(config.get("runtimes", {})) is not dict:
        what = "a JSON object" if type(config) is not dict else "a JSON object at 'runtimes'"
        raise SandboxError(f"{file} is not {what}, so nothing was added to it", hint=hint)
    return config


def add_runtime(file: Path, path: str, arguments: Sequence[str]) -> None:
    """Add `runsc` to an engine's configuration and keep everything else in it. Raises SandboxError."""
    config = read_config(file)
    runtimes = {**config.get("runtimes", {}), RUNTIME: {"path": path, "runtimeArgs": list(arguments)}}
    text = json.dumps({**config, "runtimes": runtimes}, indent=2, ensure_ascii=False) + "\n"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        _write(file, text.encode(), like=file)
    except OSError as error:
        raise SandboxError(f"{file} cannot be written: {error.strerror}") from error


def config_file_of(daemon: psutil.Process) -> Path:
    """Return the configuration file of a running daemon. Raises SandboxError if the daemon is gone."""
    try:
        command, folder = daemon.cmdline(), daemon.cwd()
    except psutil.Error as error:
        raise SandboxError(f"cannot read the command line of the Docker daemon: {error}") from error
    for argument, following in zip(command, [*command[1:], ""], strict=True):
        name, equals, value = argument.partition("=")
        if name == "--config-file":
            return Path(folder, value if equals else following)
    return DEFAULT_CONFIG_FILE


def _daemon_of(client: APIClient) -> psutil.Process:
    """Return the daemon behind the client's socket. Raises SandboxError if it is on another machine."""
    pids = []
    path = getattr(client.get_adapter(client.base_url), "socket_path", None)
    if path is not None:
        with suppress(OSError), socket.socket(socket.AF_UNIX) as link:
            link.settimeout(5)
            link.connect(path)
            credentials = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER_CREDENTIALS.size)
            pids.append(PEER_CREDENTIALS.unpack(credentials)[0])
        # If systemd opened the socket, the peer is systemd (pid 1), and a pid file names the daemon.
        for file in PID_FILES if pids[:1] == [1] else ():
            with suppress(OSError, ValueError):
                pids.append(int(file.read_text()))
    for pid in pids:
        with suppress(psutil.Error):
            process = psutil.Process(pid)
            if process.name() == "dockerd":
                return process
    raise SandboxError(
        "the engine's daemon does not run on this machine, so harness cannot make it read its configuration "
        "again",
        hint=_format_manual_steps(DEFAULT_CONFIG_FILE),
    )


def _reload(client: APIClient, daemon: psutil.Process, file: Path) -> None:
    """Make the daemon read its configuration again, without effect on its containers. Raises SandboxError."""
    wanted = read_config(file)["runtimes"][RUNTIME].get("runtimeArgs") or []
    daemon.send_signal(signal.SIGHUP)
    deadline = time.monotonic() + RELOAD_SECONDS
    while time.monotonic() < deadline:
        with engine_errors("ask the engine about its runtimes"):
            known = client.info()["Runtimes"].get(RUNTIME)
        if known is not None and (known.get("runtimeArgs") or []) == wanted:
            return
        time.sleep(POLL_SECONDS)
    raise SandboxError(
        f"the engine did not take over '{RUNTIME}' from {file} within {RELOAD_SECONDS:g} s",
        hint="its log names the cause; runtimes on the daemon's command line exclude the file's runtimes",
    )


def _restore(client: APIClient, daemon: psutil.Process, file: Path, before: bytes | None) -> None:
    """Restore the file, and make the daemon drop the runtime again."""
    config = read_config(file)
    others = {name: entry for name, entry in config["runtimes"].items() if name != RUNTIME}
    # The file has to name no runtimes explicitly, because the daemon keeps the ones it has if the key is
    # missing.
    _write(file, json.dumps({**config, "runtimes": others}).encode(), like=file)
    try:
        daemon.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + RELOAD_SECONDS
        while RUNTIME in engine_facts(client).runtimes and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
    except (psutil.Error, HarnessError):
        pass  # the file matters more, because the daemon starts from it the next time
    finally:
        if before is None:
            file.unlink(missing_ok=True)
        else:
            _write(file, before, like=file)


def _prove(client: APIClient) -> None:
    """Run a command in a sandbox under the runtime. Raises SandboxError if that fails."""
    asyncio.run(_canary(client))


async def _canary(client: APIClient) -> None:
    backend = DockerBackend(client)
    async with Sandbox.open(runtime=RUNTIME, deadline_seconds=CANARY_SECONDS, backend=backend) as sandbox:
        result = await sandbox.exec(["python3", "-c", "print(6 * 7)"], timeout=CANARY_SECONDS / 2)
    if result.stdout.data != b"42\n":
        raise SandboxError(f"a sandbox under {RUNTIME} starts, but cannot run a command: {result.stderr}")


def _write(file: Path, data: bytes, *, like: Path) -> None:
    """Replace a file in one step, with the permissions of `like` if that file exists."""
    mode = like.stat().st_mode & 0o777 if like.exists() else 0o644
    new = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        new.write_bytes(data)
        new.chmod(mode)
        new.replace(file)
    finally:
        new.unlink(missing_ok=True)


def _format_manual_steps(file: Path) -> str:
    entry = json.dumps({"runtimes": {RUNTIME: {"path": f"/usr/bin/{RUNTIME}", "runtimeArgs": [*ARGUMENTS]}}})
    return (
        f"install gVisor (https://gvisor.dev/docs/user_guide/install/), add to {file} of the engine's "
        f"machine: {entry}   and make the daemon read it again (sudo pkill -HUP dockerd)"
    )
