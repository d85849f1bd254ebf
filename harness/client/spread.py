"""Several services that grade the submissions of one run."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence

from harness.core.errors import SandboxError, UsageError
from harness.core.types import Verdict
from harness.host.retries import RunStoppedError
from harness.runs.grading_service import GradingService

# A service that was away is tried again after this time, while others work.
RETRY_SECONDS = 30.0


class SpreadGrading:
    """Gives each submission to the service with the fewest under way. Implements `GradingService`.

    A submission whose service fails is graded by another one, because the run retries it.
    """

    def __init__(self, services: Sequence[GradingService]) -> None:
        """Grade at `services`. Raises UsageError unless all of them give the same verdicts."""
        self.facts = services[0].facts
        self.wait_seconds = max(each.wait_seconds for each in services)
        if any(each.facts.revision != self.facts.revision for each in services):
            raise UsageError(
                "the services have different images, runtimes or data, and one run must not mix two",
                hint="start all of them with the same version of harness, the same options and the same data",
            )
        self._services = list(services)
        self._under_way: Counter[GradingService] = Counter()
        self._away_until: dict[GradingService, float] = {}

    async def grade(
        self, task_id: str, text: str, *, seconds: float, on_begin: Callable[[], None]
    ) -> Verdict:
        """Return the verdict on a submission. Arguments and errors are as in `GradingService`."""
        service = self._choose()
        self._under_way[service] += 1
        try:
            return await service.grade(task_id, text, seconds=seconds, on_begin=on_begin)
        except RunStoppedError as error:
            # This service can grade no further submission of the run.
            if service in self._services:
                self._services.remove(service)
            if not self._services:
                raise
            raise SandboxError(error.message, outside=True) from error
        finally:
            self._under_way[service] -= 1

    async def responds(self) -> bool:
        """Return whether some service takes requests now. The run asks this after each fault."""
        services = list(self._services)
        answers = await asyncio.gather(*(each.responds() for each in services))
        until = time.monotonic() + RETRY_SECONDS
        self._away_until = {each: until for each, here in zip(services, answers, strict=True) if not here}
        return any(answers)

    def _choose(self) -> GradingService:
        now = time.monotonic()
        here = [each for each in self._services if self._away_until.get(each, 0.0) <= now]
        return min(here or self._services, key=self._under_way.__getitem__)
