"""A user's own benchmarks: a Python file, a YAML file that maps a dataset, or a folder of task folders."""
