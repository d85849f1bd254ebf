"""A plugin of pytest that keeps the agent's code out of the tests' process, and reports to the host.

The kernel refuses the agent's files to this process (`separation`). This plugin opens the ways that are
safe: a module of the agent becomes a proxy, a program that the tests start runs as the agent's user, and a
file that the tests open is read as data. Everything else that would run the agent's code stays refused.
"""

from __future__ import annotations

import builtins
import contextlib
import dis
import importlib
import inspect
import io
import json
import os
import pathlib
import shlex
import stat
import subprocess
import sys
import time
import types
from typing import Any, NoReturn

from . import module_proxies, separation

# Calls that start a program in other ways than `subprocess` does. This process would be its user.
_REFUSED = frozenset(
    (
        *("os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.startfile", "os.system"),
        "pty.spawn",
    )
)
_READ_ONLY = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_DIRECTORY
# Modules that run texts of their own making. A text that another module runs may be the agent's: a template,
# a formula, an example in documentation.
_OWN_TEXTS = (
    *("/collections/__init__.py", "/dataclasses.py", "/unittest/mock.py"),
    *("/attr/_make.py", "/hypothesis/internal/reflection.py"),
)
# The names that a text may use if it makes plain data, and instructions that change more than the result.
_MAKERS_OF_DATA = frozenset(
    (
        *("bool", "bytearray", "bytes", "complex", "dict", "float", "frozenset", "int", "list", "range"),
        *("set", "str", "tuple"),
    )
)
_STORES = ("STORE_NAME", "STORE_GLOBAL", "DELETE_", "IMPORT_")
# Methods of PyYAML that find classes and functions by the names in a text, as pickle does.
_YAML_NAMES = ("find_python_module", "find_python_name", "make_python_instance")
MAX_NAMES = 20


class Refused(RuntimeError):
    """The tests would run code of the agent as themselves."""


class Session:
    """The facts of one run of pytest, which the host reads when every process is dead."""

    def __init__(self) -> None:
        names = os.environ.pop(separation.OBJECT_NAMES, None)
        self.agent = module_proxies.AgentProcess(None if names is None else frozenset(names.split()))
        self.collected: list[str] = []
        self.reported: set[str] = set()
        self.is_finished = False
        # The agent's modules and programs that the tests ran, and what was refused to them.
        self.imported: list[str] = []
        self.started: list[str] = []
        self.refused: list[str] = []
        # Whether the tests have read a file of the agent or run its code, so that any text and any file that
        # is newer than the tests' process may be code of the agent.
        self.has_met_agent = False
        self.began = time.time()
        self.may_fork = False

    def note(self, kind: list[str], name: object) -> None:
        if len(kind) < MAX_NAMES and (text := str(name)[:300]) not in kind:
            kind.append(text)

    def refuse(self, what: str) -> NoReturn:
        self.note(self.refused, what)
        raise Refused(f"{what}: this would run code of the agent as the tests")

    def report(self) -> None:
        """Write the facts to a file that the agent's code cannot reach."""
        proxy, names = self.agent.peer, self.agent.names
        facts = {
            "collected": self.collected,
            "unreported": [name for name in self.collected if name not in self.reported],
            "finished": self.is_finished,
            "imported": self.imported,
            "started": self.started,
            "refused": self.refused,
            "kinds": [] if proxy is None else proxy.kinds(),
            "names": sorted(names.used) if isinstance(names, module_proxies.UsedNames) else [],
        }
        draft = f"{separation.REPORTS}/{os.getpid()}"
        with _Originals.open(f"{draft}.draft", "w", encoding="utf-8") as file:
            json.dump(facts, file)
        os.replace(f"{draft}.draft", f"{draft}.json")


class _Originals:
    """The functions that this plugin replaces."""

    open = staticmethod(io.open)
    os_open = staticmethod(os.open)
    popen = staticmethod(subprocess.Popen.__init__)


def _restore_variables() -> None:
    """Give programs that the tests start the variables that the tests themselves would have."""
    for line in os.environ.pop(separation.RESTORED, "").split("\n"):
        name, given, value = line.partition("=")
        if given:
            os.environ[name] = value
        elif name:
            os.environ.pop(name, None)
    sys.path[:] = [folder for folder in sys.path if folder != separation.FOLDER]


def _install(session: Session) -> None:
    machinery: Any = importlib._bootstrap_external
    _replace_loader(machinery._LoaderBasics, session)
    _replace_loader(machinery.ExtensionFileLoader, session)
    _replace_open(session)
    _replace_popen(session)
    sys.addaudithook(_make_hook(session))


def _replace_loader(kind: Any, session: Session) -> None:
    run, create = kind.exec_module, kind.create_module

    def exec_module(self: Any, module: Any) -> None:
        path = getattr(self, "path", None)
        if path is None or not separation.belongs_to_agent(path):
            run(self, module)
            if module.__name__ == "yaml.constructor":
                _refuse_names_in_yaml(module, session)
            return
        session.note(session.imported, path)
        session.has_met_agent = True
        session.agent.load(module, os.path.abspath(path))

    def create_module(self: Any, spec: Any) -> Any:
        return None if separation.belongs_to_agent(getattr(self, "path", None)) else create(self, spec)

    kind.exec_module, kind.create_module = exec_module, create_module


def _replace_open(session: Session) -> None:
    """Let the tests read the agent's files as data, with the agent's eyes."""

    def open_file(file: Any, mode: Any = "r", *args: Any, **kwargs: Any) -> Any:
        try:
            return _Originals.open(file, mode, *args, **kwargs)
        except PermissionError:
            if set("wax+") & set(mode) or not separation.belongs_to_agent(file):
                raise
        session.has_met_agent = True
        with separation.as_agent():
            return _Originals.open(file, mode, *args, **kwargs)

    def os_open(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
        try:
            return _Originals.os_open(path, flags, *args, **kwargs)
        except PermissionError:
            if flags & ~_READ_ONLY or not separation.belongs_to_agent(path):
                raise
        session.has_met_agent = True
        with separation.as_agent():
            return _Originals.os_open(path, flags, *args, **kwargs)

    builtins.open = io.open = open_file
    os.open = os_open
    accessor = getattr(pathlib, "_NormalAccessor", None)
    if accessor is not None:
        accessor.open = staticmethod(open_file)
    tarfile = sys.modules.get("tarfile")
    if tarfile is not None:
        tarfile.bltn_open = open_file  # type: ignore[attr-defined]


def _replace_popen(session: Session) -> None:
    """Let every program that the tests start run as the agent's user."""
    parameters = inspect.signature(_Originals.popen)

    def start(self: Any, *args: Any, **kwargs: Any) -> None:
        given = parameters.bind(self, *args, **kwargs).arguments
        given.update(given.pop("kwargs", {}))
        if given.get("user") is not None or given.get("group") is not None:
            session.note(session.refused, "a program with a user of its own")
            raise Refused("a program of the tests has a user of its own")
        for word in _words(given.get("args")):
            place = os.path.join(os.fsdecode(given.get("cwd") or "."), word)
            if separation.belongs_to_agent(place):
                session.note(session.started, place)
        session.has_met_agent = True
        for stream in ("stdin", "stdout", "stderr"):
            if given.get(stream) is None:
                given[stream] = subprocess.DEVNULL
        env = dict(os.environ if given.get("env") is None else given["env"])
        given["env"] = {**env, "HOME": separation.HOME, "TMPDIR": separation.HOME}
        given.update(user=separation.AGENT_UID, group=separation.AGENT_GID, extra_groups=[], close_fds=True)
        _Originals.popen(**given)

    subprocess.Popen.__init__ = start  # type: ignore[method-assign]


def _words(args: Any) -> list[str]:
    """Return the words of a command that may be paths."""
    if isinstance(args, (str, bytes, os.PathLike)):
        text = os.fsdecode(args)
        try:
            return shlex.split(text)
        except ValueError:
            return text.split()
    return [os.fsdecode(arg) for arg in args or () if isinstance(arg, (str, bytes, os.PathLike))]


def _refuse_names_in_yaml(module: Any, session: Session) -> None:
    """Refuse a text in YAML that names classes and functions of Python, once it may be the agent's."""

    def replace(find: Any) -> Any:
        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            if session.has_met_agent:
                session.refuse("a name in YAML, after the tests have met the agent's code")
            return find(self, *args, **kwargs)

        return method

    for kind in (module.FullConstructor, module.UnsafeConstructor):
        for name in set(_YAML_NAMES).intersection(vars(kind)):
            setattr(kind, name, replace(getattr(kind, name)))


def _make_hook(session: Session) -> Any:
    """Return the audit hook that refuses to run the agent's code here."""

    def refuse_texts(what: str, caller: types.FrameType) -> None:
        name = caller.f_code.co_filename
        is_own = name.startswith("<frozen importlib") or "/_pytest/" in name or name.endswith(_OWN_TEXTS)
        if not is_own:
            session.refuse(f"{what}, after the tests have met the agent's code")

    def audit(event: str, args: tuple[Any, ...]) -> None:
        if event in _REFUSED and not session.may_fork:
            session.refuse(event)
        if event == "exec":
            name = getattr(args[0], "co_filename", "")
            if not name.startswith("<") and separation.belongs_to_agent(name):
                session.refuse(f"exec of {name}")
            if session.has_met_agent and not _only_makes_data(args[0]):
                refuse_texts("exec of a text", sys._getframe(1))
            if session.has_met_agent and _is_newer(name, session.began):
                session.refuse(f"exec of {name}, which is newer than the tests' process")
        elif event == "ctypes.dlopen" and args[0]:
            if separation.belongs_to_agent(args[0]) or _is_newer(args[0], session.began):
                session.refuse(f"ctypes.dlopen of {args[0]}")
        elif session.has_met_agent and event == "pickle.find_class":
            session.refuse("pickle, after the tests have met the agent's code")
        elif session.has_met_agent and event in ("marshal.loads", "marshal.load"):
            refuse_texts("marshal", sys._getframe(1))

    return audit


def _only_makes_data(code: types.CodeType) -> bool:
    """Return whether code does nothing but make plain data, whoever has written its text."""
    if not _MAKERS_OF_DATA.issuperset(code.co_names):
        return False
    if any(each.opname.startswith(_STORES) for each in dis.get_instructions(code)):
        return False
    return all(_only_makes_data(each) for each in code.co_consts if isinstance(each, types.CodeType))


def _is_newer(path: Any, moment: float) -> bool:
    """Return whether a file, or the archive that it is in, has changed since a moment."""
    path = os.fsdecode(path)
    while path not in ("", "/"):
        try:
            facts = os.stat(path)
        except OSError:
            path = os.path.dirname(path)
            continue
        return stat.S_ISREG(facts.st_mode) and facts.st_ctime > moment
    return False


class Reporter:
    """The hooks of pytest."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def pytest_collection_finish(self, session: Any) -> None:
        self._session.collected = [item.nodeid for item in session.items]

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call" or report.outcome != "passed":
            self._session.reported.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        """End the agent's processes before any report is written, and write our own."""
        self._session.may_fork = True
        try:
            separation.end_agent()
        finally:
            self._session.may_fork = False
        self._session.is_finished = True
        self._session.report()


# As `pytest.hookimpl` does. Without pytest, this file can be read as well.
Reporter.pytest_sessionfinish.pytest_impl = {"tryfirst": True}  # type: ignore[attr-defined]


def pytest_configure(config: Any) -> None:
    """Refuse settings of the agent, and report that this plugin is active."""
    session = _BEGUN[0] if _BEGUN else None
    if session is None:
        return
    if config.inipath is not None and separation.belongs_to_agent(config.inipath):
        session.note(session.refused, f"settings of pytest in {config.inipath}")
        raise Refused(f"the settings of pytest in {config.inipath} are the agent's")
    config.pluginmanager.register(Reporter(session), "harness_reporter")
    session.report()


_BEGUN: list[Session] = []
with contextlib.suppress(FileNotFoundError):
    if os.geteuid() == 0 and os.stat(separation.REPORTS).st_uid == 0 and separation.RESTORED in os.environ:
        _BEGUN.append(Session())
        _restore_variables()
        _install(_BEGUN[0])
