"""Grade samples with OpenCompass's evaluator of LiveCodeBench."""

import json

import request
from opencompass.datasets.livecodebench.evaluator import evaluate_generations
from opencompass.datasets.livecodebench.pass_k_utils import compute_metrics_from_results


def grade(asked):
    problem = {"input_output": json.dumps(request.as_live_code_bench(asked))}
    results, _ = evaluate_generations(
        [problem], [asked["programs"]], num_process_evaluate=1, timeout=asked["seconds"]
    )
    return [bool(compute_metrics_from_results({0: [each]}, [1])["pass@1"] > 0) for each in results[0]]


if __name__ == "__main__":
    request.answer(grade)
