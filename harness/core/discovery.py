"""Find what the modules of a package declare, so that one new file adds an item, and import a user's file."""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import importlib.util
import pkgutil
import sys
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from harness.core.errors import HarnessError, UsageError


def names_python_file(name: str) -> bool:
    """Return whether a name belongs to a Python file. Every command that takes such a file asks here."""
    return name.lower().endswith(".py")


def import_user_file(path: Path, *, subject: str) -> ModuleType:
    """Import a user's Python file on the host and return the module.

    `subject` names the file in an error. Raises UsageError, with the line, for anything that the user's code
    raises, but a HarnessError as it is.
    """
    name = f"harness_user_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(name, path, loader=_UserFileLoader(name, str(path)))
    if spec is None or spec.loader is None:
        raise UsageError(f"{subject}: cannot be imported as a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # because dataclasses look up their module there
    try:
        spec.loader.exec_module(module)
    except HarnessError:
        raise
    except (Exception, SystemExit) as error:
        hint = "mend the file"
        if isinstance(error, ModuleNotFoundError) and error.name:
            hint = f"correct the name, or install the package that has the module {error.name}"
        raise UsageError(f"{subject}: {describe_user_error(error, path)}", hint=hint) from error
    return module


def describe_user_error(error: BaseException, path: Path) -> str:
    """Return the type and the message of an error, and the last line of the user's file in its traceback."""
    line, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    where = "" if line is None else f"line {line}: "
    return f"{where}{type(error).__name__}: {error}"


class _UserFileLoader(SourceFileLoader):
    """Loads a Python file from its source, and neither reads nor writes bytecode.

    Python uses old bytecode if the time (in seconds) and the size of the source are unchanged. An edit that
    keeps both would be missed.
    """

    def get_code(self, fullname: str) -> CodeType:
        """Return the code of the file, compiled now."""
        return self.source_to_code(self.get_data(self.path), self.path)


def list_declared(package: str, constant: str) -> Iterator[Any]:
    """Yield the items of the tuple named `constant` of each module of `package` that has one."""
    parent: ModuleType = importlib.import_module(package)
    for found in pkgutil.iter_modules(parent.__path__):
        yield from getattr(importlib.import_module(f"{package}.{found.name}"), constant, ())


def find_declared(package: str, constant: str, name: str) -> tuple[Any, ...]:
    """Return the items of the tuple named `constant` of the module for an item's name.

    The module is the one that the first part of `name` names, up to a dash and without a number at its end,
    or else the one that its last part names. No other module is imported. The result is empty if there is no
    such module, and the item may still be in another module.
    """
    parent = importlib.import_module(package)
    modules = {found.name for found in pkgutil.iter_modules(parent.__path__)}
    declared: tuple[Any, ...] = ()
    for module in (name.partition("-")[0].rstrip("0123456789"), name.rpartition("-")[2]):
        if module in modules and name not in map(_name_of, declared):
            declared = getattr(importlib.import_module(f"{package}.{module}"), constant, ())
    return declared


def _name_of(item: Any) -> object:
    """Return the name of a declared item, which is a pair of a name and an object, or has a name itself."""
    return item[0] if isinstance(item, tuple) else item.name


def load_entry_points(group: str) -> Iterator[tuple[str, Any]]:
    """Yield the name and the object of each entry point of installed packages in `group`.

    Raises UsageError for an entry point that cannot be imported.
    """
    for found in sorted(importlib.metadata.entry_points(group=group), key=lambda each: each.name):
        try:
            yield found.name, found.load()
        except Exception as error:  # a module of another package may raise anything
            package = found.dist.name if found.dist else "?"
            raise UsageError(
                f"entry point '{found.name}' of package {package}: {type(error).__name__}: {error}",
                hint=f"repair or remove the package that declares {group}",
            ) from error
