"""The address of a model server: web pages at a wrong one, the likely right one, and a proxy in between."""

from __future__ import annotations

import ipaddress
import os
import re
import urllib.request
from collections.abc import Iterator
from urllib.parse import urlsplit, urlunsplit

from harness.core.text import escape_terminal

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
