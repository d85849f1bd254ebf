"""A setting that nothing reads is refused by the file and the line of its key."""

from __future__ import annotations

from pathlib import Path

import pytest
from case_checks import each_case

from harness.core.errors import UsageError
from harness.runs.config import load_config
from harness.runs.selection import select
from harness.runs.unread import locate_unread

CONFIG = "benchmark: mbpp\ndata: bundled\nagent: chat\nmodel: m\nbase_url: http://127.0.0.1:1/v1\n"
FORMS = {"file": CONFIG, "extended file": "extends: base.yaml\n"}


def refuse(path: Path, **overrides: str | None) -> UsageError:
    """Return the error for a config of the agent `oracle`, which reads no model."""
    values = {"agent": "oracle", **overrides}
    with pytest.raises(UsageError) as caught, locate_unread(path, values):
        select(load_config(path, values), notify=lambda _: None)
    return caught.value


@each_case("form", FORMS)
def test_an_unread_key_of_a_file_is_named_with_its_line(tmp_path: Path, form: str) -> None:
    (tmp_path / "base.yaml").write_text(CONFIG)
    path = tmp_path / "config.yaml"
    path.write_text(FORMS[form])
    error = refuse(path)
    place = tmp_path / ("config.yaml" if form == "file" else "base.yaml")
    assert error.message == f"{place}:5: agent 'oracle' does not read 'base_url'"
    assert error.hint is not None
    assert error.hint.startswith("remove the key from the file, set a model, such as model: NAME")


def test_an_unread_option_of_the_command_line_is_named_as_an_option(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("benchmark: mbpp\ndata: bundled\n")
    error = refuse(path, base_url="http://127.0.0.1:1/v1")
    assert error.message == "agent 'oracle' does not read --base-url"
    assert (error.hint or "").startswith("leave it out, set a model, such as")
