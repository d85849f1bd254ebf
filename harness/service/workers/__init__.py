"""The machines where a service does its work: its own one, or the nodes of a Ray cluster."""
