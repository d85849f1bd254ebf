"""A SPARQL endpoint that serves Freebase, as the knowledge of a session.

A query is built from programs only. Their ids and relations have passed a whitelist of characters by then,
so that no text of an agent reaches a query.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from harness.core.errors import SandboxError
from harness.core.inputs.json_text import BrokenJSONError, parse_json
from harness.core.secret_forms import open_session
from harness.environments.kg.graph import (
    Count,
    Entity,
    Extreme,
    Intersection,
    Neighbors,
    Program,
    find_entities,
    find_extreme,
)
from harness.environments.kg.session import ActionError

if TYPE_CHECKING:
    import requests

NAMESPACE = "http://rdf.freebase.com/ns/"
MAX_ANSWERS = 100_000
MAX_REPLY_BYTES = 32 * 1024 * 1024
CONNECT_SECONDS, READ_SECONDS = 10.0, 60.0
_CHUNK = 64 * 1024
_ZONE = "-08:00"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}(?:\.[A-Za-z0-9_-]{1,100}){1,12}", re.ASCII)
# The server is down or busy. Another error is its reply to this one query.
_TRY_AGAIN = frozenset({429, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An endpoint by its URL. Each query is one request."""

    url: str

    @property
    def _host(self) -> str:
        """The host for messages. The rest of the URL may hold a password."""
        return urlsplit(self.url).hostname or "no host"

    def relations_of(self, subject: Entity | Program) -> Set[str]:
        """Return the relations and attributes of a subject.

        Raises ActionError if the endpoint refuses the query, and SandboxError if it cannot be reached.
        """
        return _without_namespace(self._ask(relations_query(subject)))

    def answers(self, program: Program) -> frozenset[str]:
        """Return the answers of a program as texts. Raises as `relations_of` does."""
        return frozenset(
            text.replace(_ZONE, "") for text in _without_namespace(self._ask(answers_query(program)))
        )

    def _ask(self, query: str) -> set[str]:
        import requests

        try:
            with (
                open_session() as session,
                session.post(
                    self.url,
                    data={"query": query},
                    headers={"Accept": "application/sparql-results+json"},
                    timeout=(CONNECT_SECONDS, READ_SECONDS),
                    allow_redirects=False,
                    stream=True,
                ) as response,
            ):
                return self._read(response)
        except requests.ReadTimeout as error:
            raise ActionError("the knowledge base took too long for this") from error
        except requests.RequestException as error:
            raise SandboxError(
                f"the SPARQL endpoint at {self._host} cannot be reached: {type(error).__name__}", outside=True
            ) from error

    def _read(self, response: requests.Response) -> set[str]:
        if response.status_code in _TRY_AGAIN:
            raise SandboxError(
                f"the SPARQL endpoint at {self._host} is not available: HTTP {response.status_code}",
                outside=True,
            )
        if response.status_code != 200:
            raise ActionError("the knowledge base could not carry this out")
        data = bytearray()
        for chunk in response.iter_content(_CHUNK):
            data += chunk
            if len(data) > MAX_REPLY_BYTES:
                raise ActionError("the knowledge base found too much")
        try:
            bindings = parse_json(bytes(data), max_digits=4000, allow_nan=False)["results"]["bindings"]
            return {_read_binding(binding) for binding in bindings}
        except (BrokenJSONError, LookupError, TypeError, AttributeError) as error:
            raise SandboxError(
                f"the SPARQL endpoint at {self._host} sent no results in JSON", outside=True
            ) from error


def answers_query(program: Program) -> str:
    """Return the query for the answers of a program."""
    return _select(program, "?x", _variables()) + f" LIMIT {MAX_ANSWERS}"


def relations_query(subject: Entity | Program) -> str:
    """Return the query for the relations that lead out of an entity, or of any answer of a program."""
    if isinstance(subject, Entity):
        return f"SELECT DISTINCT ?r WHERE {{ {_term(subject.id)} ?r ?o . }}"
    inner = _select(subject, "?x", _variables())
    return f"SELECT DISTINCT ?r WHERE {{ ?x ?r ?o . {{ {inner} }} }}"


def _select(program: Program, variable: str, fresh: Iterator[str]) -> str:
    """Return a query that binds a variable to each answer."""
    extreme = find_extreme(program)
    if extreme is None:
        pattern = f"{_pattern(program, variable, fresh)} {_filters(program, variable)}"
    else:
        value = next(fresh)
        order = f"DESC({value})" if extreme.largest else value
        # The value is the best with an answer. Then all nodes with that value count, as upstream has it.
        steps = _pattern(program, variable, fresh, value)
        pattern = (
            f"{steps} {{ SELECT {value} WHERE {{ {steps} {_filters(program, variable)} }} "
            f"ORDER BY {order} LIMIT 1 }}"
        )
    return f"SELECT DISTINCT {variable} WHERE {{ {pattern} }}"


def _pattern(program: Program, variable: str, fresh: Iterator[str], value: str | None = None) -> str:
    """Return the patterns that bind a variable to each node of a program.

    `value` is the variable for the value of the program's extreme. Without it, an extreme is a query inside.
    """
    match program:
        case Neighbors(Entity(name), relation):
            return f"{_term(name)} {_term(relation)} {variable} ."
        case Neighbors(source, relation) if not isinstance(source, Entity):
            before = next(fresh)
            return f"{_pattern(source, before, fresh, value)} {before} {_term(relation)} {variable} ."
        case Intersection(first, second):
            parts = (
                _pattern(part, variable, fresh, None if find_extreme(part) is None else value)
                for part in (first, second)
            )
            return " ".join(parts)
        case Extreme(source, attribute) if value is not None:
            return f"{_pattern(source, variable, fresh)} {variable} {_term(attribute)} {value} ."
        case Extreme():
            return f"{{ {_select(program, variable, fresh)} }}"
        case Count(source):
            counted = next(fresh)
            return (
                f"{{ SELECT (COUNT(DISTINCT {counted}) AS {variable}) WHERE "
                f"{{ {{ {_select(source, counted, fresh)} }} }} }}"
            )
    raise TypeError(f"no pattern for {type(program).__name__}")


def _filters(program: Program, variable: str) -> str:
    language = f"lang({variable})"
    filters = [f"FILTER(!isLiteral({variable}) || {language} = '' || langMatches({language}, 'en'))"]
    filters += [f"FILTER({variable} != {_term(name)})" for name in sorted(find_entities(program))]
    return " ".join(filters)


def _term(name: str) -> str:
    """Return an id or a relation as an IRI. Raises ActionError for one with other characters."""
    if _NAME.fullmatch(name) is None:
        raise ActionError("the name of an entity or a relation has characters that no such name has")
    return f"<{NAMESPACE}{name}>"


def _variables() -> Iterator[str]:
    return (f"?v{number}" for number in count())


def _read_binding(binding: Any) -> str:
    ((_name, found),) = binding.items()
    value = found["value"]
    if not isinstance(value, str):
        raise TypeError("a value is not a text")
    return value


def _without_namespace(values: set[str]) -> set[str]:
    return {value.removeprefix(NAMESPACE) for value in values}
