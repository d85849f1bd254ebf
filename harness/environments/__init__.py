"""The environments, one folder each. Each folder defines `SPEC`, so there is no list."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Mapping
from functools import cache
from typing import Any

from harness.core.errors import unknown_name
from harness.environments.spec import EnvironmentSpec, Grader

__all__ = [
    "EnvironmentSpec",
    "Grader",
    "environment_spec",
    "environment_specs",
    "grader_of",
    "graders",
    "spec_of",
]


@cache
def environment_specs() -> Mapping[str, EnvironmentSpec]:
    """Return the spec of every environment, by name."""
    specs = [_load_spec(folder) for folder in list_folders()]
    return {spec.name: spec for spec in specs}


def environment_spec(name: str) -> EnvironmentSpec:
    """Return the spec of one environment. Raises UsageError for an unknown name.

    A folder has the name of its environment. Only that folder is imported, because all of them take longer
    than the start of a container.
    """
    if name in list_folders():
        return _load_spec(name)
    known = environment_specs()
    if name not in known:
        raise unknown_name("environment", name, known)
    return known[name]


@cache
def list_folders() -> tuple[str, ...]:
    """Return the names of the folders of this package."""
    return tuple(found.name for found in pkgutil.iter_modules(__path__) if found.ispkg)


def _load_spec(folder: str) -> EnvironmentSpec:
    spec: EnvironmentSpec = importlib.import_module(f"{__name__}.{folder}").SPEC
    return spec


@cache
def graders() -> Mapping[type, Grader]:
    """Return the grader of every kind of target, by the type of the target."""
    return {grader.target_type: grader for spec in environment_specs().values() for grader in spec.graders}


def grader_of(target: Any) -> Grader:
    """Return the grader for a target. Raises TypeError if its type has no grader."""
    return _find_judge(type(target))[1]  # type: ignore[arg-type]  # mypy takes no class as hashable


def spec_of(target: Any) -> EnvironmentSpec:
    """Return the spec of the environment whose grader judges a target.

    Raises TypeError if the type of the target has no grader.
    """
    return _find_judge(type(target))[0]  # type: ignore[arg-type]


@cache
def _find_judge(kind: type) -> tuple[EnvironmentSpec, Grader]:
    """Return the environment and the grader for a type of target. Raises TypeError if there are none.

    An import of all environments is the last resort.
    """
    folder = kind.__module__.removeprefix(f"{__name__}.").partition(".")[0]
    if folder in list_folders():
        _load_spec(folder)
    modules = (sys.modules.get(f"{__name__}.{folder}") for folder in list_folders())
    imported = [module.SPEC for module in modules if module is not None]
    for specs in (lambda: imported, lambda: environment_specs().values()):
        for spec in specs():
            for grader in spec.graders:
                if grader.target_type is kind:
                    return spec, grader
    raise TypeError(f"there is no grader for targets of the type {kind.__name__}")
