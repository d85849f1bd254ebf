"""Find the formats that harness reads and writes. Each is one file in a folder."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType

from harness.core.errors import unknown_name

# Other names that people type, which are also endings of files.
_ALIASES = {"md": "markdown", "xml": "junit", "txt": "table", "htm": "html"}


def list_formats(folders: Iterable[str]) -> list[str]:
    """Return the names of the formats in a package. It imports none, because help texts list them."""
    return sorted(found.name for found in pkgutil.iter_modules(folders))


def import_format(package: str, folders: Iterable[str], name: str, *, subject: str) -> ModuleType:
    """Return the module of the format `name`.

    Args:
        package: the name of the package that holds the formats.
        folders: the folders of the package, its `__path__`.
        name: the name of a format, or one of its other names: `md` for `markdown`.
        subject: the noun for the formats in an error.

    Raises:
        UsageError: There is no such format.
    """
    known = list_formats(folders)
    name = _find_name(name, known)
    if name not in known:
        raise unknown_name(subject, name, known)
    return importlib.import_module(f"{package}.{name}")


def guess_format(path: Path, folders: Iterable[str]) -> str | None:
    """Return the name of the format that the ending of a file names, None if it names none."""
    known = list_formats(folders)
    name = _find_name(path.suffix.removeprefix(".").lower(), known)
    return name if name in known else None


def list_endings(folders: Iterable[str]) -> list[str]:
    """Return the endings of files that name a format, each with its point."""
    known = list_formats(folders)
    return sorted(f".{name}" for name in {*known, *(each for each, of in _ALIASES.items() if of in known)})


def _find_name(name: str, known: Sequence[str]) -> str:
    alias = _ALIASES.get(name, name)
    return name if name in known or alias not in known else alias
