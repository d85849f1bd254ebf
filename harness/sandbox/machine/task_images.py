"""Build the image of a folder with a Dockerfile, once for the same bytes and the same base images."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from harness.core.errors import DataError, UsageError
from harness.core.lock import exclusive
from harness.sandbox.backends.base import BuildRules, BuiltImage
from harness.sandbox.backends.docker.engine import image_details
from harness.sandbox.backends.docker.images import BASE, image_tag
from harness.sandbox.machine.dockerfile import Dockerfile, choose_base, read_dockerfile
from harness.sandbox.machine.images import build_images, run_build
from harness.sandbox.machine.installation import pull_image

if TYPE_CHECKING:
    from docker import APIClient

DOCKERFILE, IGNORE = "Dockerfile", ".dockerignore"
# The folder that an image of a task was built from.
TASK_LABEL = "harness.task"
# The image of a rule that asks for a base of Debian's packages.
PACKAGES = "packages"
# The packages of such a base, by a word in the name of the image that it replaces; the last one fits all.
PACKAGES_OF = {
    "python": ("ca-certificates", "procps", "python3-dev", "python3-pip", "python3-venv"),
    "": ("asciinema", "ca-certificates", "procps", "tmux"),
}
_PYTHON_LINKS = "ln -s python3 /usr/bin/python; rm -f /usr/lib/python3*/EXTERNALLY-MANAGED; "
_CERTIFICATE = "harness-build-ca.crt"
_TRUSTED = f"/usr/local/share/ca-certificates/{_CERTIFICATE}"
# Arguments are variables of the build alone, so that no certificate is in the environment of an agent.
_CERTIFICATE_VARIABLES = (
    *("CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS", "PIP_CERT", "REQUESTS_CA_BUNDLE"),
    "SSL_CERT_FILE",
)


def build_folder(
    client: APIClient,
    folder: Path,
    rules: BuildRules,
    *,
    name: str,
    seconds: float,
    notify: Callable[[str], None],
) -> BuiltImage:
    """Return the image of a folder with a Dockerfile, and build it unless the engine has it.

    Args:
        client: The engine.
        folder: The context of the build. Its `.dockerignore` counts.
        rules: The images that replace a registry's, and a certificate for the build.
        name: The name of the task, for messages.
        seconds: The limit of the build, without pulls.
        notify: Gets a line for each step that takes time.

    Raises DataError for a Dockerfile that cannot be read, UsageError for a base image that cannot be had, and
    SandboxError, with the line and the end of the log, for a build that fails.
    """
    path = folder / DOCKERFILE
    dockerfile, replaced = _replace_bases(client, path, _read(path), rules, notify=notify)
    bases = {base: _provide_base(client, path, line, base, notify) for line, base in dockerfile.list_bases()}
    added: list[tuple[str, str]] = []
    if rules.ca_file is not None:
        added.append((_CERTIFICATE, _read_certificate(rules.ca_file)))
        update = "if command -v update-ca-certificates; then update-ca-certificates; fi"
        trust = [f"COPY {_CERTIFICATE} {_TRUSTED}", f"RUN {update}"]
        dockerfile = dockerfile.add_to_stages(
            [*trust, *(f"ARG {variable}={_TRUSTED}" for variable in _CERTIFICATE_VARIABLES)]
        )
    dockerfile = dockerfile.end_folders()
    added.append((DOCKERFILE, dockerfile.render()))
    files = _list_context(folder)
    tag = f"harness/task:{_hash_context(folder, files, added, bases)}"
    details = image_details(client, tag)
    if details is None:
        with exclusive(f"task-{tag.rpartition(':')[2]}", notify=notify):
            details = image_details(client, tag)
            if details is None:
                notify(f"building {tag}")
                _build(client, name, folder, files, added, dockerfile, tag, seconds)
                details = image_details(client, tag)
    if details is None:
        raise UsageError(f"image {tag} was built and has been removed since", hint="run it again")
    return BuiltImage(str(details["Id"]), tag, tuple(sorted(replaced.items())))


def _read(path: Path) -> Dockerfile:
    try:
        return read_dockerfile(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot be read: {error}", path=path) from error


def _read_certificate(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"build_ca: {path} cannot be read as a PEM certificate: {error}") from error


def _replace_bases(
    client: APIClient, path: Path, dockerfile: Dockerfile, rules: BuildRules, *, notify: Callable[[str], None]
) -> tuple[Dockerfile, dict[str, str]]:
    """Return the Dockerfile with the images that the rules choose, and each image with its replacement."""
    replaced: dict[str, str] = {}
    for _line, base in dockerfile.list_bases():
        chosen = choose_base(base, dict(rules.base_images))
        if chosen == PACKAGES:
            replaced[base] = _provide_packages(client, base, notify)
        elif chosen is not None:
            replaced[base] = chosen
    return dockerfile.replace_bases(lambda base: replaced.get(base, base)), replaced


def _provide_base(client: APIClient, path: Path, line: int, base: str, notify: Callable[[str], None]) -> str:
    """Return the id of a base image, and pull it if the engine lacks it. Raises UsageError."""
    reason = pull_image(client, base, notify=notify)
    details = None if reason is not None else image_details(client, base)
    if details is None:
        raise UsageError(
            f"{path}:{line}: cannot get the image {base}: {reason or 'the engine does not have it'}",
            hint=f"replace it: --base-image '{base}=IMAGE' with an image of the engine, or "
            f"--base-image '{base}={PACKAGES}' for one of Debian's packages",
        )
    return str(details["Id"])


def _provide_packages(client: APIClient, base: str, notify: Callable[[str], None]) -> str:
    """Return the tag of an image of Debian's packages in place of `base`, and build it if needed."""
    word = next(word for word in PACKAGES_OF if word in base)
    links = _PYTHON_LINKS if word else ""
    install = f"apt-get install -y --no-install-recommends {' '.join(PACKAGES_OF[word])}"
    text = (
        f"FROM {image_tag(BASE)}\nRUN apt-get update && DEBIAN_FRONTEND=noninteractive {install} "
        f"&& {{ {links}rm -rf /var/lib/apt/lists/*; }}\n"
    )
    tag = f"harness/packages-{word or 'debian'}:{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    if image_details(client, tag) is None:
        build_images(client, [BASE], notify=notify)
        with exclusive("packages", notify=notify):
            if image_details(client, tag) is None:
                notify(f"building {tag} from Debian's packages, in place of {base}")
                with tempfile.TemporaryDirectory() as empty:
                    _build(
                        client, tag, Path(empty), [], [(DOCKERFILE, text)], read_dockerfile(text), tag, 600.0
                    )
    return tag


def _list_context(folder: Path) -> list[str]:
    """Return the sorted paths of the context, from the folder on."""
    from docker.utils.build import exclude_paths

    ignore = folder / IGNORE
    lines = ignore.read_text(encoding="utf-8-sig").splitlines() if ignore.is_file() else []
    patterns = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    return sorted(exclude_paths(str(folder), patterns))


def _hash_context(
    folder: Path, files: list[str], added: list[tuple[str, str]], bases: Mapping[str, str]
) -> str:
    """Return 24 hex digits over names, modes and contents of the files, and the ids of the base images."""
    digest = hashlib.sha256(repr(sorted(bases.items())).encode())
    for name, content in added:
        digest.update(f"\0{name}\0{len(content)}\0{content}".encode())
    for name in files:
        path = folder / name
        facts = path.lstat()
        digest.update(os.fsencode(f"\0{name}\0{facts.st_mode:o}\0"))
        if stat.S_ISLNK(facts.st_mode):
            digest.update(os.fsencode(os.readlink(path)))
        elif stat.S_ISREG(facts.st_mode) and name != DOCKERFILE:
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:24]


def _build(
    client: APIClient,
    name: str,
    folder: Path,
    files: list[str],
    added: list[tuple[str, str]],
    dockerfile: Dockerfile,
    tag: str,
    seconds: float,
) -> None:
    from docker.utils.build import create_archive

    def locate(step: int) -> str:
        if not 0 < step <= len(dockerfile.instructions):
            return ""
        line = dockerfile.instructions[step - 1].line
        return f" at {folder / DOCKERFILE}:{line}"

    with closing(create_archive(str(folder), files, extra_files=added)) as context:
        run_build(
            client,
            f"of {name}",
            seconds=seconds,
            locate=locate,
            hint="fix the cause, then run it again",
            fileobj=context,
            custom_context=True,
            tag=tag,
            labels={TASK_LABEL: name},
        )
