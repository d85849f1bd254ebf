"""The probe of an endpoint, against servers of several kinds, and `harness doctor --model`."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from case_checks import each_case
from model_server import Asked, ModelServer, completion, error, response, text_item

from harness.cli.app import main
from harness.models import client
from harness.models.client import open_client
from harness.models.endpoint import Endpoint
from harness.models.probe import ModelFacts, describe_facts, probe_model, probe_tools
from harness.models.server_errors import ModelError, ModelRefusedError


@dataclass(frozen=True)
class Kind:
    """A server whose model does as it is asked, and the deviations of both from the protocol."""

    parses_calls: bool = True
    calls_at_once: int = 2
    returns_n: bool = True
    honours_stop: bool = True
    honours_seed: bool = True
    honours_system: bool = True
    bounding_fields: tuple[str, ...] = ("max_tokens", "max_completion_tokens")
    refused: tuple[str, ...] = ()
    reports_usage: bool = True
    # The characters of the prompt that are left, from its end.
    context_characters: int | None = None
    refuses_long: bool = False
    reasoning: tuple[str, str] | None = None

    def answer(self, asked: Asked) -> Any:
        body = asked.body
        for name in self.refused:
            if name in body:
                return error(
                    400, f"Unsupported parameter: '{name}'", code="unsupported_parameter", param=name
                )
        prompt = "\n".join(str(message["content"]) for message in asked.messages)
        if self.context_characters is not None and len(prompt) > self.context_characters:
            if self.refuses_long:
                return error(400, "This model's maximum context length is 4096 tokens.")
            prompt = prompt[-self.context_characters :]
        usage = (len(prompt) // 4 + 20, 5) if self.reports_usage else None
        n = body.get("n", 1) if self.returns_n else 1
        thought: dict[str, Any] = {} if self.reasoning is None else dict([self.reasoning])
        if "tools" in body:
            cities = ["Oslo", "Lima"] if "twice" in prompt else ["Oslo"]
            calls = [("get_temperature", {"city": city}) for city in cities[: self.calls_at_once]]
            if self.parses_calls:
                return completion(calls=calls, usage=usage, **thought)
            text = json.dumps({"name": "get_temperature", "arguments": {"city": "Oslo"}})
            return completion(f"<tool_call>{text}</tool_call>", usage=usage)
        text = self.write(prompt, body, asked.number)
        if self.honours_stop and body.get("stop"):
            text = text.partition(body["stop"][0])[0]
        limits = [body[name] for name in self.bounding_fields if name in body]
        words = text.split(" ")
        if limits and len(words) > limits[0]:
            return completion(" ".join(words[: limits[0]]), finish="length", usage=usage, n=n, **thought)
        return completion(text, usage=usage, n=n, **thought)

    def write(self, prompt: str, body: dict[str, Any], number: int) -> str:
        if "BANANA" in prompt and self.honours_system:
            return "BANANA"
        if "numbers from 1 to" in prompt:
            most = 100 if "100" in prompt else 9
            return " ".join(str(each) for each in range(1, most + 1))
        if "random English words" in prompt:
            seed = body.get("seed") if self.honours_seed else number
            return f"apple river {seed}"
        if "secret number alone" in prompt:
            found = re.search(r"secret number is (\d+)", prompt)
            return found[1] if found else "I do not know."
        return "ready" if "single word: ready" in prompt else "Paris"


OPENAI = Kind(bounding_fields=("max_completion_tokens",), refused=("max_tokens", "temperature"))
OLLAMA = Kind(calls_at_once=1, returns_n=False, context_characters=4 * 4096, reasoning=("reasoning", "hm"))
VLLM_WITHOUT_PARSER = Kind(parses_calls=False, reasoning=("reasoning_content", "hm"))
BARE = Kind(
    returns_n=False,
    honours_stop=False,
    honours_seed=False,
    honours_system=False,
    bounding_fields=(),
    reports_usage=False,
    context_characters=4 * 4096,
)


async def probe(server: ModelServer, kind: Kind, **settings: Any) -> ModelFacts:
    server.script = kind.answer
    facts = await probe_model(Endpoint(model="scripted", base_url=server.url, **settings))
    return replace(facts, seconds=0.0)


def advice(facts: ModelFacts) -> dict[str, str]:
    return {each.name: each.advice for each in describe_facts(facts) if each.advice is not None}


def found(facts: ModelFacts) -> dict[str, str]:
    return {each.name: each.found for each in describe_facts(facts)}


async def test_a_server_like_openais(server: ModelServer) -> None:
    facts = await probe(server, OPENAI)
    least = facts.context_at_least
    assert least is not None
    assert 7_500 < least < 10_000
    assert facts == ModelFacts(
        seconds=0.0,
        tool_mode="native",
        tool_problem=None,
        parallel_calls=True,
        returns_n=True,
        max_tokens_field="max_completion_tokens",
        default_max_tokens_field="max_completion_tokens",
        reasoning_field=None,
        honours_system=True,
        honours_stop=True,
        honours_seed=True,
        reports_usage=True,
        context_at_least=least,
        cut_at=None,
        finds_needle=True,
        left_out=("max_tokens", "temperature"),
    )
    assert advice(facts) == {}


async def test_a_server_like_ollama_that_cuts_the_prompt_without_an_error(server: ModelServer) -> None:
    facts = await probe(server, OLLAMA)
    assert (facts.tool_mode, facts.parallel_calls, facts.returns_n) == ("native", False, False)
    assert facts.reasoning_field == "reasoning"
    assert facts.cut_at == 4096 + 20
    assert facts.context_at_least is not None
    assert facts.context_at_least < facts.cut_at
    assert advice(facts).keys() == {"context"}
    assert "cut the prompt at about 4,116 tokens" in found(facts)["context"]


async def test_a_server_like_vllm_without_a_parser_of_calls(server: ModelServer) -> None:
    facts = await probe(server, VLLM_WITHOUT_PARSER)
    assert (facts.tool_mode, facts.parallel_calls, facts.returns_n) == ("text", None, True)
    assert facts.reasoning_field == "reasoning_content"
    assert "plain text" in found(facts)["tool calls"]
    assert "--tool-call-parser" in advice(facts)["tool calls"]


async def test_a_server_that_ignores_almost_everything(server: ModelServer) -> None:
    facts = await probe(server, BARE)
    assert (facts.returns_n, facts.honours_stop, facts.honours_seed, facts.honours_system) == (False,) * 4
    assert (facts.max_tokens_field, facts.reports_usage) == (None, False)
    assert (facts.context_at_least, facts.cut_at, facts.finds_needle) == (None, None, False)
    assert advice(facts).keys() == {"max tokens", "context", "system role", "usage"}
    assert "lost the start" in found(facts)["context"]


async def test_a_server_that_refuses_a_long_prompt_cuts_nothing(server: ModelServer) -> None:
    facts = await probe(server, replace(OLLAMA, refuses_long=True))
    assert (facts.cut_at, facts.finds_needle) == (None, None)
    assert facts.context_at_least is not None
    assert facts.context_at_least < 4096


async def test_a_model_that_overlooks_the_needle_is_not_mistaken_for_a_cut_prompt(
    server: ModelServer,
) -> None:
    kind = Kind()

    def script(asked: Asked) -> Any:
        reply = kind.answer(asked)
        if len(str(asked.messages)) > 10_000:
            reply["choices"][0]["message"]["content"] = "I do not know."
        return reply

    server.script = script
    facts = await probe_model(Endpoint(model="scripted", base_url=server.url))
    assert (facts.cut_at, facts.finds_needle) == (None, False)
    assert facts.context_at_least is not None
    assert facts.context_at_least > 7_500
    assert "overlooked" in found(facts)["context"]


async def test_the_field_that_a_server_ignores_is_named(server: ModelServer) -> None:
    facts = await probe(server, Kind(bounding_fields=("max_completion_tokens",)))
    assert facts.max_tokens_field == "max_completion_tokens"
    assert "max_tokens_field: max_completion_tokens" in advice(facts)["max tokens"]


async def test_a_server_of_the_responses_api(server: ModelServer) -> None:
    server.script = lambda asked: response(text_item("ready"))
    facts = await probe_model(Endpoint(model="scripted", base_url=server.url, api="responses"))
    assert (facts.returns_n, facts.honours_stop, facts.honours_seed) == (False, False, False)
    assert facts.max_tokens_field == "max_output_tokens"
    assert {asked.path for asked in server.asked} == {"/v1/responses"}


async def test_independent_requests_are_sent_at_once(server: ModelServer) -> None:
    server.wait_seconds = 0.2
    server.most_at_once = 0
    await probe(server, Kind())
    assert server.most_at_once > 5


@pytest.mark.parametrize(
    ("kind", "mode"),
    [(Kind(), "native"), (VLLM_WITHOUT_PARSER, "text")],
    ids=["native", "text"],
)
async def test_one_request_finds_the_mode_of_tools(server: ModelServer, kind: Kind, mode: str) -> None:
    server.script = kind.answer
    async with open_client(Endpoint(model="scripted", base_url=server.url)) as opened:
        assert await probe_tools(opened.ask) == mode
    assert len(server.asked) == 1


async def test_a_server_that_refuses_tools_gets_the_text_protocol(server: ModelServer) -> None:
    message = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
    server.script = lambda asked: error(400, message) if "tools" in asked.body else completion("ready")
    async with open_client(Endpoint(model="scripted", base_url=server.url)) as opened:
        assert await probe_tools(opened.ask) == "text"


async def test_a_probe_of_a_server_without_an_answer_fails(server: ModelServer) -> None:
    server.script = lambda asked: error(401, "wrong key")
    async with open_client(Endpoint(model="scripted", base_url=server.url)) as opened:
        with pytest.raises(ModelRefusedError):
            await probe_tools(opened.ask)
    with pytest.raises(ModelError):
        await probe_model(Endpoint(model="scripted", base_url="http://127.0.0.1:1/v1", request_seconds=0.1))


@dataclass(frozen=True)
class Ended:
    """A command that has ended."""

    code: int
    stdout: str
    stderr: str


Doctor = Callable[..., Ended]


@pytest.fixture
def doctor(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Doctor:
    """Return a function that runs `harness doctor` in this process."""

    def run_doctor(*arguments: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["harness", "doctor", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        code = end.value.code
        assert isinstance(code, int)
        return Ended(code, *capsys.readouterr())

    return run_doctor


def test_the_command_prints_a_line_for_each_fact_and_the_remedy_below(
    server: ModelServer, doctor: Doctor
) -> None:
    server.script = OLLAMA.answer
    ended = doctor("--model", "scripted", "--base-url", server.url)
    assert (ended.code, ended.stderr) == (0, "")
    assert re.search(r"^ok    tool calls +native$", ended.stdout, re.M)
    assert re.search(
        r"^warn  context +the server cut the prompt at about 4,116 tokens.*\n +fix: raise its context",
        ended.stdout,
        re.M,
    )


def test_the_command_prints_json(server: ModelServer, doctor: Doctor) -> None:
    server.script = Kind().answer
    ended = doctor("--model", "scripted", "--base-url", server.url, "--json")
    printed = json.loads(ended.stdout)
    assert (printed["model"], printed["tool_mode"], printed["advice"]) == ("scripted", "native", {})


@each_case(
    ("arguments", "code", "message"),
    [
        (("--model", "m", "--base-url", "http://127.0.0.1:1/v1"), 3, "failed 2 times"),
        (("--model", "m", "--base-url", "localhost"), 2, "is not the URL of a server"),
        (("--model", "m", "--runtime", "runsc"), 2, "--runtime is not read with --model"),
        (("--base-url", "http://127.0.0.1:1/v1"), 2, "--base-url needs --model"),
    ],
    ids=["nobody listens", "no URL", "option of the machine", "option of a model"],
)
def test_the_command_explains_its_failures(
    doctor: Doctor,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    code: int,
    message: str,
) -> None:
    monkeypatch.setattr(client, "FIRST_BACKOFF_SECONDS", 0.001)
    ended = doctor(*arguments)
    assert (ended.code, ended.stdout) == (code, "")
    assert message in ended.stderr


def test_a_wrong_key_is_an_error_of_usage(server: ModelServer, doctor: Doctor) -> None:
    server.script = lambda asked: error(401, "wrong key")
    ended = doctor("--model", "scripted", "--base-url", server.url)
    assert ended.code == 2
    assert "wrong key" in ended.stderr
    assert len(server.asked) == 1
