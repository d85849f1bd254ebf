"""The chat agent: a model that answers tasks, and acts in environments by calling tools."""

from harness.runs.agents.chat.agent import Chat

AGENTS = (("chat", Chat),)
