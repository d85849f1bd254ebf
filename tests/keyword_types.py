"""Write the types of the keyword arguments of `harness.run`, which follow from the declared settings.

Editors and mypy read them, so they must be in a file. Run `make keywords` after a change of a setting.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel

from harness.core.setting import list_members
from harness.runs.settings import KEYS

FILE = Path(__file__).parents[1] / "harness" / "runs" / "settings" / "keywords.py"
WIDTH = 110
HEAD = '''"""The keyword arguments of `harness.run`. `make keywords` writes them from the settings."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

{imports}


class RunOptions(TypedDict, total=False):
    """The keys of `harness.runs.settings.RunConfig` that `run` takes as keyword arguments."""

{keys}
'''


def write_keywords() -> str:
    """Return the text of the file."""
    # They are arguments of their own.
    keys = [key for name, key in KEYS.items() if name not in ("benchmark", "agent", "backend")]
    imports = {f"from {key.group.__module__} import {key.group.__name__}" for key in keys if key.group}
    lines = [f"    {key.name}: {key.rules.keyword or _write_type(key.kind)}" for key in keys]
    wrapped = [line if len(line) <= WIDTH else _wrap(line) for line in lines]
    return HEAD.format(imports="\n".join(sorted(imports)), keys="\n".join(wrapped))


def _wrap(line: str) -> str:
    """Return a long line as `ruff format` would write it."""
    name, _, kind = line.partition(": ")
    return f"{name}: (\n{8 * ' '}{kind}\n    )"


def _write_type(kind: Any) -> str:
    written = []
    for member in list_members(kind):
        arguments = get_args(member)
        if get_origin(member) is Literal:
            texts = ", ".join(f'"{each}"' for each in arguments)
            written.append(f"Literal[{texts}]")
        elif get_origin(member) in (list, dict):
            written.append(f"{get_origin(member).__name__}[{', '.join(map(_write_type, arguments))}]")
        elif isinstance(member, type) and issubclass(member, BaseModel):
            written.append(f"{member.__name__} | dict[str, Any]")
        else:
            written.append(member.__name__)
    is_optional = type(None) in get_args(get_args(kind)[0] if get_origin(kind) is Annotated else kind)
    return " | ".join([*written, "None"] if is_optional else written)


if __name__ == "__main__":
    FILE.write_text(write_keywords())
