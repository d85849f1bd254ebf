"""The agent `client`: a person's own MCP client on standard input and output, which acts with the tools."""

from __future__ import annotations

import os
import sys

from harness.core.errors import UsageError
from harness.core.types import Submission
from harness.runs.agents.agent import AgentError, AgentSettings, AttemptContext, submit_answer, write_prompt

# Only `harness mcp` selects it, because its standard input and output belong to the client.
CLIENT = "client"


class McpClient:
    """Serves the tools of one attempt to the client that has started this process.

    Standard output belongs to the protocol alone. From the start of the agent everything else that this
    process prints goes to standard error.
    """

    reads = frozenset({"extract"})
    needs_environment = True
    # There is only one client, and it sees the tools of one task.
    max_concurrent = 1
    needs_this_machine = True

    def __init__(self, settings: AgentSettings) -> None:
        from harness.models.relay.mcp_server import load_library

        load_library()
        if sys.stdin is None or sys.stdin.isatty():
            raise UsageError(
                "the agent 'client' speaks with an MCP client on standard input, which is a terminal here",
                hint="name the command `harness mcp BENCH TASK` in the configuration of your client; "
                "`harness shell TASK` lets you act yourself",
            )
        self._settings = settings
        self._is_served = False
        self._streams: tuple[int, int] | None = _claim_streams()

    async def attempt(self, context: AttemptContext) -> Submission:
        """Return the client's submission. A client that leaves without one is graded on its state."""
        from harness.models.relay.mcp_server import open_environment_tools
        from harness.models.relay.mcp_streams import open_descriptors
        from harness.models.relay.serving import serve_stdio

        environment = context.environment
        if self._is_served or self._streams is None or environment is None:
            raise AgentError("the client acts in one attempt only; select one task with -t")
        self._is_served = True
        prompt = write_prompt(context.task)
        async with (
            open_environment_tools(environment, task_prompt=prompt) as tools,
            open_descriptors(*self._streams) as (reader, writer),
        ):
            await serve_stdio(tools, reader, writer)
        if environment.submitted is None:
            print("the client has left without an answer", file=sys.stderr)
        return submit_answer(self._settings, context.task, environment.submitted or "")

    def close(self) -> None:
        """Close the streams. A client that sees their end may kill this process, so the run is over."""
        streams, self._streams = self._streams, None
        for descriptor in streams or ():
            os.close(descriptor)


def _claim_streams() -> tuple[int, int]:
    """Return copies of standard input and output, and lead the originals elsewhere."""
    if sys.stdout is not None:
        sys.stdout.flush()
    claimed = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return claimed


AGENTS = (("client", McpClient),)
