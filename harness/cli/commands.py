"""Every command of the command line: its module, its line in `harness --help`, and examples.

The modules are imported one by one when a command needs them, because all of them together take longer than
the help itself. To add a command, write its module with an `app`, and add it to `SECTIONS`.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import typer

# By heading of the help: the commands with their modules. A group of commands has one module.
SECTIONS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "Evaluate": {
        "run": ("run", "Run an agent on a benchmark, and grade its submissions."),
        "grade": ("run", "Grade samples from a file, or what a run submitted."),
        "rerun": ("run", "Repeat a run in a new folder, from its manifest."),
        "init": ("config", "Write an example config with a comment on each key."),
        "config": ("config", "Show and check config files."),
    },
    "Read results": {
        "runs": ("results", "List the runs, the newest first."),
        "report": ("results", "Print the report of a run."),
        "show": ("results", "Show a run, or one attempt: prompt, actions and verdict."),
        "view": ("serve", "Show runs on a local web page."),
        "compare": ("results", "Compare two runs, paired by task."),
        "card": ("card", "Run several benchmarks with a model, and write one page about them."),
        "merge": ("run", "Join the shards of a run into one folder, or of an audit into a result (-o)."),
        "export": ("results", "Export the attempts of a run for other projects."),
    },
    "Benchmarks and samples": {
        "benchmarks": ("data", "List the benchmarks: splits, sizes, metrics and licences."),
        "data": ("data", "Fetch, list, show and export the data of benchmarks."),
        "samples": ("data", "Export and import samples."),
        "calibrate": ("audit", "Find the seal level of each task of a folder."),
        "lint": ("audit", "Check a set of task folders before it is published."),
        "audit": ("audit", "Attack a grader, which must pass only the reference solutions."),
    },
    "Sandboxes": {
        "exec": ("sandboxes", "Run untrusted code in a fresh sandbox, and print its output."),
        "shell": ("sandboxes", "Act in the environment of a task yourself, and be graded."),
        "mcp": ("sandboxes", "Serve a task's tools to your own MCP client."),
        "serve": ("serve", "Serve verdicts and sandboxes over HTTP."),
    },
    "This machine": {
        "doctor": ("doctor", "Check this machine, or probe the server of a model."),
        "setup": ("machine", "Prepare this machine: Docker engine and images."),
        "gc": ("machine", "Remove the containers and the folders of dead runs."),
        "images": ("machine", "Build, list, verify and prune the images."),
    },
}
COMMANDS: Mapping[str, tuple[str, str]] = {
    name: each for part in SECTIONS.values() for name, each in part.items()
}

# By command, without `harness` before each. The help of the whole has the first steps.
EXAMPLES: Mapping[str, Sequence[str]] = {
    "": (
        "setup",
        "run -b mbpp --data bundled",
        "run -b mbpp --model qwen3 --base-url http://localhost:8000/v1",
    ),
    "run": (
        "run -b humaneval -n 20 --seed 1",
        "run -b mbpp --model qwen3 --base-url http://localhost:8000/v1",
        "run --resume latest",
    ),
    "grade": (
        "grade -b humaneval --samples samples.jsonl",
        "grade -b mbpp --data sanitized-mbpp.json --samples samples.jsonl --k 1 --k 10",
        "grade --run latest",
    ),
    "rerun": ("rerun latest", "rerun latest --dry-run", "rerun runs/before --output-dir again"),
    "init": ("init", "init -b agentbench --agent chat", "init -b mbpp -o -"),
    "card": (
        "card -b aime2025 -b gpqa-diamond -b mbpp --model NAME -o card.html -o card.json",
        "card --run latest -o card.md",
        "card --compare before.json --compare after.json",
    ),
    "calibrate": (
        "calibrate tasks",
        "calibrate tasks -n 5 -q",
        "calibrate tasks --base-image ubuntu:24.04=packages",
    ),
    "lint": (
        "lint path/to/tasks",
        "lint path/to/tasks --static",
        "lint path/to/tasks --repeat 10 -o lint.md",
    ),
    "config": (
        "config validate config.yaml",
        "config show config.yaml --defaults",
        "config schema",
    ),
    "config show": (
        "config show config.yaml",
        "config show config.yaml --defaults",
        "config show config.yaml --origins",
    ),
    "config validate": (
        "config validate config.yaml",
        "config validate configs/a.yaml configs/b.yaml",
        "config validate -b mbpp config.yaml",
    ),
    "config schema": ("config schema",),
    "runs": ("runs", "runs -n 5", "runs --json --output-dir elsewhere"),
    "report": (
        "report latest",
        "report latest --format markdown",
        "report latest --format junit",
    ),
    "show": ("show latest", "show latest Mbpp/11", "show latest os/dev/1 --attempt 2 --characters 500"),
    "view": ("serve", "view latest --open", "view --export pages"),
    "compare": (
        "compare runs/before latest",
        "compare runs/before latest --regression-threshold 0.02",
        "compare runs/before latest --format markdown",
    ),
    "merge": ("merge runs/*", "merge runs/* --output-dir merged", "merge runs/* --allow-unfinished"),
    "export": (
        "export latest --to inspect -o log.json",
        "export latest --to atif -o trajectories.jsonl",
        "export latest --to otlp --endpoint http://localhost:4318",
    ),
    "benchmarks": ("benchmarks", "benchmarks --json", "benchmarks --markdown"),
    "data": ("data fetch mbpp", "data list --verify", "data show humaneval --index 0"),
    "data fetch": (
        "data fetch mbpp",
        "data fetch humaneval --path ./cache",
        "data fetch nq --every-split",
    ),
    "data list": ("data list", "data list --verify", "data list --json"),
    "data show": (
        "data show humaneval",
        "data show mbpp --data bundled --index 2",
        "data show gsm8k --reference",
    ),
    "data convert": ("data convert terminal-bench/tasks harbor-tasks",),
    "data export": (
        "data export mbpp -o prompts.jsonl",
        "data export humaneval -n 20 --seed 1",
        "data export mbpp --data bundled",
    ),
    "samples": (
        "samples export latest -o samples.jsonl",
        "samples import log.jsonl --from lm-eval -o samples.jsonl",
    ),
    "samples export": ("samples export latest", "samples export latest -o samples.jsonl"),
    "samples import": (
        "samples import log.jsonl --from lm-eval -o samples.jsonl",
        "samples import samples/ --from evalplus",
    ),
    "audit": (
        "audit mbpp",
        "audit humaneval --all-tasks",
        "audit path/to/tasks -o audit.json -o audit.md",
    ),
    "exec": (
        "exec -- python3 -c 'print(6 * 7)'",
        "exec --timeout 10 --memory-mb 256 program.py",
        "exec - < program.py",
    ),
    "shell": (
        "shell os/sample/answers/0 --data bundled",
        "shell os/dev/1 --data AgentBench/data",
        "shell os/dev/1 --timeout-seconds 600",
    ),
    "mcp": (
        "mcp agentbench os/sample/answers/0 --data bundled",
        "mcp agentbench os/dev/1 --data AgentBench/data",
        "mcp agentbench db/dev/3 --timeout-seconds 600",
    ),
    "serve": ("serve -b mbpp", "serve -b mbpp -b humaneval --port 8080", "serve --host 0.0.0.0 --port 8080"),
    "doctor": (
        "doctor",
        "doctor --runtime runsc",
        "doctor --model qwen3 --base-url http://localhost:8000/v1",
    ),
    "setup": ("setup", "setup -b mbpp", "setup --runtime runsc"),
    "gc": ("gc",),
    "images": ("images list", "images build python", "images verify"),
    "images build": (
        "images build",
        "images build python --force",
        "images build --agent mini-swe-agent",
    ),
    "images list": ("images list",),
    "images prune": ("images prune",),
    "images verify": ("images verify",),
}


def load_commands(module: str) -> Mapping[str, Any]:
    """Import a module of commands, and return its commands by name. A group of commands is one of them."""
    outer = typer.Typer(rich_markup_mode=None, add_completion=False)
    outer.add_typer(importlib.import_module(f"harness.cli.{module}").app)
    return typer.main.get_group(outer).commands


def write_examples(path: str) -> str | None:
    """Return the end of the help of a command, or None without examples."""
    examples = EXAMPLES.get(path)
    if not examples:
        return None
    title = "Examples" if path else "Start with"
    return "\n".join(["\b", f"{title}:", *(f"  harness {example}" for example in examples)])
