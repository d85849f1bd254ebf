"""Set how many examples of each property Hypothesis tries, and restore what code of the guest changes."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from effort import EXAMPLES, THOROUGH
from hypothesis import settings
from hypothesis.internal.conjecture import providers


def pytest_configure(config: pytest.Config) -> None:
    # No deadline for an example, because a busy machine must not fail a test. A quick run tries the same
    # examples each time, so that no change fails by chance. A thorough run tries others each time.
    settings.register_profile("effort", max_examples=EXAMPLES, deadline=None, derandomize=not THOROUGH)
    settings.load_profile("effort")
    if not THOROUGH:
        # Hypothesis draws constants from the source of all imported modules. Reading them takes each worker
        # seconds, and the examples would depend on the modules that earlier tests have imported.
        providers._get_local_constants = lambda: providers._local_constants


@pytest.fixture(autouse=True)
def restore_logging() -> Iterator[None]:
    """Log again after a test of code that turns logging off for its process, which is a guest's elsewhere."""
    before = logging.root.manager.disable
    yield
    logging.disable(before)
