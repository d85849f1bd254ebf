"""Spans that are sent to a server which does not take them, or which is not there."""

from __future__ import annotations

import http.server
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from case_checks import each_case
from exported_runs import NATIVE, make_folder, store

from harness.reports.run_folder import read_run
from harness.reports.trajectories.attempts import ExportedRun, read_exported_run
from harness.reports.trajectories.spans import SendError, send_spans


@pytest.fixture
def run(tmp_path: Path) -> ExportedRun:
    folder = make_folder(tmp_path)
    store(folder, *NATIVE)
    return read_exported_run(read_run(folder))


@contextmanager
def serve(status: int, headers: Mapping[str, str] | None = None) -> Iterator[tuple[str, list[str | None]]]:
    """Yield the URL of a server that answers with a status, and the keys that its requests had."""
    keys: list[str | None] = []

    class Collector(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            keys.append(self.headers["Authorization"])
            self.send_response(status)
            for name, value in {"Content-Length": "0", **(headers or {})}.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", keys
        finally:
            server.shutdown()
            thread.join()


@each_case("status", [301, 302, 303, 304, 307, 308])
def test_a_redirect_is_no_success(run: ExportedRun, status: int) -> None:
    with (
        serve(status, {"Location": "http://elsewhere/"}) as (url, keys),
        pytest.raises(SendError, match=rf"did not take the spans \(HTTP status {status} .*http://elsewhere/"),
    ):
        send_spans(run, url)
    assert len(keys) == 1


@each_case("status", [400, 401, 500])
def test_a_refusal_names_its_status(run: ExportedRun, status: int) -> None:
    with serve(status) as (url, _), pytest.raises(SendError, match=f"HTTP status {status}"):
        send_spans(run, url)


def test_a_closed_port_is_an_error_at_once_and_the_library_prints_nothing(
    run: ExportedRun, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as closed:
        # The port is bound and nothing listens, so no other program can take it.
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(SendError, match="Connection refused") as caught:
            send_spans(run, url)
    assert "it took 0 before" in caught.value.message
    assert capfd.readouterr() == ("", "")


def test_a_password_of_the_netrc_does_not_replace_the_key(
    run: ExportedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login user password secret\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=key")
    with serve(200) as (url, keys):
        assert send_spans(run, url) > 0
    assert keys == ["key"]
