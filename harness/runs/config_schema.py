"""The JSON schema of a config file. Editors complete and check its keys by it."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from harness.runs.config_file import EXTENDS
from harness.runs.settings import KEYS, RunConfig

# Any value may come from the environment, also a number.
_VARIABLE = {"type": "string", "pattern": r"\$\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\}"}
_SCALARS = ("integer", "number", "boolean")
_DRAFT = "https://json-schema.org/draft/2020-12/schema"


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
