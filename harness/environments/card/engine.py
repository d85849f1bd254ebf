"""The rules of the game: two teams of fish, turns of a guess and an action, and the end.

Time is counted in phases. A turn is two phases: a guess, which may be left out, and an action. A fish is dead
only after the whole action. Until then a fish without health still counts, is hit, and counters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

HEALTH = 400
TEAM = 4
# Each living fish of a team loses this much when a kind is guessed.
GUESS_DAMAGE = 50
AREA_DAMAGE = 70
AREA_SHARE = 0.35
SACRIFICE_DAMAGE = 75
SACRIFICE_GAIN = 140
STRIKE_DAMAGE = 120
HUNT_RATE = 1.2
# A hunter deals more to a fish whose health is below this.
HUNT_HEALTH = 160
HUNT_RATE_WEAK = 1.4
SHIELD_GAIN = 20
SHIELD_SHARE = 0.3
# A fish below this health is avenged by its teammates.
COUNTER_HEALTH = 120
COUNTER_DAMAGE = 30
DEFLECT_KEPT = 0.7
DEFLECT_SHARED = 0.3
# Each time a deflector's wounds sum up to this, its attack rises.
WOUND_STEP = 200
WOUND_GAIN = 40
HEALING = 20
EXPLOSION_DAMAGE = 40
RAGE_HEALTH = 80
RAGE_GAIN = 15

FIELDED = ("spray", "flame", "eel", "sunfish")
"""The kinds of the published setting, in the order of their positions."""

FIRST_PHASE = 3
"""The counter after both sides have picked their fish."""
LAST_PHASE = 128
"""The game is decided when the counter passes this."""


class Active(Enum):
    """The skill that a fish uses as its action."""

    # 70 damage to all living enemies.
    FIXED_AREA = auto()
    # A share of its attack to all living enemies.
    AREA = auto()
    # Damage to a teammate, for more attack.
    SACRIFICE = auto()
    # 120 damage to one enemy.
    STRIKE = auto()
    # A multiple of its attack to the enemy with the least health.
    HUNT = auto()
    # A shield for a living fish of the same side, for more attack.
    SHIELD = auto()


class Passive(Enum):
    """The skill that a fish uses by itself."""

    # Damages an enemy that hits a weak teammate.
    COUNTER = auto()
    # Shares the damage of a hit with its teammates.
    DEFLECT = auto()
    # Avoids some hits by chance.
    DODGE = auto()
    # Regains health after a hit.
    HEAL = auto()
    # Damages the enemy that kills it, and attacks harder with little health.
    EXPLODE = auto()


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fish. `number` is upstream's."""

    number: int
    name: str
    attack: int
    active: Active
    passive: Passive

    @property
    def targets_team(self) -> bool:
        """Return whether its active skill has a target in its own team."""
        return self.active in (Active.SACRIFICE, Active.SHIELD)

    @property
    def needs_target(self) -> bool:
        """Return whether its active skill has one target."""
        return self.active not in (Active.AREA, Active.FIXED_AREA)


KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(1, "spray", 200, Active.FIXED_AREA, Passive.COUNTER),
        Kind(2, "flame", 200, Active.SACRIFICE, Passive.COUNTER),
        Kind(3, "eel", 200, Active.AREA, Passive.DEFLECT),
        Kind(4, "sunfish", 200, Active.SACRIFICE, Passive.DEFLECT),
        Kind(5, "barracuda", 100, Active.STRIKE, Passive.DODGE),
        Kind(6, "mobula", 100, Active.SHIELD, Passive.DODGE),
        Kind(8, "octopus", 100, Active.SHIELD, Passive.HEAL),
        Kind(9, "whiteshark", 100, Active.HUNT, Passive.HEAL),
        Kind(10, "hammerhead", 100, Active.HUNT, Passive.EXPLODE),
    )
}
"""All kinds by name."""


class IllegalMove(Exception):
    """A move that the rules forbid. It changes nothing. The message names the rule."""


class Event(NamedTuple):
    """One effect of an action: `hit`, `deflect`, `counter`, `reduce`, `heal` or `explode`.

    `side` and `position` name the fish that is hit, or whose skill works. `counter` names the fish that is
    avenged. `value` is damage or health, and of `reduce` the share of the damage that remains.
    """

    name: str
    side: int
    position: int
    value: float
    # Whether a hit has a source, None for other events. Only hits with a source trigger skills.
    is_sourced: bool | None = None


class Move(NamedTuple):
    """An action: a normal attack, or the active skill of the fish at `position`.

    `target` is a position of the enemy, or of the own team for a skill on teammates. Skills that hit all
    enemies ignore it.
    """

    position: int
    is_active: bool
    target: int | None = None


class Fish:
    """A fish in a game."""

    __slots__ = ("attack", "health", "is_dead", "is_exposed", "is_shielded", "kind", "position", "wounds")

    def __init__(self, kind: Kind, position: int) -> None:
        self.kind = kind
        self.position = position
        self.health = HEALTH
        self.attack = kind.attack
        # The damage since the last rise of a deflector's attack.
        self.wounds = 0
        self.is_dead = False
        self.is_exposed = False
        self.is_shielded = False

    @property
    def shown_attack(self) -> int:
        """The attack with the gain of a raging fish."""
        if self.kind.passive is Passive.EXPLODE and self.health < RAGE_HEALTH:
            return self.attack + RAGE_GAIN
        return self.attack

    def copy(self) -> Fish:
        """Return a copy, which later moves change apart from this fish."""
        made: Fish = Fish.__new__(Fish)
        made.kind, made.position = self.kind, self.position
        made.health, made.attack, made.wounds = self.health, self.attack, self.wounds
        made.is_dead, made.is_exposed, made.is_shielded = self.is_dead, self.is_exposed, self.is_shielded
        return made


def never_dodge() -> bool:
    """Return False, for teams without a fish that dodges."""
    return False


class Game:
    """A game under way. Side 0 moves first. `winner` is a side, None until the game is over."""

    __slots__ = ("_dodge", "_events", "is_guessing", "mover", "phase", "teams", "winner")

    def __init__(
        self, first: Sequence[Kind], second: Sequence[Kind], dodge: Callable[[], bool] = never_dodge
    ) -> None:
        """Begin a game.

        Args:
            first: the kinds of side 0, by position.
            second: the kinds of side 1.
            dodge: returns whether a fish that may dodge a hit does so.
        """
        self.teams = tuple(
            tuple(Fish(kind, position) for position, kind in enumerate(team)) for team in (first, second)
        )
        self.mover = 0
        self.is_guessing = True
        self.phase = FIRST_PHASE
        self.winner: int | None = None
        self._dodge = dodge
        self._events: list[Event] = []

    def copy(self) -> Game:
        """Return a copy, which later moves change apart from this game."""
        made: Game = Game.__new__(Game)
        first, second = self.teams
        made.teams = (tuple([fish.copy() for fish in first]), tuple([fish.copy() for fish in second]))
        made.mover, made.is_guessing = self.mover, self.is_guessing
        made.phase, made.winner = self.phase, self.winner
        made._dodge, made._events = self._dodge, []
        return made

    def living(self, side: int) -> list[Fish]:
        """Return the living fish of a side, by position."""
        return [fish for fish in self.teams[side] if not fish.is_dead]

    def guess(self, position: int, kind: Kind) -> bool:
        """Guess the kind of an enemy fish and return whether it is right. Raises IllegalMove."""
        self._require_phase(guessing=True)
        fish = self._find(1 - self.mover, position)
        if fish.is_dead:
            raise IllegalMove(f"the enemy's fish at position {position} is dead")
        if fish.is_exposed:
            raise IllegalMove(f"the enemy's fish at position {position} is exposed already")
        is_right = fish.kind is kind
        if is_right:
            fish.is_exposed = True
            for each in self.teams[1 - self.mover]:
                each.health = max(0, each.health - GUESS_DAMAGE)
                each.is_dead = each.health == 0
        self._end_phase()
        return is_right

    def skip_guess(self) -> None:
        """End the phase of the guess without one. Raises IllegalMove."""
        self._require_phase(guessing=True)
        self._end_phase()

    def act(self, move: Move) -> list[Event]:
        """Make an action and return its effects in order. Raises IllegalMove."""
        self._require_phase(guessing=False)
        target = self.check_move(move)
        actor = self.teams[self.mover][move.position]
        self._events = []
        if target is None:
            self._use_on_all(actor)
        elif move.is_active:
            self._use_skill(actor, target)
        else:
            self._attack(actor, target, actor.shown_attack // 2)
        for team in self.teams:
            for fish in team:
                if fish.health <= 0:
                    fish.health = 0
                    fish.is_dead = True
        self._end_phase()
        return self._events

    def check_move(self, move: Move) -> Fish | None:
        """Return the target of an action, None for an action on all enemies.

        Raises IllegalMove if the side that moves may not make this action, in whichever phase the game is.
        """
        actor = self._find(self.mover, move.position)
        if actor.is_dead:
            raise IllegalMove(f"your fish at position {move.position} is dead")
        if move.is_active and not actor.kind.needs_target:
            return None
        if move.target is None:
            raise IllegalMove("this action needs a target")
        targets_team = move.is_active and actor.kind.targets_team
        target = self._find(self.mover if targets_team else 1 - self.mover, move.target)
        whose = "your" if targets_team else "the enemy's"
        if target.is_dead:
            raise IllegalMove(f"the target, {whose} fish at position {move.target}, is dead")
        if not move.is_active:
            return target
        if actor.kind.active is Active.SACRIFICE and target is actor:
            raise IllegalMove("the target must be a teammate, and not the fish that acts")
        if actor.kind.active is Active.HUNT and any(
            fish.health < target.health for fish in self.living(1 - self.mover)
        ):
            raise IllegalMove("the target must be a living enemy with the least health")
        return target

    def _require_phase(self, *, guessing: bool) -> None:
        if self.winner is not None:
            raise IllegalMove("the game is over")
        if self.is_guessing != guessing:
            raise IllegalMove(
                "there is one guess in a turn, and it comes before the action" if guessing else "guess first"
            )

    def _find(self, side: int, position: int) -> Fish:
        if not 0 <= position < TEAM:
            raise IllegalMove(f"a position is a number from 0 to {TEAM - 1}")
        return self.teams[side][position]

    def _end_phase(self) -> None:
        mover = self.mover
        self.phase += 1
        if self.phase > LAST_PHASE:
            self.winner = self._decide()
            return
        have_died = [all(fish.is_dead for fish in team) for team in self.teams]
        if any(have_died):
            self.winner = mover if have_died[1 - mover] else 1 - mover
            return
        if not self.is_guessing:
            self.mover = 1 - mover
        self.is_guessing = not self.is_guessing

    def _decide(self) -> int:
        """Return the winner of a game that takes too long."""

        def strength(side: int) -> tuple[int, int, int]:
            health = [fish.health for fish in self.living(side)]
            return len(health), sum(health), max(health, default=0)

        return 0 if strength(0) > strength(1) else 1

    def _use_on_all(self, actor: Fish) -> None:
        is_fixed = actor.kind.active is Active.FIXED_AREA
        damage = AREA_DAMAGE if is_fixed else int(actor.attack * AREA_SHARE)
        for enemy in self.living(1 - self.mover):
            self._attack(actor, enemy, damage)

    def _use_skill(self, actor: Fish, target: Fish) -> None:
        match actor.kind.active:
            case Active.SACRIFICE:
                self._hit(self.mover, target, SACRIFICE_DAMAGE, None)
                actor.attack += SACRIFICE_GAIN
            case Active.SHIELD:
                target.is_shielded = True
                actor.attack += SHIELD_GAIN
            case Active.STRIKE:
                self._attack(actor, target, STRIKE_DAMAGE)
            case Active.HUNT:
                rate = HUNT_RATE_WEAK if target.health < HUNT_HEALTH else HUNT_RATE
                self._attack(actor, target, int(actor.shown_attack * rate))

    def _attack(self, actor: Fish, enemy: Fish, damage: int) -> None:
        """Hit an enemy, and let its teammates avenge it."""
        mover = self.mover
        self._hit(1 - mover, enemy, damage, actor)
        if enemy.health >= COUNTER_HEALTH:
            return
        for fish in self.teams[1 - mover]:
            if fish.kind.passive is Passive.COUNTER and not fish.is_dead and fish is not enemy:
                self._events.append(Event("counter", 1 - mover, enemy.position, COUNTER_DAMAGE))
                self._hit(mover, actor, COUNTER_DAMAGE, None)

    def _hit(self, side: int, fish: Fish, damage: int, source: Fish | None) -> None:
        """Deal damage to a fish that is not dead, with the effects of its passive skill.

        Damage without a source is not shared, reduced or avenged, but it can be dodged.
        """
        passive = fish.kind.passive
        if passive is Passive.DODGE and self._dodge():
            self._events.append(Event("reduce", side, fish.position, 0))
            self._events.append(Event("hit", side, fish.position, 0, source is not None))
            return
        if passive is Passive.DEFLECT:
            self._deflect(side, fish, damage, source)
            return
        self._wound(side, fish, damage, source)
        if passive is Passive.HEAL and fish.health > 0:
            gained = min(HEALING, HEALTH - fish.health)
            fish.health += gained
            self._events.append(Event("heal", side, fish.position, gained))
        elif passive is Passive.EXPLODE and fish.health <= 0 and source is not None:
            self._events.append(Event("explode", side, fish.position, EXPLOSION_DAMAGE))
            self._hit(1 - side, source, EXPLOSION_DAMAGE, None)

    def _deflect(self, side: int, fish: Fish, damage: int, source: Fish | None) -> None:
        others = [] if source is None else [each for each in self.living(side) if each is not fish]
        if others:
            kept = int(damage * DEFLECT_KEPT)
            share = int(damage * DEFLECT_SHARED) // len(others)
            self._events.append(Event("deflect", side, fish.position, kept))
            for other in others:
                self._hit(side, other, share, None)
            damage = kept
        self._wound(side, fish, damage, source)
        if fish.wounds >= WOUND_STEP:
            fish.attack += WOUND_GAIN * (fish.wounds // WOUND_STEP)
            fish.wounds %= WOUND_STEP

    def _wound(self, side: int, fish: Fish, damage: int, source: Fish | None) -> None:
        if source is not None and fish.is_shielded:
            fish.is_shielded = False
            damage = int(damage * SHIELD_SHARE)
            self._events.append(Event("reduce", side, fish.position, SHIELD_SHARE))
        self._events.append(Event("hit", side, fish.position, damage, source is not None))
        fish.health -= damage
        fish.wounds += damage
