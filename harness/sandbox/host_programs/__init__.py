"""Programs of the user on this machine: each one under a supervisor, which ends its whole process tree."""
