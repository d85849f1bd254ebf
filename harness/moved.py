"""Find modules under their names of earlier releases, with a warning.

Own benchmarks, agents and graders import them. The old names go with the next release.
"""

from __future__ import annotations

import sys

# Every start of the process imports this module, so it imports the rest only for an old name.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

_MOVED = {
    "harness.agents": "harness.runs.agents",
    "harness.config": "harness.runs.config",
    "harness.data": "harness.benchmarks.data",
    "harness.environments.tool": "harness.core.tools",
    "harness.evaluation": "harness.runs",
    "harness.inputs": "harness.core.inputs",
    "harness.machine": "harness.sandbox.machine",
    "harness.relay": "harness.models.relay",
    "harness.scoring": "harness.core.scoring",
    "harness.text": "harness.core.text",
    "harness.types": "harness.core.types",
    "harness.viewer": "harness.reports.viewer",
}


def find_new_name(name: str) -> str | None:
    """Return the present name of a module, or None if its name is not an old one."""
    for old, new in _MOVED.items():
        if name == old or name.startswith(f"{old}."):
            return new + name.removeprefix(old)
    return None


class OldNames:
    """Finds and loads modules by their old names. Each is the module itself, under a second name."""

    def __init__(self) -> None:
        self._specs: dict[str, ModuleSpec | None] = {}

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        new = find_new_name(fullname)
        if new is None:
            return None
        import warnings
        from importlib.machinery import ModuleSpec

        warnings.warn(f"{fullname} is now {new}; the old name goes with the next release", FutureWarning, 2)
        # Without the abstract class of loaders, whose import takes 30 ms.
        loader: Any = self
        return ModuleSpec(fullname, loader)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        import importlib

        module = importlib.import_module(find_new_name(spec.name) or spec.name)
        self._specs[spec.name] = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Give the module back what the import has overwritten."""
        if module.__spec__ is not None:
            module.__spec__ = self._specs.pop(module.__spec__.name)


def install() -> None:
    """Let Python ask for old names first, because the folder of one may be left behind with its bytecode."""
    if not any(isinstance(finder, OldNames) for finder in sys.meta_path):
        finder: Any = OldNames()
        sys.meta_path.insert(0, finder)
