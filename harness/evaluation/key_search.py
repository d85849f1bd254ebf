"""The search for the keys of a run's models in its config, because the config reaches agents and files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from harness.config import RunConfig
from harness.errors import UsageError
from harness.mcp_settings import VARIABLE
from harness.models.endpoint import Endpoint
from harness.models.hidden_key import SHORTEST_HIDDEN_KEY, HiddenKey

_HINTS = {
    "command": "leave it out, because the program gets a token for its attempt as OPENAI_API_KEY",
    "mcp_servers": "give the server another key, or none",
}
_HINT = "leave it out, because the harness itself sends the key to the server of the model"
_PLACEHOLDER = f"a placeholder for a server without keys needs less than {SHORTEST_HIDDEN_KEY} characters"


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
    """Return the path of a setting, in which a server has its name and an item of a list the list's."""
    named: list[str] = []
    for key in keys:
        if not isinstance(key, int):
            named.append(key)
        elif named == ["mcp_servers"]:
            named.append(config.mcp_servers[key].name)
    return ".".join(named)
