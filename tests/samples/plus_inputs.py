"""Make further inputs for HumanEval's functions by mutations of the inputs in its tests.

`python -m samples.plus_inputs HumanEval.jsonl.gz FILE` in the folder `tests` writes the file that harness
ships for `humaneval-plus`. Only inputs that a task's text allows are kept: `CONTRACTS` tells which, the
published inputs bound types, signs and characters, and the reference has to return plain data for them.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import gzip
import hashlib
import json
import random
import re
import signal
import string
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from samples.plus_contracts import CONTRACTS

# The number of inputs that are kept of each task, and of valid ones that they are chosen among.
KEPT, TRIED = 60, 400
MOST_MUTATIONS = 30_000
MOST_CHARACTERS, MOST_RESULT_CHARACTERS = 300, 2000
# The processor time of the reference on one input. It is far more than any valid input needs, so that the
# same inputs are valid on every machine.
SECONDS = 2.0
# Base inputs that are longer cost time and are not mutated.
MOST_SEED_CHARACTERS = 2000

Arguments = list[Any]


@dataclass(frozen=True, slots=True)
class Known:
    """The bounds of an argument, as the inputs of the tests show them."""

    numbers: tuple[float, float]
    shortest: int
    characters: str
    # All values of the argument at any depth, by type.
    values: Mapping[type, list[Any]]


def make_inputs(row: Mapping[str, Any], contract: str = "True") -> list[Arguments]:
    """Return further inputs for a row of HumanEval. The same row always gives the same inputs."""
    reference = load_function(row["prompt"] + row["canonical_solution"], row["entry_point"])
    seeds = [given for given in record_inputs(row) if len(repr(given)) <= MOST_SEED_CHARACTERS]
    known = [
        _learn([given[place] for given in seeds if place < len(given)]) for place in range(len(seeds[0]))
    ]
    names = reference.__code__.co_varnames[: reference.__code__.co_argcount]
    tools = {"re": re, "is_prime": _is_prime, "is_balanced": _is_balanced, "reference": reference}
    allows = eval(f"lambda {', '.join(names)}: {contract}", tools)
    draw = random.Random(row["task_id"])
    seen, pool = {repr(given) for given in seeds}, [*seeds]
    results: dict[str, str] = {}
    for _ in range(MOST_MUTATIONS):
        if len(results) >= TRIED:
            break
        given = copy.deepcopy(draw.choice(pool))
        for _ in range(draw.choice((1, 1, 2, 3))):
            place = draw.randrange(len(given))
            given[place] = _mutate(given[place], known[place], draw)
        text = repr(given)
        if text in seen or len(text) > MOST_CHARACTERS:
            continue
        seen.add(text)
        result = _try(reference, allows, given, known)
        if result is not None:
            results[text] = result
            pool.append(given)
    return [ast.literal_eval(text) for text in _choose(results, draw)]


def load_function(source: str, name: str) -> Any:
    """Return a function of a program."""
    names: dict[str, Any] = {"__name__": "reference"}
    exec(source, names)
    return names[name]


def record_inputs(row: Mapping[str, Any]) -> list[Arguments]:
    """Return the inputs that the tests of a row call its reference with, without repetitions."""
    program = row["prompt"] + row["canonical_solution"]
    reference = load_function(program, row["entry_point"])
    found: dict[str, Arguments] = {}

    def candidate(*given: Any) -> Any:
        # Some tests draw their inputs, and call the function hundreds of times.
        if len(found) < TRIED:
            found.setdefault(repr(given), list(copy.deepcopy(given)))
        return reference(*given)

    random.seed(0)
    load_function(program + "\n" + row["test"], "check")(candidate)
    return list(found.values())


@contextlib.contextmanager
def limit_seconds(seconds: float = SECONDS) -> Iterator[None]:
    """Raise TimeoutError in the block after this much processor time. It must run in the main thread."""

    def end(_number: int, _frame: Any) -> None:
        raise TimeoutError

    previous = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, previous)


def digest(row: Mapping[str, Any]) -> str:
    """Return the hash by which harness knows the row that inputs belong to."""
    text = "\0".join(row[field] for field in ("prompt", "canonical_solution", "test"))
    return hashlib.sha256(text.encode()).hexdigest()


def _try(
    reference: Callable[..., Any], allows: Callable[..., bool], given: Arguments, known: list[Known]
) -> str | None:
    """Return the result of the reference as text, None if the input is not valid."""
    if not all(_is_within(value, bounds) for value, bounds in zip(given, known, strict=True)):
        return None
    try:
        with limit_seconds():
            if not allows(*copy.deepcopy(given)):
                return None
            text, again = (repr(reference(*copy.deepcopy(given))) for _ in range(2))
            ast.literal_eval(text)
    except Exception:
        return None
    is_odd = text != again or len(text) > MOST_RESULT_CHARACTERS or re.search(r"\b(inf|nan)\b|j\b", text)
    return None if is_odd else text


def _choose(results: Mapping[str, str], draw: random.Random) -> list[str]:
    """Return the inputs to keep: of each result in turn, and of each the ones with the fewest characters."""
    groups: dict[str, list[str]] = {}
    for given, result in results.items():
        groups.setdefault(result, []).append(given)
    for group in groups.values():
        draw.shuffle(group)
    kept: list[str] = []
    waiting = [*groups.values()]
    draw.shuffle(waiting)
    while waiting and len(kept) < KEPT:
        kept += [group.pop() for group in waiting]
        waiting = [group for group in waiting if group]
    return kept[:KEPT]


def _walk(value: Any) -> Iterator[Any]:
    yield value
    if isinstance(value, dict):
        value = [*value.keys(), *value.values()]
    if isinstance(value, (list, tuple)):
        for each in value:
            yield from _walk(each)


def _learn(given: list[Any]) -> Known:
    values: dict[type, list[Any]] = {}
    for value in (each for whole in given for each in _walk(whole)):
        values.setdefault(type(value), []).append(value)
    numbers = [each for kind in (int, float) for each in values.get(kind, [])] or [0]
    low, high = min(numbers), max(numbers)
    sizes = [len(each) for each in given if isinstance(each, (str, list, tuple, dict))]
    characters = {one for text in values.get(str, []) for one in text}
    for group in (string.ascii_lowercase, string.ascii_uppercase, string.digits):
        if len(characters & set(group)) >= 3:
            characters |= set(group)
    return Known(
        (-max(100, 2 * high, -2 * low) if low < 0 else min(low, 1), max(100, 2 * high)),
        min(1, min(sizes, default=0)),
        "".join(sorted(characters)),
        values,
    )


def _is_within(value: Any, known: Known) -> bool:
    if isinstance(value, (str, list, tuple, dict)) and len(value) < known.shortest:
        return False
    low, high = known.numbers
    return all(low <= each <= high for each in _walk(value) if type(each) in (int, float))


def _mutate(value: Any, known: Known, draw: random.Random) -> Any:
    """Return a value of the same type that differs a little."""
    if type(value) in known.values and draw.random() < 0.1:
        return copy.deepcopy(draw.choice(known.values[type(value)]))
    if isinstance(value, bool):
        return not value
    low, high = known.numbers
    if isinstance(value, int):
        few = (draw.randint(int(low), int(high)), draw.randint(int(max(low, -9)), int(min(high, 20))))
        step = draw.randint(-9, 9)
        return draw.choice((value - 1, value + 1, value + step, value * 2, value // 2, -value, 0, 1, *few))
    if isinstance(value, float):
        change = draw.choice((-1, 1, 0.1, -0.1, 0.5))
        drawn = (draw.uniform(low, high), draw.uniform(max(low, -9), 9))
        near = (value + change, -value, value * 2, value / 2, float(int(value)))
        return round(draw.choice((*near, *drawn)), 3)
    if isinstance(value, str):
        return _mutate_text(value, known, draw)
    if isinstance(value, tuple):
        return tuple(_mutate_list([*value], known, draw, keeps_size=True))
    if isinstance(value, list):
        return _mutate_list(value, known, draw)
    if isinstance(value, dict):
        pairs = _mutate_list([[key, each] for key, each in value.items()], known, draw)
        pairs = [pair for pair in pairs if isinstance(pair, list) and len(pair) == 2]
        return {key: each for key, each in pairs if isinstance(key, str | int)}
    return value


def _mutate_list(
    value: list[Any], known: Known, draw: random.Random, *, keeps_size: bool = False
) -> list[Any]:
    place = draw.randrange(len(value)) if value else 0
    other = draw.randrange(len(value)) if value else 0
    kinds = [kind for kind in known.values if kind not in (list, tuple, dict)]
    match draw.choice(("item", "item", "swap") if keeps_size else _LIST_MUTATIONS):
        case "item" if value:
            value[place] = _mutate(value[place], known, draw)
        case "swap" if value:
            mine, others = value[place], value[other]
            if mine and others and isinstance(mine, list) and isinstance(others, list):
                at, to = draw.randrange(len(mine)), draw.randrange(len(others))
                mine[at], others[to] = others[to], mine[at]
            else:
                value[place], value[other] = others, mine
        case "remove" if value:
            del value[place]
        case "repeat" if value:
            value.insert(other, copy.deepcopy(value[place]))
        case "sort":
            with contextlib.suppress(TypeError):
                value.sort(reverse=draw.random() < 0.5)
        case "mirror":
            value = value + value[::-1][draw.randrange(2) :]
        case "double":
            value = value + copy.deepcopy(value)
        case "cut":
            value = value[:place] if draw.random() < 0.5 else value[place:]
        case _ if value:
            value.insert(place, _mutate(copy.deepcopy(draw.choice(value)), known, draw))
        case _ if kinds:
            value.append(copy.deepcopy(draw.choice(known.values[draw.choice(kinds)])))
    return value


_LIST_MUTATIONS = (
    "item",
    "item",
    "item",
    "swap",
    "remove",
    "repeat",
    "sort",
    "mirror",
    "double",
    "cut",
    "add",
)


def _mutate_text(value: str, known: Known, draw: random.Random) -> str:
    numbers = list(re.finditer(r"\d+", value))
    if numbers and draw.random() < 0.3:
        found = draw.choice(numbers)
        number = str(draw.choice((0, 1, 2, 5, 9, draw.randint(0, 12), draw.randint(0, 200))))
        return value[: found.start()] + number.zfill(len(found[0])) + value[found.end() :]
    separator = next(
        (each for each in (" ", ",", "-", "/", ".") if each in value and draw.random() < 0.5), None
    )
    if separator is not None:
        words = value.split(separator)
        others = [word for text in known.values[str] for word in text.split(separator)]
        match draw.randrange(4):
            case 0:
                words[draw.randrange(len(words))] = draw.choice(others)
            case 1:
                words.insert(draw.randrange(len(words) + 1), draw.choice(others))
            case 2:
                del words[draw.randrange(len(words))]
            case _:
                draw.shuffle(words)
        return separator.join(words)
    place, end = sorted((draw.randrange(len(value) + 1), draw.randrange(len(value) + 1)))
    character = draw.choice(known.characters or "a")
    return draw.choice(
        (
            value[:place] + character + value[place:],
            value[:place] + character + value[place + 1 :],
            value[:place] + value[place + 1 :],
            value[:place] + value[end:],
            value[place:end],
            value[:end] + value[place:],
            value + value[::-1],
            value[:place] + value[place:end][::-1] + value[end:],
            value[:place] + value[place:end].swapcase() + value[end:],
            value[:place] + draw.choice(known.values[str]) + value[place:],
            value[:place] + value[:1] + value[place:end] + value[-1:] + value[end:],
        )
    )


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, int(number**0.5) + 1))


def _is_balanced(text: str) -> bool:
    depths = [text[:end].count("(") - text[:end].count(")") for end in range(len(text) + 1)]
    return min(depths) >= 0 and depths[-1] == 0


def write_inputs(rows: Path, target: Path) -> None:
    """Write the inputs of all rows of a published file."""
    lines = []
    for line in gzip.decompress(rows.read_bytes()).decode().splitlines():
        row = json.loads(line)
        made = make_inputs(row, CONTRACTS.get(int(row["task_id"].partition("/")[2]), "True"))
        print(row["task_id"], len(made), file=sys.stderr)
        entry = {"task_id": row["task_id"], "sha256": digest(row), "plus_input": repr(made)}
        lines.append(json.dumps(entry) + "\n")
    target.write_bytes(gzip.compress("".join(lines).encode(), 9, mtime=0))


if __name__ == "__main__":
    write_inputs(Path(sys.argv[1]), Path(sys.argv[2]))
