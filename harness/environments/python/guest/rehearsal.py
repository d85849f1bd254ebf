"""Run a small graded program in advance, so that a spawner does Python's first-time work for its children.

The first run of a function, the first lookup of an attribute and the first compilation write to memory that
stays. If a forked child did this first, it would have to copy those pages, in every sample again. The
messages of the other side are made up here, so that no other process takes part.
"""

from __future__ import annotations

import marshal
import sys

from harness.sandbox.guest import json_text, links

from . import candidate, channel, encoding, trusted_tests, values
from .judging import SETUP_NAME, TESTS_NAME

ROUNDS = 3
PROGRAM = "from typing import List\n\n\ndef f(items: List[int]) -> List[int]:\n    return sorted(items)\n"
TESTS = "def check(f):\n    assert f([2, 1]) == [1, 2]\n    assert f([]) == []\n\n\ncheck(f)\n"


def rehearse_tests() -> None:
    """Run tests on prepared answers."""
    compiled = marshal.dumps((compile(TESTS, TESTS_NAME, "exec"), compile(TESTS, TESTS_NAME, "exec")))
    request = {
        "preamble": "",
        "program": PROGRAM,
        "setup": "",
        "compiled_setup": marshal.dumps(compile("", SETUP_NAME, "exec")),
        "statements": [TESTS],
        "compiled": [compiled],
        "beginning": marshal.dumps(None),
        "exports": {"f": "f"},
        "classes": {},
    }
    encoder = encoding.Encoder(lambda _function: (values.CALLABLE, 0, None))
    for _ in range(ROUNDS):
        tests, program = links.stream_pair()
        for answer in (None, (object(), None), [1, 2], []):
            channel.send(program.fileno(), channel.VALUE, encoder.encode(answer))
        report = trusted_tests.run(
            tests.fileno(), marshal.loads(marshal.dumps(request)), lambda _candidate: None
        )
        json_text.encode(report)
        tests.close()
        program.close()


def rehearse_program() -> None:
    """Run a program with the requests of prepared tests."""
    main = sys.modules["__main__"]
    encoder = encoding.Encoder(lambda _function: (values.CALLABLE, 0, None))
    for _ in range(ROUNDS):
        tests, program = links.stream_pair()
        channel.send(tests.fileno(), channel.LOAD, encoder.encode(("", PROGRAM)))
        channel.send(tests.fileno(), channel.GET, encoder.encode("f"))
        for argument in ([2, 1], []):
            channel.send(tests.fileno(), channel.CALL, encoder.encode((object(), (argument,), {})))
        tests.shutdown(1)
        candidate.serve(program.fileno())
        tests.close()
        program.close()
    sys.modules["__main__"] = main
    del sys.modules[candidate.MODULE_NAME]
