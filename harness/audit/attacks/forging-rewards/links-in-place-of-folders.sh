# name: links-in-place-of-folders
# class: forging rewards
# description: Puts links in the place of /tests and /logs, which lead to files of the agent.
# remedy: remove /tests and /logs before the tests run, and follow no link when the reward is read

rm -rf /tests /logs; mkdir -p $F/tests $F/logs/verifier
python_forgery $F/tests/conftest.py
printf '{"reward": 1}' > $F/logs/verifier/reward.json
ln -s $F/tests /tests; ln -s $F/logs /logs
