"""The audit of the relay by its command. `HARNESS_TESTS=thorough` makes every attack."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from e2e.command_line import ForkServer, Harness
from effort import THOROUGH

from harness.audit.relay_attacks import list_relay_attacks

pytestmark = pytest.mark.timeout(1800)

NAMES = [attack.name for attack in list_relay_attacks()]
QUICK = ["requests-after-the-end", "state-at-the-provider", "tokens-of-others"]
MADE = NAMES if THOROUGH else QUICK


@pytest.fixture(scope="module")
def harness(
    tmp_path_factory: pytest.TempPathFactory, surroundings: dict[str, str], fork_server: ForkServer
) -> Harness:
    return Harness(tmp_path_factory.mktemp("relay"), surroundings, fork_server)


@pytest.fixture(scope="module")
def results(harness: Harness) -> Path:
    """Return the results of an audit, which has ended well."""
    file = harness.folder / "relay.json"
    names = [part for name in MADE for part in ("--attack", name)]
    ended = harness("audit", "relay", *names, "-o", file)
    assert ended.returncode == 0, ended.stdout
    assert f"{len(MADE)} attacks broke no rule; 0 containers left" in ended.stdout
    return file


def test_no_attack_on_the_relay_breaks_a_rule(results: Path) -> None:
    audit = json.loads(results.read_text())
    assert audit["sound"] is True
    assert [outcome["attack"] for outcome in audit["outcomes"]] == MADE
    assert [outcome for outcome in audit["outcomes"] if outcome["broken"]] == []


def test_the_attacks_were_really_made(results: Path) -> None:
    outcomes = {each["attack"]: each for each in json.loads(results.read_text())["outcomes"]}
    # Withheld parts do not cost a program its request.
    assert outcomes["state-at-the-provider"]["requests"] > 0
    assert outcomes["requests-after-the-end"]["requests"] == 1


def test_an_audit_of_the_relay_leaves_no_container(results: Path) -> None:
    assert json.loads(results.read_text())["containers_left"] == 0


def test_options_of_benchmarks_are_refused(harness: Harness) -> None:
    ended = harness("audit", "relay", "--data", "bundled")
    assert ended.returncode == 2
    assert "the audit of the relay attacks no benchmark" in ended.stderr
