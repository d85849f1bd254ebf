"""Scripts of trusted origin that set up a world or judge its state."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from harness.errors import DataError
from harness.sandbox.results import ExecResult
from harness.sandbox.root_sandbox import RootSandbox

Language = Literal["bash", "python", "c", "c++"]
LANGUAGES: tuple[str, ...] = get_args(Language)
# They are found by their full paths, and Python reads neither the working folder nor a user's packages.
_INTERPRETERS = {"bash": ("/bin/bash", "-c"), "python": ("/usr/bin/python3", "-I", "-c")}
_COMPILERS = {"c": ("/usr/bin/gcc", "c"), "c++": ("/usr/bin/g++", "cpp")}
# The same for what a script in another language starts.
_ENVIRONMENT = {"PYTHONNOUSERSITE": "1", "PYTHONSAFEPATH": "1", "PYTHONDONTWRITEBYTECODE": "1"}


@dataclass(frozen=True, slots=True)
class Script:
    """Source text in one of LANGUAGES."""

    language: Language
    code: str

    @property
    def compiled(self) -> bool:
        return self.language in _COMPILERS

    def __post_init__(self) -> None:
        if self.language not in LANGUAGES:
            raise DataError(f"a script is in '{self.language}', which is none of: {', '.join(LANGUAGES)}")
        if "\0" in self.code:
            raise DataError("a script has a NUL byte in it")


async def run_script(
    sandbox: RootSandbox, script: Script, parameters: Sequence[str] = (), *, timeout: float
) -> ExecResult:
    """Run a script as root in /root, with parameters, as AgentBench does.

    Its first parameter is `$1` or `sys.argv[1]`. Raises SandboxError; UsageError where a compiler's
    source cannot be written.
    """
    if script.compiled:
        compiler, suffix = _COMPILERS[script.language]
        stem = f"/tmp/{secrets.token_hex(8)}"
        await sandbox.write_file(f"{stem}.{suffix}", script.code.encode())
        argv = [compiler, "-o", stem, f"{stem}.{suffix}"]
        compiled = await sandbox.run_script(argv, env=_ENVIRONMENT, timeout=timeout)
        if compiled.exit_code != 0:
            return compiled
        argv = [stem, *parameters]
    elif script.language == "bash" and parameters:
        argv = [*_INTERPRETERS["bash"], script.code, "--", *parameters]
    else:
        argv = [*_INTERPRETERS[script.language], script.code, *parameters]
    return await sandbox.run_script(argv, env=_ENVIRONMENT, timeout=timeout)
