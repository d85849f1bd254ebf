"""The sandboxes of rewards end with the event loop that used them."""

from __future__ import annotations

import asyncio
from functools import partial

from docker import APIClient

from harness.rl.grading import HeldGrading, RewardSample
from harness.rl.openings import open_local
from harness.sandbox import reaper

ASSERTS = {"kind": "asserts", "tests": ["assert add(1, 2) == 3"]}
ADD = "def add(a, b):\n    return a + b\n"


def test_the_end_of_the_event_loop_removes_the_sandboxes(client: APIClient) -> None:
    labels = [f"{reaper.ROLE}=sandbox", f"{reaper.NAMESPACE}={reaper.namespace()}"]
    before = {found["Id"] for found in client.containers(all=True, filters={"label": labels})}
    held = HeldGrading(partial(open_local, max_concurrent=1))
    sample = RewardSample(ADD, "solution", tests=ASSERTS)
    for _ in range(2):
        (verdict,) = asyncio.run(held.grade_async([sample], release_with_loop=True))
        assert verdict.score == 1.0
        after = {found["Id"] for found in client.containers(all=True, filters={"label": labels})}
        assert after <= before
