"""The process that parses source for `SourceParser`: `python -I -m harness.service.verdicts.source_process`.

It reads requests from standard input and writes a reply to each, as frames, until the input ends. Python's
parser is written in C and gets hostile source here, so the process has little memory, no secrets in its
environment, and no part in any verdict.
"""

from __future__ import annotations

import os
import resource
from dataclasses import asdict
from typing import Any

from harness.benchmarks.hidden_tests import AssertSuite, require_source
from harness.core.errors import UsageError
from harness.sandbox.guest.frames import FrameDecoder, encode_frame

_STDIN, _STDOUT = 0, 1
_READ_BYTES = 1 << 16
# The worst source of 64 KiB takes 100 MiB, with Python and the packages.
_MEMORY_BYTES = 1 << 30


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Return the reply to a request, which has an `asserts` suite or a `preamble`."""
    try:
        if "preamble" in request:
            require_source(request["preamble"], "the preamble")
            return {}
        return {"target": asdict(AssertSuite.model_validate(request["asserts"]).build())}
    except UsageError as error:
        return {"refused": error.message, "hint": error.hint}
    except RecursionError:
        return {"refused": "the source is nested too deeply", "hint": None}


def main() -> None:
    """Answer requests until the input ends, which it does with the service."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    decoder = FrameDecoder()
    while data := os.read(_STDIN, _READ_BYTES):
        for request, _ in decoder.feed(data):
            reply = encode_frame(answer(request))
            while reply:
                reply = reply[os.write(_STDOUT, reply) :]


if __name__ == "__main__":
    main()
