"""SWE-bench Verified (Jimenez et al. 2024, arXiv 2310.06770): repair an issue of a repository by a patch."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

from pydantic import field_validator

from harness.benchmarks.benchmark import Definition
from harness.benchmarks.data.rows import Row, describe, parse_data
from harness.benchmarks.data.splits import HubDataset
from harness.benchmarks.options import OptionEffect, Options, validate_options
from harness.core.errors import UsageError
from harness.core.inputs.json_text import BrokenJSONError
from harness.core.scoring.answers import drop_thoughts
from harness.core.scoring.metrics import Metric
from harness.core.types import Reference, Submission, Task
from harness.environments.base import Environment
from harness.environments.repository.environment import RepositoryEnvironment, solve
from harness.environments.repository.grader import RESOLVED, RESOLVED_STRICT
from harness.environments.repository.logs import END, PARSERS, START
from harness.environments.repository.machine import RepositorySetup, RepositoryTests
from harness.environments.repository.trial import TESTS_SECONDS

AGENT_SECONDS = 1800.0
_IMAGE = "swebench/sweb.eval.x86_64.{image_id}:latest"
_PLACEHOLDERS = ("{instance_id}", "{image_id}")
_PROMPT = """\
The git repository {repo} is in {folder}. Resolve the issue below by changing its files there.

Hidden tests judge the files that you leave. Changes of existing tests and of their settings do not count. \
Call `submit` when you are done; its text does not count.

<issue>
{issue}
</issue>
"""
# How the tests of a project run and how the project is installed, for rows without a script of their own.
# Source: the specifications of swebench 2 to 4 for the versions in SWE-bench Verified.
_PYTEST, _INSTALL = "pytest -rA", "python -m pip install -e ."
_COMMANDS = {
    "astropy/astropy": "pytest -rA -vv -o console_output_style=classic --tb=no",
    "django/django": "./tests/runtests.py --verbosity 2 --settings=test_sqlite --parallel 1",
    "matplotlib/matplotlib": _PYTEST,
    "mwaskom/seaborn": "pytest --no-header -rA",
    "pallets/flask": _PYTEST,
    "psf/requests": _PYTEST,
    "pydata/xarray": _PYTEST,
    "pylint-dev/pylint": _PYTEST,
    "pytest-dev/pytest": _PYTEST,
    "scikit-learn/scikit-learn": _PYTEST,
    "sphinx-doc/sphinx": "tox --current-env -epy39 -v --",
    "sympy/sympy": "PYTHONWARNINGS='ignore::UserWarning,ignore::SyntaxWarning' bin/test -C --verbose",
}
_INSTALLS = {
    "astropy/astropy": f"{_INSTALL}[test] --verbose",
    "psf/requests": "python -m pip install .",
    "scikit-learn/scikit-learn": "python -m pip install -v --no-use-pep517 --no-build-isolation -e .",
    "sphinx-doc/sphinx": f"{_INSTALL}[test]",
}
_PREPARATIONS = {
    "django/django": "sed -i '/en_US.UTF-8/s/^# //g' /etc/locale.gen && locale-gen\n"
    "export LANG=en_US.UTF-8 LANGUAGE=en_US:en LC_ALL=en_US.UTF-8 PYTHONIOENCODING=utf8"
}
_PARSERS = {
    "scikit-learn/scikit-learn": "parse_log_scikit",
    "pytest-dev/pytest": "parse_log_pytest",
    "pylint-dev/pylint": "parse_log_pylint",
}
_NO_TESTS = (".json", ".png", "csv", ".txt", ".md", ".jpg", ".jpeg", ".pkl", ".yml", ".yaml", ".toml")
_SCRIPT = """#!/bin/bash
set -uxo pipefail
source /opt/miniconda3/bin/activate
conda activate testbed
cd {folder}
{preparation}
git config --global --add safe.directory {folder}
{install}
git checkout {commit} {files}
git apply -v - <<'EOF_114329324912'
{patch}
EOF_114329324912
: '{start}'
{command} {tests}
HARNESS_TEST_EXIT_CODE=$?
: '{end}'
git checkout {commit} {files}
echo ">>>>> Test Exit Code: $HARNESS_TEST_EXIT_CODE"
"""


class SwebenchOptions(Options):
    """The options of SWE-bench."""

    image_template: Annotated[str | None, OptionEffect("start the machines from other images")] = None
    """The image of each task, with {instance_id}, or {image_id} as in the names of the published images."""

    @field_validator("image_template")
    @classmethod
    def _require_placeholder(cls, template: str | None) -> str | None:
        if template is not None and not any(each in template for each in _PLACEHOLDERS):
            raise UsageError(
                f"swebench-verified: image_template {template!r} names one image for all tasks",
                hint="put {instance_id} or {image_id} where the names differ",
            )
        return template


def read(row: Row, options: SwebenchOptions | None = None) -> tuple[Task, Reference[RepositoryTests]]:
    """Return the task and the reference of a row, as published or with a `dockerfile` that makes its image.

    Raises DataError, with file and line, for a broken row.
    """
    name, repo = row.name("instance_id"), row.text("repo")
    template = (options or SwebenchOptions()).image_template
    dockerfile = None if template else row.optional_text("dockerfile")
    image = template or row.optional_text("image") or _IMAGE
    values = {"{instance_id}": name, "{image_id}": name.lower().replace("__", "_1776_")}
    for placeholder, value in values.items():
        image = image.replace(placeholder, value)
    setup = RepositorySetup(image, dockerfile)
    parser = row.optional_text("log_parser") or _find_parser(row, repo)
    if parser not in PARSERS:
        raise row.error(f"'{parser[:80]}' is not a known form", field="log_parser")
    tests = RepositoryTests(
        setup,
        gold=row.text("patch"),
        test_patch=row.text("test_patch"),
        script=row.optional_text("eval_script") or write_script(row, setup),
        parser=parser,
        fail_to_pass=_read_ids(row, "FAIL_TO_PASS"),
        pass_to_pass=_read_ids(row, "PASS_TO_PASS"),
    )
    if not tests.fail_to_pass:
        raise row.error("has no test that a solution repairs", field="FAIL_TO_PASS")
    if START not in tests.script or END not in tests.script:
        raise row.error(f"needs the markers '{START}' and '{END}'", field="eval_script")
    issue = row.text("problem_statement")
    task = Task(
        name,
        "swebench-verified",
        "repository",
        _PROMPT.format(repo=repo, folder=setup.folder, issue=issue.strip()),
        category=repo,
        setup=setup,
        statement=issue,
        difficulty=row.optional_text("difficulty"),
        agent_seconds=AGENT_SECONDS,
        tests_seconds=TESTS_SECONDS,
    )
    count = len(tests.fail_to_pass)
    return task, Reference(name, tests.gold, tests, f"{count} tests to repair: {tests.fail_to_pass[0]}")


def _read_ids(row: Row, field: str) -> tuple[str, ...]:
    """Return a list of test ids, which the hub has as a text of JSON."""
    value = row.value(field)
    if isinstance(value, str):
        try:
            value = parse_data(value)
        except BrokenJSONError as error:
            raise row.error(f"is not JSON: {error}", field=field) from error
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise row.error(f"needs a list of test ids, found {describe(value)}", field=field)
    return tuple(value)


def _find_parser(row: Row, repo: str) -> str:
    found = _PARSERS.get(repo, f"parse_log_{repo.rpartition('/')[2]}")
    if found not in PARSERS:
        raise row.error(f"missing, and the log of '{repo}' has no known form", field="log_parser")
    return found


def write_script(row: Row, setup: RepositorySetup) -> str:
    """Return the script that runs the tests of a row without one. Raises DataError for an unknown project."""
    repo, patch = row.text("repo"), row.text("test_patch")
    if repo not in _COMMANDS:
        raise row.error(f"missing, and the tests of '{repo}' have no known command", field="eval_script")
    files = re.findall(r"^diff --git a/.* b/(.*)$", patch, re.MULTILINE)
    tests = [path for path in files if not path.endswith(_NO_TESTS)]
    if repo == "django/django":
        tests = [path.removesuffix(".py").removeprefix("tests/").replace("/", ".") for path in tests]
    # The commit does not have new files.
    known = re.findall(r"^--- a/(.*)$", patch, re.MULTILINE)
    return _SCRIPT.format(
        folder=setup.folder,
        preparation=_PREPARATIONS.get(repo, ""),
        install=_INSTALLS.get(repo, _INSTALL),
        commit=row.text("base_commit"),
        files=" ".join(known or files),
        patch=patch.strip("\n"),
        start=START,
        end=END,
        command=_COMMANDS[repo],
        tests=" ".join(tests),
    )


def submit(task: Task, field: str, text: str) -> Submission:
    """Return the submission of a patch, which a reply has after its thoughts."""
    return Submission(drop_thoughts(text) if field == "reply" else text, agent_output=text)


async def play(task: Task, reference: Reference, environment: Environment) -> Submission:
    """Apply the patch of the solution where an agent acts, and return the submission. Raises SandboxError."""
    if not isinstance(environment, RepositoryEnvironment):
        raise UsageError(f"{task.id} is not a task in a repository")
    await solve(environment, reference.solution)
    return Submission("", agent_output=reference.solution)


def _configure(definition: Definition, values: Mapping[str, Any]) -> Definition:
    options = validate_options(SwebenchOptions, values, definition.name)
    return replace(definition, read=partial(read, options=options))


BENCHMARKS = (
    Definition(
        name="swebench-verified",
        description="repair an issue of a Python repository, judged by its hidden tests",
        environments=("repository",),
        tasks=500,
        licence="MIT, the repositories under their own",
        missing={"train": "it was published for evaluation only", "dev": "it was published with test only"},
        formats=("its rows as JSONL, JSON or Parquet",),
        hub=HubDataset("SWE-bench/SWE-bench_Verified", "default", "test"),
        bundled="swebench-verified.jsonl",
        read=read,
        submit=submit,
        # A solution is the same whatever version of the set-up was used to find the tests.
        unused_fields=frozenset(("environment_setup_commit",)),
        reply_rule="the whole reply, which must be a patch",
        play=play,
        metrics=(
            Metric(RESOLVED, "tasks that are resolved by the rule of SWE-bench"),
            Metric(RESOLVED_STRICT, "tasks that are resolved by the original tests, which can fail"),
        ),
        options=SwebenchOptions,
        configure=_configure,
    ),
)
