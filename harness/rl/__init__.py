"""Verdicts as rewards: a reward function for TRL, and tasks for verifiers.

`harness.rl.trl` and `harness.rl.verifiers` grade in sandboxes of this machine, or at a service that
`harness serve` offers. A fault of the infrastructure is never a reward of 0.
"""
