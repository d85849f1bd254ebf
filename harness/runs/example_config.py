"""An example of a config for a benchmark and an agent, in which comments explain every key."""

from __future__ import annotations

import textwrap
from typing import Any

from harness.benchmarks.benchmark import Definition
from harness.core.errors import unknown_name
from harness.core.inputs.yaml_text import write_yaml
from harness.core.setting import Key, Reader
from harness.environments import environment_spec
from harness.runs.agents import agents
from harness.runs.settings import KEYS
from harness.runs.unread import list_read_settings

_WIDTH = 100


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
