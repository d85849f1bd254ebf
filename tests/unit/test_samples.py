"""The bundled samples of AgentBench's worlds are those that their tool makes."""

from __future__ import annotations

from pathlib import Path

from samples import BUNDLED, write_samples


def list_files(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder by their paths in it."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_tool_makes_the_bundled_files_byte_by_byte(tmp_path: Path) -> None:
    write_samples(tmp_path)
    made = list_files(tmp_path)
    assert len(made) == 3 + 3 + 13
    bundled = {name: (BUNDLED / name).read_bytes() for name in made}
    assert [name for name in made if made[name] != bundled[name]] == []


def test_the_bundled_samples_are_small() -> None:
    assert sum(map(len, list_files(BUNDLED).values())) < 1.1e6
