"""The MCP servers of a user, whose tools an agent gets in addition to those of its environment."""
