"""The filter that keeps an agent from becoming one of PID 1's users, instruction by instruction."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from pathlib import Path

import pytest
from case_checks import each_case

from harness.environments.os.guest.procedures import refuse_imports
from harness.sandbox.guest.apart import CALLS, EFFECTIVE, REAL, RESERVED, SAVED, _instructions
from harness.sandbox.guest.confinement import ALLOW, AT_LEAST, EQUAL, INSTRUCTION, LOAD, REFUSE, RETURN

EINVAL = REFUSE | 22
OTHERS = (0, 1000, 65530, 65534, 0xFFFFFFFF)


def outcome(calls: tuple[tuple[int, ...], ...], number: int, *arguments: int) -> int:
    """Return the filter machine's result. The low 32 bits of the arguments are at 16, 24 and 32."""
    words = {0: number} | {16 + 8 * place: value & 0xFFFFFFFF for place, value in enumerate(arguments)}
    program = [INSTRUCTION.unpack(instruction) for instruction in _instructions(calls)]
    position, value = 0, 0
    while True:
        code, yes, no, operand = program[position]
        position += 1
        if code == LOAD:
            value = words.get(operand, RESERVED.start)
        elif code == RETURN:
            return int(operand)
        else:
            position += yes if {EQUAL: value == operand, AT_LEAST: value >= operand}[code] else no


@each_case("machine", CALLS)
def test_a_reserved_user_is_refused_as_every_argument_of_every_call(machine: str) -> None:
    calls = CALLS[machine]
    for count, numbers in enumerate(calls, start=1):
        for number, place, user, other in itertools.product(numbers, range(count), RESERVED, OTHERS):
            arguments = [other] * count
            arguments[place] = user
            assert outcome(calls, number, *arguments) == EINVAL
            arguments[place] |= 1 << 40
            assert outcome(calls, number, *arguments) == EINVAL


@each_case("machine", CALLS)
def test_every_other_user_is_allowed_for_any_arguments_that_a_call_ignores(machine: str) -> None:
    calls = CALLS[machine]
    for count, numbers in enumerate(calls, start=1):
        for number, user in itertools.product(numbers, OTHERS):
            # `outcome` reads the arguments after these as a reserved user.
            assert outcome(calls, number, *[user] * count) == ALLOW


def test_other_calls_are_allowed() -> None:
    for calls in CALLS.values():
        known = {number for group in calls for number in group}
        assert {outcome(calls, number) for number in range(500) if number not in known} == {ALLOW}


def test_no_process_can_be_all_users_of_the_guest_at_once() -> None:
    assert len({REAL, EFFECTIVE, SAVED}) == 3
    assert {REAL, EFFECTIVE, SAVED} == set(RESERVED)


@pytest.mark.filterwarnings("ignore:sys.meta_path is empty")
def test_no_module_that_an_agent_plants_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "planted.py").touch()
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert importlib.util.find_spec("planted") is not None
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    refuse_imports()
    with pytest.raises(ImportError):
        importlib.import_module("planted")
