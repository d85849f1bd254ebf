"""Find out by its syntax tree whether a check in Python believes an agent.

Python keeps texts apart from code, so a check may read an agent's files and compare them. It must not execute
a text, start a program of the agent, pass on an exception, or decide by a number that is not one.
"""

from __future__ import annotations

import ast
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from harness.environments.os.checks.shell_syntax import NotUnderstood
from harness.environments.os.checks.shell_values import Trusting
from harness.environments.os.scripts import is_plain_node

_MODULES = frozenset(
    (
        *("base64", "collections", "configparser", "csv", "datetime", "decimal", "difflib", "filecmp"),
        *("fnmatch", "fractions", "functools", "glob", "grp", "hashlib", "itertools", "json", "math"),
        *("operator", "os", "os.path", "pathlib", "pwd", "re", "stat", "statistics", "string", "subprocess"),
        *("sys", "textwrap", "time", "typing", "unicodedata"),
    )
)
_EXECUTING_NAMES = frozenset(
    (
        *("breakpoint", "compile", "delattr", "eval", "exec", "getattr", "globals", "help"),
        *("locals", "setattr", "vars", "__import__", "__builtins__"),
    )
)
_OF_OS = frozenset(
    (
        *("F_OK", "R_OK", "W_OK", "X_OK", "access", "curdir", "environ", "fspath", "fsdecode"),
        *("fsencode", "getcwd", "getenv", "getuid", "linesep", "listdir", "lstat", "name"),
        *("path", "pardir", "popen", "readlink", "scandir", "sep", "stat", "system", "walk"),
        *("chdir", "PathLike", "DirEntry"),
    )
)
_OF_SUBPROCESS = frozenset(
    (
        *("CalledProcessError", "CompletedProcess", "DEVNULL", "PIPE", "STDOUT"),
        *("TimeoutExpired", "call", "check_call", "check_output", "getoutput", "getstatusoutput"),
        *("run", "SubprocessError"),
    )
)
_STARTING = frozenset(
    ("system", "popen", "call", "check_call", "check_output", "getoutput", "getstatusoutput", "run")
)
# Methods of paths, files and modules that change the machine.
_CHANGING = frozenset(
    (
        *("chmod", "hardlink_to", "mkdir", "rename", "rmdir", "symlink_to", "touch", "unlink"),
        *("write_bytes", "write_text", "writelines", "modules", "meta_path", "path_hooks"),
    )
)
_PATTERN_FUNCTIONS = frozenset(
    ("compile", "findall", "finditer", "fullmatch", "match", "search", "split", "sub", "subn")
)
_ORDERINGS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_EXITS = frozenset(("exit", "quit"))


@dataclass(frozen=True, slots=True)
class PythonFindings:
    """The findings about a check in Python that does not believe an agent."""

    # Whether it reads nothing but its parameters and its input.
    is_plain: bool


def analyse_python(code: str, check_shell: Callable[[str], object]) -> PythonFindings:
    """Return the findings about a check in Python.

    Args:
        code: the check.
        check_shell: raises Trusting unless a shell's command is a sound check of its own.

    Raises:
        Trusting: for a check that believes an agent.
        NotUnderstood: for text that is not Python.
    """
    try:
        tree = ast.parse(code)
        nodes = list(ast.walk(tree))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise NotUnderstood(f"its Python cannot be parsed: {error}") from error
    analysis = _Analysis(nodes, check_shell)
    for node in nodes:
        analysis.check(node)
    return PythonFindings(all(is_plain_node(node) for node in nodes))


class _Analysis:
    def __init__(self, nodes: list[ast.AST], check_shell: Callable[[str], object]) -> None:
        self._check_shell = check_shell
        # The functions and modules by the names that the check gives them.
        self._origins: dict[str, str] = {}
        self._functions: dict[str, ast.FunctionDef] = {}
        self._assigned: dict[str, list[ast.expr | None]] = {}
        for node in nodes:
            self._note(node)
        self._has_floats = any(self._is_call_of(node, "float", "Decimal") for node in nodes)

    def _note(self, node: ast.AST) -> None:
        match node:
            case ast.Import(names=names):
                self._origins |= {each.asname or each.name.split(".")[0]: each.name for each in names}
            case ast.ImportFrom(module=module, names=names):
                self._origins |= {each.asname or each.name: f"{module}.{each.name}" for each in names}
            case ast.FunctionDef(name=name):
                self._functions[name] = node
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    is_name = isinstance(target, ast.Name)
                    for each in ast.walk(target):
                        if isinstance(each, ast.Name):
                            self._assigned.setdefault(each.id, []).append(value if is_name else None)
            case ast.AnnAssign(target=ast.Name(id=name), value=value):
                self._assigned.setdefault(name, []).append(value)
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                self._assigned.setdefault(name, [])
                if isinstance(node, ast.arg):
                    self._assigned[name].append(None)

    def check(self, node: ast.AST) -> None:
        """Raise Trusting if a node of the tree can believe an agent."""
        match node:
            case ast.Import(names=names):
                self._require_modules(each.name for each in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                self._require_modules([module or ""] if level == 0 else ["."])
                for each in names:
                    self._check_member(module or "", each.name)
            case ast.Name(id=name) if name in _EXECUTING_NAMES or (
                name.startswith("__") and name != "__name__"
            ):
                raise Trusting(f"uses `{name}`, which can execute a text of the agent's")
            case ast.Attribute(value=value, attr=name):
                if name.startswith("_") or name in _CHANGING:
                    raise Trusting(f"uses `{name}`, which changes the machine or reaches into Python")
                self._check_member(self._origin_of(value) or "", name)
            case ast.Call():
                self._check_call(node)
            case ast.ExceptHandler(body=body):
                if not self._fails(body):
                    raise Trusting("goes on after an exception, which a text of the agent's can cause")
            case ast.If(test=test, body=body):
                if self._has_floats and self._fails(body) and _compares_order(test):
                    raise Trusting("fails only if a number is too large or small, and `nan` is neither")
            case ast.AsyncFunctionDef() | ast.Await() | ast.Global() | ast.Nonlocal():
                raise Trusting("uses syntax that is not analysed")

    def _require_modules(self, names: Iterator[str] | list[str]) -> None:
        for name in names:
            if name not in _MODULES:
                raise Trusting(f"imports `{name}`, which is not among the modules that only read")

    def _check_member(self, module: str, name: str) -> None:
        allowed = {"os": _OF_OS, "subprocess": _OF_SUBPROCESS}.get(module)
        if name == "*" or (allowed is not None and name not in allowed):
            raise Trusting(f"uses `{module}.{name}`, which is not among the functions that only read")

    def _origin_of(self, node: ast.expr) -> str | None:
        """Return the full name of a module or of its member, None for anything else."""
        match node:
            case ast.Name(id=name):
                return self._origins.get(name)
            case ast.Attribute(value=value, attr=name):
                origin = self._origin_of(value)
                return None if origin is None else f"{origin}.{name}"
        return None

    def _is_call_of(self, node: ast.AST, *names: str) -> bool:
        if not isinstance(node, ast.Call):
            return False
        if isinstance(node.func, ast.Name) and node.func.id in names:
            return True
        origin = self._origin_of(node.func) or ""
        return origin.rpartition(".")[2] in names

    def _check_call(self, call: ast.Call) -> None:
        if (isinstance(call.func, ast.Name) and call.func.id == "open") or self._is_open_method(call):
            self._check_open(call)
        origin = self._origin_of(call.func) or ""
        module, _, name = origin.rpartition(".")
        if module in ("os", "subprocess") and name in _STARTING:
            self._check_start(call, name)
        if module == "re" and name in _PATTERN_FUNCTIONS:
            self._check_pattern(call)
        is_exit = origin == "sys.exit" or (isinstance(call.func, ast.Name) and call.func.id in _EXITS)
        if is_exit and not all(self._is_status(argument) for argument in call.args):
            raise Trusting("exits with a number that the agent chooses, and of 256 the system makes 0")

    @staticmethod
    def _is_open_method(call: ast.Call) -> bool:
        return isinstance(call.func, ast.Attribute) and call.func.attr == "open"

    def _check_open(self, call: ast.Call) -> None:
        place = 0 if self._is_open_method(call) else 1
        modes = [*call.args[place : place + 1], *(key.value for key in call.keywords if key.arg == "mode")]
        names = {key.arg for key in call.keywords}
        is_read = all(isinstance(mode, ast.Constant) and mode.value in ("r", "rb", "rt") for mode in modes)
        if not is_read or "opener" in names or None in names:
            raise Trusting("opens a file for writing")

    def _check_start(self, call: ast.Call, name: str) -> None:
        """Raise Trusting unless the started command is a sound check of its own."""
        keywords = {key.arg: key.value for key in call.keywords}
        unknown = keywords.keys() - {
            *("shell", "capture_output", "text", "check", "stdout", "stderr", "timeout", "encoding"),
            *("errors", "universal_newlines", "stdin", "input"),
        }
        command = call.args[0] if len(call.args) == 1 else None
        is_shell = name in ("system", "popen", "getoutput", "getstatusoutput") or _is_true(
            keywords.get("shell")
        )
        code: str | None = None
        if is_shell and isinstance(command, ast.Constant) and isinstance(command.value, str):
            code = command.value
        elif not is_shell and isinstance(command, ast.List):
            words = [each.value if isinstance(each, ast.Constant) else None for each in command.elts]
            code = shlex.join(str(word) for word in words) if None not in words else None
        if code is None or unknown:
            raise Trusting("starts a command that is made when the check runs")
        self._check_shell(code)

    def _check_pattern(self, call: ast.Call) -> None:
        patterns = [*call.args[:1], *(key.value for key in call.keywords if key.arg == "pattern")]
        for pattern in patterns:
            if not _is_constant_text(pattern) and not self._is_call_of(pattern, "escape"):
                raise Trusting("searches for a pattern that is not its own")

    def _fails(self, body: list[ast.stmt]) -> bool:
        """Return whether a block ends the check as failed."""
        match body[-1] if body else None:
            case ast.Raise():
                return True
            case ast.Assert(test=ast.Constant(value=value)):
                return not value
            case ast.Expr(value=ast.Call(args=[ast.Constant(value=code)]) as call):
                ends = self._is_call_of(call, "exit", "quit")
                return ends and (isinstance(code, str) or (type(code) is int and code % 256 != 0))
        return False

    def _is_status(self, node: ast.expr, depth: int = 0) -> bool:
        """Return whether a value is a constant, or true or false, so that the system cannot cut it to 0."""
        match node:
            case ast.Constant() | ast.Compare() | ast.UnaryOp(op=ast.Not()):
                return True
            case ast.IfExp(body=body, orelse=orelse):
                return self._is_status(body, depth) and self._is_status(orelse, depth)
            case ast.BoolOp(values=values):
                return all(self._is_status(value, depth) for value in values)
            case ast.Call(func=ast.Name(id="int" | "bool" as name), args=[argument]):
                return name == "bool" or self._is_status(argument, depth)
            case ast.Call(func=ast.Name(id=name)) if name in self._functions and depth < 5:
                returned = [each for each in ast.walk(self._functions[name]) if isinstance(each, ast.Return)]
                return all(each.value is None or self._is_status(each.value, depth + 1) for each in returned)
            case ast.Name(id=name) if depth < 5:
                found = self._assigned.get(name, [None])
                return bool(found) and all(
                    value is not None and self._is_status(value, depth + 1) for value in found
                )
        return False


def _compares_order(test: ast.expr) -> bool:
    """Return whether a test is true only if a number is larger or smaller than another one."""
    match test:
        case ast.Compare(ops=operators):
            return any(isinstance(operator, _ORDERINGS) for operator in operators)
        case ast.BoolOp(values=values):
            return any(_compares_order(value) for value in values)
    return False


def _is_true(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def _is_constant_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
