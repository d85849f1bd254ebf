"""The sandboxes of a run whose attempts wait for a model: only those needed, and never more than allowed."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from model_server import Asked, completion, serve_model

from harness import AgentError, AttemptContext, run
from harness.core.types import Status
from harness.environments import environment_spec
from harness.sandbox.backends.docker.engine import connect
from harness.sandbox.reaper import NAMESPACE_VARIABLE

WAITING = 200
GRADED = 3
MAX_SANDBOXES = 2
ACTING = 4
# A run keeps room for the sandboxes that the grading of one attempt in `os` may open.
NESTED = environment_spec("os").nested_sandboxes


class ContainerWatch:
    """Counts the sandboxes of this test while they start and end.

    The engine's stream has no gaps, as repeated listings would have. Its history holds 256 events only.
    """

    def __init__(self) -> None:
        self.started = self.running = self.most = 0
        self._changed = threading.Condition()
        labels = [f"harness.namespace={os.environ[NAMESPACE_VARIABLE]}", "harness.role=sandbox"]
        filters = {"type": "container", "label": labels, "event": ["start", "die"]}
        self._stream = connect().events(filters=filters, decode=True)
        self._thread = threading.Thread(target=self._count, daemon=True)
        self._thread.start()

    def wait_for_ends(self) -> None:
        """Wait until the end of each container that has started was reported."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.started > 0 and self.running == 0, timeout=60)

    def close(self) -> None:
        self._stream.close()
        self._thread.join(10)

    def _count(self) -> None:
        for event in self._stream:
            is_start = event["Action"] == "start"
            with self._changed:
                self.started += is_start
                self.running += 1 if is_start else -1
                self.most = max(self.most, self.running)
                self._changed.notify_all()


@pytest.fixture
def containers() -> Iterator[ContainerWatch]:
    watch = ContainerWatch()
    yield watch
    watch.close()


def programs(folder: Path) -> str:
    path = folder / "programs.jsonl"
    rows = [
        {
            "task_id": number,
            "text": f"Return {number}.",
            "code": f"def f():\n    return {number}",
            "test_list": [f"assert f() == {number}"],
            "test_setup_code": "",
            "challenge_test_list": [],
        }
        for number in range(1, WAITING + 1)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


class Asker:
    """Asks the model, and waits until all attempts have a reply. GRADED of them hand theirs in."""

    reads = frozenset({"model"})

    def __init__(self, containers: ContainerWatch) -> None:
        self.started_while_all_waited = -1
        self._containers = containers
        self._replies = self._handed_in = 0
        self._all_have_replies = asyncio.Event()

    async def attempt(self, context: AttemptContext) -> str:
        assert context.model is not None
        reply = await context.model.ask(context.task.prompt)
        self._replies += 1
        if self._replies == WAITING:
            self.started_while_all_waited = self._containers.started
            self._all_have_replies.set()
        await self._all_have_replies.wait()
        if self._handed_in == GRADED:
            raise AgentError("hands in nothing")
        self._handed_in += 1
        return reply.text


async def test_attempts_at_programs_hold_no_sandbox_before_they_are_graded(
    containers: ContainerWatch, tmp_path: Path
) -> None:
    agent = Asker(containers)
    with serve_model(lambda asked: completion("```python\ndef f():\n    return 0\n```")) as server:
        result = await run(
            "mbpp",
            agent=agent,
            data=programs(tmp_path),
            model="scripted",
            base_url=server.url,
            max_sandboxes=MAX_SANDBOXES,
            output_dir=str(tmp_path),
        )
    statuses = Counter(record.status for record in result.attempts)
    assert statuses == {Status.AGENT_ERROR: WAITING - GRADED, Status.FAILED: GRADED}
    assert agent.started_while_all_waited == 0
    containers.wait_for_ends()
    assert containers.started == GRADED
    assert containers.most <= MAX_SANDBOXES


async def test_attempts_that_act_get_their_sandbox_before_they_ask_the_model(
    containers: ContainerWatch, tmp_path: Path
) -> None:
    def script(asked: Asked) -> Any:
        if asked.messages[-1]["role"] == "user":
            return completion(calls=[("bash", {"command": "true"})])
        return completion(calls=[("submit", {"answer": "unknown"})])

    with serve_model(script) as server:
        endpoint = {"model": "scripted", "base_url": server.url, "tool_mode": "native"}
        result = await run(
            "agentbench",
            agent="chat",
            data="bundled",
            # The grader of this task needs no further sandbox.
            task_ids=["os/sample/answers/0"],
            n_samples=ACTING,
            model="scripted",
            endpoints={"scripted": endpoint},
            max_sandboxes=MAX_SANDBOXES + NESTED,
            output_dir=str(tmp_path),
        )
    assert [record.status for record in result.attempts] == [Status.FAILED] * ACTING
    assert server.most_at_once <= MAX_SANDBOXES
    containers.wait_for_ends()
    assert containers.started == ACTING
    assert containers.most <= MAX_SANDBOXES
