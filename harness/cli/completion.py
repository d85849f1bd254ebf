"""Names for shell completion and for help texts.

Help and completion must be quick, so this module imports nothing slow.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import Any

_AGENTS = Path(__file__).parents[1] / "runs" / "agents"
# The packages whose sources decide the facts about benchmarks.
_DECLARING = [Path(__file__).parents[1] / name for name in ("benchmarks", "environments", "reports")]
_DECLARED = re.compile(r"^AGENTS\b.*?\)\s*,?\s*\)$", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"\(\s*\"([\w.-]+)\"\s*,")
# Only `harness mcp` selects this agent.
_NOT_SELECTED = {"client"}
_RUNS = Path("runs")
_LATEST = "latest"
_MANIFEST = "manifest.json"
_MAX_SOURCE_BYTES = 1 << 20


def agent_names() -> list[str]:
    """Return the names of the built-in agents that a run can select.

    They come from the sources, because an import takes half a second.
    """
    paths = sorted((*_AGENTS.glob("*.py"), *_AGENTS.glob("*/__init__.py")))
    sources = (_read_source(path) for path in paths)
    declared = (match.group() for source in sources for match in _DECLARED.finditer(source))
    return sorted({name for text in declared for name in _NAME.findall(text)} - _NOT_SELECTED)


def _read_source(path: Path) -> str:
    """Return the text of one of our files, without a file object that would warn about a Ctrl-C."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, _MAX_SOURCE_BYTES).decode()
    finally:
        os.close(descriptor)


def complete_agent(incomplete: str) -> list[str]:
    """Return the names of agents that begin with `incomplete`."""
    return [name for name in agent_names() if name.startswith(incomplete)]


def complete_benchmark(incomplete: str) -> list[str]:
    """Return the names of benchmarks that begin with `incomplete`."""
    return [name for each in read_benchmark_facts() if (name := str(each["name"])).startswith(incomplete)]


def read_benchmark_facts() -> list[dict[str, Any]]:
    """Return the facts about all benchmarks, from a file if no package has changed since it was written.

    An import of all benchmarks takes a second, and a shell asks at each press of a key.
    """
    import json
    import sys

    from harness.core.lock import cache_dir

    sources = [path for folder in _DECLARING for path in folder.rglob("*.py")]
    sources += map(Path, filter(os.path.isdir, sys.path))
    state = [str(Path(__file__)), max(path.stat().st_mtime_ns for path in sources), len(sources)]
    kept = cache_dir() / "benchmark-facts.json"
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        stored = json.loads(kept.read_bytes())
        if stored["state"] == state:
            return list(stored["facts"])
    from harness.benchmarks.loading import definitions
    from harness.reports.benchmarks import facts_json

    facts = facts_json(definition for _, definition in sorted(definitions().items()))
    with contextlib.suppress(OSError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps({"state": state, "facts": facts}))
    return facts


def complete_run(incomplete: str) -> list[str]:
    """Return the runs that begin with `incomplete`, the newest first: paths, or names and `latest`.

    They are searched in `runs/`, unless `incomplete` names another folder.
    """
    named = Path(incomplete)
    parent = named if incomplete.endswith("/") else named.parent if "/" in incomplete else _RUNS
    try:
        folders = [entry for entry in parent.iterdir() if (entry / _MANIFEST).is_file()]
    except OSError:
        return []
    newest_first = sorted(folders, key=lambda folder: folder.name, reverse=True)
    paths = [str(folder) for folder in newest_first]
    names = [_LATEST] if parent == _RUNS and paths else []
    if names and incomplete:
        # A user who has typed nothing gets no names of folders, because they would double the list.
        names += [folder.name for folder in newest_first]
    return [each for each in [*paths, *names] if each.startswith(incomplete)]
