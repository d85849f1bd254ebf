"""The secrets that a run may know, and their removal from texts that leave the process."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from harness.core.errors import UsageError
from harness.core.secret_forms import HIDDEN_KEY, hide_url_secrets, names_secret
from harness.models.endpoint import ANTHROPIC_KEY_VARIABLE, OPENAI_KEY_VARIABLE, Endpoint
from harness.models.relay.mcp_servers.settings import VARIABLE
from harness.models.settings import SHORTEST_HIDDEN_KEY, HiddenKey
from harness.runs.settings import RunConfig

# Keys that this process may not know, because the run was made elsewhere. Each pattern is the published form
# of one provider, and is too long for ordinary text.
_KNOWN_FORMS = re.compile(
    r"\bsk-(?:ant-|proj-|or-)?[A-Za-z0-9_-]{32,}"
    r"|\bgh[pousr]_[A-Za-z0-9]{36,}|\bgithub_pat_[A-Za-z0-9_]{60,}"
    r"|\bhf_[A-Za-z0-9]{30,}|\bAKIA[0-9A-Z]{16}\b|\bAIza[A-Za-z0-9_-]{35}\b|\bxox[abpr]-[A-Za-z0-9-]{20,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----",
    re.DOTALL,
)
# The headers of credentials in the logs of libraries, as pairs or as lines.
_CREDENTIALS = re.compile(
    r"(?P<header>\b(?:proxy-)?authorization|\b(?:x-)?api-key|\b(?:set-)?cookie|\bx-registry-auth)"
    r"(?P<between>['\"]?\s*[:=,]\s*b?)"
    r"(?P<value>'[^']*'|\"[^\"]*\"|[^\s'\",;)}]+(?:[ \t]+[^\s'\",;)}]+)*)"
    r"|\b(?P<scheme>bearer)[ \t]+[A-Za-z0-9._~+/=-]{8,}",
    re.IGNORECASE,
)
_HINTS = {
    "command": "leave it out, because the program gets a token for its attempt as OPENAI_API_KEY",
    "mcp_servers": "give the server another key, or none",
}
_HINT = "leave it out, because the harness itself sends the key to the server of the model"
_PLACEHOLDER = f"a placeholder for a server without keys needs less than {SHORTEST_HIDDEN_KEY} characters"


class SecretFilter:
    """Removes known secrets from texts, and everything that has the form of one."""

    def __init__(self, secrets: Iterable[str]) -> None:
        # A longer secret goes first, because a shorter one may be a part of it.
        ordered = sorted(set(secrets), key=len, reverse=True)
        self._keys = [HiddenKey(secret) for secret in ordered if len(secret) >= SHORTEST_HIDDEN_KEY]

    def remove_from(self, text: str) -> str:
        """Return the text with `[key]` in place of each secret."""
        for key in self._keys:
            text = key.remove_from(text)
        return _KNOWN_FORMS.sub(HIDDEN_KEY, text)

    def remove_from_log(self, text: str) -> str:
        """Return a text of a log without secrets, credentials in headers, and credentials in URLs."""
        return hide_url_secrets(_CREDENTIALS.sub(_hide_credentials, self.remove_from(text)))


def _hide_credentials(match: re.Match[str]) -> str:
    if match["header"] is not None:
        return f"{match['header']}{match['between']}{HIDDEN_KEY}"
    return f"{match['scheme']} {HIDDEN_KEY}"


def list_environment_secrets(
    environment: Mapping[str, str] = os.environ, *, names: Iterable[str] = ()
) -> dict[str, str]:
    """Return the values of the variables in `names`, and of all whose name says that they hold a secret."""
    wanted = {OPENAI_KEY_VARIABLE, ANTHROPIC_KEY_VARIABLE, *names}
    wanted |= {name for name in environment if names_secret(name)}
    return {name: environment[name].strip() for name in sorted(wanted) if environment.get(name, "").strip()}


def list_named_variables(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield the environment variables that a config names for keys. `config` is a manifest's."""
    endpoints = config.get("endpoints")
    for endpoint in endpoints.values() if isinstance(endpoints, dict) else ():
        if isinstance(endpoint, dict) and isinstance(endpoint.get("api_key_env"), str):
            yield endpoint["api_key_env"]
    servers = config.get("mcp_servers")
    for server in servers if isinstance(servers, list) else ():
        if not isinstance(server, dict):
            continue
        yield from (match[0] for match in VARIABLE.findall(str(server.get("url"))))
        for group in ("env", "headers"):
            values = server.get(group)
            for value in values.values() if isinstance(values, dict) else ():
                yield from (match[0] for match in VARIABLE.findall(str(value)))
    command = config.get("command")
    passed = command.get("pass_env") if isinstance(command, dict) else None
    yield from (name for name in passed or () if isinstance(name, str))


def make_log_filter(
    config: RunConfig | None = None, environment: Mapping[str, str] = os.environ
) -> SecretFilter:
    """Return the filter for the log of a run, or of a command without a config.

    It knows the secrets of the environment and of the config, also as JSON and Python write them, and each
    line of a secret with several lines.
    """
    found: set[str] = set()
    if config is None:
        found.update(list_environment_secrets(environment).values())
    else:
        dumped = config.model_dump(mode="json")
        found.update(list_environment_secrets(environment, names=list_named_variables(dumped)).values())
        for server in config.mcp_servers:
            # Each value of these may be a secret, and the dump has only the names of the variables.
            found.update([*server.env.values(), *server.headers.values()])
        found.update(_list_named_values(dumped))
    written = {form for secret in found for form in (json.dumps(secret)[1:-1], repr(secret)[1:-1])}
    lines = {line.strip() for secret in found for line in secret.splitlines()}
    return SecretFilter(found | written | lines)


def _list_named_values(value: Any, name: str = "") -> Iterator[str]:
    """Yield the texts below keys whose name says that they hold a secret, such as one in `extra_body`."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _list_named_values(item, str(key))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _list_named_values(item, name)
    elif isinstance(value, str) and names_secret(name):
        yield value


@dataclass(frozen=True, slots=True)
class HeldKey:
    """A setting that holds the key of a model. `keys` lead to it."""

    keys: tuple[str | int, ...]
    error: UsageError


def find_keys(config: RunConfig, models: Sequence[Endpoint | None]) -> Iterator[HeldKey]:
    """Yield each setting of a config that holds the key of one of the run's models, plain or encoded.

    Every text of the config is searched. Variables of MCP servers, and those that a program on the host
    inherits, are searched by their values. A key of less than SHORTEST_HIDDEN_KEY characters is a placeholder
    and may be a part of any word.
    """
    by_variable = {model.api_key_env: model for model in models if model is not None}
    hidden = [
        (HiddenKey(os.environ.get(variable, "").strip()), model) for variable, model in by_variable.items()
    ]
    if not hidden:
        return
    for keys, text in _list_texts(config):
        for key, model in hidden:
            if key.is_in(text):
                name = key.remove_from(_name_setting(config, keys))
                message = f"'{name}' holds the key of model '{key.remove_from(model.model)}'"
                hint = f"{_HINTS.get(str(keys[0]), _HINT)}; {_PLACEHOLDER}"
                yield HeldKey(keys, UsageError(message, hint=hint))
                break


def refuse_keys(config: RunConfig, models: Sequence[Endpoint | None]) -> None:
    """Raise UsageError for the first setting that `find_keys` yields."""
    for held in find_keys(config, models):
        raise held.error


def _list_texts(config: RunConfig) -> Iterator[tuple[tuple[str | int, ...], str]]:
    yield from _walk(config, ())
    for place, name in enumerate(config.command.pass_env):
        yield ("command", "pass_env", place), os.environ.get(name, "")
    for number, server in enumerate(config.mcp_servers):
        if server.url is not None:
            yield ("mcp_servers", number, "url"), VARIABLE.sub(_expand, server.url)
        for group in ("env", "headers"):
            for name, value in getattr(server, group).items():
                yield ("mcp_servers", number, group, name), VARIABLE.sub(_expand, value)


def _expand(match: Any) -> str:
    # A variable that is not set is reported where the server starts.
    name, default = match.groups()
    return os.environ.get(name, default or "")


def _walk(value: Any, keys: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield each text in a value, and each name of a mapping, with the keys that lead to it."""
    if isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _walk(getattr(value, name), (*keys, name))
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield (*keys, str(name)), str(name)
            yield from _walk(inner, (*keys, str(name)))
    elif isinstance(value, list | tuple | set | frozenset):
        for place, inner in enumerate(value):
            yield from _walk(inner, (*keys, place))
    elif value is not None and not isinstance(value, bool):
        # YAML reads a key of digits as a number.
        yield keys, str(value)


def _name_setting(config: RunConfig, keys: tuple[str | int, ...]) -> str:
    """Return the path of a setting. A server has its name there, and an item of a list the list's."""
    named: list[str] = []
    for key in keys:
        if not isinstance(key, int):
            named.append(key)
        elif named == ["mcp_servers"]:
            named.append(config.mcp_servers[key].name)
    return ".".join(named)
