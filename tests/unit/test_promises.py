"""The promises of a container: nothing counts as enforced unless the kernel is found to hold it."""

from __future__ import annotations

import re
from pathlib import Path

from harness.sandbox.backends.base import SandboxSpec
from harness.sandbox.backends.oci.promises import OF_GUEST, WEAKER, find_broken, list_wanted
from harness.sandbox.limits import Limits

SPEC = SandboxSpec("python", Limits())
# Fields of `Limits` that bound nothing by themselves.
NO_BOUNDS = {"time_factor", "uncounted_sockets"}
DOCS = Path(__file__).parents[2] / "docs" / "machines.md"


def test_every_limit_is_a_promise() -> None:
    assert Limits.model_fields.keys() - NO_BOUNDS <= {*list_wanted(SPEC, is_rootless=True), *OF_GUEST}


def test_a_promise_is_broken_unless_the_kernel_is_found_to_hold_it() -> None:
    held = list_wanted(SPEC, is_rootless=True)
    assert find_broken(SPEC, held, is_rootless=True) == {}
    for name in held:
        without = {other: value for other, value in held.items() if other != name}
        for facts in (without, without | {name: None}, without | {name: ["another"]}):
            assert find_broken(SPEC, facts, is_rootless=True).keys() == {name}


def test_only_limits_may_be_weaker() -> None:
    assert set(WEAKER) - {"swap"} <= Limits.model_fields.keys()


def test_the_table_of_the_docs_has_every_promise_and_every_weaker_one() -> None:
    table = DOCS.read_text().partition("## Promises under each backend")[2].partition("## ")[0]
    rows = [
        [cell.strip().strip("`") for cell in line.strip("|").split("|")]
        for line in re.findall(r"^\|.*\|$", table, re.MULTILINE)
    ][2:]
    assert [row[0] for row in rows if len(row) != 5] == []
    assert {row[0] for row in rows} == {*list_wanted(SPEC, is_rootless=True), *OF_GUEST}
    assert {row[0] for row in rows if row[4] != row[3]} == set(WEAKER)
    assert {row[0] for row in rows if row[1:4] == ["guest"] * 3} == set(OF_GUEST)
