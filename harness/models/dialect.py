"""The form of the protocol that a server has shown: its names of parameters, and those that it refuses."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Self

from harness.models.messages import ModelRequest

MAX_TOKENS_FIELDS = ("max_tokens", "max_completion_tokens")
# An agent may choose another value for each request. If a server has refused this many values of one
# parameter, it is likely to refuse all that the agent chooses.
MOST_REFUSED_VALUES = 8
# The names of a parameter in a request, if they differ from its name in Generation.
_GENERATION_NAMES = {
    **dict.fromkeys((*MAX_TOKENS_FIELDS, "max_output_tokens"), "max_tokens"),
    "reasoning": "reasoning_effort",
    "stop_sequences": "stop",
    "output_config": "reasoning_effort",
}


@dataclass(frozen=True, slots=True)
class Dialect:
    """All that a server has shown of its form of the protocol, so that no later request violates it."""

    # The field for the largest number of tokens.
    max_tokens_field: str
    # Whether the server decides between the two names of that field.
    tries_both_fields: bool = False
    # The parameters that the server has refused. Each has its value if an agent has chosen the value itself,
    # else None. So a value of one agent changes no request that does not have it.
    refused: frozenset[tuple[str, object]] = frozenset()
    # Whether the server accepts the fields in which it sends reasoning.
    replays_reasoning: bool = True
    # Whether the server takes back the fields of its replies that no codec knows.
    replays_extra: bool = True
    # Whether a request for several choices gets as many. None until one was sent.
    returns_n: bool | None = None

    @property
    def left_out(self) -> frozenset[str]:
        """The refused parameters of the run, which no request has."""
        return frozenset(name for name, value in self.refused if value is None)

    def find_left_out(self, request: ModelRequest) -> frozenset[str]:
        """Return the parameters that the server has refused for requests like this one."""
        names = Counter(name for name, value in self.refused if value is not None)
        return frozenset(
            name
            for name, _ in self.refused
            if (key := _identify(name, request)) in self.refused
            or (key[1] is not None and names[name] >= MOST_REFUSED_VALUES)
        )

    def list_refused_parameters(self, request: ModelRequest) -> frozenset[str]:
        """Return the parameters of generation that the server has refused for requests like this one."""
        names = self.find_left_out(request)
        if self.tries_both_fields and not names.issuperset(MAX_TOKENS_FIELDS):
            names = names.difference(MAX_TOKENS_FIELDS)
        return frozenset(_GENERATION_NAMES.get(name, name) for name in names)

    def choose_max_tokens_field(self, request: ModelRequest) -> str:
        """Return the name of the field for the largest number of tokens in a request."""
        field = self.max_tokens_field
        is_refused = self.tries_both_fields and field in self.find_left_out(request)
        return _find_other(field) if is_refused else field

    def refuse(self, name: str, request: ModelRequest) -> Self:
        """Return the dialect of a server that refuses a parameter of this request."""
        refusing = replace(self, refused=self.refused | {_identify(name, request)})
        if name == "n":
            return replace(refusing, returns_n=False)
        if name == self.max_tokens_field and self.tries_both_fields and name in refusing.left_out:
            other = _find_other(name)
            return replace(refusing, max_tokens_field=name if other in refusing.left_out else other)
        return refusing


def _identify(name: str, request: ModelRequest) -> tuple[str, object]:
    field = _GENERATION_NAMES.get(name, name)
    return name, getattr(request.generation, field) if field in request.own_parameters else None


def _find_other(field: str) -> str:
    first, second = MAX_TOKENS_FIELDS
    return second if field == first else first
