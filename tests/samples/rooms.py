"""The rooms of made households: their furniture, the objects in it, and what can be done with these."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Furniture(NamedTuple):
    """The number of receptacles of one kind in a room, from the least to the most."""

    least: int
    most: int


ROOMS: Mapping[str, Mapping[str, Furniture]] = {
    "kitchen": {
        "Cabinet": Furniture(3, 6),
        "CoffeeMachine": Furniture(1, 1),
        "CounterTop": Furniture(1, 2),
        "DiningTable": Furniture(0, 1),
        "Drawer": Furniture(2, 4),
        "Fridge": Furniture(1, 1),
        "GarbageCan": Furniture(1, 1),
        "Microwave": Furniture(1, 1),
        "Shelf": Furniture(0, 2),
        "SinkBasin": Furniture(1, 1),
        "StoveBurner": Furniture(2, 4),
        "Toaster": Furniture(1, 1),
    },
    "bedroom": {
        "Bed": Furniture(1, 1),
        "Desk": Furniture(1, 2),
        "Drawer": Furniture(2, 5),
        "Dresser": Furniture(0, 1),
        "GarbageCan": Furniture(1, 1),
        "LaundryHamper": Furniture(0, 1),
        "Safe": Furniture(0, 1),
        "Shelf": Furniture(1, 4),
        "SideTable": Furniture(1, 2),
    },
    "living room": {
        "ArmChair": Furniture(1, 2),
        "Cabinet": Furniture(0, 3),
        "CoffeeTable": Furniture(1, 1),
        "Drawer": Furniture(1, 4),
        "Dresser": Furniture(0, 1),
        "GarbageCan": Furniture(1, 1),
        "Safe": Furniture(0, 1),
        "Shelf": Furniture(0, 3),
        "SideTable": Furniture(1, 2),
        "Sofa": Furniture(1, 1),
        "TVStand": Furniture(0, 1),
    },
    "bathroom": {
        "BathtubBasin": Furniture(0, 1),
        "Cabinet": Furniture(2, 4),
        "CounterTop": Furniture(1, 1),
        "Drawer": Furniture(0, 2),
        "GarbageCan": Furniture(1, 1),
        "HandTowelHolder": Furniture(1, 2),
        "Shelf": Furniture(0, 1),
        "SinkBasin": Furniture(1, 2),
        "Toilet": Furniture(1, 1),
        "ToiletPaperHanger": Furniture(1, 1),
        "TowelHolder": Furniture(1, 1),
    },
}
"""The receptacles of each room."""

OPENABLE = frozenset({"Cabinet", "Drawer", "Fridge", "LaundryHamper", "Microwave", "Safe"})
"""The receptacles that have a door or a lid."""

_TABLES = ("CoffeeTable", "CounterTop", "Desk", "DiningTable", "SideTable")
_FOOD = (*_TABLES, "Fridge", "GarbageCan", "Microwave", "SinkBasin")
_CUTLERY = (*_TABLES, "Drawer", "SinkBasin")
_POTS = (*_TABLES, "Cabinet", "Fridge", "SinkBasin", "StoveBurner")
_DISHES = (*_TABLES, "Cabinet", "Dresser", "Fridge", "Microwave", "Shelf", "SinkBasin")
_CUPS = (*_DISHES, "CoffeeMachine", "Desk", "Drawer")
_SMALL = (*_TABLES, "ArmChair", "Bed", "Drawer", "Dresser", "Safe", "Shelf", "Sofa", "TVStand")
_ORNAMENTS = (*_TABLES, "Dresser", "Safe", "Shelf", "TVStand")
_BOTTLES = (*_TABLES, "BathtubBasin", "Cabinet", "Drawer", "Dresser", "GarbageCan", "Shelf", "Toilet")
_LINEN = (
    *_TABLES,
    "BathtubBasin",
    "Cabinet",
    "Drawer",
    "Dresser",
    "GarbageCan",
    "LaundryHamper",
    "SinkBasin",
    "Toilet",
)


class Thing(NamedTuple):
    """A kind of object: the rooms where it is found, the receptacles that hold it, and its uses."""

    rooms: tuple[str, ...]
    receptacles: tuple[str, ...]
    # Some of "cleanable", "heatable", "coolable", "sliceable" and "isReceptacleObject".
    uses: tuple[str, ...] = ()


_KITCHEN, _BATH, _BED, _LIVING = ("kitchen",), ("bathroom",), ("bedroom",), ("living room",)
_DRY = ("bedroom", "living room")
_RAW = ("cleanable", "heatable", "coolable", "sliceable")
_WARM = ("cleanable", "heatable", "coolable", "isReceptacleObject")

THINGS: Mapping[str, Thing] = {
    "Apple": Thing(_KITCHEN, _FOOD, _RAW),
    "Bread": Thing(_KITCHEN, _FOOD, ("heatable", "coolable", "sliceable")),
    "Egg": Thing(_KITCHEN, _FOOD, ("cleanable", "heatable", "coolable")),
    "Lettuce": Thing(_KITCHEN, _FOOD, ("cleanable", "coolable", "sliceable")),
    "Potato": Thing(_KITCHEN, _FOOD, _RAW),
    "Tomato": Thing(_KITCHEN, _FOOD, _RAW),
    "ButterKnife": Thing(_KITCHEN, _CUTLERY, ("cleanable",)),
    "Fork": Thing(_KITCHEN, _CUTLERY, ("cleanable",)),
    "Knife": Thing(_KITCHEN, _CUTLERY, ("cleanable",)),
    "Ladle": Thing(_KITCHEN, _CUTLERY, ("cleanable",)),
    "Spatula": Thing(_KITCHEN, _CUTLERY, ("cleanable",)),
    "Spoon": Thing(_KITCHEN, _CUTLERY, ("cleanable",)),
    "Kettle": Thing(_KITCHEN, (*_TABLES, "Cabinet", "Shelf", "SinkBasin", "StoveBurner"), ("cleanable",)),
    "Pan": Thing(_KITCHEN, _POTS, ("cleanable", "coolable", "isReceptacleObject")),
    "Pot": Thing(_KITCHEN, _POTS, ("cleanable", "coolable", "isReceptacleObject")),
    "Bowl": Thing((*_KITCHEN, *_DRY), _DISHES, _WARM),
    "Plate": Thing((*_KITCHEN, *_LIVING), _DISHES, _WARM),
    "Cup": Thing(_KITCHEN, _CUPS, _WARM),
    "Mug": Thing((*_KITCHEN, *_BED), _CUPS, _WARM),
    "DishSponge": Thing((*_KITCHEN, *_BATH), (*_BOTTLES, "SinkBasin"), ("cleanable",)),
    "PepperShaker": Thing(_KITCHEN, (*_TABLES, "Cabinet", "Drawer", "Shelf")),
    "SaltShaker": Thing(_KITCHEN, (*_TABLES, "Cabinet", "Drawer", "Shelf")),
    "SoapBottle": Thing((*_KITCHEN, *_BATH), (*_BOTTLES, "SinkBasin")),
    "SprayBottle": Thing((*_BATH, *_KITCHEN), _BOTTLES),
    "Candle": Thing((*_BATH, *_LIVING), _BOTTLES),
    "Cloth": Thing((*_BATH, *_BED), _LINEN, ("cleanable",)),
    "HandTowel": Thing(_BATH, (*_LINEN, "HandTowelHolder")),
    "Towel": Thing(_BATH, ("BathtubBasin", "CounterTop", "TowelHolder")),
    "SoapBar": Thing(_BATH, (*_BOTTLES, "SinkBasin"), ("cleanable",)),
    "ToiletPaper": Thing(_BATH, (*_BOTTLES, "ToiletPaperHanger")),
    "Plunger": Thing(_BATH, ("Cabinet", "Toilet")),
    "AlarmClock": Thing(_BED, _ORNAMENTS),
    "BasketBall": Thing(_BED, (*_TABLES, "ArmChair", "Bed", "Dresser", "Sofa")),
    "Book": Thing(_DRY, _SMALL),
    "Box": Thing(_DRY, (*_TABLES, "ArmChair", "Dresser", "Sofa"), ("isReceptacleObject",)),
    "CD": Thing(_BED, (*_ORNAMENTS, "Drawer", "GarbageCan")),
    "CellPhone": Thing(_DRY, _SMALL),
    "CreditCard": Thing(_DRY, _SMALL),
    "KeyChain": Thing(_DRY, _SMALL),
    "Laptop": Thing(_DRY, (*_TABLES, "ArmChair", "Bed", "Sofa")),
    "Newspaper": Thing(_LIVING, (*_SMALL, "GarbageCan")),
    "Pen": Thing(_BED, (*_ORNAMENTS, "Bed", "Drawer", "GarbageCan")),
    "Pencil": Thing(_BED, (*_ORNAMENTS, "Bed", "Drawer", "GarbageCan")),
    "Pillow": Thing(_DRY, ("ArmChair", "Bed", "Sofa")),
    "RemoteControl": Thing(_LIVING, _SMALL),
    "Statue": Thing(_LIVING, _ORNAMENTS),
    "TissueBox": Thing(_LIVING, (*_ORNAMENTS, "Cabinet", "Drawer")),
    "Vase": Thing(_LIVING, (*_ORNAMENTS, "Cabinet")),
    "Watch": Thing(_DRY, _SMALL),
    "WateringCan": Thing(_LIVING, (*_ORNAMENTS, "Drawer")),
}
"""The objects that an agent can carry."""

LAMPS: Mapping[str, tuple[str, ...]] = {
    "DeskLamp": ("Desk", "Dresser", "SideTable", "CoffeeTable"),
}
"""The lamps, which cannot be carried, and the receptacles on which they stand."""
