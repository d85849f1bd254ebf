"""Public agents that run as the program of the agent `command`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.runs.agents.command.agent import CommandAgent
from harness.runs.settings.agents import CommandSettings


@dataclass(frozen=True, slots=True)
class Profile:
    """A public agent: the packages that its files come from, and its command."""

    command: CommandSettings
    # See `harness.sandbox.machine.agent_layer.Packages`.
    python: tuple[str, ...] = ()
    leave_out: tuple[str, ...] = ()
    node: tuple[str, ...] = ()
    links: tuple[tuple[str, str], ...] = ()


MINI_SWE_AGENT = Profile(
    CommandSettings(
        cmd="mini --yolo --exit-immediately --cost-limit 0 --model openai/{model} --task {prompt} "
        "--output {scratch}/trajectory.json",
        image="mini-swe-agent",
        submission="submit",
        env={
            "MSWEA_CONFIGURED": "true",
            "MSWEA_COST_TRACKING": "ignore_errors",
            "MSWEA_SILENT_STARTUP": "1",
            # litellm would ask the network for its prices.
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        },
    ),
    # litellm imports mcp and does not require it.
    python=("mini-swe-agent==2.4.6", "mcp==2.3.0"),
    # Only the benchmarks that this agent brings along import these.
    leave_out=(
        "lib/datasets",
        "lib/pyarrow",
        "lib/pandas",
        "lib/numpy",
        "lib/numpy.libs",
        "lib/hf_xet",
    ),
)
# Both need epoll, which root of a sandbox does not get, so that they run next to the machine of an `os` task.
_CODEX_FILES = "node_modules/@openai/codex-linux-{cpu}/vendor/{machine}-unknown-linux-musl"
CODEX = Profile(
    CommandSettings(
        cmd="codex exec --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox "
        "--config model_provider=harness --config model_providers.harness.name=harness "
        "--config model_providers.harness.base_url={base_url} "
        "--config model_providers.harness.env_key=OPENAI_API_KEY "
        "--config model_providers.harness.wire_api=responses "
        "--config mcp_servers.harness.url={mcp_url} "
        "--config mcp_servers.harness.bearer_token_env_var=HARNESS_MCP_TOKEN "
        "--model {model} -- {prompt}",
        image="codex",
        machine="own",
        submission="submit",
        # The folder has to be there already.
        env={"CODEX_HOME": "{scratch}"},
    ),
    node=("@openai/codex@0.169.0",),
    leave_out=(f"{_CODEX_FILES}/codex-resources/voice",),
    links=(("codex", f"{_CODEX_FILES}/bin/codex"),),
)
CLAUDE_CODE = Profile(
    CommandSettings(
        cmd="claude --print --dangerously-skip-permissions --model {model} --strict-mcp-config "
        """--mcp-config '{"mcpServers": {"harness": {"type": "http", "url": "${HARNESS_MCP_URL}", """
        """"headers": {"Authorization": "Bearer ${HARNESS_MCP_TOKEN}"}}}}' -- {prompt}""",
        image="claude-code",
        machine="own",
        submission="submit",
        env={
            "CLAUDE_CONFIG_DIR": "{scratch}/claude",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "ENABLE_TOOL_SEARCH": "false",
            # It refuses to skip permissions as root unless it is in a sandbox.
            "IS_SANDBOX": "1",
        },
    ),
    node=("@anthropic-ai/claude-code@2.1.330",),
    links=(("claude", "node_modules/@anthropic-ai/claude-code-linux-{cpu}/claude"),),
)
PROFILES: Mapping[str, Profile] = {
    "mini-swe-agent": MINI_SWE_AGENT,
    "codex": CODEX,
    "claude-code": CLAUDE_CODE,
}


class MiniSweAgent(CommandAgent):
    """mini-swe-agent, which calls its model by chat completions."""

    needs_model = True
    defaults = MINI_SWE_AGENT.command


class Codex(CommandAgent):
    """OpenAI's codex, which calls its model by responses."""

    needs_model = True
    defaults = CODEX.command


class ClaudeCode(CommandAgent):
    """Anthropic's Claude Code, which calls its model by messages."""

    needs_model = True
    defaults = CLAUDE_CODE.command
