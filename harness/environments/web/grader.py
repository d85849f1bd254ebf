"""Grade the purchase that an agent made in the shop, by WebShop's reward."""

from __future__ import annotations

import asyncio
import importlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from harness.core.text import escape_text, shorten
from harness.core.types import Phase, Status, Submission, Verdict
from harness.environments.base import HostEnvironment
from harness.environments.spec import StateGrader
from harness.environments.web.products import Goal, Product, PublishedShop
from harness.environments.web.session import Session

# The first name that occurs in a text counts, so the order is a part of the rule.
_COLOURS_TEXT = """
alabaster apricot aqua ash asphalt azure banana beige black blue blush bordeaux bronze brown
burgundy camel camo caramel champagne charcoal cheetah chestnut chocolate christmas coffee cognac
copper coral cranberry cream crystal dark denim eggplant elephant espresso fuchsia gold granite
grape graphite grass gray green grey heather indigo ivory ivy khaki lavender lemon leopard light
lilac lime magenta maroon mauve merlot midnight mint mocha multicolor mushroom mustard natural navy
nude olive orange peach pewter pink plum purple rainbow red rose royal rust sand sapphire seashell
silver skull slate steel stone stonewash sunflower tan taupe teal tiger turquoise violet walnut
wheat white wine yellow
"""
COLOURS = tuple(_COLOURS_TEXT.split())

# The ratio above which two texts count as the same, from 0 to 100.
_SAME = 85
_TITLE_WITHOUT_NOUNS = 0.2
# Upstream's library leaves these characters out of a comparison: all of Latin-1 that are not ASCII.
_DROPPED = dict.fromkeys(range(128, 256))

TaggerChoice = Literal["auto", "offline", "spacy"]
OFFLINE = "word lists"
_MODELS = ("en_core_web_lg", "en_core_web_md", "en_core_web_sm")
_NOUNS = ("NOUN", "PROPN")
_KEPT_TITLES = 1 << 14

_CLOSED_CLASS_TEXT = """
a an the this that these those some any each every all both no i you he she it we they me him her us
them my your his its our their mine yours who whom whose which what and or nor but so yet if because
although while of in on at by for with about against between into through during before after above
below to from up down over under as than per via without within w is are was were be been being am
do does did has have had can could will would shall should may might must not only very too also
just more most less least much many few several other another same such own here there when where
why how out off again once
"""
_CLOSED_CLASS = frozenset(_CLOSED_CLASS_TEXT.split())
_UNITS_TEXT = """
oz ounce ounces lb lbs pound pounds g kg gram grams mg ml l liter liters litre fl fluid gallon inch
inches in ft feet foot mm cm m meter meters yard yards watt watts volt volts mah ah hz khz mhz ghz
mb gb tb pcs pc count ct pack packs s xs xl xxl xxxl
"""
_UNITS = frozenset(_UNITS_TEXT.split())
_ADJECTIVES_TEXT = """
classic compact daily deep deluxe dry easy elegant everyday free handmade high lightweight long
modern open original premium short whole beautiful best big bright broad cheap comfortable cool cute
different durable excellent extra fancy fantastic fashionable flexible foldable fresh full funny
gentle good gorgeous great huge ideal large latest little lovely luxurious mini multiple new nice
old perfect pretty rich rustic safe simple single small smooth strong stylish suitable tall thick
thin tiny traditional trendy unique universal upgraded useful various versatile vintage warm wide
wonderful young
"""
_ADJECTIVES = frozenset(_ADJECTIVES_TEXT.split())
_OTHERS = _CLOSED_CLASS | _UNITS | _ADJECTIVES
_WORD = re.compile(r"[^\W\d_]+(?:[-'’][^\W\d_]+)*")

NOTHING_BOUGHT = "the agent bought nothing"
_SHOWN_CHARACTERS = 300


def first_colour(option: str) -> str:
    """Return the first colour of the list that occurs anywhere in an option, or the option itself."""
    return next((colour for colour in COLOURS if colour in option), option)


@dataclass(frozen=True, slots=True)
class TypeFit:
    """The fit of a product's type: the factor of the reward, and the facts that decide it."""

    factor: float
    same_query: bool
    same_category: bool
    # The number of shared nouns, for each noun of the goal's title.
    shared_nouns: float


@dataclass(frozen=True, slots=True)
class Reward:
    """The reward, from 0 to 1, and its parts."""

    value: float
    type_fit: TypeFit
    attributes: int
    attributes_wanted: int
    options: int
    options_wanted: int
    price_fits: bool


def reward_purchase(
    product: Product, options: Iterable[str], price: float, goal: Goal, nouns: Callable[[str], Sequence[str]]
) -> Reward:
    """Return the reward for the purchase of a product with these values of its options, at this price.

    `nouns` returns the nouns of a title. Source: `goal.py` of WebShop (Yao et al. 2022, arXiv 2207.01206).
    """
    fit = fit_type(product, goal, nouns)
    attributes = sum(has_attribute(product, wanted) for wanted in goal.attributes)
    chosen = list(options)
    found = sum(any(same_option(option, wanted) for option in chosen) for wanted in goal.options)
    price_fits = price <= goal.price_upper
    parts = len(goal.attributes) + len(goal.options) + 1
    value = (attributes + found + price_fits) / parts * fit.factor
    return Reward(value, fit, attributes, len(goal.attributes), found, len(goal.options), price_fits)


def fit_type(product: Product, goal: Goal, nouns: Callable[[str], Sequence[str]]) -> TypeFit:
    """Return the fit of a product's type to a goal's."""
    same_query = product.query == goal.query
    same_category = len(_categories(product.product_category) & _categories(goal.product_category)) >= 2
    wanted = nouns(goal.name)
    shared = len(set(nouns(product.name)) & set(wanted)) / len(wanted) if wanted else _TITLE_WITHOUT_NOUNS
    if shared == 0:
        factor = 0.0
    elif shared < 0.1:
        factor = 0.1
    elif same_query or same_category or shared > 0.2:
        factor = 1.0
    else:
        factor = 0.5
    return TypeFit(factor, same_query, same_category, shared)


def has_attribute(product: Product, wanted: str) -> bool:
    """Return whether a product has an attribute, by its list of attributes or by its texts."""
    if any(_are_same(attribute, wanted) for attribute in product.attributes):
        return True
    texts = (product.name, " ".join(product.bullets), product.description)
    return any(wanted in text.lower() for text in texts)


def same_option(chosen: str, wanted: str) -> bool:
    """Return whether the value of an option counts as the wanted one."""
    return _are_same(first_colour(chosen), first_colour(wanted))


def _are_same(one: str, other: str) -> bool:
    # The library takes a tenth of a second to import, which commands without a shop need not wait for.
    from rapidfuzz.fuzz import token_set_ratio
    from rapidfuzz.utils import default_process

    one, other = (default_process(text.translate(_DROPPED)) for text in (one, other))
    # Upstream's library rounds the ratio before it is compared.
    return round(token_set_ratio(one, other)) > _SAME


def _categories(path: str) -> set[str]:
    return {name.strip() for name in path.split("›")}


@dataclass(frozen=True, slots=True)
class Tagger:
    """A function that returns the nouns of a title in lower case, in order and with repeats; and its name."""

    name: str
    nouns: Callable[[str], tuple[str, ...]]


@lru_cache(maxsize=_KEPT_TITLES)
def offline_nouns(title: str) -> tuple[str, ...]:
    """Return the nouns of a title by lists of words that are not nouns."""
    words = (word.lower() for part in title.split() for word in _WORD.findall(part))
    return tuple(word for word in words if word not in _OTHERS)


@lru_cache(maxsize=3)
def load_tagger(choice: TaggerChoice = "auto") -> Tagger:
    """Return spaCy with its largest installed English model, or the offline tagger.

    `auto` takes spaCy if it is installed with a model. Raises ImportError if `spacy` is chosen and missing.
    """
    if choice != "offline":
        for model in _MODELS:
            try:
                parse: Any = importlib.import_module("spacy").load(model)
            except (ImportError, OSError):
                continue
            return Tagger(f"spaCy {model}", lru_cache(maxsize=_KEPT_TITLES)(_with_spacy(parse)))
        if choice == "spacy":
            raise ImportError(f"spaCy with one of the models {', '.join(_MODELS)} is not installed")
    return Tagger(OFFLINE, offline_nouns)


def _with_spacy(parse: Any) -> Callable[[str], tuple[str, ...]]:
    def nouns(title: str) -> tuple[str, ...]:
        return tuple(token.text.lower() for token in parse(title) if token.pos_ in _NOUNS)

    return nouns


@dataclass(frozen=True, slots=True)
class ShopGoal:
    """The goal of a session, and the shop where it takes place."""

    source: PublishedShop
    goal: Goal
    tagger: TaggerChoice = "auto"


async def grade_purchase(
    environment: HostEnvironment[Session], target: ShopGoal, _submission: Submission
) -> Verdict:
    """Return the verdict on what the agent bought. The answer that it submitted does not count.

    The score is the reward, and only a reward of 1 is a pass.
    """
    purchase = environment.state.purchase
    if purchase is None:
        return Verdict(Status.FAILED, 0.0, evidence=NOTHING_BOUGHT, phase=Phase.EVALUATOR)
    # Loading spaCy takes seconds.
    tagger = await asyncio.to_thread(load_tagger, target.tagger)
    product, options = purchase.product, purchase.options
    reward = reward_purchase(product, options.values(), product.price, target.goal, tagger.nouns)
    chosen = ", ".join(f"{name}: {value}" for name, value in options.items()) or "no options"
    evidence = shorten(
        f"bought {product.asin} with {chosen}, for a reward of {reward.value:.3f}", _SHOWN_CHARACTERS
    )
    status = Status.PASSED if reward.value == 1 else Status.FAILED
    metrics = {**reward_metrics(reward), "bought": product.asin, "tagger": tagger.name}
    return Verdict(status, reward.value, metrics, escape_text(evidence), Phase.EVALUATOR)


def reward_metrics(reward: Reward) -> dict[str, float | bool | None]:
    """Return the parts of a reward by upstream's names. `r_option` is None if no option was wanted."""
    return {
        "r_type": reward.type_fit.factor,
        "r_att": reward.attributes / reward.attributes_wanted if reward.attributes_wanted else None,
        "r_option": reward.options / reward.options_wanted if reward.options_wanted else None,
        "r_price": reward.price_fits,
        "query_match": reward.type_fit.same_query,
        "category_match": reward.type_fit.same_category,
        "title_score": reward.type_fit.shared_nouns,
    }


GRADERS = (StateGrader(ShopGoal, grade_purchase),)
