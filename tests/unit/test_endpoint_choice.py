"""The endpoint that a command line names: its API, its URL and the variable of its key."""

from __future__ import annotations

import pytest
from case_checks import each_case

from harness.core.errors import UsageError
from harness.models.endpoint import ANTHROPIC_URL, OPENAI_URL, Api, Endpoint, read_key
from harness.models.settings import choose_endpoint

LOCAL = "http://localhost:8000/v1"


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@each_case(
    ("api", "given", "url", "key"),
    [
        (None, None, OPENAI_URL, "OPENAI_API_KEY"),
        ("responses", None, OPENAI_URL, "OPENAI_API_KEY"),
        ("messages", None, ANTHROPIC_URL, "ANTHROPIC_API_KEY"),
        ("messages", LOCAL, LOCAL, "ANTHROPIC_API_KEY"),
        ("chat", ANTHROPIC_URL, ANTHROPIC_URL, "ANTHROPIC_API_KEY"),
        ("chat", LOCAL, LOCAL, "OPENAI_API_KEY"),
    ],
)
def test_the_api_and_the_server_decide_the_url_and_the_key(
    api: Api | None, given: str | None, url: str, key: str
) -> None:
    endpoint = choose_endpoint("m", given, {}, api)
    assert (endpoint.api, endpoint.base_url, endpoint.api_key_env) == (api or "chat", url, key)


def test_an_endpoint_of_a_config_has_the_same_defaults() -> None:
    endpoint = Endpoint.model_validate({"model": "m", "api": "messages"})
    assert (endpoint.base_url, endpoint.api_key_env) == (ANTHROPIC_URL, "ANTHROPIC_API_KEY")
    own = Endpoint.model_validate({"model": "m", "api": "messages", "api_key_env": "MY_KEY"})
    assert own.api_key_env == "MY_KEY"


@each_case("value", ["http://gateway:1/anthropic", "http://gateway:1/anthropic/v1/"])
def test_the_variable_of_anthropics_library_names_the_server_of_its_api_alone(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", value)
    monkeypatch.setenv("OPENAI_BASE_URL", LOCAL)
    assert choose_endpoint("m", None, {}, "messages").base_url == "http://gateway:1/anthropic/v1"
    assert choose_endpoint("m", None, {}, "responses").base_url == LOCAL


def test_anthropics_url_without_its_version_is_refused() -> None:
    with pytest.raises(ValueError, match=r"must end with the version, such as https://api.anthropic.com/v1"):
        Endpoint(model="m", api="messages", base_url="https://api.anthropic.com/")


def test_anthropics_own_server_needs_a_key() -> None:
    with pytest.raises(UsageError, match="ANTHROPIC_API_KEY is not set") as raised:
        read_key(Endpoint(model="m", api="messages"))
    assert "ANTHROPIC_BASE_URL" in (raised.value.hint or "")


@each_case(("url", "api", "option"), [(LOCAL, None, "--base-url"), (None, "chat", "--api")])
def test_an_endpoint_of_the_config_keeps_its_own_settings(
    url: str | None, api: Api | None, option: str
) -> None:
    with pytest.raises(UsageError, match=f"{option} .* has its own"):
        choose_endpoint("fast", url, {"fast": Endpoint(model="m", base_url=LOCAL)}, api)


@each_case("name", ["system", "prefill", "mcp_servers"])
def test_a_field_that_would_change_the_conversation_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        Endpoint(model="m", api="messages", extra_body={name: "x"})
