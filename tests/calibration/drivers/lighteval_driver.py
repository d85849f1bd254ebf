"""Grade samples with lighteval's metric of LiveCodeBench."""

import json

import request
from lighteval.tasks.tasks.lcb.codegen_metrics import codegen_metrics, compute_metrics_from_results


def grade(asked):
    problem = {"input_output": json.dumps(request.as_live_code_bench(asked))}
    _, results = codegen_metrics(
        [problem], [asked["programs"]], k_list=[1], num_process_evaluate=1, timeout=asked["seconds"]
    )
    return [bool(compute_metrics_from_results({0: [each]}, [1])["pass@1"] > 0) for each in results[0]]


if __name__ == "__main__":
    request.answer(grade)
