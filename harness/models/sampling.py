"""The samples of one task: equal requests of several attempts become one request for several replies."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from harness.models.messages import (
    ModelReply,
    ModelRequest,
    SharedRequest,
    Usage,
    describe_request,
)

# The largest number of replies to ask for at once. Source: the limit of OpenAI's API.
MOST_REPLIES = 128
# How long a request waits for the requests of other attempts at its task, which began at the same moment.
GATHER_SECONDS = 0.05

# Asks the endpoint for a reply, as the method of a client does.
Ask = Callable[..., Awaitable[ModelReply]]
# The group, and the request as text without its seed.
_Key = tuple[Hashable, str]


@dataclass(frozen=True, slots=True)
class Sample:
    """The request of one attempt.

    `waiting` returns a context that pauses its agent's time. `permit` raises an exception if
    the request must not be sent any more.
    """

    request: ModelRequest
    number: int
    waiting: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext
    permit: Callable[[], None] = lambda: None


@dataclass(slots=True, eq=False)
class _Batch:
    """Samples that are asked for together. `is_full` is set once no further sample is expected."""

    replies: asyncio.Task[dict[int, ModelReply]]
    samples: list[Sample]
    is_full: asyncio.Event
    waiting: int = 0


class SampleMerger:
    """Merges the first requests of attempts at one task, if they differ in nothing but the seed.

    A server that ignores `n` returns one reply. The other samples then get requests and seeds of their own,
    and nothing is merged any more.
    """

    def __init__(self) -> None:
        self._expected: dict[Hashable, int] = {}
        self._batches: dict[_Key, _Batch] = {}
        self._is_supported = True

    def expect(self, group: Hashable, samples: int) -> None:
        """Announce how many attempts of a group begin now, so that none of their requests waits for more."""
        self._expected[group] = samples

    def forget(self, group: Hashable) -> None:
        """Forget a group, whose attempts have ended."""
        self._expected.pop(group, None)

    async def ask(self, ask: Ask, group: Hashable, sample: Sample) -> ModelReply:
        """Return the reply for one sample. Raises as `ask` does."""
        expected = self._expected.get(group, 1)
        if expected < 2 or not self._is_supported:
            return await _ask_alone(ask, sample)
        request = replace(sample.request, generation=replace(sample.request.generation, seed=None))
        key = (group, describe_request(request))
        batch = self._batches.get(key) or self._begin_batch(ask, key)
        batch.samples.append(sample)
        if len(batch.samples) >= min(expected, MOST_REPLIES):
            self._batches.pop(key, None)
            batch.is_full.set()
        batch.waiting += 1
        try:
            replies = await asyncio.shield(batch.replies)
        except asyncio.CancelledError:
            if batch.waiting == 1:
                batch.replies.cancel()
                # A sample that joined now would also be cancelled.
                if self._batches.get(key) is batch:
                    del self._batches[key]
            raise
        finally:
            batch.waiting -= 1
        if sample.number in replies:
            return replies[sample.number]
        return await _ask_alone(ask, sample)

    def _begin_batch(self, ask: Ask, key: _Key) -> _Batch:
        samples: list[Sample] = []
        is_full = asyncio.Event()
        replies = asyncio.create_task(self._fill_and_ask(ask, key, samples, is_full))
        batch = self._batches[key] = _Batch(replies, samples, is_full)
        return batch

    async def _fill_and_ask(
        self, ask: Ask, key: _Key, joined: list[Sample], is_full: asyncio.Event
    ) -> dict[int, ModelReply]:
        """Return the replies by the number of the attempt. Some samples may be left without one."""
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GATHER_SECONDS):
                    await is_full.wait()
        finally:
            # A batch that is full or cancelled has left its place, which may hold the next batch.
            held = self._batches.get(key)
            if held is not None and held.is_full is is_full:
                del self._batches[key]
        samples = sorted(joined, key=lambda sample: sample.number)
        request = replace(samples[0].request, n=len(samples))
        reply = await ask(request, waiting=lambda: _enter_all(samples), permit=samples[0].permit)
        if len(reply.choices) < len(samples):
            self._is_supported = False
        return {
            sample.number: part for sample, part in zip(samples, split_reply(reply, request), strict=False)
        }


async def _ask_alone(ask: Ask, sample: Sample) -> ModelReply:
    return await ask(sample.request, waiting=sample.waiting, permit=sample.permit)


def split_reply(reply: ModelReply, request: ModelRequest) -> list[ModelReply]:
    """Return a reply for each choice that was asked for. Together they use what the reply has used.

    No server reports the tokens of each choice, so each gets an equal share. The first also gets the rest of
    the division, the retries, and the time.
    """
    choices = reply.choices[: request.n]
    seed = request.generation.seed
    raw_choices = reply.raw.get("choices", [])
    parts = []
    for place, choice in enumerate(choices):
        is_first = place == 0
        parts.append(
            replace(
                reply,
                choices=(choice,),
                usage=_share(reply.usage, len(choices), is_first=is_first),
                raw={**reply.raw, "choices": raw_choices[place : place + 1]},
                retries=reply.retries if is_first else 0,
                shared=SharedRequest(len(choices), seed, counts_time=is_first) if len(choices) > 1 else None,
            )
        )
    return parts


def _share(usage: Usage, parts: int, *, is_first: bool) -> Usage:
    def divide(number: int | None) -> int | None:
        if number is None:
            return None
        share, rest = divmod(number, parts)
        return share + rest if is_first else share

    return Usage(*(divide(number) for number in usage.as_values().values()))


@contextlib.contextmanager
def _enter_all(samples: list[Sample]) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for sample in samples:
            stack.enter_context(sample.waiting())
        yield
