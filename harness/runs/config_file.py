"""The YAML files of a config: those that a file extends, their variables, and the lines of their keys."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.core.errors import UsageError
from harness.core.inputs.yaml_text import Lines, parse_yaml, read_yaml_with_lines

EXTENDS = "extends"
# A bound on the reads, because files that each extend several others double the work with every level.
MAX_FILES = 32
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
# The settings of an MCP server whose values may be secrets. A run folder holds the config, so their variables
# are read only where they are used.
_SERVERS = "mcp_servers"
_SECRET = frozenset(("env", "headers"))
_URL = "url"
TOOL = "mcpbr"
_NOT_NEEDED = "leave it out"
_REMEDIES = {
    "mcp_server": "write 'mcp_servers:' with a list of servers; this is one of them",
    **dict.fromkeys(
        ("mcp_server_a", "mcp_server_b", "comparison_mode"),
        "write one config for each server under 'mcp_servers', run both, then: harness compare RUN_A RUN_B",
    ),
    "provider": "write 'base_url: URL' for the server of the model, or describe it under 'endpoints'",
    "agent_harness": "write 'agent: chat', or the name of a program such as 'agent: claude-code'",
    "max_iterations": "write 'rounds', the number of tool calls in an attempt",
    "thinking_budget": "write 'generation: {reasoning_effort: high}'",
    "budget": "write 'run_budget: {cost: NUMBER}', and the prices of the model under 'endpoints'",
    **dict.fromkeys(("global_seed", "random_seed"), "write 'seed'"),
    "sampling_strategy": "write 'sampling'",
    "stratify_field": "write 'stratify_by'",
    "dataset": "write 'data': a path, hub or bundled",
    "cache_enabled": "write 'reply_cache: \"on\"', which keeps the replies of the model",
    "cache_dir": "leave it out, because replies are kept in one folder for all runs",
    "use_prebuilt_images": "leave it out, and build the images once: harness setup",
    "volumes": "leave it out, because a sandbox gets no folder of this machine",
    "setup_command": "write it under a server of 'mcp_servers'",
    **dict.fromkeys(
        ("rate_limit_rpm", "rate_limit_strategy"),
        "leave it out, because requests adapt to the server; 'concurrency' of an endpoint bounds them",
    ),
    **dict.fromkeys(
        ("deterministic_mode", "record_environment"),
        "leave it out, because every run has a seed, and its manifest holds the environment",
    ),
    **dict.fromkeys(
        ("checkpoint_interval", "resume_from_checkpoint"),
        "leave it out, because each attempt is stored at once; harness run --resume RUN continues a run",
    ),
    **dict.fromkeys(
        ("continue_on_error", "max_failures"),
        "leave it out, because a failed attempt never ends a run",
    ),
    **dict.fromkeys(
        ("audit_enabled", "audit_log_file", "enable_profiling", "disable_logs"),
        "leave it out, because a run folder always holds its manifest, transcripts and durations",
    ),
    **dict.fromkeys(
        ("redaction_level", "data_retention_days", "exclude_result_fields", "infrastructure"), _NOT_NEEDED
    ),
    "cybergym_level": "leave it out, because there is no such benchmark here; `harness benchmarks` lists all",
}


@dataclass(frozen=True, slots=True)
class Origin:
    """The file and the line of a value, and the origins of the values in it."""

    path: Path
    line: int
    inner: Mapping[str, Origin] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"

    def find(self, keys: Sequence[str | int]) -> Origin:
        """Return the origin of the value below these keys, or of the nearest value that holds it.

        A number is a place in a list, and the servers of a mapping are also found by their places.
        """
        origin = self
        for key in keys:
            inner = origin.inner
            if str(key) in inner:
                origin = inner[str(key)]
            elif isinstance(key, int) and key < len(inner):
                origin = list(inner.values())[key]
            else:
                break
        return origin


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """The values of a config file over the files that it extends, and where they are."""

    path: Path
    values: dict[str, Any]
    origins: Mapping[str, Origin]

    def locate(self, keys: Sequence[str | int]) -> str:
        """Return `file:line` of the value below these keys, or the path of the file if it has none there."""
        if not keys or str(keys[0]) not in self.origins:
            return str(self.path)
        return str(self.origins[str(keys[0])].find(keys[1:]))


def read_config_file(path: Path) -> ConfigFile:
    """Return the values of a config file, without a replacement of variables.

    `extends` names a file, or several. A later one overrides an earlier one. The values of the file
    itself override all of them. Mappings are merged key by key, and every other value is replaced whole.

    Raises UsageError, with file and line, for a file that cannot be read, for a cycle, and for more than
    MAX_FILES files.
    """
    reader = _Reader()
    values, origins = reader.read(path, ())
    return ConfigFile(path, values, origins)


@dataclass(slots=True)
class _Reader:
    """Reads files and counts them."""

    read_files: int = 0

    def read(self, path: Path, chain: tuple[Path, ...]) -> tuple[dict[str, Any], dict[str, Origin]]:
        """Return the values of a file and their origins. `chain` are the files that lead to it."""
        self.read_files += 1
        own, lines = read_yaml_with_lines(path)
        if not isinstance(own, dict):
            raise UsageError(f"{path}: must contain keys and values, such as 'benchmark: mbpp'")
        if "agent" in own and own["agent"] is None:
            own["agent"] = "null"  # YAML reads the name of the null agent as None
        extended = own.pop(EXTENDS, None)
        own_origins = {key: _place(each, path) for key, each in lines.inner.items() if key != EXTENDS}
        if extended is None:
            return own, own_origins
        where = f"{path}:{lines.inner[EXTENDS].line}: '{EXTENDS}'"
        values: dict[str, Any] = {}
        origins: dict[str, Origin] = {}
        for name in _list_names(extended, where):
            base = self._resolve(name, path, chain, where)
            values, origins = _merge(values, origins, *self.read(base, (*chain, path)))
        return _merge(values, origins, own, own_origins)

    def _resolve(self, name: str, path: Path, chain: tuple[Path, ...], where: str) -> Path:
        """Return the path of an extended file. Raises UsageError for a cycle and for too many files."""
        if "://" in name:
            raise UsageError(
                f"{where} must be a file, not {name}",
                hint="download it, because a config decides which programs run on this machine",
            )
        base = path.parent / os.path.expanduser(name)
        passed = (*chain, path)
        if any(os.path.realpath(base) == os.path.realpath(each) for each in passed):
            cycle = " -> ".join(map(str, (*passed, base)))
            raise UsageError(f"{where} leads back to the file itself: {cycle}", hint="leave one of them out")
        if not base.is_file():
            raise UsageError(f"{where}: {base} is not a file", hint=f"name it relative to {path.parent}/")
        if self.read_files >= MAX_FILES:
            raise UsageError(f"{where} leads to more than {MAX_FILES} files", hint="extend fewer files")
        return base


def _list_names(extended: Any, where: str) -> list[str]:
    names = extended if isinstance(extended, list) else [extended]
    if not names or not all(isinstance(name, str) and name for name in names):
        raise UsageError(f"{where} must be a file or a list of files", hint="for example: extends: base.yaml")
    problems: list[UsageError] = []
    expanded = [_expand_text(name, where, problems, typed=False) for name in names]
    if problems:
        raise problems[0]
    return [str(name) for name in expanded]


def _place(lines: Lines, path: Path) -> Origin:
    return Origin(path, lines.line, {key: _place(each, path) for key, each in lines.inner.items()})


def _merge(
    values: Mapping[str, Any],
    origins: Mapping[str, Origin],
    over: Mapping[str, Any],
    over_origins: Mapping[str, Origin],
) -> tuple[dict[str, Any], dict[str, Origin]]:
    """Return values over others, with their origins. Mappings in both are merged."""
    merged, placed = dict(values), dict(origins)
    for key, value in over.items():
        name, before = str(key), merged.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            merged[key], inner = _merge(before, placed[name].inner, value, over_origins[name].inner)
            placed[name] = Origin(over_origins[name].path, over_origins[name].line, inner)
        else:
            merged[key], placed[name] = value, over_origins[name]
    return merged, placed


def is_secret(keys: Sequence[str | int]) -> bool:
    """Return whether the value below these keys may be a secret: a variable or a header of an MCP server."""
    return keys[0] == _SERVERS and any(key in _SECRET for key in keys[1:-1])


@dataclass(frozen=True, slots=True)
class UnsetVariable:
    """A value that names a variable without a value. `keys` lead to it."""

    keys: tuple[str | int, ...]
    error: UsageError


def expand_variables(
    file: ConfigFile, *, typed: Collection[str]
) -> tuple[dict[str, Any], list[UnsetVariable]]:
    """Return the values of a file with their variables replaced, and each that names one that is not set.

    `${VAR}` and `${VAR:-default}` are replaced from the environment. A string that consists of one variable
    becomes None if the variable is empty, and below a key in `typed` it is read as YAML.
    """
    unset: list[UnsetVariable] = []

    def expand(value: Any, keys: tuple[str | int, ...]) -> Any:
        if isinstance(value, dict):
            kept = _SECRET if keys[0] == _SERVERS else frozenset[str]()
            return {
                key: inner if key in kept else expand(inner, (*keys, key)) for key, inner in value.items()
            }
        if keys[0] == _SERVERS and keys[-1] == _URL and isinstance(value, str) and "?" in value:
            # Its query may hold a secret, as the headers do.
            head, _, query = value.partition("?")
            return f"{expand(head, keys) or ''}?{query}"
        if isinstance(value, list):
            return [expand(inner, (*keys, place)) for place, inner in enumerate(value)]
        if not isinstance(value, str) or "${" not in value:
            return value
        names = ".".join(str(key) for key in keys if not isinstance(key, int))
        problems: list[UsageError] = []
        text = _expand_text(value, f"{file.locate(keys)}: {names}", problems, typed=keys[0] in typed)
        unset.extend(UnsetVariable(keys, problem) for problem in problems)
        return text

    return {key: expand(value, (key,)) for key, value in file.values.items()}, unset


def _expand_text(text: str, where: str, problems: list[UsageError], *, typed: bool) -> Any:
    def read(match: re.Match[str]) -> str:
        name, default = match.groups()
        found = os.environ.get(name, default)
        if found is None:
            problems.append(
                UsageError(
                    f"{where}: the environment variable {name} is not set",
                    hint=f"set it, or write ${{{name}:-default}}",
                )
            )
        return found or ""

    expanded = _VARIABLE.sub(read, text)
    if not _VARIABLE.fullmatch(text):
        return expanded
    if typed:
        with contextlib.suppress(UsageError):  # the model refuses the text and names its key
            return parse_yaml(expanded)
    return expanded or None


def explain_foreign_key(key: str) -> UsageError | None:
    """Return the error for a key of another tool's config, None for a key of no tool that is known."""
    remedy = _REMEDIES.get(key)
    if remedy is None:
        return None
    return UsageError(f"'{key}' is a key of {TOOL}, which harness does not read", hint=remedy)
