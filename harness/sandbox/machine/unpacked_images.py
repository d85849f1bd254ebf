"""Build the images of harness without an engine, for the backend `oci`.

The base is made of Debian's packages. Every other image is a copy of it, where the OCI runtime runs the
steps of the image's Dockerfile. The steps may use the network of this machine.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import secrets
import shlex
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from harness.core.errors import ImageMissingError, SandboxError
from harness.core.lock import exclusive
from harness.sandbox.backends.docker.engine import can_install_packages, system_path
from harness.sandbox.backends.docker.images import BASE, LABEL, image_names, image_sources, image_tag
from harness.sandbox.backends.oci import cgroups, user_namespace
from harness.sandbox.backends.oci.config import KERNEL_MOUNTS, OCI_VERSION, find_runtimes
from harness.sandbox.backends.oci.images import (
    LOCK,
    StoredImage,
    find_image,
    find_root,
    keep,
    new_image,
    remove_tree,
    take_from_engine,
    unpack_layer,
)
from harness.sandbox.layout import HOSTNAME, ROOT_ENVIRONMENT
from harness.sandbox.machine.installation import (
    REQUIREMENTS,
    apt_install,
    fetch_wheels,
    list_mmdebstrap,
    provide_mmdebstrap,
    run_program,
    scratch_dir,
)

LOG_CHARACTERS = 3000
# The privileges of root in a step of a Dockerfile, which installs packages.
CAPABILITIES = (
    *("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP"),
    *("SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
)
SYNCHRONISING = ("fdatasync", "fsync", "msync", "sync", "sync_file_range", "syncfs")
# Files of this machine that the steps need to reach a mirror.
NETWORK_FILES = ("/etc/resolv.conf", "/etc/hosts")
PROXIES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")


def provide_runtime(*, notify: Callable[[str], None]) -> str:
    """Return the path of the OCI runtime, and install runc if there is none and this process may.

    Raises SandboxError if that fails.
    """
    if not find_runtimes() and can_install_packages():
        notify("runtime: installing runc")
        apt_install("runc", "ca-certificates")
    runtimes = find_runtimes()
    if not runtimes:
        raise SandboxError("no OCI runtime is installed", hint="run: sudo apt-get install -y runc")
    return runtimes[0]


def provide_images(
    names: Iterable[str] | None = None, *, notify: Callable[[str], None], force: bool = False
) -> list[StoredImage]:
    """Return the images of these names (default: all), and make those that are missing.

    An image comes from the Docker engine of the environment if there is one that has it, and otherwise from
    its Dockerfile. `force` builds all of them again. Raises UsageError for an unknown name, ImageMissingError
    or SandboxError.
    """
    wanted = list(image_names() if names is None else names)
    for name in wanted:
        image_sources(name)
    with exclusive(LOCK, notify=notify):
        return [_provide(name, notify=notify, force=force) for name in wanted]


def _provide(name: str, *, notify: Callable[[str], None], force: bool) -> StoredImage:
    tag = image_tag(name)
    if not force and (image := find_image(tag) or take_from_engine(tag)) is not None:
        return image
    runtime = provide_runtime(notify=notify)
    with new_image() as root:
        if name == BASE:
            _make_base(root, notify)
        else:
            base = find_image(image_tag(BASE)) or _provide(BASE, notify=notify, force=False)
            requirements = dict(image_sources(name)).get(REQUIREMENTS)
            fetched = {} if requirements is None else fetch_wheels(name, requirements, notify=notify)
            notify(f"image {name}: building {tag}")
            copy = ["cp", "-a", "--reflink=auto", f"{find_root(base.id)}/.", str(root)]
            _run_command(name, user_namespace.wrap(copy))
            _carry_out(name, root, dict(image_sources(name)) | fetched, runtime)
        image = StoredImage(f"sha256:{_hash_tree(root)}", tag, {LABEL: name}, "built here")
        keep(image, root)
    return image


def _make_base(root: Path, notify: Callable[[str], None]) -> None:
    """Fill a folder with Debian and the packages of the base."""
    if shutil.which("mmdebstrap") is None and not can_install_packages():
        raise ImageMissingError(
            "cannot make image base: mmdebstrap is not installed",
            hint="run: sudo apt-get install -y mmdebstrap debian-archive-keyring gpg",
        )
    provide_mmdebstrap(notify)
    archive = root.with_name("base.tar")
    _run_command(BASE, list_mmdebstrap("tar", str(archive)), TMPDIR=scratch_dir())
    with archive.open("rb") as layer:
        unpack_layer(layer, root)


def _carry_out(name: str, root: Path, context: Mapping[str, bytes], runtime: str) -> None:
    """Carry out the instructions of an image's Dockerfile in a copy of the base."""
    for instruction, rest in read_instructions(context["Dockerfile"].decode()):
        if instruction == "RUN":
            _run_step(name, root, rest, runtime)
        elif instruction == "COPY":
            *sources, target = rest.split()
            copy_files(root, context, sources, target)
        elif instruction not in ("ARG", "FROM"):
            raise SandboxError(
                f"image {name}: cannot carry out {instruction} without an engine",
                hint="use ARG BASE, FROM ${BASE}, COPY and RUN only, or build the image with Docker",
            )


def read_instructions(dockerfile: str) -> Iterator[tuple[str, str]]:
    """Yield each instruction of a Dockerfile with its arguments, which may span lines."""
    lines = [line for line in dockerfile.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    for line in re.sub(r"\\\n", "", "\n".join(lines)).splitlines():
        word, _, rest = line.strip().partition(" ")
        yield word.upper(), rest.strip()


def copy_files(root: Path, context: Mapping[str, bytes], sources: Iterable[str], target: str) -> None:
    """Copy files and folders of a build context into a root file system, as COPY does. Root owns them."""
    for source in sources:
        below = {
            path.removeprefix(f"{source}/"): data
            for path, data in context.items()
            if path.startswith(f"{source}/")
        }
        if source in context:
            into = target + PurePosixPath(source).name if target.endswith("/") else target
            below = {into: context[source]}
        elif below:
            below = {f"{target}/{path}": data for path, data in below.items()}
        else:
            raise SandboxError(f"the build context has no {source}")
        layer = io.BytesIO()
        with tarfile.open(fileobj=layer, mode="w") as archive:
            for path, data in below.items():
                member = tarfile.TarInfo(path.lstrip("/"))
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
        layer.seek(0)
        unpack_layer(layer, root)


def _run_step(name: str, root: Path, command: str, runtime: str) -> None:
    """Run a command with a shell in a root file system. Raises SandboxError with the end of its output."""
    step = f"build-{secrets.token_hex(6)}"
    _run_command(name, user_namespace.wrap(["touch", *(str(root / path[1:]) for path in NETWORK_FILES)]))
    bundle = tempfile.mkdtemp()
    try:
        Path(bundle, "config.json").write_text(json.dumps(_make_config(root, command, step)))
        run = [runtime, "--root", f"{bundle}/state", "run", "--bundle", bundle, step]
        _run_command(name, user_namespace.wrap(run), shown=command)
    finally:
        remove_tree(Path(bundle))


def _make_config(root: Path, command: str, step: str) -> dict[str, Any]:
    environment = {
        "PATH": ROOT_ENVIRONMENT["PATH"],
        "HOME": "/root",
        **{key: os.environ[key] for key in PROXIES if key in os.environ},
    }
    capabilities = [f"CAP_{each}" for each in CAPABILITIES]
    files = [
        {"destination": path, "type": "bind", "source": path, "options": ["bind", "ro"]}
        for path in NETWORK_FILES
        if os.path.exists(path)
    ]
    kernel = [
        {"destination": path, "type": kind, "source": kind, "options": list(options)}
        for path, kind, options in KERNEL_MOUNTS
        if kind in ("proc", "tmpfs", "devpts")
    ]
    return {
        "ociVersion": OCI_VERSION,
        "process": {
            "terminal": False,
            "user": {"uid": 0, "gid": 0, "umask": 0o022},
            "args": ["/bin/sh", "-c", command],
            "env": [f"{key}={value}" for key, value in environment.items()],
            "cwd": "/",
            "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), capabilities),
        },
        "root": {"path": str(root)},
        "hostname": HOSTNAME,
        "mounts": kernel + files,
        "linux": {
            **({} if user_namespace.is_needed() else {"cgroupsPath": f"{cgroups.PARENT}/{step}"}),
            "resources": {"devices": [{"allow": False, "access": "rwm"}]},
            # The steps have the network of this machine.
            "namespaces": [{"type": kind} for kind in ("mount", "uts", "pid", "ipc")],
            "seccomp": {
                "defaultAction": "SCMP_ACT_ALLOW",
                # They succeed at once, because a build that is interrupted is thrown away.
                "syscalls": [{"names": list(SYNCHRONISING), "action": "SCMP_ACT_ERRNO", "errnoRet": 0}],
            },
        },
    }


def _run_command(name: str, command: list[str], *, shown: str | None = None, **variables: str) -> None:
    """Run a command for image `name`. Raises SandboxError with the end of its output if it fails."""
    done = run_program(command, {**os.environ, "PATH": system_path(), **variables})
    if done.returncode != 0:
        raise SandboxError(
            f"cannot build image {name}: `{shown or shlex.join(command)}` failed with exit code "
            f"{done.returncode}:\n{done.stdout[-LOG_CHARACTERS:].strip()}",
            hint="fix the cause, then run: harness images build --backend oci",
        )


def _hash_tree(root: Path) -> str:
    """Return the SHA-256 of all files with their names, owners, modes and times."""
    digest = hashlib.sha256()
    command = ["tar", "--create", "--sort=name", "--numeric-owner", "--directory", str(root), "."]
    with subprocess.Popen(user_namespace.wrap(command), stdout=subprocess.PIPE) as archive:
        for part in iter(lambda: archive.stdout.read(1 << 20) if archive.stdout else b"", b""):
            digest.update(part)
    if archive.returncode != 0:
        raise SandboxError(f"the files of an image cannot be read: tar ended with {archive.returncode}")
    return digest.hexdigest()
