"""Judge outputs by a checker: a program of the benchmark's author, for problems with several right outputs.

The checker runs in a sandbox that the judged program has never met, after the last process of that program is
dead. The output is data there: it is handed over as text, and each output has a process of its own. A checker
that evaluates an output trusts it all the same, because the answer is the checker's.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Sequence
from dataclasses import dataclass

from harness.core.text import escape_text
from harness.environments.python.client import InputRun, batches, run_on_inputs
from harness.sandbox.failures import build_fault
from harness.sandbox.sandbox import Sandbox

CHECK = "check"
"""The function that a checker defines. Without it the checker is a script of testlib's protocol."""
CHECKER_SECONDS = 10.0
_BATCH_BYTES = 8 << 20
_REPLY_BYTES = 1 << 20
_KEPT = 300
# testlib's exit codes: accepted, wrong answer, presentation error. Others mean that the checker failed.
_ACCEPTED, _REFUSED = 0, (1, 2, 8)

# It runs before the checker's own source, which it gets as a text. The last line of stdout is its answer.
_DRIVER = """
import json, os, runpy, sys, traceback
given = json.loads(sys.stdin.buffer.read())
says = {"code": None, "note": ""}
try:
    if given["is_function"]:
        space = {"__name__": "checker"}
        exec(compile(given["source"], "checker.py", "exec"), space)
        found = space["check"](given["input"], given["output"], given["expected"])
        if isinstance(found, tuple):
            found, says["note"] = found[0], str(found[1])
        if found is not None and not isinstance(found, (bool, int, float)):
            raise TypeError(f"check returned {type(found).__name__}, not a bool or a number")
        says["code"] = 0 if found is not None and found >= 1 else 1
    else:
        for name in ("input", "output", "expected"):
            with open(name, "wb") as file:
                file.write(given[name].encode("utf-8", "surrogateescape"))
        with open("checker.py", "w", encoding="utf-8") as file:
            file.write(given["source"])
        sys.argv = ["checker.py", "input", "output", "expected"]
        try:
            runpy.run_path("checker.py", run_name="__main__")
            says["code"] = 0
        except SystemExit as end:
            says["code"] = 0 if end.code is None else end.code if isinstance(end.code, int) else 1
except BaseException:
    says["note"] = traceback.format_exc()[-300:]
sys.stdout.flush()
sys.stdout.buffer.write(b"\\n" + json.dumps(says).encode())
sys.stdout.buffer.flush()
os._exit(0)
"""


@dataclass(frozen=True, slots=True)
class Checked:
    """The answer of a checker about one output. `is_broken` if the checker itself failed."""

    accepted: bool
    note: str = ""
    is_broken: bool = False


async def ask_checker(sandbox: Sandbox, source: str, cases: Sequence[tuple[str, str, str]]) -> list[Checked]:
    """Return the checker's answer about each case: an input, an output and the author's own output.

    Raises SandboxError if the sandbox failed.
    """
    is_function = defines_check(source)
    inputs = [
        json.dumps(
            {
                "source": source,
                "is_function": is_function,
                "input": given,
                "output": output,
                "expected": expected,
            }
        ).encode()
        for given, output, expected in cases
    ]
    answers: list[Checked] = []
    for batch in batches(inputs, 0, len, _BATCH_BYTES):
        while batch:
            runs = await run_on_inputs(
                sandbox,
                program=_DRIVER.encode(),
                inputs=batch,
                stdout_bytes=_REPLY_BYTES,
                cpu_seconds=CHECKER_SECONDS,
                wall_seconds=3 * CHECKER_SECONDS * sandbox.time_factor,
            )
            if not runs:
                raise build_fault("the checker's sandbox ran nothing")
            # The guest stops after a run that fails, and the checker may judge the other outputs still.
            answers += [_read_answer(run) for run in runs]
            batch = batch[len(runs) :]
    return answers


def defines_check(source: str) -> bool:
    """Return whether a checker defines the function `check(input, output, expected)`."""
    return any(isinstance(node, ast.FunctionDef) and node.name == CHECK for node in ast.parse(source).body)


def _read_answer(run: InputRun) -> Checked:
    if not run.succeeded or run.stdout.truncated:
        return Checked(
            accepted=False, note=f"the checker ended by itself or at a limit: {run.ended}", is_broken=True
        )
    last = (run.stdout.head + run.stdout.tail).rpartition(b"\n")[2]
    try:
        says = json.loads(last)
        code, note = says["code"], escape_text(str(says["note"])[-_KEPT:])
    except (ValueError, KeyError, TypeError):
        return Checked(accepted=False, note="the checker ended without an answer", is_broken=True)
    if code == _ACCEPTED:
        return Checked(accepted=True)
    return Checked(accepted=False, note=note, is_broken=code not in _REFUSED)
