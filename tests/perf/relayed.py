"""Measure calls over a relay, and whole requests to a model through it, in turn with direct ones."""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
import statistics
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from figure import Figure, Measurement, Reading
from model_waits import serve_elsewhere
from session import Session
from waiting_server import serve_waiting

from harness import Sandbox
from harness.models.access import ModelAccess
from harness.models.client import open_client
from harness.models.endpoint import Endpoint
from harness.models.relay.app import make_relay_app
from harness.models.relay.serving import serve_app
from harness.runs.transcripts import TranscriptFile
from harness.sandbox.backends.docker.backend import DockerBackend

REQUEST_BYTES, ANSWER_BYTES = 500, 2000
ROUNDS = 4
RELAYED = Figure("a call over a relay, p50", "ms", "the same call without a sandbox", mark=5, judged="ours")
ADDED = Figure("what the relay adds to a request to a model, p50", "ms", mark=5, judged="ours")
# Each client prints the milliseconds of its calls. The arguments are a port and the number of calls.
CALLER = f"""
import json, socket, sys, time
link = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
times = []
for _ in range(int(sys.argv[2])):
    started = time.perf_counter()
    link.sendall(bytes({REQUEST_BYTES}))
    link.recv({ANSWER_BYTES}, socket.MSG_WAITALL)
    times.append(1000 * (time.perf_counter() - started))
print(json.dumps(times))
"""
# The third argument is the key. The contents differ, as an agent's contents do.
ASKER = """
import http.client, json, sys, time
link = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
link.connect()
headers = {"Authorization": "Bearer " + sys.argv[3], "Content-Type": "application/json"}
times = []
for number in range(int(sys.argv[2])):
    question = {"role": "user", "content": f"{number} " + "word " * 400}
    body = json.dumps({"model": "fast", "messages": [question]})
    started = time.perf_counter()
    link.request("POST", "/v1/chat/completions", body, headers)
    answer = link.getresponse()
    assert answer.status == 200, answer.read()
    answer.read()
    times.append(1000 * (time.perf_counter() - started))
print(json.dumps(times))
"""


def take_relayed(session: Session) -> Iterator[Reading]:
    """Yield the readings of calls over a relay, and of requests to a model."""
    relayed, direct = asyncio.run(_time_calls(session))
    yield Reading(RELAYED, relayed, direct)
    with serve_elsewhere(serve_waiting, 0.0) as url, tempfile.TemporaryDirectory() as folder:
        transcript = TranscriptFile(Path(folder) / "transcript.jsonl")
        asked, directly = asyncio.run(_time_requests(session, url, transcript))
    without = statistics.median(directly)
    note = f"a request takes {statistics.median(asked):.2f} ms through the relay, {without:.2f} ms without it"
    yield Reading(ADDED, [each - without for each in asked], note=note)


async def _time_calls(session: Session) -> tuple[list[float], list[float]]:
    answers: list[asyncio.Task[None]] = []

    def accept(link: socket.socket) -> None:
        answers.append(asyncio.create_task(_answer_link(link)))

    server = await asyncio.start_server(_answer, "127.0.0.1", 0)
    opening = Sandbox.open("python", relay=True, backend=DockerBackend(session.client))
    async with server, opening as sandbox, sandbox.relay(accept) as listener:
        times = await _take_turns(session, sandbox, CALLER, listener.port, server.sockets[0].getsockname()[1])
    await asyncio.gather(*answers)
    return times


async def _time_requests(
    session: Session, url: str, transcript: TranscriptFile
) -> tuple[list[float], list[float]]:
    token = secrets.token_urlsafe()
    opening = Sandbox.open("python", relay=True, backend=DockerBackend(session.client))
    async with open_client(Endpoint(model="fast", base_url=url)) as client, opening as sandbox:
        model = ModelAccess(client).open_session(number=0, seed=0, transcript=transcript)
        app = make_relay_app(token, model=model, mcp=None)
        async with serve_app(app) as server, sandbox.relay(server.accept) as listener:
            port = int(url.split(":")[2].split("/")[0])
            return await _take_turns(session, sandbox, ASKER, listener.port, port, token)


async def _take_turns(
    session: Session, sandbox: Sandbox, client: str, relayed_port: int, direct_port: int, *arguments: str
) -> tuple[list[float], list[float]]:
    """Return the times of a client in the sandbox, and of the same client on the host."""
    calls = str(max(session.size.calls // ROUNDS, 1))
    relayed: list[float] = []
    direct: list[float] = []

    async def call_inside() -> list[float]:
        result = await sandbox.exec(["python3", "-c", client, str(relayed_port), calls, *arguments])
        return _read_times(result.stdout.data)

    async def call_outside() -> list[float]:
        command = (sys.executable, "-c", client, str(direct_port), calls, *arguments)
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        output, _ = await process.communicate()
        return _read_times(output)

    turns: tuple[tuple[list[float], Callable[[], Awaitable[list[float]]]], ...]
    turns = ((relayed, call_inside), (direct, call_outside))
    for _round in range(ROUNDS):
        for times, call in turns:
            times += await call()
    return relayed, direct


def _read_times(output: bytes) -> list[float]:
    times: list[float] = json.loads(output)
    return times


async def _answer_link(link: socket.socket) -> None:
    reader, writer = await asyncio.open_connection(sock=link)
    await _answer(reader, writer)


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            await reader.readexactly(REQUEST_BYTES)
            writer.write(bytes(ANSWER_BYTES))
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


MEASUREMENTS = (Measurement("relay", (RELAYED, ADDED), take_relayed),)
