"""The figures of `make measure`."""

from __future__ import annotations

import fnmatch
from pathlib import Path

import house
import measure
import pytest

FILES = {
    "__init__.py": "",
    "top.py": "from made_up.room import middle\n",
    "room/__init__.py": "",
    "room/middle.py": "def later():\n    from .bottom import value\n    return value\n",
    "room/bottom.py": "TYPE_CHECKING = False\nif TYPE_CHECKING:\n    import made_up.top\nvalue = 1\n",
    "one.py": "import made_up.other\n",
    "other.py": "from made_up import one\n",
    "attacks/long.py": "pass\n" * 100,
}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / "made_up" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    layers = '[[tool.importlinter.contracts]]\ntype = "layers"\nlayers = ["made_up.top", "made_up.room"]\n'
    (tmp_path / "pyproject.toml").write_text(layers)
    return tmp_path / "made_up"


def test_imports_in_functions_count_and_those_for_type_checkers_do_not(package: Path) -> None:
    imports = house.read_imports(package)
    assert imports["made_up.top"] == {"made_up.room.middle"}
    assert imports["made_up.room.middle"] == {"made_up.room.bottom"}
    assert imports["made_up.room.bottom"] == set()


def test_the_longest_chain_counts_a_cycle_once(package: Path) -> None:
    shape = house.measure_shape(package, package.parent / "pyproject.toml")
    assert (shape.longest_chain, shape.modules_in_cycles, shape.floors) == (3, 2, 2)


def test_circles_and_detours_are_faults(package: Path) -> None:
    (package / "detour.py").write_text("from made_up.far import value\n")
    (package / "far.py").write_text("from made_up.room.bottom import value\n")
    assert house.list_faults(package) == [
        "made_up.one and made_up.other import each other",
        "made_up.detour imports value from made_up.far, which has it from made_up.room.bottom",
    ]


def test_attacks_count_apart(package: Path) -> None:
    size = house.measure_size(package)
    assert (size.files, size.lines, size.small_files) == (7, 10, 7)


def test_a_later_capability_counts_apart(package: Path) -> None:
    size = house.measure_size(package, only=("room/b*", "o*.py"))
    assert (size.files, size.lines) == (3, 6)


def test_each_later_capability_has_files_of_its_own() -> None:
    root = measure.ROOT / "harness"
    names = [str(path.relative_to(root)) for path in house.list_files(root)]
    patterns = [pattern for part in measure.CAPABILITIES.values() for pattern in part]
    files = {pattern: fnmatch.filter(names, pattern) for pattern in patterns}
    found = [name for each in files.values() for name in each]
    assert [pattern for pattern, each in files.items() if not each] == []
    assert len(found) == len({*found})
