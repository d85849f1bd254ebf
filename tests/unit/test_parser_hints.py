from __future__ import annotations

import pytest

from harness.cli.app import app
from harness.errors import UsageError


def test_an_option_that_has_taken_the_next_option_as_its_value_is_named() -> None:
    arguments = ["run", "-b", "mbpp", "--model", "m", "--base-url", "--max-concurrent", "16"]
    with pytest.raises(UsageError, match="--base-url needs a value"):
        app(arguments, standalone_mode=False)
