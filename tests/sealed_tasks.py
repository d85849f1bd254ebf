"""Small task folders, and an image with pytest and git in which agents and tests of them run."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import io
import tarfile
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from contexts import ListTranscript
from docker import APIClient

from harness.core.types import Task, Verdict
from harness.environments.base import EnvironmentContext
from harness.environments.container import SPEC
from harness.environments.container.environment import ContainerEnvironment, open_container
from harness.environments.container.grader import grade_sealed
from harness.environments.container.seal import Level
from harness.environments.container.target import TaskFolderSetup, TaskFolderTarget
from harness.environments.container.task_folder import read_task_folder
from harness.sandbox.backends.docker.images import require_image
from harness.sandbox.pool import SandboxPool, SandboxSettings

_PYTEST = ("pytest", "pluggy", "iniconfig", "packaging", "pygments")
_DOCKERFILE = """
FROM {base}
COPY pytest /usr/lib/python3/dist-packages/
RUN printf '#!/bin/sh\\nexec python3 -m pytest "$@"\\n' > /usr/bin/pytest && chmod 755 /usr/bin/pytest \\
    && mkdir /usr/lib/python3/dist-packages/part-1.dist-info \\
    && printf 'Name: part\\nVersion: 1\\nRequires-Dist: fastpart; extra == "speed"\\n' \\
       > /usr/lib/python3/dist-packages/part-1.dist-info/METADATA \\
    && mkdir -p /app/repo && echo data > /app/input.txt && cd /app/repo && git init -q \\
    && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m first
WORKDIR /app
"""
TASK = """
[verifier]
timeout_sec = 60
"""
INSTRUCTION = "Write the answer into /app/answer.txt. The git repository is in /app/repo.\n"
# A script that starts tools in all the ways that published ones do.
SCRIPT = """#!/bin/bash
cd /app
git -C /app/repo status > /dev/null
git clone -q /app/repo /tmp/clone 2> /dev/null
perl -e 'use strict'
python3 -c 'import json'
python3 -c 'import fastpart' 2> /dev/null
python3 -m pytest /tests/test_outputs.py -rA
if [ $? -eq 0 ]; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi
"""
OUTPUTS = """
def test_answer():
    assert open("/app/answer.txt").read().strip() == "42"
"""


def build_image(client: APIClient, lines: str = "", files: Mapping[str, bytes] | None = None) -> str:
    """Return the tag of an image of Debian with bash, git, Python and pytest, built once for each content.

    `lines` are appended to its Dockerfile, and `files` to its context. pytest comes from this process, so no
    network is needed.
    """
    dockerfile = _DOCKERFILE.format(base=require_image(client, "os")) + lines
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as archive:
        for name in _PYTEST:
            for path in importlib.metadata.files(name) or ():
                if path.suffix != ".pyc" and ".." not in path.parts:
                    archive.add(str(path.locate()), f"pytest/{path}")
        for name, content in {"Dockerfile": dockerfile.encode(), **(files or {})}.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    contents = dockerfile + repr(sorted((files or {}).items())) + importlib.metadata.version("pytest")
    tag = f"harness-test-seal:{hashlib.sha256(contents.encode()).hexdigest()[:12]}"
    if not client.images(tag):
        for line in client.build(
            fileobj=io.BytesIO(context.getvalue()), custom_context=True, tag=tag, rm=True, decode=True
        ):
            assert "error" not in line, line
    return tag


def write_task(
    folder: Path,
    image: str,
    *,
    script: str = SCRIPT,
    tests: Mapping[str, str] | None = None,
    toml: str = TASK,
    instruction: str = INSTRUCTION,
    solution: str | None = None,
) -> Path:
    """Write a task folder and return its path."""
    files = {
        "task.toml": toml,
        "instruction.md": instruction,
        "environment/Dockerfile": f"FROM {image}\n",
        "tests/test.sh": script,
        **{f"tests/{name}": text for name, text in (tests or {"test_outputs.py": OUTPUTS}).items()},
        **({} if solution is None else {"solution/solve.sh": solution}),
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def describe(pool: SandboxPool, folder: Path) -> tuple[Task, EnvironmentContext]:
    """Return the task of a folder, and the context in which its environment opens."""
    setup = TaskFolderSetup(str(folder), read_task_folder(folder).digest)
    task = Task("task", "tasks", "container", INSTRUCTION, setup=setup)
    settings = SandboxSettings("container", SPEC.limits)
    return task, EnvironmentContext(pool, settings, 300.0, ListTranscript())


@contextlib.asynccontextmanager
async def acted(pool: SandboxPool, folder: Path, command: str) -> AsyncIterator[ContainerEnvironment]:
    """Open the machine of a task in which a command of an agent has run, and whose processes are dead."""
    async with open_container(*describe(pool, folder)) as environment:
        result = await environment.machine.exec(["/bin/bash", "-c", command], timeout=60)
        assert result.exit_code == 0, str(result.stderr)
        await environment.end_acting()
        yield environment


async def judge(pool: SandboxPool, environment: ContainerEnvironment, level: Level) -> Verdict:
    """Return the verdict on a machine by the tests of its task."""
    folder = environment.folder
    async with pool.grade_nested():
        return await grade_sealed(environment, TaskFolderTarget(folder.path, folder.digest), level)
