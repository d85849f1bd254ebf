"""Trusted scripts that set up an environment or check its state."""

from __future__ import annotations

import ast
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from harness.core.errors import DataError
from harness.environments.os.root_sandbox import RootSandbox
from harness.sandbox.results import ExecResult

Language = Literal["bash", "python", "c", "c++"]
LANGUAGES: tuple[str, ...] = get_args(Language)
# Full paths name the interpreters, and Python reads neither the working folder nor a user's packages.
_INTERPRETERS = {"bash": ("/bin/bash", "-c"), "python": ("/usr/bin/python3", "-I", "-c")}
_COMPILERS = {"c": ("/usr/bin/gcc", "c"), "c++": ("/usr/bin/g++", "cpp")}
# The same for the programs that a script in another language starts.
_ENVIRONMENT = {"PYTHONNOUSERSITE": "1", "PYTHONSAFEPATH": "1", "PYTHONDONTWRITEBYTECODE": "1"}
# None of these modules opens a file, starts a program or executes text as code.
_PLAIN_MODULES = {
    *("collections", "decimal", "fractions", "functools", "itertools", "json", "math"),
    *("operator", "re", "statistics", "string", "sys", "unicodedata"),
}
_REACHING_NAMES = {
    *("breakpoint", "compile", "delattr", "eval", "exec", "getattr", "globals", "help", "input", "locals"),
    *("open", "setattr", "vars"),
}
_REACHING_ATTRIBUTES = {"modules", "path", "meta_path", "path_hooks"}


@dataclass(frozen=True, slots=True)
class Script:
    """Source text in one of LANGUAGES. Raises DataError for another language and for NUL bytes."""

    language: Language
    code: str

    @property
    def is_compiled(self) -> bool:
        return self.language in _COMPILERS

    def __post_init__(self) -> None:
        if self.language not in LANGUAGES:
            raise DataError(
                f"a script has the language '{self.language}'; the languages are: {', '.join(LANGUAGES)}"
            )
        if "\0" in self.code:
            raise DataError("a script must not contain NUL bytes")


class CompilationFailed(Exception):
    """A script's source does not compile. `result` is the compiler's."""

    def __init__(self, result: ExecResult) -> None:
        super().__init__(str(result.stderr)[-500:])
        self.result = result


async def compile_script(sandbox: RootSandbox, script: Script, *, timeout: float) -> bytes:
    """Return the program that the compiler makes of a script in this sandbox, where no agent has acted.

    Raises CompilationFailed, SandboxError, and UsageError if the program is too large.
    """
    compiler, suffix = _COMPILERS[script.language]
    stem = _new_path()
    await sandbox.write_file(f"{stem}.{suffix}", script.code.encode())
    argv = [compiler, "-o", stem, f"{stem}.{suffix}"]
    compiled = await sandbox.run_script(argv, env=_ENVIRONMENT, timeout=timeout)
    if compiled.exit_code != 0:
        raise CompilationFailed(compiled)
    return await sandbox.read_file(stem)


async def run_script(
    sandbox: RootSandbox,
    script: Script,
    parameters: Sequence[str] = (),
    *,
    timeout: float,
    confined: bool = False,
    program: bytes | None = None,
) -> ExecResult:
    """Run a script as root in /root, with parameters, as AgentBench does, and return its result.

    Its first parameter is `$1` or `sys.argv[1]`. `timeout` is in seconds of wall time, for the compiler and
    for the program each. With `confined`, the programs that the script starts can neither change its tools
    nor inspect other processes. `program` is the result of `compile_script` in another sandbox. Raises
    SandboxError, and UsageError if a compiler's source cannot be written.
    """
    if script.is_compiled:
        try:
            program = program or await compile_script(sandbox, script, timeout=timeout)
        except CompilationFailed as failed:
            return failed.result
        path = _new_path()
        await sandbox.write_file(path, program, mode=0o755)
        argv = [path, *parameters]
    elif script.language == "bash" and parameters:
        argv = [*_INTERPRETERS["bash"], script.code, "--", *parameters]
    else:
        argv = [*_INTERPRETERS[script.language], script.code, *parameters]
    return await sandbox.run_script(argv, env=_ENVIRONMENT, timeout=timeout, confined=confined)


def _new_path() -> str:
    return f"/tmp/{secrets.token_hex(8)}"


def is_comparison(script: Script) -> bool:
    """Return whether a check provably reads nothing but its parameters.

    Only Python's syntax can prove it: the check imports harmless modules only, calls no function that opens,
    starts or executes anything, and uses no name with two leading underscores. Returns False if in doubt.
    """
    if script.language != "python":
        return False
    try:
        nodes = list(ast.walk(ast.parse(script.code)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return all(is_plain_node(node) for node in nodes)


def is_plain_node(node: ast.AST) -> bool:
    match node:
        case ast.Import(names=names):
            return all(alias.name in _PLAIN_MODULES for alias in names)
        case ast.ImportFrom(module=module, names=names, level=level):
            wanted = {alias.name for alias in names}
            return module in _PLAIN_MODULES and level == 0 and not wanted & _REACHING_ATTRIBUTES
        case ast.Name(id=name):
            return name not in _REACHING_NAMES and (not name.startswith("__") or name == "__name__")
        case ast.Attribute(attr=name):
            return name not in _REACHING_ATTRIBUTES and not name.startswith("_")
    return True
