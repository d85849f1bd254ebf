"""The agent `command`: a program in a sandbox or on the host, with the model behind a relay."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from harness.core.errors import UsageError
from harness.core.invalid_values import quote_value
from harness.core.types import Submission
from harness.environments.workspace import find_agent_folder
from harness.models.session import ModelSession
from harness.runs.agents.agent import (
    AgentError,
    AgentNotStarted,
    AgentSettings,
    AgentUnusableError,
    AttemptContext,
    WorkspaceNeeds,
    acts_in_environment,
    submit_answer,
)
from harness.runs.agents.command.place import (
    KeptOutput,
    Place,
    SandboxPlace,
    find_host_path,
    open_host_place,
    require_program,
    require_variables,
)
from harness.runs.agents.command.program import (
    SUBMISSION_FILE,
    Endpoints,
    HowToWork,
    compose_prompt,
    fill_arguments,
    make_environment,
    split_command,
    write_files,
)
from harness.runs.settings.agents import CommandSettings
from harness.sandbox.results import ExecResult, OnOutput

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from harness.models.relay.mcp_server import McpApp

TOKEN_BYTES = 32
# A program that has submitted by MCP may say goodbye for this long.
GOODBYE_SECONDS = 10.0
MAX_SUBMISSION_BYTES = 1 << 20
# The end of stderr in an error, and the parts of each output in the transcript, in characters.
ERROR_CHARACTERS = 400
SHOWN_CHARACTERS = 32_000
# The exit codes of a shell, and of PID 1, for a command that cannot be executed or found.
NOT_EXECUTED = (126, 127)
# The time of the agent is the host's to limit. It stops while a request waits, and this is a backstop.
BACKSTOP_SECONDS = 3 * 3600.0


class CommandAgent:
    """Runs a program for each attempt, and returns its submission.

    The program reaches the model and the tools of the environment through a relay, with a token that is valid
    for its attempt alone. The relay is closed before anything is graded.
    """

    reads = frozenset({"model", "command", "n_samples", "agent_prompt", "extract", "mcp_servers"})
    takes_server_prompts = True
    offers_model = True
    # So that every program finds the tool `submit`.
    needs_environment = True
    needs_this_machine = True
    # The settings of a public agent, which the config overrides.
    defaults: ClassVar[CommandSettings] = CommandSettings()

    def __init__(self, settings: AgentSettings) -> None:
        self._settings = settings
        self._command = override(self.defaults, settings.command)
        if self._command.cmd is None:
            raise UsageError(
                "agent 'command' needs a program",
                hint="name it: --agent-cmd 'my-agent {prompt_file}', or `cmd` in the section `command`",
            )
        self._argv = split_command(self._command.cmd)
        is_apart = self._command.machine == "own"
        needs = WorkspaceNeeds(self._command.image, relays=True, is_apart=is_apart)
        self.workspace = needs if self._command.where == "sandbox" else None
        if self._command.where == "host":
            require_program(self._argv[0], self._command.env.get("PATH", find_host_path()))
            require_variables(self._command.pass_env)
        # The places, by whether they are in the task, where the program has been found.
        self._found: set[bool] = set()

    async def attempt(self, context: AttemptContext) -> Submission:
        """Run the program and return its submission.

        Raises AgentError for a program that fails before it has submitted, or that submits nothing, and
        AgentUnusableError if the program is not there.
        """
        async with self._open_place(context) as place:
            ended = await self._run(context, place)
            return await self._find_submission(context, place, ended)

    @contextlib.asynccontextmanager
    async def _open_place(self, context: AttemptContext) -> AsyncIterator[Place]:
        if self._command.where == "host":
            async with open_host_place(self._command.pass_env) as place:
                yield place
        elif context.open_workspace is None:
            raise AgentError("this attempt has no sandbox where a program could run")
        else:
            async with context.open_workspace() as workspace:
                yield SandboxPlace(workspace, self._command.image)

    async def _run(self, context: AttemptContext, place: Place) -> ExecResult | None:
        """Return the result of the program, None if it was ended after it had submitted."""
        from harness.models.relay.app import make_relay_app
        from harness.models.relay.mcp_server import make_mcp_app

        is_apart = not place.is_in_task and acts_in_environment(context.task)
        own = HowToWork(self._command.prompt_append, self._settings.server_prompts, place.submit_command)
        prompt = compose_prompt(context, own, is_apart=is_apart)
        for name, (data, mode) in write_files(context, place.scratch, prompt).items():
            await place.write_file(name, data, mode=mode)
        model = context.model
        if model is not None and not isinstance(model, ModelSession):
            raise AgentError("the program can only reach the model of a run")
        assert context.environment is not None  # noqa: S101  because of `needs_environment`
        token = secrets.token_urlsafe(TOKEN_BYTES)
        kept = {"stdout": KeptOutput(), "stderr": KeptOutput()}
        ended: ExecResult | str | None = None
        try:
            async with make_mcp_app(context.environment) as mcp:
                app: ASGIApp = make_relay_app(token, model=model, mcp=mcp)
                async with place.serve(app) as url:
                    argv, env = self._prepare(context, place, prompt, Endpoints(url, token))
                    await self._require_program(place, argv[0], env)
                    ended = "by the harness, because the attempt was over"
                    result = await run_until_over(
                        place, argv, env, mcp, model, lambda stream, data: kept[stream].add(data)
                    )
                    ended = "after it had submitted" if result is None else result
        except AgentError as error:
            ended = str(error) if ended is not None else None
            raise
        finally:
            # The relay is closed, so that no request of the program follows in the transcript.
            if ended is not None:
                outputs = {name: str(each.stream) for name, each in kept.items()}
                entry = describe_end(self._argv, self._command.where, ended, outputs)
                # No replay can repeat what a program does in the machine without a tool.
                entry["is_in_task"] = place.is_in_task
                if place.unclean_end is not None:
                    entry["unclean_end"] = place.unclean_end
                context.transcript.write(entry, is_end=True)
        return result

    def _prepare(
        self, context: AttemptContext, place: Place, prompt: str, endpoints: Endpoints
    ) -> tuple[list[str], dict[str, str]]:
        env = make_environment(context, endpoints, place.scratch, path=place.path)
        values = {
            "model": env.get("HARNESS_MODEL", ""),
            "base_url": env.get("OPENAI_BASE_URL", ""),
            "mcp_url": env["HARNESS_MCP_URL"],
            "prompt": prompt,
            "prompt_file": env["HARNESS_PROMPT_FILE"],
            "task_file": env["HARNESS_TASK_FILE"],
            "scratch": place.scratch,
        }
        env |= {name: value.replace("{scratch}", place.scratch) for name, value in self._command.env.items()}
        return fill_arguments(self._argv, values), env

    async def _require_program(self, place: Place, program: str, env: Mapping[str, str]) -> None:
        """Raise AgentUnusableError for a program that is not in its place.

        An agent may remove its own program later, so only places where none has started are looked at.
        """
        if place.is_in_task in self._found:
            return
        if not await place.has_program(program, env):
            raise AgentUnusableError(
                f"--agent-cmd: the program {quote_value(program)} is not in the {self._command.where}, "
                "or is not executable",
                hint=self._explain_missing(),
            )
        self._found.add(place.is_in_task)

    def _explain_missing(self) -> str:
        if self._command.where == "host":
            return "install it, or write the absolute path of an executable file"
        image = self._command.image
        if image is None:
            return (
                "prepare its files: harness images build --agent NAME=FOLDER, and name them: "
                "--agent-image NAME"
            )
        return (
            f"the files of agent {image} must have it as an executable file in {find_agent_folder(image)}/bin"
        )

    async def _find_submission(
        self, context: AttemptContext, place: Place, ended: ExecResult | None
    ) -> Submission:
        environment = context.environment
        assert environment is not None  # noqa: S101  because of `needs_environment`
        remark = "the program submitted an empty answer"
        if environment.submitted is None:
            data = await place.read_file(f"{place.scratch}/{SUBMISSION_FILE}", limit=MAX_SUBMISSION_BYTES)
            if data is None:
                if ended is None:
                    raise AgentError("the program was ended before it submitted")
                require_success(ended, has_acted=_has_acted(context))
                data = await self._read_remains(place, ended)
                file = self._command.submission_file
                remark = "the program printed nothing" if file is None else f"{quote_value(file)} is empty"
            text = data.decode("utf-8", "backslashreplace")
            if acts_in_environment(context.task):
                await environment.submit(text.strip())
        if environment.submitted is not None:
            text = environment.submitted
        submission = submit_answer(self._settings, context.task, text)
        return submission if text.strip() else replace(submission, remark=remark)

    async def _read_remains(self, place: Place, ended: ExecResult) -> bytes:
        """Return the submission of a program that has submitted nothing: its file, or its output."""
        file = self._command.submission_file
        if file is not None:
            data = await place.read_file(file, limit=MAX_SUBMISSION_BYTES)
            if data is None:
                raise AgentError(
                    f"the program ended, and {file} is not a file of at most {MAX_SUBMISSION_BYTES} bytes"
                )
            return data
        if self._command.submission == "submit":
            raise AgentError("the program ended without a submission")
        if ended.stdout.total > MAX_SUBMISSION_BYTES or ended.stdout.truncated:
            raise AgentError(
                f"the program wrote {ended.stdout.total:,} bytes; the limit of a submission is "
                f"{MAX_SUBMISSION_BYTES:,}"
            )
        return ended.stdout.data


def override(defaults: CommandSettings, given: CommandSettings) -> CommandSettings:
    """Return the settings of a public agent, replaced by what the config sets."""
    set_values = given.model_dump(exclude_unset=True)
    if "env" in set_values:
        set_values["env"] = {**defaults.env, **set_values["env"]}
    values = defaults.model_dump(exclude_unset=True)
    if given.where == "host":
        values.pop("image", None)
        values.pop("machine", None)
    if given.submission_file is not None:
        values.pop("submission", None)
    return CommandSettings.model_validate({**values, **set_values})


async def run_until_over(
    place: Place,
    argv: list[str],
    env: Mapping[str, str],
    mcp: McpApp,
    model: ModelSession | None,
    on_output: OnOutput,
) -> ExecResult | None:
    """Return the result of a program, None if it had submitted by MCP and did not end by itself.

    Raises the failure of the environment or of the model that ended the attempt.
    """
    running = asyncio.create_task(place.run(argv, env=env, seconds=BACKSTOP_SECONDS, on_output=on_output))
    submitting = asyncio.create_task(mcp.wait_until_over())
    tasks: list[asyncio.Task[Any]] = [running, submitting]
    if model is not None:
        tasks.append(failing := asyncio.create_task(model.wait_until_ended()))
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if model is not None and failing.done():
            raise failing.result()
        if submitting.done():
            submitting.result()
            await asyncio.wait((running,), timeout=GOODBYE_SECONDS)
        return running.result() if running.done() else None
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        for task in tasks:
            if not task.cancelled():
                task.exception()  # else asyncio warns of an unretrieved exception


def _has_acted(context: AttemptContext) -> bool | None:
    """Return whether the program called a tool or its model, None if it had no model to call."""
    model, environment = context.model, context.environment
    if environment is not None and environment.turns_used:
        return True
    return bool(model.metrics) if isinstance(model, ModelSession) else None


def require_success(ended: ExecResult, *, has_acted: bool | None = None) -> None:
    """Raise AgentError for a program that has failed. The message has the end of its stderr.

    Raises AgentNotStarted if the program did nothing before it failed: if `has_acted` is False, or if it is
    None and the exit code is that for a command that cannot be executed.
    """
    if ended.limit is None and ended.exit_code == 0:
        return
    how = f"exit code {ended.exit_code}" if ended.exit_code >= 0 else f"signal {-ended.exit_code}"
    reason = f"at the limit {ended.limit}" if ended.limit is not None else f"with {how}"
    # The last line of a traceback names the error. The transcript has the rest.
    *_, last = str(ended.stderr).strip().splitlines() or [""]
    message = f"the program ended {reason} before it submitted"
    if last:
        message += f": {last[:ERROR_CHARACTERS]}"
    is_idle = ended.exit_code in NOT_EXECUTED if has_acted is None else not has_acted
    raise AgentNotStarted(message) if is_idle and ended.limit is None else AgentError(message)


def describe_end(
    argv: tuple[str, ...], where: str, ended: ExecResult | str, outputs: Mapping[str, str]
) -> dict[str, object]:
    """Return the entry of the transcript for the end of a program.

    Args:
        argv: the command with its placeholders.
        where: the place of the program.
        ended: its result, or the reason why the harness has ended it.
        outputs: its output on stdout and stderr.
    """
    entry: dict[str, object] = {"kind": "program", "argv": list(argv), "where": where}
    if isinstance(ended, str):
        entry["ended"] = ended
    else:
        entry["exit_code"] = ended.exit_code
        entry["limit"] = ended.limit
        entry["seconds"] = round(ended.duration_seconds, 3)
    return entry | {name: _show(text) for name, text in outputs.items()}


def _show(text: str) -> str:
    if len(text) <= SHOWN_CHARACTERS:
        return text
    half = SHOWN_CHARACTERS // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"
