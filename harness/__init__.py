"""Evaluate agents and model-written code in hardened containers, with verdicts that cannot be forged.

    async with Sandbox.open("python") as sandbox:
        result = await sandbox.exec(["python3", "-c", "print(6 * 7)"], timeout=10)

Scripts without an event loop use the synchronous face:

    with Sandbox.open_sync("python") as sandbox:
        result = sandbox.exec(["python3", "-c", "print(6 * 7)"], timeout=10)

`load_benchmark` loads tasks, `run` carries out a whole run, and `compare` compares two. `open_host` opens
this machine as a host, which grades single programs by hidden tests, opens sandboxes and makes runs.
`connect` returns a service as a host with the same methods. The docstring of `harness.errors` shows the tree
of errors.
"""

from __future__ import annotations

from harness import moved
from harness.core.version import __version__

__all__ = [
    "Agent",
    "AgentEnvironment",
    "AgentError",
    "AgentModel",
    "AttemptContext",
    "Comparison",
    "DataError",
    "EngineUnavailableError",
    "Environment",
    "ExecResult",
    "Generation",
    "HarnessError",
    "Host",
    "HostEnvironment",
    "ImageMissingError",
    "Limits",
    "Message",
    "ModelReply",
    "OutputChunk",
    "OutputStream",
    "Role",
    "RunResult",
    "RunStoppedError",
    "Sandbox",
    "SandboxClosed",
    "SandboxEnvironment",
    "SandboxError",
    "SandboxLimitReached",
    "SandboxOutOfDisk",
    "SandboxOutOfMemory",
    "SandboxPool",
    "SandboxSettings",
    "SandboxUnresponsive",
    "Status",
    "StorageError",
    "Submission",
    "SyncFace",
    "Task",
    "Tool",
    "UsageError",
    "Verdict",
    "__version__",
    "build_assert_tests",
    "build_call_tests",
    "build_stdin_tests",
    "compare",
    "connect",
    "load_benchmark",
    "open_host",
    "open_host_sync",
    "read_hidden_tests",
    "run",
]

# Not imported from `typing`, because that import would take most of the time until Ctrl-C ends the command
# line cleanly.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from harness.api import RunResult, compare, run
    from harness.benchmarks.hidden_tests import (
        build_assert_tests,
        build_call_tests,
        build_stdin_tests,
        read_hidden_tests,
    )
    from harness.benchmarks.loading import load_benchmark
    from harness.client.remote import connect
    from harness.core.errors import (
        DataError,
        EngineUnavailableError,
        HarnessError,
        ImageMissingError,
        SandboxError,
        UsageError,
    )
    from harness.core.portal import SyncFace
    from harness.core.tools import AgentEnvironment, Tool
    from harness.core.types import Status, Submission, Task, Verdict
    from harness.environments.base import Environment, HostEnvironment, SandboxEnvironment
    from harness.host.retries import RunStoppedError
    from harness.hosts import Host, open_host, open_host_sync
    from harness.models.messages import Generation, Message, ModelReply, Role
    from harness.runs.agents.agent import Agent, AgentError, AgentModel, AttemptContext
    from harness.runs.comparison import Comparison
    from harness.runs.run_files import StorageError
    from harness.sandbox.failures import (
        SandboxClosed,
        SandboxLimitReached,
        SandboxOutOfDisk,
        SandboxOutOfMemory,
        SandboxUnresponsive,
    )
    from harness.sandbox.limits import Limits
    from harness.sandbox.pool import SandboxPool, SandboxSettings
    from harness.sandbox.results import ExecResult
    from harness.sandbox.sandbox import Sandbox
    from harness.sandbox.streaming import OutputChunk, OutputStream

moved.install()

# Each public name, and the module that it is imported from on first use.
_HOME = {
    "Agent": "harness.runs.agents.agent",
    "AgentEnvironment": "harness.core.tools",
    "AgentError": "harness.runs.agents.agent",
    "AgentModel": "harness.runs.agents.agent",
    "AttemptContext": "harness.runs.agents.agent",
    "Comparison": "harness.runs.comparison",
    "DataError": "harness.core.errors",
    "EngineUnavailableError": "harness.core.errors",
    "Environment": "harness.environments.base",
    "ExecResult": "harness.sandbox.results",
    "Generation": "harness.models.messages",
    "HarnessError": "harness.core.errors",
    "ImageMissingError": "harness.core.errors",
    "Host": "harness.hosts",
    "HostEnvironment": "harness.environments.base",
    "Limits": "harness.sandbox.limits",
    "Message": "harness.models.messages",
    "ModelReply": "harness.models.messages",
    "OutputChunk": "harness.sandbox.streaming",
    "OutputStream": "harness.sandbox.streaming",
    "Role": "harness.models.messages",
    "RunResult": "harness.api",
    "RunStoppedError": "harness.host.retries",
    "Sandbox": "harness.sandbox.sandbox",
    "SandboxClosed": "harness.sandbox.failures",
    "SandboxEnvironment": "harness.environments.base",
    "SandboxError": "harness.core.errors",
    "SandboxLimitReached": "harness.sandbox.failures",
    "SandboxOutOfDisk": "harness.sandbox.failures",
    "SandboxOutOfMemory": "harness.sandbox.failures",
    "SandboxPool": "harness.sandbox.pool",
    "SandboxSettings": "harness.sandbox.pool",
    "SandboxUnresponsive": "harness.sandbox.failures",
    "Status": "harness.core.types",
    "StorageError": "harness.runs.run_files",
    "Submission": "harness.core.types",
    "SyncFace": "harness.core.portal",
    "Task": "harness.core.types",
    "Tool": "harness.core.tools",
    "UsageError": "harness.core.errors",
    "Verdict": "harness.core.types",
    "build_assert_tests": "harness.benchmarks.hidden_tests",
    "build_call_tests": "harness.benchmarks.hidden_tests",
    "build_stdin_tests": "harness.benchmarks.hidden_tests",
    "compare": "harness.api",
    "connect": "harness.client.remote",
    "load_benchmark": "harness.benchmarks",
    "open_host": "harness.hosts",
    "open_host_sync": "harness.hosts",
    "read_hidden_tests": "harness.benchmarks.hidden_tests",
    "run": "harness.api",
}

# Old names, which go with the next release, and the names that took their places.
_RENAMED = {
    "Grader": "Host",
    "SyncGrader": "SyncFace",
    "SyncOutputStream": "SyncFace",
    "SyncSandbox": "SyncFace",
    "open_grader": "open_host",
    "open_grader_sync": "open_host_sync",
}


def __getattr__(name: str) -> Any:
    """Return a public name, or a module such as `harness.client`.

    The import waits until then, because `harness --help` must not load docker.
    """
    import importlib
    import importlib.util

    if name in _RENAMED:
        import warnings

        new = _RENAMED[name]
        warnings.warn(f"harness.{name} is now harness.{new}; the old name goes", FutureWarning, 2)
        name = new
    if name not in _HOME:
        if name.startswith("_") or importlib.util.find_spec(f"harness.{name}") is None:
            raise AttributeError(f"module 'harness' has no attribute '{name}'")
        return importlib.import_module(f"harness.{name}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
