"""The audit of the relay: each attack runs in a sandbox, next to a neighbour that must not notice it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, TextIO

import psutil

from harness.audit.attack import read_part
from harness.audit.relay_attacks import (
    BEGINNING,
    RelayAttack,
    check_end,
    check_received,
    check_requests,
    open_canary,
)
from harness.audit.run import count_containers
from harness.core.errors import SandboxError
from harness.environments.base import NoTranscript
from harness.models.endpoint import Endpoint
from harness.models.relay.app import make_relay_app
from harness.models.relay.serving import serve_app
from harness.reports.console import cell, grid, open_report, print_heading, print_line, print_section
from harness.reports.figures import count
from harness.runs.progress import RunObserver
from harness.sandbox.backends import open_default_backend
from harness.sandbox.backends.base import Backend
from harness.sandbox.limits import Limits
from harness.sandbox.results import ExecResult
from harness.sandbox.sandbox import Sandbox

MODEL = "model-of-the-audit"
KEY_VARIABLE = "HARNESS_AUDIT_KEY"
ATTACKER, NEIGHBOUR = "attacker", "neighbour"
LIMITS = Limits(memory_mb=512, processes=256, cpu_seconds=60, wall_seconds=120.0)
# How much the memory of the host's process may grow during an attack, and its requests that may still be open
# some time after it.
MEMORY_MIB = 192
IDLE_SECONDS = 10.0
# The requests of the neighbour during an attack.
NEIGHBOUR_REQUESTS = 10
SAMPLING_SECONDS = 0.05
_MIB = 1 << 20
_NEIGHBOUR = """
done, slowest = 0, 0.0
for _ in range(int(os.environ["NEIGHBOUR_REQUESTS"])):
    started = time.monotonic()
    answer = ask(CHAT)
    slowest = max(slowest, time.monotonic() - started)
    done += status_of(answer) == 200 and b"ready" in answer
print(json.dumps({"done": done, "slowest": slowest}))
"""
_GOOD, _BAD = "green", "bold red"


@dataclass(frozen=True, slots=True)
class RelayOutcome:
    """The outcome of one attack. `broken` has a sentence for each rule that did not hold."""

    attack: str
    broken: tuple[str, ...]
    # The requests that reached the server, which is as many as the relay let through.
    requests: int
    # The slowest request of the neighbour, in seconds, during the attack.
    neighbour_seconds: float
    # The growth of the host's process, in MiB.
    memory_mib: float
    seconds: float


@dataclass(frozen=True, slots=True)
class RelayAudit:
    """The outcomes of all attacks, and the slowest request of a neighbour without an attack in seconds."""

    outcomes: tuple[RelayOutcome, ...]
    undisturbed_seconds: float
    containers_left: int

    @property
    def sound(self) -> bool:
        """Whether no attack broke a rule, and no container is left."""
        return not self.containers_left and not any(outcome.broken for outcome in self.outcomes)

    def as_values(self) -> dict[str, Any]:
        """Return the audit as plain data, for JSON."""
        return {**asdict(self), "sound": self.sound}


@dataclass(frozen=True, slots=True)
class _Ground:
    """The things that all attacks of an audit share."""

    backend: Backend
    run_id: str
    # The key of the server, which must not come into a sandbox.
    key: str


@dataclass(frozen=True, slots=True)
class _Attempt:
    """An attempt whose relay is open: its sandbox, and the variables of programs there."""

    sandbox: Sandbox
    variables: dict[str, str]
    relay: contextlib.AsyncExitStack

    async def run(self, program: str, on_output: Callable[[str, bytes], None] | None = None) -> ExecResult:
        """Return the result of a program in the sandbox."""
        await self.sandbox.write_file("program.py", program.encode())
        return await self.sandbox.exec(["python3", "program.py"], env=self.variables, on_output=on_output)


async def carry_out_relay_audit(attacks: Sequence[RelayAttack], observer: RunObserver) -> RelayAudit:
    """Return the audit of these attacks, made one after the other.

    Raises EngineUnavailableError, and SandboxError if a sandbox fails by itself.
    """
    run_id = secrets.token_hex(8)
    async with open_default_backend() as backend:
        ground = _Ground(backend, run_id, f"sk-{secrets.token_hex(24)}")
        with _set_key(ground.key):
            async with open_canary() as (_, url), _open_attempt(ground, NEIGHBOUR, url) as neighbour:
                undisturbed = await _ask_as_neighbour(neighbour)
            if undisturbed["done"] != NEIGHBOUR_REQUESTS:
                raise SandboxError("the relay does not answer a program that attacks nothing")
            outcomes = []
            for attack in attacks:
                outcome = await _make_attack(ground, attack)
                observer.note(f"{attack.name}: {'; '.join(outcome.broken) or 'every rule held'}")
                outcomes.append(outcome)
        left = await count_containers(backend, run_id)
    return RelayAudit(tuple(outcomes), undisturbed["slowest"], left)


async def _make_attack(ground: _Ground, attack: RelayAttack) -> RelayOutcome:
    started = time.monotonic()
    mark = f"mark{secrets.token_hex(8)}"
    async with contextlib.AsyncExitStack() as stack:
        canary, url = await stack.enter_async_context(open_canary())
        neighbour = await stack.enter_async_context(_open_attempt(ground, NEIGHBOUR, url))
        theirs = {"NEIGHBOUR_TOKEN": neighbour.variables["RELAY_TOKEN"], "ATTACK_MARK": mark}
        attacker = await stack.enter_async_context(_open_attempt(ground, ATTACKER, url, theirs))
        memory = await stack.enter_async_context(_watch_memory())
        asking = asyncio.create_task(_ask_as_neighbour(neighbour))
        try:
            result, ended_at = await _run_attack(attacker, attack)
            neighbours = await asking
        finally:
            asking.cancel()
            await asyncio.wait([asking])
        open_requests = await canary.wait_until_idle(IDLE_SECONDS)
        received = await attacker.sandbox.read_file("received.bin")
    paths = [str(Path(__file__).parents[2]), sys.prefix]
    asked = sum(request.path.startswith(f"/{ATTACKER}/") for request in canary.received)
    broken = [
        *check_requests(canary.received, owner=ATTACKER, mark=mark, key=ground.key, model=MODEL),
        *check_end(canary.received, owner=ATTACKER, ended_at=ended_at),
        *check_received(received, secrets=[ground.key], host_paths=paths),
    ]
    if asked and not attack.may_ask:
        broken.append(f"{asked} requests without the token reached the server")
    if failed := NEIGHBOUR_REQUESTS - neighbours["done"]:
        broken.append(f"{failed} requests of the neighbour failed")
    if memory() > MEMORY_MIB:
        broken.append(f"the host's process grew by {memory():.0f} MiB, and {MEMORY_MIB} MiB are allowed")
    if open_requests:
        broken.append(f"{open_requests} requests to the server are still open {IDLE_SECONDS:.0f} s later")
    if result.limit is None and result.exit_code != 0:
        # A program that fails by itself attacks nothing, so that its silence would prove nothing.
        broken.append(f"the attack itself failed: {str(result.stderr)[-300:]}")
    return RelayOutcome(
        attack.name, tuple(broken), asked, neighbours["slowest"], memory(), time.monotonic() - started
    )


async def _run_attack(attempt: _Attempt, attack: RelayAttack) -> tuple[ExecResult, float]:
    """Return the result of an attack, and the monotonic time when its relay had ended.

    The relay ends when the attack asks for it, as it ends before grading, or after the attack.
    """
    asked = asyncio.Event()

    async def end_relay() -> float:
        await asked.wait()
        await attempt.relay.aclose()
        ended_at = time.monotonic()
        await attempt.sandbox.write_file("relay-ended", b"")
        return ended_at

    ending = asyncio.create_task(end_relay())
    try:
        result = await attempt.run(attack.program, lambda _stream, _data: asked.set())
        asked.set()
        return result, await ending
    finally:
        ending.cancel()
        await asyncio.wait([ending])


@contextlib.asynccontextmanager
async def _open_attempt(
    ground: _Ground, name: str, url: str, variables: Mapping[str, str] = MappingProxyType({})
) -> AsyncIterator[_Attempt]:
    """Yield an attempt. The first part of its URL at the server is its name."""
    # The client takes most of a second to import, and `harness --help` does not need it.
    from harness.models.access import ModelAccess
    from harness.models.client import open_client

    endpoint = Endpoint(
        model=MODEL, base_url=f"{url}/{name}/v1", api_key_env=KEY_VARIABLE, try_seconds=30, request_seconds=60
    )
    token = secrets.token_urlsafe(32)
    async with contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(open_client(endpoint))
        session = ModelAccess(client).open_session(number=0, seed=0, transcript=NoTranscript())
        opening = Sandbox.open(
            "python", limits=LIMITS, relay=True, run_id=ground.run_id, backend=ground.backend
        )
        sandbox = await stack.enter_async_context(opening)
        relay = await stack.enter_async_context(contextlib.AsyncExitStack())
        server = await relay.enter_async_context(serve_app(make_relay_app(token, model=session, mcp=None)))
        listener = await relay.enter_async_context(sandbox.relay(server.accept))
        own = {
            "RELAY_PORT": str(listener.port),
            "RELAY_TOKEN": token,
            "NEIGHBOUR_TOKEN": "",
            "NEIGHBOUR_REQUESTS": str(NEIGHBOUR_REQUESTS),
            "ATTACK_MARK": "",
        }
        yield _Attempt(sandbox, {**own, **variables}, relay)


async def _ask_as_neighbour(attempt: _Attempt) -> dict[str, Any]:
    """Return how many requests of an attempt succeeded, and the time of the slowest in seconds."""
    program = f"{read_part(BEGINNING)}\n\n{_NEIGHBOUR}"
    result = await attempt.run(program)
    try:
        answer = json.loads(str(result.stdout))
        return {"done": int(answer["done"]), "slowest": float(answer["slowest"])}
    except (ValueError, KeyError, TypeError):
        return {"done": 0, "slowest": LIMITS.wall_seconds}


@contextlib.asynccontextmanager
async def _watch_memory() -> AsyncIterator[Any]:
    """Yield a function that returns the growth of this process since the start of the block, in MiB."""
    process = psutil.Process()
    before = most = process.memory_info().rss

    async def watch() -> None:
        nonlocal most
        while True:
            most = max(most, process.memory_info().rss)
            await asyncio.sleep(SAMPLING_SECONDS)

    watching = asyncio.create_task(watch())
    try:
        yield lambda: (most - before) / _MIB
    finally:
        watching.cancel()
        await asyncio.wait([watching])


@contextlib.contextmanager
def _set_key(key: str) -> Iterator[None]:
    """Set the variable of the key during the block, because endpoints read keys there."""
    os.environ[KEY_VARIABLE] = key
    try:
        yield
    finally:
        del os.environ[KEY_VARIABLE]


def print_relay_audit(audit: RelayAudit, *, stream: TextIO) -> None:
    """Print the outcome of each attack, each broken rule, and a conclusion."""
    table = grid("attack", ">broken rules", ">let through", ">neighbour", ">memory", ">time")
    for outcome in audit.outcomes:
        table.add_row(
            cell(outcome.attack),
            cell(f"{len(outcome.broken):,}"),
            cell(f"{outcome.requests:,}"),
            cell(f"{outcome.neighbour_seconds:.2f} s"),
            cell(f"{outcome.memory_mib:+.0f} MiB"),
            cell(f"{outcome.seconds:.1f} s"),
            style=_BAD if outcome.broken else "",
        )
    with open_report(stream) as console:
        print_heading(console, "relay - audit", bundled=False)
        print_section(console, table)
        console.print()
        for outcome in audit.outcomes:
            for sentence in outcome.broken:
                print_line(console, f"{outcome.attack}: {sentence}", _BAD)
        print_line(
            console,
            f"The slowest request of a neighbour took {audit.undisturbed_seconds:.2f} s without an attack.",
        )
        print_line(console, conclude(audit), _GOOD if audit.sound else _BAD)


def conclude(audit: RelayAudit) -> str:
    """Return the line that concludes an audit of the relay."""
    broken = sum(bool(outcome.broken) for outcome in audit.outcomes)
    attacks = count(len(audit.outcomes), "attack")
    verdict = f"{broken} of {attacks} broke a rule" if broken else f"{attacks} broke no rule"
    return f"{verdict}; {count(audit.containers_left, 'container')} left"
