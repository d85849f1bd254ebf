"""Load the translator of MySQL's dialect into the process that needs it, and translate.

The translator imports `mysql`, so `mysql` cannot load it.
"""

from __future__ import annotations

import gc
import sys

from . import mysql

# This folder of the image contains nothing but sqlglot.
_PACKAGES = "/opt/harness/packages"
_TRANSLATOR = f"{__package__}.mysql_dialect"


def translate(tokens: list[mysql.Token], *, quotes_are_strings: bool) -> str:
    """Return a statement of MySQL's dialect as one for SQLite. Raises Unreadable."""
    load()
    from . import mysql_dialect

    return mysql_dialect.translate(*mysql.prepare_for_parser(tokens, quotes_are_strings=quotes_are_strings))


def is_loaded() -> bool:
    """Return whether this process has the translator."""
    return _TRANSLATOR in sys.modules


def load(*, for_children: bool = False) -> None:
    """Import the translator, which takes a tenth of a second.

    Only processes that end with a call translate. PID 1 loads the translator and never runs it, so that the
    later processes of its container need no import. The code comes from the read-only image. A container in
    which no statement needs a translation never pays for it.
    """
    if is_loaded():
        return
    if _PACKAGES not in sys.path:
        sys.path.append(_PACKAGES)
    from . import mysql_dialect  # noqa: F401

    if for_children:
        # A garbage collection would write to every object, and so copy every page that a fork shares.
        gc.freeze()
