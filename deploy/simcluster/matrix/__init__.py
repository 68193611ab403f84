"""The matrix plays what can happen to a node and its jobs on a real Slurm and shows each end beside what it must be."""
