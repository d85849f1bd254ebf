"""The log of the service: a JSON object a line, without the token."""

from __future__ import annotations

import contextlib
import json
import logging
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime

# The attributes that every record has. All others are the fields that a caller gave.
_USUAL = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_HIDDEN = "[token]"
# The logger of the start and the end of the service.
_LIFE = "harness.service.server"


class _JSONLines(logging.Formatter):
    def __init__(self, secret: str) -> None:
        super().__init__()
        # A client may escape any character of a URL.
        forms = (f"(?:{re.escape(each)}|%(?i:{ord(each):02x}))" for each in secret)
        self._secret = re.compile("".join(forms))

    def format(self, record: logging.LogRecord) -> str:
        values = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **{name: value for name, value in vars(record).items() if _is_field(name)},
        }
        if record.exc_info:
            values["traceback"] = self.formatException(record.exc_info)
        # In ASCII, so that no text of a client can control a terminal.
        text = json.dumps(values, default=str)
        return self._secret.sub(_HIDDEN, text)


def _is_field(name: str) -> bool:
    # Libraries add private attributes to the records of all others.
    return name not in _USUAL and not name.startswith("_")


@contextlib.contextmanager
def log_as_json(verbosity: int, *, secret: str) -> Iterator[None]:
    """Write the records of this process to standard error in the block, and never the secret.

    Args:
        verbosity: 0 for warnings and the start and end of the service, 1 also for each request, 2 for the
            records of all libraries.
        secret: the token of the service.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JSONLines(secret))
    root, package, life = (logging.getLogger(name) for name in (None, "harness", _LIFE))
    before = root.level, package.level, life.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG if verbosity > 1 else logging.WARNING)
    package.setLevel(logging.INFO if verbosity else logging.WARNING)
    life.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.removeHandler(handler)
        for logger, level in zip((root, package, life), before, strict=True):
            logger.setLevel(level)
