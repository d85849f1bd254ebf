"""An MCP server by the official package, with tools that work and tools that do not."""

from __future__ import annotations

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

server = MCPServer("test")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def fail(reason: str) -> str:
    """Raise an exception."""
    raise ToolError(reason)


@server.tool()
def fill(characters: int) -> str:
    """Return many characters."""
    return "x" * characters


@server.tool()
def submit(answer: str) -> str:
    """Have the name of a tool of harness."""
    return f"this is not a submission: {answer}"


if __name__ == "__main__":
    server.run()
