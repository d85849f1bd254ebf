"""Grade samples at a service that `harness serve` offers."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Sequence

from harness.client.connection import Connection, open_connection, read_address
from harness.client.grader import read_verdict
from harness.core.errors import HarnessError, UsageError
from harness.core.types import Verdict
from harness.rl.held import gather_or_cancel
from harness.rl.samples import RewardSample, RewardUnavailableError

# A service takes 1,024 samples in one request. Smaller requests wait less.
BATCH = 128
# The time of one request, and of all tries of a sample.
REQUEST_SECONDS = 600.0
DEFAULT_SECONDS = 1800.0
# The wall time of one grading, as in the environment `python` in a run.
SAMPLE_SECONDS = 180.0
_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 0.5, 30.0


class RemoteGrading:
    """Grades samples at a service.

    A refused request, a lost connection and a sample without a verdict are tried again, which is safe because
    grading changes nothing.
    """

    def __init__(self, connection: Connection, *, timeout_seconds: float) -> None:
        """Use `connection`, and try each sample for at most `timeout_seconds`. Raises UsageError."""
        if not timeout_seconds > 0:
            raise UsageError(f"timeout_seconds must be more than 0, not {timeout_seconds}")
        self._connection = connection
        self._timeout_seconds = timeout_seconds
        # The same in each try, because a program must not get less time when the service was busy before.
        self._sample_seconds = min(SAMPLE_SECONDS, timeout_seconds / 2)

    async def grade(self, samples: Sequence[RewardSample]) -> list[Verdict]:
        """Return one verdict for each sample, in their order.

        A sample that got no verdict in time has one without a score. Raises UsageError if the service refuses
        a sample, and RewardUnavailableError if it never answered.
        """
        ends = time.monotonic() + self._timeout_seconds
        batches = [samples[start : start + BATCH] for start in range(0, len(samples), BATCH)]
        graded = await gather_or_cancel(self._grade_batch(batch, ends) for batch in batches)
        return [verdict for batch in graded for verdict in batch]

    async def _grade_batch(self, batch: Sequence[RewardSample], ends: float) -> list[Verdict]:
        verdicts: dict[int, Verdict] = {}
        missing = list(range(len(batch)))
        wait = _FIRST_WAIT_SECONDS
        while True:
            reason = f"the service at {self._connection.address} had no verdict"
            try:
                replied = await self._request([batch[place] for place in missing], ends)
            except UsageError:
                raise
            except HarnessError as error:
                reason = error.message
            else:
                verdicts.update(zip(missing, replied, strict=True))
                missing = [place for place in missing if verdicts[place].score is None]
            if not missing:
                return [verdicts[place] for place in range(len(batch))]
            pause = wait * random.uniform(0.5, 1.0)
            if time.monotonic() + pause + self._sample_seconds >= ends:
                if not verdicts:
                    raise RewardUnavailableError(reason)
                return [verdicts[place] for place in range(len(batch))]
            await asyncio.sleep(pause)
            wait = min(2 * wait, _LONGEST_WAIT_SECONDS)

    async def _request(self, batch: Sequence[RewardSample], ends: float) -> list[Verdict]:
        """Return the verdicts of one request, which the connection repeats while the service refuses it."""
        rest = max(0.0, ends - time.monotonic() - self._sample_seconds)
        seconds = min(REQUEST_SECONDS, self._sample_seconds + rest)
        content = {
            "samples": [sample.encode() for sample in batch],
            "timeout_seconds": seconds,
            "sample_seconds": self._sample_seconds,
        }
        reply = await self._connection.fetch(
            "POST", "/v1/grade", values=content, seconds=seconds, retry_seconds=rest
        )
        try:
            return [read_verdict(each) for each in reply["verdicts"]]
        except (LookupError, TypeError, ValueError) as error:
            raise RewardUnavailableError(
                f"the reply of the service at {self._connection.address} cannot be read: {error}"
            ) from error


@contextlib.asynccontextmanager
async def open_remote(
    url: str, *, token: str | None = None, timeout_seconds: float = DEFAULT_SECONDS
) -> AsyncIterator[RemoteGrading]:
    """Yield a grading at a service.

    Args:
        url: the URL that `harness serve` prints, with or without the token as its path.
        token: the token, if the URL does not have it. HARNESS_SERVE_TOKEN is the default for a URL without a
            path.
        timeout_seconds: the time for all tries of a sample, waits included.

    Raises UsageError for a URL or a token that cannot be used, and without the packages of the extra
    `client`. Raises ServiceUnreachableError if no service answers.
    """
    async with open_connection(read_address(url, token), wait_seconds=timeout_seconds) as connection:
        yield RemoteGrading(connection, timeout_seconds=timeout_seconds)
