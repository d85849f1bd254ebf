"""A node makes attempts with the engine of its machine. The test stands for the process of the run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from docker import APIClient

from harness.benchmarks.data.source import BUNDLED
from harness.runs.config import RunConfig
from harness.runs.executors.messages import (
    ImageContent,
    Lease,
    NodeFacts,
    NodeSpec,
    Refusal,
    Report,
    hash_code,
)
from harness.runs.executors.node import Node
from harness.runs.selection import describe_config, hash_inputs, select
from harness.sandbox import reaper
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.backends.docker.images import image_tag

RUN_ID = "run-of-node-test"
DATA = (BUNDLED / "mbpp.json").read_bytes()


def describe_run(client: APIClient, **settings: Any) -> NodeSpec:
    """Return what a node gets for a run of the oracle on the bundled mbpp."""
    attempts = {} if "samples" in settings else {"n_samples": 2}
    config = RunConfig(**{"benchmark": "mbpp", "data": "bundled", **attempts, **settings})
    selection = select(config, notify=lambda _note: None)
    found = DockerBackend(client).find_image(image_tag("python"))
    assert found is not None
    return NodeSpec(
        RUN_ID,
        describe_config(selection),
        hash_inputs(selection),
        {},
        {"python": ImageContent(image_tag("python"), found.content_sha256)},
        0.0,
        1,
    )


@pytest.fixture
async def node(client: APIClient) -> AsyncIterator[Node]:
    node = Node()
    facts = await node.connect(reaper.namespace(), needs_engine=True)
    assert isinstance(facts, NodeFacts)
    assert facts.code_sha256 == hash_code()
    yield node
    assert await node.close() is None
    assert reaper.find_run_containers(DockerBackend(client), RUN_ID) == []


async def make(node: Node, lease: Lease) -> tuple[Report, bytes]:
    """Return the last report of an attempt, and its transcript."""
    transcript = b""
    async for report in node.make(lease):
        transcript = (b"" if report.begins_transcript else transcript) + report.transcript
    return report, transcript


async def test_attempts_at_one_task_share_a_sandbox_which_ends_with_the_last_one(
    node: Node, client: APIClient
) -> None:
    assert isinstance(await node.open(describe_run(client)), int)
    first, transcript = await make(node, Lease("9001", 0, is_followed=True))
    containers = reaper.find_run_containers(DockerBackend(client), RUN_ID)
    second, _ = await make(node, Lease("9001", 1, is_followed=False))
    assert len(containers) == 1
    for number, report in enumerate((first, second)):
        record = json.loads(report.record or "")
        assert (record["task_id"], record["attempt"], record["status"]) == ("9001", number, "passed")
    assert json.loads(transcript.splitlines()[0])["prompt"]


async def test_an_iteration_that_ends_early_ends_the_attempt(node: Node, client: APIClient) -> None:
    assert isinstance(await node.open(describe_run(client, agent="null")), int)
    reports = node.make(Lease("9001", 0, is_followed=False))
    waiting = asyncio.ensure_future(anext(reports))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await reports.aclose()
    assert not node._tasks


async def test_a_node_whose_data_differ_is_refused(node: Node, client: APIClient, tmp_path: Path) -> None:
    data = tmp_path / "mbpp.json"
    data.write_bytes(DATA)
    spec = describe_run(client, data=str(data))
    data.write_bytes(DATA + b"\n")
    refused = await node.open(spec)
    assert isinstance(refused, Refusal)
    assert refused.message.startswith("its data has the SHA-256 ")
    data.unlink()
    missing = await node.open(spec)
    assert isinstance(missing, Refusal)
    assert str(data) in missing.message


async def test_a_node_whose_samples_differ_is_refused(node: Node, client: APIClient, tmp_path: Path) -> None:
    samples = tmp_path / "samples.jsonl"
    samples.write_text('{"task_id": 9001, "solution": "pass"}\n')
    spec = describe_run(client, samples=str(samples), agent="predictions")
    assert await node.receive_samples(b'{"task_id": 9001, "solution": "exit()"}\n') is None
    refused = await node.open(spec)
    assert isinstance(refused, Refusal)
    assert refused.message.startswith("its samples has the SHA-256 ")


async def test_an_image_with_another_content_is_missing(node: Node, client: APIClient) -> None:
    spec = describe_run(client)
    other = replace(spec.images["python"], sha256="0" * 64)
    assert await node.find_missing((spec.images["python"], other)) == [other.tag]
    refused = await node.open(replace(spec, images={"python": other}))
    assert isinstance(refused, Refusal)
    assert "has another content on this engine than where the command runs" in refused.message


async def test_containers_that_a_dead_process_of_the_run_left_are_removed_first(
    node: Node, client: APIClient
) -> None:
    labels = reaper.make_labels(RUN_ID, role="sandbox", deadline_seconds=60)
    left = client.create_container(image_tag("python"), command=["true"], labels=labels)["Id"]
    assert isinstance(await node.open(describe_run(client)), int)
    assert left not in reaper.find_run_containers(DockerBackend(client), RUN_ID)
