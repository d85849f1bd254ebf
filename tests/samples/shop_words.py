"""The words of the generated catalogue: kinds of products, their attributes, and other words for these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

ATTRIBUTES: Mapping[str, tuple[str, ...]] = {
    "water resistant": ("can get caught in the rain", "survives a splash"),
    "machine washable": ("i can throw in with the laundry", "needs no trip to the cleaners"),
    "easy assemble": ("goes together without a toolbox", "my son can put up alone"),
    "solid wood": ("is made of real oak or pine all through", "has no chipboard in it"),
    "storage space": ("has somewhere to stow my things", "swallows a lot of clutter"),
    "space saving": ("fits a tiny flat", "folds away behind the door"),
    "long lasting": ("keeps going for years", "holds up from morning to night"),
    "noise cancelling": ("keeps the train out of my ears", "shuts out the chatter around me"),
    "wireless charging": ("fills up on a pad", "needs no plug at the bedside"),
    "hands free": ("works while i cook", "lets me talk while driving"),
    "fast charging": ("is full again within an hour", "fills up over a coffee break"),
    "carbon fiber": ("weighs next to nothing yet stays stiff", "is built like a racing bike"),
    "quick release": ("comes off with one flick", "lets go in a second"),
    "non slip": ("stays put on wet tiles", "does not slide around"),
    "stain resistant": ("forgives red juice and sauce", "wipes clean after the kids"),
    "fade resistant": ("keeps its shade in the sun", "looks new after many summers"),
    "eco friendly": ("is kind to the planet", "does no harm to nature"),
    "lead free": ("is safe for my toddler to chew on", "has no nasty metals"),
    "bpa free": ("has nothing harmful in its plastic", "is safe for baby food"),
    "leak proof": ("will not drip in my bag", "can lie on its side when full"),
    "dishwasher safe": ("i never have to scrub by hand", "survives the hot cycle"),
    "stainless steel": ("never rusts", "is made of the metal that sinks are made of"),
    "gluten free": ("suits someone with coeliac disease", "has no wheat in it"),
    "sugar free": ("a diabetic may eat", "has nothing sweet added"),
    "dairy free": ("works for a milk allergy", "has no cow in it"),
    "certified organic": ("was grown without sprays", "carries the green farm seal"),
    "individually wrapped": ("comes portion by portion in paper", "i can hand out one at a time"),
    "keto friendly": ("fits my low starch diet", "will not end my ketosis"),
    "caffeine free": ("lets me sleep afterwards", "has no kick in it"),
    "cruelty free": ("no rabbit suffered for", "was never tried on animals"),
    "fragrance free": ("smells of nothing", "has no perfume"),
    "sulfate free": ("does not foam with harsh stuff", "spares my dyed curls"),
    "dermatologist tested": ("a skin doctor has approved", "was checked in a clinic"),
    "hyaluronic acid": ("plumps with what serums are known for", "fills fine lines with moisture"),
    "dry skin": ("helps when i flake in winter", "soothes rough elbows"),
    "arch support": ("holds up my flat feet", "spares my insoles"),
    "rubber sole": ("grips like a tyre", "bounces under the heel"),
    "memory foam": ("moulds to me", "remembers my shape"),
    "slim fit": ("sits close to the body", "is cut narrow"),
    "high waist": ("comes up to my navel", "covers my belly"),
    "moisture wicking": ("carries sweat away", "stays dry on a long run"),
    "tumble dry": ("may go in the hot drum afterwards", "needs no clothes line"),
    "blackout lining": ("keeps the street lamp out", "makes the nursery dark at noon"),
    "energy efficient": ("goes easy on the power bill", "sips little current"),
    "touch control": ("turns on with a fingertip", "has no buttons to press"),
    "dimmable light": ("i can turn down at night", "goes from bright to a glow"),
}
"""The attributes by the name that the shop uses, each with the words in which customers ask for it."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of product."""

    noun: str
    category: str
    path: str
    query: str
    attributes: tuple[str, ...]
    options: tuple[str, ...]


COLOURS_FOR_SALE = (
    *("forest green", "sky blue", "burgundy", "mustard yellow", "charcoal", "ivory", "teal", "rose pink"),
    *("lavender", "khaki", "coral", "copper", "walnut", "silver", "plum", "turquoise"),
)
OPTIONS: Mapping[str, tuple[str, ...]] = {
    "color": COLOURS_FOR_SALE,
    "size": ("petite", "regular", "tall", "oversized", "junior", "grand"),
    "flavor name": ("sea salt", "apple cinnamon", "honey roast", "smoked paprika", "ginger", "dark cocoa"),
    "pack": ("single", "twin set", "box of six", "crate of twenty", "sampler", "dozen"),
    "scent": ("green tea", "vanilla", "unscented", "sandalwood", "orange peel", "eucalyptus"),
    "style": ("round", "square", "hexagonal", "curved", "tapered", "ribbed"),
}

KINDS = (
    Kind(
        "bookcase",
        "garden",
        "Home & Kitchen › Furniture › Bookcases",
        "bookcases",
        ("solid wood", "easy assemble", "storage space", "space saving", "stain resistant", "lead free"),
        ("color", "size"),
    ),
    Kind(
        "desk lamp",
        "garden",
        "Tools & Home Improvement › Lighting › Desk Lamps",
        "desk lamps",
        (
            "energy efficient",
            "touch control",
            "dimmable light",
            "space saving",
            "long lasting",
            "quick release",
        ),
        ("color", "style"),
    ),
    Kind(
        "headphones",
        "electronics",
        "Electronics › Audio › Headphones",
        "headphones",
        (
            "noise cancelling",
            "hands free",
            "fast charging",
            "long lasting",
            "water resistant",
            "touch control",
        ),
        ("color", "style"),
    ),
    Kind(
        "phone stand",
        "electronics",
        "Cell Phones & Accessories › Accessories › Stands",
        "phone stands",
        ("wireless charging", "fast charging", "non slip", "hands free", "quick release", "space saving"),
        ("color", "style"),
    ),
    Kind(
        "tripod",
        "electronics",
        "Electronics › Camera & Photo › Tripods",
        "tripods and monopods",
        ("carbon fiber", "quick release", "space saving", "non slip", "water resistant", "easy assemble"),
        ("color", "size"),
    ),
    Kind(
        "lunch box",
        "garden",
        "Home & Kitchen › Storage & Organization › Lunch Boxes",
        "lunch boxes",
        ("leak proof", "bpa free", "dishwasher safe", "stainless steel", "eco friendly", "stain resistant"),
        ("color", "size"),
    ),
    Kind(
        "crackers",
        "grocery",
        "Grocery & Gourmet Food › Snacks › Crackers",
        "crackers",
        (
            "gluten free",
            "sugar free",
            "dairy free",
            "certified organic",
            "individually wrapped",
            "keto friendly",
        ),
        ("flavor name", "pack"),
    ),
    Kind(
        "tea",
        "grocery",
        "Grocery & Gourmet Food › Beverages › Tea",
        "tea",
        (
            "caffeine free",
            "certified organic",
            "sugar free",
            "individually wrapped",
            "gluten free",
            "dairy free",
        ),
        ("flavor name", "pack"),
    ),
    Kind(
        "face cream",
        "beauty",
        "Beauty & Personal Care › Skin Care › Face Creams",
        "face creams",
        (
            *("cruelty free", "fragrance free", "dermatologist tested", "hyaluronic acid", "dry skin"),
            "long lasting",
        ),
        ("scent", "pack"),
    ),
    Kind(
        "shampoo",
        "beauty",
        "Beauty & Personal Care › Hair Care › Shampoos",
        "shampoos",
        (
            *("sulfate free", "cruelty free", "fragrance free", "dermatologist tested", "certified organic"),
            "eco friendly",
        ),
        ("scent", "pack"),
    ),
    Kind(
        "sneakers",
        "fashion",
        "Clothing, Shoes & Jewelry › Shoes › Fashion Sneakers",
        "fashion sneakers",
        ("arch support", "rubber sole", "memory foam", "water resistant", "non slip", "machine washable"),
        ("color", "size"),
    ),
    Kind(
        "leggings",
        "fashion",
        "Clothing, Shoes & Jewelry › Women › Leggings",
        "leggings",
        ("high waist", "moisture wicking", "slim fit", "machine washable", "tumble dry", "fade resistant"),
        ("color", "size"),
    ),
    Kind(
        "curtains",
        "garden",
        "Home & Kitchen › Window Treatments › Curtains",
        "curtains",
        (
            "blackout lining",
            "machine washable",
            "tumble dry",
            "fade resistant",
            "eco friendly",
            "easy assemble",
        ),
        ("color", "size"),
    ),
    Kind(
        "bath mat",
        "garden",
        "Home & Kitchen › Bath › Bath Mats",
        "bath mats",
        ("non slip", "memory foam", "machine washable", "tumble dry", "stain resistant", "eco friendly"),
        ("color", "style"),
    ),
)
BRANDS = (
    *("Alvendra", "Boskit", "Corrune", "Dapple & Finch", "Estoril Works", "Fenwhistle", "Galtro", "Hollin"),
    *("Istrana", "Jurabo", "Keldwyn", "Lomira", "Marvok", "Nestling", "Ondaro", "Pellworth"),
)
LINES = (
    "Harbour",
    "Meadow",
    "Summit",
    "Lantern",
    "Orchard",
    "Compass",
    "Pebble",
    "Aurora",
    "Cedar",
    "Willow",
)
OPENERS = (
    *("i need {noun}", "please find me {noun}", "i am looking for {noun}", "can you get me {noun}"),
    *("i want to buy {noun}", "my sister wants {noun}", "it is time for {noun}"),
)
PRAISE = (
    *("It ships from our own warehouse.", "Each piece is checked before it leaves the house."),
    *("The box can be reused.", "We answer letters within a day.", "The design won over our own staff."),
)
