"""Secrets in settings and URLs are recognised, refused and never quoted."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import pytest
from case_checks import each_case

from harness.cli.config import _hide_secrets
from harness.core.errors import UsageError
from harness.core.secret_forms import hide_url_secrets, is_secret_parameter, names_secret
from harness.models.relay.mcp_servers.settings import expand_url
from harness.models.settings import choose_endpoint
from harness.runs.config import load_config
from harness.runs.run_secrets import list_named_variables, make_log_filter

SECRET = "Hunter2secret"


@each_case("name", ["tavilyApiKey", "API_KEY", "token", "access_token", "GITHUB_TOKENS", "db_passwd"])
def test_the_name_of_a_secret_is_recognised(name: str) -> None:
    assert names_secret(name)


@each_case("name", ["api_key_env", "max_tokens", "monkey", "tokens", "keyboard"])
def test_a_name_that_only_looks_like_one_is_none(name: str) -> None:
    assert not names_secret(name)


@each_case(
    ("name", "value", "is_secret"),
    [
        ("token", SECRET, True),
        ("auth", SECRET, True),
        ("profile", "3f9a1c77b2e84d55a9c0", True),
        ("token", "${TOKEN}", False),
        ("token", "${TOKEN:-none}", False),
        ("toolsets", "repos,issues", False),
        ("version", "2025-06-18", False),
        ("token", "", False),
    ],
)
def test_a_parameter_is_a_secret_by_its_name_or_its_long_value(
    name: str, value: str, is_secret: bool
) -> None:
    assert is_secret_parameter(name, value) == is_secret


def test_secrets_of_a_url_are_removed_from_a_text() -> None:
    text = f"GET http://me:{SECRET}@host/a?x=1&api_key={SECRET}#f and http://host/b?page=2"
    assert hide_url_secrets(text) == "GET http://[key]@host/a?x=1&api_key=[key]#f and http://host/b?page=2"
    assert SECRET not in make_log_filter(environment={}).remove_from_log(text)


@each_case(
    "values",
    [
        {"base_url": f"http://user:{SECRET}@host/v1"},
        {"base_url": f"http://host/v1?api_key={SECRET}"},
        {"base_url": f"htp://user:{SECRET}@host/v1"},
        {"base_url": f"user:{SECRET}@host"},
        {"endpoints": {"e": {"model": "m", "base_url": f"http://user:{SECRET}@host/v1"}}},
        {"endpoints": {"e": {"model": "m", "prices": f"http://user:{SECRET}@host/v1"}}},
        {"mcp_servers": [{"name": "s", "url": f"http://host/mcp?token={SECRET}"}]},
        {"mcp_servers": [{"name": "s", "url": f"http://u:{SECRET}@host/mcp"}]},
        {"mcp_servers": [{"name": "s", "url": f"u:{SECRET}@host/mcp"}]},
        {"mcp_servers": [{"name": "s", "url": "http://h/mcp", "headers": [SECRET]}]},
        {"mcp_servers": [{"name": "s", "command": "x", "env": SECRET}]},
        {"model": {"api_key": SECRET}},
        {"timeout_seconds": f"http://user:{SECRET}@host"},
    ],
)
def test_the_refusal_of_a_setting_quotes_no_secret_also_in_its_traceback(values: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as caught:
        load_config(None, {"benchmark": "mbpp", "agent": "chat", "model": "m", **values})
    assert SECRET not in f"{caught.value.message} {caught.value.hint}"
    assert SECRET not in "".join(traceback.format_exception(caught.value))


@each_case("url", [f"http://user:{SECRET}@host/v1", f"http://host/v1?key={SECRET}"])
def test_a_refused_url_of_the_environment_is_named_by_its_variable(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    with pytest.raises(UsageError, match="environment variable OPENAI_BASE_URL") as caught:
        choose_endpoint("m", None, {})
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_a_variable_in_the_query_of_a_server_is_replaced_only_for_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCP_HOST", "tools.test")
    monkeypatch.setenv("MCP_SECRET", "a b&c")
    file = tmp_path / "run.yaml"
    file.write_text(
        "benchmark: mbpp\nagent: chat\nmodel: m\nmcp_servers:\n"
        "  - {name: s, url: 'http://${MCP_HOST}/mcp?token=${MCP_SECRET}'}\n"
    )
    config = load_config(file, {})
    url = config.mcp_servers[0].url
    assert url == "http://tools.test/mcp?token=${MCP_SECRET}"
    assert "MCP_SECRET" in list(list_named_variables(config.model_dump(mode="json")))
    variables = {"MCP_SECRET": "a b&c"}
    assert expand_url(url, variables, where="url") == "http://tools.test/mcp?token=a%20b%26c"
    with pytest.raises(UsageError, match="MCP_SECRET is not set"):
        expand_url(url, {}, where="url")


def test_a_shown_config_holds_no_secret() -> None:
    shown = _hide_secrets(
        {
            "base_url": f"http://u:{SECRET}@host",
            "command": {"env": {"API_KEY": SECRET, "OTHER": "${API_KEY}", "TOKEN": "${TOKEN}"}},
            "generation": {"max_tokens": 5},
            "options": {"kg": {"sparql_url": f"http://host/q?password={SECRET}"}},
        }
    )
    assert SECRET not in str(shown)
    assert shown["command"]["env"] == {"API_KEY": "[key]", "OTHER": "${API_KEY}", "TOKEN": "${TOKEN}"}
    assert shown["generation"] == {"max_tokens": 5}
