"""The shop's reward: the fit of type, attributes, options and price, and the goals with their limits."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from case_checks import each_case

from harness.environments.web.grader import (
    COLOURS,
    OFFLINE,
    first_colour,
    fit_type,
    has_attribute,
    load_tagger,
    offline_nouns,
    reward_purchase,
    same_option,
)
from harness.environments.web.products import (
    NO_ATTRIBUTE,
    NO_LIMIT,
    Goal,
    Product,
    UnreadableProduct,
    is_sold,
    read_goals,
    read_product,
)

RECORD: dict[str, Any] = {
    "asin": "B000LAMP01",
    "name": "Orla Desk Lamp",
    "full_description": "It folds flat.",
    "small_description": ["Dimmable light", "USB port"],
    "pricing": "$25.5",
    "product_category": "Home › Lighting › Lamps",
    "category": "garden",
    "query": " Desk Lamps ",
    "customization_options": {"Color": [{"value": " Forest Green "}, {"value": "Black/White"}], "Size": None},
}
LAMP = read_product(RECORD, ["touch control"])
GOAL = Goal(
    LAMP.asin,
    LAMP.name,
    LAMP.product_category,
    LAMP.category,
    LAMP.query,
    "i need a lamp",
    ("touch control", "dimmable light"),
    ("forest green",),
    30.0,
)


def reward(product: Product = LAMP, options: tuple[str, ...] = ("forest green",), **changes: Any) -> float:
    found = reward_purchase(product, options, product.price, replace(GOAL, **changes), offline_nouns)
    return found.value


def test_a_record_is_read_as_upstream_does() -> None:
    assert LAMP.options == {"color": ("forest green", "black | white")}
    assert (LAMP.query, LAMP.pricing, LAMP.price_tag) == ("desk lamps", (25.5,), "$25.5")
    assert LAMP.indexed_text.endswith("it folds flat. dimmable light color: forest green, black | white")


@each_case(
    ("pricing", "prices", "tag"),
    [
        (None, (100.0,), "$100.0"),
        ("", (100.0,), "$100.0"),
        ("$1,299.99", (1299.99,), "$1299.99"),
        ("$10.5 - $20 - $30", (10.5, 20.0), "$10.5 to $20.0"),
    ],
)
def test_prices_are_read_from_their_text(pricing: str | None, prices: tuple[float, ...], tag: str) -> None:
    product = read_product(RECORD | {"pricing": pricing}, None)
    assert (product.pricing, product.price_tag) == (prices, tag)
    assert prices[0] <= product.price <= prices[-1]


def test_a_price_in_a_range_is_the_same_in_every_run() -> None:
    product = read_product(RECORD | {"pricing": "$10 - $90"}, None)
    assert product.price == read_product(RECORD | {"pricing": "$10 - $90"}, None).price
    assert product.price != read_product(RECORD | {"pricing": "$10 - $90", "asin": "B1"}, None).price


@each_case(
    "change", [{"name": 7}, {"pricing": "$1.2.3"}, {"customization_options": {"a": "b"}}, {"query": []}]
)
def test_an_unreadable_record_is_named(change: dict[str, Any]) -> None:
    with pytest.raises(UnreadableProduct, match="B000LAMP01"):
        read_product(RECORD | change, None)


@each_case(
    ("asin", "sold"), [("B000LAMP01", True), ("B000LAMP012", False), ("nan", False), ("", False), (7, False)]
)
def test_upstream_leaves_out_some_ids(asin: object, sold: bool) -> None:
    assert is_sold(asin) is sold


def test_a_product_without_attributes_has_upstreams_placeholder() -> None:
    assert read_product(RECORD, None).attributes == (NO_ATTRIBUTE,)


def test_a_goal_has_one_of_the_next_limits_above_the_price() -> None:
    wishes = [
        {"instruction": f".lamp {n}.", "instruction_attributes": ["a"], "instruction_options": []}
        for n in range(40)
    ]
    goals = read_goals(LAMP, wishes)
    assert {goal.price_upper for goal in goals} == {40.0, 50.0, 60.0}
    assert goals[0].instruction == f"lamp 0, and price lower than {goals[0].price_upper:.2f} dollars"
    assert goals == read_goals(LAMP, wishes)


def test_an_instruction_without_attributes_is_no_goal() -> None:
    assert read_goals(LAMP, [{"instruction": "x", "instruction_attributes": []}]) == []


def test_a_product_above_all_limits_has_none() -> None:
    dear = read_product(RECORD | {"pricing": "$985"}, None)
    wish = {"instruction": "x", "instruction_attributes": ["a"], "instruction_options": []}
    assert [(goal.instruction, goal.price_upper) for goal in read_goals(dear, [wish])] == [("x", NO_LIMIT)]


def test_the_wanted_product_earns_everything() -> None:
    assert reward() == 1.0


def test_each_part_counts_the_same() -> None:
    assert reward(options=()) == 3 / 4
    assert reward(price_upper=20.0) == 3 / 4
    assert reward(attributes=("touch control", "waterproof")) == 3 / 4


def test_attributes_are_found_in_the_list_and_in_the_texts() -> None:
    assert has_attribute(LAMP, "control touch")
    assert has_attribute(LAMP, "folds flat")
    assert has_attribute(LAMP, "usb port")
    assert not has_attribute(LAMP, "usb light")
    # The features are one text.
    assert has_attribute(LAMP, "light usb port")


def test_options_are_compared_by_their_first_colour() -> None:
    assert same_option("forest green", "lime green")
    assert not same_option("forest green", "sky blue")
    assert same_option("dark green", "dark red")
    assert same_option("8 inch", "8 inch")
    assert not same_option("8 inch", "large")
    assert first_colour("rose gold") == "gold"
    assert first_colour("12 ounce") == "12 ounce"
    assert list(COLOURS) == sorted(COLOURS)


def test_accented_letters_do_not_count_in_a_comparison() -> None:
    accented = replace(LAMP, attributes=("crème brûlée ½",), name="", bullets=(), description="")
    assert has_attribute(accented, "crme brle")
    assert has_attribute(replace(accented, attributes=("gold ÀÉ",)), "floral ÀÉ gold")
    # Other scripts count.
    assert not has_attribute(replace(accented, attributes=("金 x",)), "銀 y")


@each_case(
    ("name", "query", "category", "factor"),
    [
        ("Orla Desk Lamp", "other", "A › B", 1.0),
        ("Lamp", "desk lamps", "A › B", 1.0),
        ("Lamp of one two three four five six", "other", "A › B", 1.0),
        ("Chair", "desk lamps", "Home › Lighting", 0.0),
    ],
)
def test_the_type_fits_by_nouns_query_and_category(
    name: str, query: str, category: str, factor: float
) -> None:
    product = replace(LAMP, name=name, query=query, product_category=category)
    assert fit_type(product, GOAL, offline_nouns).factor == factor


def test_few_shared_nouns_lower_the_fit() -> None:
    nouns = [f"noun{letter}" for letter in "abcdefghijk"]
    titles = {"goal": nouns, "one": nouns[:1], "two": nouns[:2], "none": ["x"], "empty": []}
    goal = replace(GOAL, name="goal")

    def factor(title: str, wanted: str = "goal", category: str = "x") -> float:
        product = replace(LAMP, name=title, query="other", product_category=category)
        return fit_type(product, replace(goal, name=wanted), titles.__getitem__).factor

    assert factor("none") == 0.0
    assert factor("one") == 0.1
    assert factor("two") == 0.5
    assert factor("two", category="Lamps › Lighting") == 1.0
    assert factor("none", wanted="empty") == 0.5


def test_the_offline_tagger_leaves_out_known_other_words() -> None:
    title = "The Lightweight 2-Pack T-Shirt for Men with V Neck, 12 oz"
    assert offline_nouns(title) == ("t-shirt", "men", "v", "neck")
    assert load_tagger("offline").name == OFFLINE


@pytest.fixture
def spacy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install a library with spaCy's interface. Its small model takes capitals for proper nouns."""

    def load(model: str) -> Any:
        if model != "en_core_web_sm":
            raise OSError(model)
        return lambda title: [
            SimpleNamespace(text=word, pos_="PROPN" if word.istitle() else "ADP") for word in title.split()
        ]

    monkeypatch.setitem(sys.modules, "spacy", SimpleNamespace(load=load))
    load_tagger.cache_clear()
    yield
    load_tagger.cache_clear()


@each_case("choice", ["auto", "spacy"])
def test_an_installed_spacy_is_used_and_named(spacy: None, choice: Any) -> None:
    tagger = load_tagger(choice)
    assert tagger.name == "spaCy en_core_web_sm"
    assert tagger.nouns("Modern Lamp for Use") == ("modern", "lamp", "use")
    assert load_tagger("offline").name == OFFLINE
