"""The audit of task folders: which of their tests an agent can pass without doing the task."""
