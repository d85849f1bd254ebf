"""An endpoint: a model at a server, with its protocol, its key's variable, its prices and its address.

A user may have named the page of a website, or a path below the API, and a proxy may stand in between.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
from collections.abc import Iterator
from typing import Any, Literal, Self
from urllib.parse import urlsplit, urlunsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from harness.core.errors import UsageError
from harness.core.secret_forms import describe_url_value
from harness.core.text import escape_terminal

Api = Literal["chat", "responses", "messages"]
OPENAI_URL = "https://api.openai.com/v1"
ANTHROPIC_URL = "https://api.anthropic.com/v1"
OPENAI_KEY_VARIABLE = "OPENAI_API_KEY"
ANTHROPIC_KEY_VARIABLE = "ANTHROPIC_API_KEY"
# Servers on the user's machine need no key, but the client library insists on one.
NO_KEY = "none"
# A request with other values would be another conversation, or its reply would have another form. Tools of
# the provider, such as a search of the web, could find the references of a benchmark.
_SEARCH_FIELDS = frozenset(
    {"web_search_options", "plugins", "web_search", "enable_search", "search_parameters", "search_settings"}
)
_CONVERSATION_FIELDS = frozenset({"messages", "input", "instructions", "system", "prefill"})
OWN_FIELDS = _SEARCH_FIELDS | _CONVERSATION_FIELDS | {"model", "n", "stream", "tools", "mcp_servers"}
# Gateways write less than a page, such as `<html>busy</html>`, and may recover.
_PAGE = re.compile(
    r"\s*(?:<\?xml[^>]{0,200}>\s*)?(?:<!--.{0,2000}?-->\s*)*"
    r"<(?:!doctype\s+html|html\b[^>]{0,500}>\s*<(?:head|body|title|meta|script)\b|head\b|body\b)",
    re.IGNORECASE | re.DOTALL,
)
_TITLE = re.compile(r"<title[^>]{0,200}>([^<]{1,500})", re.IGNORECASE)
_PAGE_START = 4000
PAGE = "a web page"
_TITLE_CHARACTERS = 80
# A base URL ends before the path of an API.
_PATHS = ("/chat/completions", "/completions", "/responses", "/messages", "/models")
# The paths where servers have their API: most, then OpenRouter, Groq, Open WebUI, Gemini and Qwen.
_ROOTS = ("/v1", "/api/v1", "/openai/v1", "/api", "/v1beta/openai", "/compatible-mode/v1")
_ROOT_OF_HOST = {
    "openrouter.ai": "/api/v1",
    "api.groq.com": "/openai/v1",
    "generativelanguage.googleapis.com": "/v1beta/openai",
}


class Prices(BaseModel):
    """The prices of a model in a currency of the user's choice, for a million tokens."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, hide_input_in_errors=True
    )

    input: float = Field(ge=0)
    output: float = Field(ge=0)
    cached_input: float | None = Field(default=None, ge=0)
    """The price of input tokens that the server found in its cache. None means the price of input."""


class ConcurrencyBounds(BaseModel):
    """The requests under way at one endpoint: at the start, and the bounds of their adaptation."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    start: int = Field(default=20, ge=1, le=1024)
    least: int = Field(default=10, ge=1, le=1024)
    most: int = Field(default=100, ge=1, le=1024)

    @model_validator(mode="after")
    def _require_order(self) -> Self:
        if not self.least <= self.start <= self.most:
            raise ValueError(f"needs least <= start <= most, not {self.least}, {self.start}, {self.most}")
        return self


class Endpoint(BaseModel):
    """All settings of a model at a server. The key itself is not among them."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, hide_input_in_errors=True
    )

    model: str = Field(min_length=1)
    """The name of the model at its server."""
    api: Api = "chat"
    """The API of the requests. `chat` is Chat Completions, and `messages` is Anthropic's."""
    base_url: str = Field(default_factory=lambda known: find_default_url(known.get("api", "chat")))
    """The URL up to and including the version, such as http://localhost:8000/v1."""
    api_key_env: str = Field(
        default_factory=lambda known: _choose_key_variable(known.get("api"), known.get("base_url", ""))
    )
    """The environment variable that holds the key."""
    tool_mode: Literal["native", "text", "auto"] = "auto"
    """Whether the model calls tools by the protocol of the API, or in its text."""
    max_tokens_field: Literal["max_tokens", "max_completion_tokens", "auto"] = "auto"
    """The field for the largest number of tokens, because new models of OpenAI refuse `max_tokens`."""
    extra_body: dict[str, Any] = Field(default_factory=dict)
    """Fields that are sent with every request as they are."""
    concurrency: ConcurrencyBounds = Field(default_factory=ConcurrencyBounds)
    prices: Prices | None = None
    try_seconds: float = Field(default=600.0, gt=0)
    """The time limit in seconds of one try."""
    request_seconds: float = Field(default=1800.0, gt=0)
    """The time limit in seconds of all tries of a request together."""

    @field_validator("base_url")
    @classmethod
    def _require_url(cls, url: str) -> str:
        return require_base_url(url).rstrip("/")

    @field_validator("extra_body")
    @classmethod
    def _require_other_fields(cls, fields: dict[str, Any]) -> dict[str, Any]:
        held = sorted(OWN_FIELDS & fields.keys())
        if held:
            raise ValueError(f"must not hold {', '.join(held)}, which harness sets itself")
        try:
            json.dumps(fields, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"must be JSON: {error}") from None
        return fields

    @property
    def is_anthropic(self) -> bool:
        """Whether the server is Anthropic's own, whose Messages API gets the key as `x-api-key` alone."""
        return _is_host_of_anthropic(self.base_url)


def require_base_url(url: str) -> str:
    """Return the URL of a model's server. Raises ValueError, without the URL if that may hold a secret."""
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ValueError("must be a URL such as http://localhost:8000/v1") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"must be a URL such as http://localhost:8000/v1{describe_url_value(url)}")
    if parts.username or parts.password:
        raise ValueError("must hold no user name or password; set the variable of api_key_env instead")
    if parts.query or parts.fragment or "?" in url or "#" in url:
        # A query often holds a key, and the manifest holds the URL.
        raise ValueError("must hold no query; a field of extra_body can hold parameters")
    if not url.isprintable() or " " in url:
        raise ValueError("must hold no space and no invisible character")
    try:
        _ = parts.port
    except ValueError:
        raise ValueError("must have a port from 0 to 65535") from None
    if _is_host_of_anthropic(url) and parts.path.strip("/") == "":
        # Anthropic's library appends the version itself, so its users know the URL without it.
        raise ValueError(f"must end with the version, such as {ANTHROPIC_URL}")
    return url


def find_default_url(api: Api) -> str:
    """Return the URL of the company that an API comes from."""
    return ANTHROPIC_URL if api == "messages" else OPENAI_URL


def _choose_key_variable(api: Api | None, base_url: str) -> str:
    is_anthropics = api == "messages" or _is_host_of_anthropic(base_url)
    return ANTHROPIC_KEY_VARIABLE if is_anthropics else OPENAI_KEY_VARIABLE


def _is_host_of_anthropic(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    return host == "anthropic.com" or host.endswith(".anthropic.com")


def read_key(endpoint: Endpoint) -> str:
    """Return the key of an endpoint from the environment.

    Raises UsageError if OpenAI's or Anthropic's own endpoint has none, or for a key that no header can carry.
    """
    key = os.environ.get(endpoint.api_key_env, "").strip()
    if key and not (key.isascii() and key.isprintable()):
        # The error of the library would quote the key.
        raise UsageError(
            f"model '{endpoint.model}': the environment variable {endpoint.api_key_env} holds characters "
            "that no key has, such as a line break",
            hint="set it again to the key alone",
        )
    if key:
        return key
    if endpoint.base_url == OPENAI_URL or endpoint.is_anthropic:
        url_variable = "ANTHROPIC_BASE_URL" if endpoint.api == "messages" else "OPENAI_BASE_URL"
        raise UsageError(
            f"model '{endpoint.model}': the environment variable {endpoint.api_key_env} is not set",
            hint=f"set it to the key, or name your own server with --base-url URL or {url_variable}",
        )
    return NO_KEY


def describe_page(text: str) -> str | None:
    """Return the words for a web page that came instead of JSON, with its title. None for any other text."""
    start = text[:_PAGE_START].lstrip("\ufeff")
    if _PAGE.match(start) is None:
        return None
    title = _TITLE.search(start)
    named = "" if title is None else f" ('{escape_terminal(' '.join(title[1].split()), _TITLE_CHARACTERS)}')"
    return f"{PAGE}{named} and not with JSON"


def list_likely_urls(base_url: str, reply: str = "") -> list[str]:
    """Return the base URLs that a user may have meant, the likeliest first. `reply` is the server's text."""
    parts = urlsplit(base_url)
    path = parts.path.rstrip("/")

    def list_paths() -> Iterator[str]:
        for end in _PATHS:
            if path.endswith(end):
                yield path.removesuffix(end)
        yield from filter(None, [_ROOT_OF_HOST.get(parts.hostname or "")])
        if not path.endswith("/v1"):
            yield f"{path}/v1"
        yield from _ROOTS

    # nginx: "The plain HTTP request was sent to HTTPS port".
    is_other_scheme = parts.scheme == "http" and "HTTPS port" in reply
    likely = [urlunsplit(("https", parts.netloc, path, "", ""))] if is_other_scheme else []
    likely += [urlunsplit((parts.scheme, parts.netloc, each, "", "")) for each in list_paths()]
    return [url for url in dict.fromkeys(likely) if url.rstrip("/") != base_url.rstrip("/")]


def describe_proxy(base_url: str) -> str | None:
    """Return the words for the proxy of the environment that gets the requests to a URL, None without one.

    The proxy is named without a user name and a password.
    """
    # Imported here, because each start of the command line needs the settings of endpoints.
    import urllib.request

    parts = urlsplit(base_url)
    host = parts.hostname or ""
    proxies = urllib.request.getproxies()
    scheme = next((each for each in (parts.scheme, "all") if proxies.get(each)), None)
    if scheme is None or urllib.request.proxy_bypass(parts.netloc):
        return None
    proxy = urlsplit(proxies[scheme] if "://" in proxies[scheme] else f"http://{proxies[scheme]}")
    names = (name for name in (f"{scheme}_proxy", f"{scheme.upper()}_PROXY") if os.environ.get(name))
    shown = f"{proxy.scheme}://{proxy.netloc.rpartition('@')[2]}"
    words = f"the requests go through the proxy {shown} of {next(names, 'the system')}"
    if _is_local(host):
        return f"{words}, although the server is a local one: set NO_PROXY={host}"
    return words


def _is_local(host: str) -> bool:
    """Return whether a host is on this machine or in its network."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "." not in host or host.endswith((".local", ".internal", ".lan", ".localhost", ".home.arpa"))
    return address.is_private or address.is_link_local or address.is_loopback
