"""Tasks of `os` and `db` are solved in real sandboxes by AgentBench's published tools alone."""

from __future__ import annotations

import pytest
from effort import one_in_four

from harness import load_benchmark, open_host
from harness.core.types import Status
from harness.environments.db.grader import DatabaseState

pytestmark = [pytest.mark.asyncio, pytest.mark.timeout(300)]


async def test_the_published_tools_solve_tasks_that_change_a_database_or_ask_about_it() -> None:
    benchmark = load_benchmark("agentbench", data="bundled", protocol="fc")
    ended = {}
    async with open_host(environments=["db"]) as host:
        # Each has a sandbox of its own.
        for task in one_in_four([task for task in benchmark.tasks if task.environment == "db"], 0):
            reference = benchmark.references[task.id]
            async with host.environment(benchmark, task.id) as episode:
                assert [*episode.tools] == ["execute_sql", "commit_final_answer"]
                answer = reference.solution
                if isinstance(reference.target, DatabaseState):
                    await episode.call("execute_sql", {"query": reference.solution})
                    answer = "[]"
                ended[task.id] = (await episode.submit(answer)).status
    assert {task_id: status for task_id, status in ended.items() if status is not Status.PASSED} == {}


async def test_the_published_tools_show_a_shell_in_upstreams_words() -> None:
    benchmark = load_benchmark("agentbench", data="bundled", protocol="fc")
    task = next(task for task in benchmark.tasks if task.id == "os/sample/answers/0")
    async with open_host(environments=["os"]) as host, host.environment(benchmark, task.id) as episode:
        shown = [
            (await episode.call("bash_action", {"script": script})).text
            for script in ("cd /tmp; X=1", "echo $X; pwd", "seq 1000")
        ]
        assert shown[:2] == ["The output of the OS is empty.", "The output of the OS:\n\n1\n/tmp\n"]
        assert shown[2].endswith("\n[truncated because the output is too long]")
        assert (await episode.call("submit_answer", {})).refused
        await episode.call("answer_action", {"answer": benchmark.references[task.id].solution})
    assert episode.verdict is not None
