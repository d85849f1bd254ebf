"""`harness card`: several benchmarks on one page, from new runs or from those that exist."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from harness.cli.app import app
from harness.core.errors import UsageError
from harness.reports.card import list_differences, name_result, read_card


def invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["card", *map(str, arguments)])


def make_card(folder: Path, agent: str, *options: str | Path) -> Path:
    """Return the file of a card, in JSON, of two benchmarks that need no container."""
    file = folder / f"{agent}.json"
    common = ("--data", "bundled", "--agent", agent, "--output-dir", folder / "runs", "-q", "-o", file)
    result = invoke(*common, *options)
    assert result.exit_code == 0, result.output
    return file


def test_a_card_has_each_benchmark_and_its_conditions(tmp_path: Path) -> None:
    page, text = tmp_path / "card.html", tmp_path / "card.md"
    names = ("aime2025", "bbh", "gpqa-diamond", "gsm8k", "mmlu-pro")
    sets = [word for name in names for word in ("-b", name)]
    card = read_card(make_card(tmp_path, "oracle", *sets, "--n-samples", "2", "-o", page, "-o", text))
    assert [(each.benchmark, each.rate, each.attempts == 2 * each.tasks) for each in card.results] == [
        (name, 1.0, True) for name in names
    ]
    assert all("maj@2" in each.figures and each.is_bundled and each.low for each in card.results)
    assert "<h2" in page.read_text()
    assert "<script" not in page.read_text()
    assert "| `aime2025` (bundled sample) | 100.0 % (61.0 % to 100.0 %) | 6 | 12 |" in text.read_text()
    assert "- prompts: `[...] Please reason step by step" in text.read_text()
    assert all("seconds of an attempt" in each.conditions for each in card.results)
    folders = sorted((tmp_path / "runs").glob("*/"))
    again = invoke("--run", folders[0], "--run", folders[1])
    assert "| `bbh` (bundled sample) | 100.0 %" in again.output


def test_two_cards_are_compared_by_benchmark(tmp_path: Path) -> None:
    sets = tmp_path / "sets.yaml"
    sets.write_text("- aime2025\n- {benchmark: bbh, n_samples: 2}\n")
    before = make_card(tmp_path, "oracle", "-b", "aime2025", "-b", "gpqa-diamond")
    after = make_card(tmp_path, "null", "--sets", sets)
    rows = [*list_differences(read_card(before), read_card(after))]
    assert [(name, note) for name, _, _, note in rows] == [
        ("aime2025", "-100.0 points, beyond both intervals"),
        ("bbh", "only on the second card"),
        ("gpqa-diamond", "only on the first card"),
    ]


def test_a_set_may_be_listed_again_with_other_options_alone(tmp_path: Path) -> None:
    sets = tmp_path / "sets.yaml"
    sets.write_text("- gpqa-diamond\n- {benchmark: gpqa-diamond, options: {shuffle_seed: 3}}\n")
    card = read_card(make_card(tmp_path, "oracle", "--sets", sets))
    assert [each.conditions["window"][-1] for each in card.results] == ["0", "3"]
    assert len({name_result(card, each) for each in card.results}) == len(card.results)
    sets.write_text("- bbh\n- bbh\n")
    refused = invoke("--sets", sets, "--data", "bundled", "--agent", "null", "--output-dir", tmp_path / "no")
    assert "bbh is listed twice" in str(refused.exception)
    refused = invoke(
        "-b", "bbh", "-b", "gpqa-diamond", "--option", "shuffle_seed=3", "--output-dir", tmp_path / "no"
    )
    assert "bbh has no options" in str(refused.exception)
    assert not (tmp_path / "no").exists()


def test_a_file_that_is_not_a_card_is_refused(tmp_path: Path) -> None:
    for text in ("[]", "{}", "no", json.dumps({"title": "x", "made_with": "y", "results": [{"a": 1}]})):
        (tmp_path / "card.json").write_text(text)
        with pytest.raises(UsageError, match="is not a card of harness"):
            read_card(tmp_path / "card.json")
