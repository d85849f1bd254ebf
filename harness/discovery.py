"""Finding what the modules of a package declare, so that adding one is adding a file."""

from __future__ import annotations

import importlib
import importlib.metadata
import pkgutil
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from harness.errors import UsageError


def declared(package: str, constant: str) -> Iterator[Any]:
    """Yield the items of the tuple `constant` of every module of `package` that has one."""
    parent: ModuleType = importlib.import_module(package)
    for found in pkgutil.iter_modules(parent.__path__):
        yield from getattr(importlib.import_module(f"{package}.{found.name}"), constant, ())


def entry_points(group: str) -> Iterator[tuple[str, Any]]:
    """Yield the name of every entry point that installed packages have in `group`, and what it names.

    Raises UsageError for one that cannot be imported.
    """
    for found in sorted(importlib.metadata.entry_points(group=group), key=lambda each: each.name):
        try:
            yield found.name, found.load()
        except Exception as error:  # whatever another package's module raises
            package = found.dist.name if found.dist else "?"
            raise UsageError(
                f"entry point '{found.name}' of package {package}: {type(error).__name__}: {error}",
                hint=f"repair or remove the package; it declares {group}",
            ) from error
