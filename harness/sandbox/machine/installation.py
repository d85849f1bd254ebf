"""Install and start a Docker engine on a machine that has none, as root on Debian or Ubuntu."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING

from harness.core.errors import EngineUnavailableError, ImageMissingError, SandboxError
from harness.core.lock import exclusive
from harness.sandbox.backends.docker.engine import (
    can_install_packages,
    connect,
    engine_errors,
    find_chosen_endpoint,
    image_details,
    system_path,
)
from harness.sandbox.backends.docker.images import BASE, images_dir

if TYPE_CHECKING:
    from docker import APIClient


DAEMON_LOG = Path("/var/log/harness-dockerd.log")
START_SECONDS = 60.0
LOG_TAIL_CHARACTERS = 2000
# A daemon that ends at once may have met another one that is just starting. Wait this long for that one.
GRACE_SECONDS = 5.0
DEBIAN = "debian:bookworm-slim"
# A registry that sends no byte for this long counts as unreachable. A slow pull that sends bytes has no
# limit.
PULL_SILENCE_SECONDS = 15
CHUNK_BYTES = 1 << 20
SCRATCH_BYTES = 2 << 30
REQUIREMENTS = "requirements.txt"
FETCH_SECONDS = 600


def ensure_engine(*, notify: Callable[[str], None]) -> APIClient:
    """Return a client of the engine. If no engine answers, install Docker and start its daemon, if allowed.

    `notify` gets a line for each step that takes time. Raises EngineUnavailableError, with the command to
    run, if this process may not do it or the daemon does not start. Raises SandboxError if apt fails.
    """
    try:
        return connect()
    except EngineUnavailableError:
        # harness starts no engine at an endpoint that the user chose, which may be on another machine.
        if find_chosen_endpoint() is not None or not can_install_packages():
            raise
    with exclusive("engine", notify=notify):
        if not _engine_answers():
            _bring_up(notify)
    return connect()


def run_program(
    command: Sequence[str], environment: Mapping[str, str] | None = None, *, seconds: float | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program without input to its end, and return it with all of its output as its stdout.

    Raises subprocess.TimeoutExpired if it takes longer than `seconds`.
    """
    return subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=seconds,
        check=False,
    )


def apt_install(*packages: str) -> None:
    """Install Debian packages without recommended ones. Raises SandboxError with the end of the output."""
    environment = {
        **os.environ,
        "PATH": system_path(),
        "DEBIAN_FRONTEND": "noninteractive",
        "LC_ALL": "C.UTF-8",
    }
    output = ""
    # Only the result of `install` counts, because `update` fails if a single source of the machine fails.
    for arguments in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
        result = run_program(["apt-get", "-o", "DPkg::Lock::Timeout=120", *arguments], environment)
        output += result.stdout
    if result.returncode != 0:
        raise SandboxError(
            f"cannot install {' '.join(packages)}:\n{output[-LOG_TAIL_CHARACTERS:].strip()}",
            hint=f"find the cause with: apt-get install {' '.join(packages)}",
        )


def _bring_up(notify: Callable[[str], None]) -> None:
    if shutil.which("dockerd", path=system_path()) is None:
        notify("engine: installing docker.io")
        # ca-certificates is only recommended, but without it Docker can trust no registry.
        apt_install("docker.io", "ca-certificates")
    notify("engine: starting the daemon")
    if Path("/run/systemd/system").is_dir():
        _start_unit()
    else:
        _start_daemon()


def _engine_answers() -> bool:
    try:
        connect().close()
    except EngineUnavailableError:
        return False
    return True


def _start_unit() -> None:
    result = subprocess.run(
        ["systemctl", "start", "docker"], capture_output=True, text=True, errors="replace", check=False
    )
    if result.returncode != 0 or not _wait_for_answer(START_SECONDS):
        raise EngineUnavailableError(
            f"the Docker daemon does not start: {result.stderr.strip() or 'it does not answer'}",
            hint="read its log: journalctl --unit docker --lines 50",
        )


def _start_daemon() -> None:
    """Start dockerd without a service manager, so that it outlives this process and its terminal."""
    with DAEMON_LOG.open("ab") as log:
        start = log.tell()
        daemon = subprocess.Popen(
            ["dockerd"],
            cwd="/",
            env={**os.environ, "PATH": system_path()},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    if not _wait_for_answer(START_SECONDS, of=daemon, progress=lambda: DAEMON_LOG.stat().st_size):
        with DAEMON_LOG.open("rb") as log:
            log.seek(start)
            tail = log.read().decode(errors="replace")[-LOG_TAIL_CHARACTERS:].strip()
        raise EngineUnavailableError(
            f"the Docker daemon does not start; the end of its log:\n{tail}",
            hint=f"read its log: {DAEMON_LOG}",
        )


def _wait_for_answer(
    seconds: float, of: subprocess.Popen[bytes] | None = None, progress: Callable[[], int] = lambda: 0
) -> bool:
    """Return whether the engine answers before `progress` returns the same for `seconds`, or `of` ends."""
    seen, deadline = progress(), time.monotonic() + seconds
    while not _engine_answers():
        if of is not None and (now := progress()) != seen:
            seen, deadline = now, time.monotonic() + seconds
        if of is not None and of.poll() is not None:
            deadline = min(deadline, time.monotonic() + GRACE_SECONDS)
            of = None
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def pull_debian(client: APIClient, *, notify: Callable[[str], None]) -> str | None:
    """Pull debian:bookworm-slim unless the engine has it; return None, or the reason why that failed."""
    return pull_image(client, DEBIAN, notify=lambda line: notify(f"image base: {line}"))


def pull_image(client: APIClient, reference: str, *, notify: Callable[[str], None]) -> str | None:
    """Pull an image unless the engine has it; return None, or the reason why that failed."""
    from docker.auth import get_config_header, resolve_repository_name
    from docker.utils import parse_repository_tag
    from requests import RequestException

    if image_details(client, reference) is not None:
        return None
    notify(f"pulling {reference}")
    repository, tag = parse_repository_tag(reference)
    login = get_config_header(client, resolve_repository_name(repository)[0])
    try:
        # client.pull() would wait for ever for a registry that does not answer.
        response = client.post(
            f"{client.base_url}/v{client.api_version}/images/create",
            params={"fromImage": repository, "tag": tag or "latest"},
            headers={"X-Registry-Auth": login} if login else None,
            stream=True,
            timeout=PULL_SILENCE_SECONDS,
        )
        with response:
            for line in response.iter_lines():
                event = json.loads(line)
                if problem := event.get("error") or event.get("message"):
                    return f"the registry cannot be reached ({problem})"
    except (RequestException, ValueError) as error:
        return f"the registry cannot be reached ({error})"
    return None


def bootstrap_base(client: APIClient, tag: str, *, reason: str, notify: Callable[[str], None]) -> None:
    """Make the base from Debian's packages with mmdebstrap, as root on Debian or Ubuntu; import it as `tag`.

    `reason` is why it could not be pulled. Raises ImageMissingError if this machine cannot make it, and
    SandboxError if mmdebstrap or the import fails.
    """
    if not can_install_packages():
        raise ImageMissingError(f"cannot make image base: {reason}", hint=_other_ways())
    provide_mmdebstrap(notify)
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            list_mmdebstrap("tar", "-"),
            env={**os.environ, "TMPDIR": scratch_dir()},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            # A new session, so that a signal ends it with all of its processes, and not with ours.
            start_new_session=True,
        )
        assert process.stdout is not None  # noqa: S101  because stdout is a pipe
        try:
            image = _import(client, process.stdout)
            failed = process.wait() != 0
        finally:
            if process.poll() is None:  # an error or Ctrl-C; mmdebstrap then removes its temporary tree
                os.killpg(process.pid, signal.SIGTERM)
            process.stdout.close()
            process.wait()
        if failed or image is None:
            if image is not None:
                # The error of the build matters more than this one.
                with suppress(SandboxError), engine_errors("remove what the build left"):
                    client.remove_image(image)
            raise SandboxError(
                f"cannot make image base: mmdebstrap failed:\n{_tail(log)}", hint=_other_ways()
            )
    with engine_errors(f"tag {tag}"):
        client.tag(image, tag)


def provide_mmdebstrap(notify: Callable[[str], None]) -> None:
    """Install mmdebstrap if it is missing, and report that it makes the base now. Raises SandboxError."""
    if shutil.which("mmdebstrap") is None:
        notify("image base: installing mmdebstrap")
        # Ubuntu trusts Debian's packages only with Debian's keyring, which mmdebstrap finds through gpg.
        apt_install("mmdebstrap", "debian-archive-keyring", "gpg")
    notify("image base: making it from Debian packages with mmdebstrap (takes a minute or less)")


def list_mmdebstrap(form: str, target: str) -> list[str]:
    """Return the command that makes the base as a `tar` archive or a `directory`."""
    recipe = images_dir() / BASE
    packages = ",".join((recipe / "packages").read_text().split())
    finish = f'chroot "$1" sh < {shlex.quote(str(recipe / "finish.sh"))}'
    # This hook selects the package usr-is-merged, because apt would choose usrmerge, which brings all of
    # Perl.
    merged_usr = "/usr/share/mmdebstrap/hooks/maybe-merged-usr"
    return [
        "mmdebstrap",
        "--variant=minbase",
        f"--include={packages}",
        *([f"--hook-dir={merged_usr}"] if Path(merged_usr).is_dir() else []),
        f"--customize-hook={finish}",
        f"--format={form}",
        "bookworm",
        target,
    ]


def scratch_dir() -> str:
    """Return the folder for the temporary tree, in memory if there is room, because that halves the time."""
    memory = "/dev/shm"
    with suppress(OSError):
        facts = os.statvfs(memory)
        unfit = facts.f_flag & (os.ST_NODEV | os.ST_NOEXEC)
        if not unfit and facts.f_bavail * facts.f_frsize >= SCRATCH_BYTES:
            return memory
    return tempfile.gettempdir()


def _import(client: APIClient, archive: IO[bytes]) -> str | None:
    """Import a root file system and return the id of the image; None if the stream is empty."""
    # Read before the request, because the first bytes come once the tree is finished, and none come if it
    # fails.
    first = archive.read(CHUNK_BYTES)
    if not first:
        return None
    chunks = chain([first], iter(partial(archive.read, CHUNK_BYTES), b""))
    with engine_errors("import image base"):
        answer = client.import_image_from_stream(chunks, changes=[f"LABEL harness.image={BASE}"])
    event = json.loads(answer.strip().splitlines()[-1])
    if "status" not in event:
        raise SandboxError(f"cannot import image base: {event.get('error', event)}")
    return str(event["status"])


def _tail(log: IO[bytes]) -> str:
    log.seek(0)
    return log.read().decode(errors="replace")[-LOG_TAIL_CHARACTERS:].strip()


def _other_ways() -> str:
    return (
        f"either let the engine reach a registry and run: docker pull {DEBIAN}\n"
        f"or copy it from a machine that has it: docker save {DEBIAN} | ssh THIS-MACHINE docker load\n"
        "or on Debian/Ubuntu run: sudo apt-get install -y mmdebstrap debian-archive-keyring gpg && "
        f"sudo mmdebstrap --variant=minbase bookworm - | docker import - {DEBIAN}\n"
        "then run: harness images build"
    )


def fetch_wheels(image: str, requirements: bytes, *, notify: Callable[[str], None]) -> dict[str, bytes]:
    """Return the wheels that `requirements` pins by their hashes, as path in the build context -> content.

    Raises SandboxError with the end of pip's output if one cannot be fetched.
    """
    notify(f"image {image}: fetching its Python packages")
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder, REQUIREMENTS)
        wanted.write_bytes(requirements)
        wheels = Path(folder, "wheels")
        options = ["--require-hashes", "--no-deps", "--only-binary=:all:", "--no-input", "--progress-bar=off"]
        try:
            done = run_program(
                [sys.executable, "-m", "pip", "download", *options, "-d", str(wheels), "-r", str(wanted)],
                seconds=FETCH_SECONDS,
            )
        except subprocess.TimeoutExpired as error:
            raise _cannot(image, f"pip took more than {FETCH_SECONDS} s") from error
        if done.returncode != 0:
            raise _cannot(image, f"pip failed:\n{done.stdout[-LOG_TAIL_CHARACTERS:].strip()}")
        return {f"wheels/{path.name}": path.read_bytes() for path in wheels.iterdir()}


def _cannot(image: str, why: str) -> SandboxError:
    return SandboxError(
        f"cannot fetch the Python packages of image {image}: {why}",
        hint="only benchmarks that need this image cannot run; once PyPI or a mirror of it can be reached "
        f"(pip config) run: harness images build {image}",
    )
