"""An agent in the machine of a task folder finds nothing of its tests, and gains nothing by breaking them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest
from case_checks import check_together
from docker import APIClient
from sealed_tasks import acted, build_image, judge, write_task

from harness import AttemptContext, run
from harness.core.types import Status
from harness.runs.store import ATTEMPTS
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.connection import Connection
from harness.sandbox.pool import SandboxPool

SECRET = "secret-of-the-tests"
AGENT = "a command of the agent"
TOML = f"""
[verifier]
env = {{VALUE = "{SECRET}"}}
[[steps]]
name = "one"
[[steps]]
name = "two"
"""
PASS = f"#!/bin/sh\n# {SECRET}\necho 1 > /logs/verifier/reward.txt\n"


@pytest.fixture(scope="module")
def image(client: APIClient) -> str:
    return build_image(client)


@pytest.fixture
async def pool(client: APIClient) -> AsyncIterator[SandboxPool]:
    async with SandboxPool(DockerBackend(client), nested_sandboxes=1) as opened:
        yield opened


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytearray]:
    """Return the bytes that each container gets over its stream, by its id, as they are sent."""
    bytes_of = defaultdict[str, bytearray](bytearray)
    write = Connection._write

    def note(connection: Connection, frame: bytes) -> None:
        bytes_of[connection._container.id] += frame
        write(connection, frame)

    monkeypatch.setattr(Connection, "_write", note)
    return bytes_of


@pytest.mark.usefixtures("docker_only")
async def test_nothing_of_the_tests_is_ever_in_the_machine_of_the_agent(
    client: APIClient, image: str, tmp_path: Path, sent: dict[str, bytearray]
) -> None:
    """All that is in a container came from its image, over its stream, or by a mount."""
    names = {f"{part}/{SECRET}-{part.replace('/', '-')}": SECRET for part in _HIDDEN}
    for name, text in {
        "task.toml": TOML,
        "environment/Dockerfile": f"FROM {image}\nCOPY . /context\n",
        **{f"steps/{step}/instruction.md": "Do it." for step in ("one", "two")},
        **{f"{part}/{'test' if part.endswith('tests') else 'solve'}.sh": PASS for part in _HIDDEN},
        **names,
    }.items():
        (tmp_path / "task" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "task" / name).write_text(text)
    found: dict[str, Any] = {}

    async def act(context: AttemptContext) -> str:
        assert context.environment is not None
        await context.environment.call("bash", {"command": f"echo {AGENT}"})
        (acted_in,) = (name for name, data in sent.items() if AGENT.encode() in data)
        found["mounts"] = client.inspect_container(acted_in)["Mounts"]
        found["in files"] = _find(client.export(acted_in), (SECRET.encode(), b"context/Dockerfile"))
        found["sent"] = sent[acted_in]
        return "done"

    result = await run(str(tmp_path / "task"), agent=act, seal="work", output_dir=str(tmp_path / "runs"))
    record = json.loads((result.folder / ATTEMPTS).read_text())
    assert record["status"] == Status.PASSED, record
    # The last files were found in the second step, and all later ones would have come over the stream.
    assert SECRET.encode() not in found["sent"]
    assert found["in files"] == {b"context/Dockerfile"}
    assert {mount["RW"] for mount in found["mounts"]} <= {False}
    # Each step had a machine of its own, which got the secrets.
    assert sum(SECRET.encode() in data for data in sent.values()) == 2


def _find(pieces: Iterable[bytes], texts: tuple[bytes, ...]) -> set[bytes]:
    """Return which of these texts a stream has, such as one of names and contents of files."""
    found: set[bytes] = set()
    end = b""
    for piece in pieces:
        data = end + piece
        found.update(text for text in texts if text in data)
        end = data[-max(map(len, texts)) :]
    return found


_HIDDEN = ("tests", "solution", *(f"steps/{s}/{p}" for s in ("one", "two") for p in ("tests", "solution")))


async def test_files_that_cannot_be_carried_earn_nothing(
    pool: SandboxPool, image: str, tmp_path: Path
) -> None:
    """A right answer beside such files does not count, and the attempt is not a fault of ours."""
    folder = write_task(tmp_path, image)
    cases = {
        "more names than a listing holds": "mkdir d; cd d; p=$(printf 'n%.0s' $(seq 200)); "
        "seq 12000 | sed s/^/$p/ | xargs touch",
        "more bytes than a copy holds": "truncate -s 5G large",
    }

    async def check(name: str) -> None:
        async with acted(pool, folder, f"echo 42 > answer.txt; {cases[name]}") as machine:
            verdict = await judge(pool, machine, "work")
        assert (verdict.status, verdict.tampering) == (Status.FAILED, "unreadable_files"), verdict

    await check_together(cases, check, at_once=2)


async def test_no_agent_can_set_the_clock_that_finds_its_changes(
    pool: SandboxPool, image: str, tmp_path: Path
) -> None:
    command = "! date -s '2001-01-01' 2> /dev/null; echo 42 > answer.txt; touch -d '2001-01-01' answer.txt"
    async with acted(pool, write_task(tmp_path, image), command) as machine:
        assert (await judge(pool, machine, "work")).status is Status.PASSED


async def test_breaking_the_machine_of_the_tests_brings_no_second_try(
    image: str, tmp_path: Path, sent: dict[str, bytearray]
) -> None:
    programs = {
        "kill": "kill -9 -1",
        "logs": "rm -rf /logs; ln -s /app /logs; echo 1 > /app/reward.txt",
        "processes": "f() { f | f & }; f; sleep 1; kill -9 -1",
        "disk": "head -c 12G /dev/zero > /tmp/full; kill -9 -1",
    }
    toml = "[environment]\nstorage_mb = 64\nmemory_mb = 256\n[verifier]\ntimeout_sec = 20\n"
    for name in programs:
        write_task(
            tmp_path / f"set/{name}",
            image,
            script=f"#!/bin/bash\n# {SECRET}\n/app/program; echo 0 > /logs/verifier/reward.txt\n",
            tests={"x": ""},
            toml=toml,
        )

    async def act(context: AttemptContext) -> str:
        assert context.environment is not None
        program = f"printf '#!/bin/bash\\n%s\\n' '{programs[context.task.id]}' > /app/program"
        await context.environment.call("bash", {"command": f"{program}; chmod 755 /app/program"})
        return "done"

    result = await run(str(tmp_path / "set"), agent=act, seal="work", output_dir=str(tmp_path / "runs"))
    records = [json.loads(line) for line in (result.folder / ATTEMPTS).read_text().splitlines()]
    statuses = {record["task_id"]: record["status"] for record in records}
    assert not {*statuses.values()} & {Status.PASSED, Status.INFRA_ERROR}, records
    assert statuses["kill"] == statuses["logs"] == Status.GRADER_ERROR
    assert sum(SECRET.encode() in data for data in sent.values()) == len(programs), "some tests ran again"


# Prints the number of files that were left before, and of those that this attempt leaves in all folders.
_LEAVE_FILES = f"""
import os
folders = [line.split()[1] for line in open("/proc/mounts")]
folders += [path for path, _, _ in os.walk("/") if not path.startswith(("/proc", "/sys"))]
places = [f"{{path}}/{SECRET}" for path in set(folders)]
print(sum(map(os.path.lexists, places)))
for place in places:
    try:
        open(place, "w").close()
    except OSError:
        pass
print(sum(map(os.path.lexists, places)))
"""


async def test_two_attempts_at_a_task_share_nothing_that_an_agent_can_write(
    image: str, tmp_path: Path
) -> None:
    folder = write_task(tmp_path / "task", image, tests={"x": ""}, script=PASS)
    seen: list[str] = []

    async def act(context: AttemptContext) -> str:
        assert context.environment is not None
        observation = await context.environment.call("bash", {"command": f"python3 -c '{_LEAVE_FILES}'"})
        seen.append(observation.text)
        return "done"

    await run(
        str(folder), agent=act, seal="work", n_samples=2, max_concurrent=1, output_dir=str(tmp_path / "runs")
    )
    assert len(seen) == 2
    for text in seen:
        before, left = text.split()[:2]
        assert int(before) == 0 < 100 < int(left), text
