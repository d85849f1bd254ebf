"""The rules of household games: the commands that are possible, their replies, and the end of a game."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from harness.core.errors import DataError
from harness.core.inputs.files import read_input
from harness.environments.house.game import FLUENTS, Game, GameError, read_game
from harness.environments.house.goal import Fact, GoalError

NOTHING_HAPPENS = "Nothing happens."
HEADER = "-= Welcome to TextWorld, ALFRED! =-"
"""The first paragraph of TextWorld's introduction, which an agent does not need."""

_NOTHING = "nothing"
Reply = tuple[Callable[..., str], Fact]
"""The method of `Play` that carries out a command and returns its reply, and its arguments."""

# The words for an object by the facts that must hold, the first that fits.
_STATES = (
    (("isclean", "ishot", "issliced"), "a hot and clean sliced"),
    (("isclean", "iscool", "issliced"), "a cool and clean sliced"),
    (("isclean", "issliced"), "a clean sliced"),
    (("ishot", "issliced"), "a hot sliced"),
    (("iscool", "issliced"), "a cool sliced"),
    (("isclean", "ishot"), "a hot and clean"),
    (("isclean", "iscool"), "a cool and clean"),
    (("ishot",), "a hot"),
    (("isclean",), "a clean"),
    (("iscool",), "a cold"),
)

# Published games have 60 KB.
MAX_GAME_BYTES = 4 * 1024 * 1024


class Play:
    """A game that is being played.

    `take` carries out one command, and `commands` are those that are possible now.
    """

    def __init__(self, game: Game) -> None:
        self.game = game
        self._facts: dict[str, set[Fact]] = {
            predicate: set(game.facts.get(predicate, ())) for predicate in FLUENTS
        }
        self._all = {**game.facts, **self._facts}
        # TextWorld knows that an object is not in a receptacle only once it was taken from there.
        self._taken_out: set[Fact] = set()
        self._agent, self._location = next(iter(game.facts["atlocation"]))
        self.won = game.goal.is_reached(self._all)
        self._replies = self._find_replies()

    @property
    def commands(self) -> list[str]:
        """The commands that are possible now, in alphabetical order."""
        return sorted(self._replies)

    @property
    def introduction(self) -> str:
        """The view at the start and the task: the introduction without its header, in two paragraphs."""
        here = self._receptacles_here()
        around = self._list(receptacle for receptacle, _ in self.game.places)
        view = self._look() if here else _in_the_middle(around)
        return f"{view}\n\n{self.game.task}"

    def take(self, command: str) -> str:
        """Carry out one command and return its reply. Blanks around the command do not count.

        A command that is not possible now changes nothing.
        """
        reply = self._replies.get(command.strip())
        if reply is None:
            return NOTHING_HAPPENS
        method, arguments = reply
        text = method(self, *arguments)
        self.won = self.game.goal.is_reached(self._all)
        self._replies = self._find_replies()
        return text

    def _find_replies(self) -> dict[str, Reply]:
        """Return how to carry out each command that is possible now."""
        names = self.game.names
        found: dict[str, Reply] = {"look": (Play._look, ()), "inventory": (Play._inventory, ())}
        if self.game.words.help is not None:
            found["help"] = (Play._help, ())
        for receptacle, location in self.game.places:
            if location != self._location:
                found[f"go to {names[receptacle]}"] = (Play._go, (receptacle, location))
        held = self._held()
        here = self._receptacles_here()
        for receptacle in here:
            found |= self._find_replies_at(receptacle, held)
        for each in held:
            found[f"examine {names[each]}"] = (Play._examine_object, (each,))
        knives = [
            each for each in held if self.game.types.get(each, frozenset()) & {"knifetype", "butterknifetype"}
        ]
        if knives:
            for each, at in self._facts["objectatlocation"]:
                if at == self._location and self.game.has("sliceable", each):
                    for knife in knives:
                        command = f"slice {names[each]} with {names[knife]}"
                        found[command] = (Play._slice, (each, knife))
        return found

    def _find_replies_at(self, receptacle: str, held: list[str]) -> dict[str, Reply]:
        """Return how to carry out each command that uses a receptacle where the agent is."""
        game, name = self.game, self.game.names[receptacle]
        found: dict[str, Reply] = {f"examine {name}": (Play._examine_receptacle, (receptacle,))}
        if game.has("openable", receptacle):
            if self._is("opened", receptacle):
                found[f"close {name}"] = (Play._close, (receptacle,))
            else:
                found[f"open {name}"] = (Play._open, (receptacle,))
        is_accessible = not game.has("openable", receptacle) or self._is("opened", receptacle)
        for each in self._contents(receptacle):
            if game.has("toggleable", each):
                found[f"use {game.names[each]}"] = (Play._use, (each,))
            if is_accessible and not self._facts["holdsany"] and game.has("pickupable", each):
                found[f"take {game.names[each]} from {name}"] = (Play._pick_up, (each, receptacle))
        kinds = game.types.get(receptacle, frozenset())
        for each in held:
            own = game.names[each]
            if is_accessible and game.fits(each, receptacle):
                put = f"{game.words.put} {own} {game.words.into} {name}"
                found[put] = (Play._put, (each, receptacle))
            if "sinkbasintype" in kinds and game.has("cleanable", each):
                found[f"clean {own} with {name}"] = (Play._clean, (each, receptacle))
            if "microwavetype" in kinds and game.has("heatable", each):
                found[f"heat {own} with {name}"] = (Play._heat, (each, receptacle))
            if "fridgetype" in kinds and game.has("coolable", each):
                found[f"cool {own} with {name}"] = (Play._cool, (each, receptacle))
        return found

    def _go(self, receptacle: str, location: str) -> str:
        self._facts["atlocation"] = self._all["atlocation"] = {(self._agent, location)}
        self._location = location
        place = location if self.game.words.names_location else receptacle
        return f"You arrive at {self.game.names[place]}. {self._examine_receptacle(receptacle)}"

    def _open(self, receptacle: str) -> str:
        self._facts["opened"].add((receptacle,))
        return f"You open the {self.game.names[receptacle]}. {self._examine_receptacle(receptacle)}"

    def _close(self, receptacle: str) -> str:
        self._facts["opened"].discard((receptacle,))
        return f"You close the {self.game.names[receptacle]}."

    def _pick_up(self, object_: str, receptacle: str) -> str:
        self._facts["inreceptacle"].discard((object_, receptacle))
        self._taken_out.add((object_, receptacle))
        self._facts["objectatlocation"].discard((object_, self._location))
        self._facts["holds"].add((self._agent, object_))
        self._facts["holdsany"].add((self._agent,))
        return f"You pick up the {self.game.names[object_]} from the {self.game.names[receptacle]}."

    def _put(self, object_: str, receptacle: str) -> str:
        self._facts["inreceptacle"].add((object_, receptacle))
        self._taken_out.discard((object_, receptacle))
        self._facts["objectatlocation"].add((object_, self._location))
        self._facts["holds"].discard((self._agent, object_))
        self._facts["holdsany"].discard((self._agent,))
        words, names = self.game.words, self.game.names
        return f"You {words.put} the {names[object_]} {words.into} the {names[receptacle]}."

    def _clean(self, object_: str, receptacle: str) -> str:
        self._facts["isclean"].add((object_,))
        return self._using("clean", object_, receptacle)

    def _heat(self, object_: str, receptacle: str) -> str:
        self._facts["ishot"].add((object_,))
        self._facts["iscool"].discard((object_,))
        return self._using("heat", object_, receptacle)

    def _cool(self, object_: str, receptacle: str) -> str:
        self._facts["iscool"].add((object_,))
        self._facts["ishot"].discard((object_,))
        return self._using("cool", object_, receptacle)

    def _using(self, verb: str, object_: str, receptacle: str) -> str:
        return f"You {verb} the {self.game.names[object_]} using the {self.game.names[receptacle]}."

    def _use(self, object_: str) -> str:
        self._facts["ison"] ^= {(object_,)}
        self._facts["istoggled"].add((object_,))
        # The grammar asks whether the object was ever toggled, so it never turns off.
        return f"You turn on the {self.game.names[object_]}."

    def _slice(self, object_: str, knife: str) -> str:
        self._facts["issliced"].add((object_,))
        return f"You sliced the {self.game.names[object_]} with the {self.game.names[knife]}."

    def _look(self) -> str:
        here = self._receptacles_here()
        if not here:
            return _in_the_middle(_NOTHING)
        around = sorted(
            each
            for each, at in self._facts["objectatlocation"]
            if at == self._location
            for receptacle in here
            if (each, receptacle) in self._taken_out
        )
        facing = _join([self.game.names[each] for each in here])
        return f"You are facing the {facing}. Next to it, you see {self._list(around)}."

    def _help(self) -> str:
        return self.game.words.help or ""

    def _inventory(self) -> str:
        if not self._facts["holdsany"]:
            return "You are not carrying anything."
        return f"You are carrying: {self._list(self._held())}."

    def _examine_receptacle(self, receptacle: str) -> str:
        name = self.game.names[receptacle]
        contents = self._list(self._contents(receptacle))
        if not self.game.has("openable", receptacle):
            return f"On the {name}, you see {contents}."
        if not self._is("opened", receptacle):
            return f"The {name} is closed."
        return f"The {name} is open. In it, you see {contents}."

    def _examine_object(self, object_: str) -> str:
        name = self.game.names[object_]
        if self.game.has("isreceptacleobject", object_):
            inside = sorted(each for each, outer in self._facts["inreceptacleobject"] if outer == object_)
            return f"This is a normal {name}. In it, you see {self._list(inside)}."
        for needed, words in _STATES:
            if all(self._is(predicate, object_) for predicate in needed):
                return f"This is {words} {name}."
        # TextWorld knows that a fact does not hold only once a command has made it false. No command makes
        # this one false, so that nothing is ever off.
        if self.game.has("toggleable", object_) and self._is("istoggled", object_):
            return f"This {name} is on."
        if self.game.has("sliceable", object_) and self._is("issliced", object_):
            return f"This is a sliced {name}."
        return f"There's nothing special about {name}."

    def _is(self, predicate: str, *arguments: str) -> bool:
        return arguments in self._facts[predicate]

    def _held(self) -> list[str]:
        return sorted(object_ for _, object_ in self._facts["holds"])

    def _receptacles_here(self) -> list[str]:
        return [receptacle for receptacle, at in self.game.places if at == self._location]

    def _contents(self, receptacle: str) -> list[str]:
        return sorted(object_ for object_, place in self._facts["inreceptacle"] if place == receptacle)

    def _list(self, ids: Iterable[str]) -> str:
        return _join([f"a {self.game.names[each]}" for each in ids])


def _in_the_middle(around: str) -> str:
    return f"You are in the middle of a room. Looking quickly around you, you see {around}."


def _join(texts: list[str]) -> str:
    if len(texts) < 2:
        return "".join(texts) or _NOTHING
    return f"{', '.join(texts[:-1])}, and {texts[-1]}"


@dataclass(frozen=True, slots=True)
class HouseGame:
    """The game that an agent must win. Its file holds the hidden state, and a walkthrough."""

    path: str
    # The SHA-256 (hex) of the file when the benchmark was loaded.
    sha256: str
    # Whether a command that is not possible counts as the nearest possible one.
    nearest_command: bool = False


def load_game(path: str, *, sha256: str | None = None) -> tuple[Play, str]:
    """Return the game in a file at its start, and the SHA-256 (hex) of the file.

    Raises DataError, with the path, if the file cannot be read, is not a game of ALFWorld, holds a game that
    is won before the first command, or has another digest than `sha256`.
    """
    try:
        data = read_input(path, max_bytes=MAX_GAME_BYTES)
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", path=path) from error
    digest = hashlib.sha256(data).hexdigest()
    if sha256 is not None and digest != sha256:
        raise DataError("has changed since it was loaded", path=path, hint="start the run again")
    try:
        play = Play(read_game(data))
    except (GameError, GoalError) as error:
        raise DataError(
            f"{error}", path=path, hint="a game of ALFWorld is the file game.tw-pddl of its json_2.1.1 folder"
        ) from error
    if play.won:
        raise DataError(
            "is a game that is won at its start, so that it measures nothing",
            path=path,
            hint="remove it from the list of games",
        )
    return play, digest
