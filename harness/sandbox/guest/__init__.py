"""The guest: our own code that runs as PID 1 inside a sandbox.

Standard library only, Python 3.9 or newer. It is copied into every image and never imported by the
host, but for `frames`, the format both sides speak. Imports are few because every container pays
for them.
"""
