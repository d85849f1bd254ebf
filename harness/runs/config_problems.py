"""The problems of a config, in words that name the file and line, or the option, of each value."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from harness.core.errors import UsageError, describe_requirement, quote_value, unknown_name
from harness.core.option_names import find_key, name_option
from harness.runs.config_file import ConfigFile, explain_foreign_key


@dataclass(frozen=True, slots=True)
class KnownKeys:
    """The keys that a config may hold, and limits that its messages name."""

    whole: Collection[str]
    groups: Mapping[str, type[BaseModel]]
    """The models of the groups of settings. In `endpoints` each group has a name."""
    timeout_range: tuple[int, int]

    def list_keys(self, groups: list[str]) -> list[str]:
        """Return the keys that a group of settings has, or those of the whole config without a group."""
        if groups and groups[0] in self.groups:
            return list(self.groups[groups[0]].model_fields)
        return list(self.whole)


def explain_problems(
    error: ValidationError,
    file: ConfigFile | None,
    overrides: Mapping[str, Any],
    known: KnownKeys,
    *,
    unset: Collection[tuple[str | int, ...]] = (),
) -> list[UsageError]:
    """Return an error for each problem that the validation of a config has found.

    Unknown keys come first, because a missing key may be misspelt.

    Args:
        error: the error of the validation.
        file: the config file, None without one.
        overrides: the values of the command line, whose problems name an option instead of a line.
        known: the keys that a config may hold.
        unset: the keys of values without their variable, whose further problems follow from that.
    """
    found = sorted(error.errors(), key=lambda each: each["type"] != "extra_forbidden")
    return [
        _explain(dict(each), file, overrides, known)
        for each in found
        if not any(each["loc"][: len(keys)] == keys for keys in unset)
    ]


def _explain(
    problem: dict[str, Any], file: ConfigFile | None, overrides: Mapping[str, Any], known: KnownKeys
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
        foreign = explain_foreign_key(key) if len(location) == 1 else None
        if foreign is not None:
            return UsageError(f"{where}{foreign.message}", hint=foreign.hint)
        # The nearest key is that to the last part, because the parts before it are right.
        likely = find_key(key) if len(location) == 1 else None
        hint = unknown_name("key", keys[-1], known.list_keys(keys[:-1]), likely=likely).hint
        return UsageError(f"{where}unknown key '{'.'.join(map(str, location))}'", hint=hint)
    if problem["type"] == "missing" and key == "benchmark":
        place = f"{file.path}: 'benchmark'" if file is not None else "the benchmark"
        return UsageError(f"{place} is missing", hint="name one: harness run -b mbpp")
    if key == "timeout_seconds":
        low, high = known.timeout_range
        complaint = f"must be {low} to {high} whole seconds, not {quote_value(problem['input'])}"
    else:
        complaint = describe_requirement(problem)
    name = f"{where}'{'.'.join(keys)}'" if from_file else name_option(".".join(keys))
    return UsageError(f"{name}{''.join(items)} {complaint}")
