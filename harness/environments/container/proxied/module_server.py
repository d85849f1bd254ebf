"""Load modules of an agent in a process of their own, and serve the requests of the tests.

As in `candidate`, all of this runs in the untrusted process and protects nothing.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import types

from harness.environments.python.guest import candidate, conversation, decoding, exceptions, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _OwnModules:
    """The names of the modules whose classes are the agent's own: those that the tests load, and below."""

    def __init__(self) -> None:
        self.roots: set[str] = {"__main__"}

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.partition(".")[0] in self.roots


class ModuleServer(candidate.Program):
    """The modules that the tests have loaded, and the objects of them that the tests hold handles to."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor)
        self._own = _OwnModules()
        plain.PROGRAM_MODULES = self._own  # type: ignore[assignment]  # only asked for names
        self._loaded: set[str] = set()
        candidate.OPERATIONS["dir"] = dir

    def _answer(self, letter: bytes, payload: bytes) -> tuple[bytes, bytes]:
        if letter != conversation.LOAD:
            return super()._answer(letter, payload)
        argument = decoding.Decoder(self._object).decode(payload)
        return conversation.VALUE, self._encode(self._load_module(*argument))

    def _load_module(
        self, name: str, path: str, folders: list[str] | None, search: list[str], cwd: str
    ) -> types.ModuleType:
        """Run a module anew, or return the one that another module of the agent has imported."""
        self._own.roots.add(name.partition(".")[0])
        sys.path[:] = search
        os.chdir(cwd)
        known = sys.modules.get(name)
        if known is not None and name not in self._loaded and getattr(known, "__file__", None) == path:
            self._loaded.add(name)
            return known
        spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=folders)
        if spec is None or spec.loader is None:
            raise ImportError(f"no loader for {path}", name=name, path=path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        self._loaded.add(name)
        try:
            spec.loader.exec_module(module)
        except BaseException:
            sys.modules.pop(name, None)
            raise
        return module

    def _get(self, asked: Any) -> bytes:
        """Return the attribute of an object. For an exception class, add its description."""
        value = getattr(*asked)
        description = None
        if isinstance(value, type) and issubclass(value, BaseException):
            description = exceptions.describe_class(value, self._number_of)
        found = plain.as_function(value) if callable(value) else value, description
        return self._encode(found, marks=description is None)


def main(descriptor: int) -> None:
    """Serve the tests until they close the channel."""
    ModuleServer(descriptor).serve()
