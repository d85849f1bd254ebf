"""The probe of the hub is fast, and uses the proxy that the environment names."""

from __future__ import annotations

import http.server
import os
import socket
import threading
from collections.abc import Iterator

import pytest
from case_checks import each_case

from harness.benchmarks.data.download import hub_endpoint, offline_switch, why_unreachable


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name.startswith(("HF_", "TRANSFORMERS_")):
            monkeypatch.delenv(name)


@pytest.fixture
def answering() -> Iterator[http.server.HTTPServer]:
    """Run a server that answers with the status in the path, and records its requests."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            asked.append(self.path)
            self.send_response(int(self.path.rpartition("/")[2] or 200))
            self.send_header("Location", "http://127.0.0.1:1/")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    asked: list[str] = []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.asked = asked  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        server.server_close()
        thread.join()


@each_case("status", [200, 301, 401, 404, 429, 500])
def test_any_answer_of_the_hub_counts(answering: http.server.HTTPServer, status: int) -> None:
    assert why_unreachable(f"http://127.0.0.1:{answering.server_port}/{status}") is None


@each_case("status", [407, 502, 503, 504])
def test_an_answer_of_a_gateway_does_not_count(answering: http.server.HTTPServer, status: int) -> None:
    reason = why_unreachable(f"http://127.0.0.1:{answering.server_port}/{status}")
    assert reason == f"its gateway answers {status}"


def test_a_closed_port_has_its_own_reason() -> None:
    assert why_unreachable("http://127.0.0.1:1") == "Connection refused"


def test_silence_ends_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        reason = why_unreachable(f"http://127.0.0.1:{silent.getsockname()[1]}", within=0.2)
    assert reason is not None


def test_a_slow_name_lookup_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()

    def look_up(*_: object, **__: object) -> None:
        over.wait()
        raise socket.gaierror(socket.EAI_AGAIN, "try again")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    reason = why_unreachable("http://hub.invalid", within=0.2)
    over.set()
    assert reason == "no answer within 0.2 s"


@each_case("endpoint", ["hub.invalid", "", "http://", "ftp://127.0.0.1:1", "http://[::1"])
def test_an_endpoint_that_is_not_a_url_has_a_reason(endpoint: str) -> None:
    assert why_unreachable(endpoint, within=1)


@pytest.mark.parametrize("variable", ["http_proxy", "HTTP_PROXY", "ALL_PROXY"])
def test_the_proxy_of_the_environment_is_asked(
    answering: http.server.HTTPServer, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, f"http://127.0.0.1:{answering.server_port}")
    assert why_unreachable("http://hub.invalid/200") is None
    assert answering.asked == ["http://hub.invalid/200"]  # type: ignore[attr-defined]
    assert why_unreachable("http://hub.invalid/503") == "its gateway answers 503"


def test_a_dead_proxy_is_unreachable_unless_the_hub_needs_none(
    answering: http.server.HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    endpoint = f"http://127.0.0.1:{answering.server_port}"
    assert why_unreachable(endpoint) == "Connection refused"
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert why_unreachable(endpoint) is None


def test_a_socks_proxy_is_left_to_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("all_proxy", "socks5://127.0.0.1:1")
    assert why_unreachable("https://hub.invalid") is None


def test_endpoint_and_offline_switches(monkeypatch: pytest.MonkeyPatch) -> None:
    assert hub_endpoint() == "https://huggingface.co"
    monkeypatch.setenv("HF_ENDPOINT", "https://mirror.example/")
    assert hub_endpoint() == "https://mirror.example"
    assert offline_switch() is None
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "0")
    assert offline_switch() is None
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "true")
    assert offline_switch() == "HF_DATASETS_OFFLINE"
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert offline_switch() == "HF_HUB_OFFLINE"
