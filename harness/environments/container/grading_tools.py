"""Prepare the tools that a task's tests install for themselves, once, so that they need no network.

Most published tests begin with `apt-get install curl`, an installer of uv, and `uvx --with pytest`. The tools
go into an image on top of the task's, which only the machine of the tests gets. The tag of the image follows
from its contents, so runs share it. Nothing of `tests/` is part of it.
"""

from __future__ import annotations

import asyncio
import functools
import re
import shlex
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from harness.core.logger import get_logger
from harness.environments.base import MachineRules
from harness.environments.container.task_folder import DOCKERFILE
from harness.sandbox.backends.base import BuiltImage, RunsForeignImages

FOLDER = "/opt/grading"
_BIN, _CACHE = f"{FOLDER}/bin", f"{FOLDER}/cache"
# A base of Debian's packages with Python, which brings uv.
_BASE = "grading-tools-python"
BUILD_SECONDS = 900.0
_WORD = re.compile(r"[A-Za-z][\w.+:=<>~!\[\],@-]*")
# The arguments of a command in a line of a script, up to the next command.
_CALL = r"\b{}\s+((?:[^;&|\n`$()]|\$\w+)*)"
_APT = re.compile(_CALL.format(r"(?:apt|apt-get)(?:\s+-\S+)*\s+install"))
_PIP = re.compile(_CALL.format(r"(?<!uv )pip3?\s+install"))
_UV_ADD = re.compile(_CALL.format(r"uv\s+add"))
_UVX = re.compile(_CALL.format(r"uvx"))
_UV = re.compile(r"\buvx?\b")
_WITH_VALUE = ("--with", "-p", "--python", "--from", "--index-url", "--extra-index-url")

# The commands that the script of the tests finds first. Each does nothing if the layer has done it.
_SHIMS: Mapping[str, str] = {
    "apt-get": """case " $* " in
*" update "*) exit 0 ;;
*" install "*)
    for word in "$@"; do
        case "$word" in -*|install) continue ;; esac
        dpkg -s "${word%%=*}" >/dev/null 2>&1 || exec /usr/bin/apt-get "$@"
    done
    exit 0 ;;
esac
exec /usr/bin/apt-get "$@"
""",
    "curl": """case "$*" in
*astral.sh/uv/*)
    echo 'mkdir -p "$HOME/.local/bin"; echo : > "$HOME/.local/bin/env"'
    exit 0 ;;
esac
exec /usr/bin/curl "$@"
""",
}
_VARIABLES = {
    "UV_CACHE_DIR": _CACHE,
    "UV_OFFLINE": "1",
    "UV_NO_CONFIG": "1",
    "UV_PYTHON_DOWNLOADS": "never",
    "UV_LINK_MODE": "copy",
    "PIP_NO_INDEX": "1",
}
_LOGGER = get_logger(__name__)


def write_dockerfile(script: str, image: str, user: str) -> str | None:
    """Return the Dockerfile of the tools that a script of tests installs, or None if it installs none.

    `image` is the tag of the task's image, and `user` the user of its commands.
    """
    text = script.replace("\\\n", " ")
    packages = sorted({word for call in _APT.findall(text) for word in _words(call)})
    modules = sorted({word for call in _PIP.findall(text) for word in _words(call)})
    uses_uv = _UV.search(text) is not None
    if not packages and not modules and not uses_uv:
        return None
    lines = []
    if uses_uv:
        lines += [f"FROM {_BASE} AS tools", f"RUN pip3 install --no-cache-dir --target {FOLDER}/lib uv"]
    lines += [f"FROM {image}", "USER root"]
    if packages:
        install = f"DEBIAN_FRONTEND=noninteractive apt-get install -y {shlex.join(packages)}"
        lines.append(f"RUN apt-get update && {install} && rm -rf /var/lib/apt/lists/*")
    if modules:
        lines.append(f"RUN pip3 install --no-cache-dir --break-system-packages {shlex.join(modules)}")
    if uses_uv:
        lines.append(f"COPY --from=tools {FOLDER}/lib/bin/uv {FOLDER}/lib/bin/uvx {_BIN}/")
        lines += [f"RUN {_fill_cache(command)}" for command in _uv_commands(text)]
    lines.append(f"COPY bin/ {_BIN}/")
    lines.append(f"RUN chmod 755 {_BIN}/*")
    return "\n".join([*lines, f"USER {user or 'root'}", ""])


def _fill_cache(command: str) -> str:
    variables = f"UV_CACHE_DIR={_CACHE} UV_PYTHON_DOWNLOADS=never UV_LINK_MODE=copy"
    return f"export {variables} PATH={_BIN}:$PATH && cd $(mktemp -d) && {command}"


def _uv_commands(text: str) -> Iterator[str]:
    """Yield commands that put into the cache of uv what the script will ask it for."""
    for call in dict.fromkeys(_UVX.findall(text)):
        options = _read_uvx(_split(call))
        if options:
            yield f"uvx {shlex.join(options)} --version"
    added = sorted({word for call in _UV_ADD.findall(text) for word in _words(call)})
    if added:
        yield f"uv init && uv add {shlex.join(added)} && uv run pytest --version"


def _read_uvx(words: Sequence[str]) -> list[str]:
    """Return the options of uvx and the tool that it runs, without the tool's own arguments."""
    kept: list[str] = []
    rest = iter(words)
    for word in rest:
        kept.append(word)
        if word in _WITH_VALUE:
            kept.append(next(rest, ""))
        elif not word.startswith("-"):
            return kept
    return []


def _split(call: str) -> list[str]:
    return [word.strip("'\"") for word in call.split()]


def _words(call: str) -> list[str]:
    """Return the names in the arguments of an installer: no options, no files and no variables."""
    return [
        word for word in _split(call) if not word.startswith(("-", "$", "/", ".")) and _WORD.fullmatch(word)
    ]


async def prepare_tools(
    backend: RunsForeignImages, image: BuiltImage, script: str, user: str, rules: MachineRules
) -> str | None:
    """Return the id of an image with the tools of the tests on top of a task's, built once for each content.

    None if the tests install none. Raises SandboxError, UsageError and DataError for a build that fails.
    """
    dockerfile = write_dockerfile(script, image.tag, user)
    if dockerfile is None:
        return None
    # The run's own rules must not replace the image of the task.
    bases = ((_BASE, "packages"),)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        (path / "bin").mkdir()
        for name, shim in _SHIMS.items():
            (path / "bin" / name).write_text(f"#!/bin/sh\n{shim}", encoding="utf-8")
        (path / DOCKERFILE).write_text(dockerfile, encoding="utf-8")
        built = await asyncio.to_thread(
            functools.partial(
                backend.build_image,
                path,
                replace(rules.build, base_images=bases),
                name="the tools of the tests",
                seconds=BUILD_SECONDS,
                notify=lambda line: _LOGGER.info("%s: %s", image.tag, line),
            )
        )
    return built.id


def grading_variables(path: str) -> dict[str, str]:
    """Return the variables that let the tests find the tools of the layer. `path` is the machine's PATH."""
    return {**_VARIABLES, "PATH": f"{_BIN}:{path}"}
