"""A scripted model that solves tasks as the oracle does, so that a run through it scores as the oracle."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from model_server import Asked, completion
from streamed_events import message

from harness.benchmarks import Benchmark
from harness.core.types import Reference, Task
from harness.environments.db.grader import DatabaseState
from harness.environments.os.grader import StateChecks
from harness.environments.text.short_answers import ExpectedText

# The number in front of the note that a shell puts after the output of a command.
_NOTE = re.compile(r"\n\[.*\]\s*\Z", re.DOTALL)


class Solver:
    """Replies with the reference solutions of one benchmark. `is_native` if it calls tools by the API."""

    def __init__(self, benchmark: Benchmark, *, is_native: bool = True) -> None:
        self._benchmark = benchmark
        self._is_native = is_native
        self.unknown: list[str] = []

    def __call__(self, asked: Asked) -> Mapping[str, Any]:
        """Return the reply to a request. The first message of a user holds the task."""
        prompt = next(each["content"] for each in asked.messages if each["role"] == "user")
        task = next((each for each in self._benchmark.tasks if each.prompt.strip() in prompt), None)
        if task is None:
            self.unknown.append(prompt)
            return completion("I do not know this task.")
        reference = self._benchmark.references[task.id]
        n = asked.body.get("n", 1)
        if task.environment not in ("os", "db"):
            return completion(self._answer(task, reference), n=n)
        steps = sum(each["role"] == "assistant" for each in asked.messages)
        return self._act(task, reference, steps, asked.messages[-1]["content"])

    def _answer(self, task: Task, reference: Reference) -> str:
        solution = reference.solution
        if task.environment == "python" and "execution" not in task.benchmark:
            if "test-output" in task.benchmark:
                return solution
            return f"<think>\nshort\n</think>\nHere it is.\n\n```python\n{solution}\n```\n"
        return f"[ANSWER]{solution}[/ANSWER]" if "execution" in task.benchmark else solution

    def _act(self, task: Task, reference: Reference, steps: int, last: str) -> Mapping[str, Any]:
        target, solution = reference.target, reference.solution
        if isinstance(target, DatabaseState):
            return self._sql(solution) if steps == 0 else self._submit(task, "done")
        is_command = isinstance(target, StateChecks) or getattr(target, "answer", "") is None
        if task.environment == "os" and is_command and solution and not isinstance(target, ExpectedText):
            command = f"(\n{solution}\n) 2>/dev/null"
            return self._bash(command) if steps == 0 else self._submit(task, self._read_output(last))
        return self._submit(task, solution)

    def _read_output(self, shown: str) -> str:
        text = shown if self._is_native else shown.partition(":\n\n")[2]
        output = _NOTE.sub("", f"\n{text}").removeprefix("\n")
        return output.strip() or "done"

    def _bash(self, command: str) -> Mapping[str, Any]:
        if self._is_native:
            return completion(calls=[("bash", {"command": command, "timeout_seconds": 60})])
        return completion(f"Think: I look.\n\nAct: bash\n\n````bash\n{command}\n````")

    def _sql(self, query: str) -> Mapping[str, Any]:
        if self._is_native:
            return completion(calls=[("sql", {"sql": query})])
        return completion(f"Action: Operation\n```sql\n{query}\n```")

    def _submit(self, task: Task, answer: str) -> Mapping[str, Any]:
        if self._is_native:
            return completion(calls=[("submit", {"answer": answer})])
        if task.environment == "db":
            listed = answer if answer.startswith("[") else json.dumps([answer])
            return completion(f"Action: Answer\nFinal Answer: {listed}")
        return completion("Act: finish" if answer == "done" else f"Act: answer({answer})")


class MessagesSolver(Solver):
    """A solver at a server of the Messages API."""

    def __call__(self, asked: Asked) -> Mapping[str, Any]:
        """Return the reply to a request."""
        body = {**asked.body, "messages": list(_list_chat_messages(asked.body))}
        reply = super().__call__(replace(asked, body=body))["choices"][0]["message"]
        calls = [
            (call["function"]["name"], json.loads(call["function"]["arguments"]))
            for call in reply.get("tool_calls", ())
        ]
        return message(reply["content"], calls=calls)


def _list_chat_messages(body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the messages of a request of the Messages API in the form of Chat Completions."""
    if "system" in body:
        yield {"role": "system", "content": body["system"]}
    for turn in body["messages"]:
        content = turn["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            if block["type"] == "tool_result":
                yield {"role": "tool", "content": block["content"]}
            else:
                yield {"role": turn["role"], "content": block.get("text", "")}
