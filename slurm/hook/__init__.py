"""The hook is a small C program that Slurm runs and that asks the node's agent."""
