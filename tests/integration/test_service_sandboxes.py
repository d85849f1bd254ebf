"""`/v1/sandboxes`: sandboxes that a client holds, the commands and files in them, and their end."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio
from case_checks import each_case
from service_fixtures import Served, share_service

BASH = ["/bin/bash", "-c"]
EVENTS = {"accept": "text/event-stream"}
pytestmark = pytest.mark.asyncio(loop_scope="module")
served = share_service()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(served: Served) -> str:
    """The path of a sandbox that no test ends."""
    return await served.open_sandbox()


async def run(served: Served, path: str, script: str, **values: Any) -> dict[str, Any]:
    response = await served.post(f"{path}/exec", argv=[*BASH, script], **values)
    assert response.status_code == 200, response.text
    body: dict[str, Any] = response.json()
    return body


async def test_a_client_may_get_a_sandbox_that_was_prepared(served: Served) -> None:
    await served.http.delete(await served.open_sandbox(limits={"memory_mb": 150}))
    while not await served.read_metric("harness_prepared_sandboxes"):  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    path = await served.open_sandbox(limits={"memory_mb": 150})
    assert await served.read_metric("harness_prepared_sandbox_seconds_count") >= 1
    assert await served.read_metric("harness_sandbox_claims_total") >= 2
    eater = "python3 -c 'print(len(bytes(10**6)) and bytearray(300 * 10**6) and 1)'"
    assert (await run(served, path, eater))["limit"] == "memory_mb", (
        "it has the limits that its client asked for"
    )
    await served.http.delete(path)


def read_error(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["code"]


async def read_events(lines: AsyncIterator[str]) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    name = ""
    async for line in lines:
        field, _, value = line.partition(": ")
        if field == "event":
            name = value
        elif field == "data":
            yield name, json.loads(value)


async def wait_until_gone(served: Served, path: str) -> httpx.Response:
    """Return the answer for a sandbox that ends by itself. The time limit of the test ends a wait in vain."""
    while (response := await served.http.get(path)).status_code == 200:  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    return response


async def test_commands_share_the_files_of_their_sandbox(served: Served, sandbox: str) -> None:
    await run(served, sandbox, "echo 42 > answer")
    body = await run(served, sandbox, "cat answer; echo bad >&2; exit 3")
    assert (body["exit_code"], body["limit"], body["clean"]) == (3, None, True)
    assert body["stdout"] == {"head": "42\n", "tail": "", "total": 3, "truncated": False}
    assert body["stderr"]["head"] == "bad\n"


async def test_a_sandbox_is_shown_and_listed_until_it_is_deleted(served: Served) -> None:
    path = await served.open_sandbox(deadline_seconds=100, idle_seconds=50)
    shown = (await served.http.get(path)).json()
    assert (shown["image"], shown["limits"]["memory_mb"], shown["busy"]) == ("python", 128, 0)
    assert 0 < shown["seconds_left"] <= 100
    assert 0 < shown["idle_seconds_left"] <= 50
    listed = (await served.http.get("/v1/sandboxes")).json()["sandboxes"]
    assert shown["id"] in [each["id"] for each in listed]
    assert (await served.http.delete(path)).status_code == 204
    left = (await served.http.get("/v1/sandboxes")).json()["sandboxes"]
    assert shown["id"] not in [each["id"] for each in left]
    assert read_error(await served.http.get(path)) == (410, "sandbox_deleted")
    assert read_error(await served.http.delete(path)) == (410, "sandbox_deleted")
    assert await served.read_metric("harness_sandboxes") == await served.read_metric("harness_sessions")


async def test_an_unknown_sandbox_is_not_found(served: Served) -> None:
    assert read_error(await served.http.get("/v1/sandboxes/wrong")) == (404, "unknown_sandbox")


async def test_input_environment_and_folder_reach_the_command(served: Served, sandbox: str) -> None:
    body = await run(
        served, sandbox, "cat; echo $NAME; pwd", stdin="in\n", environment={"NAME": "value"}, folder="/tmp"
    )
    assert body["stdout"]["head"] == "in\nvalue\n/tmp\n"


async def test_every_byte_survives_in_base64(served: Served, sandbox: str) -> None:
    data = bytes(range(256)) * 4
    body = await run(served, sandbox, "cat", stdin_base64=base64.b64encode(data).decode(), encoding="base64")
    assert base64.b64decode(body["stdout"]["head"]) == data
    assert (await run(served, sandbox, "printf 'a\\377b'"))["stdout"]["head"] == "a\ufffdb"


async def test_output_streams_as_it_comes(served: Served, sandbox: str) -> None:
    script = (
        "printf 'caf\\303'; printf '\\251 1\\n'; until [ -e go ]; do sleep 0.02; done; echo 2 >&2; exit 7"
    )
    request = {"argv": [*BASH, script]}
    async with served.http.stream("POST", f"{sandbox}/exec", json=request, headers=EVENTS) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        events = read_events(response.aiter_lines())
        seen = ""
        while seen != "café 1\n":
            name, data = await anext(events)
            assert name == "stdout"
            seen += data["data"]
        # The command waits for this file, so its first output has come before its end.
        await served.http.put(f"{sandbox}/files/go", content=b"")
        rest = [event async for event in events]
    assert rest[0] == ("stderr", {"data": "2\n"})
    assert [name for name, _ in rest[1:]] == ["result"]
    assert (rest[-1][1]["exit_code"], rest[-1][1]["stderr"]["total"]) == (7, 2)


async def test_streamed_bytes_survive_in_base64(served: Served, sandbox: str) -> None:
    data = bytes(range(256)) * 1000
    await served.http.put(f"{sandbox}/files/data", content=data)
    request = {"argv": ["cat", "data"], "encoding": "base64"}
    received = b""
    async with served.http.stream("POST", f"{sandbox}/exec", json=request, headers=EVENTS) as response:
        async for name, event in read_events(response.aiter_lines()):
            received += base64.b64decode(event["data"]) if name == "stdout" else b""
    assert received == data


@each_case("headers", [{}, EVENTS], ids=["whole", "stream"])
async def test_a_leaving_client_ends_its_command(
    served: Served, sandbox: str, headers: dict[str, str]
) -> None:
    request = {"argv": [*BASH, "touch begun; sleep 100"], "timeout_seconds": 100}
    running = asyncio.create_task(served.http.post(f"{sandbox}/exec", json=request, headers=headers))
    while (await served.http.get(f"{sandbox}/files/begun")).status_code != 200:  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    while (await served.http.get(sandbox)).json()["busy"]:  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    find = "for each in /proc/[0-9]*/cmdline; do tr '\\0' ' ' < $each; echo; done | grep -c '^sleep 100'"
    while (await run(served, sandbox, find))["stdout"]["head"] != "0\n":  # noqa: ASYNC110
        await asyncio.sleep(0.02)


async def test_a_command_ends_with_its_deleted_sandbox(served: Served) -> None:
    path = await served.open_sandbox()
    request = {"argv": [*BASH, "echo begun; sleep 100"], "timeout_seconds": 100}
    async with served.http.stream("POST", f"{path}/exec", json=request, headers=EVENTS) as response:
        events = read_events(response.aiter_lines())
        assert await anext(events) == ("stdout", {"data": "begun\n"})
        assert (await served.http.delete(path)).status_code == 204
        name, data = await anext(events)
    assert (name, data["error"]["code"]) == ("error", "sandbox_deleted")


async def test_files_go_in_and_out_as_bytes(served: Served, sandbox: str) -> None:
    data = bytes(range(256)) * 4000
    assert (await served.http.put(f"{sandbox}/files/folder/in.bin", content=data)).status_code == 204
    assert (await served.http.get(f"{sandbox}/files/folder/in.bin")).content == data
    assert await served.http.put(f"{sandbox}/files/%2Ftmp/tool?mode=755", content=b"#!/bin/sh\necho ran\n")
    assert (await run(served, sandbox, "/tmp/tool"))["stdout"]["head"] == "ran\n"
    # Commas are values in JSON, which would count as far more memory than these bytes take.
    assert (await served.http.put(f"{sandbox}/files/commas", content=b"," * 5_000_000)).status_code == 204


@each_case(
    ("name", "part"),
    [
        ("a b", "a%20b"),
        ("ü", "%C3%BC"),
        ("-rf", "-rf"),
        ("100%", "100%25"),
        ("a\nb", "a%0Ab"),
        ("a\n", "a%0A"),
    ],
)
async def test_a_file_keeps_its_name(served: Served, sandbox: str, name: str, part: str) -> None:
    url = f"{sandbox}/files/{part}"
    assert (await served.http.put(url, content=b"here")).status_code == 204
    assert (await run(served, sandbox, f"cat -- '{name}'"))["stdout"]["head"] == "here"
    assert (await served.http.get(url)).content == b"here"


@each_case(
    ("name", "content", "expected"),
    [
        ("missing", None, (404, "unreadable_file")),
        ("%2Fproc/1/mem", None, (404, "unreadable_file")),
        ("%2Fetc/passwd", b"x", (422, "unwritable_file")),
        ("in?mode=9", b"x", (422, "invalid_request")),
        ("in?mode=4755", b"x", (422, "invalid_request")),
    ],
)
async def test_a_file_that_cannot_be_used_is_named(
    served: Served, sandbox: str, name: str, content: bytes | None, expected: tuple[int, str]
) -> None:
    url = f"{sandbox}/files/{name}"
    response = await (served.http.get(url) if content is None else served.http.put(url, content=content))
    assert read_error(response) == expected


async def test_a_command_that_takes_too_much_memory_ends_alone(served: Served, sandbox: str) -> None:
    body = await run(served, sandbox, "python3 -c 'x = bytearray(1 << 30)'", timeout_seconds=20)
    assert (body["exit_code"] != 0, body["limit"]) == (True, "memory_mb")
    assert (await run(served, sandbox, "echo alive"))["stdout"]["head"] == "alive\n"


async def test_a_sandbox_that_runs_out_of_memory_is_gone_with_the_reason(served: Served) -> None:
    path = await served.open_sandbox(limits={"memory_mb": 128, "disk_mb": 256, "file_mb": 256})
    fill = "head -c 200M /dev/zero > /tmp/full"
    response = await served.post(f"{path}/exec", argv=[*BASH, fill], timeout_seconds=20)
    while response.status_code == 200:
        response = await served.post(f"{path}/exec", argv=[*BASH, fill], timeout_seconds=20)
    assert read_error(response) == (410, "sandbox_out_of_memory")
    assert read_error(await served.http.get(path)) == (410, "sandbox_out_of_memory")


async def test_an_unused_sandbox_ends_after_its_idle_time(served: Served) -> None:
    path = await served.open_sandbox(idle_seconds=1)
    response = await wait_until_gone(served, path)
    assert read_error(response) == (410, "sandbox_idle")


async def test_a_command_keeps_its_sandbox_alive(served: Served) -> None:
    path = await served.open_sandbox(idle_seconds=3)
    assert (await run(served, path, "sleep 4; echo done"))["stdout"]["head"] == "done\n"
    assert (await served.http.post(f"{path}/keepalive")).json()["idle_seconds_left"] > 0
    await served.http.delete(path)


async def test_a_sandbox_ends_at_its_deadline_with_its_command(served: Served) -> None:
    path = await served.open_sandbox(deadline_seconds=2)
    response = await served.post(f"{path}/exec", argv=["sleep", "60"], timeout_seconds=60)
    assert read_error(response) == (410, "sandbox_expired")


@each_case(
    "wrong",
    [
        {"image": "alpine"},
        {"image": "sha256:" + "0" * 64},
        {"deadline_seconds": 1e9},
        {"limits": {"memory_mb": 1 << 20}},
        {"limits": {"cpus": 1000}},
        {"limits": {"cpus": 64}},
        {"limits": {"uncounted_sockets": True}},
        {"privileged": True},
    ],
    ids=["image", "build", "deadline", "memory", "cpus", "processors", "sockets", "unknown"],
)
async def test_a_sandbox_that_may_not_be_opened_is_refused(served: Served, wrong: dict[str, Any]) -> None:
    assert (await served.post("/v1/sandboxes", **wrong)).status_code == 422


@each_case(
    "wrong",
    [{"argv": []}, {"argv": ["a\0b"]}, {"argv": ["true"], "stdin": "a", "stdin_base64": "YQ=="}],
    ids=["empty", "zero byte", "two inputs"],
)
async def test_a_broken_command_is_refused(served: Served, sandbox: str, wrong: dict[str, Any]) -> None:
    for headers in ({}, EVENTS):
        response = await served.http.post(f"{sandbox}/exec", json=wrong, headers=headers)
        assert response.status_code == 422
    assert (await run(served, sandbox, "echo alive"))["stdout"]["head"] == "alive\n"
