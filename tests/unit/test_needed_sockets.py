"""The choice of programs whose sandboxes may share a network namespace."""

from __future__ import annotations

from case_checks import each_case

from harness.environments.python.needed_sockets import may_need_sockets

WITHOUT = {
    "no import": "def f(x):\n    return x + 1\n",
    "a module": "import math\nprint(math.pi)\n",
    "several modules, with names": "import sys, heapq as h, collections.abc as a  # for speed\n",
    "names of a module": "from typing import (\n    List,\n    Dict,\n)\nfrom collections import *\n",
    "two statements in a line": "import re; import sys\n",
    "a word that contains the statement": "important = 'imports'\n",
    "a string that is evaluated": "print(eval('1 + 1'))\n",
}
WITH = {
    "the module itself": "import socket\n",
    "a second module of a line": "import math, socketserver\n",
    "a module behind a name": "import math as m, http.server as h\n",
    "names of a module": "from multiprocessing.managers import BaseManager\n",
    "a submodule": "from concurrent import futures\n",
    "an unknown module": "import requests\n",
    "an import within a function": "def f():\n    import asyncio\n",
    "an import within a line": "if True: import xmlrpc.client\n",
    "a string with an import": "exec('import ssl')\n",
    "an import over two lines": "import math, \\\n    urllib.request\n",
    "an import with escapes in a string": "exec('import math\\nimport http.client')\n",
    "a relative import": "from . import math\n",
    "a dynamic import": "s = __import__('so' + 'cket')\n",
    "importlib": "from importlib import import_module\n",
    "a loaded module": "import sys\nsys.modules['sock' + 'et']\n",
    "a shell": "import os\nos.system('nc localhost 80')\n",
    "another program": "import os\nos.execvp('curl', ['curl'])\n",
    "names of another program": "from os import popen\n",
    "calls of the C library": "import ctypes\n",
    "a file of the network": "print(open('/etc/hosts').read())\n",
    "a folder that is masked": "print(open('/sys/class/net/lo/mtu').read())\n",
    "text that is not Python": "import (\n",
    "a very long text": "x = 1\n" * 200_000,
}


OTHER_WAYS = [
    *("__import__", "importlib", "import_module", "__loader__", "__spec__", "sys.modules", "socket"),
    *("multiprocessing", "asyncio", "ctypes", "_posixsubprocess", "system", "popen", "/proc", "/sys", "/etc"),
    *("posix_spawn", "posix_spawnp", "spawnl", "spawnv", "spawnlp", "spawnvp", "spawnle", "spawnve"),
    *("spawnlpe", "spawnvpe", "execl", "execv", "execlp", "execvp", "execle", "execve", "execlpe", "execvpe"),
]


@each_case("name", OTHER_WAYS)
def test_no_other_way_to_a_socket_is_missed_by_the_quick_look(name: str) -> None:
    assert may_need_sockets((f"x = 1\nx.{name}()\n",))


@each_case("name", WITHOUT)
def test_a_program_with_known_modules_alone_needs_no_socket(name: str) -> None:
    assert not may_need_sockets((WITHOUT[name],))


@each_case("name", WITH)
def test_a_program_that_could_open_a_socket_may_need_one(name: str) -> None:
    assert may_need_sockets((WITH[name],))


@each_case("name", WITH)
def test_each_source_counts_because_tests_run_with_the_program(name: str) -> None:
    assert may_need_sockets(("x = 1\n", WITH[name], "assert x == 1\n"))
