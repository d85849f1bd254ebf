"""Requests and replies in the form of a transcript."""

from __future__ import annotations

from typing import Any

from harness.models.messages import Generation, Message, ModelReply, ToolSchema


def list_own_parameters(
    generation: Generation, of_run: Generation, *, among: Generation | None = None
) -> frozenset[str]:
    """Return the names of the parameters whose values are not those of the run, but those of `among`."""
    values, others = generation.as_values(), of_run.as_values()
    chosen = values if among is None else among.as_values()
    return frozenset(
        name for name, value in values.items() if value != others.get(name) and value == chosen.get(name)
    )


def describe_message(message: Message) -> dict[str, Any]:
    """Return a message as JSON values, in the form of a transcript."""
    values: dict[str, Any] = {"role": message.role.value, "text": message.text}
    if message.tool_calls:
        values["tool_calls"] = [
            {"id": call.id, "name": call.name, "arguments": call.arguments} for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        values["tool_call_id"] = message.tool_call_id
    if message.reasoning is not None and message.reasoning.text:
        values["reasoning"] = message.reasoning.text
    return values


def describe_tool(tool: ToolSchema) -> dict[str, Any]:
    """Return the definition of a tool as JSON values, in the form of a transcript."""
    return {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}


def describe_reply(reply: ModelReply) -> dict[str, Any]:
    """Return the first choice of a reply as JSON values, in the form of a transcript."""
    choice = reply.choices[0]
    answer: dict[str, Any] = {**describe_message(choice.message), "finish": choice.finish.value}
    del answer["role"]
    if choice.refusal is not None:
        answer["refusal"] = choice.refusal
    return answer
