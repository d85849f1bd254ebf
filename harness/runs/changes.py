"""The inputs of a run that must not change while it is resumed, repeated or merged, and their refusal."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from harness.core.errors import UsageError, unknown_name
from harness.core.text import escape_terminal

# The key of a manifest with the changes that the user has accepted.
ACCEPTED = "accepted_changes"
_SHOWN_VALUE = 200


@dataclass(frozen=True, slots=True)
class Change:
    """A field of a manifest with two values."""

    # The path of the field, such as `data.sha256`.
    field: str
    before: Any
    after: Any

    def describe(self) -> dict[str, Any]:
        """Return the change as a manifest holds it."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        return {"field": self.field, "before": self.before, "after": self.after, "accepted_at": now}


def find_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    """Return the changes between two mappings, a field for each value that is not a mapping itself."""
    earlier, later = dict(_flatten("", before)), dict(_flatten("", after))
    return [
        Change(name, earlier.get(name), later.get(name))
        for name in dict.fromkeys([*earlier, *later])
        if earlier.get(name) != later.get(name)
    ]


def accept_changes(
    changes: Iterable[Change],
    accepted: Collection[str],
    *,
    manifest: Mapping[str, Any],
    describe: Callable[[str, str, str], str],
    hints: Mapping[str, str],
) -> list[Change]:
    """Return the changes. The user has accepted them all.

    Args:
        changes: the changes that were found.
        accepted: the fields whose change the user accepts. A field includes the fields below it.
        manifest: the manifest whose fields can be accepted.
        describe: returns the message of a refusal from the field and its two values.
        hints: what else the user can do, by the first part of the field, and by "" for any other.

    Raises:
        UsageError: for a change that is not accepted, and for an accepted field that does not exist.
    """
    found = list(changes)
    fields = {*(path for path, _ in _flatten("", manifest)), *(change.field for change in found)}
    for name in accepted:
        if not any(field == name or field.startswith(f"{name}.") for field in fields):
            raise unknown_name("field for --accept", name, {field.partition(".")[0] for field in fields})
    for change in found:
        if any(change.field == name or change.field.startswith(f"{name}.") for name in accepted):
            continue
        raise UsageError(
            describe(change.field, _show(change.before), _show(change.after)),
            hint=f"{hints.get(change.field.partition('.')[0], hints[''])}, or add: --accept {change.field}",
        )
    return found


def add_accepted(manifest: Mapping[str, Any], changes: Iterable[Change]) -> dict[str, Any]:
    """Return a manifest with accepted changes after those that it has."""
    described = [change.describe() for change in changes]
    return (
        {**manifest, ACCEPTED: [*(manifest.get(ACCEPTED) or []), *described]} if described else {**manifest}
    )


def _show(value: Any) -> str:
    return escape_terminal(json.dumps(value), _SHOWN_VALUE)


def _flatten(name: str, values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        path = f"{name}.{key}" if name else key
        if isinstance(value, Mapping) and value:
            yield from _flatten(path, value)
        elif value is not None and value != {}:
            yield path, value
