"""The help of the command, and the modules that it must not import to print it."""

from __future__ import annotations

import subprocess

from case_checks import each_case
from e2e.command_line import NO_ENGINE, SCRIPT, Harness

import harness as package

COMMANDS = (
    *("run", "grade", "compare", "exec", "benchmarks", "data"),
    *("doctor", "setup", "gc", "images", "runs", "view", "init", "config"),
)
HEAVY = {"docker", "requests", "datasets", "rich", "yaml", "psutil", "asyncio"}


def test_help_names_every_command(harness: Harness) -> None:
    ended = harness.succeed("--help", env=NO_ENGINE)
    listed = {line.split()[0] for line in ended.stdout.splitlines() if line.startswith("  ")}
    assert set(COMMANDS) <= listed


def loaded(harness: Harness, *arguments: str) -> set[str]:
    """Return the modules that a command imports."""
    lines = harness(*arguments, env={"PYTHONPROFILEIMPORTTIME": "1"}).stderr.splitlines()
    modules = {line.rpartition("|")[2].strip() for line in lines}
    assert "typer" in modules
    return modules


@each_case("option", ["--help", "--version"])
def test_help_loads_nothing_heavy(harness: Harness, option: str) -> None:
    assert loaded(harness, option) & {*HEAVY, "pydantic"} == set()


def test_help_of_a_command_loads_nothing_heavy(harness: Harness) -> None:
    # Typer itself imports pydantic for the options of a command.
    assert loaded(harness, "run", "--help") & HEAVY == set()


def test_no_arguments_show_the_help(harness: Harness) -> None:
    ended = harness()
    assert "Usage: harness" in ended.stdout + ended.stderr


def test_version(harness: Harness) -> None:
    assert harness("--version").stdout == f"harness {package.__version__}\n"


@each_case("group", [(), ("data",), ("images",)], ids=str)
def test_every_line_of_a_list_of_commands_fits(harness: Harness, group: tuple[str, ...]) -> None:
    listed = harness(*group, "--help", env={"COLUMNS": "80"}).stdout.partition("Show this message")[2]
    assert [line for line in listed.splitlines() if line.endswith("...") or len(line) > 80] == []


def completed(harness: Harness, words: str) -> list[str]:
    """Return the completions that bash would show for the last word of a command line."""
    env = {"_HARNESS_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    return harness(env=env).stdout.split()


def test_shells_complete_benchmarks_agents_and_run_folders(harness: Harness) -> None:
    folder = harness.folder / "runs" / "20260101-mbpp"
    folder.mkdir(parents=True)
    (folder / "manifest.json").touch()
    assert completed(harness, "harness run -b human") == ["humaneval", "humaneval-plus"]
    assert completed(harness, "harness run --agent or") == ["oracle"]
    assert completed(harness, "harness show ") == ["runs/20260101-mbpp", "latest"]
    assert completed(harness, "harness show la") == ["latest"]
    assert completed(harness, "harness report 2026") == ["20260101-mbpp"]


def test_completion_is_installed_for_the_shell_of_the_user(harness: Harness) -> None:
    home = harness.folder
    # The second command keeps bash from replacing itself by the first, after which it would not be found as
    # the shell.
    subprocess.run(
        ["bash", "-c", f"{SCRIPT} --install-completion; true"],
        env={**harness.environment, "HOME": str(home)},
        check=True,
        capture_output=True,
    )
    assert "_HARNESS_COMPLETE" in (home / ".bash_completions" / "harness.sh").read_text()
