"""The findings of a probe in words: one line for each fact, and the remedy where something is odd."""

from __future__ import annotations

from dataclasses import dataclass

from harness.models.probe import LONG_PROMPT_TOKENS, ModelFacts


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
        _describe_reasoning(facts),
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


def _describe_reasoning(facts: ModelFacts) -> ModelFinding:
    return ModelFinding(
        "reasoning", "none" if facts.reasoning_field is None else f"in {facts.reasoning_field}"
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
