"""The executors of a run: `local` makes its attempts in this process, `ray` on the nodes of a Ray cluster."""
