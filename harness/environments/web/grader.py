"""Grade the purchase that an agent made in the shop, by WebShop's reward."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from harness.core.text import escape_text, shorten
from harness.core.types import Phase, Status, Submission, Verdict
from harness.environments.grader import StateGrader
from harness.environments.host_environment import HostEnvironment
from harness.environments.web.products import Goal, PublishedShop
from harness.environments.web.reward import Reward, TaggerChoice, load_tagger, reward_purchase
from harness.environments.web.session import Session

NOTHING_BOUGHT = "the agent bought nothing"
_SHOWN_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class ShopGoal:
    """The goal of a session, and the shop in which it takes place."""

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
