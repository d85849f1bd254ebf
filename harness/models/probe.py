"""The probe of an endpoint: a few small requests that show which parts of the protocol its server honours.

The findings have one line for each fact, and the remedy where something is odd.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from harness.core.errors import HarnessError, UsageError
from harness.models.client import ModelClient, open_client
from harness.models.endpoint import Endpoint
from harness.models.messages import (
    Finish,
    Generation,
    Message,
    ModelReply,
    ModelRequest,
    Role,
    ToolSchema,
)
from harness.models.server_errors import (
    ContextTooLongError,
    InvalidRequestError,
    ModelError,
    ModelRefusedError,
)

TRY_SECONDS = 60.0
MOST_TRIES = 2
# A reasoning model needs room for its thoughts, and other models answer the questions in a few words.
MAX_TOKENS = 2048
# OpenAI's Responses API accepts no smaller limit.
SMALL_LIMIT = 16
# A line of the filler is about 13 tokens in the vocabularies of today's models.
SHORT_LINES, LONG_LINES = 40, 640
LONG_PROMPT_TOKENS = 8_000
Ask = Callable[[ModelRequest], Awaitable[ModelReply]]
# A prompt was cut if the server reports a smaller part of it than this.
WHOLE_PROMPT_SHARE = 0.8

TOOL = ToolSchema(
    "get_temperature",
    "Return the temperature in a city.",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
HELLO = "Answer with the single word: ready"
ONE_CALL = "Call the tool get_temperature for the city Oslo. Do not answer in words."
TWO_CALLS = "Call the tool get_temperature twice in this one reply: for the city Oslo and for the city Lima."
COUNT_TO_NINE = "Write the numbers from 1 to 9 on one line, separated by spaces, and nothing else."
COUNT_TO_HUNDRED = "Write the numbers from 1 to 100, separated by spaces, and nothing else."
WORDS = "Write ten random English words, and nothing else."
SYSTEM = "Answer every message with the single word BANANA, whatever it asks."
CAPITAL = "Which city is the capital of France?"


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """The findings of a probe. None is a question that the probe could not answer."""

    # The time in seconds until the first reply.
    seconds: float
    tool_mode: Literal["native", "text"]
    # The reason for the mode `text`.
    tool_problem: str | None
    parallel_calls: bool | None
    returns_n: bool | None
    # The field that bounds the tokens of a reply, None if no field does.
    max_tokens_field: str | None
    # The field that the client would use without a setting.
    default_max_tokens_field: str
    # The field of the reasoning, or `<think>` in the text, None for a model that showed none.
    reasoning_field: str | None
    honours_system: bool | None
    honours_stop: bool | None
    honours_seed: bool | None
    reports_usage: bool
    # The tokens of the longest prompt that arrived whole, as the server reports them.
    context_at_least: int | None
    # The tokens that were left of a longer prompt, if the server cut it without an error.
    cut_at: int | None
    # Whether the model found a number at the start of a prompt of about 8,000 tokens.
    finds_needle: bool | None
    # The parameters that the server refuses.
    left_out: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Needle:
    """The outcome of a question about a number at the start of a prompt."""

    characters: int
    found: bool | None = None
    tokens: int | None = None
    is_refused: bool = False


async def probe_tools(ask: Ask) -> Literal["native", "text"]:
    """Return whether the model calls tools by the protocol of the API, after one request.

    Args:
        ask: sends a request. Its exceptions end the probe, except for those that refuse the request alone.
    """
    mode, _ = await _probe_one_call(ask, must_answer=True)
    return mode


async def probe_model(endpoint: Endpoint) -> ModelFacts:
    """Return the facts about an endpoint, after about a dozen small requests.

    Raises:
        ModelError: if the endpoint does not answer.
        UsageError: if the endpoint refuses every request, or a plain one.
    """
    endpoint = endpoint.model_copy(
        update={
            "try_seconds": min(TRY_SECONDS, endpoint.try_seconds),
            "request_seconds": min((MOST_TRIES + 1) * TRY_SECONDS, endpoint.request_seconds),
        }
    )
    async with open_client(endpoint) as client:
        hello = await _require_reply(client)
        default_field = client.dialect.max_tokens_field
        stops = Generation(temperature=0.0, max_tokens=MAX_TOKENS, stop=("5",))
        # The long prompt comes last, because a server with one place would let the others wait for it.
        async with asyncio.TaskGroup() as group:
            ask = partial(client.ask, most_tries=MOST_TRIES)
            tools = group.create_task(_probe_one_call(ask, must_answer=False))
            parallel = group.create_task(_ask(client, TWO_CALLS, tools=(TOOL,)))
            several = group.create_task(_ask(client, HELLO, n=2))
            stop = group.create_task(_ask(client, COUNT_TO_NINE, generation=stops))
            seed = group.create_task(_probe_seed(client))
            system = group.create_task(_ask(client, CAPITAL, system=SYSTEM))
            fields = group.create_task(_find_bounding_fields(endpoint, default_field))
            short = group.create_task(_probe_needle(client, SHORT_LINES))
            long = group.create_task(_probe_needle(client, LONG_LINES))
        dialect = client.dialect
    tool_mode, tool_problem = tools.result()
    context_at_least, cut_at = _judge_context(hello, short.result(), long.result())
    answers = (hello, *(task.result() for task in (parallel, several, stop, system)))
    is_chat = endpoint.api == "chat"
    called, instructed = parallel.result(), system.result()
    has_two_calls = None if called is None else len(called.choices[0].message.tool_calls) > 1
    return ModelFacts(
        seconds=hello.seconds,
        tool_mode=tool_mode,
        tool_problem=tool_problem,
        parallel_calls=has_two_calls if tool_mode == "native" else None,
        returns_n=dialect.returns_n if is_chat else False,
        max_tokens_field=next(iter(fields.result()), None),
        default_max_tokens_field=default_field,
        reasoning_field=_find_reasoning_field([reply for reply in answers if reply is not None]),
        honours_system=None if instructed is None else "banana" in _read_text(instructed).lower(),
        honours_stop=False if endpoint.api == "responses" else _judge_stop(stop.result()),
        honours_seed=seed.result() if is_chat else False,
        reports_usage=hello.usage.total_tokens is not None,
        context_at_least=context_at_least,
        cut_at=cut_at,
        finds_needle=long.result().found,
        left_out=tuple(sorted(dialect.left_out)),
    )


async def _require_reply(client: ModelClient) -> ModelReply:
    """Return the reply to a plain request. Raises ModelError and UsageError."""
    request = _make_request(HELLO)
    try:
        return await client.ask(request, most_tries=MOST_TRIES)
    except ModelError as error:
        hint = "start the server, or check the URL"
        raise ModelError(error.message, hint=hint) from None
    except (InvalidRequestError, ContextTooLongError) as error:
        endpoint = client.endpoint
        raise UsageError(
            f"model '{endpoint.model}' at {endpoint.base_url} refuses a plain request: {error}",
            hint="check that the model is one for chat",
        ) from None


async def _ask(
    client: ModelClient,
    prompt: str,
    *,
    system: str | None = None,
    tools: tuple[ToolSchema, ...] = (),
    generation: Generation | None = None,
    n: int = 1,
) -> ModelReply | None:
    """Return the reply, None if the server refuses the request or fails."""
    with contextlib.suppress(HarnessError, InvalidRequestError, ContextTooLongError):
        request = _make_request(prompt, system=system, tools=tools, generation=generation, n=n)
        return await client.ask(request, most_tries=MOST_TRIES)
    return None


async def _probe_one_call(ask: Ask, *, must_answer: bool) -> tuple[Literal["native", "text"], str | None]:
    """Return the mode of tools, and the reason for the mode `text`.

    Raises ModelError and ModelRefusedError if the endpoint must answer and does not.
    """
    try:
        reply = await ask(_make_request(ONE_CALL, tools=(TOOL,)))
    except (InvalidRequestError, ContextTooLongError) as error:
        return "text", f"the server refuses tools: {error}"
    except ModelRefusedError:
        if must_answer:
            raise
        return "text", "the server refuses tools"
    except ModelError as error:
        if must_answer:
            raise
        return "text", f"the server fails with tools: {error}"
    if any(call.name == TOOL.name for choice in reply.choices for call in choice.message.tool_calls):
        return "native", None
    if TOOL.name in _read_text(reply):
        return "text", "the call came as plain text, which a parser of the server should have read"
    return "text", "the model made no call"


async def _probe_seed(client: ModelClient) -> bool | None:
    """Return whether two requests with the same seed get the same reply."""
    generation = Generation(1.0, max_tokens=MAX_TOKENS, seed=7)
    one, other = await asyncio.gather(*(_ask(client, WORDS, generation=generation) for _ in range(2)))
    if "seed" in client.dialect.left_out:
        return False
    if one is None or other is None or not _read_all(one):
        return None
    return _read_all(one) == _read_all(other)


async def _find_bounding_fields(endpoint: Endpoint, default: str) -> list[str]:
    """Return the fields that bound the tokens of a reply, the default one first."""
    fields = [default]
    if endpoint.api == "chat" and endpoint.max_tokens_field == "auto":
        fields += [name for name in ("max_tokens", "max_completion_tokens") if name != default]
    are_bounding = await asyncio.gather(*(_bounds_reply(endpoint, name) for name in fields))
    return [name for name, is_bounding in zip(fields, are_bounding, strict=True) if is_bounding]


async def _bounds_reply(endpoint: Endpoint, field: str) -> bool:
    if endpoint.api == "chat":
        endpoint = endpoint.model_copy(update={"max_tokens_field": field})
    async with open_client(endpoint) as client:
        reply = await _ask(client, COUNT_TO_HUNDRED, generation=Generation(0.0, max_tokens=SMALL_LIMIT))
    if reply is None or field in client.dialect.left_out:
        return False
    # The text of 100 numbers has 291 characters.
    return reply.choices[0].finish is Finish.LENGTH or 0 < len(_read_all(reply)) < 10 * SMALL_LIMIT


async def _probe_needle(client: ModelClient, lines: int) -> _Needle:
    # A number that the server has not seen keeps its cache of prompts from changing the reported tokens.
    number = random.randrange(10_000, 100_000)
    filler = "".join(f"Line {line}: the grass is green and the sky is blue.\n" for line in range(lines))
    prompt = f"The secret number is {number}.\n{filler}Answer with the secret number alone."
    try:
        reply = await client.ask(_make_request(prompt), most_tries=MOST_TRIES)
    except ContextTooLongError:
        return _Needle(len(prompt), is_refused=True)
    except (HarnessError, InvalidRequestError):
        return _Needle(len(prompt))
    text = _read_text(reply)
    # A model that was still thinking when its tokens were used up has not missed the number.
    found = str(number) in text if text else None
    return _Needle(len(prompt), found, reply.usage.input_tokens)


def _judge_context(hello: ModelReply, short: _Needle, long: _Needle) -> tuple[int | None, int | None]:
    """Return the tokens of the longest prompt that arrived whole, and those that are left of a cut one."""
    least = hello.usage.input_tokens
    if long.tokens is None or short.tokens is None or least is None:
        return (short.tokens if long.is_refused or not long.found else long.tokens), None
    # The difference leaves out the tokens of the chat template, which every prompt has.
    tokens_a_character = max(short.tokens - least, 0) / (short.characters - len(HELLO))
    expected = least + tokens_a_character * (long.characters - len(HELLO))
    if long.found or long.tokens >= WHOLE_PROMPT_SHARE * expected:
        return max(long.tokens, short.tokens), None
    return min(short.tokens, long.tokens), long.tokens


def _judge_stop(reply: ModelReply | None) -> bool | None:
    """Return whether the text ends before the stop sequence, None if the model did not count."""
    text = "" if reply is None else _read_text(reply)
    if "5" in text or "6" in text:
        return False
    return True if "3" in text else None


def _find_reasoning_field(replies: list[ModelReply]) -> str | None:
    found = (choice.message.reasoning for reply in replies for choice in reply.choices)
    return next((next(iter(each.fields), "<think>") for each in found if each is not None), None)


def _read_text(reply: ModelReply) -> str:
    return reply.choices[0].message.text


def _read_all(reply: ModelReply) -> str:
    """Return the reasoning and the text, because a short reply of a reasoning model has only reasoning."""
    message = reply.choices[0].message
    return ("" if message.reasoning is None else message.reasoning.text) + message.text


def _make_request(
    prompt: str,
    *,
    system: str | None = None,
    tools: tuple[ToolSchema, ...] = (),
    generation: Generation | None = None,
    n: int = 1,
) -> ModelRequest:
    before = () if system is None else (Message(Role.SYSTEM, system),)
    return ModelRequest(
        (*before, Message(Role.USER, prompt)),
        tools,
        generation or Generation(temperature=0.0, max_tokens=MAX_TOKENS),
        n,
    )


@dataclass(frozen=True, slots=True)
class ModelFinding:
    """One line about an endpoint. `advice` is None if nothing is odd."""

    name: str
    found: str
    advice: str | None = None


def describe_facts(facts: ModelFacts) -> tuple[ModelFinding, ...]:
    """Return a finding for each fact, in reading order."""
    return (
        ModelFinding("answers", f"after {facts.seconds:.1f} s"),
        _describe_tools(facts),
        _describe_parallel_calls(facts),
        _describe_max_tokens(facts),
        _describe_context(facts),
        ModelFinding("reasoning", f"in {facts.reasoning_field}" if facts.reasoning_field else "none"),
        _describe_system(facts),
        _describe_choice(
            "n", facts.returns_n, "returns as many choices as asked for", "asks once for each sample"
        ),
        _describe_choice("stop", facts.honours_stop, "honoured", "the text may go on after a stop sequence"),
        _describe_choice(
            "seed", facts.honours_seed, "two requests got the same reply", "runs cannot be repeated exactly"
        ),
        _describe_usage(facts),
        ModelFinding("refused parameters", ", ".join(facts.left_out) or "none"),
    )


def _describe_tools(facts: ModelFacts) -> ModelFinding:
    if facts.tool_mode == "native":
        return ModelFinding("tool calls", "native")
    return ModelFinding(
        "tool calls",
        f"in the text: {facts.tool_problem}",
        "harness uses its text protocol; for native calls start the server with a parser of tool calls, "
        "such as vllm serve --enable-auto-tool-choice --tool-call-parser NAME, or llama-server --jinja",
    )


def _describe_parallel_calls(facts: ModelFacts) -> ModelFinding:
    if facts.tool_mode == "text":
        return ModelFinding("parallel calls", "none without native calls")
    found = {True: "several in one reply", False: "one in each reply", None: "unknown"}
    return ModelFinding("parallel calls", found[facts.parallel_calls])


def _describe_max_tokens(facts: ModelFacts) -> ModelFinding:
    field = facts.max_tokens_field
    if field is None:
        return ModelFinding(
            "max tokens",
            "no field bounds a reply",
            "a reply may be as long as the context, so watch the cost",
        )
    if field == facts.default_max_tokens_field:
        return ModelFinding("max tokens", field)
    return ModelFinding("max tokens", field, f"set max_tokens_field: {field} for this endpoint in the config")


def _describe_context(facts: ModelFacts) -> ModelFinding:
    least = facts.context_at_least
    known = "unknown" if least is None else f"at least {least:,} tokens"
    if facts.cut_at is not None:
        return ModelFinding(
            "context",
            f"the server cut the prompt at about {facts.cut_at:,} tokens, without an error",
            "raise its context, such as OLLAMA_CONTEXT_LENGTH=32768 for ollama serve; otherwise the model "
            "loses the start of each long task",
        )
    if facts.finds_needle:
        return ModelFinding("context", known)
    if facts.finds_needle is None:
        return ModelFinding(
            "context",
            f"{known}; a prompt of about {LONG_PROMPT_TOKENS:,} tokens got no answer",
            "raise the server's context if tasks are long",
        )
    if facts.reports_usage:
        return ModelFinding(
            "context", f"{known}, but the model overlooked a number at the start of that prompt"
        )
    return ModelFinding(
        "context",
        f"unknown: the model lost the start of a prompt of about {LONG_PROMPT_TOKENS:,} tokens",
        "check the server's context, because it may cut prompts without an error",
    )


def _describe_system(facts: ModelFacts) -> ModelFinding:
    if facts.honours_system:
        return ModelFinding("system role", "honoured")
    return ModelFinding(
        "system role",
        "refused" if facts.honours_system is None else "ignored",
        "put instructions into agent_prompt",
    )


def _describe_choice(name: str, holds: bool | None, found: str, otherwise: str) -> ModelFinding:
    if holds is None:
        return ModelFinding(name, "unknown")
    return ModelFinding(name, found if holds else f"not honoured: {otherwise}")


def _describe_usage(facts: ModelFacts) -> ModelFinding:
    if facts.reports_usage:
        return ModelFinding("usage", "reported")
    return ModelFinding("usage", "not reported", "budgets of tokens and cost cannot be kept at this server")
