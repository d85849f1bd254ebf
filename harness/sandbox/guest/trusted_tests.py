"""The trusted side: run the tests in this process, with stand-ins for what the candidate defines.

Of the candidate's process nothing arrives here but plain data, rebuilt from bytes by a decoder
that can build nothing else (DESIGN section 3.4). Whatever else comes, or does not come, fails.

A test goes on after an assert that failed. Where it ended there, to be asked again would tell the
candidate that its last answer was right, and samples of one task can tell each other that much: by
process ids, inode numbers or the page cache, whatever is cleaned up between them.
"""

from __future__ import annotations

import ast
import builtins

from .peer import Candidate, CandidateLost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_EVIDENCE = 2000
TESTS_NAME = "tests.py"
# The names that a rewritten assert uses: no test and no program can mean them.
NOTE = "@note"
FAILED = "@failed"
ASSERTION = "@AssertionError"
CAUGHT = "@error"
# Where statements stand in the nodes of a syntax tree.
STATEMENT_LISTS = ("body", "handlers", "orelse", "finalbody", "cases")


def run(descriptor: int, request: dict[str, Any]) -> dict[str, Any]:
    """Run every test of `request` against the candidate on `descriptor`.

    Returns `results` (one of `passed` or `failed` for each statement, in order; shorter where the
    candidate was lost), `evidence` (of the first failure), `error` (the exception's name), and
    `breach`.
    """
    candidate = Candidate(descriptor, request["classes"])
    compared: dict[int, Any] = {}
    results: list[str] = []
    evidence: str | None = None
    error_name: str | None = None

    failing = False

    def note(place: int, value: Any) -> Any:
        compared[place] = value
        return value

    def failed(error: BaseException) -> None:
        nonlocal failing, evidence, error_name
        failing = True
        if evidence is None:
            error_name = type(error).__name__
            place = len(results)
            failure = _failure(error, request["statements"][place], candidate, compared)
            evidence = f"test {place + 1}: {failure}"

    namespace: dict[str, Any] = {
        "__name__": "tests",
        "__builtins__": builtins,
        NOTE: note,
        FAILED: failed,
        ASSERTION: AssertionError,
    }
    try:
        stage = "the program failed to load"
        candidate.load(request["preamble"], request["program"])
        stage = "the tests' own set-up failed"
        exec(compile(request["setup"], "setup.py", "exec"), namespace)
        stage = "the program does not define what the tests use"
        for alias, name in request["exports"].items():
            namespace.pop(alias, None)
            namespace[alias] = candidate.get(name)
    except BaseException as error:
        error_name = type(error).__name__
        evidence = f"{stage}: {_describe(error)}"
        results = ["failed"] * len(request["statements"])
    else:
        for statement in request["statements"]:
            candidate.last_call = None
            compared.clear()
            failing = False
            try:
                exec(_compiled(statement), namespace)
                if candidate.lost is not None:
                    raise CandidateLost(candidate.lost)
            except BaseException as error:
                failed(error)
            results.append("failed" if failing else "passed")
            if candidate.lost is not None:
                break
    return {
        "results": results,
        "evidence": None if evidence is None else _bounded(evidence, MAX_EVIDENCE),
        "error": error_name,
        "breach": candidate.breach,
        "lost": candidate.lost,
    }


def _compiled(statement: str) -> Any:
    """Compile a test, its asserts changed to remember what they compare, and to go on where they fail."""
    tree = ast.parse(statement, TESTS_NAME)
    # Asserts are not below expressions, which may be nested deeper than any recursion goes.
    waiting: list[tuple[ast.AST, bool]] = [(tree, False)]
    while waiting:
        node, caught = waiting.pop()
        for field in STATEMENT_LISTS:
            children = getattr(node, field, None)
            if type(children) is not list:
                continue
            # What a test catches itself must be raised.
            caught_here = caught or (field == "body" and bool(getattr(node, "handlers", None)))
            waiting += [(child, caught_here) for child in children if not isinstance(child, ast.Assert)]
            children[:] = [
                _noting(child, caught_here) if isinstance(child, ast.Assert) else child for child in children
            ]
    return compile(tree, TESTS_NAME, "exec")


def _noting(node: ast.Assert, caught: bool) -> ast.stmt:
    """Pass both sides of `assert a == b` through `NOTE`, and hand a failure that none catches to `FAILED`."""
    if isinstance(node.test, ast.Compare) and len(node.test.ops) == 1:
        compare = node.test
        compare.left = _noted(0, compare.left)
        compare.comparators = [_noted(1, compare.comparators[0])]
    if caught:
        return node
    name = ast.copy_location(ast.Name(FAILED, ast.Load()), node)
    error = ast.copy_location(ast.Name(CAUGHT, ast.Load()), node)
    report = ast.copy_location(ast.Expr(ast.copy_location(ast.Call(name, [error], []), node)), node)
    kind = ast.copy_location(ast.Name(ASSERTION, ast.Load()), node)
    handler = ast.copy_location(ast.ExceptHandler(kind, CAUGHT, [report]), node)
    return ast.copy_location(ast.Try([node], [handler], [], []), node)


def _noted(place: int, value: ast.expr) -> ast.expr:
    name = ast.copy_location(ast.Name(NOTE, ast.Load()), value)
    number = ast.copy_location(ast.Constant(place), value)
    return ast.copy_location(ast.Call(name, [number, value], []), value)


def _failure(error: BaseException, statement: str, candidate: Candidate, compared: dict[int, Any]) -> str:
    """Say which line failed and why, what it compared, and what was called last."""
    line = None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == TESTS_NAME:
            line = trace.tb_lineno
        trace = trace.tb_next
    lines = statement.splitlines()
    text = lines[line - 1].strip() if line and line <= len(lines) else statement.strip()
    parts = [f"{_bounded(text, 600)}: {_describe(error)}"]
    if isinstance(error, AssertionError) and len(compared) == 2:
        parts.append(f"left is {_shown(compared[0])}, right is {_shown(compared[1])}")
    if candidate.last_call is not None:
        args, kwargs, outcome = candidate.last_call
        shown = [_shown(arg) for arg in args] + [f"{name}={_shown(arg)}" for name, arg in kwargs.items()]
        result = f"returned {_shown(outcome[0])}" if outcome else "did not return"
        parts.append(f"the last call, with ({_bounded(', '.join(shown), 400)}), {result}")
    return "; ".join(parts)


def _describe(error: BaseException) -> str:
    try:
        message = str(error)
    except Exception:
        message = ""
    return type(error).__name__ + (f": {_bounded(message, 600)}" if message else "")


def _shown(value: object) -> str:
    try:
        return _bounded(repr(value), 300)
    except (Exception, CandidateLost) as error:
        return f"a {type(value).__name__} whose repr raised {type(error).__name__}"


def _bounded(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 20]} ... ({len(text)} characters)"
