"""The seal level `proxied`: the tests and the agent's code run as different users, in different processes."""
