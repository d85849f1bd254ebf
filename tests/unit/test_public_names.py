"""The names that `harness` offers."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import harness
from harness import errors


def test_every_public_name_can_be_imported() -> None:
    assert [name for name in harness.__all__ if getattr(harness, name, None) is None] == []


def test_modules_can_be_used_after_an_import_of_the_package() -> None:
    program = (
        "import harness; harness.client.connect, harness.errors.DataError; print(hasattr(harness, 'nothing'))"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout == "False\n"


def test_an_import_of_the_package_imports_nothing_heavy() -> None:
    program = "import sys, harness; print([n for n in ('docker', 'pydantic', 'typing') if n in sys.modules])"
    # The .pth file of the editable install imports some of them.
    result = subprocess.run(
        [
            sys.executable,
            "-S",
            "-c",
            f"sys_path = {sys.path!r}\nimport sys; sys.path[:] = sys_path\n{program}",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout == "[]\n"


def test_the_tree_of_errors_names_every_public_error() -> None:
    public = [
        name
        for name in harness.__all__
        if inspect.isclass(value := getattr(harness, name)) and issubclass(value, Exception)
    ]
    assert [name for name in public if name not in (errors.__doc__ or "")] == []


def test_every_name_of_the_last_release_is_there_with_a_warning() -> None:
    for old, new in harness._RENAMED.items():
        with pytest.warns(FutureWarning, match=rf"harness\.{old} is now harness\.{new}"):
            assert getattr(harness, old) is getattr(harness, new)
    assert {"Grader", "SyncGrader", "SyncSandbox", "SyncOutputStream", "open_grader"} <= {*harness._RENAMED}
