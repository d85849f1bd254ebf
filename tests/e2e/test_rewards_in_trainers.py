"""The packages of trainers, as PyPI serves them, get their rewards from real sandboxes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from docker import APIClient
from e2e.command_line import Harness
from e2e.served_process import start_service
from model_server import Asked, ModelServer, RawReply
from readers import TRL, VERIFIERS
from sealed_tasks import build_image, write_task
from streamed_events import stream_completion

from harness import load_benchmark

# The first test of each package installs it, which takes minutes.
pytestmark = pytest.mark.timeout(1200)

# The vocabulary of the model is two programs, so that it writes right and wrong ones without training.
TRL_PROGRAM = """
import json, sys, warnings
warnings.simplefilter("ignore")
import torch
from datasets import Dataset
from tokenizers import Tokenizer, models
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer
from harness.rl.trl import VerdictReward

RIGHT, WRONG = "def add(a, b): return a + b", "def add(a, b): return 3"
words = {word: number for number, word in enumerate(["Write add.", RIGHT, WRONG, "<end>"])}
words_only = Tokenizer(models.WordLevel(words, unk_token="<end>"))
tokenizer = PreTrainedTokenizerFast(tokenizer_object=words_only, eos_token="<end>", pad_token="<end>")
torch.manual_seed(1)
model = GPT2LMHeadModel(
    GPT2Config(
        vocab_size=len(words), n_positions=8, n_embd=8, n_layer=1, n_head=1, bos_token_id=3, eos_token_id=3
    )
)
tests = json.dumps({"kind": "asserts", "tests": ["assert add(1, 2) == 3", "assert add(2, 2) == 4"]})
rows = [{"prompt": "Write add.", "tests": tests}] * 8
settings = GRPOConfig(
    output_dir=sys.argv[1], max_steps=3, per_device_train_batch_size=8, num_generations=4,
    max_completion_length=1, logging_steps=1, report_to=[], use_cpu=True, save_strategy="no",
    disable_tqdm=True, log_completions=False,
)
graded = []

class Recorded(VerdictReward):
    def __call__(self, prompts, completions, **columns):
        rewards = super().__call__(prompts, completions, **columns)
        graded.extend(zip(completions, rewards))
        return rewards

with Recorded() as reward:
    trainer = GRPOTrainer(
        model, reward, args=settings, train_dataset=Dataset.from_list(rows), processing_class=tokenizer
    )
    trainer.train()
name = "rewards/verdict/mean"
print(json.dumps([graded, [entry[name] for entry in trainer.state.log_history if name in entry]]))
"""
TASKSET = 'from harness.rl.verifiers import BenchmarkTaskset\n\n__all__ = ["BenchmarkTaskset"]\n'
VERIFIERS_PROGRAM = """
import asyncio, json, os, sys
folder = sys.argv[1]
sys.path.insert(0, folder)
import verifiers.v1 as vf
from verifiers.v1.cli.validate import main
from harness import load_benchmark

main([
    "mbpp-taskset", "--taskset.benchmark", "mbpp", "--taskset.task.data", "bundled",
    "--runtime.type", "subprocess", "-n", "3", "--rich", "False", "--output-dir", folder,
])
config = vf.taskset_config_type("mbpp-taskset").model_validate(
    {"id": "mbpp-taskset", "benchmark": "mbpp", "task": {"data": "bundled"}}
)
task = next(iter(vf.load_taskset(config)))
solution = load_benchmark("mbpp", data="bundled").references[task.data.task_id].solution

def make_trace(reply):
    agent = vf.AgentInfo(config=vf.AgentConfig())
    data = vf.TraceTask(type=type(task).__name__, data=task.data)
    return vf.Trace(task=data, agent=agent, root_reply=reply)

async def score(task, reply):
    trace = make_trace(reply)
    try:
        await task.score(trace)
    except vf.RolloutError as error:
        return [type(error).__name__, trace.rewards["verdict"]]
    return [trace.rewards["verdict"].value, trace.metrics]

chosen = vf.taskset_config_type("mbpp-taskset").model_validate({
    "id": "mbpp-taskset",
    "benchmark": "livecodebench",
    "task": {"data": "bundled", "split": "test", "options": {"difficulty": ["easy"]}},
})
easy = [task.data.task_id for task in vf.load_taskset(chosen)]

away = type(task)(task.data, task.config.model_copy(update={"url": "http://127.0.0.1:9"}))

async def score_all():
    from harness.rl import verifiers
    os.environ[verifiers.TOKEN_VARIABLE] = "token-of-the-test"
    replies = [f"Here:\\n```python\\n{solution}\\n```", "I cannot.", "```python\\nraise SystemExit(0)\\n```"]
    return [await score(task, reply) for reply in replies] + [await score(away, replies[0])]

print(json.dumps([asyncio.run(score_all()), solution, task.data.model_dump_json(), easy]))
"""
VALIDATE_PROGRAM = """
import os, sys
folder, url, token = sys.argv[1:]
sys.path.insert(0, folder)
os.environ["HARNESS_SERVE_TOKEN"] = token
from verifiers.v1.cli.validate import main

main([
    "mbpp-taskset", "--taskset.benchmark", "mbpp", "--taskset.task.data", "bundled",
    "--taskset.task.url", url, "--runtime.type", "subprocess", "-n", "3", "--rich", "False",
    "--output-dir", folder,
])
"""
# It keeps its programs and those of uv in the home folder.
EVAL_PROGRAM = """
import os, pathlib, sys
folder, url = sys.argv[1:]
sys.path.insert(0, folder)
programs = pathlib.Path(sys.executable).parent
os.environ |= {"HOME": folder, "PATH": f"{programs}:{os.environ['PATH']}", "TEST_KEY": "key"}
os.environ["UV_NATIVE_TLS"] = "true"
from verifiers.v1.cli.eval.main import main
main([
    "mbpp-taskset", "--env.taskset.benchmark", "mbpp", "--env.taskset.task.data", "bundled",
    "--env.agent.harness.id", "null", "--env.agent.runtime.type", "subprocess",
    "-n", "3", "-r", "1", "-m", "scripted", "--client.base-url", url, "--client.api-key-var", "TEST_KEY",
    "--no-rich", "--no-push", "--output-dir", folder,
])
"""
# The token of the service is the last argument, because verifiers writes its config to the results.
EPISODE_PROGRAM = """
import os, pathlib, sys
folder, url, tasks, service, token = sys.argv[1:]
sys.path.insert(0, folder)
programs = pathlib.Path(sys.executable).parent
os.environ |= {"HOME": folder, "PATH": f"{programs}:{os.environ['PATH']}", "TEST_KEY": "key"}
os.environ |= {"UV_NATIVE_TLS": "true", "HARNESS_SERVE_TOKEN": token}
from verifiers.v1.cli.eval.main import main
main([
    "folder-taskset", "--env.taskset.benchmark", tasks, "--env.taskset.task.url", service,
    "--env.player.harness.id", "null", "--env.player.runtime.type", "subprocess",
    "-n", "2", "-r", "1", "-m", "scripted", "--client.base-url", url, "--client.api-key-var", "TEST_KEY",
    "--no-rich", "--no-push", "--output-dir", folder,
])
"""
EPISODES = """from harness.rl.verifiers import EpisodeEnv, EpisodeTaskset

__all__ = ["EpisodeEnv", "EpisodeTaskset"]
"""


def test_a_trainer_of_trl_trains_on_verdicts(tmp_path: Path) -> None:
    graded, means = json.loads(TRL.run(TRL_PROGRAM, tmp_path).splitlines()[-1])
    assert len(graded) == 24
    assert {(text, reward) for text, reward in graded if text.endswith(("a + b", "return 3"))} == {
        ("def add(a, b): return a + b", 1.0),
        ("def add(a, b): return 3", 0.0),
    }
    assert means == [sum(reward for _, reward in graded[start : start + 8]) / 8 for start in (0, 8, 16)]


def test_a_taskset_of_verifiers_rewards_replies_and_raises_after_faults(tmp_path: Path) -> None:
    (tmp_path / "mbpp_taskset.py").write_text(TASKSET)
    lines = VERIFIERS.run(VERIFIERS_PROGRAM, tmp_path).splitlines()
    scores, solution, data, easy = json.loads(lines[-1])
    (summary,) = tmp_path.rglob("summary.json")
    # The solution of the benchmark passes, and an untouched task does not.
    assert json.loads(summary.read_text())["outcomes"]["valid"] == 3
    assert scores[0][0] == 1.0
    assert scores[0][1]["tests"] == scores[0][1]["tests_passed"] > 0
    assert [score[0] for score in scores[1:3]] == [0.0, 0.0]
    # A fault is an error of the rollout, and its reward stays open.
    assert scores[3] == ["TaskError", None]
    assert solution not in json.loads(data).values()
    assert easy == [
        task.id for task in load_benchmark("livecodebench", data="bundled", difficulty=["easy"]).tasks
    ]


def test_the_solutions_of_a_taskset_are_checked_at_its_service(tmp_path: Path, harness: Harness) -> None:
    (tmp_path / "mbpp_taskset.py").write_text(TASKSET)
    with start_service(harness, "-b", "mbpp", "--data", "bundled") as served:
        url = served.url.rpartition("/")[0]
        VERIFIERS.run(VALIDATE_PROGRAM, tmp_path, url, served.token)
    (summary,) = tmp_path.rglob("summary.json")
    assert json.loads(summary.read_text())["outcomes"]["valid"] == 3


def test_rollouts_of_verifiers_are_rewarded(tmp_path: Path, running_server: ModelServer) -> None:
    (tmp_path / "mbpp_taskset.py").write_text(TASKSET)
    benchmark = load_benchmark("mbpp", data="bundled")
    wrong = benchmark.tasks[1]

    def answer(asked: Asked) -> RawReply:
        task = next(task for task in benchmark.tasks if task.prompt in str(asked.messages[-1]["content"]))
        solution = "x = 1" if task is wrong else benchmark.references[task.id].solution
        return stream_completion(f"```python\n{solution}\n```")

    running_server.script = answer
    VERIFIERS.run(EVAL_PROGRAM, tmp_path, running_server.url)
    (path,) = tmp_path.rglob("traces.jsonl")
    traces = [json.loads(line)["traces"][0] for line in path.read_text().splitlines()]
    rewards = {trace["task"]["data"]["task_id"]: trace["rewards"]["verdict"]["score"] for trace in traces}
    assert rewards == {task.id: 0.0 if task is wrong else 1.0 for task in benchmark.tasks[:3]}


def test_rollouts_of_verifiers_act_in_task_folders_and_get_the_reward_of_their_tests(
    tmp_path: Path, harness: Harness, running_server: ModelServer, client: APIClient
) -> None:
    (tmp_path / "folder_taskset.py").write_text(EPISODES)
    image = build_image(client)
    for name, instruction in (("right", "Write 42 into /app/answer.txt."), ("wrong", "Write it.")):
        toml = "[environment]\nmemory_mb = 512\n"
        write_task(tmp_path / "tasks" / name, image, toml=toml, instruction=instruction)

    def act(asked: Asked) -> RawReply:
        said = [str(message["content"]) for message in asked.messages if message["role"] == "user"]
        value = 42 if "Write 42" in said[0] else 41
        command = f"echo {value} > /app/answer.txt"
        tool, arguments = [("bash", {"command": command}), ("submit", {"answer": "done"})][len(said) > 1]
        return stream_completion(f"Act: {tool}\n\n```json\n{json.dumps(arguments)}\n```")

    running_server.script = act
    tasks = str(tmp_path / "tasks")
    with start_service(harness, "-b", tasks, "--seal", "work") as served:
        url = served.url.rpartition("/")[0]
        VERIFIERS.run(EPISODE_PROGRAM, tmp_path, running_server.url, tasks, url, served.token)
    (path,) = tmp_path.rglob("traces.jsonl")
    traces = [json.loads(line)["traces"][0] for line in path.read_text().splitlines()]
    rewards = {trace["task"]["data"]["task_id"]: trace["rewards"]["verdict"]["score"] for trace in traces}
    assert rewards == {"right": 1.0, "wrong": 0.0}
