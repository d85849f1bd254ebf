"""Grade samples at a service that `harness serve` offers."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from harness.client.connection import TOKEN_VARIABLE
from harness.errors import UsageError
from harness.rl.gathering import gather_or_cancel
from harness.rl.samples import RewardSample, RewardUnavailableError
from harness.types import Status, Verdict

if TYPE_CHECKING:
    import httpx

# A service takes 1,024 samples in one request. Smaller requests wait less.
BATCH = 128
# The time of one request, and of all tries of a sample.
REQUEST_SECONDS = 600.0
DEFAULT_SECONDS = 1800.0
# The wall time of one grading, as that of the environment `python` in a run.
SAMPLE_SECONDS = 180.0
# The reply ends at most two seconds after the time of the request.
_REPLY_SECONDS = 10.0
_RETRIED = frozenset({429, 500, 502, 503, 504})
_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 0.5, 30.0
_MESSAGE_CHARACTERS = 500


class RemoteGrading:
    """Grades samples at a service.

    A refused request, a lost connection and a sample without a verdict are tried again, which is safe because
    grading changes nothing. No message has the token, which may be part of the URL.
    """

    def __init__(self, http: httpx.AsyncClient, url: str, *, timeout_seconds: float) -> None:
        """Send requests to `url`, and try each sample for at most `timeout_seconds`. Raises UsageError."""
        if not timeout_seconds > 0:
            raise UsageError(f"timeout_seconds must be more than 0, not {timeout_seconds}")
        self._http = http
        self._url = f"{url.rstrip('/')}/v1/grade"
        self._name = _name_service(url)
        self._timeout_seconds = timeout_seconds
        # The same in each try, because a program must not get less time when the service was busy before.
        self._sample_seconds = min(SAMPLE_SECONDS, timeout_seconds / 2)

    async def grade(self, samples: Sequence[RewardSample]) -> list[Verdict]:
        """Return one verdict for each sample, in their order.

        A sample that got no verdict in time has one without a score. Raises UsageError if the service refuses
        a sample or the token, and RewardUnavailableError if it never answered.
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
            reason, retry_seconds = f"the service at {self._name} had no time for the sample", 0.0
            try:
                replied = await self._request([batch[place] for place in missing], ends)
            except _RefusedError as error:
                reason, retry_seconds = error.reason, error.retry_seconds
            else:
                verdicts.update(zip(missing, replied, strict=True))
                missing = [place for place in missing if verdicts[place].score is None]
            if not missing:
                return [verdicts[place] for place in range(len(batch))]
            pause = max(wait * random.uniform(0.5, 1.0), retry_seconds)
            if time.monotonic() + pause + self._sample_seconds >= ends:
                if not verdicts:
                    raise RewardUnavailableError(reason)
                fault = Verdict(Status.INFRA_ERROR, None, evidence=reason)
                return [verdicts.get(place, fault) for place in range(len(batch))]
            await asyncio.sleep(pause)
            wait = min(2 * wait, _LONGEST_WAIT_SECONDS)

    async def _request(self, batch: Sequence[RewardSample], ends: float) -> list[Verdict]:
        """Return the verdicts of one request. Raises UsageError, and _RefusedError if it may be repeated."""
        import httpx

        seconds = min(REQUEST_SECONDS, max(self._sample_seconds, ends - time.monotonic()))
        content = {
            "samples": [sample.encode() for sample in batch],
            "timeout_seconds": seconds,
            "sample_seconds": self._sample_seconds,
        }
        try:
            response = await self._http.post(self._url, json=content, timeout=seconds + _REPLY_SECONDS)
        except httpx.TransportError as error:
            # The error of the library holds the request, and with it the token.
            raise _RefusedError(f"the service at {self._name} failed: {type(error).__name__}") from None
        if response.status_code in _RETRIED:
            raise _RefusedError(
                f"the service at {self._name} answered {_describe(response)}", _read_wait(response)
            )
        if response.status_code == 401:
            raise UsageError(
                f"the service at {self._name} refuses the token",
                hint=f"use the URL that harness serve prints, pass token=, or set {TOKEN_VARIABLE}",
            )
        if response.status_code != 200:
            raise UsageError(f"the service at {self._name} refuses the samples: {_describe(response)}")
        try:
            return [_read_verdict(each) for each in response.json()["verdicts"]]
        except (ValueError, KeyError, TypeError) as error:
            raise _RefusedError(f"the reply of {self._name} cannot be read: {error}") from error


class _RefusedError(Exception):
    """A request that may be repeated after `retry_seconds`."""

    def __init__(self, reason: str, retry_seconds: float = 0.0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry_seconds = retry_seconds


def _read_verdict(values: Mapping[str, Any]) -> Verdict:
    status = Status(values["status"])
    score = values["score"]
    if (score is None) is status.has_score:
        raise ValueError(f"a verdict {status.value} with the score {score}")
    metrics = values.get("metrics") or {}
    return Verdict(
        status, None if score is None else float(score), metrics=metrics, evidence=values.get("evidence")
    )


def _describe(response: httpx.Response) -> str:
    try:
        message = str(response.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        message = "no message"
    return f"{response.status_code}: {message[:_MESSAGE_CHARACTERS]}"


def _read_wait(response: httpx.Response) -> float:
    text = response.headers.get("retry-after", "")
    return min(float(text), _LONGEST_WAIT_SECONDS) if text.isascii() and text.isdigit() else 0.0


def _name_service(url: str) -> str:
    """Return the address of a service without its path, which may hold the token. Raises UsageError."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError("the URL of a service must begin with http:// or https:// and name a host")
    return f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")


@contextlib.asynccontextmanager
async def open_remote(
    url: str, *, token: str | None = None, timeout_seconds: float = DEFAULT_SECONDS
) -> AsyncIterator[RemoteGrading]:
    """Yield a grading at a service.

    Args:
        url: the URL that `harness serve` prints, with or without the token as its path.
        token: the token, if the URL does not have it. HARNESS_SERVE_TOKEN is that of a URL without a path.
        timeout_seconds: the time for all tries of a sample, waits included.

    Raises UsageError for a URL that cannot be used, and without the packages of the extra `client`.
    """
    try:
        import httpx
    except ImportError as error:
        raise UsageError(
            "rewards from a service need httpx, which is not installed",
            hint="run: pip install 'harness[client]'",
        ) from error
    if token is None and not urlsplit(url).path.strip("/"):
        token = os.environ.get(TOKEN_VARIABLE)
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    # The environment's proxies and ~/.netrc are left out, because they would see the token.
    async with httpx.AsyncClient(headers=headers, trust_env=False) as http:
        yield RemoteGrading(http, url, timeout_seconds=timeout_seconds)
