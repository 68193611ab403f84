"""The agent: the one resident process of a node that answers Slurm's hooks."""
