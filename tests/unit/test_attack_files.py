"""The files of the attacks: all can be read, none can run on the host, and an error in one is reported."""

from __future__ import annotations

import ast
import shutil
import subprocess
from pathlib import Path

import pytest
import sqlglot
from case_checks import each_case

from harness.audit.attack import (
    ATTACKS,
    PARTS,
    Kind,
    include_parts,
    list_parts,
    name_folder,
    read_attack_file,
)
from harness.audit.attack_kinds import (
    AnswerAttack,
    ForEach,
    Numbers,
    ProgramAttack,
    Repeat,
    ShellAttack,
    SqlAttack,
)
from harness.audit.relay_attacks import BEGINNING
from harness.audit.suite import ORDER, list_attacks, read_attacks, require_known_folders
from harness.benchmarks import definitions, load_benchmark
from harness.core.errors import DataError
from harness.core.types import Task
from harness.environments.db.environment import DatabaseSetup, make_table

FILES = [path for path in sorted(ATTACKS.glob("*/*.*")) if path.parent != PARTS]
PART_FILES = [path for path in sorted(PARTS.rglob("*.*")) if path.is_file()]
# Python and pytest import files of these names by themselves.
IMPORTED = ("conftest", "sitecustomize", "usercustomize", "__init__", "__main__")
# Suites of their own read these.
OF_OTHER_SUITES = (Kind.FORGING, Kind.RELAY)
TASK = Task("t/1", "b", "python", "How many?")
FISH = Task("t/2", "b", "db", "", setup=DatabaseSetup((make_table('a "b"', ["c"], [["1"], ["it's"]]),)))
HEADER = "# name: new\n# class: leaving early\n# targets: [ProgramTests]\n# description: Leaves.\n"


def write(folder: Path, text: str, suffix: str = ".py") -> Path:
    path = folder / name_folder(Kind.LEAVING) / f"new{suffix}"
    path.parent.mkdir()
    path.write_text(text)
    return path


def test_every_class_has_a_folder_and_every_folder_a_class() -> None:
    folders = {path.name for path in ATTACKS.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders == {PARTS.name, *map(name_folder, Kind)}


def test_attacks_follow_each_other_by_class_and_by_name() -> None:
    assert sorted([*ORDER, *OF_OTHER_SUITES]) == sorted(Kind)
    places = [(ORDER.index(attack.kind), attack.name) for attack in list_attacks()]
    assert places == sorted(places)


def test_every_file_is_an_attack_of_its_folder() -> None:
    others = [ATTACKS / name_folder(kind) for kind in OF_OTHER_SUITES]
    assert all(list(read_attacks(path)) for path in FILES if path.parent not in others)


def test_a_file_is_named_after_its_attack() -> None:
    names = {path: str(read_attack_file(path).header["name"]) for path in FILES}
    assert [
        path.name
        for path, name in names.items()
        if "<" not in name and name.replace(" ", "-") not in path.stem
    ] == []


def test_no_attack_can_be_imported_by_accident() -> None:
    every = [*FILES, *PART_FILES]
    assert [path for path in every if path.stem in IMPORTED or path.stem.startswith("test_")] == []
    assert not list(ATTACKS.rglob("__init__.py"))
    assert not any(name_folder(kind).isidentifier() for kind in Kind)


def test_every_target_is_of_a_benchmark() -> None:
    benchmarks = [load_benchmark(name, data="bundled") for name in definitions()]
    targets = {
        type(reference.target).__name__
        for benchmark in benchmarks
        for reference in benchmark.references.values()
    }
    assert {target for attack in list_attacks() for target in attack.targets} == targets


def test_every_program_is_python() -> None:
    for attack in list_attacks():
        if isinstance(attack, ProgramAttack):
            for template in set(attack.templates):
                ast.parse(template, attack.name)


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash to parse with")
def test_every_command_is_bash() -> None:
    commands = "".join(
        f"f() {{\n{command}\n}}\n"
        for attack in list_attacks()
        if isinstance(attack, ShellAttack)
        for command in attack.commands
    )
    # With -n, bash parses the file and runs nothing.
    ended = subprocess.run(["bash", "-n"], input=commands, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_every_statement_is_sql() -> None:
    for attack in list_attacks():
        if isinstance(attack, SqlAttack):
            for _, arguments in attack.list_calls(FISH):
                assert sqlglot.parse(arguments["sql"], dialect="sqlite")


def test_every_part_has_a_description_and_is_included() -> None:
    texts = "".join(path.read_text() for path in (*FILES, *PART_FILES))
    for path in PART_FILES:
        assert read_attack_file(path).header
        name = path.relative_to(PARTS).as_posix()
        precedes = name in ("prelude.py", "called.py", BEGINNING)
        assert precedes or f"# include: {name}\n" in texts or "/" in name


def test_a_part_is_included_as_far_indented_as_its_line() -> None:
    assert include_parts("if x:\n    # include: verdicts.py\n").startswith(
        "if x:\n    VERDICTS = (\n        b"
    )


def test_every_memory_is_an_attack() -> None:
    names = {attack.name for attack in list_attacks()}
    assert {f"remember-in-{part.path.stem}" for part in list_parts("memories")} <= names


def test_a_file_in_a_folder_is_an_attack(tmp_path: Path) -> None:
    (attack,) = read_attacks(write(tmp_path, f"{HEADER}\nsys.exit(0)\n\n# next sample\n\nos._exit(0)\n"))
    assert attack == ProgramAttack(
        "new", Kind.LEAVING, "Leaves.", ("sys.exit(0)", "os._exit(0)"), ("ProgramTests",)
    )


@each_case("name", ["leaving-erly", "an-attack.py"])
def test_a_folder_of_an_unknown_class_is_refused(tmp_path: Path, name: str) -> None:
    for known in ("leaving-early", "parts", "README.md", ".cache", name):
        (tmp_path / known).mkdir()
    with pytest.raises(DataError, match="is not a class of attacks") as caught:
        require_known_folders(tmp_path)
    assert caught.value.path == tmp_path / name
    assert "leaving-early" in str(caught.value.hint)


def test_an_attack_on_calls_and_on_runs_is_two(tmp_path: Path) -> None:
    header = HEADER.replace("[ProgramTests]", "[CallTests, StdinTests]")
    called, run = read_attacks(write(tmp_path, f"{header}\nserve(wrong)\n"))
    assert (called.targets, run.targets, run.name) == (("CallTests",), ("StdinTests",), "new-on-stdin")
    assert isinstance(run, ProgramAttack)
    assert "sys.stdin" in run.templates[0]


@each_case(
    ("text", "suffix", "reported"),
    [
        pytest.param("sys.exit(0)\n", ".py", ":1: a line of the header must begin", id="no header"),
        pytest.param(f"{HEADER}sys.exit(0)\n", ".py", ":5: a line of the header", id="no blank line"),
        pytest.param("# - a list\n\n1", ".py", "must contain keys", id="no keys"),
        pytest.param("# name: [\n\n1", ".py", "not YAML", id="not YAML"),
        pytest.param(f"{HEADER}# colour: red\n\n1", ".py", "colour", id="unknown key"),
        pytest.param("# class: leaving early\n\n1", ".py", "name", id="missing key"),
        pytest.param(HEADER.replace("early", "late") + "\n1", ".py", "kind", id="unknown class"),
        pytest.param(
            HEADER.replace("leaving early", "lying objects") + "\n1", ".py", "lying-objects", id="folder"
        ),
        pytest.param(f"{HEADER}# samples: many\n\n1", ".py", "is not valid", id="samples"),
        pytest.param(f"{HEADER}# for_each: none\n\n1", ".py", "parts/none", id="unknown folder"),
        pytest.param(f"{HEADER}\n# include: none.py\n", ".py", "parts/none.py", id="unknown part"),
        pytest.param(
            f"{HEADER}# for_each: relays\n# seconds: 3\n\n1", ".py", "seconds", id="not for programs"
        ),
        pytest.param(HEADER.replace("# ", "") + "answers: [5]\n", ".yaml", "answers", id="no text"),
        pytest.param(HEADER, ".txt", "'.txt'", id="unknown kind of file"),
    ],
)
def test_a_file_that_cannot_be_read_is_reported_by_name(
    tmp_path: Path, text: str, suffix: str, reported: str
) -> None:
    path = write(tmp_path, text, suffix)
    with pytest.raises(DataError) as refused:
        list(read_attacks(path))
    assert str(path) in refused.value.message
    assert reported in refused.value.message


@each_case(
    ("answers", "written"),
    [
        pytest.param(("one", ""), ["one", ""], id="texts"),
        pytest.param((Repeat("ab", 3),), ["ababab"], id="repeated"),
        pytest.param((Numbers((9, 11), "<n>;", " "),), ["9; 10; 11;"], id="numbers"),
        pytest.param((Numbers((1, -1), between=","),), ["1,0,-1"], id="counted down"),
        pytest.param((("[", Numbers((1, 2)), "]"),), ["[12]"], id="pieces"),
        pytest.param((ForEach((3, 9), ("x=<each>", "<each+2>")),), ["x=3", "5", "x=9", "11"], id="for each"),
        pytest.param(("<prompt> <think> <cells>",), ["How many? <think> <cells>"], id="words"),
    ],
)
def test_answers_are_expanded(answers: tuple[str, ...], written: list[str]) -> None:
    attack = AnswerAttack("new", Kind.TALKING, "", ("NumberAnswer",), answers)
    assert [attack.write_answer(TASK, sample) for sample in range(attack.samples)] == written


def test_a_statement_names_the_table_of_its_task() -> None:
    attack = SqlAttack("new", Kind.LYING, "", (), ("DROP TABLE <table>; <column> <name> <cells>",))
    assert attack.list_calls(FISH) == [
        ("sql", {"sql": """DROP TABLE "a ""b\"""; "c" 'a "b"' ["1", "it's"]"""})
    ]
