"""Grade samples with evalscope's copy of LiveCodeBench's runner."""

import json

import request
from evalscope.benchmarks.live_code_bench.evaluate_utils import codegen_metrics
from evalscope.benchmarks.live_code_bench.pass_k_utils import compute_metrics_from_results


def grade(asked):
    problem = {"input_output": json.dumps(request.as_live_code_bench(asked))}
    _, results, _ = codegen_metrics([problem], [asked["programs"]], k_list=[1], timeout=asked["seconds"])
    return [bool(compute_metrics_from_results({0: [each]}, [1])["pass@1"] > 0) for each in results[0]]


if __name__ == "__main__":
    request.answer(grade)
