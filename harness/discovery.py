"""Finding what the modules of a package declare, so that adding one is adding a file."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from types import ModuleType
from typing import Any


def declared(package: str, constant: str) -> Iterator[Any]:
    """Yield the items of the tuple `constant` of every module of `package` that has one."""
    parent: ModuleType = importlib.import_module(package)
    for found in pkgutil.iter_modules(parent.__path__):
        yield from getattr(importlib.import_module(f"{package}.{found.name}"), constant, ())
