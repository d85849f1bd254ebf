"""`/run_code`: the outcomes of programs in the protocol of SandboxFusion."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest
from case_checks import each_case
from service_fixtures import Served, share_service

pytestmark = pytest.mark.asyncio(loop_scope="module")
served = share_service()


async def run(served: Served, code: str, language: str = "python", **values: Any) -> dict[str, Any]:
    response = await served.post("/run_code", code=code, language=language, **values)
    assert response.status_code == 200, response.text
    body: dict[str, Any] = response.json()
    return body


async def test_a_program_reads_its_input_and_prints(served: Served) -> None:
    body = await run(served, "print(input()[::-1])", stdin="abc\n")
    result = body.pop("run_result")
    assert result.pop("execution_time") > 0
    assert result == {"status": "Finished", "return_code": 0, "stdout": "cba\n", "stderr": ""}
    assert body == {
        "status": "Success",
        "message": "",
        "compile_result": None,
        "executor_pod_name": None,
        "files": {},
    }


@each_case(
    ("code", "return_code", "stderr"),
    [
        ("1/0", 1, "ZeroDivisionError"),
        ("def", 1, "SyntaxError"),
        ("raise SystemExit(7)", 7, ""),
        ("import os; os._exit(3)", 3, ""),
        ("import os; os.kill(os.getpid(), 9)", -9, ""),
        ("import os; os.abort()", -6, ""),
    ],
    ids=["exception", "syntax", "exit", "hard exit", "killed", "aborted"],
)
async def test_the_fault_of_a_program_is_a_failure(
    served: Served, code: str, return_code: int, stderr: str
) -> None:
    body = await run(served, code)
    assert (body["status"], body["run_result"]["status"]) == ("Failed", "Finished")
    assert body["run_result"]["return_code"] == return_code
    assert stderr in body["run_result"]["stderr"]


async def test_a_slow_program_reaches_its_time_limit_and_keeps_its_output(served: Served) -> None:
    body = await run(served, "print(1, flush=True)\nimport time; time.sleep(60)", run_timeout=1)
    result = body["run_result"]
    assert (body["status"], result["status"]) == ("Failed", "TimeLimitExceeded")
    assert (result["return_code"], result["stdout"]) == (None, "1\n")


@each_case(
    "code",
    [
        "x = []\nwhile True: x.append(b'x' * (64 << 20))",
        "import os\nwhile True: os.fork()",
        "import sys\nwhile True: sys.stdout.write('x' * 100000)",
        "import os, signal\nos.kill(1, signal.SIGKILL)\nos.kill(-1, signal.SIGKILL)",
    ],
    ids=["memory", "processes", "output", "signals"],
)
async def test_a_program_that_attacks_its_sandbox_is_no_fault_of_the_service(
    served: Served, code: str
) -> None:
    body = await run(served, code, run_timeout=5)
    assert body["status"] == "Failed", body


@each_case("language", ["python", "bash"])
async def test_a_long_output_is_cut_and_the_reply_says_so(served: Served, language: str) -> None:
    code = "print('x' * 2_999_999)" if language == "python" else "head -c 3000000 /dev/zero"
    body = await run(served, code, language)
    assert (body["status"], len(body["run_result"]["stdout"])) == ("Success", 1 << 20)
    assert body["message"] == "stdout was cut: the program wrote 3,000,000 bytes, and the reply has 1,048,576"


async def test_a_burst_of_requests_is_held_and_none_is_lost(served: Served) -> None:
    code = "import time; time.sleep(0.2); print(int(input()) * 2)"
    # The estimate refuses requests at once that would wait longer than their own limits.
    asked = (run(served, code, stdin=f"{n}", compile_timeout=1, run_timeout=1) for n in range(64))
    bodies = await asyncio.gather(*asked)
    assert [body["run_result"]["stdout"] for body in bodies] == [f"{2 * n}\n" for n in range(64)]


async def test_a_program_that_gets_less_than_its_own_limit_is_refused_and_not_judged(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.service.verdicts.run_code.CLIENT_SECONDS", 3.0)
    busy = (run(served, "import time; time.sleep(3)", compile_timeout=9, run_timeout=9) for _ in range(3))
    values = {"code": "while True: pass", "language": "python", "compile_timeout": 0, "run_timeout": 3}
    _, response = await asyncio.gather(asyncio.gather(*busy), served.post("/run_code", **values))
    assert response.status_code == 504
    assert "it has not ended by then" in response.json()["error"]["message"]


async def test_files_go_in_and_out(served: Served) -> None:
    # As `base64.encodebytes` and the command `base64` write it, with line breaks.
    content = base64.encodebytes(b"from a file\n").decode()
    body = await run(
        served,
        "cat folder/in.txt; printf '\\0out' > out.bin; exit 3",
        "bash",
        files={"folder/in.txt": content, "left-out": None},
        fetch_files=["out.bin", "missing"],
    )
    assert body["run_result"]["stdout"] == "from a file\n"
    assert body["run_result"]["return_code"] == 3
    assert body["files"] == {"out.bin": base64.b64encode(b"\0out").decode()}


async def test_python_finds_its_files(served: Served) -> None:
    module = base64.b64encode(b"answer = 42\n").decode()
    body = await run(served, "import own; print(own.answer)", files={"own.py": module})
    assert body["run_result"]["stdout"] == "42\n"


async def test_programs_of_one_client_share_no_state(served: Served) -> None:
    await run(served, "open('/tmp/left', 'w').write('x')")
    body = await run(served, "import os; print(os.listdir('/tmp'), os.listdir('.'))")
    assert body["run_result"]["stdout"] == "[] ['candidate.py']\n"


@each_case(
    "wrong",
    [
        {"language": "cobol"},
        {"run_timeout": 0},
        {"run_timeout": 601},
        {"memory_limit_MB": 1 << 40},
        {"files": {"a": "no base64!"}},
        {"stdin": 5},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
async def test_a_value_that_cannot_be_used_is_named(served: Served, wrong: dict[str, Any]) -> None:
    response = await served.post("/run_code", **{"code": "1", "language": "python", **wrong})
    assert response.status_code == 422
    assert next(iter(wrong)) in response.json()["error"]["message"]


async def test_a_compiled_program_has_the_outcome_of_its_compiler(served: Served) -> None:
    source = "#include <iostream>\nint main() { int a; std::cin >> a; std::cout << a * 2; return a; }"
    body = await run(served, source, "cpp", stdin="3", compile_timeout=30)
    assert (body["status"], body["compile_result"]["status"]) == ("Failed", "Finished")
    assert body["compile_result"]["return_code"] == 0
    assert (body["run_result"]["return_code"], body["run_result"]["stdout"]) == (3, "6")
    body = await run(served, "int main() { return x; }", "cpp", compile_timeout=30)
    assert (body["status"], body["run_result"]) == ("Failed", None)
    assert body["compile_result"]["return_code"] == 1
    assert "was not declared" in body["compile_result"]["stderr"]
    body = await run(served, source, "cpp", compile_timeout=0.01)
    assert (body["status"], body["run_result"]) == ("Failed", None)
    assert body["compile_result"]["status"] == "TimeLimitExceeded"


async def test_fields_of_other_versions_are_ignored(served: Served) -> None:
    body = await run(served, "print(1)", args=[], request_id="x")
    assert body["status"] == "Success"
