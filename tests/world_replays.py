"""Replay recorded results of upstream's worlds on the host: all records of the files that are given.

    python tests/world_replays.py card games.jsonl
    python tests/world_replays.py kg dev_graphs.jsonl dev_sequences.jsonl
    python tests/world_replays.py house walks.json expert_games.json
    python tests/world_replays.py web FOLDER

A difference is a line of the output, and the status is 1 if there is any. The records of the questions and
the ontology are found in the folder that HARNESS_SHARED_DATA names, unless options name others.

A game has `teams` (the numbers of the kinds, by position), `steps` and `winner`. A step is a guess,
`{"guess": [position, number] or null, "right": true, "after": state}`, or an action,
`{"act": {"pos", "skill", "theirs" or "mine"}, "events": [...], "after": state}`. A state has health, attack,
and the flags dead, exposed and shielded. If the last step breaks the rules, the other side is the winner.

A graph has `task_id` and `triples`. A sequence has `task_id`, `actions`, `observations`,
`answer_of_last_variable`, `f1` and `em`. The forms of `house` and `web` are in `text_world_replays`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from text_world_replays import replay_shop, replay_walks

from harness.benchmarks import Benchmark, load_benchmark
from harness.environments.card.engine import (
    KINDS,
    TEAM,
    Active,
    Event,
    Game,
    IllegalMove,
    Kind,
    Move,
    Passive,
)
from harness.environments.kg.environment import KnowledgeAnswer, open_session
from harness.environments.kg.grader import f1_score
from harness.environments.kg.graph import parse_action
from harness.environments.kg.session import ActionError, NoVariableError, Session, UnknownVariableError

BY_NUMBER = {kind.number: kind for kind in KINDS.values()}
# Upstream's engine has more kinds, which a guess may name. Such a guess is wrong.
STRANGER = Kind(0, "stranger", 0, Active.STRIKE, Passive.HEAL)


class GameReplay:
    """A recorded game that is played again. Dodges are the only chance in it, and the record has them."""

    def __init__(self, record: Mapping[str, Any]) -> None:
        self.record = record
        self.dodges: list[bool] = []
        first, second = ([BY_NUMBER[number] for number in team] for team in record["teams"])
        self.game = Game(first, second, dodge=lambda: self.dodges.pop(0))

    def differences(self) -> Iterator[str]:
        """Yield the first step that differs from the record, and then a winner that differs."""
        winner: int | None = None
        steps = self.record["steps"]
        for number, step in enumerate(steps):
            try:
                pairs = list(self.play(step))
            except IllegalMove as error:
                if number + 1 < len(steps):
                    yield f"step {number}: is refused: {error}"
                    return
                winner = 1 - self.game.mover
                break
            wrong = [f"step {number}: {ours} instead of {theirs}" for ours, theirs in pairs if ours != theirs]
            if wrong:
                yield from wrong
                return
        winner = self.game.winner if winner is None else winner
        if winner != self.record["winner"]:
            yield f"winner {winner} instead of {self.record['winner']}"

    def play(self, step: Mapping[str, Any]) -> Iterator[tuple[Any, Any]]:
        """Play a step, and yield its results with the recorded ones. Raises IllegalMove."""
        if "act" in step:
            yield self.act(step["act"], step.get("events", ())), step.get("events", [])
            yield self.dodges, []
        else:
            yield self.guess(step["guess"]), step.get("right")
        if "after" in step:
            yield self.state(), step["after"]

    def guess(self, guessed: Sequence[int] | None) -> bool | None:
        """Make a recorded guess and return whether it is right, None without a guess."""
        if guessed is None:
            self.game.skip_guess()
            return None
        position, number = guessed
        return self.game.guess(position, BY_NUMBER.get(number, STRANGER))

    def act(self, action: Mapping[str, Any], events: Sequence[Sequence[Any]]) -> list[list[Any]]:
        """Make a recorded action and return its events as records have them."""
        game = self.game
        position, is_active = action["pos"], bool(action["skill"])
        if not 0 <= position < TEAM:
            raise IllegalMove(f"no fish is at position {position}")
        kind = game.teams[game.mover][position].kind
        targets = [*(action.get("theirs") or ()), *(action.get("mine") or ())]
        if is_active and not kind.needs_target:
            if sorted(targets) != [fish.position for fish in game.living(1 - game.mover)]:
                raise IllegalMove("the targets are not all living enemies")
        elif len(targets) != 1 or bool(action.get("mine")) != (is_active and kind.targets_team):
            raise IllegalMove("the action needs one target on the side that its skill is for")
        self.dodges = [event[3] == 0 for event in events if event[0] == "hit" and self._may_dodge(event)]
        return [_plain(event) for event in game.act(Move(position, is_active, targets[0]))]

    def _may_dodge(self, event: Sequence[Any]) -> bool:
        return self.game.teams[event[1]][event[2]].kind.passive is Passive.DODGE

    def state(self) -> list[list[list[int]]]:
        """Return health, attack, and the flags dead, exposed and shielded of each fish."""
        return [
            [
                [fish.health, fish.shown_attack, *map(int, (fish.is_dead, fish.is_exposed, fish.is_shielded))]
                for fish in team
            ]
            for team in self.game.teams
        ]


def _plain(event: Event) -> list[Any]:
    return [value for value in event if value is not None]


def replay_games(path: Path) -> dict[str, list[str]]:
    """Return the differences of each recorded game of a file, by its line and seed."""
    return {
        f"{path.name}:{number}, seed {record.get('seed')}": list(GameReplay(record).differences())
        for number, record in _read_lines(path)
    }


def replay_sequences(graphs: Path, sequences: Path, records: Path, ontology: Path) -> dict[str, list[str]]:
    """Return the differences of each recorded sequence of a file, by its line and task.

    Args:
        graphs: the file of the tasks' graphs.
        sequences: the file of the recorded actions and results.
        records: the questions, such as upstream's folder `data/knowledgegraph`.
        ontology: the folder of `fb_roles` and `vocab.json`.
    """
    options = {"ontology": str(ontology), "graph": str(graphs), "strict": True}
    benchmark = load_benchmark("agentbench", data=str(records), kg=options)
    return {
        f"{sequences.name}:{number}, {sequence['task_id']} {sequence.get('kind', '')}": _replay_sequence(
            benchmark, sequence
        )
        for number, sequence in _read_lines(sequences)
    }


def _replay_sequence(benchmark: Benchmark, sequence: Mapping[str, Any]) -> list[str]:
    target = benchmark.references[sequence["task_id"]].target
    if not isinstance(target, KnowledgeAnswer):
        return ["the task is not one of kg"]
    session = open_session(target)
    found = [observe(session, action) for action in sequence["actions"]]
    answers = session.knowledge.answers(session.variables[-1].program) if session.variables else None
    score = f1_score(answers or frozenset(), frozenset(target.answers))
    pairs = [
        *zip(found, sequence["observations"], strict=True),
        (None if answers is None else sorted(answers), sequence["answer_of_last_variable"]),
        (round(score, 6), sequence["f1"]),
        (int(answers == frozenset(target.answers)), sequence["em"]),
    ]
    return [f"{ours} instead of {theirs}" for ours, theirs in pairs if ours != theirs]


def observe(session: Session, action: str) -> list[Any]:
    """Return an observation in the form of the recorded ones. Errors have the names of upstream's."""
    try:
        text = session.run(parse_action(action))
    except UnknownVariableError:
        return ["error", "IndexError"]
    except NoVariableError:
        return ["error", "AttributeError"]
    except ActionError:
        return ["error", "ValueError"]
    if text.startswith("["):
        return ["list", [name for name in text.strip("[]").split(", ") if name]]
    return ["text", f"Observation: {text}"]


def _read_lines(path: Path) -> list[tuple[int, Any]]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [(number, json.loads(line)) for number, line in enumerate(lines, start=1) if line.strip()]


def main(arguments: Sequence[str]) -> int:
    """Replay the files that the arguments name, and return the status."""
    shared = Path(os.environ.get("HARNESS_SHARED_DATA") or "../shared/data") / "agentbench"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    worlds = parser.add_subparsers(dest="world", required=True)
    card = worlds.add_parser("card", help="replay games")
    card.add_argument("games", type=Path, nargs="+")
    kg = worlds.add_parser("kg", help="replay sequences of actions")
    kg.add_argument("graphs", type=Path)
    kg.add_argument("sequences", type=Path)
    kg.add_argument("--records", type=Path, default=shared / "knowledgegraph")
    kg.add_argument("--ontology", type=Path, default=shared / "worlds" / "kg" / "ontology")
    house = worlds.add_parser("house", help="replay walks through games")
    house.add_argument("walks", type=Path, nargs="+")
    web = worlds.add_parser("web", help="replay goals, purchases, sessions and searches")
    web.add_argument("folder", type=Path)
    given = parser.parse_args(arguments)
    results: dict[str, list[str]] = {}
    if given.world == "card":
        for path in given.games:
            results |= replay_games(path)
    elif given.world == "house":
        for path in given.walks:
            results |= replay_walks(path)
    elif given.world == "web":
        with tempfile.TemporaryDirectory() as index:
            results = replay_shop(given.folder, Path(index))
    else:
        results = replay_sequences(given.graphs, given.sequences, given.records, given.ontology)
    wrong = {place: found for place, found in results.items() if found}
    for place, found in wrong.items():
        print(*(f"{place}: {difference}" for difference in found), sep="\n")
    print(f"{len(results) - len(wrong)} of {len(results)} records are reproduced")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
