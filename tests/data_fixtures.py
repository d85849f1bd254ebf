"""Fixtures for the data of benchmarks: no hub at all, or a mirror of published files on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from hub_server import HubServer

NOBODY = "http://127.0.0.1:1"
_UNSET = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_TOKEN")


@pytest.fixture
def no_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let no server answer, and keep downloads in a cache folder of the test."""
    for name in _UNSET:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_ENDPOINT", NOBODY)
    monkeypatch.setenv("HARNESS_MIRROR", NOBODY)
    monkeypatch.setenv("HARNESS_DATA", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "locks"))
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")


@pytest.fixture
def mirror(no_hub: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    """Yield a server that is the mirror of publishers, and has no dataset yet. The hub cannot be reached."""
    from hub_server import HubServer

    with HubServer({}) as server:
        monkeypatch.setenv("HARNESS_MIRROR", f"{server.url}/mirror")
        yield server
