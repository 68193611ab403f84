"""What Slurm thinks of a node or a job, and how to tell it otherwise."""
