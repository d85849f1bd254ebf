"""The declared settings: a new one is a field, and everything that depends on the settings knows it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from keyword_types import FILE, write_keywords

from harness.runs.settings import OPTIONS, find_key, name_option
from harness.runs.settings import tasks as tasks_module

PAGE = Path(__file__).parents[2] / "docs" / "adding" / "setting.md"
# Shows what harness makes of the settings if those of the tasks are the ones in a file.
PROGRAM = """
import importlib.util, json, sys
from pathlib import Path

name = "harness.runs.settings.tasks"
spec = importlib.util.spec_from_file_location(name, sys.argv[1])
sys.modules[name] = module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)

from typer.testing import CliRunner
from harness.benchmarks.loading import definition_of
from harness.cli.app import app
from harness.core.errors import UsageError
from harness.runs.config_guide import build_config_schema
from harness.runs.config_guide import write_example_config
from harness.runs.manifest import list_differences
from harness.runs.shards import merge_manifests
from harness.runs.resume import change_resumed_config
from harness.runs.settings import RunConfig
from harness.runs.unread import list_useless
from keyword_types import write_keywords

def refuse(call, *arguments):
    try:
        call(*arguments)
    except UsageError as error:
        return f"{error.message}; {error.hint}"

def call(*words):
    return refuse(lambda: CliRunner().invoke(app, words, catch_exceptions=False))

before, after = (RunConfig(benchmark="mbpp", tea=cups) for cups in (1, 2))
manifests = [
    {"data": {"sha256": ""}, "config": config.model_dump(mode="json")} for config in (before, after)
]
shards = [(Path(str(place)), manifest) for place, manifest in enumerate(manifests)]
print(json.dumps({
    "help of run": CliRunner().invoke(app, ["run", "--help"]).output,
    "help of grade": CliRunner().invoke(app, ["grade", "--help"]).output,
    "option": call("run", "-b", "mbpp", "-T", "0"),
    "alias": call("run", "--cups", "2"),
    "schema": build_config_schema()["properties"]["tea"],
    "example": write_example_config(definition_of("mbpp"), "oracle", benchmark="mbpp"),
    "keyword": write_keywords(),
    "without effect": [unread.message for unread in list_useless(after)],
    "resumed": refuse(change_resumed_config, Path("run"), before, after, []),
    "compared": [(each.name, each.is_unfair) for each in list_differences(*[[each] for each in manifests])],
    "merged": refuse(merge_manifests, shards, []),
}))
"""


def test_the_documented_setting_is_one_field(tmp_path: Path) -> None:
    (field,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    changed = tmp_path / "tasks.py"
    changed.write_text(f"{Path(tasks_module.__file__).read_text()}\n{field}")
    command = [sys.executable, "-c", PROGRAM, str(changed)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "COLUMNS": "100"}
    ended = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    found = json.loads(ended.stdout)
    described = "The cups of tea that each task gets."
    assert "  -T, --tea CUPS  " in found["help of run"]
    assert "  -T, --tea CUPS  " in found["help of grade"]
    assert found["option"] == "--tea must be at least 1, not 0; None"
    assert "did you mean -T, --tea?" in found["alias"]
    assert found["schema"]["description"] == described
    assert f"# {described}\ntea: 2\n" in found["example"]
    assert "    tea: int | None\n" in found["keyword"]
    assert found["without effect"] == ["--tea needs a number of tasks"]
    assert "a resumed run cannot change --tea" in found["resumed"]
    assert found["compared"] == [["config.tea", True]]
    assert "the shards differ in config.tea" in found["merged"]


def test_the_keywords_of_run_are_those_of_the_settings() -> None:
    assert FILE.read_text() == write_keywords(), "run: make keywords"


def test_each_option_has_one_key() -> None:
    names = [name for each in OPTIONS for name in (each.name, each.option.short) if name]
    assert len(names) == len({*names}), names
    found = {each.key: find_key(each.name.lstrip("-")) for each in OPTIONS if each.option.name}
    assert found == {key: key for key in found}


def test_a_key_is_named_by_its_options_or_else_by_itself() -> None:
    assert name_option("task_ids") == "--task"
    assert name_option("generation") == "--temperature, --max-tokens or --reasoning-effort"
    assert name_option("generation.max_tokens") == "--max-tokens"
    assert name_option("generation.top_p") == "'generation.top_p'"
    assert name_option("run_budget.cost") == "--run-budget cost"
    assert name_option("system_prompt") == "'system_prompt'"
