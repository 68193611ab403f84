"""Tests of what Slurm thinks and of how we tell it otherwise."""
