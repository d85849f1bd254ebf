"""A signature shows that this user started a run on this machine, and nobody else can make one."""

from __future__ import annotations

import json
import shlex
import stat
from pathlib import Path
from typing import Any

import pytest
from case_checks import each_case

from harness.runs import trust
from harness.runs.trust import (
    SIGNATURE,
    describe_resume,
    explain_unknown,
    find_secret_file,
    is_signature,
    is_signed,
    sign,
    sign_run,
)

MANIFEST = {
    "run_id": "0a",
    "source": "bundled",
    "config": {"benchmark": "mbpp", "options": {"level": (1, 2)}},
}


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "harness"


def test_a_signed_manifest_is_known_after_it_was_written_and_read() -> None:
    manifest = json.loads(json.dumps(sign_run(MANIFEST)))
    assert is_signed(manifest)
    assert is_signed({**manifest, "tool_mode": "text"}), "only the id, the source and the config count"


@each_case(
    "change", [{"run_id": "0b"}, {"source": "hub"}, {"config": {"benchmark": "own.py"}}, {SIGNATURE: None}]
)
def test_a_manifest_that_was_changed_or_never_signed_is_unknown(change: dict[str, Any]) -> None:
    assert not is_signed({**sign_run(MANIFEST), **change})


def test_a_signature_of_somebody_else_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = sign_run(MANIFEST)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    assert not is_signed(manifest)
    assert "does not exist" in explain_unknown()
    sign_run(MANIFEST)
    assert not is_signed(manifest)
    assert "nothing shows" in explain_unknown()


def test_a_signature_of_another_kind_is_not_that_of_a_run() -> None:
    signature = sign(["audit", MANIFEST])
    assert is_signature(signature, ["audit", MANIFEST])
    assert not is_signed({**MANIFEST, SIGNATURE: signature})


@each_case("signature", ["", "ü" * 64, "\ud800", 7, ["a"]])
def test_a_value_that_is_no_signature_is_refused(signature: Any) -> None:
    sign_run(MANIFEST)
    assert not is_signed({**MANIFEST, SIGNATURE: signature})


def test_the_secret_is_private_and_stays_the_same(state: Path) -> None:
    sign_run(MANIFEST)
    (secret,) = state.iterdir()
    before = secret.read_bytes()
    sign_run(MANIFEST)
    assert secret == find_secret_file()
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert secret.read_bytes() == before


def test_a_process_that_creates_the_secret_second_takes_that_of_the_first(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = sign_run(MANIFEST)
    created = trust._create_secret()
    assert created == (state / "signing-secret").read_bytes()
    assert sign_run(MANIFEST) == first


@each_case("mode", [0o640, 0o604, 0o620])
def test_a_secret_that_others_can_read_or_write_is_not_used(state: Path, mode: int) -> None:
    manifest = sign_run(MANIFEST)
    (state / "signing-secret").chmod(mode)
    assert not is_signed(manifest)
    assert SIGNATURE not in sign_run(MANIFEST)
    assert "cannot be used" in explain_unknown()


def test_a_secret_behind_a_link_is_not_used(state: Path, tmp_path: Path) -> None:
    manifest = sign_run(MANIFEST)
    secret = (state / "signing-secret").rename(tmp_path / "moved")
    (state / "signing-secret").symlink_to(secret)
    assert not is_signed(manifest)


def test_a_run_is_unsigned_where_nothing_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert sign_run({**MANIFEST, SIGNATURE: "old"}) == MANIFEST
    assert f"{tmp_path}/file/harness/signing-secret" in explain_unknown()


def test_the_hint_to_resume_a_run_of_somebody_else_names_trust() -> None:
    folder, manifest = Path("runs/r"), sign_run(MANIFEST)
    assert describe_resume(folder, manifest) == "harness run --resume runs/r"
    unknown = describe_resume(folder, {**manifest, "run_id": "0b"})
    assert unknown == "harness run --resume runs/r --trust, if you accept what its settings do"


def test_the_command_that_resumes_a_run_can_be_pasted(tmp_path: Path) -> None:
    folder = tmp_path / "it's mine" / "$(run)"
    words = shlex.split(describe_resume(folder, sign_run(MANIFEST)))
    assert words == ["harness", "run", "--resume", str(folder)]
