"""An example of a config for a benchmark and an agent, in which comments explain every key."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

from harness.benchmarks.benchmark import Definition
from harness.benchmarks.options import Options
from harness.core.errors import unknown_name
from harness.core.inputs.yaml_text import write_yaml
from harness.environments import environment_spec
from harness.runs.agents import agents
from harness.runs.config import RunConfig
from harness.runs.unread import list_read_settings

_WIDTH = 100
_MODEL = "my-model"
_SERVER = "http://localhost:8000/v1"
# The examples of what only some agents read.
_BY_AGENT: dict[str, dict[str, Any]] = {
    "command": {"command": {"cmd": "my-agent", "where": "host"}},
    "predictions": {"samples": "samples.jsonl"},
    "replay": {"replay_from": "latest"},
}


@dataclass(frozen=True, slots=True)
class _Key:
    """A key of the example. `is_active` is whether it stands there without a `#`."""

    name: str
    value: Any
    is_active: bool = False


def write_example_config(definition: Definition, agent: str, *, benchmark: str, file: str = "FILE") -> str:
    """Return the YAML of an example that is valid as it is.

    Keys that are only comments show what else can be set. The benchmark and the agent read all of them, and
    their values are valid, too.

    Args:
        definition: the benchmark.
        agent: the name of a built-in agent.
        benchmark: the name or the path by which the user calls the benchmark.
        file: the name of the file, which the comments show.

    Raises:
        UsageError: for an unknown agent.
    """
    known = agents()
    if agent not in known:
        raise unknown_name("agent", agent, known)
    read = list_read_settings(known[agent])
    sections = {
        f"{definition.name}: {definition.description}": [
            _Key("benchmark", benchmark, is_active=True),
            _Key("agent", agent, is_active=True),
            *(_Key(name, value, is_active=True) for name, value in _BY_AGENT.get(agent, {}).items()),
        ],
        "The model": list(_list_model_keys(read)) if "model" in read else [],
        "The tasks": list(_list_task_keys(definition)),
        "The attempts": list(_list_attempt_keys(definition, read)),
    }
    parts = [
        f"# Check this file:  harness config validate {file}\n# Run it:           harness run -c {file}\n"
        "# Every key without a leading # is set. `extends: base.yaml` takes the keys of another file."
    ]
    for title, keys in sections.items():
        if keys:
            parts.append("\n".join([f"# --- {title}", *(_write_key(key) for key in keys)]))
    return "\n\n".join(parts) + "\n"


def _list_model_keys(read: frozenset[str]) -> Iterator[_Key]:
    yield _Key("model", _MODEL, is_active=True)
    yield _Key("base_url", _SERVER, is_active=True)
    yield _Key("generation", {"temperature": 0.0, "max_tokens": 4096})
    yield _Key("attempt_budget", {"output_tokens": 50_000})
    yield _Key("run_budget", {"total_tokens": 5_000_000})
    if "system_prompt" in read:
        yield _Key("system_prompt", "Think step by step.")
    if "mcp_servers" in read:
        yield _Key("mcp_servers", [{"name": "time", "command": "uvx", "args": ["mcp-server-time"]}])


def _list_task_keys(definition: Definition) -> Iterator[_Key]:
    yield _Key("sample_size", 10, is_active=True)
    yield _Key("sampling", "random")
    if definition.bundled is not None:
        yield _Key("data", "bundled")
    if definition.categories:
        yield _Key("filter_category", list(definition.categories[:2]))
    yield _Key("split", definition.split)
    options = _list_options(definition.options) if definition.options is not None else {}
    if options:
        yield _Key("options", options)


def _list_options(model: type[Options]) -> dict[str, Any]:
    """Return the defaults of options that have plain ones, those of a group by its name."""
    found: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, Options):
            if inner := _list_options(field.annotation):
                found[name] = inner
        elif not field.is_required():
            default = field.get_default(call_default_factory=True)
            default = default.value if isinstance(default, Enum) else default
            if isinstance(default, str | bool | int | float):
                found[name] = default
    return found


def _list_attempt_keys(definition: Definition, read: frozenset[str]) -> Iterator[_Key]:
    environments = [environment_spec(name) for name in definition.environments]
    seconds = max((spec.timeout_seconds for spec in environments), default=180)
    yield _Key("timeout_seconds", seconds, is_active=True)
    if any(spec.open_environment is not None for spec in environments):
        yield _Key("rounds", 20)
    if "n_samples" in read:
        yield _Key("n_samples", 1)
    yield _Key("seed", 0)
    yield _Key("max_concurrent", 8)
    if any(spec.image is not None for spec in environments):
        yield _Key("max_sandboxes", 4)
        yield _Key("limits", {"memory_mb": 2048})
        yield _Key("runtime", "runc")
    if "agent_prompt" in read:
        yield _Key("agent_prompt", "Be brief. {problem_statement}")
    yield _Key("output_dir", "runs")


def _write_key(key: _Key) -> str:
    """Return the lines of a key, below a comment that explains it."""
    description = RunConfig.model_fields[key.name].description or ""
    comment = textwrap.wrap(" ".join(description.split()), _WIDTH - 2, break_on_hyphens=False)
    lines = write_yaml({key.name: key.value}).splitlines()
    return "\n".join([*(f"# {line}" for line in comment), *_comment_out(lines, key)])


def _comment_out(lines: Iterable[str], key: _Key) -> list[str]:
    # Without a blank after `#`, so that an editor or `sed s/^#//` tells keys from comments.
    return list(lines) if key.is_active else [f"#{line}" for line in lines]
