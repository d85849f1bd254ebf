"""Find secrets in settings and in URLs, remove them from texts, and send no others over HTTP."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import requests

HIDDEN_KEY = "[key]"
# Names that say by the usual conventions that their value is a secret.
_NAME = re.compile(
    r"API[_-]?KEY|(?:^|[_-])KEYS?(?:$|[_-])|TOKEN|SECRET|PASSW(?:OR)?D|CREDENTIAL", re.IGNORECASE
)
# Settings whose names look like the names of secrets.
_NO_SECRETS = re.compile(r"api_key_env|max_tokens_field|(?:[a-z_]+_)?tokens")
_PARAMETER_NAME = re.compile(r"^(?:auth\w*|sig|signature|pass|pwd|code|key)$", re.IGNORECASE)
# No ordinary parameter has a long value that mixes letters and digits.
_LONG_VALUE = re.compile(r"(?=\D*\d)(?=[^A-Za-z]*[A-Za-z])[A-Za-z0-9_.~+/=%-]{20,}", re.ASCII)
_VARIABLE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*(?::-[^}]*)?\}")
_USER = re.compile(r"(://)[^/\s'\"]+@")
_PARAMETER = re.compile(r"(?P<start>[?&;])(?P<name>[^=&;#\s'\"]+)=(?P<value>[^&;#\s'\"]*)")


def names_secret(name: str) -> bool:
    """Return whether the name of a setting or an environment variable says that its value is a secret."""
    return _NAME.search(name) is not None and _NO_SECRETS.fullmatch(name) is None


def is_secret_parameter(name: str, value: str) -> bool:
    """Return whether a parameter in the query of a URL looks like a literal secret.

    A value that takes its secret from an environment variable, as `${NAME}`, is not one.
    """
    plain = _VARIABLE.sub("", value)
    if not plain:
        return False
    named = names_secret(name) or _PARAMETER_NAME.match(name) is not None
    return (named and plain == value) or _LONG_VALUE.fullmatch(plain) is not None


def hide_url_secrets(text: str) -> str:
    """Return a text with `[key]` for the user names, passwords and secret parameters of its URLs."""
    text = _USER.sub(rf"\1{HIDDEN_KEY}@", text) if "@" in text else text
    return _PARAMETER.sub(_hide_parameter, text) if "=" in text else text


def _hide_parameter(match: re.Match[str]) -> str:
    if not is_secret_parameter(match["name"], match["value"]):
        return match[0]
    return f"{match['start']}{match['name']}={HIDDEN_KEY}"


def describe_url_value(url: str) -> str:
    """Return `, not 'URL'` for an error, or nothing if the URL may hold a secret in some place."""
    return "" if any(sign in url for sign in "@?#=") else f", not '{url[:200]}'"


def open_session() -> requests.Session:
    """Return a session with the proxies and the certificates of the environment, but without ~/.netrc.

    `requests` would send the password that the file has for a host, or for all hosts, with every request and
    after every redirect. An address may come from a run folder or a dataset of somebody else.
    """
    import requests
    from requests.auth import HTTPBasicAuth
    from requests.utils import get_auth_from_url

    class Session(requests.Session):
        def rebuild_auth(
            self, prepared_request: requests.PreparedRequest, response: requests.Response
        ) -> None:
            """Drop the credentials if a redirect leads to another host, and add none."""
            old, new = response.request.url, prepared_request.url
            if self.should_strip_auth(old, new):  # type: ignore[no-untyped-call]
                prepared_request.headers.pop("Authorization", None)

    def authorize(request: requests.PreparedRequest) -> requests.PreparedRequest:
        user, password = get_auth_from_url(request.url or "")
        if user or password:
            HTTPBasicAuth(user, password)(request)
        return request

    session = Session()
    # A session looks into the file only if it has no authentication.
    session.auth = authorize
    return session
