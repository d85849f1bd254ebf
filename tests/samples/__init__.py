"""Make the bundled samples of AgentBench's worlds: a shop, questions on a graph, and household games.

The samples are data in `harness/benchmarks/data/bundled/agentbench`. This tool writes them again, and tests
take more of the same from it:

    PYTHONPATH=tests python -m samples            write the bundled samples
    PYTHONPATH=tests python -m samples FOLDER     write them into another folder
"""

from __future__ import annotations

from pathlib import Path

from harness.benchmarks.data import source
from samples import households, questions, shop

BUNDLED = Path(source.__file__).parent / "bundled" / "agentbench"
SEED = 15
QUESTIONS = 20
PRODUCTS = 1000


def write_samples(folder: Path) -> None:
    """Write the samples of all worlds that have a generator into a folder of upstream's layout."""
    shop.generate_records(SEED, PRODUCTS).write(folder / "webshop")
    questions.write_questions(folder / "knowledgegraph", "dev", QUESTIONS, SEED)
    households.write_games(folder / "alfworld", "dev", [1])
