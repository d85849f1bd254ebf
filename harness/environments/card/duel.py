"""A game between an agent and a baseline, with its illegal tries and its outcome."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from harness.environments.card.engine import (
    FIELDED,
    GUESS_DAMAGE,
    HEALTH,
    KINDS,
    TEAM,
    Active,
    Event,
    Fish,
    Game,
    IllegalMove,
    Kind,
    Move,
)

_SKILLS: Mapping[Active, str] = {
    Active.FIXED_AREA: "uses its active skill on all fish of the other side",
    Active.AREA: "uses its active skill on all fish of the other side",
    Active.SACRIFICE: "uses its active skill on its teammate at position {target}, and gains attack",
    Active.STRIKE: "uses its active skill on the fish at position {target}",
    Active.HUNT: "uses its active skill on the fish at position {target}",
    # The fish that is shielded stays hidden.
    Active.SHIELD: "uses its active skill on its own side, and gains attack",
}

NORMAL_CHANCE = 0.3
"""How likely `baseline1` attacks instead of using a skill."""

MOST_ILLEGAL = 5
"""The number of illegal tries without a legal move between them that loses the game."""
ALL_HEALTH = HEALTH * TEAM


def describe_state(game: Game, side: int) -> str:
    """Return both teams as the player of `side` sees them, and the move that is due."""
    own, enemies = game.teams[side], game.teams[1 - side]
    return "\n".join(
        [
            "Your fish:",
            *(_describe_fish(fish, is_own=True) for fish in own),
            "The enemy's fish:",
            *(_describe_fish(fish, is_own=False) for fish in enemies),
            _describe_phase(game, side),
        ]
    )


def describe_guess(position: int, kind: Kind, *, is_right: bool, by_agent: bool) -> str:
    """Return the text of a guess and its outcome."""
    who, whose = ("You guess", "the enemy's") if by_agent else ("The enemy guesses", "your")
    outcome = (
        f"Right: it is exposed, and each of {whose} {TEAM} fish loses {GUESS_DAMAGE} health."
        if is_right
        else "Wrong."
    )
    return f"{who} that {whose} fish at position {position} is the {kind.name}. {outcome}"


def describe_action(actor: Fish, move: Move, events: Sequence[Event], *, mover: int, side: int) -> str:
    """Return the text of an action of `mover` with its effects, for the player of `side`."""
    name = actor.kind.name if mover == side or actor.is_exposed else "fish"
    done = _SKILLS[actor.kind.active] if move.is_active else "attacks the fish at position {target}"
    action = f"{_whose(mover, side)} {name} at position {move.position} {done.format(target=move.target)}."
    effects = [f"- {_describe_event(event, side)}" for event in events]
    return "\n".join([action[0].upper() + action[1:], *effects])


def _describe_event(event: Event, side: int) -> str:
    fish = f"{_whose(event.side, side)} fish at position {event.position}"
    match event.name:
        case "hit":
            return f"{fish} loses {event.value} health"
        case "deflect":
            return f"{fish} deflects: it takes {event.value}, and its teammates share the rest"
        case "counter":
            return f"a teammate of {fish} counters with {event.value} damage"
        case "heal":
            return f"{fish} regains {event.value} health"
        case "explode":
            return f"{fish} explodes with {event.value} damage"
    return f"{fish} dodges" if event.value == 0 else f"a shield reduces the damage to {fish}"


def _describe_fish(fish: Fish, *, is_own: bool) -> str:
    name = fish.kind.name if is_own or fish.is_exposed else "hidden"
    if fish.is_dead:
        return f"{fish.position}: {name}, dead"
    parts = [f"{fish.position}: {name}", f"health {fish.health}"]
    if is_own:
        parts.append(f"attack {fish.shown_attack}")
    if is_own and fish.is_exposed:
        parts.append("exposed")
    return ", ".join(parts)


def _describe_phase(game: Game, side: int) -> str:
    if game.winner is not None:
        return f"The game is over. You have {'won' if game.winner == side else 'lost'}."
    return "It is your turn: guess or act." if game.is_guessing else "It is your turn: act."


def _whose(owner: int, side: int) -> str:
    return "your" if owner == side else "the enemy's"


@dataclass(frozen=True, slots=True)
class Baseline:
    """An opponent that plays by a fixed policy, always for the side that moves."""

    # Returns the position and the kind of its guess, None for no guess.
    guess: Callable[[Game, Random], tuple[int, Kind] | None]
    # Returns its action. The number is the position of the enemy that acted last, None if none has.
    act: Callable[[Game, Random, int | None], Move]


def _guess_blindly(game: Game, random: Random) -> tuple[int, Kind] | None:
    """Guess one of the fielded kinds at any living position. It wastes the guess if the fish is exposed."""
    fish = random.choice(game.living(1 - game.mover))
    kind = KINDS[random.choice(FIELDED)]
    return None if fish.is_exposed else (fish.position, kind)


def _act_at_random(game: Game, random: Random, _last: int | None) -> Move:
    """Choose a fish at random, and mostly its active skill."""
    actor = random.choice(game.living(game.mover))
    enemies = game.living(1 - game.mover)
    kind = actor.kind
    if random.random() >= NORMAL_CHANCE:
        if not kind.needs_target:
            return Move(actor.position, is_active=True)
        mates = [fish for fish in game.living(game.mover) if fish is not actor]
        if kind.targets_team and mates:
            return Move(actor.position, is_active=True, target=random.choice(mates).position)
    return Move(actor.position, is_active=False, target=random.choice(enemies).position)


def _guess_unknown(game: Game, random: Random) -> tuple[int, Kind] | None:
    """Guess one of all kinds that are not exposed, at a position that is not exposed."""
    enemies = game.teams[1 - game.mover]
    unknown = [fish.position for fish in enemies if not fish.is_dead and not fish.is_exposed]
    known = [fish.kind for fish in enemies if fish.is_exposed]
    if not unknown:
        return None
    return random.choice(unknown), random.choice([kind for kind in KINDS.values() if kind not in known])


def _act_by_rule(game: Game, random: Random, last: int | None) -> Move:
    """Kill with a normal attack if possible, else hit all enemies, else attack the enemy that acted last."""
    mine, enemies = game.living(game.mover), game.living(1 - game.mover)
    random.shuffle(mine)
    strongest = max(mine, key=lambda fish: fish.shown_attack)
    weakest = min(enemies, key=lambda fish: fish.health)
    if strongest.shown_attack / 2 >= weakest.health:
        return Move(strongest.position, is_active=False, target=weakest.position)
    by_name = {fish.kind.name: fish for fish in mine}
    area = by_name.get("spray") or by_name.get("eel")
    if area is not None and len(enemies) > 1:
        return Move(area.position, is_active=True)
    attacked = [fish.position for fish in enemies if fish.position == last]
    target = attacked[0] if attacked else random.choice(enemies).position
    return Move(strongest.position, is_active=False, target=target)


BASELINES: Mapping[str, Baseline] = {
    "baseline1": Baseline(_guess_blindly, _act_at_random),
    "baseline2": Baseline(_guess_unknown, _act_by_rule),
}
"""The opponents by name."""


@dataclass(frozen=True, slots=True)
class CardGame:
    """The target of a task: the opponent, the side of the agent, and the kinds of fish."""

    # A name of BASELINES.
    opponent: str
    # 0 if the agent moves first, else 1.
    agent_side: int
    # Whether each side's fish are in an order that the seed draws. Otherwise it is the published order.
    shuffle: bool = False


@dataclass(slots=True)
class Duel:
    """A game under way, after the moves of the opponent. `begin_duel` makes it."""

    game: Game
    side: int
    opponent: str
    random: Random
    # The opponent's first turn, "" if the agent moves first.
    opening: str = ""
    # Whether the agent has lost by illegal tries.
    is_forfeited: bool = False
    # The illegal tries since the last legal move.
    illegal: int = 0
    # The number of actions of both sides.
    turns: int = 0
    # The position of the agent's fish that acted last, None if none has.
    last_position: int | None = None

    @property
    def is_over(self) -> bool:
        return self.is_forfeited or self.game.winner is not None

    @property
    def is_won(self) -> bool:
        """Whether the agent has won. A forfeited game is lost."""
        return not self.is_forfeited and self.game.winner == self.side

    @property
    def damage(self) -> int:
        """The health that the opponent's fish have lost, 0 unless the game was played to its end."""
        if self.is_forfeited or self.game.winner is None:
            return 0
        return ALL_HEALTH - sum(fish.health for fish in self.game.teams[1 - self.side])

    def look(self) -> str:
        """Return the state of the game as the agent sees it."""
        state = describe_state(self.game, self.side)
        return f"{self.opening}\n\n{state}" if self.opening and self.turns == 1 else state

    def guess(self, position: int, kind: Kind) -> str:
        """Guess for the agent, and return the outcome and the new state."""
        try:
            is_right = self.game.guess(position, kind)
        except IllegalMove as error:
            return self.count_illegal(str(error))
        self.illegal = 0
        text = describe_guess(position, kind, is_right=is_right, by_agent=True)
        return self._show([text])

    def act(self, kind: Kind, *, is_active: bool, target: int | None) -> str:
        """Act for the agent, play the opponent's turn, and return the effects and the new state."""
        game = self.game
        try:
            move = Move(self._find(kind), is_active, target)
            # An illegal try changes nothing, so the action is checked before the guess is given up.
            game.check_move(move)
        except IllegalMove as error:
            return self.count_illegal(str(error))
        if game.is_guessing:
            game.skip_guess()
        texts = [self._play(move)]
        self.illegal = 0
        if game.winner is None:
            texts.append(self.play_opponent())
        return self._show(texts)

    def count_illegal(self, reason: str) -> str:
        """Count an illegal try, and return the text that explains it to the agent."""
        self.illegal += 1
        self.is_forfeited = self.illegal >= MOST_ILLEGAL
        outcome = "You lose the game" if self.is_forfeited else "Nothing else has changed"
        return f"Illegal: {reason}. Illegal moves in a row: {self.illegal} of {MOST_ILLEGAL}. {outcome}."

    def play_opponent(self) -> str:
        """Play the opponent's turn, and return its text."""
        game, baseline = self.game, BASELINES[self.opponent]
        texts = []
        guessed = baseline.guess(game, self.random)
        if guessed is None:
            game.skip_guess()
            texts.append("The enemy does not guess.")
        else:
            is_right = game.guess(*guessed)
            texts.append(describe_guess(*guessed, is_right=is_right, by_agent=False))
        if game.winner is None:
            texts.append(self._play(baseline.act(game, self.random, self.last_position)))
        return "\n".join(texts)

    def _play(self, move: Move) -> str:
        """Make the action of the side that moves, and return its text."""
        mover = self.game.mover
        events = self.game.act(move)
        self.turns += 1
        if mover == self.side:
            self.last_position = move.position
        actor = self.game.teams[mover][move.position]
        return describe_action(actor, move, events, mover=mover, side=self.side)

    def _find(self, kind: Kind) -> int:
        for fish in self.game.teams[self.side]:
            if fish.kind is kind:
                return fish.position
        raise IllegalMove(f"you have no {kind.name}")

    def _show(self, texts: list[str]) -> str:
        return "\n\n".join([*texts, describe_state(self.game, self.side)])


def begin_duel(target: CardGame, seed: str) -> Duel:
    """Return a game where the agent is to move. The seed decides all that the game draws."""
    random = Random(seed)
    orders = [list(FIELDED), list(FIELDED)]
    if target.shuffle:
        for order in orders:
            random.shuffle(order)
    first, second = ([KINDS[name] for name in order] for order in orders)
    duel = Duel(Game(first, second), target.agent_side, target.opponent, random)
    if target.agent_side == 1:
        duel.opening = duel.play_opponent()
    return duel
