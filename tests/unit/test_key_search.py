"""No setting of a run may hold the key of one of its models."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from case_checks import each_case

from harness.core.errors import UsageError
from harness.models.endpoint import Endpoint
from harness.runs.config import RunConfig
from harness.runs.config_check import check_config
from harness.runs.run_secrets import find_keys, refuse_keys
from harness.runs.selection import select

KEY = "sk-0123456789"
MODEL = Endpoint(model="m", base_url="http://localhost:1/v1")
JUDGE = Endpoint(model="j", base_url="http://localhost:1/v1", api_key_env="KEY_OF_JUDGE")


@pytest.fixture(autouse=True)
def set_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", f" {KEY}\n")
    monkeypatch.setenv("KEY_OF_JUDGE", "judge-0123456789")
    monkeypatch.setenv("INDIRECT", f"Bearer {KEY}")


def make_config(settings: dict[str, Any]) -> RunConfig:
    return RunConfig.model_validate({"benchmark": "gsm8k", "agent": "chat", **settings})


def find(settings: dict[str, Any], *models: Endpoint | None) -> list[str]:
    return [held.error.message for held in find_keys(make_config(settings), models or (MODEL,))]


SERVER = {"name": "a", "command": "x"}
HELD: dict[str, dict[str, Any]] = {
    "command.prompt_append": {"command": {"prompt_append": f"x {KEY}"}},
    "command.cmd": {"command": {"cmd": f"agent --key={KEY}"}},
    "command.env.A": {"command": {"env": {"A": KEY}, "where": "host"}},
    "command.pass_env": {"command": {"pass_env": ["INDIRECT"], "where": "host"}},
    "mcp_servers.a.args": {"mcp_servers": [SERVER | {"args": ["-v", KEY]}]},
    "mcp_servers.a.command": {"mcp_servers": [SERVER | {"command": KEY}]},
    "mcp_servers.a.setup_command": {"mcp_servers": [SERVER | {"setup_command": KEY}]},
    "mcp_servers.a.system_prompt_append": {"mcp_servers": [SERVER | {"system_prompt_append": KEY}]},
    "mcp_servers.a.env.A": {"mcp_servers": [SERVER | {"env": {"A": "x${INDIRECT}"}}]},
    "mcp_servers.a.headers.A": {
        "mcp_servers": [{"name": "a", "url": "http://localhost", "headers": {"A": "${MISSING:-}${INDIRECT}"}}]
    },
    "system_prompt": {"system_prompt": KEY},
    "agent_prompt": {"agent_prompt": f"{{problem_statement}} {KEY}"},
    "options.deep.list": {"options": {"deep": {"list": [1, [KEY]]}}},
    "generation.stop": {"generation": {"stop": (KEY,)}},
    "endpoints.e.extra_body.user": {"endpoints": {"e": {"model": "m", "extra_body": {"user": KEY}}}},
    "base_url": {"base_url": f"http://localhost/{KEY}/v1"},
    "output_dir": {"output_dir": f"runs/{KEY.upper()}"},
    "samples": {"samples": base64.b64encode(f"xy{KEY}".encode()).decode()},
}


@each_case("name", HELD)
def test_a_setting_that_holds_the_key_is_named(name: str) -> None:
    assert find(HELD[name])[0] == f"'{name}' holds the key of model 'm'"


def test_the_key_is_in_no_error() -> None:
    messages = find(
        {"options": {KEY: {"x": KEY}}, "model": KEY}, Endpoint(model=KEY, base_url=MODEL.base_url)
    )
    assert len(messages) == 3
    assert not any(KEY in message for message in messages)


def test_the_key_of_every_model_of_the_run_is_searched() -> None:
    settings = {"command": {"env": {"A": "judge-0123456789"}}}
    assert find(settings, MODEL, JUDGE) == ["'command.env.A' holds the key of model 'j'"]
    assert find(settings, MODEL) == []
    assert find(settings, None) == []


@each_case("key", ["none", "", "1234567"])
def test_a_placeholder_is_no_key(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    assert find({"system_prompt": "none 1234567"}) == []


def test_a_key_of_digits_is_found_in_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "1234567890")
    assert find({"options": {"a": 1234567890}}) == ["'options.a' holds the key of model 'm'"]


def test_a_run_with_such_a_setting_is_refused() -> None:
    settings = {"model": "m", "base_url": MODEL.base_url, "data": "bundled", "system_prompt": KEY}
    with pytest.raises(UsageError, match="'system_prompt' holds the key of model 'm'"):
        select(make_config(settings), notify=print)
    refuse_keys(make_config(settings | {"system_prompt": "x"}), [MODEL])


def test_a_check_of_a_config_names_file_and_line_of_each_such_setting(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(
        "benchmark: gsm8k\ndata: bundled\nagent: command\nmodel: m\nbase_url: http://localhost:1/v1\n"
        "command:\n  cmd: x\n  prompt_append: ${OPENAI_API_KEY}\n"
        "mcp_servers:\n  - name: a\n    command: x\n    env:\n      A: ${OPENAI_API_KEY}\n"
    )
    assert [problem.message for problem in check_config(path, {}).problems] == [
        f"{path}:8: 'command.prompt_append' holds the key of model 'm'",
        f"{path}:13: 'mcp_servers.a.env.A' holds the key of model 'm'",
    ]
