"""The loggers of the package, by the rules for libraries: no level, no output, and no handler that writes."""

from __future__ import annotations

import logging


def get_logger(name: str) -> logging.Logger:
    """Return the logger of a module of harness.

    The package gets a handler that does nothing, because Python prints warnings to standard error if there is
    none, with the text of untrusted programs as it is.
    """
    package = logging.getLogger("harness")
    if not package.handlers:
        package.addHandler(logging.NullHandler())
    return logging.getLogger(name)
