"""Refusals name the fault and the next step, for a client that sees only one text, and for a traceback."""

from __future__ import annotations

import errno
import traceback
from pathlib import Path
from typing import Any

import pytest
from case_checks import each_case

from harness.core.errors import UsageError, describe_installation
from harness.sandbox.failures import raise_refusal
from harness.service.errors import InvalidRequestError
from harness.service.operations import read_json
from harness.service.sandboxes.models import CreateSandboxRequest
from harness.service.server import _bind
from harness.service.verdicts.grade import GradeRequest
from harness.service.verdicts.samples import TaskName, name_sample, read_work
from harness.service.verdicts.source_parser import SourceParser


@each_case(
    ("model", "body", "expected"),
    [
        (GradeRequest, b"", "the body is empty; send a JSON object"),
        (GradeRequest, b'{"samples": []}', "'samples' has too few entries, and needs at least 1"),
        (GradeRequest, b'{"sample": []}', "'sample' is not a known field, and 'samples' is missing"),
        (CreateSandboxRequest, b'{"limits": {"memory": 512}}', "'limits.memory' is not a known field"),
        (
            GradeRequest,
            b'{"samples": [{"solution": "x", "tests": {"kind": "unit"}}]}',
            "'samples.0.tests' needs 'stdin', 'calls', 'asserts' as 'kind'",
        ),
        (GradeRequest, b'{"samples": [{"solution": "x", "tests": {}}]}', "'samples.0.tests' lacks 'kind'"),
        # The place has only the keys of the request, and not the names of our models.
        (
            GradeRequest,
            b'{"samples": [{"solution": "", "tests": {"kind": "stdin", "tests": [{"stdin": "3"}]}}]}',
            "'samples.0.tests.tests.0.stdin' is not a known field, and 'samples.0.tests.tests.0.input' is",
        ),
        (GradeRequest, b"[1]", "the body must be keys and values, not [1]"),
    ],
)
def test_a_request_that_cannot_be_read_is_refused_in_plain_words(
    model: Any, body: bytes, expected: str
) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        read_json(model, body)
    assert str(refused.value).startswith(expected)
    assert "validation" not in str(refused.value)


async def test_a_refused_sample_has_the_hint_of_its_error() -> None:
    with pytest.raises(UsageError) as raised:
        await read_work(TaskName("mbpp", "11"), "reply", "x", {}, SourceParser())
    refusal = str(name_sample(raised.value, "samples.0"))
    assert refusal.startswith("'samples.0': the service has not loaded the benchmark 'mbpp'; loaded: none; ")
    assert "its operator chooses them with -b" in refusal


def test_a_traceback_shows_the_hint() -> None:
    assert "hint: set it" in "".join(traceback.format_exception(UsageError("no value", hint="set it")))


def test_an_error_without_a_hint_has_no_note() -> None:
    assert not hasattr(UsageError("no value"), "__notes__")


@each_case(
    ("reason", "expected"),
    [
        ("[Errno 2] No such file or directory: 'a: b'", "cannot read a: b: No such file or directory"),
        ("it has 3 bytes, and the limit is 2", "cannot read a: b: it has 3 bytes, and the limit is 2"),
    ],
)
def test_a_refused_file_is_named_once(reason: str, expected: str) -> None:
    with pytest.raises(UsageError) as raised:
        raise_refusal("cannot read a: b", {"refused": reason})
    assert raised.value.message == expected


@each_case(
    ("number", "expected"),
    [(errno.EADDRINUSE, "--port N"), (errno.EADDRNOTAVAIL, "--host"), (errno.EACCES, "from 1024")],
)
def test_an_address_that_cannot_be_used_gets_the_hint_of_its_fault(
    number: int, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_socket: object, _address: object) -> None:
        raise OSError(number, "refused")

    monkeypatch.setattr("socket.socket.bind", refuse)
    with pytest.raises(UsageError) as raised:
        _bind("127.0.0.1", 1)
    assert expected in (raised.value.hint or "")


def test_an_extra_is_installed_by_the_tool_that_made_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    prefix = tmp_path / "sealed-harness"
    prefix.mkdir()
    monkeypatch.setattr("sys.prefix", str(prefix))
    monkeypatch.setattr("sys.executable", "/opt/python")
    named = [describe_installation("serve")]
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    named.append(describe_installation("serve"))
    (prefix / "pipx_metadata.json").touch()
    named.append(describe_installation("serve"))
    assert named == [
        "run: /opt/python -m pip install 'sealed-harness[serve]'",
        "run: uv pip install --python /opt/python 'sealed-harness[serve]'",
        "run: pipx runpip sealed-harness install 'sealed-harness[serve]'",
    ]
