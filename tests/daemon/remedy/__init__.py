"""What the agent does to its own node, tried on simulated ones."""
