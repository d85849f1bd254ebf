"""Find the programs that may want sockets, which their sandbox allows then.

A program that is missed gets an error for each socket. Therefore a program counts as one without sockets only
if each of its imports is known to need none. The text decides, because a parser can fail on hostile text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

# Modules that open no socket, whatever a program calls in them.
WITHOUT_SOCKETS = frozenset(
    (
        *("__future__", "abc", "argparse", "array", "ast", "base64", "binascii", "bisect", "builtins"),
        *("calendar", "cmath", "collections", "collections.abc", "contextlib", "copy", "csv", "dataclasses"),
        *("datetime", "decimal", "difflib", "enum", "errno", "fractions", "functools", "gc", "hashlib"),
        *("heapq", "hmac", "html", "inspect", "io", "itertools", "json", "keyword", "locale", "math"),
        *("numbers", "numpy", "operator", "os", "os.path", "pprint", "queue", "random", "re", "reprlib"),
        *("resource", "secrets", "signal", "statistics", "string", "struct", "sys", "tempfile", "textwrap"),
        *("threading", "time", "timeit", "token", "tokenize", "traceback", "types", "typing", "unicodedata"),
        *("warnings", "weakref", "zlib", "zoneinfo"),
    )
)
# An import anywhere in the text, also in a string or a comment: `from` ORIGIN `import`, and the rest of the
# line.
IMPORT = re.compile(r"(?:\bfrom[ \t]+([\w.]+)[ \t]+)?\bimport\b([^\n;#]*)")
MODULE = re.compile(r"\s*([\w.]+)(?:\s+as\s+\w+)?\s*")
# Other ways to import, to start other programs, and to name what programs without sockets do not find.
OTHER_WAYS = re.compile(
    r"__import__|importlib|import_module|__loader__|__spec__|sys\.modules|socket|multiprocessing|asyncio|ctypes|_posixsubprocess"
    r"|\b(?:system|popen|posix_spawnp?|spawn[lv]p?e?|exec[lv]p?e?)\b|/proc\b|/sys\b|/etc\b"
)
# Each match of OTHER_WAYS has one of these. To look for them takes a tenth of the time of the expression.
MARKS = (
    *("__import__", "importlib", "import_module", "__loader__", "__spec__", "modules", "socket"),
    *("multiprocessing", "asyncio", "ctypes", "_posixsubprocess", "system", "popen", "spawn", "exec"),
    *("/proc", "/sys", "/etc"),
)
# Longer programs are not searched, because the worst of them would keep the event loop for 0.1 s a MiB.
MOST_CHARACTERS = 1 << 17


def may_need_sockets(sources: Iterable[str]) -> bool:
    """Return whether any of these sources of Python may want a socket other than a local pair."""
    return any(_may_need_sockets(source) for source in sources)


def _may_need_sockets(source: str) -> bool:
    if len(source) > MOST_CHARACTERS:
        return True
    if any(mark in source for mark in MARKS) and OTHER_WAYS.search(source):
        return True
    # An import ends with its line at the latest.
    lines = (line for line in source.split("\n") if "import" in line) if "import" in source else ()
    return any(not _is_harmless(*found) for line in lines for found in IMPORT.findall(line))


def _is_harmless(origin: str, rest: str) -> bool:
    """Return whether an import is of harmless modules alone. `origin` is empty without `from`."""
    if origin:
        return origin in WITHOUT_SOCKETS and "import" not in rest
    modules = [MODULE.fullmatch(part) for part in rest.split(",")]
    return all(module is not None and module[1] in WITHOUT_SOCKETS for module in modules)
