"""The categories of AgentBench. Each `category.py` of an environment declares one. No list names them."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import create_model, model_validator

from harness import environments
from harness.benchmarks.category import Category, CategoryOptions, NoOptions, Protocol
from harness.benchmarks.options import Options
from harness.core.errors import UsageError
from harness.environments.published import FUNCTION_CALLS, LENIENT

WEB_BROWSING = "mind2web"
"""Upstream's eighth category, which is browsing recorded web pages."""
_WEB_BROWSING_NAMES = (WEB_BROWSING, "mind 2 web", "m2w", "wb", "web browsing")


@cache
def categories() -> Mapping[str, Category]:
    """Return the categories by name, in the order of reports."""
    names = {
        path.parent.name for folder in environments.__path__ for path in Path(folder).glob("*/category.py")
    }
    found: list[Category] = [
        importlib.import_module(f"{environments.__name__}.{name}.category").CATEGORY for name in names
    ]
    return {category.name: category for category in sorted(found, key=lambda each: each.place)}


@cache
def folders() -> Mapping[str, str]:
    """Return the name of the category of each folder in upstream's `data/`."""
    return {folder: name for name, category in categories().items() for folder in category.folders}


def category_of(environment: str) -> str | None:
    """Return the category for an environment's name as people write it, or None for an unknown name.

    Case, blanks, dashes and underscores do not matter.
    """
    return _names().get(re.sub(r"[\s_-]+", "", environment).lower())


@cache
def _names() -> Mapping[str, str]:
    known = {name: (name, *category.aliases) for name, category in categories().items()}
    known[WEB_BROWSING] = _WEB_BROWSING_NAMES
    return {alias.replace(" ", ""): name for name, aliases in known.items() for alias in aliases}


class FunctionCallOptions(Options):
    """The options of the protocol `fc`."""

    # Whether arguments are taken by their places and not by their names, as upstream does.
    lenient: bool = False


class AgentBenchOptions(Options):
    """The options that all categories share. `options_model` adds a field for each category with its own."""

    # The version of AgentBench whose tools, texts and limits on turns apply.
    protocol: Protocol = "own"
    fc: FunctionCallOptions = FunctionCallOptions()

    @model_validator(mode="after")
    def _require_protocol(self) -> AgentBenchOptions:
        if self.fc.lenient and self.protocol != "fc":
            raise UsageError("fc.lenient needs the protocol fc", hint="add --option protocol=fc")
        return self

    def name_protocol(self, category: Category) -> str | None:
        """Return the published protocol of a category's tasks, None for the environment's own."""
        if self.protocol != "fc" or "fc" not in category.turns:
            return None
        return LENIENT if self.fc.lenient else FUNCTION_CALLS

    def of(self, category: Category) -> CategoryOptions:
        """Return the options of a run for one category."""
        own = getattr(self, category.name, None)
        return CategoryOptions(self.protocol, category.options() if own is None else own)


@cache
def options_model() -> type[AgentBenchOptions]:
    """Return the model of all options. A category's own options are under the category's name."""
    fields: dict[str, Any] = {
        name: (category.options, category.options())
        for name, category in sorted(categories().items())
        if category.options is not NoOptions
    }
    return create_model("AgentBenchOptions", __base__=AgentBenchOptions, **fields)
