"""A quick probe of the dataset hub, made before `datasets` is imported, because that takes seconds."""

from __future__ import annotations

import http.client
import os
import ssl
import threading
import urllib.error
import urllib.request
from typing import Any

from harness.core.errors import DataError

DEFAULT_ENDPOINT = "https://huggingface.co"
PROBE_SECONDS = 3.0

_OFFLINE_SWITCHES = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE")
_GATEWAY_STATUSES = (407, 502, 503, 504)


class HubUnreachableError(DataError):
    """The publisher's host does not answer or must not be asked, and the cache has no copy."""


def unreachable_error(place: str, reason: str) -> HubUnreachableError:
    """Return the error for a host that does not answer."""
    what = "the hub " if place == hub_endpoint() else ""
    return HubUnreachableError(
        f"{what}{place} cannot be reached: {reason}",
        hint="use --data PATH with the benchmark's own file, or --data bundled for a small sample",
    )


def hub_endpoint() -> str:
    """Return the hub's base URL: HF_ENDPOINT, or the public hub."""
    return (os.environ.get("HF_ENDPOINT") or DEFAULT_ENDPOINT).rstrip("/")


def find_mirror(url: str) -> str:
    """Return the URL of a published file on the mirror HARNESS_MIRROR, or the URL itself if that is unset."""
    mirror = os.environ.get("HARNESS_MIRROR", "").rstrip("/")
    return f"{mirror}/{url.partition('://')[2]}" if mirror else url


def offline_switch() -> str | None:
    """Return the name of the environment variable that forbids the hub, if one is set."""
    for name in _OFFLINE_SWITCHES:
        if os.environ.get(name, "").strip().upper() in {"1", "ON", "YES", "TRUE"}:
            return name
    return None


def why_unreachable(endpoint: str, *, within: float = PROBE_SECONDS) -> str | None:
    """Return the reason why the hub does not answer, after at most `within` seconds, or None if it does.

    The request goes through the proxy of the environment. A thread makes it, because a name lookup has no
    timeout.
    """
    reasons: list[str | None] = []
    probe = threading.Thread(target=lambda: reasons.append(_ask(endpoint, within)), daemon=True)
    probe.start()
    probe.join(within)
    return reasons[0] if reasons else f"no answer within {within:g} s"


def _ask(endpoint: str, timeout: float) -> str | None:
    proxies = urllib.request.getproxies()
    for scheme in ("http", "https"):
        if "all" in proxies:
            proxies.setdefault(scheme, proxies["all"])
    if proxies.get(endpoint.partition(":")[0], "").startswith("socks"):
        return None  # The standard library has no SOCKS, so that only `datasets` can find out.
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler(proxies), urllib.request.HTTPSHandler(context=_any_certificate()), _Stay
    )
    try:
        opener.open(urllib.request.Request(endpoint, method="HEAD"), timeout=timeout).close()
    except urllib.error.HTTPError as answer:
        return f"its gateway answers {answer.code}" if answer.code in _GATEWAY_STATUSES else None
    except urllib.error.URLError as error:
        return str(getattr(error.reason, "strerror", None) or error.reason)
    except (OSError, http.client.HTTPException, ValueError) as error:
        return str(error) or type(error).__name__
    return None


class _Stay(urllib.request.HTTPRedirectHandler):
    """Accepts a redirect as an answer and does not follow it."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _any_certificate() -> ssl.SSLContext:
    # The probe sends nothing secret, and `datasets` checks the certificate with its own store later.
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
