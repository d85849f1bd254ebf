"""The log of a run and the terminal at -vv: no secret, and no text of a model that could forge a line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from e2e.command_line import Harness, RunFolder
from model_server import Asked, ModelServer, RawReply, completion

TOOLS = Path(__file__).parents[1] / "mcp_servers" / "tools.py"
ENVIRONMENT = {
    "SCRIPTED_KEY": "model-key-0f9e8d7c6b5a",
    "GITHUB_TOKEN": "token-of-another-tool-1a2b3c",
    "SUMS_VARIABLE": "expanded-into-config-4d5e6f",
}
IN_CONFIG = {"literal": "literal-in-config-7a8b9c", "body": "inside-extra-body-0d1e2f"}
SECRETS = [*ENVIRONMENT.values(), *IN_CONFIG.values()]
FORGED = "one\n2026-01-01T00:00:00.000Z ERROR harness.run: forged \x1b[2J\u202e"
LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z [A-Z]+ ([\w.]+): ")


def leak(asked: Asked) -> Mapping[str, Any] | RawReply:
    """Reply as a server that repeats every secret, first in an error and then in the calls of tools."""
    everything = f"{' '.join(SECRETS)} {FORGED}"
    if asked.number == 0:
        body = {"error": {"message": everything, "type": "rate_limit", "code": "rate_limit_exceeded"}}
        headers = {"retry-after": "0", "set-cookie": f"session={SECRETS[0]}", "x-request-id": SECRETS[1]}
        return RawReply(429, body, headers)
    done = sum(message["role"] == "assistant" for message in asked.messages)
    calls = [
        ("bash", {"command": f"echo '{SECRETS[0]}'"}),
        ("mcp__sums__fail", {"reason": everything}),
        ("submit", {"answer": everything}),
    ]
    return completion(everything, calls=[calls[min(done, len(calls) - 1)]])


def run_leaking(harness: Harness, server: ModelServer, *options: str) -> subprocess.CompletedProcess[str]:
    server.script = leak
    config = {
        "benchmark": "agentbench",
        "data": "bundled",
        "task_ids": ["os/sample/answers/0"],
        "agent": "chat",
        "model": "scripted",
        "endpoints": {
            "scripted": {
                "model": "scripted",
                "base_url": server.url,
                "api_key_env": "SCRIPTED_KEY",
                "tool_mode": "native",
                "extra_body": {"auth": {"api_key": IN_CONFIG["body"]}},
            }
        },
        "mcp_servers": [
            {
                "name": "sums",
                "command": sys.executable,
                "args": [str(TOOLS)],
                "env": {"SUMS_MODE": IN_CONFIG["literal"], "OTHER": "${SUMS_VARIABLE}"},
            }
        ],
    }
    (harness.folder / "config.yaml").write_text(json.dumps(config))
    return harness("run", "-c", "config.yaml", "--output-dir", "runs", *options, env=ENVIRONMENT)


def read_log(harness: Harness) -> list[str]:
    folder = harness.only_run().path
    assert RunFolder(folder).attempts[0]["metrics"]["rounds"] == 3
    return [line for path in folder.glob("run.log*") for line in path.read_text().split("\n")[:-1]]


@pytest.fixture
def leaking(harness: Harness, server: ModelServer) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """Return the ended command at -vv, and the lines of its log."""
    done = run_leaking(harness, server, "-vv")
    return done, read_log(harness)


def test_nothing_is_leaked_or_forged_by_any_library(
    leaking: tuple[subprocess.CompletedProcess[str], list[str]],
) -> None:
    done, lines = leaking
    assert done.returncode == 0, done.stderr
    loggers = {match[1].partition(".")[0] for line in lines if (match := LINE.match(line))}
    assert {"harness", "openai", "httpcore2", "httpx2", "urllib3"} <= loggers
    assert " DEBUG docker.utils" not in done.stderr
    for text in ("\n".join(lines), done.stderr.partition("os/sample/answers/0: ")[0]):
        assert [secret for secret in SECRETS if secret in text] == []
        assert "[key]" in text
    assert [line for line in lines if not line.isprintable()] == []
    assert [line for line in lines if not LINE.match(line) and not line.startswith("    | ")] == []
    assert "\x1b" not in done.stderr + done.stdout
    assert "\u202e" not in done.stderr + done.stdout
    assert not any(line.startswith("2026-01-01T00:00:00.000Z ERROR") for line in done.stderr.splitlines())


def test_a_run_without_options_logs_its_retries_and_shows_none(harness: Harness, server: ModelServer) -> None:
    done = run_leaking(harness, server)
    lines = read_log(harness)
    assert any("harness.models.client: model 'scripted': try 1 failed: " in line for line in lines)
    assert any("os/sample/answers/0, attempt 0: failed in " in line for line in lines)
    assert "try 1 failed" not in done.stderr
    assert [secret for secret in SECRETS if secret in "\n".join(lines)] == []
