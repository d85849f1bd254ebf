"""The protocol of OpenEnv over the tasks of a benchmark."""
