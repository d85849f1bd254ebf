"""The settings of MCP servers in a config: the forms that load, and the reasons for refusals."""

from __future__ import annotations

from pathlib import Path

import pytest
from case_checks import each_case

from harness.core.errors import UsageError
from harness.runs.config import RunConfig, load_config

# As mcpbr writes a server.
OTHER_TOOL = """
benchmark: mbpp
agent: chat
model: m
mcp_servers:
  - name: files
    command: npx
    args: ["-y", "@modelcontextprotocol/server-filesystem", "/tmp"]
    env: {TOKEN: "${MY_TOKEN}", MODE: fast}
    startup_timeout_ms: 60000
    tool_timeout_ms: 900000
    setup_command: echo ready
    system_prompt_append: Use mcp__files__read_file.
"""


def load(tmp_path: Path, text: str) -> RunConfig:
    path = tmp_path / "config.yaml"
    path.write_text(text, encoding="utf-8")
    return load_config(path, {})


def refusal(tmp_path: Path, server: str) -> str:
    with pytest.raises(UsageError) as caught:
        load(tmp_path, f"benchmark: mbpp\nmcp_servers:\n  - {server}\n")
    return caught.value.message


def test_the_keys_of_another_tool_load_unchanged(tmp_path: Path) -> None:
    (server,) = load(tmp_path, OTHER_TOOL).mcp_servers
    assert (server.name, server.command, server.args[0]) == ("files", "npx", "-y")
    assert (server.startup_timeout_ms, server.tool_timeout_ms) == (60_000, 900_000)


def test_a_mapping_by_names_is_the_same_as_a_list(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        "benchmark: mbpp\nmcp_servers:\n  files: {command: npx}\n  web: {url: http://localhost:1/mcp}\n",
    )
    assert [server.name for server in config.mcp_servers] == ["files", "web"]


def test_a_run_folder_holds_no_value_of_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "secret-1")
    config = load(tmp_path, OTHER_TOOL.replace("fast", "secret-2"))
    dumped = config.model_dump(mode="json")
    assert "secret" not in str(dumped)
    assert dumped["mcp_servers"][0]["env"] == {"TOKEN": "${MY_TOKEN}", "MODE": "${MODE}"}
    assert RunConfig.model_validate(dumped, strict=False).mcp_servers[0].args == config.mcp_servers[0].args


@each_case(
    ("server", "reason"),
    [
        ("{name: a, command: x, disallowed_native_tools: [Bash]}", "names tools of another agent"),
        ("{name: a, command: x, cmd: y}", "unknown key 'mcp_servers.0.cmd'"),
        ("{name: a}", "server 'a' needs either a command or a url"),
        ("{name: a, command: x, url: 'http://localhost/mcp'}", "server 'a' needs either a command or a url"),
        ("{name: a, url: 'http://localhost/mcp', args: [x]}", "server 'a' does not read args"),
        ("{name: a, url: 'file:///x'}", "must be a URL"),
        ("{name: a, url: 'http://me:secret@localhost/mcp'}", "must hold no user name or password"),
        (
            "{name: a, url: 'http://localhost/mcp', headers: {A: secret}}",
            "must take 'A' from an environment variable",
        ),
        ("{name: a, command: x, args: ['{workdir}']}", "must not have {workdir} in args"),
        ("{name: a, command: x, image: files}", "does not read image, because it runs on the host"),
        ("{name: a, command: x, machine: own}", "does not read machine, because it runs on the host"),
        ("{name: a, url: 'http://localhost/mcp', where: sandbox}", "only a command runs in a sandbox"),
        (
            "{name: a, command: x, where: sandbox, setup_command: npm install x}",
            "prepare its files with `harness images build --agent NAME=PATH`",
        ),
        ("{name: 'a b', command: x}", "must match"),
        ("{name: a, command: x, tool_timeout_ms: 0}", "must be at least 1"),
    ],
)
def test_a_setting_that_cannot_be_obeyed_is_refused(tmp_path: Path, server: str, reason: str) -> None:
    assert reason in refusal(tmp_path, server)


def test_a_server_in_a_sandbox_loads_and_is_dumped(tmp_path: Path) -> None:
    server = "{name: a, command: x, args: ['{workdir}'], where: sandbox, machine: own, image: files}"
    config = load(tmp_path, f"benchmark: mbpp\nmcp_servers:\n  - {server}\n")
    assert RunConfig.model_validate(config.model_dump(mode="json"), strict=False) == config


def test_two_servers_of_one_name_are_refused(tmp_path: Path) -> None:
    both = "{name: a, command: x}\n  - {name: a, command: y}"
    assert "'a' appears twice" in refusal(tmp_path, both)


def test_a_baseline_goes_without_the_prompts_of_servers(tmp_path: Path) -> None:
    config = load(tmp_path, OTHER_TOOL + "system_prompt: Be brief.\n")
    assert config.whole_system_prompt == "Be brief.\n\nUse mcp__files__read_file."
    assert config.model_copy(update={"baseline": True}).whole_system_prompt == "Be brief."
