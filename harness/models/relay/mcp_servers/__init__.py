"""The user's MCP servers. An agent gets their tools in addition to the environment's own."""
