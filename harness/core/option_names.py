"""The command-line options that set the keys of a config."""

from __future__ import annotations

# The options whose names differ from their keys.
_OPTIONS = {
    "task_ids": "--task",
    "options": "--option",
    "command": "--agent-cmd or --agent-image",
    "command.cmd": "--agent-cmd",
    "command.image": "--agent-image",
    "command.where": "--agent-where",
    "replay_from": "--from",
    "generation": "--temperature, --max-tokens or --reasoning-effort",
    "generation.temperature": "--temperature",
    "generation.max_tokens": "--max-tokens",
    "generation.reasoning_effort": "--reasoning-effort",
}
# The keys that people look for under the name of the option.
_KEYS = {
    "b": "benchmark",
    "n": "sample_size",
    **{
        option.removeprefix("--").replace("-", "_"): key
        for key, option in _OPTIONS.items()
        if " " not in option
    },
}
# The keys that have no command-line option.
_ONLY_KEYS = frozenset(
    (
        "rounds",
        "agent_prompt",
        "limits",
        "max_sandboxes",
        "endpoints",
        "system_prompt",
        "mcp_servers",
        "attempt_budget",
        "reply_cache",
        "client_generation",
    )
)


def name_option(key: str) -> str:
    """Return the command-line option for a key, or the key in quotes if it has no option."""
    is_only_key = key.startswith("command.") and key not in _OPTIONS
    if is_only_key or key.partition(".")[0] in _ONLY_KEYS or key in ("generation.top_p", "generation.stop"):
        return f"'{key}'"
    return _OPTIONS.get(key, "--" + key.replace("_", "-"))


def find_key(option: str) -> str | None:
    """Return the key that an option with another name sets, such as `sample_size` for `n`, or None."""
    return _KEYS.get(option.replace("-", "_"))
