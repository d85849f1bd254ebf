"""Verdicts and results on programs: batches, rewards, and the API of SandboxFusion."""
