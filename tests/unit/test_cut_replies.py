"""Replies that end at the token limit, in the words of each API and of gateways, and their count."""

from __future__ import annotations

from typing import Any

from harness.models.codecs import CODECS, decode_reply
from harness.models.endpoint import Api
from harness.models.messages import Counts, Finish


def chat(reason: str | None, **message: Any) -> dict[str, Any]:
    return {
        "choices": [
            {"message": {"role": "assistant", "content": "def f(", **message}, "finish_reason": reason}
        ]
    }


def messages(reason: str | None) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": "def f("}], "stop_reason": reason}


def responses(status: str, reason: str | None = None) -> dict[str, Any]:
    part = {"type": "output_text", "text": "def f("}
    details = None if reason is None else {"reason": reason}
    return {
        "status": status,
        "incomplete_details": details,
        "output": [{"type": "message", "role": "assistant", "content": [part]}],
    }


CALL = {"id": "a", "type": "function", "function": {"name": "bash", "arguments": '{"command": "l'}}
CUT: list[tuple[Api, dict[str, Any]]] = [
    ("chat", chat("length")),
    ("chat", chat("max_tokens")),
    ("chat", chat("MAX_TOKENS")),
    ("chat", chat("model_length")),
    ("chat", chat("max_output_tokens")),
    ("chat", chat("length", tool_calls=[CALL])),
    ("messages", messages("max_tokens")),
    ("messages", messages("model_context_window_exceeded")),
    ("messages", messages("length")),
    ("messages", messages("MAX_TOKENS")),
    ("responses", responses("incomplete", "max_output_tokens")),
    ("responses", responses("incomplete", "max_tokens")),
    ("responses", responses("incomplete")),
]
WHOLE: list[tuple[Api, dict[str, Any]]] = [
    ("chat", chat("stop")),
    ("chat", chat(None)),
    ("chat", chat("tool_calls", tool_calls=[CALL])),
    ("chat", chat("content_filter")),
    ("messages", messages("end_turn")),
    ("messages", messages("stop_sequence")),
    ("responses", responses("completed")),
    ("responses", responses("incomplete", "content_filter")),
]


def count(api: Api, raw: dict[str, Any]) -> int:
    counts = Counts()
    counts.add(decode_reply(api, raw), None)
    found: int = counts.metrics()["cut_replies"]
    return found


def test_a_reply_that_ends_at_the_token_limit_counts_in_each_api() -> None:
    assert [(api, raw) for api, raw in CUT if count(api, raw) != 1] == []


def test_no_other_reply_counts() -> None:
    assert [(api, raw) for api, raw in WHOLE if count(api, raw) != 0] == []


def test_a_stream_that_a_broken_connection_ended_does_not_count() -> None:
    streamed = CODECS["responses"].Streamed()
    streamed.add({"type": "response.output_text.delta", "delta": "def f("})
    reply = decode_reply("responses", streamed.build())
    assert (reply.text, reply.choices[0].finish) == ("def f(", Finish.STOP)
