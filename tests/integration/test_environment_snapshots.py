"""An episode that starts from the files of another one is graded as if its own agent had made them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from case_checks import TABLE_SECONDS, check_together
from docker import APIClient
from effort import THOROUGH, one_in_two
from sealed_tasks import build_image, write_task
from service_fixtures import TOKEN, Served, serve

import harness
from harness.benchmarks import Benchmark, load_benchmark
from harness.client.connection import ServiceBusyError
from harness.client.episode import RemoteEpisodeSnapshot
from harness.core.errors import UsageError
from harness.core.types import Verdict
from harness.environments.base import MachineRules
from harness.environments.container.seal import Level
from harness.environments.os import SPEC
from harness.host.episode import Episode
from harness.hosts import Host

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(TABLE_SECONDS)]

# A task of AgentBench, what its agent does, and the text that it submits. None is the reference's solution.
ACTIONS = (
    ("os/sample/states/1", None, "done"),
    (
        "os/sample/states/1",
        "chmod 600 /root/vault/one; rm /root/vault/a/two; cp /bin/true /usr/bin/stat",
        "done",
    ),
    # The shell of the task has a variable, and a process of the task writes to a file.
    ("os/sample/answers/2", "true", "lantern-row"),
    ("os/sample/answers/4", "rm /root/meters/steam", "steam"),
    ("db/sample/14", None, "done"),
    ("db/sample/14", "DROP TABLE `Orchard Harvest`", "done"),
)
# A hostile state, a shell with a past, and a database.
QUICK_ACTIONS = (ACTIONS[1], ACTIONS[2], ACTIONS[4])
# What an agent does in a task folder whose answer is 42.
FOLDER_ACTIONS = (
    "echo 42 > answer.txt; rm input.txt; mkdir -p /logs/verifier; echo 0 > /logs/verifier/reward.txt",
    "mkdir /tests; echo 'raise SystemExit(0)' | tee /tests/conftest.py > conftest.py; echo 41 > answer.txt",
    "for i in git bash python3; do cp --remove-destination /bin/true /usr/bin/$i; done",
    "echo 42 > /tmp/a; ln /tmp/a answer.txt; ln -s answer.txt link; mkfifo pipe; truncate -s 5M hole",
)


# All of the memory, so that the number of sandboxes decides.
SHARES: Any = {"session_memory_share": 1.0, "client_memory_share": 1.0}


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

    await check_together(ACTIONS if THOROUGH else QUICK_ACTIONS, check, at_once=3)


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

    await check_together([("work", each) for each in one_in_two(FOLDER_ACTIONS, 0)], check, at_once=3)


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
    assert snapshot.seconds_left < SPEC.agent_seconds(agentbench.tasks[0]) - 1


async def test_a_snapshot_that_no_fork_could_start_from_is_refused(host: Host, agentbench: Benchmark) -> None:
    async with host.environment(agentbench, "os/sample/states/1") as episode:
        await episode.call("bash", {"command": "head -c 140000000 /dev/zero | tee /srv/a > /srv/b"})
        with pytest.raises(UsageError, match="the limit of a copy is"):
            await episode.snapshot()
        await episode.call("bash", {"command": "rm /srv/a /srv/b"})
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


async def test_forks_have_blocking_faces(agentbench: Benchmark) -> None:
    def fork() -> list[str]:
        with harness.open_host_sync(environments=("db",)) as host:
            with host.environment(agentbench, "db/sample/6") as episode:
                snapshot = episode.snapshot()
            with host.fork(snapshot, 2) as forks:
                return [each.call("sql", {"sql": "SELECT 6 * 7"}).text for each in forks]

    assert all("42" in text for text in await asyncio.to_thread(fork))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(agentbench: Benchmark) -> AsyncIterator[Served]:
    async with serve(benchmarks=(agentbench,), client_sessions=4, **SHARES) as running:
        yield running


async def test_episodes_of_a_service_start_from_a_snapshot_and_are_graded(
    served: Served, agentbench: Benchmark
) -> None:
    task_id = "db/sample/14"
    async with harness.connect(f"{served.url}/{TOKEN}", wait_seconds=0) as host:
        async with host.environment(agentbench, task_id) as episode:
            solution = agentbench.references[task_id].solution
            await episode.call("sql", {"sql": solution})
            snapshot = await episode.snapshot()
        async with host.fork(snapshot, 2) as (first, second):
            assert "sql" in first.tools
            await second.call("sql", {"sql": "DELETE FROM `Orchard Harvest`"})
            assert (await first.submit("done")).score == 1.0
            assert (await second.submit("done")).score == 0.0
            with pytest.raises(UsageError, match="the episode has ended"):
                await first.snapshot()
        # Each fork counts as an environment of its client, and all of them end if one has no room.
        with pytest.raises(ServiceBusyError):
            async with host.fork(snapshot, 40):
                pass
        await served.http.delete(f"/v1/snapshots/{snapshot.name}")
        with pytest.raises(UsageError, match="there is no snapshot"):
            async with host.fork(snapshot):
                pass
    while await served.read_metric("harness_sessions"):  # noqa: ASYNC110
        await asyncio.sleep(0.05)


async def test_the_name_of_a_snapshot_opens_nothing_but_what_it_was_taken_of(
    served: Served, agentbench: Benchmark
) -> None:
    opened = (await served.post("/v1/sandboxes", image="python")).json()
    of_sandbox = (await served.post(f"/v1/sandboxes/{opened['id']}/snapshot")).json()["name"]
    async with harness.connect(f"{served.url}/{TOKEN}", wait_seconds=0) as host:
        async with host.environment(agentbench, "db/sample/0") as episode:
            of_episode = await episode.snapshot()
        refused = await served.post(f"/v1/snapshots/{of_episode.name}/fork")
        assert (refused.status_code, refused.json()["error"]["code"]) == (422, "wrong_snapshot")
        for name in (of_sandbox, "unknown", "../sandboxes", "\0", "x" * 10_000):
            with pytest.raises(UsageError, match="snapshot"):
                async with host.fork(RemoteEpisodeSnapshot(name)):
                    pass
        wrong: tuple[Any, ...] = (0, -1, 65, 10**30, True, "2", 1.5, None)
        replies = [await served.post(f"/v1/snapshots/{of_sandbox}/fork", count=count) for count in wrong]
        assert {reply.status_code for reply in replies} <= {400, 422}
        paths = ("..%2f..%2fmetrics", "%2e%2e", "%00", "a%2fb", of_sandbox[:-1], of_sandbox.swapcase())
        replies = [await served.post(f"/v1/snapshots/{path}/fork") for path in paths]
        assert {reply.status_code for reply in replies} == {404}
        anonymous = httpx.AsyncClient(base_url=served.url, trust_env=False)
        async with anonymous:
            assert (await anonymous.post(f"/v1/snapshots/{of_sandbox}/fork", json={})).status_code == 401
    for path in (f"sandboxes/{opened['id']}", f"snapshots/{of_sandbox}", f"snapshots/{of_episode.name}"):
        assert (await served.http.delete(f"/v1/{path}")).status_code == 204


async def test_a_snapshot_and_forks_of_a_sandbox_that_ends_meanwhile_leave_nothing(served: Served) -> None:
    opened = (await served.post("/v1/sandboxes", image="python")).json()
    path = f"/v1/sandboxes/{opened['id']}"
    running = asyncio.create_task(served.post(f"{path}/exec", argv=["sh", "-c", "echo a > a; sleep 100"]))
    taken = (await served.post(f"{path}/snapshot")).json()["name"]
    taking = [asyncio.create_task(served.post(f"{path}/snapshot")) for _ in range(4)]
    forking = [asyncio.create_task(served.post(f"/v1/snapshots/{taken}/fork", count=3)) for _ in range(2)]
    await served.http.delete(path)
    await served.http.delete(f"/v1/snapshots/{taken}")
    ended = [reply.status_code for reply in await asyncio.gather(running, *taking)]
    assert set(ended) <= {200, 201, 410, 429}
    forks = [each for reply in await asyncio.gather(*forking) for each in reply.json().get("sandboxes", [])]
    for each in forks:
        if each["sandbox"] is not None:
            await served.http.delete(f"/v1/sandboxes/{each['sandbox']['id']}")
    for reply in await asyncio.gather(*taking):
        if reply.status_code == 201:
            await served.http.delete(f"/v1/snapshots/{reply.json()['name']}")
    assert await served.read_metric("harness_sessions") == 0
