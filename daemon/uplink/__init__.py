"""A worker process of its own speaks TLS and resolves names, so that the agent never waits for either."""
