"""MMLU-Pro (Wang et al. 2024, arXiv 2406.01574): questions with up to ten options, in fourteen subjects."""

from __future__ import annotations

from harness.benchmarks.benchmark import Split
from harness.benchmarks.data.hub import HubDataset
from harness.benchmarks.multiple_choice import define

# The published prompt without its five examples.
PROMPT = (
    "The following are multiple choice questions (with answers) about {category}. Think step by step and "
    'then finish your answer with "the answer is (X)" where X is the correct letter choice.\n\n'
    "Question:\n{question}\nOptions:\n{options}\nAnswer: Let's think step by step."
)

BENCHMARKS = (
    define(
        "mmlu-pro",
        "choose one of up to ten options, in fourteen subjects",
        prompt=PROMPT,
        tasks=12_032,
        licence="MIT",
        hub=HubDataset("TIGER-Lab/MMLU-Pro", "default", "test"),
        bundled="mmlu-pro.jsonl",
        splits={"dev": Split(HubDataset("TIGER-Lab/MMLU-Pro", "default", "validation"), 70)},
    ),
)
