"""The use of a model in one attempt, under the names of an attempt's metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harness.models.messages import NO_USAGE, Finish, ModelReply, Usage


@dataclass(slots=True)
class Counts:
    """The use of the model in one attempt."""

    requests: int = 0
    retries: int = 0
    cached: int = 0
    usage: Usage = NO_USAGE
    cost: float | None = 0.0
    seconds: float = 0.0
    waiting_seconds: float = 0.0
    truncations: int = 0
    # The replies that ended at a limit of tokens, those from the cache as well.
    cut: int = 0

    def add(self, reply: ModelReply, cost: float | None) -> None:
        """Count a reply. One from the cache was paid for before, so its tokens do not count."""
        self.cut += reply.choices[0].finish is Finish.LENGTH
        if reply.is_cached:
            self.cached += 1
            return
        self.count_request(reply.usage, cost)
        self.retries += reply.retries
        if reply.shared is None or reply.shared.counts_time:
            self.seconds += reply.seconds
            self.waiting_seconds += reply.waiting_seconds

    def count_request(self, usage: Usage, cost: float | None) -> None:
        """Count a request that the server has answered, and its usage."""
        self.requests += 1
        self.usage += usage
        self.cost = None if self.cost is None or cost is None else self.cost + cost

    def metrics(self) -> dict[str, Any]:
        return {
            "model_requests": self.requests,
            "model_retries": self.retries,
            "cached_replies": self.cached,
            **self.usage.as_values(),
            "cost": self.cost,
            "model_seconds": round(self.seconds, 3),
            "waiting_seconds": round(self.waiting_seconds, 3),
            "context_truncated": self.truncations,
            "cut_replies": self.cut,
        }
