from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import quote

from case_checks import each_case

from harness.runs.config import RunConfig
from harness.runs.run_secrets import SecretFilter, list_environment_secrets, make_log_filter

KEY = "kx7-Battery/Staple+9"


def filtered(text: str, *secrets: str) -> str:
    return SecretFilter(secrets).remove_from_log(text)


@each_case(
    "form",
    [
        KEY,
        KEY.upper(),
        quote(KEY, safe=""),
        KEY.encode().hex(),
        base64.b64encode(b"user:" + KEY.encode()).decode(),
    ],
)
def test_a_secret_is_removed_in_each_form(form: str) -> None:
    assert form not in filtered(f"GET /?key={form}", KEY)


@each_case(
    ("line", "secret"),
    [
        ("{'Authorization': 'Bearer abc.def-123456'}", "abc.def-123456"),
        ("Authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"),
        ("(b'Set-Cookie', b'session=abcdef; path=/')", "abcdef"),
        ('{"x-api-key":"0123"}', "0123"),
        ("GET http://user:pa55word@proxy:8080/x", "pa55word"),
        ("sent Bearer 0123456789abcdef", "0123456789abcdef"),
        (f"found sk-proj-{'a' * 40} in a file", "sk-proj-a"),
    ],
)
def test_credentials_are_removed_although_no_variable_holds_them(line: str, secret: str) -> None:
    found = filtered(line)
    assert secret not in found
    assert "[key]" in found


@each_case(
    "line",
    [
        'http://localhost:None "POST /v1.41/containers/create?name=harness-1 HTTP/1.1" 201 88',
        "gsm8k/6, attempt 0: failed in 0.0 s",
        "model 'qwen' at http://localhost:8000/v1: 429",
        "user@example.org wrote a basic programming task",
    ],
)
def test_ordinary_lines_stay(line: str) -> None:
    assert filtered(line, KEY) == line


@each_case(
    "name",
    ["OPENAI_API_KEY", "GITHUB_TOKEN", "DB_PASSWORD", "PGPASSWORD", "AWS_SECRET_ACCESS_KEY", "my_apikey_2"],
)
def test_a_variable_is_secret_by_its_name(name: str) -> None:
    assert list_environment_secrets({name: "value", "HOME": "/root", "MONKEY": "banana"}) == {name: "value"}


def log_filter(environment: dict[str, str], **values: Any) -> SecretFilter:
    return make_log_filter(RunConfig(benchmark="gsm8k", **values), environment)


def test_the_config_names_variables_and_holds_values() -> None:
    servers = [{"name": "s", "command": "x", "env": {"MODE": "literal-value-1", "B": "${NAMED}"}}]
    endpoints = {
        "e": {
            "model": "m",
            "base_url": "http://localhost/v1",
            "api_key_env": "PLAIN",
            "extra_body": {"auth": {"api_key": "inside-body-2"}},
        }
    }
    secrets = log_filter(
        {"NAMED": "named-value-3", "PLAIN": "plain-value-4"}, mcp_servers=servers, endpoints=endpoints
    )
    text = "literal-value-1 inside-body-2 named-value-3 plain-value-4 max_completion_tokens"
    assert secrets.remove_from_log(text) == "[key] [key] [key] [key] max_completion_tokens"


def test_a_secret_with_several_lines_is_removed_in_each_way_of_writing_it() -> None:
    secret = 'first "line" of it\nsecond line of it'
    secrets = log_filter({"DEPLOY_KEY": secret})
    for written in (secret, json.dumps(secret), repr(secret), "and second line of it alone"):
        assert "line of it" not in secrets.remove_from_log(written)
