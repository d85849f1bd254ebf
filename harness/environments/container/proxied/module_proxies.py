"""Give the tests proxies for the modules of an agent, which run in a process of another user.

The stand-ins are the ones that asserts use to reach a candidate. An object of the agent has the attributes
and the special methods that the tests used when the reference passed, and no others. So an object that claims
to be near every number is of no use where the reference returns numbers. A comparison with plain data is
never the agent's to make: its object is then unequal.
"""

from __future__ import annotations

import builtins
import os
import socket
import subprocess
import sys
import threading
import types
from typing import Any

from harness.environments.python.guest import conversation, exceptions, peer, plain, remote, values

from . import separation

_SERVE = (
    "import sys; sys.path.insert(0, {folder!r}); from {package} import module_server; "
    "sys.path.pop(0); module_server.main({descriptor})"
)
# The variables that a program needs to run at all. Others may be secrets of the tests.
_VARIABLES = (
    "PATH",
    "LANG",
    "LC_ALL",
    "TZ",
    "PYTHONHASHSEED",
    "PYTHONPATH",
    "VIRTUAL_ENV",
    "LD_LIBRARY_PATH",
)
_STAND_INS: dict[int, type[remote.RemoteObject]] = {
    **dict.fromkeys((values.OPAQUE, values.INSTANCE, values.ITERABLE), remote.RemoteInstance),
    **dict.fromkeys((values.CALLABLE_INSTANCE, values.CALLABLE_ITERABLE), remote.RemoteCallableInstance),
    **dict.fromkeys((values.CALLABLE, values.CLASS), remote.RemoteClass),
}
# Python has had groups of exceptions since 3.11. An image may bring an older one.
if not hasattr(builtins, "BaseExceptionGroup"):
    exceptions.BaseExceptionGroup = type("NoGroup", (BaseException,), {})  # type: ignore[attr-defined]


class UsedNames(frozenset[str]):
    """All names. It notes the ones that the tests use."""

    def __init__(self, _names: object = ()) -> None:
        self.used: set[str] = set()

    def __contains__(self, name: object) -> bool:
        if isinstance(name, str):
            self.used.add(name)
        return True


class _Link(conversation.Live):
    """The stream to the agent's process. Nothing is kept, because nothing is replayed."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor)
        # Whether an answer is on its way. A test that is interrupted now would take it for another one.
        self.is_waiting = False

    def send(self, *message: Any) -> conversation.Turn:
        self.parts = [[]]
        self.is_waiting = True
        return super().send(*message)

    def receive(self) -> tuple[bytes, bytes]:
        self.is_waiting = True
        message = super().receive()
        self.is_waiting = False
        return message

    def _take_room(self, size: int) -> None:
        pass


class ModulePeer(peer.Candidate):
    """The tests' end of the conversation with the agent's process."""

    def __init__(self, descriptor: int, names: frozenset[str]) -> None:
        self._waits = _Link(descriptor)
        super().__init__(self._waits, {})
        self.attributes = names
        self._lock = threading.RLock()

    def load_module(self, module: types.ModuleType, path: str, search: list[str]) -> None:
        """Let the agent's process run the file of a module, and make the module a proxy of it."""
        folders = getattr(module, "__path__", None)
        found = self.ask(
            conversation.LOAD,
            (module.__name__, path, None if folders is None else list(folders), search, os.getcwd()),
        )
        if not isinstance(found, remote.RemoteInstance):
            raise ImportError("the agent's process returned no module", name=module.__name__, path=path)
        # `import *` finds nothing, because the agent could give the tests a name of their own by it.
        module.__dict__.update(__remote__=(self, found), __all__=[])
        module.__class__ = ProxyModule

    def attribute(self, owner: object, name: str) -> Any:
        """Return the attribute of an object: a plain value, a class to catch, or a stand-in."""
        found = self.ask(conversation.GET, (owner, name))
        if type(found) is not tuple or len(found) != 2:
            raise self._breach("a name without its value")
        value, description = found
        if isinstance(value, remote.RemoteClass) and description is not None:
            return self._class_to_catch(description)
        return value

    def operate(self, operation: str, *operands: Any) -> Any:
        if operation == "getattr":
            return self.attribute(*operands)
        return super().operate(operation, *operands)

    def _remote(self, kind: int, number: int, description: Any = None) -> object:
        stand_in = _STAND_INS.get(kind)
        if stand_in is None:
            found = super()._remote(kind, number, description)
            if isinstance(found, type) and peer.catches_failures(found):
                raise plain.ValueRefused(f"{found.__name__} in the place of a value")
            return found
        return self._stand_in(stand_in, number)

    def _exchange(self, letter: bytes, payload: bytes, containers: list[object]) -> Any:
        with self._lock:
            try:
                return super()._exchange(letter, payload, containers)
            finally:
                if self._waits.is_waiting and self.lost is None:
                    self.lost = "a test was interrupted while it waited for the agent's code"


class ProxyModule(types.ModuleType):
    """A module whose names are asked for in the agent's process, each time anew."""

    def __getattr__(self, name: str) -> Any:
        remote_peer, module = self.__dict__["__remote__"]
        return remote_peer.attribute(module, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, types.ModuleType) or (name.startswith("__") and name.endswith("__")):
            super().__setattr__(name, value)
        else:
            remote_peer, module = self.__dict__["__remote__"]
            remote_peer.operate("setattr", module, name, value)

    def __delattr__(self, name: str) -> None:
        if name in self.__dict__:
            super().__delattr__(name)
        else:
            remote_peer, module = self.__dict__["__remote__"]
            remote_peer.operate("delattr", module, name)

    def __dir__(self) -> list[str]:
        remote_peer, module = self.__dict__["__remote__"]
        names = remote_peer.operate("dir", module)
        return sorted({*self.__dict__, *(name for name in names if type(name) is str)})


class AgentProcess:
    """The process of the agent's code, which starts when the tests load its first module."""

    def __init__(self, names: frozenset[str] | None) -> None:
        self.names = UsedNames() if names is None else names
        self.peer: ModulePeer | None = None

    def load(self, module: types.ModuleType, path: str) -> None:
        """Make a module the proxy of a file of the agent."""
        if self.peer is None:
            self.peer = ModulePeer(_start(), self.names)
        search = [folder for folder in sys.path if folder != separation.FOLDER]
        self.peer.load_module(module, path, search)


def _start() -> int:
    """Start the agent's process, and return the descriptor of the tests' end of the channel."""
    ours, theirs = socket.socketpair()
    with theirs:
        serve = _SERVE.format(
            folder=separation.FOLDER, package=__name__.rpartition(".")[0], descriptor=theirs.fileno()
        )
        subprocess.Popen(
            [sys.executable, "-c", serve],
            pass_fds=(theirs.fileno(),),
            env={name: os.environ[name] for name in _VARIABLES if name in os.environ},
        )
    return ours.detach()
