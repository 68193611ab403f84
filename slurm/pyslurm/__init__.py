"""pyslurm, Python's binding to libslurm, is used in a process of its own only: it never enters ours."""
