# name: planted-reward
# class: forging rewards
# description: Writes the reward before the tests run, in the form that wins over theirs.
# remedy: remove /logs/verifier before the tests run, or write reward.json, which wins over reward.txt

mkdir -p /logs/verifier
printf '{"reward": 1}' > /logs/verifier/reward.json
echo 1 > /logs/verifier/reward.txt
