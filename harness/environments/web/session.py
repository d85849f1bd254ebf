"""A customer's session in the shop: the page that is open, the choices so far, and the purchase."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from harness.environments.web.products import Product

SEPARATOR = " [SEP] "
RESULTS_A_PAGE = 10
MAX_OBSERVATION_CHARACTERS = 20_000
MAX_LIST_CHARACTERS = 20_000
_CUT = " [the rest is not shown]"

MAX_RESULTS = 50


class Button(Enum):
    """The buttons of all pages, by the values that click them."""

    SEARCH = "Search"
    BACK_TO_SEARCH = "Back to Search"
    PREVIOUS = "< Prev"
    NEXT = "Next >"
    DESCRIPTION = "Description"
    FEATURES = "Features"
    REVIEWS = "Reviews"
    BUY = "Buy Now"


@dataclass(frozen=True, slots=True)
class ProductLink:
    """A link to the page of a product, by its number in the catalogue."""

    number: int


@dataclass(frozen=True, slots=True)
class OptionChoice:
    """The choice of one value of an option."""

    name: str
    value: str


Clickable = Button | ProductLink | OptionChoice


class PageKind(Enum):
    """The kinds of pages. Some give the same button another meaning."""

    SEARCH = "search"
    RESULTS = "results"
    ITEM = "item"
    PART = "part of an item"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Page:
    """A page: the texts on it in order, and its clickable values in lower case."""

    kind: PageKind
    texts: tuple[str, ...]
    clickables: Mapping[str, Clickable] = field(default_factory=dict)

    @property
    def observation(self) -> str:
        """Return the whole text of the page."""
        # A line end alone separates two elements, and any other blank text is an element without letters.
        return SEPARATOR.join(text.strip() for text in self.texts if text not in ("", "\n"))

    @property
    def actions(self) -> dict[str, bool | list[str]]:
        """Return the available actions in upstream's form."""
        return {"has_search_bar": self.kind is PageKind.SEARCH, "clickables": list(self.clickables)}


def search_page(instruction: str) -> Page:
    """Return the page where a session begins."""
    return Page(
        PageKind.SEARCH,
        ("WebShop", "Instruction:", instruction, Button.SEARCH.value),
        _buttons(Button.SEARCH),
    )


def results_page(instruction: str, number: int, total: int, products: Iterable[tuple[int, Product]]) -> Page:
    """Return page `number` (from 1) of the results, with these products and their places in the catalogue."""
    shown = [Button.BACK_TO_SEARCH, *([Button.PREVIOUS] if number > 1 else []), Button.NEXT]
    texts = [*_head(instruction), Button.BACK_TO_SEARCH.value, f"Page {number} (Total results: {total})"]
    texts += [button.value for button in shown[1:]]
    clickables = _buttons(*shown)
    for place, product in products:
        texts += [product.asin, product.name, product.price_tag]
        # No product takes the place of a button, whatever its id is.
        clickables.setdefault(product.asin.lower(), ProductLink(place))
    return Page(PageKind.RESULTS, tuple(texts), clickables)


def item_page(instruction: str, product: Product) -> Page:
    """Return the page of a product. A value that two options share is the later option's."""
    parts = (Button.DESCRIPTION, Button.FEATURES, Button.REVIEWS)
    clickables = _buttons(Button.BACK_TO_SEARCH, Button.PREVIOUS, *parts, Button.BUY)
    texts = [*_head(instruction), Button.BACK_TO_SEARCH.value, Button.PREVIOUS.value]
    for name, values in product.options.items():
        texts += [name, *values]
        for value in values:
            # The words of a button remain the button's, whatever a seller calls a colour.
            if not isinstance(clickables.get(value), Button):
                clickables[value] = OptionChoice(name, value)
    texts += [product.name, f"Price: {product.price_tag}", "Rating: N.A.", *(part.value for part in parts)]
    texts.append(Button.BUY.value)
    return Page(PageKind.ITEM, tuple(texts), clickables)


def part_page(instruction: str, product: Product, part: Button) -> Page:
    """Return the page with a product's description, its features, or its reviews, which are empty."""
    texts = {Button.DESCRIPTION: (product.description,), Button.FEATURES: product.bullets}.get(part, ())
    head = (*_head(instruction), Button.BACK_TO_SEARCH.value, Button.PREVIOUS.value)
    return Page(PageKind.PART, (*head, *texts), _buttons(Button.BACK_TO_SEARCH, Button.PREVIOUS))


def done_page(asin: str, options: Mapping[str, str]) -> Page:
    """Return the page after a purchase. Upstream's page also shows the score, which no agent may see."""
    return Page(
        PageKind.DONE,
        (
            "Thank you for shopping with us!",
            *("Your code:", "None", "(Paste it in your MTurk interface.)"),
            *("Purchased", "asin", asin, "options", json.dumps(dict(options))),
            *("attrs", "None", "category", "None", "query", "None", "product category", "None"),
            *("Target", "asin", "options", "attrs", "price upper", "instuction text"),
            *("category", "product category", "query", "Goal", "None"),
        ),
    )


def show_page(page: Page) -> str:
    """Return the text of a page for an agent, bounded."""
    observation = page.observation
    if len(observation) > MAX_OBSERVATION_CHARACTERS:
        observation = observation[:MAX_OBSERVATION_CHARACTERS] + _CUT
    actions = json.dumps(page.actions, ensure_ascii=False)
    if len(actions) > MAX_LIST_CHARACTERS:
        actions = actions[:MAX_LIST_CHARACTERS] + _CUT
    return f"Observation:\n{observation}\n\nAvailable Actions:\n{actions}"


def _head(instruction: str) -> Sequence[str]:
    return ("Instruction:", instruction)


def _buttons(*buttons: Button) -> dict[str, Clickable]:
    return {button.value.lower(): button for button in buttons}


class Shop(Protocol):
    """The products by their numbers, and the search for them."""

    def product(self, number: int) -> Product:
        """Return a product."""

    def search(self, keywords: str, limit: int) -> Sequence[int]:
        """Return the numbers of the best products for these keywords, best first."""


@dataclass(frozen=True, slots=True)
class Purchase:
    """A product that was bought, and the chosen value of each option."""

    product: Product
    options: Mapping[str, str]


class Session:
    """One session. A search forgets the product and its options, as upstream's does.

    An action that the open page does not offer changes nothing.
    """

    def __init__(self, shop: Shop, instruction: str) -> None:
        self.page = search_page(instruction)
        self.purchase: Purchase | None = None
        self._shop = shop
        self._instruction = instruction
        self._found: Sequence[int] = ()
        self._number = 1
        self._product: Product | None = None
        self._options: dict[str, str] = {}

    def search(self, keywords: str) -> Page:
        """Search for keywords from any page but the last, and return the page that is open then.

        Upstream also knows words that begin a search for a category or an attribute, or for products by
        chance. They are plain words here.
        """
        if keywords and self.purchase is None:
            self._found = self._shop.search(keywords.lower(), MAX_RESULTS)
            self._open_results(1)
        return self.page

    def click(self, value: str) -> Page:
        """Click a value of the open page in any case of letters, and return the page that is open then."""
        match self.page.clickables.get(value.lower()):
            case Button.BUY if self._product is not None:
                self.purchase = Purchase(self._product, dict(self._options))
                self.page = done_page(self._product.asin, self._options)
            case Button.BACK_TO_SEARCH:
                self._product, self._options, self._found = None, {}, ()
                self.page = search_page(self._instruction)
            case Button.NEXT:
                self._open_results(self._number + 1)
            case Button.PREVIOUS if self.page.kind is PageKind.RESULTS:
                self._open_results(self._number - 1)
            case Button.PREVIOUS if self.page.kind is PageKind.ITEM:
                self._open_results(self._number)
            case Button.PREVIOUS if self._product is not None:
                self.page = item_page(self._instruction, self._product)
            case (Button.DESCRIPTION | Button.FEATURES | Button.REVIEWS) as part if self._product is not None:
                self.page = part_page(self._instruction, self._product, part)
            case ProductLink(number):
                self._product = self._shop.product(number)
                self.page = item_page(self._instruction, self._product)
            case OptionChoice(name, chosen):
                self._options[name] = chosen
        return self.page

    def _open_results(self, number: int) -> None:
        self._product, self._options, self._number = None, {}, number
        first = (number - 1) * RESULTS_A_PAGE
        shown = self._found[first : first + RESULTS_A_PAGE]
        products = ((place, self._shop.product(place)) for place in shown)
        self.page = results_page(self._instruction, number, len(self._found), products)
