"""A SPARQL endpoint gives the same lists and answers as a graph in memory. The server is a real one."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar

import pytest
import requests
from case_checks import each_case
from kg_questions import SCHEMA, plan_of
from samples.questions import make_questions

from harness.core.errors import SandboxError
from harness.core.secret_forms import open_session
from harness.environments.kg.generator import make_task_graph
from harness.environments.kg.grader import Plan
from harness.environments.kg.graph import (
    Count,
    Entity,
    Extreme,
    Graph,
    Intersection,
    Literal,
    Neighbors,
    Node,
    Program,
    make_graph,
)
from harness.environments.kg.session import ActionError
from harness.environments.kg.sparql import NAMESPACE, Endpoint, answers_query

SERVER = shutil.which("oxigraph", path=str(Path(sys.executable).parent)) or shutil.which("oxigraph")
START_SECONDS = 30.0


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Yield the address of an Oxigraph server without data."""
    if SERVER is None:
        pytest.skip("no oxigraph server; it is in the group dev")
    address = f"127.0.0.1:{free_port()}"
    process = subprocess.Popen(
        [SERVER, "serve", "--bind", address], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                requests.get(f"http://{address}/", timeout=1)
                break
            except requests.ConnectionError:
                assert time.monotonic() < deadline, "the server did not start"
                assert process.poll() is None
                time.sleep(0.05)
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait(10)


@pytest.fixture
def serve(server: str) -> Callable[[Graph], Endpoint]:
    """Return a function that fills the server with a graph."""

    def fill(graph: Graph) -> Endpoint:
        lines = "\n".join(
            f"<{NAMESPACE}{subject}> <{NAMESPACE}{relation}> {written(node)} ."
            for subject, edges in graph.edges.items()
            for relation, nodes in edges.items()
            for node in nodes
        )
        headers = {"Content-Type": "application/n-triples"}
        requests.put(
            f"{server}/store?default", lines.encode(), headers=headers, timeout=10
        ).raise_for_status()
        return Endpoint(f"{server}/query")

    return fill


def written(node: Node) -> str:
    if isinstance(node, str):
        return f"<{NAMESPACE}{node}>"
    if node.number is not None:
        return f'"{node.text}"^^<http://www.w3.org/2001/XMLSchema#integer>'
    return f'"{node.text}"@{node.language}' if node.language else f'"{node.text}"'


def parts_of(program: Entity | Program) -> Iterator[Entity | Program]:
    yield program
    for name in ("source", "first", "second"):
        if hasattr(program, name):
            yield from parts_of(getattr(program, name))


@each_case("place", range(10))
def test_every_part_of_a_gold_program_has_the_same_answers(
    place: int, serve: Callable[[Graph], Endpoint]
) -> None:
    plan: Plan = plan_of(make_questions(10, 6)[place])
    graph, _ = make_task_graph(plan, SCHEMA, str(place))
    endpoint = serve(graph)
    assert endpoint.answers(plan.program) == set(plan.answers)
    for part in parts_of(plan.program):
        if not isinstance(part, Count):
            assert endpoint.relations_of(part) == graph.relations_of(part)
        if not isinstance(part, Entity):
            assert endpoint.answers(part) == graph.answers(part)


FILMS = make_graph(
    [
        ("m.a", "p.films", "m.b"),
        ("m.a", "p.films", "m.c"),
        ("m.a", "p.films", "m.d"),
        ("m.e", "p.films", "m.c"),
        ("m.e", "p.films", "m.d"),
        ("m.b", "p.films", "m.e"),
        ("m.e", "p.one", "m.b"),
        ("m.b", "f.length", Literal("7", number=7)),
        ("m.c", "f.length", Literal("10", number=10)),
        ("m.d", "f.length", Literal("10", number=10)),
        ("m.c", "f.title", Literal("Zwei", "de")),
        ("m.c", "f.title", Literal("Two", "en")),
        ("m.c", "f.born", Literal("1970-01-01-08:00")),
    ]
)
OF_A, OF_E = Neighbors(Entity("m.a"), "p.films"), Neighbors(Entity("m.e"), "p.films")
LONGEST = Extreme(OF_A, "f.length", largest=True)


@each_case(
    ("program", "answers"),
    [
        (Extreme(OF_A, "f.length", largest=True), {"m.c", "m.d"}),
        (Extreme(OF_A, "f.length", largest=False), {"m.b"}),
        (Count(Extreme(OF_A, "f.length", largest=True)), {"2"}),
        (Intersection(OF_A, OF_E), {"m.c", "m.d"}),
        (Neighbors(Neighbors(OF_A, "p.films"), "p.films"), {"m.c", "m.d"}),
        (Intersection(OF_E, Neighbors(Entity("m.e"), "p.none")), set()),
        (Neighbors(OF_A, "f.title"), {"Two"}),
        (Neighbors(OF_A, "f.born"), {"1970-01-01"}),
        (Count(OF_A), {"3"}),
        # Upstream's query keeps literals in other languages next to an answer with the same value.
        (Neighbors(LONGEST, "f.title"), {"Two", "Zwei"}),
        (Intersection(LONGEST, Neighbors(Entity("m.e"), "p.one")), {"m.b"}),
        (Intersection(Neighbors(Entity("m.e"), "p.one"), Neighbors(LONGEST, "p.films")), set()),
        (Neighbors(Extreme(OF_A, "f.length", largest=True), "p.films"), {"m.e"}),
        (Intersection(LONGEST, Extreme(OF_E, "f.length", largest=False)), {"m.c", "m.d"}),
        (Count(Neighbors(LONGEST, "p.films")), {"1"}),
        (Extreme(LONGEST, "f.length", largest=False), {"m.c", "m.d"}),
    ],
)
def test_both_kinds_of_graph_agree(
    program: Program, answers: set[str], serve: Callable[[Graph], Endpoint]
) -> None:
    assert FILMS.answers(program) == answers
    assert serve(FILMS).answers(program) == answers


NOT_NAMES = ["m.a> ?x ?y . #", "m.a }", "m.a b", "", "m", "m.a\n", "m.é", "<m.a>", "m.a'", 'm."a', "m..a"]


@each_case("name", [*NOT_NAMES, "m." + "a" * 101])
def test_a_name_with_other_characters_reaches_no_query(name: str) -> None:
    for program in (Neighbors(Entity(name), "a.b"), Neighbors(Entity("m.a"), name)):
        with pytest.raises(ActionError, match="characters"):
            answers_query(program)


class Replies(BaseHTTPRequestHandler):
    """A server that answers every query with the status in its path."""

    def do_POST(self) -> None:
        status = int(self.path.strip("/"))
        body = b"no results"
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: object) -> None:
        pass


@pytest.fixture(scope="module")
def broken() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Replies) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@each_case(
    ("status", "expected"),
    [(503, SandboxError), (429, SandboxError), (200, SandboxError), (500, ActionError), (302, ActionError)],
)
def test_a_fault_of_the_server_is_no_fault_of_the_agent(
    status: int, expected: type[Exception], broken: str
) -> None:
    with pytest.raises(expected):
        Endpoint(f"{broken}/{status}").answers(OF_A)


def test_an_unreachable_server_is_an_infrastructure_fault() -> None:
    with pytest.raises(SandboxError, match="cannot be reached") as caught:
        Endpoint(f"http://127.0.0.1:{free_port()}/").relations_of(Entity("m.a"))
    assert caught.value.outside


class Recorder(BaseHTTPRequestHandler):
    """A server that keeps the credentials of each request, and redirects `/first` to another name of it."""

    received: ClassVar[list[str | None]] = []

    def do_POST(self) -> None:
        self.received.append(self.headers["Authorization"])
        self.send_response(302 if self.path == "/first" else 500)
        self.send_header("Location", f"http://localhost:{self.headers['Host'].rpartition(':')[2]}/second")
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_POST

    def log_message(self, *_arguments: object) -> None:
        pass


@pytest.fixture
def recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Yield the port of a server, while ~/.netrc has a password for every host."""
    netrc = tmp_path / "netrc"
    netrc.write_text("default login me password secret\n")
    monkeypatch.setenv("NETRC", str(netrc))
    Recorder.received.clear()
    with HTTPServer(("127.0.0.1", 0), Recorder) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def test_a_query_carries_no_password_of_the_users_file(recorder: int) -> None:
    with pytest.raises(ActionError):
        Endpoint(f"http://127.0.0.1:{recorder}/").answers(OF_A)
    with pytest.raises(ActionError):
        Endpoint(f"http://user:own@127.0.0.1:{recorder}/").answers(OF_A)
    assert Recorder.received == [None, "Basic dXNlcjpvd24="]


def test_a_session_adds_no_password_after_a_redirect_and_takes_its_own_away(recorder: int) -> None:
    with open_session() as session:
        session.get(f"http://127.0.0.1:{recorder}/first", timeout=10)
        headers = {"Authorization": "Bearer token"}
        session.get(f"http://127.0.0.1:{recorder}/first", headers=headers, timeout=10)
    assert Recorder.received == [None, None, "Bearer token", None]
