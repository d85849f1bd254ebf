"""Configs that extend other files, and the places that their errors name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from case_checks import each_case

from harness.core.errors import UsageError
from harness.runs.config import RunConfig, load_config, read_config, read_section
from harness.runs.config_file import MAX_FILES

Write = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write_file


def refusal(path: Path) -> UsageError:
    with pytest.raises(UsageError) as caught:
        load_config(path, {})
    return caught.value


def load(path: Path) -> RunConfig:
    return load_config(path, {})


def test_mappings_are_merged_and_lists_are_replaced(write: Write) -> None:
    write("base.yaml", "benchmark: mbpp\nk: [1, 2]\nlimits: {memory_mb: 512, cpus: 0.5}\nseed: 3\n")
    config = load(write("run.yaml", "extends: base.yaml\nk: [5]\nlimits: {memory_mb: 256}\n"))
    assert (config.benchmark, config.seed, config.k) == ("mbpp", 3, [5])
    assert config.limits.model_dump(exclude_unset=True) == {"memory_mb": 256, "cpus": 0.5}


def test_a_later_file_of_several_overrides_an_earlier_one(write: Write) -> None:
    write("a.yaml", "benchmark: mbpp\nseed: 1\n")
    write("b.yaml", "seed: 2\n")
    assert load(write("run.yaml", "extends: [a.yaml, b.yaml]\n")).seed == 2


def test_a_path_is_relative_to_the_file_that_names_it(write: Write) -> None:
    write("shared/models/base.yaml", "seed: 4\n")
    write("shared/base.yaml", "extends: models/base.yaml\nbenchmark: mbpp\n")
    assert load(write("runs/run.yaml", "extends: ../shared/base.yaml\n")).seed == 4


def test_two_files_may_extend_the_same_file(write: Write) -> None:
    write("root.yaml", "benchmark: mbpp\n")
    write("a.yaml", "extends: root.yaml\nseed: 1\n")
    write("b.yaml", "extends: root.yaml\nrounds: 2\n")
    config = load(write("run.yaml", "extends: [a.yaml, b.yaml]\n"))
    assert (config.seed, config.rounds) == (1, 2)


def test_a_variable_that_is_overridden_need_not_be_set(write: Write) -> None:
    write("base.yaml", "benchmark: mbpp\nmodel: ${NO_SUCH_MODEL}\n")
    assert load(write("run.yaml", "extends: base.yaml\nmodel: m\n")).model == "m"


def test_a_variable_may_name_the_extended_file(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write("base.yaml", "benchmark: mbpp\n")
    monkeypatch.setenv("BASE", "base.yaml")
    assert load(write("run.yaml", "extends: ${BASE}\n")).benchmark == "mbpp"


def test_options_of_the_command_line_join_a_section_of_an_extended_file(write: Write) -> None:
    write("base.yaml", "generation: {temperature: 0.5}\n")
    assert read_section(write("run.yaml", "extends: base.yaml\n"), "generation") == {"temperature": 0.5}


def test_a_cycle_is_refused_with_its_files(write: Write) -> None:
    write("a.yaml", "extends: b.yaml\n")
    write("b.yaml", "benchmark: mbpp\nextends: a.yaml\n")
    message = refusal(write("run.yaml", "extends: a.yaml\n")).message
    assert "b.yaml:2: 'extends' leads back to the file itself" in message
    assert message.count(" -> ") == 3


def test_too_many_files_are_refused(write: Write) -> None:
    write("0.yaml", "benchmark: mbpp\n")
    for number in range(1, 12):
        base = f"{number - 1}.yaml"
        write(f"{number}.yaml", f"extends: [{base}, {base}]\n")
    assert f"leads to more than {MAX_FILES} files" in refusal(write("run.yaml", "extends: 11.yaml\n")).message


@each_case(
    ("extends", "message"),
    [
        ("no.yaml", "no.yaml is not a file"),
        ("https://example.com/base.yaml", "must be a file, not https://example.com/base.yaml"),
        ("5", "must be a file or a list of files"),
        ("[]", "must be a file or a list of files"),
        ("${NO_SUCH_BASE}", "the environment variable NO_SUCH_BASE is not set"),
    ],
)
def test_something_else_than_a_file_is_refused(write: Write, extends: str, message: str) -> None:
    path = write("run.yaml", f"benchmark: mbpp\nextends: {extends}\n")
    error = refusal(path)
    assert error.message.startswith(f"{path}:2: 'extends'")
    assert message in error.message


def test_an_error_names_the_extended_file_that_holds_the_value(write: Write) -> None:
    base = write("base.yaml", "benchmark: mbpp\nlimits:\n  memory_mb: 1\n  cpus: 1\n")
    path = write("run.yaml", "extends: base.yaml\n\nlimits: {cpus: 0}\n")
    messages = [problem.message for problem in read_config(path, {}).problems]
    assert f"{base}:3: 'limits.memory_mb' must be at least 64, not 1" in messages
    assert f"{path}:3: 'limits.cpus' must be at least 0.01, not 0" in messages


def test_an_error_names_the_line_of_an_item_and_of_a_server(write: Write) -> None:
    path = write(
        "run.yaml",
        "benchmark: mbpp\nk:\n- 1\n- x\nmcp_servers:\n  a: {command: a}\n  b:\n    command: b\n    arg: []\n",
    )
    places = [problem.message.partition(": ")[0] for problem in read_config(path, {}).problems]
    assert places == [f"{path}:9", f"{path}:4"]


def test_the_first_of_several_errors_names_the_command_that_lists_all(write: Write) -> None:
    path = write("run.yaml", "benchmark: mbpp\nseed: x\nrounds: y\n")
    assert f"`harness config validate {path}` lists all 2 problems" in str(refusal(path).hint)
