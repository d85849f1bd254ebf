"""The agent `command`, a program of the user's, and the public agents that run as such a program."""

from harness.runs.agents.command.agent import CommandAgent
from harness.runs.agents.command.profiles import ClaudeCode, Codex, MiniSweAgent

AGENTS = (
    ("command", CommandAgent),
    ("mini-swe-agent", MiniSweAgent),
    ("codex", Codex),
    ("claude-code", ClaudeCode),
)
