"""Memory, clock and services of the node."""
