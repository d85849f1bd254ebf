"""The shop's pages and sessions: what can be clicked where, and what a purchase holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from case_checks import each_case
from hypothesis import given
from hypothesis import strategies as st

from harness.environments.web.products import Product
from harness.environments.web.session import (
    MAX_LIST_CHARACTERS,
    MAX_OBSERVATION_CHARACTERS,
    Button,
    PageKind,
    Purchase,
    Session,
    done_page,
    item_page,
    results_page,
    show_page,
)


def make_product(number: int, **options: Sequence[str]) -> Product:
    return Product(
        f"B{number:03}",
        f"Lamp {number}",
        "A description.",
        ("One.", "Two."),
        (10.0 + number,),
        "A › B",
        "garden",
        "lamps",
        {name: tuple(values) for name, values in options.items()},
        ("bright",),
    )


class SmallShop:
    """A shop of 23 lamps, in which every search but one finds all of them."""

    products = tuple(make_product(n, color=("red", "blue"), size=("s", "buy now")) for n in range(23))

    def product(self, number: int) -> Product:
        return self.products[number]

    def search(self, keywords: str, limit: int) -> list[int]:
        return [] if keywords == "nothing" else list(range(23))[:limit]


def start() -> Session:
    return Session(SmallShop(), "i need a lamp")


def test_a_session_begins_on_the_search_page() -> None:
    page = start().page
    assert page.observation == "WebShop [SEP] Instruction: [SEP] i need a lamp [SEP] Search"
    assert page.actions == {"has_search_bar": True, "clickables": ["search"]}


def test_results_are_shown_ten_a_page_without_an_end() -> None:
    session = start()
    counts = [len(session.search("lamp").clickables) - 2]
    counts += [len(session.click("next >").clickables) - 3 for _ in range(4)]
    assert counts == [10, 10, 3, 0, 0]
    assert "Page 5 (Total results: 23)" in session.page.observation
    assert session.click("< prev").texts[3] == "Page 4 (Total results: 23)"


def test_the_first_page_of_results_has_no_way_back() -> None:
    session = start()
    page = session.search("lamp")
    assert session.click("< prev") is page


def test_the_way_back_from_a_product_leads_to_the_same_page_of_results() -> None:
    session = start()
    session.search("lamp")
    results = session.click("next >")
    session.click("b012")
    assert session.click("< prev") == results


@each_case(
    ("part", "texts"), [("description", ("A description.",)), ("features", ("One.", "Two.")), ("reviews", ())]
)
def test_a_part_of_a_product_keeps_the_chosen_options(part: str, texts: tuple[str, ...]) -> None:
    session = start()
    session.search("lamp")
    item = session.click("b001")
    session.click("red")
    page = session.click(part)
    assert page.texts[2:] == ("Back to Search", "< Prev", *texts)
    assert session.click("< prev") == item
    session.click("buy now")
    assert session.purchase == Purchase(SmallShop.products[1], {"color": "red"})


def test_the_last_choice_of_an_option_counts() -> None:
    session = start()
    session.search("lamp")
    session.click("B001")
    for value in ("red", "s", "blue"):
        session.click(value)
    session.click("BUY NOW")
    assert session.purchase is not None
    assert session.purchase.options == {"color": "blue", "size": "s"}


@each_case("leave", [["< prev"], ["back to search"], ["description", "back to search"], []])
def test_options_do_not_outlive_their_product(leave: list[str]) -> None:
    session = start()
    session.search("lamp")
    session.click("b001")
    session.click("red")
    for value in leave:
        session.click(value)
    session.search("lamp")
    session.click("b002")
    session.click("buy now")
    assert session.purchase == Purchase(SmallShop.products[2], {})


def test_a_products_id_cannot_take_the_place_of_a_button() -> None:
    product = replace(make_product(1), asin="Next >")
    page = results_page("", 1, 1, [(0, product)])
    assert page.clickables["next >"] is Button.NEXT


def test_an_options_value_cannot_take_the_place_of_a_button() -> None:
    session = start()
    session.search("lamp")
    assert session.click("b001").actions["clickables"].count("buy now") == 1  # type: ignore[union-attr]
    session.click("buy now")
    assert session.purchase is not None


FORGED = [
    *("buy now", "b001", "red", "attributes", "next >", "B001\n", " search", "", "search", "\ud800", "{0}"),
    *("back to search", "description", "< prev"),
]


@given(st.lists(st.sampled_from(FORGED), max_size=12))
def test_clicks_that_the_page_does_not_offer_buy_nothing(values: list[str]) -> None:
    session = start()
    for value in values:
        session.click(value)
    assert session.page == start().page
    assert session.purchase is None


@each_case("words", ["<r>", "<r> lamp", "<a> bright", "<c> garden", "<q> lamps"])
def test_upstreams_hidden_searches_are_plain_words(words: str) -> None:
    asked: list[str] = []

    class Recording(SmallShop):
        def search(self, keywords: str, limit: int) -> list[int]:
            asked.append(keywords)
            return []

    Session(Recording(), "x").search(words)
    assert asked == [words]


def test_nothing_changes_after_the_purchase() -> None:
    session = start()
    session.search("lamp")
    session.click("b001")
    done = session.click("buy now")
    bought = session.purchase
    for value in ("buy now", "back to search", "b002", "< prev", "red"):
        assert session.click(value) is done
    assert session.search("lamp") is done
    assert session.purchase is bought


def test_the_last_page_does_not_show_a_score() -> None:
    page = done_page("B001", {"color": "red"})
    assert page.kind is PageKind.DONE
    assert page.actions == {"has_search_bar": False, "clickables": []}
    assert "score" not in show_page(page).lower()
    assert "reward" not in show_page(page).lower()


def test_pages_are_bounded() -> None:
    values = [f"value {number} {'x' * 50}" for number in range(3000)]
    shown = show_page(item_page("i need a lamp", make_product(1, color=values)))
    assert len(shown) < MAX_OBSERVATION_CHARACTERS + MAX_LIST_CHARACTERS + 200


def test_an_empty_search_changes_nothing() -> None:
    session = start()
    assert session.search("").kind is PageKind.SEARCH
    assert "(Total results: 0)" in session.search("nothing").observation
