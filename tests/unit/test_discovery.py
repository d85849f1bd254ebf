from __future__ import annotations

from pathlib import Path

import pytest

from harness.benchmarks import definitions
from harness.core.discovery import list_declared
from harness.core.errors import UsageError
from harness.environments import environment_spec, environment_specs


def test_a_new_file_in_a_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "made_up_package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "first.py").write_text("THINGS = (1, 2)\n")
    (package / "second.py").write_text("THINGS = (3,)\n")
    (package / "without.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    assert sorted(list_declared("made_up_package", "THINGS")) == [1, 2, 3]


def test_the_environment_of_every_benchmark_exists() -> None:
    named = {name for definition in definitions().values() for name in definition.environments}
    assert named <= set(environment_specs())


def test_an_unknown_environment_names_the_nearest() -> None:
    with pytest.raises(UsageError) as error:
        environment_spec("pyhton")
    assert "did you mean 'python'" in str(error.value.hint)
