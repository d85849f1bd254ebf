"""The options of commands, and the names that complete them in a shell.

Several commands share some options. Others set keys of a config, and follow from the declared settings. Help
and completion must be quick, so this module imports nothing slow, and makes the options of settings only for
a command that needs them.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import re
from collections.abc import Collection, Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

import typer
from typer.core import TyperCommand

if TYPE_CHECKING:
    from harness.core.setting import KeyOption, Panel

_AGENTS = Path(__file__).parents[1] / "runs" / "agents"
# The packages whose sources decide the facts about benchmarks.
_DECLARING = [Path(__file__).parents[1] / name for name in ("benchmarks", "environments", "reports")]
_DECLARED = re.compile(r"^AGENTS\b.*?\)\s*,?\s*\)$", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"\(\s*\"([\w.-]+)\"\s*,")
# Only `harness mcp` selects this agent.
_NOT_SELECTED = {"client"}
_RUNS = Path("runs")
_LATEST = "latest"
_MANIFEST = "manifest.json"
_MAX_SOURCE_BYTES = 1 << 20
RUN_HELP = "A run folder, a name from `harness runs`, or latest."
BACKEND_HELP = "auto, docker, or oci: a runtime without an engine. Default: auto."
BENCHMARK_HELP = "A name from `harness benchmarks`, or your own .yaml, or .py (runs on the host)."
Config = Annotated[
    Path | None, typer.Option("-c", "--config", metavar="FILE", help="YAML config. Options override it.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the plan and start nothing.")]
Results = Annotated[
    Path | None, typer.Option("-o", "--results", metavar="FILE", help="Also write results.json to this file.")
]
ResultFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "-o",
        "--results",
        metavar="FILE",
        help="Write the result as JSON, or that on task folders as Markdown to a .md (repeatable).",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite an existing results file.")]
Accept = Annotated[
    list[str] | None,
    typer.Option(
        "--accept",
        metavar="FIELD",
        help="Go on although this field of the manifest differs, such as image_tags (repeatable).",
    ),
]
Trust = Annotated[
    bool,
    typer.Option("--trust", help="Accept what a run folder that is not yours would run and contact."),
]
FailUnder = Annotated[
    float | None,
    typer.Option("--fail-under", min=0, max=1, metavar="RATE", help="Exit with 1 if the rate is lower."),
]
FailOnDifference = Annotated[
    bool,
    typer.Option(
        "--fail-on-difference",
        help="Exit with 1 if an observation or a verdict of a replay differs from the recorded one.",
    ),
]
Verbose = Annotated[
    int,
    typer.Option(
        "-v",
        "--verbose",
        count=True,
        show_default=False,
        help="Print each attempt. -vv: also the records of libraries, and tracebacks.",
    ),
]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Print no progress.")]
OutputDir = Annotated[
    Path | None, typer.Option("--output-dir", metavar="DIR", help="Folder of the run folders. Default: runs.")
]
Output = Annotated[
    Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write to this file, not to stdout.")
]
ForceOutput = Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")]
_GIVEN = "harness.settings"


def agent_names() -> list[str]:
    """Return the names of the built-in agents that a run can select.

    They come from the sources, because an import takes half a second.
    """
    paths = sorted((*_AGENTS.glob("*.py"), *_AGENTS.glob("*/__init__.py")))
    sources = (_read_source(path) for path in paths)
    declared = (match.group() for source in sources for match in _DECLARED.finditer(source))
    return sorted({name for text in declared for name in _NAME.findall(text)} - _NOT_SELECTED)


def _read_source(path: Path) -> str:
    """Return the text of one of our files, without a file object that would warn about a Ctrl-C."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, _MAX_SOURCE_BYTES).decode()
    finally:
        os.close(descriptor)


def complete_agent(incomplete: str) -> list[str]:
    """Return the names of agents that begin with `incomplete`."""
    return [name for name in agent_names() if name.startswith(incomplete)]


def complete_benchmark(incomplete: str) -> list[str]:
    """Return the names of benchmarks that begin with `incomplete`."""
    return [name for each in read_benchmark_facts() if (name := str(each["name"])).startswith(incomplete)]


def read_benchmark_facts() -> list[dict[str, Any]]:
    """Return the facts about all benchmarks, from a file if no package has changed since it was written.

    An import of all benchmarks takes a second, and a shell asks at each press of a key.
    """
    import json
    import sys

    from harness.core.lock import cache_dir

    sources = [path for folder in _DECLARING for path in folder.rglob("*.py")]
    for folder in map(Path, filter(os.path.isdir, sys.path)):
        # A package that is installed changes the folder, and one that is edited its list of entry points.
        sources += [folder, *folder.glob("*.dist-info/entry_points.txt")]
    state = [str(Path(__file__)), max(path.stat().st_mtime_ns for path in sources), len(sources)]
    kept = cache_dir() / "benchmark-facts.json"
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        stored = json.loads(kept.read_bytes())
        if stored["state"] == state:
            return list(stored["facts"])
    from harness.benchmarks.loading import definitions
    from harness.reports.benchmarks import facts_json

    facts = facts_json(definition for _, definition in sorted(definitions().items()))
    with contextlib.suppress(OSError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps({"state": state, "facts": facts}))
    return facts


def complete_run(incomplete: str) -> list[str]:
    """Return the runs that begin with `incomplete`, the newest first: paths, or names and `latest`.

    They are searched in `runs/`, unless `incomplete` names another folder.
    """
    named = Path(incomplete)
    parent = named if incomplete.endswith("/") else named.parent if "/" in incomplete else _RUNS
    try:
        folders = [entry for entry in parent.iterdir() if (entry / _MANIFEST).is_file()]
    except OSError:
        return []
    newest_first = sorted(folders, key=lambda folder: folder.name, reverse=True)
    paths = [str(folder) for folder in newest_first]
    names = [_LATEST] if parent == _RUNS and paths else []
    if names and incomplete:
        # A user who has typed nothing gets no names of folders, because they would double the list.
        names += [folder.name for folder in newest_first]
    return [each for each in [*paths, *names] if each.startswith(incomplete)]


_COMPLETIONS = {"agent": complete_agent, "benchmark": complete_benchmark, "run": complete_run}


class SettingsCommand(TyperCommand):
    """A command with the options of settings, which its help lists by their panels."""

    # The keys and the panels whose options it has, and the keys in these panels that it leaves out.
    keys: Collection[str] = ()
    panels: Collection[Panel] = ()
    without: Collection[str] = ()
    # Whether it makes a run for each value of an option that is an axis.
    has_axes = False

    def list_options(self) -> list[KeyOption]:
        """Return the options of settings that the command has."""
        from harness.runs.settings import OPTIONS

        return [
            each
            for each in OPTIONS
            if each.key in self.keys or (each.panel in self.panels and each.key not in self.without)
        ]

    @cached_property
    def _of_settings(self) -> list[Any]:
        return _make_params(self.list_options(), has_axes=self.has_axes)

    def get_params(self, ctx: Any) -> list[Any]:
        return [*self._of_settings, *super().get_params(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        panels: dict[str, str] = {_name_param(each): each.panel for each in self.list_options()}
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": []}
        for param in self.get_params(ctx):
            other = "Options" if param.opts[0][:1] == "-" else "Arguments"
            title = panels.get(param.name, other)
            sections.setdefault(title, []).extend(filter(None, [param.get_help_record(ctx)]))
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def invoke(self, ctx: Any) -> Any:
        values = [(each, ctx.params.pop(_name_param(each))) for each in self.list_options()]
        ctx.meta[_GIVEN] = [(each, value) for each, value in values if _is_given(value)]
        return super().invoke(ctx)


def take_settings(
    *keys: str, panels: Collection[Panel] = (), without: Collection[str] = (), has_axes: bool = False
) -> type[TyperCommand]:
    """Return the class of a command with the options of these keys and of whole panels.

    Args:
        keys: the keys whose options it has.
        panels: the panels whose options it has, also those of settings that are declared later.
        without: the keys in these panels whose options it does not have.
        has_axes: whether it makes a run for each value of an option that is an axis.
    """
    taken = {"keys": keys, "panels": panels, "without": without, "has_axes": has_axes}
    return type("SettingsCommand", (SettingsCommand,), taken)


def read_settings(context: typer.Context, config: Path | None = None) -> dict[str, Any]:
    """Return the values of the config that the options of a command set, by their keys.

    The options of a group are over the group in the config file. Raises UsageError for a text that is not
    NAME=VALUE, and for a file that cannot be read.
    """
    from harness.core.setting import list_members

    given: dict[str, Any] = {}
    for each, value in context.meta[_GIVEN]:
        key, _, inner = each.key.partition(".")
        if _takes_pairs(each):
            from harness.benchmarks.options import parse_options

            is_text = list_members(each.kind)[0] == dict[str, str]
            value = parse_options(value, option=each.name, is_text=is_text)
        value = str(value) if isinstance(value, Path) else [*value] if isinstance(value, tuple) else value
        if inner:
            from harness.runs.config import read_section

            given.setdefault(key, dict(read_section(config, key)))[inner] = value
        else:
            given[key] = value
    return given


def is_on_command_line(context: typer.Context, parameter: str) -> bool:
    """Return whether the user has given an option, instead of a variable or a default."""
    source = context.get_parameter_source(parameter)
    return source is not None and source.name == "COMMANDLINE"


def _is_given(value: Any) -> bool:
    # The parser has None for an option that is not given, False for a flag, and nothing for a list.
    return value is not None and value is not False and value not in ((), [])


def _make_params(options: Iterable[KeyOption], *, has_axes: bool) -> list[Any]:
    """Return the options as the parser has them."""

    def declare() -> None:
        """Do nothing. The parser reads the signature."""

    parameters = []
    for each in options:
        kind, is_axis = _choose_type(each), has_axes and each.option.is_axis
        text = each.option.help
        if "{agents}" in text:
            text = text.replace("{agents}", ", ".join(agent_names()))
        option = typer.Option(
            *filter(None, (each.option.short, each.name)),
            metavar=each.option.metavar or None,
            help=f"{text} Repeatable: one run for each." if is_axis else text,
            autocompletion=_COMPLETIONS.get(each.option.completes or ""),
        )
        is_flag = kind is bool
        kind = kind if is_flag else (list[kind] if is_axis else kind) | None  # type: ignore[valid-type]
        parameters.append(
            inspect.Parameter(
                _name_param(each),
                inspect.Parameter.KEYWORD_ONLY,
                default=False if is_flag else None,
                annotation=Annotated[kind, option],
            )
        )
    declare.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command()(declare)
    params: list[Any] = typer.main.get_command(app).params
    return params


def _choose_type(each: KeyOption) -> Any:
    """Return the type of an option's value. The model of the config checks what a text may be."""
    from harness.core.setting import list_members

    (member, *others) = list_members(each.kind)
    if _takes_pairs(each):
        return list[str]
    if get_origin(member) is list:
        return list[int] if get_args(member)[0] is int else list[str]
    if not others and member in (int, float, bool):
        return member
    return Path if each.option.is_path else str


def _takes_pairs(each: KeyOption) -> bool:
    """Return whether the values of an option are NAME=VALUE, because the setting is a mapping or a group."""
    from harness.core.setting import list_members

    member = list_members(each.kind)[0]
    return get_origin(member) is dict or hasattr(member, "model_fields")


def _name_param(each: KeyOption) -> str:
    return each.key.replace(".", "__")
