"""`/run_code` as published clients use it, each from its package on PyPI and in a process of its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from case_checks import each_case
from effort import one_in_two
from readers import SANDBOX_FUSION, VERL
from service_fixtures import TOKEN, Served, serve


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served() -> AsyncIterator[Served]:
    async with serve() as running:
        yield running


pytestmark = pytest.mark.asyncio(loop_scope="module")

ECHO = "print(int(input()) * 2)"
# Each program, its inputs and expected outputs, and the codes that verl documents: True and False for a right
# and a wrong output, -2 for a runtime error, -3 for a timeout, and -1 for a fault of the service.
VERL_PROGRAMS: dict[str, tuple[str, dict[str, Any], list[Any]]] = {
    "right": (ECHO, {"inputs": ["2\n", "21\n"], "outputs": ["4", "42\n"]}, [True, True]),
    "wrong once": (ECHO, {"inputs": ["2\n", "3\n"], "outputs": ["4\n", "7\n"]}, [True, False]),
    "exception": (ECHO, {"inputs": ["2\n", "two\n"], "outputs": ["4\n", "4\n"]}, [True, -2]),
    "syntax error": ("print(", {"inputs": [""], "outputs": [""]}, [-2]),
    "exit without output": ("raise SystemExit(0)", {"inputs": [""], "outputs": ["1"]}, [False]),
    "exit with 1": ("print(4); raise SystemExit(1)", {"inputs": [""], "outputs": ["4"]}, [-2]),
    "killed": ("import os; os.kill(os.getpid(), 9)", {"inputs": [""], "outputs": [""]}, [-2]),
    "too much memory": ("x = b'x' * (4 << 30)", {"inputs": [""], "outputs": [""]}, [-2]),
    "fork bomb": ("import os\nwhile True: os.fork()", {"inputs": [""], "outputs": [""]}, [-2]),
    "attack on PID 1": (
        "import os, signal\nos.kill(-1, signal.SIGKILL)\nos.kill(1, signal.SIGKILL)",
        {"inputs": [""], "outputs": [""]},
        [-2],
    ),
    "asleep": ("import time; time.sleep(60)", {"inputs": [""], "outputs": [""]}, [-3]),
    "slow": ("while True: pass", {"inputs": [""], "outputs": [""]}, [-3]),
    "function": (
        "def add(a, b): return a + b",
        {"inputs": ["1\n2", "[1]\n[2]"], "outputs": ["3", "[1, 2]"], "fn_name": "add"},
        [True, True],
    ),
    "method": (
        "class Solution:\n    def half(self, a): return a / 2",
        {"inputs": ["1"], "outputs": ["1"], "fn_name": "half"},
        [False],
    ),
    "assertions": (
        "def add(a, b): return a + b",
        {
            "inputs": ["", ""],
            "outputs": [None, None],
            "assert_case": ["assert add(1, 2) == 3", "assert add(1, 2) == 4"],
        },
        [True, -2],
    ),
}
CPP = (
    "#include <bits/stdc++.h>\nint main() { long a; if (!(std::cin >> a)) throw 1; std::cout << a * 2; BODY }"
)
# As above, in C++: -4 is a program that does not compile.
CPP_PROGRAMS: dict[str, tuple[str, dict[str, Any], list[Any]]] = {
    "right": (CPP.replace("BODY", ""), {"inputs": ["2\n", "21\n"], "outputs": ["4", "42\n"]}, [True, True]),
    "wrong once": (CPP.replace("BODY", ""), {"inputs": ["2", "3"], "outputs": ["4", "7"]}, [True, False]),
    "crash": (CPP.replace("BODY", ""), {"inputs": ["two"], "outputs": ["4"]}, [-2]),
    "exit without output": ("int main() {}", {"inputs": [""], "outputs": ["1"]}, [False]),
    "exit with 1": (CPP.replace("BODY", "return 1;"), {"inputs": ["2"], "outputs": ["4"]}, [-2]),
    "does not compile": (CPP.replace("BODY", "x"), {"inputs": ["2"], "outputs": ["4"]}, [-4]),
    "slow": (
        CPP.replace("BODY", "for (volatile long i = 0; ; i++);"),
        {"inputs": ["2"], "outputs": ["4"]},
        [-3],
    ),
}
LOAD_VERL = """
import importlib.util, json, pathlib, sys

folder = next(path for path in map(pathlib.Path, sys.path) if (path / "verl").is_dir())
file = folder / "verl" / "utils" / "reward_score" / "sandbox_fusion" / "utils.py"
spec = importlib.util.spec_from_file_location("verl_client", file)
client = importlib.util.module_from_spec(spec)
spec.loader.exec_module(client)
"""
CHECK_CORRECTNESS = """
url, programs, language = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
print(json.dumps([
    client.check_correctness(url, tests, program, timeout=seconds, language=language)[0]
    for program, tests, seconds in programs
]))
"""


@each_case(("language", "table"), [("python", VERL_PROGRAMS), ("cpp", CPP_PROGRAMS)], ids=["python", "cpp"])
async def test_verl_gets_its_documented_codes(
    served: Served, language: str, table: dict[str, tuple[str, dict[str, Any], list[Any]]]
) -> None:
    # Only the programs that must reach their limit get a short one, because the machine may be busy. It is
    # the limit of a compiler too.
    short = 2 if language == "python" else 6
    table = {name: table[name] for name in one_in_two([*table], language == "cpp")}
    programs = [(program, tests, short if codes == [-3] else 30) for program, tests, codes in table.values()]
    url = f"{served.url}/{TOKEN}/run_code"
    printed = await asyncio.to_thread(
        VERL.run, LOAD_VERL + CHECK_CORRECTNESS, url, json.dumps(programs), language
    )
    codes = dict(zip(table, json.loads(printed), strict=True))
    assert codes == {name: wanted for name, (_, _, wanted) in table.items()}


AT_ONCE = """
from concurrent.futures import ThreadPoolExecutor

url, program, tests, clients = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), int(sys.argv[4])
with ThreadPoolExecutor(clients) as threads:
    asked = [threads.submit(client.check_correctness, url, tests, program) for _ in range(clients)]
print(json.dumps([each.result()[0] for each in asked]))
"""


@pytest.mark.thorough
async def test_no_program_of_128_clients_of_verl_is_lost(served: Served) -> None:
    # Both inputs are sent at once, with the client's own timeouts.
    program, tests, codes = VERL_PROGRAMS["right"]
    url = f"{served.url}/{TOKEN}/run_code"
    printed = await asyncio.to_thread(VERL.run, LOAD_VERL + AT_ONCE, url, program, json.dumps(tests), "128")
    assert json.loads(printed) == [codes] * 128


RUN_CODE = """
import asyncio, base64, json, sys
import sandbox_fusion as client

client.set_endpoint(sys.argv[1])
requests = [client.RunCodeRequest(**values) for values in json.loads(sys.argv[2])]
replies = client.run_concurrent(client.run_code, args=[[each] for each in requests], concurrency=8)
again = asyncio.run(client.run_code_async(requests[0], max_attempts=1))
mapping = client.SummaryMapping(RunTimeout="slow", RunFailed="crashed")
summaries = [client.summary_run_code_result(each, mapping) for each in replies]
print(json.dumps({
    "summaries": summaries,
    "stdout": [each.run_result.stdout for each in replies],
    "files": replies[-1].files,
    "again": again.run_result.stdout,
}))
"""


async def test_the_client_of_sandbox_fusion_reads_every_reply(served: Served) -> None:
    requests: list[dict[str, Any]] = [
        {"code": ECHO, "stdin": "21", "language": "python"},
        {"code": "1/0", "language": "python"},
        {"code": "import time; time.sleep(60)", "language": "python", "run_timeout": 1},
        {"code": "echo out > file.txt; echo $((6 * 7))", "language": "bash", "fetch_files": ["file.txt"]},
    ]
    url = f"{served.url}/{TOKEN}"
    reply = json.loads(await asyncio.to_thread(SANDBOX_FUSION.run, RUN_CODE, url, json.dumps(requests)))
    assert reply == {
        "summaries": ["Success", "crashed", "slow", "Success"],
        "stdout": ["42\n", "", "", "42\n"],
        "files": {"file.txt": "b3V0Cg=="},
        "again": "42\n",
    }
