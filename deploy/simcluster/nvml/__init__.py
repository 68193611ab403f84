"""A stand-in for libnvidia-ml.so.1 that answers from a state file, one per simulated host."""
