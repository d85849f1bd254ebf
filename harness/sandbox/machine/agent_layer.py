"""The files of a prepared agent as a layer: one archive, which belongs to root and which no agent can write.

An agent's files come from a folder or from a Dockerfile. Only the files below /opt/agents/NAME reach the
image, as data. No file of the image is replaced, and no setting of a Dockerfile is taken over, so that PID 1,
its Python and its libraries belong to the environment's image.
"""

from __future__ import annotations

import compileall
import hashlib
import importlib.metadata
import os
import platform
import py_compile
import re
import shutil
import stat
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO

from harness.core.errors import SandboxError, UsageError
from harness.sandbox.layout import AGENTS_FOLDER, FOREIGN_PYTHON
from harness.sandbox.machine.installation import LOG_TAIL_CHARACTERS, run_program

AGENT_NAME = re.compile(r"[a-z0-9]+(?:[._-][a-z0-9]+)*")
MAX_NAME = 60
PROGRAMS = PurePosixPath("bin")
MAX_MEMBERS = 500_000
MAX_BYTES = 8 << 30
INSTALL_SECONDS = 1800
# The Python of the images, which is Debian bookworm's.
PYTHON_VERSION = "3.11"
LIBRARIES = "lib"
# The program must not find the modules of a task's folder, and its children must not find its own modules.
# A shell finds the Python that the guest brings into foreign images, or the image's own.
_STARTER = """\
#!/bin/sh
''':'
for python in {python} /usr/bin/python3; do
  [ -x "$python" ] && exec "$python" -sP "$0" "$@"
done
exit 127
'''
import sys

sys.path.insert(0, {folder!r})
from {module} import {function}

sys.exit({call}())
"""


def require_agent_name(name: str) -> str:
    """Return the name of an agent. Raises UsageError unless it can be a part of the name of an image."""
    if len(name) > MAX_NAME or not AGENT_NAME.fullmatch(name):
        raise UsageError(
            f"'{name}' cannot be the name of an agent",
            hint=f"use at most {MAX_NAME} small letters and digits, with single dots, dashes or underscores "
            "between them",
        )
    return name


def pack_folder(folder: Path, file: IO[bytes]) -> bool:
    """Write the files of a folder to `file` as a layer, and return whether a program of it is on the PATH.

    Raises UsageError for a folder that cannot be read, that is empty or too large, or that has files other
    than folders, regular files and links.
    """
    with _Layer(file, str(folder)) as layer:
        for path in _walk(folder):
            name = path.relative_to(folder).as_posix()
            try:
                facts = path.lstat()
                if stat.S_ISREG(facts.st_mode):
                    with path.open("rb") as content:
                        layer.add_file(name, facts.st_mode, facts.st_size, content)
                elif stat.S_ISLNK(facts.st_mode):
                    layer.add_link(name, os.readlink(path))
                elif stat.S_ISDIR(facts.st_mode):
                    layer.add_folder(name)
                else:
                    raise UsageError(f"{path}: is neither a file, a folder nor a link")
            except OSError as error:
                raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    return layer.has_program


def pack_archive(archive: IO[bytes], file: IO[bytes], *, source: str) -> bool:
    """Write the files of a tar archive, whose members are below one folder, to `file` as a layer.

    Returns whether a program of it is on the PATH. `source` names the archive in errors. Raises UsageError as
    `pack_folder` does.
    """
    with tarfile.open(fileobj=archive, mode="r:") as members, _Layer(file, source) as layer:
        for member in members:
            _top, _, name = member.name.partition("/")
            if not name:
                continue
            if member.isreg():
                content = members.extractfile(member)
                assert content is not None  # noqa: S101  because the member is a regular file
                layer.add_file(name, member.mode, member.size, content)
            elif member.islnk():
                layer.add_hard_link(name, member.linkname.partition("/")[2])
            elif member.issym():
                layer.add_link(name, member.linkname)
            elif member.isdir():
                layer.add_folder(name)
            else:
                raise UsageError(f"{source}: {name} is neither a file, a folder nor a link")
    return layer.has_program


def hash_folder(folder: Path) -> str:
    """Return a SHA-256 over names, contents and executable bits below a folder. Raises UsageError."""
    digest = hashlib.sha256()
    for path in _walk(folder):
        facts = path.lstat()
        kind = stat.S_IFMT(facts.st_mode)
        digest.update(f"\0{path.relative_to(folder).as_posix()}\0{kind}\0{facts.st_mode & 0o111}\0".encode())
        if stat.S_ISLNK(facts.st_mode):
            digest.update(os.fsencode(os.readlink(path)))
        elif stat.S_ISREG(facts.st_mode):
            with path.open("rb") as content:
                digest.update(hashlib.file_digest(content, "sha256").digest())
    return digest.hexdigest()


def _walk(folder: Path) -> Iterator[Path]:
    """Yield every path below a folder, sorted, a folder before its files. Links are not followed."""

    def refuse(error: OSError) -> None:
        raise UsageError(f"{error.filename}: cannot be read: {error.strerror}") from error

    for parent, folders, files in os.walk(folder, onerror=refuse):
        folders.sort()
        for name in sorted([*folders, *files]):
            yield Path(parent, name)


class _Layer:
    """Writes an archive whose members have owner 0:0, no time and no privileges."""

    def __init__(self, file: IO[bytes], source: str) -> None:
        self._tar = tarfile.TarFile(fileobj=file, mode="w", format=tarfile.PAX_FORMAT)
        self._source = source
        self._folders = {PurePosixPath(".")}
        self._files: set[PurePosixPath] = set()
        self._members: set[PurePosixPath] = set()
        self._bytes = 0
        # Whether `bin`, the only folder on the PATH, has an executable file or a link.
        self.has_program = False

    def __enter__(self) -> _Layer:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._tar.close()
        if kind is None and not self._files:
            raise UsageError(f"{self._source}: has no files")

    def add_folder(self, name: str) -> None:
        self._folders.add(path := self._check(name))
        self._tar.addfile(self._member(path, tarfile.DIRTYPE, 0o755))

    def add_file(self, name: str, mode: int, size: int, content: IO[bytes]) -> None:
        self._files.add(path := self._check(name))
        self._bytes += size
        if self._bytes > MAX_BYTES:
            raise UsageError(f"{self._source}: has more than {MAX_BYTES:,} bytes")
        member = self._member(path, tarfile.REGTYPE, 0o755 if mode & 0o111 else 0o644)
        member.size = size
        self._note_program(path, is_executable=bool(mode & 0o111))
        self._tar.addfile(member, content)

    def add_link(self, name: str, target: str) -> None:
        member = self._member(path := self._check(name), tarfile.SYMTYPE, 0o777)
        self._note_program(path)
        member.linkname = target
        self._tar.addfile(member)

    def add_hard_link(self, name: str, target: str) -> None:
        if PurePosixPath(target) not in self._files:
            raise UsageError(
                f"{self._source}: {name} is a hard link to {target}, which is not one of its files"
            )
        member = self._member(path := self._check(name), tarfile.LNKTYPE, 0o755)
        self._note_program(path)
        member.linkname = target
        self._tar.addfile(member)

    def _note_program(self, path: PurePosixPath, *, is_executable: bool = True) -> None:
        self.has_program = self.has_program or (is_executable and path.parent == PROGRAMS)

    def _check(self, name: str) -> PurePosixPath:
        """Return the path of a new member. Raises UsageError unless its folder is one of the layer's folders.

        A member below a link, or after a link of the same name, might be written wherever the link leads.
        """
        path = PurePosixPath(name)
        if len(self._members) >= MAX_MEMBERS:
            raise UsageError(f"{self._source}: has more than {MAX_MEMBERS:,} files")
        if path.is_absolute() or ".." in path.parts or path.parent not in self._folders:
            raise UsageError(f"{self._source}: {name} is not below a folder of the agent")
        if path in self._members:
            raise UsageError(f"{self._source}: {name} appears twice")
        self._members.add(path)
        return path

    @staticmethod
    def _member(path: PurePosixPath, kind: bytes, mode: int) -> tarfile.TarInfo:
        # A fresh TarInfo has owner 0:0 and time 0.
        member = tarfile.TarInfo(str(path))
        member.type = kind
        member.mode = mode
        return member


@dataclass(frozen=True, slots=True)
class Packages:
    """The packages of a published agent, with exact versions."""

    # Requirements of pip, such as "mini-swe-agent==2.4.6".
    python: tuple[str, ...] = ()
    # Packages of npm, such as "@openai/codex@0.169.0".
    node: tuple[str, ...] = ()
    # Folders below the agent's folder that the agent's command does not need.
    leave_out: tuple[str, ...] = ()
    # Links in the folder `bin`, and the files below the agent's folder that they lead to. In these paths and
    # the paths of `leave_out`, {machine} is the processor's name, and {cpu} for npm's name of it.
    links: tuple[tuple[str, str], ...] = ()


def make_recipe(name: str, packages: Packages) -> tuple[Callable[[Path], None], str]:
    """Return the recipe of an agent, as `AgentSource.recipe` describes it."""
    return partial(install_packages, name=name, packages=packages), repr((name, packages, _STARTER))


def install_packages(folder: Path, *, name: str, packages: Packages) -> None:
    """Install packages into a folder, with their commands in its folder `bin`.

    No code of the packages runs. Raises SandboxError with the end of the output if they cannot be installed,
    and UsageError if npm is missing.
    """
    (folder / "bin").mkdir()
    if packages.python:
        _install_python(folder, name, packages)
    if packages.node:
        _install_node(folder, name, packages)
    for unwanted in packages.leave_out:
        shutil.rmtree(folder / _fill_processor(unwanted), ignore_errors=True)
    if packages.python and sys.version_info[:2] == tuple(map(int, PYTHON_VERSION.split("."))):
        # Other versions of Python write another bytecode. Without it the agent starts more slowly.
        compileall.compile_dir(
            str(folder / LIBRARIES), quiet=2, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
        )
    for link, path in packages.links:
        target = _fill_processor(path)
        if not (folder / target).is_file():
            raise SandboxError(f"cannot prepare agent {name}: its packages have no file {target}")
        (folder / "bin" / link).symlink_to(f"../{target}")


def _install_python(folder: Path, name: str, packages: Packages) -> None:
    libraries = folder / LIBRARIES
    machine = platform.machine()
    options = [
        *("--python-version", PYTHON_VERSION, "--implementation", "cp", "--only-binary=:all:"),
        # The C library of Debian bookworm is 2.36.
        *(f"--platform=manylinux_2_{minor}_{machine}" for minor in (35, 34, 31, 28, 17)),
        f"--platform=manylinux2014_{machine}",
        *("--no-compile", "--no-input", "--progress-bar=off", "--quiet"),
    ]
    _run(
        name, [sys.executable, "-m", "pip", "install", "--target", str(libraries), *options, *packages.python]
    )
    shutil.rmtree(libraries / "bin", ignore_errors=True)
    _write_starters(folder, name, libraries, packages.python)


def _write_starters(folder: Path, name: str, libraries: Path, requirements: Iterable[str]) -> None:
    """Write a starter for each command of the required packages, because pip's name the host's Python."""
    wanted = {requirement.partition("=")[0].lower().replace("_", "-") for requirement in requirements}
    for distribution in importlib.metadata.distributions(path=[str(libraries)]):
        if str(distribution.metadata["Name"]).lower().replace("_", "-") not in wanted:
            continue
        for command in distribution.entry_points.select(group="console_scripts"):
            text = _STARTER.format(
                python=FOREIGN_PYTHON,
                folder=f"{AGENTS_FOLDER}/{name}/{LIBRARIES}",
                module=command.module,
                function=command.attr.partition(".")[0],
                call=command.attr,
            )
            starter = folder / "bin" / command.name
            starter.write_text(text)
            starter.chmod(0o755)


def _install_node(folder: Path, name: str, packages: Packages) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise UsageError(
            f"agent {name} is installed by npm, which is not on this machine",
            hint="install it (Debian/Ubuntu: sudo apt-get install npm), or give the files: "
            f"harness images build --agent {name}=FOLDER",
        )
    options = ["--ignore-scripts", "--omit=dev", "--no-audit", "--no-fund"]
    options += ["--os=linux", "--libc=glibc", f"--cpu={_fill_processor('{cpu}')}"]
    _run(name, [npm, "install", "--prefix", str(folder), *options, *packages.node])


def _fill_processor(path: str) -> str:
    """Return a path with the names of this machine's processor."""
    machine = platform.machine()
    return path.format(machine=machine, cpu={"x86_64": "x64", "aarch64": "arm64"}.get(machine, machine))


def _run(name: str, argv: list[str]) -> None:
    try:
        done = run_program(argv, seconds=INSTALL_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise SandboxError(
            f"cannot prepare agent {name}: {Path(argv[0]).name} took more than {INSTALL_SECONDS} s"
        ) from error
    if done.returncode != 0:
        raise SandboxError(
            f"cannot prepare agent {name}:\n{done.stdout[-LOG_TAIL_CHARACTERS:].strip()}",
            hint="check the configuration of pip or npm, then try again",
        )
