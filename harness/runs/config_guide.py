"""The JSON schema of a config file, and an example with comments. Both follow from the declared settings."""

from __future__ import annotations

import textwrap
from copy import deepcopy
from typing import Any

from harness.benchmarks.benchmark import Definition
from harness.core.errors import unknown_name
from harness.core.inputs.yaml_text import write_yaml
from harness.core.setting import Key, Reader
from harness.environments import environment_spec
from harness.runs.agents.agent import agents
from harness.runs.config_file import EXTENDS
from harness.runs.settings import KEYS, RunConfig
from harness.runs.unread import list_read_settings

# Any value may come from the environment, also a number.
_VARIABLE = {"type": "string", "pattern": r"\$\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\}"}
_SCALARS = ("integer", "number", "boolean")
_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_WIDTH = 100


def build_config_schema() -> dict[str, Any]:
    """Return the JSON schema (draft 2020-12) of the YAML that `harness run -c` reads."""
    schema = RunConfig.model_json_schema(mode="validation")
    properties = schema["properties"]
    names = {"type": "array", "items": {"type": "string"}, "minItems": 1}
    properties[EXTENDS] = {
        "anyOf": [{"type": "string"}, names],
        "description": "The config file, or files, that this one extends. Paths are relative to this file.",
    }
    properties["agent"]["anyOf"] = [{"type": properties["agent"].pop("type")}, {"type": "null"}]
    _allow_mapping_of_servers(schema)
    # The command line and an extended file may name the benchmark.
    schema.pop("required", None)
    for part in (*properties.values(), *schema["$defs"].values()):
        _allow_variables(part)
    for name, key in KEYS.items():
        if key.is_typed:
            _allow_variable(properties[name])
    schema["properties"] = dict(sorted(properties.items()))
    return {"$schema": _DRAFT, "title": "harness config", **schema}


def _allow_mapping_of_servers(schema: dict[str, Any]) -> None:
    """Let `mcp_servers` also be a mapping, whose keys are the names of the servers."""
    servers, server = schema["properties"]["mcp_servers"], schema["$defs"]["McpServer"]
    # Keys that are not allowed must stay refused, so the mapping has a definition of its own.
    required = [name for name in server["required"] if name != "name"]
    named = {**deepcopy(server), "title": "McpServerByName", "required": required}
    schema["$defs"]["McpServerByName"] = named
    listed = {"type": servers.pop("type"), "items": servers.pop("items")}
    mapped = {"type": "object", "additionalProperties": {"$ref": "#/$defs/McpServerByName"}}
    servers["anyOf"] = [listed, mapped]


def _allow_variables(node: Any) -> None:
    """Let every number and every choice in a schema also be a variable, in place."""
    if isinstance(node, list):
        for each in node:
            _allow_variables(each)
        return
    if not isinstance(node, dict):
        return
    for each in list(node.values()):
        _allow_variables(each)
    is_choice = isinstance(node.get("enum"), list) and node.get("type") == "string"
    if node.get("type") in _SCALARS or is_choice:
        _allow_variable(node)


def _allow_variable(node: dict[str, Any]) -> None:
    """Let the value of a schema also be a variable, in place."""
    if _VARIABLE in node.get("anyOf", []):
        return
    kept: dict[str, Any] = {key: node.pop(key) for key in ("description", "title", "default") if key in node}
    choices = node.pop("anyOf", None) or [dict(node)]
    node.clear()
    node |= {**kept, "anyOf": [*choices, dict(_VARIABLE)]}


def write_example_config(definition: Definition, agent: str, *, benchmark: str, file: str = "FILE") -> str:
    """Return the YAML of an example that is valid as it is.

    Keys that are only comments show what else can be set. The benchmark and the agent read all of them, and
    their values are also valid.

    Args:
        definition: the benchmark.
        agent: the name of a built-in agent.
        benchmark: the user's name or path of the benchmark.
        file: the name of the file, which the comments show.

    Raises:
        UsageError: for an unknown agent.
    """
    known = agents()
    if agent not in known:
        raise unknown_name("agent", agent, known)
    read = list_read_settings(known[agent])
    specs = [environment_spec(name) for name in definition.environments]
    has_sandbox = any(spec.image is not None for spec in specs)
    readers: dict[Reader, bool] = {
        "run": True,
        "tools": any(spec.open_environment is not None for spec in specs),
        "own sandbox": has_sandbox,
        "sandbox": has_sandbox,
    }
    named = {"benchmark": benchmark, "agent": agent}
    sections: dict[str, list[str]] = {}
    for name, key in KEYS.items():
        if key.example is None or not readers.get(key.rules.read_by, name in read):
            continue
        value = key.example.value(definition) if callable(key.example.value) else key.example.value
        value = named.get(name, value)
        if value is not None and key.example.agent in (None, agent):
            sections.setdefault(key.panel, []).append(_write_key(key, value, is_set=key.example.is_set))
    head = (
        f"# Check this file:  harness config validate {file}\n# Run it:           harness run -c {file}\n"
        "# Every key without a leading # is set. `extends: base.yaml` takes the keys of another file.\n"
        f"# {definition.name}: {definition.description}"
    )
    parts = ["\n".join([f"# --- {panel}", *keys]) for panel, keys in sections.items()]
    return "\n\n".join([head, *parts]) + "\n"


def _write_key(key: Key, value: Any, *, is_set: bool) -> str:
    """Return the lines of a key, below a comment that explains it."""
    comment = textwrap.wrap(key.description, _WIDTH - 2, break_on_hyphens=False)
    # Without a blank after `#`, so that an editor or `sed s/^#//` tells keys from comments.
    mark = "" if is_set else "#"
    lines = [f"{mark}{line}" for line in write_yaml({key.name: value}).splitlines()]
    return "\n".join([*(f"# {line}" for line in comment), *lines])
