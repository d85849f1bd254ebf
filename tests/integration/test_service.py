"""The service as its clients see it: who may enter, bounds on requests, draining, and clients that leave."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import pytest_asyncio
from service_fixtures import TOKEN, Served, serve

from harness.core.errors import UsageError
from harness.service.verdicts import run_code

pytestmark = pytest.mark.asyncio(loop_scope="module")

SLEEP = {"code": "import time; time.sleep(60)", "language": "python", "run_timeout": 60}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served() -> AsyncIterator[Served]:
    async with serve(body_bytes=100_000) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def unused() -> AsyncIterator[Served]:
    """Yield a service that no other test has used."""
    async with serve() as running:
        yield running


async def wait_for_metric(served: Served, name: str, value: float) -> None:
    """Wait until a metric has a value. The time limit of the test ends a wait in vain."""
    while await served.read_metric(name) != value:  # noqa: ASYNC110  because HTTP has no event to wait for
        await asyncio.sleep(0.02)


def read_error(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["code"]


async def test_health_needs_no_token(served: Served) -> None:
    async with httpx.AsyncClient(trust_env=False) as stranger:
        response = await stranger.get(f"{served.url}/health")
    assert response.json()["status"] == "ok"


@pytest.mark.parametrize(
    "path", ["/metrics", "/openapi.json", "/docs", "/run_code", "/nothing", "/wrong/run_code"]
)
async def test_all_else_needs_the_token(served: Served, path: str) -> None:
    async with httpx.AsyncClient(trust_env=False) as stranger:
        assert read_error(await stranger.post(f"{served.url}{path}")) == (401, "unauthorized")


@pytest.mark.parametrize("path", [f"/{TOKEN}/run_code", f"/{TOKEN}//run_code", f"//{TOKEN}/run_code/"])
async def test_the_token_may_be_the_first_part_of_the_path(served: Served, path: str) -> None:
    async with httpx.AsyncClient(trust_env=False) as stranger:
        response = await stranger.post(
            f"{served.url}{path}", json={"code": "print(6 * 7)", "language": "python"}
        )
    assert response.json()["run_result"]["stdout"] == "42\n"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"{", (400, "invalid_json")),
        (b"[" * 50_000, (400, "invalid_json")),
        (b'{"code": 1, "language": "python"}', (422, "invalid_request")),
        (b"\xff", (400, "invalid_json")),
        (b'"' + b"x" * 100_000 + b'"', (413, "body_too_large")),
    ],
    ids=["cut", "deep", "wrong type", "no text", "too large"],
)
async def test_a_body_that_cannot_be_used_is_refused(
    served: Served, content: bytes, expected: tuple[int, str]
) -> None:
    assert read_error(await served.http.post("/run_code", content=content)) == expected


async def test_a_body_without_a_length_is_bounded(served: Served) -> None:
    async def flood() -> AsyncIterator[bytes]:
        for _ in range(1000):
            yield b"x" * 10_000

    try:
        response = await served.http.post("/run_code", content=flood())
    except httpx.TransportError:
        return  # the service closed the connection in the middle of the body
    assert read_error(response) == (413, "body_too_large")


async def test_an_unknown_path_and_method_are_named(served: Served) -> None:
    assert read_error(await served.http.get("/nothing")) == (404, "unknown_path")
    response = await served.http.get("/run_code")
    assert read_error(response) == (405, "unknown_method")
    assert response.headers["allow"] == "POST"


async def test_a_client_cannot_name_another_address_as_its_own(served: Served) -> None:
    values = {"limits": {"memory_mb": 64}}
    headers = {"x-forwarded-for": "203.0.113.7"}
    opened = await served.http.post("/v1/sandboxes", json=values, headers=headers)
    listed = (await served.http.get("/v1/sandboxes")).json()["sandboxes"]
    assert [each["id"] for each in listed] == [opened.json()["id"]]
    await served.http.delete(f"/v1/sandboxes/{opened.json()['id']}")


async def test_a_client_that_leaves_frees_its_sandbox(unused: Served) -> None:
    request = asyncio.create_task(unused.post("/run_code", **SLEEP))
    await wait_for_metric(unused, "harness_working", 1)
    request.cancel()
    await asyncio.gather(request, return_exceptions=True)
    await wait_for_metric(unused, "harness_working", 0)
    await wait_for_metric(unused, "harness_sandboxes", 0)


async def test_a_client_that_has_sent_a_request_ahead_and_leaves_frees_its_sandbox(unused: Served) -> None:
    url = urlsplit(unused.url)
    body = json.dumps(SLEEP)
    head = f"POST /{TOKEN}/run_code HTTP/1.1\r\nhost: a\r\ncontent-length: {len(body)}\r\n\r\n"
    _, writer = await asyncio.open_connection(url.hostname, url.port)
    writer.write(2 * (head + body).encode())
    await wait_for_metric(unused, "harness_working", 1)
    writer.close()
    await writer.wait_closed()
    await wait_for_metric(unused, "harness_working", 0)
    await wait_for_metric(unused, "harness_sandboxes", 0)


async def test_a_client_that_leaves_the_queue_frees_its_place_there() -> None:
    async with serve(max_concurrent=1) as served:
        sleeping = [asyncio.create_task(served.post("/run_code", **SLEEP)) for _ in range(2)]
        await wait_for_metric(served, "harness_queue_length", 1)
        sleeping[1].cancel()
        await wait_for_metric(served, "harness_queue_length", 0)
        sleeping[0].cancel()
        await asyncio.gather(*sleeping, return_exceptions=True)


async def test_a_request_whose_client_gives_up_before_the_queue_clears_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with serve(max_concurrent=1) as served:
        sleeping = asyncio.create_task(served.post("/run_code", **SLEEP))
        await wait_for_metric(served, "harness_working", 1)
        monkeypatch.setattr(run_code, "CLIENT_SECONDS", 3.0)
        times = {"compile_timeout": 0.1, "run_timeout": 0.1}
        refused = await served.post("/run_code", code="1", language="python", **times)
        assert read_error(refused) == (504, "busy")
        assert int(refused.headers["retry-after"]) >= 1
        sleeping.cancel()
        await asyncio.gather(sleeping, return_exceptions=True)


async def test_a_service_that_ends_finishes_what_it_has() -> None:
    running: asyncio.Task[httpx.Response]
    async with httpx.AsyncClient(timeout=60, trust_env=False) as client:
        async with serve() as served:
            code: dict[str, Any] = {"code": "import time; time.sleep(1); print(1)", "language": "python"}
            running = asyncio.create_task(client.post(f"{served.url}/{TOKEN}/run_code", json=code))
            await wait_for_metric(served, "harness_working", 1)
        assert json.loads((await running).content)["status"] == "Success"


async def open_stream(served: Served, stack: contextlib.AsyncExitStack, *argv: str) -> httpx.Response:
    """Return the reply to a command, whose output nobody has read."""
    opened = await served.post("/v1/sandboxes", limits={"memory_mb": 64})
    client = await stack.enter_async_context(httpx.AsyncClient(timeout=60, trust_env=False))
    path = f"{served.url}/{TOKEN}/v1/sandboxes/{opened.json()['id']}/exec"
    headers = {"accept": "text/event-stream"}
    stream = client.stream("POST", path, json={"argv": argv, "timeout_seconds": 60}, headers=headers)
    return await stack.enter_async_context(stream)


async def test_a_service_that_ends_cuts_off_late_requests_without_an_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        async with serve(drain_seconds=0.1) as served:
            streams = [await open_stream(served, stack, *argv) for argv in (["yes"], ["sleep", "60"])]
            client = await stack.enter_async_context(httpx.AsyncClient(timeout=60, trust_env=False))
            waiting = asyncio.create_task(client.post(f"{served.url}/{TOKEN}/run_code", json=SLEEP))
            await wait_for_metric(served, "harness_working", 1)
        for stream in streams:
            with pytest.raises(httpx.TransportError):
                await stream.aread()
        with pytest.raises(httpx.TransportError):
            await waiting
    assert [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR] == []


async def test_a_service_that_cannot_listen_logs_no_end(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "harness.service")
    with pytest.raises(UsageError):
        async with serve(port=int(served.url.rpartition(":")[2])):
            pass
    assert "ended" not in [each.getMessage() for each in caplog.records]


async def test_requests_and_waits_are_in_the_metrics(unused: Served) -> None:
    await unused.post("/run_code", code="print(1)", language="python")
    assert await unused.read_metric("harness_requests_total") >= 1
    assert await unused.read_metric("harness_wait_seconds_count") == 1
