"""Evaluate agents and model-written code in hardened containers, with verdicts that cannot be forged.

    async with Sandbox.open("python") as sandbox:
        result = await sandbox.exec(["python3", "-c", "print(6 * 7)"], timeout=10)

Scripts without an event loop use the synchronous face:

    with Sandbox.open_sync("python") as sandbox:
        result = sandbox.exec(["python3", "-c", "print(6 * 7)"], timeout=10)

`Sandbox` runs untrusted code, `load_benchmark` loads tasks, `run` carries out a whole run, and `compare`
compares two. `open_grader` grades single programs by hidden tests. The docstring of `harness.errors` shows
the tree of errors.
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
    "Grader",
    "HarnessError",
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
    "SyncGrader",
    "SyncOutputStream",
    "SyncSandbox",
    "Task",
    "Tool",
    "UsageError",
    "Verdict",
    "__version__",
    "build_assert_tests",
    "build_call_tests",
    "build_stdin_tests",
    "compare",
    "load_benchmark",
    "open_grader",
    "open_grader_sync",
    "read_hidden_tests",
    "run",
]

# Not imported from `typing`, because that import would take most of the time until Ctrl-C ends the command
# line cleanly.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from harness.api import RunResult, compare, run
    from harness.benchmarks import load_benchmark
    from harness.benchmarks.hidden_tests import (
        build_assert_tests,
        build_call_tests,
        build_stdin_tests,
        read_hidden_tests,
    )
    from harness.core.errors import (
        DataError,
        EngineUnavailableError,
        HarnessError,
        ImageMissingError,
        SandboxError,
        UsageError,
    )
    from harness.core.tools import AgentEnvironment, Tool
    from harness.core.types import Status, Submission, Task, Verdict
    from harness.environments.base import Environment
    from harness.environments.host_environment import HostEnvironment
    from harness.environments.sandbox_environment import SandboxEnvironment
    from harness.models.messages import Generation, Message, ModelReply, Role
    from harness.runs.agents.agent import Agent, AgentError, AgentModel, AttemptContext
    from harness.runs.comparison import Comparison
    from harness.runs.faults import RunStoppedError
    from harness.runs.grader import Grader, open_grader
    from harness.runs.run_files import StorageError
    from harness.runs.sync_grader import SyncGrader, open_grader_sync
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
    from harness.sandbox.sync import SyncOutputStream, SyncSandbox

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
    "Grader": "harness.runs.grader",
    "HarnessError": "harness.core.errors",
    "ImageMissingError": "harness.core.errors",
    "HostEnvironment": "harness.environments.host_environment",
    "Limits": "harness.sandbox.limits",
    "Message": "harness.models.messages",
    "ModelReply": "harness.models.messages",
    "OutputChunk": "harness.sandbox.streaming",
    "OutputStream": "harness.sandbox.streaming",
    "Role": "harness.models.messages",
    "RunResult": "harness.api",
    "RunStoppedError": "harness.runs.faults",
    "Sandbox": "harness.sandbox.sandbox",
    "SandboxClosed": "harness.sandbox.failures",
    "SandboxEnvironment": "harness.environments.sandbox_environment",
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
    "SyncGrader": "harness.runs.sync_grader",
    "SyncOutputStream": "harness.sandbox.sync",
    "SyncSandbox": "harness.sandbox.sync",
    "Task": "harness.core.types",
    "Tool": "harness.core.tools",
    "UsageError": "harness.core.errors",
    "Verdict": "harness.core.types",
    "build_assert_tests": "harness.benchmarks.hidden_tests",
    "build_call_tests": "harness.benchmarks.hidden_tests",
    "build_stdin_tests": "harness.benchmarks.hidden_tests",
    "compare": "harness.api",
    "load_benchmark": "harness.benchmarks",
    "open_grader": "harness.runs.grader",
    "open_grader_sync": "harness.runs.sync_grader",
    "read_hidden_tests": "harness.benchmarks.hidden_tests",
    "run": "harness.api",
}


def __getattr__(name: str) -> Any:
    """Return a public name, or a module such as `harness.client`.

    The import waits until then, because `harness --help` must not load docker.
    """
    import importlib
    import importlib.util

    if name not in _HOME:
        if name.startswith("_") or importlib.util.find_spec(f"harness.{name}") is None:
            raise AttributeError(f"module 'harness' has no attribute '{name}'")
        return importlib.import_module(f"harness.{name}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
