"""The texts by which an agent sees a game. They name the kind of an enemy fish only if it is exposed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.environments.card.engine import GUESS_DAMAGE, TEAM, Active, Event, Fish, Game, Kind, Move

_SKILLS: Mapping[Active, str] = {
    Active.FIXED_AREA: "uses its active skill on all fish of the other side",
    Active.AREA: "uses its active skill on all fish of the other side",
    Active.SACRIFICE: "uses its active skill on its teammate at position {target}, and gains attack",
    Active.STRIKE: "uses its active skill on the fish at position {target}",
    Active.HUNT: "uses its active skill on the fish at position {target}",
    # The fish that is shielded stays hidden.
    Active.SHIELD: "uses its active skill on its own side, and gains attack",
}


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
