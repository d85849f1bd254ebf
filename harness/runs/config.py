"""The config of a run, read from YAML and the command line. Both are validated by the same strict model."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from harness.core.discovery import names_python_file
from harness.core.errors import UsageError, unknown_name
from harness.core.invalid_values import describe_requirement, quote_value
from harness.core.secret_forms import names_secret
from harness.models.endpoint import Endpoint
from harness.runs.settings import KEYS, find_key, name_option
from harness.runs.settings import RunConfig as RunConfig
from harness.runs.settings.attempts import MAX_TIMEOUT_SECONDS, MIN_TIMEOUT_SECONDS

if TYPE_CHECKING:
    from harness.runs.config_file import ConfigFile, UnsetVariable


@dataclass(frozen=True, slots=True)
class ReadConfig:
    """The config in a file and on the command line, and what is wrong with it."""

    file: ConfigFile | None
    # None if there are problems.
    config: RunConfig | None
    problems: list[UsageError]


def load_config(
    path: Path | None,
    overrides: Mapping[str, Any],
    *,
    add_settings: Callable[[Mapping[str, Any]], dict[str, Any]] = dict,
) -> RunConfig:
    """Return the config in a YAML file, overridden by the values of the command line.

    `add_settings` returns the values with the settings of another run, which this layer cannot read.

    `${VAR}` and `${VAR:-default}` are replaced from the environment. Raises UsageError for the first problem,
    which names the file, the line, the key and, for an unknown key, the nearest known one.
    """
    read = read_config(path, overrides, add_settings=add_settings)
    if read.config is None:
        first = read.problems[0]
        if len(read.problems) > 1 and path is not None:
            more = f"`harness config validate {path}` lists all {len(read.problems)} problems"
            raise UsageError(first.message, hint=f"{first.hint}; {more}" if first.hint else more)
        raise first
    return read.config


def read_config(
    path: Path | None,
    overrides: Mapping[str, Any],
    *,
    add_settings: Callable[[Mapping[str, Any]], dict[str, Any]] = dict,
) -> ReadConfig:
    """Return the config as `load_config` does, or all its problems.

    Raises UsageError for a file that cannot be read as YAML, and for a recorded run that cannot be read.
    """
    file, values, unset = _read(path)
    problems = [each.error for each in unset]
    values = add_settings({**values, **overrides})
    try:
        config = RunConfig.model_validate(values)
    except ValidationError as error:
        keys = [each.keys for each in unset]
        return ReadConfig(file, None, problems + _explain(error, file, overrides, keys))
    paths = {"data": _make_absolute(config.data), "samples": _make_absolute(config.samples)}
    from harness.benchmarks.custom import is_own  # the benchmarks take long to import

    # Only a user's own benchmark is named by its file or its folder.
    if is_own(config.benchmark):
        paths["benchmark"] = _make_absolute(config.benchmark)
    if names_python_file(config.agent):
        paths["agent"] = _make_absolute(config.agent)
    # A key that did not change stays one that nobody has set.
    changed = {key: value for key, value in paths.items() if value != getattr(config, key)}
    return ReadConfig(file, None if problems else config.model_copy(update=changed), problems)


def read_endpoints(path: Path) -> dict[str, Endpoint]:
    """Return the endpoints that a config file names. Raises UsageError."""
    # The benchmark does not matter here, and a file with nothing but endpoints needs none.
    return load_config(path, {"benchmark": "any", "agent": "null"}).endpoints


def read_section(path: Path | None, key: str) -> dict[str, Any]:
    """Return a group of settings in a config file, {} if the file has none. Raises UsageError."""
    _, values, unset = _read(path)
    if unset:
        raise unset[0].error
    section = values.get(key)
    return section if isinstance(section, dict) else {}


def _make_absolute(path: str | None) -> str | None:
    """Return a path that stays valid if the run is resumed from another folder.

    The name of a data source, which is not a path, stays as it is.
    """
    if not path or path in ("hub", "bundled", "-") or not os.path.exists(path):
        return path
    return os.path.abspath(path)


def _read(path: Path | None) -> tuple[ConfigFile | None, dict[str, Any], list[UnsetVariable]]:
    """Return a file, its values with variables replaced, and those that name a variable without a value."""
    if path is None:
        return None, {}, []
    # Without a config file no parser is needed.
    from harness.runs.config_file import expand_variables, read_config_file

    file = read_config_file(path)
    return file, *expand_variables(file, typed={key.name for key in KEYS.values() if key.is_typed})


def _explain(
    error: ValidationError,
    file: ConfigFile | None,
    overrides: Mapping[str, Any],
    unset: Collection[tuple[str | int, ...]],
) -> list[UsageError]:
    """Return an error for each problem, which names the option of an override, and else the file and line.

    Unknown keys come first, because a missing key may be misspelt. Problems below the keys in `unset` follow
    from a variable that is not set.
    """
    found = sorted(error.errors(), key=lambda each: each["type"] != "extra_forbidden")
    return [
        _explain_one(dict(each), file, overrides)
        for each in found
        if not any(each["loc"][: len(keys)] == keys for keys in unset)
    ]


def _explain_one(
    problem: dict[str, Any], file: ConfigFile | None, overrides: Mapping[str, Any]
) -> UsageError:
    location: tuple[str | int, ...] = problem["loc"] or ("",)
    key = str(location[0])
    # The location of a problem consists of keys and of the positions of list items.
    keys = [str(part) for part in location if isinstance(part, str)] or [key]
    items = [f" item {part + 1}" for part in location if isinstance(part, int)]
    if "[key]" in keys:  # the name that pydantic gives a key that is not text
        keys.remove("[key]")
        items = [", each of its keys"]
    from_file = file is not None and key not in overrides
    where = f"{file.locate(location)}: " if from_file and file is not None else ""
    if problem["type"] == "extra_forbidden":
        is_whole = len(location) == 1
        if is_whole:
            from harness.runs.config_file import explain_foreign_key

            foreign = explain_foreign_key(key)
            if foreign is not None:
                return UsageError(f"{where}{foreign.message}", hint=foreign.hint)
        group = None if is_whole or key not in KEYS else KEYS[key].group
        known = group.model_fields if group else (*KEYS, "extends")
        # The nearest key is that to the last part, because the parts before it are right.
        likely = find_key(key) if is_whole else None
        hint = unknown_name("key", keys[-1], known, likely=likely, lister="harness config schema").hint
        if names_secret(keys[-1]):
            hint = (
                "a config never holds a key of a model: set the environment variable OPENAI_API_KEY, "
                "or name another one with endpoints.NAME.api_key_env"
            )
        return UsageError(f"{where}unknown key '{'.'.join(map(str, location))}'", hint=hint)
    if problem["type"] == "missing" and key == "benchmark":
        place = f"{file.path}: 'benchmark'" if file is not None else "the benchmark"
        return UsageError(f"{place} is missing", hint="name one: harness run -b mbpp")
    if key == "timeout_seconds" and problem["type"] != "value_error":
        low, high = MIN_TIMEOUT_SECONDS, MAX_TIMEOUT_SECONDS
        complaint = f"must be {low} to {high} whole seconds, not {quote_value(problem['input'])}"
    else:
        complaint = describe_requirement(problem)
    name = f"{where}'{'.'.join(keys)}'" if from_file else name_option(".".join(keys))
    return UsageError(f"{name}{''.join(items)} {complaint}")
