"""An episode that starts from the files of another one is graded as if its own agent had made them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from case_checks import check_together
from docker import APIClient
from sealed_tasks import build_image, write_task

import harness
from harness.benchmarks import Benchmark, load_benchmark
from harness.core.errors import UsageError
from harness.core.types import Verdict
from harness.environments.base import MachineRules
from harness.environments.container.seal import Level
from harness.host.episode import Episode
from harness.hosts import Host

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

# A task of AgentBench, what its agent does, and the text that it submits. None is the reference's solution.
ACTIONS = (
    ("os/sample/states/1", None, "done"),
    ("os/sample/states/1", "true", "done"),
    (
        "os/sample/states/1",
        "chmod 600 /root/vault/one; rm /root/vault/a/two; cp /bin/true /usr/bin/stat",
        "done",
    ),
    ("os/sample/states/0", "cp /bin/true /usr/local/bin/twice", "done"),
    # The shell of the task has a variable, and a process of the task writes to a file.
    ("os/sample/answers/2", "true", "lantern-row"),
    ("os/sample/answers/4", "rm /root/meters/steam", "steam"),
    ("db/sample/14", None, "done"),
    ("db/sample/14", "SELECT 1", "done"),
    ("db/sample/14", "DROP TABLE `Orchard Harvest`", "done"),
)
# What an agent does in a task folder whose answer is 42.
FOLDER_ACTIONS = (
    "true",
    "echo 42 > answer.txt; rm input.txt; mkdir -p /logs/verifier; echo 0 > /logs/verifier/reward.txt",
    "mkdir -p /tests; echo 'raise SystemExit(0)' | tee /tests/conftest.py > conftest.py; echo 41 > answer.txt",
    "for i in git bash python3; do cp --remove-destination /bin/true /usr/bin/$i; done",
    "rm -rf /app; ln -s / /app",
    "echo 42 > /tmp/a; ln /tmp/a answer.txt; ln -s answer.txt link; mkfifo pipe; truncate -s 100M hole",
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def host() -> AsyncIterator[Host]:
    async with harness.open_host(environments=("os", "db", "container")) as opened:
        yield opened


@pytest.fixture(scope="module")
def agentbench() -> Benchmark:
    return load_benchmark("agentbench", data="bundled")


def make_call(episode: Episode, text: str) -> tuple[str, dict[str, str]]:
    return ("sql", {"sql": text}) if "sql" in episode.tools else ("bash", {"command": text})


def show(verdict: Verdict) -> tuple[Any, ...]:
    """Return all of a verdict but times and file counts."""
    kept = {name: value for name, value in verdict.metrics.items() if "seconds" not in name}
    return verdict.status, verdict.score, verdict.tampering, kept.get("seal"), kept.get("dropped_files")


async def find_difference(
    host: Host, benchmark: Benchmark, task_id: str, action: str, answer: str, **options: Any
) -> str | None:
    """Return how verdicts of forks differ from the one of an opened environment, None if they do not."""
    verdicts = {}
    async with host.environment(benchmark, task_id, **options) as episode:
        before = await episode.snapshot()
        await episode.call(*make_call(episode, action))
        after = await episode.snapshot()
        verdicts["opened"] = show(await episode.submit(answer))
    async with host.fork(before) as (episode,):
        await episode.call(*make_call(episode, action))
        verdicts["forked, then acted"] = show(await episode.submit(answer))
    async with host.fork(after) as (episode,):
        again = await episode.snapshot()
    async with host.fork(again) as (episode,):
        verdicts["acted, then forked twice"] = show(await episode.submit(answer))
    return None if len(set(map(str, verdicts.values()))) == 1 else str(verdicts)


async def test_a_fork_is_graded_as_an_opened_environment_with_the_same_agent(
    host: Host, agentbench: Benchmark
) -> None:
    async def check(case: tuple[str, str | None, str]) -> None:
        task_id, action, answer = case
        action = action or agentbench.references[task_id].solution
        assert await find_difference(host, agentbench, task_id, action, answer) is None

    await check_together(ACTIONS, check, at_once=3)


async def test_a_fork_of_a_task_folder_is_sealed_against_the_pristine_image(
    host: Host, client: APIClient, tmp_path: Path
) -> None:
    toml = "[verifier]\ntimeout_sec = 60\n[environment]\nmemory_mb = 512\n"
    write_task(tmp_path / "tasks" / "answer", build_image(client), toml=toml)
    folder = load_benchmark(str(tmp_path / "tasks"))

    async def check(case: tuple[Level, str]) -> None:
        level, action = case
        rules = MachineRules(seal=level)
        assert await find_difference(host, folder, "answer", action, "", machine_rules=rules) is None

    await check_together([("work", each) for each in FOLDER_ACTIONS], check, at_once=3)


async def test_a_fork_has_the_files_the_turns_and_the_time_of_its_snapshot(
    host: Host, agentbench: Benchmark
) -> None:
    async with host.environment(agentbench, "os/sample/states/1") as episode:
        await episode.call("bash", {"command": "cd /srv; echo one > a; chmod 751 a; rm /etc/motd"})
        calling = asyncio.create_task(episode.call("bash", {"command": "sleep 1; echo two > b"}))
        await asyncio.sleep(0)
        # A call under way ends first.
        snapshot = await episode.snapshot()
        await calling
        await episode.call("bash", {"command": "echo later > /srv/c"})
    command = "cat /srv/*; stat -c %a /srv/a; ls /etc/motd; pwd"
    async with host.fork(snapshot, 2) as forks:
        for fork in forks:
            seen = await fork.call("bash", {"command": command})
            assert "one\ntwo\n751\nls: cannot access '/etc/motd'" in seen.text
            assert "/root\n" in seen.text
            assert fork.environment is not None
            assert fork.environment.turns_used == 3
        await forks[0].call("bash", {"command": "rm -r /srv"})
        assert "one" in (await forks[1].call("bash", {"command": command})).text
    assert snapshot.seconds_left < 180


async def test_a_snapshot_that_no_fork_could_start_from_is_refused(host: Host, agentbench: Benchmark) -> None:
    async with host.environment(agentbench, "os/sample/states/1") as episode:
        await episode.call("bash", {"command": "head -c 270000000 /dev/zero > /srv/large"})
        with pytest.raises(UsageError, match="the limit of a copy is"):
            await episode.snapshot()
        await episode.call("bash", {"command": "rm /srv/large"})
        snapshot = await episode.snapshot()
        await episode.submit("done")
        with pytest.raises(UsageError, match="the episode has ended"):
            await episode.snapshot()
    async with host.environment(agentbench, "kg/dev/0") as episode:
        with pytest.raises(UsageError, match="has no files"):
            await episode.snapshot()
    wrong: tuple[Any, ...] = (0, -1, 65, 10**9, True, 1.5, "2")
    for count in wrong:
        with pytest.raises(UsageError, match="count must be from 1 to 64"):
            host.fork(snapshot, count)
